"""The snippets that people pass around, ported under `--npu-only` to the form they show."""

from jumar.port import Mode, Options, port_text

BEFORE = """CALCULATE_DEVICE = “gpu:0”  
torch.cuda.set_device(CALCULATE_DEVICE)
# 放到device的两种方法  
model = model.cuda() # 写法1
model = model.to(CALCULATE_DEVICE) # 写法2
# 将输入也从host放到device
images = images.to(CALCULATE_DEVICE)
target = target.to(CALCULATE_DEVICE)
torch.tensor([1,2,3],dtype=torch.long,device='cuda')
torch.cuda.BoolTensor([1,2,3])
"""  # noqa: W291

AFTER = """CALCULATE_DEVICE = “npu:0”  
torch.npu.set_device(CALCULATE_DEVICE)
# 放到device的两种方法  
model = model.npu() # 写法1
model = model.to(CALCULATE_DEVICE) # 写法2
# 将输入也从host放到device
images = images.to(CALCULATE_DEVICE)
target = target.to(CALCULATE_DEVICE)
torch.tensor([1,2,3],dtype=torch.long,device='npu')
torch.npu.BoolTensor([1,2,3])
"""  # noqa: W291

NPU = Options(mode=Mode.NPU_ONLY)


def test_the_single_card_snippet_comes_out_as_shown() -> None:
    assert port_text(BEFORE, NPU).text == AFTER
    plain = str.maketrans("“”", '""')
    assert port_text(BEFORE.translate(plain), NPU).text == AFTER.translate(plain)


def test_the_import_follows_torch() -> None:
    text = "import torch\n.....\n".replace(".....", "x = x.cuda()")
    assert port_text(text, NPU).text == "import torch\nimport torch_npu\nx = x.npu()\n"


def test_the_many_card_lines_come_out_as_shown() -> None:
    before = (
        "import torch\ndevice = torch.device('cuda', local_rank)\n"
        'torch.distributed.init_process_group(backend="nccl",rank=local_rank)\n'
        "torch.cuda.set_device(device)\n"
    )
    after = (
        "import torch\nimport torch_npu\ndevice = torch.device('npu', local_rank)\n"
        'torch.distributed.init_process_group(backend="hccl",rank=local_rank)\n'
        "torch.npu.set_device(device)\n"
    )
    assert port_text(before, NPU).text == after
