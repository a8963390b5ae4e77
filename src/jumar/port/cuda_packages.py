"""Third-party packages that are tied to CUDA, and what to use on NPUs instead.

One record per package: how severe it is, and what to do."""

from dataclasses import dataclass

from jumar.port.records import Effort, Severity, Words


@dataclass(frozen=True, slots=True)
class Package:
    """A package or a part of one, by the dotted name that is imported."""

    code: str
    module: str
    severity: Severity
    effort: Effort
    why: Words
    advice: Words


def package(
    code: str, module: str, severity: Severity, effort: Effort, advice_en: str, advice_zh: str,
    why_en: str = "", why_zh: str = "",
) -> Package:  # fmt: skip
    """One record; without its own reason, the package simply does not run on NPUs."""
    return Package(
        code,
        module,
        severity,
        effort,
        Words(
            why_en or f"{module} is built on CUDA and does not run on NPUs.",
            why_zh or f"{module} 依赖 CUDA，无法在 NPU 上运行。",
        ),
        Words(advice_en, advice_zh),
    )


def _alike(
    code: str, severity: Severity, effort: Effort, advice_en: str, advice_zh: str, *modules: str
) -> tuple[Package, ...]:
    """Packages with the same advice."""
    return tuple(package(code, m, severity, effort, advice_en, advice_zh) for m in modules)


_WORK, _LIMIT = Severity.WORK, Severity.LIMIT
_MINUTES, _HOURS, _REWRITE = Effort.MINUTES, Effort.HOURS, Effort.REWRITE

_ON_CPU_AND_CUDA = {
    "caffe2": ("rewrite the model with torch.nn", "请用 torch.nn 重写模型"),
    "dgl": ("keep graphs and message passing on the CPU, or rewrite them with torch operators",
            "请将图与消息传递放在 CPU 上，或用 torch 算子实现"),
    "fbgemm_gpu": ("use torch.nn.EmbeddingBag", "请改用 torch.nn.EmbeddingBag"),
    "tensor_parallel": ("shard the model with torch.distributed", "请用 torch.distributed 切分模型"),
    "torchdrug": ("rewrite its layers and its engine with torch", "请用 torch 重写其网络层与训练引擎"),
    "torchrec": ("use Ascend's RecSDK, or torch.nn.EmbeddingBag",
                 "请改用昇腾 RecSDK 或 torch.nn.EmbeddingBag"),
}  # fmt: skip

