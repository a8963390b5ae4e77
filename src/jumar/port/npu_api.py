"""Which names of `torch.cuda` the NPU plug-in has, and under which name.

From the vendor's native-API documentation (CC-BY-4.0); names that it does not have are reported
with advice instead of being rewritten."""

from jumar.port.records import Words

TENSOR_TYPES = frozenset(
    f"{kind}Tensor"
    for kind in ["Float", "Half", "BFloat16", "Int", "Long", "Bool", "Byte", "Char", "Short"]
)

SAME_NAME = frozenset(
    [
        "Event",
        "Stream",
        "StreamContext",
        "caching_allocator_alloc",
        "caching_allocator_delete",
        "can_device_access_peer",
        "change_current_allocator",
        "current_blas_handle",
        "current_device",
        "current_stream",
        "default_generators",
        "default_stream",
        "device",
        "device_count",
        "device_of",
        "empty_cache",
        "get_allocator_backend",
        "get_device_capability",
        "get_device_name",
        "get_device_properties",
        "get_rng_state",
        "get_rng_state_all",
        "get_sync_debug_mode",
        "graph",
        "graph_pool_handle",
        "host_memory_stats",
        "host_memory_stats_as_nested_dict",
        "init",
        "initial_seed",
        "ipc_collect",
        "is_available",
        "is_bf16_supported",
        "is_current_stream_capturing",
        "is_initialized",
        "make_graphed_callables",
        "manual_seed",
        "manual_seed_all",
        "max_memory_allocated",
        "max_memory_cached",
        "max_memory_reserved",
        "mem_get_info",
        "memory_allocated",
        "memory_cached",
        "memory_reserved",
        "memory_snapshot",
        "memory_stats",
        "memory_stats_as_nested_dict",
        "memory_summary",
        "reset_accumulated_host_memory_stats",
        "reset_accumulated_memory_stats",
        "reset_max_memory_allocated",
        "reset_max_memory_cached",
        "reset_peak_host_memory_stats",
        "reset_peak_memory_stats",
        "seed",
        "seed_all",
        "set_device",
        "set_per_process_memory_fraction",
        "set_rng_state",
        "set_rng_state_all",
        "set_stream",
        "set_sync_debug_mode",
        "stream",
        "synchronize",
        "utilization",
        "random",
        "memory",
        "streams",
    ]
)

RENAMED = {
    "CUDAGraph": "NPUGraph",
    "CUDAPluggableAllocator": "NPUPluggableAllocator",
}

ON_ACCELERATOR = {
    "is_available": "is_available",
    "device_count": "device_count",
    "set_device": "set_device_index",
    "current_device": "current_device_index",
    "synchronize": "synchronize",
}
"""What `torch.accelerator` offers with the same meaning on every machine."""

POSITIONAL_ONLY = frozenset({"set_device", "synchronize"})

HISTORY = "_record_memory_history"
"""Recording memory: `torch.cuda.memory` also takes older arguments, which the plug-in does not."""
HISTORY_ARGUMENTS = frozenset({"enabled", "context", "stacks", "max_entries", "device"})

_NO_COUNTERPART = Words(
    "remove the call, or guard it so that it runs on NVIDIA cards only",
    "请删除该调用，或加判断使其仅在 NVIDIA 卡上执行",
)

GRAPHS = Words(
    "for inference, use torch.npu.NPUGraph and torch.npu.graph; train without a graph",
    "推理请使用 torch.npu.NPUGraph 与 torch.npu.graph；训练时请不要使用图捕获",
)
WAY_OUT = {
    "nvtx": Words(
        "use torch.profiler.record_function as a context manager, or torch_npu.npu.mstx",
        "请改用 torch.profiler.record_function（with 语句）或 torch_npu.npu.mstx",
    ),
    "cudart": Words(
        "profile with torch_npu.profiler instead of cudaProfilerStart and cudaProfilerStop",
        "请用 torch_npu.profiler 代替 cudaProfilerStart/Stop",
    ),
    "profiler": Words("use torch_npu.profiler", "请改用 torch_npu.profiler"),
    "nccl": Words(
        "use torch.distributed with the hccl backend", "请使用 torch.distributed 与 hccl 后端"
    ),
    "comm": Words(
        "use the collectives of torch.distributed, one process per card",
        "请使用 torch.distributed 的集合通信，每卡一个进程",
    ),
    "get_arch_list": Words(
        "decide by the device's type, not by the CUDA architecture",
        "请按设备类型判断，而不是 CUDA 架构",
    ),
    "CUDAGraph": GRAPHS,
    "graphs": GRAPHS,
    "OutOfMemoryError": Words("catch torch.OutOfMemoryError", "请捕获 torch.OutOfMemoryError"),
    "list_gpu_processes": Words("use npu-smi info", "请使用 npu-smi info"),
    "memory_usage": Words("use npu-smi info", "请使用 npu-smi info"),
    "temperature": Words("use npu-smi info", "请使用 npu-smi info"),
    "power_draw": Words("use npu-smi info", "请使用 npu-smi info"),
    "clock_rate": Words("use npu-smi info", "请使用 npu-smi info"),
}


def way_out(name: str) -> Words:
    """What to do about a name of `torch.cuda` that the plug-in does not have."""
    return WAY_OUT.get(name, _NO_COUNTERPART)
