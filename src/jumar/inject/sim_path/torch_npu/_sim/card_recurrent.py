"""Recurrent layers of wrapped tensors: cuDNN's where torch would use it, else written out.

Torch checks for CUDA tensors before it uses cuDNN; a wrapped tensor does not look like one."""

import functools
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch

from torch_npu._sim import generators
from torch_npu._sim.card import inner_of
from torch_npu._sim.card_autocast import cast
from torch_npu._sim.kernels import register
from torch_npu._sim.tensor import Tensor

_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
_WRITTEN_OUT = {
    "rnn_relu.input": "rnn_relu_input",
    "rnn_relu.data": "rnn_relu_data",
    "rnn_tanh.input": "rnn_tanh_input",
    "rnn_tanh.data": "rnn_tanh_data",
    "lstm.input": "lstm_impl",
    "lstm.data": "lstm_data_impl",
    "gru.input": "gru_impl",
    "gru.data": "gru_impl_data",
}


class _State(NamedTuple):
    """cuDNN's random state on a device; recreated after each seeding, as in torch."""

    seeding: int
    buffer: Tensor


_states: Dict[torch.device, _State] = {}


def _dropout_state(dropout: float, train: bool, device: torch.device) -> Optional[Tensor]:
    if not dropout or not train:
        return None
    state = _states.get(device)
    if state is None or state.seeding != generators.Seeding.count:
        seed = int(torch.empty((), dtype=torch.int64, device=device).random_())
        buffer = torch._cudnn_init_dropout_state(
            dropout, train, seed, dtype=torch.uint8, device=device
        )
        state = _states[device] = _State(generators.Seeding.count, buffer)
    return state.buffer


def _cudnn(
    mode: str,
    data: Tensor,
    hidden: Any,
    params: Any,
    batch_sizes: List[int],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Tuple[Tensor, ...]:
    hx, cx = hidden if mode == "lstm" else (hidden, None)
    size = hx.shape[2] if cx is None else cx.shape[2]
    output, hy, cy, *_ = torch.ops.aten._cudnn_rnn(
        data,
        list(params),
        4 if has_biases else 2,
        None,
        hx,
        cx,
        _MODES[mode],
        size,
        hx.shape[2] if size != hx.shape[2] else 0,
        num_layers,
        batch_first,
        dropout,
        train,
        bidirectional,
        batch_sizes,
        _dropout_state(dropout, train, inner_of(data).device),
    )
    return (output, hy, cy) if mode == "lstm" else (output, hy)


def _layer(name: str) -> Callable[..., Any]:
    mode, _, form = name.partition(".")

    def run(data: Tensor, *args: Any) -> Any:
        # Written out, the products are cast one by one; cuDNN takes all in one dtype.
        if not torch.backends.cudnn.is_acceptable(inner_of(data)):
            import torch._decomp.decompositions as written

            return getattr(written, _WRITTEN_OUT[name])(data, *args)
        batch_sizes: List[int] = []
        if form == "data":
            batch_sizes, args = args[0].tolist(), (*args[1:], False)
        hidden, params, *options = args
        if torch.is_autocast_enabled("npu"):
            low = torch.get_autocast_dtype("npu")
            data, hidden, params = cast(data, low), cast(hidden, low), cast(params, low)
        return _cudnn(mode, data, hidden, params, batch_sizes, *options)

    return functools.wraps(getattr(torch.ops.aten, mode))(run)


def install() -> None:
    """Register the layers for device tensors."""
    # The parameters of a layer are not contiguous, as on the CPU; cuDNN copies them together.
    warnings.filterwarnings("ignore", message="RNN module weights are not part of single")
    for name in _WRITTEN_OUT:
        register(name, _layer(name), "AutogradPrivateUse1")
