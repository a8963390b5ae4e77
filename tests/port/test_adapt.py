"""Scripts restructured on request: many cards, ModelArts, Xihe."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.errors import BadInput
from jumar.inject.simulated import environment
from jumar.port import Mode, Options
from jumar.port.run import Target, port_repository

SCRIPT = """import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    device = torch.device("cuda")
    train_data = make_data()
    train_loader = DataLoader(train_data, batch_size=8, shuffle=True)
    test_loader = DataLoader(make_data(), batch_size=8)
    model = nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(args.epochs):
        for x, y in train_loader:
            loss = model(x.to(device)).sum()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
        torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
"""


def port(tmp_path: Path, text: str, **choices: str | bool) -> tuple[Path, list[str]]:
    source = tmp_path / "src"
    source.mkdir(parents=True)
    (source / "train.py").write_text(text)
    options = Options(mode=Mode.NPU_ONLY, **choices)  # pyright: ignore[reportArgumentType]
    outcome = port_repository(source, options, target=Target(tmp_path / "out"))
    assert outcome.report is not None
    return tmp_path / "out", [f.code for _, f in outcome.report.findings]


def test_single_card_to_many_makes_each_edit_in_its_place(tmp_path: Path) -> None:
    out, findings = port(tmp_path, SCRIPT, distributed="train.py")
    assert findings == []
    lines = [line.strip() for line in (out / "train.py").read_text().splitlines()]
    expected = [
        "import torch_npu",
        'local_rank = int(os.environ["LOCAL_RANK"])',
        'world_size = int(os.environ["WORLD_SIZE"])',
        "device = torch.device('npu', local_rank)",
        'torch.distributed.init_process_group(backend="hccl")',
        "atexit.register(torch.distributed.destroy_process_group)",
        "torch.npu.set_device(device)",
        "train_sampler = torch.utils.data.distributed.DistributedSampler(train_data)",
        "train_loader = DataLoader(train_data, batch_size=8, sampler=train_sampler)",
        "test_loader = DataLoader(make_data(), batch_size=8)",
        "model = nn.Linear(4, 2).to(device)",
        "model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank], output_device=local_rank)",
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        "for epoch in range(args.epochs):",
        "train_sampler.set_epoch(epoch)",
        "if torch.distributed.get_rank() == 0:",
        "print(epoch, loss.item())",
        'torch.save(model.module.state_dict(), "model.pt")',
    ]  # fmt: skip
    positions = [lines.index(line) for line in expected]
    assert positions == sorted(positions)
    assert "import os" in lines
    assert "import atexit" in lines
    script = (out / "run_distributed_npu.sh").read_text()
    assert "torch.distributed.run" in script
    subprocess.run(["sh", "-n", out / "run_distributed_npu.sh"], check=True, timeout=180)


def test_data_parallel_is_replaced_not_wrapped_again(tmp_path: Path) -> None:
    text = SCRIPT.replace("    optimizer =", "    model = nn.DataParallel(model)\n    optimizer =")
    out, _ = port(tmp_path, text, distributed="train.py")
    ported = (out / "train.py").read_text()
    assert "nn.DataParallel(" not in ported
    assert ported.count("DistributedDataParallel(") == 1


LOOSE = """import torch
from torch import nn
from torch.utils import data

net = nn.Linear(2, 1)
net = nn.DataParallel(net)
opt = torch.optim.SGD(net.parameters(), 0.1)
net.cuda()
loader = data.DataLoader(make_data(), 8, True)
for epoch in range(2):
    for x, y in loader:
        net(x.cuda()).sum().backward()
        opt.step()
    if epoch: print(epoch, net.module.weight)
    state = {"net": net.state_dict(), "file": "net.pt"}
    torch.save(state, "net.pt")
