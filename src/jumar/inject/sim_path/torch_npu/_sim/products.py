"""Linear layers, convolutions and batched products of the plug-in."""

from typing import List, Optional

import torch
import torch.nn.functional as F

Tensor = torch.Tensor


def npu_linear(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """A linear layer."""
    return F.linear(input, weight, bias)


def npu_conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    stride: List[int],
    padding: List[int],
    dilation: List[int],
    groups: int,
) -> Tensor:
    """A convolution."""
    return F.conv2d(input, weight, bias, stride, padding, dilation, groups)


def npu_conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    stride: List[int],
    padding: List[int],
    dilation: List[int],
    groups: int,
) -> Tensor:
    """A convolution of volumes."""
    return F.conv3d(input, weight, bias, stride, padding, dilation, groups)


def npu_convolution(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    stride: List[int],
    padding: List[int],
    dilation: List[int],
    groups: int,
) -> Tensor:
    """A convolution of images or volumes."""
    run = npu_conv3d if input.dim() == 5 else npu_conv2d
    return run(input, weight, bias, stride, padding, dilation, groups)


def npu_conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    padding: List[int],
    output_padding: List[int],
    stride: List[int],
    dilation: List[int],
    groups: int,
) -> Tensor:
    """A transposed convolution."""
    return F.conv_transpose2d(
        input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def npu_bmmV2(self: Tensor, mat2: Tensor, output_sizes: List[int]) -> Tensor:
    """A batched product."""
    product = torch.matmul(self, mat2)
    return product.reshape(output_sizes) if output_sizes else product