# One record per paragraph: what it is, then the texts.
# fmt: off
PACKAGES: tuple[Package, ...] = (
    package(
        "JP601", "flash_attn", _WORK, _HOURS,
        "use torch.nn.functional.scaled_dot_product_attention, or torch_npu.npu_fusion_attention",
        "请改用 torch.nn.functional.scaled_dot_product_attention 或 torch_npu.npu_fusion_attention",
    ),
    package(
        "JP602", "xformers", _WORK, _HOURS,
        "use torch.nn.functional.scaled_dot_product_attention instead of memory_efficient_attention",
        "请用 torch.nn.functional.scaled_dot_product_attention 代替 memory_efficient_attention",
    ),
    package(
        "JP603", "apex.transformer", _WORK, _REWRITE,
        "train with Megatron and MindSpeed, or shard the model with torch.distributed",
        "请改用 Megatron 与 MindSpeed，或用 torch.distributed 切分模型",
        "Neither torch_npu nor Ascend's build of apex has apex.transformer.",
        "torch_npu 与昇腾版 apex 均不包含 apex.transformer。",
    ),
    package(
        "JP603", "apex", _LIMIT, _MINUTES,
        "install Ascend's build of apex, or use torch.amp, torch.optim and torch.nn.LayerNorm",
        "请安装昇腾版 apex，或改用 torch.amp、torch.optim 与 torch.nn.LayerNorm",
        "The apex on the package index is built on CUDA.",
        "官方 apex 依赖 CUDA。",
    ),
    package(
        "JP604", "bitsandbytes", _WORK, _HOURS,
        "train in bfloat16 with torch.optim.AdamW; 8-bit and 4-bit layers have no NPU kernels in older versions",
        "请使用 bfloat16 与 torch.optim.AdamW；旧版本没有 NPU 的 8/4 bit 算子",
    ),
    package(
        "JP605", "triton", _WORK, _REWRITE,
        "install triton-ascend, which runs many kernels unchanged, or rewrite the kernel with torch operators",
        "可安装 triton-ascend（多数 kernel 可直接运行），或用 torch 算子重写",
        "The triton on the package index compiles for NVIDIA cards.",
        "官方 triton 只能为 NVIDIA 卡编译。",
    ),
    *(
        package(
            "JP606", module, _WORK, _MINUTES,
            "use npu-smi info, or torch.npu.mem_get_info and torch.npu.utilization",
            "请使用 npu-smi info，或 torch.npu.mem_get_info 与 torch.npu.utilization",
            f"{module} only sees NVIDIA cards.",
            f"{module} 只能查看 NVIDIA 卡。",
        )
        for module in ("pynvml", "GPUtil")
    ),
    package(
        "JP607", "nvtx", _WORK, _MINUTES,
        "use torch.profiler.record_function as a context manager, or torch_npu.npu.mstx",
        "请改用 torch.profiler.record_function（with 语句）或 torch_npu.npu.mstx",
    ),
    package(
        "JP608", "nvidia.dali", _WORK, _HOURS,
        "load data with torch.utils.data.DataLoader and torchvision transforms",
        "请改用 torch.utils.data.DataLoader 与 torchvision transforms",
    ),
    package(
        "JP609", "mmcv.ops", _LIMIT, _MINUTES,
        "build mmcv from source on the NPU machine (MMCV_WITH_OPS=1 FORCE_NPU=1)",
        "请在 NPU 机器上从源码编译 mmcv（MMCV_WITH_OPS=1 FORCE_NPU=1）",
        "The compiled operators of mmcv are built for CUDA.",
        "mmcv 预编译算子面向 CUDA。",
    ),
    package(
        "JP609", "detectron2.engine", _WORK, _HOURS,
        "set cfg.MODEL.DEVICE to npu, and start the process group with hccl instead of its launch function",
        "请将 cfg.MODEL.DEVICE 设为 npu，并用 hccl 建立进程组以代替其 launch",
        "detectron2 chooses CUDA and NCCL by itself.",
        "detectron2 默认使用 CUDA 与 NCCL。",
    ),
    package(
        "JP609", "detectron2.layers", _LIMIT, _MINUTES,
        "build detectron2 without CUDA, so that these operators run on the CPU",
        "请编译不含 CUDA 的 detectron2，这些算子将在 CPU 上执行",
        "The compiled operators of detectron2 have no NPU kernels.",
        "detectron2 的编译算子没有 NPU 实现。",
    ),
    package(
        "JP610", "spconv", _WORK, _REWRITE,
        "use the sparse convolutions of Ascend's mx_driving, or dense ones",
        "请改用昇腾 mx_driving 的稀疏卷积，或使用稠密卷积",
    ),
    package(
        "JP611", "torchvision.ops", _LIMIT, _MINUTES,
        "install torchvision_npu; without it nms, roi_align and deform_conv2d run on the CPU",
        "请安装 torchvision_npu，否则 nms、roi_align、deform_conv2d 会在 CPU 上执行",
        "The compiled operators of torchvision have no NPU kernels of their own.",
        "torchvision 的编译算子没有 NPU 实现。",
    ),
    package(
        "JP612", "deepspeed", _LIMIT, _MINUTES,
        "use deepspeed 0.13 or later, which supports NPUs; fused and sparse operators are missing",
        "请使用 deepspeed 0.13 及以上（已支持 npu）；部分融合/稀疏算子不可用",
        "deepspeed's CUDA operators do not run on NPUs.",
        "deepspeed 的 CUDA 算子无法在 NPU 上运行。",
    ),
    package(
        "JP613", "cupy", _WORK, _HOURS,
        "use torch tensors on the NPU, or numpy",
        "请改用 NPU 上的 torch 张量或 numpy",
    ),
    *_alike(
        "JP614", _WORK, _HOURS,
        "convert the model with ATC and run it with ACL or mindie",
        "请用 ATC 转换模型，并用 ACL 或 MindIE 推理",
        "tensorrt", "torch2trt", "torch_tensorrt",
    ),
    *_alike(
        "JP615", _WORK, _REWRITE,
        "rewrite the kernel with torch operators or in Ascend C",
        "请用 torch 算子或 Ascend C 重写 kernel",
        "numba.cuda", "pycuda",
    ),
    package(
        "JP616", "nemo", _WORK, _REWRITE,
        "train with MindSpeed-LLM, or with transformers",
        "请改用 MindSpeed-LLM 或 transformers 训练",
    ),
    package(
        "JP616", "transformer_engine", _WORK, _HOURS,
        "use torch.nn layers, or MindSpeed's layers on Ascend",
        "请改用 torch.nn 层，或昇腾 MindSpeed",
    ),
    package(
        "JP617", "mamba_ssm", _WORK, _REWRITE,
        "use the reference implementation in torch (selective_scan_ref)",
        "请使用 torch 参考实现（selective_scan_ref）",
    ),
    package(
        "JP617", "causal_conv1d", _WORK, _HOURS,
        "use torch.nn.functional.conv1d with left padding",
        "请用左填充的 torch.nn.functional.conv1d",
    ),
    package(
        "JP618", "torch_scatter", _WORK, _HOURS,
        "use torch.scatter_reduce, index_add or the vendor's build",
        "请用 torch.scatter_reduce、index_add，或昇腾编译版本",
        "torch_scatter's kernels exist for the CPU and CUDA only.",
        "torch_scatter 只有 CPU 与 CUDA 实现。",
    ),
    package(
        "JP618", "torch_sparse", _WORK, _HOURS,
        "keep these steps on the CPU, or use dense operators",
        "请在 CPU 上执行，或使用稠密算子",
        "torch_sparse's kernels exist for the CPU and CUDA only.",
        "torch_sparse 只有 CPU 与 CUDA 实现。",
    ),
    package(
        "JP619", "tinycudann", _WORK, _REWRITE,
        "rewrite the encoding and the MLP with torch.nn",
        "请用 torch.nn 重写编码与 MLP",
    ),
    *_alike(
        "JP619", _WORK, _REWRITE,
        "render on another machine; there is no NPU rasteriser",
        "NPU 无光栅化实现，请在其他机器上渲染",
        "neural_renderer", "nvdiffrast",
    ),
    package(
        "JP619", "kaolin", _WORK, _REWRITE,
        "replace its operators with torch operators",
        "请用 torch 算子替换",
    ),
    package(
        "JP620", "liger_kernel", _WORK, _HOURS,
        "turn it off; its kernels are written in triton",
        "请关闭；其 kernel 基于 triton",
    ),
    package(
        "JP620", "unsloth", _WORK, _REWRITE,
        "train with transformers and peft",
        "请改用 transformers 与 peft",
    ),
    *_alike(
        "JP621", _WORK, _HOURS,
        "use an unquantised or vendor-quantised model",
        "请使用未量化或昇腾量化的模型",
        "auto_gptq", "awq",
    ),
    package(
        "JP622", "fused_dense_lib", _WORK, _HOURS,
        "use torch.nn.Linear",
        "请改用 torch.nn.Linear",
    ),
    package(
        "JP622", "fused_layer_norm_cuda", _WORK, _HOURS,
        "use torch.nn.LayerNorm",
        "请改用 torch.nn.LayerNorm",
    ),
    package(
        "JP623", "pytorch3d", _LIMIT, _HOURS,
        "install it without CUDA: its operators run on the CPU",
        "请安装不含 CUDA 的版本，其算子在 CPU 上执行",
    ),
    package(
        "JP623", "MinkowskiEngine", _WORK, _REWRITE,
        "use dense convolutions",
        "请使用稠密卷积",
    ),
    package(
        "JP624", "vllm", _LIMIT, _MINUTES,
        "install vllm-ascend as well",
        "请同时安装 vllm-ascend",
        "vllm alone runs on CUDA.",
        "单独的 vllm 依赖 CUDA。",
    ),
    package(
        "JP625", "cudf", _WORK, _HOURS,
        "use pandas",
        "请改用 pandas",
    ),
    package(
        "JP625", "cuml", _WORK, _HOURS,
        "use scikit-learn",
        "请改用 scikit-learn",
    ),
    *_alike(
        "JP627", _WORK, _REWRITE,
        "rewrite its kernels with torch operators or in Ascend C",
        "请用 torch 算子或 Ascend C 重写其算子",
        "diff_gaussian_rasterization", "fused_ssim", "gsplat", "natten", "nerfacc",
        "pointnet2_ops", "simple_knn", "torchqrnn",
    ),
    *(
        package(
            "JP628", module, _WORK, _HOURS,
            advice_en,
            advice_zh,
            f"{module} runs on the CPU and CUDA only.",
            f"{module} 只支持 CPU 与 CUDA。",
        )
        for module, (advice_en, advice_zh) in _ON_CPU_AND_CUDA.items()
    ),
    package(
        "JP629", "ctranslate2", _LIMIT, _HOURS,
        "run this part on the CPU, or with transformers",
        "请在 CPU 上运行此部分，或改用 transformers",
        "ctranslate2 runs on the CPU and CUDA only.",
        "ctranslate2 只支持 CPU 与 CUDA。",
    ),
    package(
        "JP621", "cpm_kernels", _WORK, _HOURS,
        "load the model in float16 or bfloat16, without quantization",
        "请以 float16 或 bfloat16 加载模型，不使用量化",
    ),
)
# fmt: on
