"""Modules of the plug-in's extras."""

from typing import Any, Optional, Tuple, Union

import torch

from torch_npu import ops
from torch_npu._sim import absent

__all__ = [
    "BiLSTM",
    "ChannelShuffle",
    "DropoutWithByteMask",
    "FastBatchNorm1d",
    "FastBatchNorm2d",
    "FastBatchNorm3d",
    "FastSyncBatchNorm",
    "Focus",
    "LabelSmoothingCrossEntropy",
    "Mish",
    "NpuCachedDropout",
    "NpuDropPath",
    "NpuFairseqDropout",
    "Prefetcher",
    "ROIAlign",
    "SiLU",
    "Swish",
]

__getattr__ = absent.of_module(__name__)
Tensor = torch.Tensor
FastBatchNorm1d = torch.nn.BatchNorm1d
FastBatchNorm2d = torch.nn.BatchNorm2d
FastBatchNorm3d = torch.nn.BatchNorm3d
FastSyncBatchNorm = torch.nn.SyncBatchNorm


class Mish(torch.nn.Mish):
    """torch.nn.Mish."""


class SiLU(torch.nn.SiLU):
    """torch.nn.SiLU."""


Swish = SiLU


class DropoutWithByteMask(torch.nn.Dropout):
    """torch.nn.Dropout."""


class LabelSmoothingCrossEntropy(torch.nn.Module):
    """Cross entropy whose other labels share `smooth_factor`."""

    def __init__(self, num_classes: int = 1000, smooth_factor: float = 0.0) -> None:
        super().__init__()
        self.on_value = 1.0 - smooth_factor
        self.off_value = smooth_factor / (num_classes - 1)

    def forward(self, pred: Tensor, target: Tensor) -> Tensor:
        """The mean loss."""
        labels = ops.npu_one_hot(target.int(), -1, pred.size(1), self.on_value, self.off_value)
        return ops.npu_softmax_cross_entropy_with_logits(pred, labels).mean(0, dtype=torch.float32)


class NpuDropPath(torch.nn.Module):
    """Drops whole samples of a residual branch, once it is enabled for a model."""

    _enabled = False

    def __init__(self, drop_prob: float = 0.0) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: Tensor) -> Tensor:
        """Drop while training."""
        if not self.drop_prob or not self.training or not self._enabled:
            return x
        keep = 1 - self.drop_prob
        shape = (x.shape[0],) + (1,) * (x.dim() - 1)
        chosen = (torch.rand(shape, dtype=x.dtype, device=x.device) + keep).floor_()
        return x.div(keep) * chosen

    @classmethod
    def enable_droppath_ensemble(cls, model: Any) -> None:
        """Drop from now on."""
        cls._enabled = True


class NpuCachedDropout(torch.nn.Dropout):
    """Dropout, once it is enabled for a model."""

    _enabled = False

    def __init__(self, p: float, module_name: Optional[str] = None) -> None:
        super().__init__(p)
        self.module_name = module_name

    def forward(self, input: Tensor) -> Tensor:
        """Drop, while training or not, as the real one does."""
        return torch.nn.functional.dropout(input, self.p) if self._enabled else input

    @classmethod
    def enable_dropout_ensemble(cls, model: Any) -> None:
        """Drop from now on."""
        cls._enabled = True


NpuFairseqDropout = NpuCachedDropout


class ChannelShuffle(torch.nn.Module):
    """Joins two tensors and mixes their channels."""

    def __init__(self, in_channels: int, groups: int = 2, split_shuffle: bool = True) -> None:
        super().__init__()
        self.split_shuffle = split_shuffle
        self.groups = groups
        self.group_len = in_channels // groups

    def check_self(self, x: Tensor) -> None:
        """Nothing has to follow `x` to its device here."""

    def forward(self, x1: Tensor, x2: Tensor) -> Union[Tensor, Tuple[Tensor, ...]]:
        """The mixed channels, in two parts if `split_shuffle`."""
        joined = torch.cat([x1, x2], dim=1)
        mixed = joined.unflatten(1, (self.groups, self.group_len)).transpose(1, 2).flatten(1, 2)
        return mixed.tensor_split([self.group_len], dim=1) if self.split_shuffle else mixed


class _Convolution(torch.nn.Module):
    def __init__(
        self, c1: int, c2: int, k: int, s: int, p: Optional[int], g: int, act: bool
    ) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(c1, c2, k, s, k // 2 if p is None else p, groups=g, bias=False)
        self.bn = torch.nn.BatchNorm2d(c2)
        self.act = torch.nn.LeakyReLU(0.1, inplace=True) if act else torch.nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.bn(self.conv(x)))


class Focus(torch.nn.Module):
    """YOLO's first layer: every second point of the image, in four channels each."""

    def __init__(
        self,
        c1: int,
        c2: int,
        k: int = 1,
        s: int = 1,
        p: Optional[int] = None,
        g: int = 1,
        act: bool = True,
    ) -> None:
        super().__init__()
        self.conv = _Convolution(c1 * 4, c2, k, s, p, g, act)

    def forward(self, x: Tensor) -> Tensor:
        """Half the height and width."""
        quarters = [x[..., row::2, column::2] for column in (0, 1) for row in (0, 1)]
        return self.conv(torch.cat(quarters, 1))


class BiLSTM(torch.nn.Module):
    """Two LSTMs, one from each end."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.fw_rnn = torch.nn.LSTM(input_size, hidden_size)
        self.bw_rnn = torch.nn.LSTM(input_size, hidden_size)

    def forward(self, inputs: Tensor) -> Tensor:
        """The outputs of both, side by side."""
        forward = self.fw_rnn(inputs)[0]
        backward = self.bw_rnn(inputs.flip(0))[0].flip(0)
        return torch.cat((forward, backward), 2)


class ROIAlign(torch.nn.Module):
    """Regions of a feature map in one size."""

    def __init__(
        self,
        output_size: Tuple[int, int],
        spatial_scale: float,
        sampling_ratio: int,
        aligned: bool = True,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.spatial_scale = spatial_scale
        self.sampling_ratio = sampling_ratio
        self.aligned = aligned

    def forward(self, input_tensor: Tensor, rois: Tensor) -> Tensor:
        """The regions."""
        mode = 3 if self.aligned else 0
        return ops.npu_roi_align(
            input_tensor, rois, self.spatial_scale, *self.output_size, self.sampling_ratio, mode
        )


class Prefetcher:
    """Takes batches of a loader to the device, one ahead."""

    def __init__(self, loader: Any, stream: Any = None) -> None:
        self.loader = iter(loader)
        self.stream = stream
        self.preload()

    def preload(self) -> None:
        """Fetch one."""
        batch = next(self.loader, (None, None))
        self.next_input, self.next_target = (
            part if part is None else part.npu(non_blocking=True) for part in batch
        )

    def next(self) -> Tuple[Any, Any]:
        """The batch fetched last; None at the end."""
        batch = self.next_input, self.next_target
        if self.next_target is not None:
            self.preload()
        return batch
