"""`torch.npu`: the names that the real plug-in has, over simulated devices."""

# ruff: noqa: F401  # the imports are what this module is for
# pyright: reportUnusedImport=false, reportUnusedFunction=false

from typing import Any, Callable

from torch_npu._sim import absent as _absent
from torch_npu._sim import place as _place
from torch_npu._sim.place import is_in_bad_fork as _is_in_bad_fork
from torch_npu.npu import amp, memory, random, streams, utils
from torch_npu.npu.deterministic import (
    disable_deterministic_with_backward,
    enable_deterministic_with_backward,
)
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
from torch_npu.npu.graphs import (
    NPUGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
    super_kernel_scope_begin,
    super_kernel_scope_end,
)
from torch_npu.npu.limits import (
    get_device_limit,
    get_stream_limit,
    reset_stream_limit,
    set_device_limit,
    set_stream_limit,
)
from torch_npu.npu.memory import (
    MemPool,
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    empty_virt_addr_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_empty_cache,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
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
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from torch_npu.npu.mstx import mstx
from torch_npu.npu.options import (
    CubeMathType,
    are_compatible_impl_enabled,
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
    set_op_timeout_ms,
    set_option,
    set_sync_debug_mode,
    use_compatible_impl,
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
    Stream,
    StreamContext,
    SyncLaunchStream,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from torch_npu.npu.types import (
    BFloat16Storage,
    BFloat16Tensor,
    BoolStorage,
    BoolTensor,
    ByteStorage,
    ByteTensor,
    CharStorage,
    CharTensor,
    DoubleStorage,
    DoubleTensor,
    FloatStorage,
    FloatTensor,
    HalfStorage,
    HalfTensor,
    IntStorage,
    IntTensor,
    LongStorage,
    LongTensor,
    ShortStorage,
    ShortTensor,
)
from torch_npu.npu.utils import (
    _get_device_index,
    check_uce_in_memory,
    current_blas_handle,
    get_cann_version,
)

_lazy_init = init
_absent_name = _absent.of_module(__name__)


def __getattr__(name: str) -> Any:
    # Torch's checkpointing asks for it before it keeps the random state of the devices.
    if name == "_initialized":
        return _place.is_initialized()
    return _absent_name(name)


def _lazy_call(callback: Callable[[], None], **kwargs: object) -> None:
    """Run what should wait for the device; it is always ready here."""
    callback()
