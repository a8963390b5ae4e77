"""`torch.npu`: the names that the real plug-in has, over simulated devices."""

# ruff: noqa: F401  # the imports are what this module is for
# pyright: reportUnusedImport=false, reportUnusedFunction=false

from typing import Any, Callable

from torch_npu._sim import place as _place
from torch_npu._sim.place import is_in_bad_fork as _is_in_bad_fork
from torch_npu.npu import amp, memory, random, streams, utils
from torch_npu.npu.devices import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_soc_version,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
    synchronize,
    utilization,
)
from torch_npu.npu.memory import (
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    empty_virt_addr_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_empty_cache,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from torch_npu.npu.options import (
    clear_npu_overflow_flag,
    config,
    conv,
    finalize_dump,
    get_amp_supported_dtype,
    get_autocast_dtype,
    get_mm_bmm_format_nd,
    get_npu_overflow_flag,
    get_sync_debug_mode,
    init_dump,
    ipc_collect,
    is_autocast_enabled,
    is_jit_compile_false,
    matmul,
    set_aoe,
    set_autocast_dtype,
    set_autocast_enabled,
    set_compile_mode,
    set_deterministic_level,
    set_dump,
    set_mm_bmm_format_nd,
    set_option,
    set_sync_debug_mode,
)
from torch_npu.npu.random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_npu.npu.streams import (
    Event,
    ExternalEvent,
    ExternalStream,
    NPUGraph,
    Stream,
    StreamContext,
    SyncLaunchStream,
    current_stream,
    default_stream,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
    set_stream,
    stream,
)
from torch_npu.npu.types import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)
from torch_npu.npu.utils import _get_device_index, current_blas_handle, get_cann_version

_lazy_init = init


def __getattr__(name: str) -> Any:
    # Torch's checkpointing asks for it before it keeps the random state of the devices.
    if name == "_initialized":
        return _place.is_initialized()
    raise AttributeError(f"module 'torch_npu.npu' has no attribute {name!r}")


def _lazy_call(callback: Callable[[], None], **kwargs: object) -> None:
    """Run what should wait for the device; it is always ready here."""
    callback()