"""


def test_a_loose_script_is_put_in_order(tmp_path: Path) -> None:
    out, findings = port(tmp_path, LOOSE, distributed="train.py")
    assert findings == []
    lines = [line.strip() for line in (out / "train.py").read_text().splitlines()]
    expected = [
        "net = nn.Linear(2, 1)",
        "opt = torch.optim.SGD(net.parameters(), 0.1)",
        "net.npu()",
        "net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[local_rank], output_device=local_rank)",
        "loader = data.DataLoader(sampled_data, 8, False, sampler=train_sampler)",
        "if epoch: torch.distributed.get_rank() == 0 and print(epoch, net.module.weight)",
        'state = {"net": net.module.state_dict(), "file": "net.pt"}',
        'torch.save(state, "net.pt")',
    ]  # fmt: skip
    positions = [lines.index(line) for line in expected]
    assert positions == sorted(positions)
    assert lines.index("sampled_data = make_data()") < positions[4]
    assert sum("make_data()" in line for line in lines) == 1
    assert not any("nn.DataParallel(" in line for line in lines)


def test_a_method_of_the_models_own_is_told_and_nothing_changed(tmp_path: Path) -> None:
    text = SCRIPT.replace("model(x.to(device))", "model.score(x.to(device))")
    out, findings = port(tmp_path, text, distributed="train.py")
    assert findings == ["JP901"]
    assert "DistributedDataParallel" not in (out / "train.py").read_text()


@pytest.mark.full
def test_a_ported_loop_trains_with_two_ranks(tmp_path: Path) -> None:
    """The same edits in portable form, run as they are on simulated NPUs."""
    data = "def make_data():\n    return [(torch.ones(4) * i, i) for i in range(16)]\n\n\n"
    source = tmp_path / "src"
    source.mkdir()
    (source / "train.py").write_text(SCRIPT.replace("def main():", data + "def main():"))
    options = Options(distributed="train.py")
    port_repository(source, options, target=Target(tmp_path / "out"))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    done = subprocess.run(
        [*command, str(tmp_path / "out" / "train.py")],
        env=environment(os.environ, devices=2),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["0", "1"]
    assert (tmp_path / "model.pt").exists()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("    for epoch in", "    for step in", "loops over epochs"),
        ("shuffle=True", "sampler=mine", "already has a sampler"),
        ("train_loader = DataLoader(train_data, batch_size=8, shuffle=True)", "train_loader = build()", "No training loaders"),
        ("    for epoch in range(args.epochs):", "    other = torch.optim.SGD(net.parameters())\n    for epoch in range(args.epochs):", "several models"),
        ("    model = nn.Linear(4, 2).to(device)\n", "", "is not created in the same block"),
        ("    optimizer =", "    if many:\n        model = nn.DataParallel(model)\n    optimizer =", "inside a condition"),
    ],
)  # fmt: skip
def test_a_script_that_is_not_plain_is_left_with_the_reason(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    source = tmp_path / "src"
    source.mkdir()
    (source / "train.py").write_text(SCRIPT.replace(old, new))
    options = Options(mode=Mode.NPU_ONLY, distributed="train.py")
    outcome = port_repository(source, options, target=Target(tmp_path / "out"))
    assert outcome.report is not None
    (found,) = [f for _, f in outcome.report.findings if f.code == "JP901"]
    assert reason in found.why.en
    assert "DistributedSampler" not in (tmp_path / "out/train.py").read_text()


def test_an_unknown_script_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no Python file"):
        port(tmp_path, SCRIPT, distributed="nope.py")


def test_modelarts_arguments_and_path_mapping(tmp_path: Path) -> None:
    out, findings = port(tmp_path, SCRIPT, modelarts=True)
    assert findings == []
    text = (out / "train.py").read_text()
    ast.parse(text)
    assert '    parser.add_argument("--data_url", type=str' in text
    assert "    map_paths(args.data_url, args.train_url)" in text
    function = out / "ascend_modelarts_function"
    config = function / "path_mapping_config.py"
    config.write_text('INPUTS = ["./data"]\nOUTPUTS = ["./ckpt"]\n')
    probe = (
        "from ascend_modelarts_function.modelarts_path_manager import map_paths\n"
        "map_paths('in', 'result')\nprint(open('data/x').read())\nopen('ckpt/y', 'w').write('kept')\n"
    )
    (out / "in").mkdir()
    (out / "in/x").write_text("seen")
    done = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=out,
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    assert done.stdout == "seen\n"
    assert (out / "result/y").read_text() == "kept"


def test_xihe_arguments_and_requirements(tmp_path: Path) -> None:
    out, _ = port(tmp_path, SCRIPT.replace("import torch\n", "import cv2\nimport torch\nimport yaml\n", 1), xihe=True)  # fmt: skip
    text = (out / "train.py").read_text()
    for name, default in (("--data_url", ""), ("--pretrain_url", ""), ("--output_path", ".")):
        assert f'    parser.add_argument("{name}", type=str, default="{default}")' in text
    assert (out / "pip-requirements.txt").read_text() == "opencv-python-headless\nPyYAML\n"


def test_xihe_makes_a_parser_where_there_is_none(tmp_path: Path) -> None:
    text = "import torch\n\nif __name__ == '__main__':\n    loss.backward()\n"
    out, _ = port(tmp_path, text, xihe=True)
    ported = (out / "train.py").read_text()
    ast.parse(ported)
    assert "args_opt, _ = parser.parse_known_args()" in ported


def test_adaptations_done_once_are_not_done_again(tmp_path: Path) -> None:
    choices = {"distributed": "train.py", "modelarts": True, "xihe": True}
    out, _ = port(tmp_path, SCRIPT, **choices)  # pyright: ignore[reportArgumentType]
    once = (out / "train.py").read_text()
    again, _ = port(tmp_path / "again", once, **choices)  # pyright: ignore[reportArgumentType]
    assert (again / "train.py").read_text() == once


XIHE_PATHS = (
    ('D(root="./data/train"); D(root="./data/val")', "./data", 'D(root=args_opt.data_url + "/train")'),
    ('DATA = "/data/mnist"\nMnist(path=DATA, download=True)', "/data/mnist", "DATA = args_opt.data_url"),
    ('torch.save(net.state_dict(), "ckpt/a.pt")', "ckpt", 'args_opt.output_path + "/a.pt"'),
    ('os.makedirs("./out/x")\nModelCheckpoint(directory="./out/x")', "./out/x", "os.makedirs(args_opt.output_path)"),
    ('load_checkpoint("lenet.ckpt", net)', "lenet.ckpt", "load_checkpoint(args_opt.pretrain_url, net)"),
)  # fmt: skip


@pytest.mark.parametrize(("line", "default", "wanted"), XIHE_PATHS)
def test_xihe_puts_arguments_in_the_place_of_fixed_paths(
    tmp_path: Path, line: str, default: str, wanted: str
) -> None:
    text = f"import os\nimport torch\n{line}\njson.load('x.json')\nD(name='data')\n"
    text += "if __name__ == '__main__':\n    loss.backward()\n"
    out, _ = port(tmp_path, text, xihe=True)
    ported = (out / "train.py").read_text()
    ast.parse(ported)
    assert wanted in ported
    assert f'type=str, default="{default}")' in ported
    assert "json.load('x.json')\nD(name='data')" in ported
    again, _ = port(tmp_path / "again", ported, xihe=True)
    assert (again / "train.py").read_text() == ported


def test_xihe_tells_of_a_path_where_the_arguments_are_not_known(tmp_path: Path) -> None:
    text = (
        "import argparse\nimport torch\ndef parse():\n    parser = argparse.ArgumentParser()\n"
        "    args = parser.parse_args()\n    return args\ndef train(opt):\n    D(root='./data')\n"
        "    loss.backward()\ntrain(parse())\n"
    )
    out, findings = port(tmp_path, text, xihe=True)
    assert "root='./data'" in (out / "train.py").read_text()
    assert findings == ["JP921"]
