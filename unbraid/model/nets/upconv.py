"""The upconvolution of the nets: torch's, with faster code for two slow cases on the CPU (docs/benchmarks.md)."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, conv_transpose2d

from unbraid.model.matrix_products import is_eager

MAX_PHASE_CHANNELS = 4  # output channels up to which phases are faster: 16 numbers then fill a vector of the processor
HALVING = ((4, 4), (2, 2), (1, 1), (1, 1), 1)  # kernel, stride, padding, dilation, groups


class Upconv(nn.ConvTranspose2d):
    """`nn.ConvTranspose2d`, with its parameters and its numbers up to rounding.

    Under autocast it is in bfloat16. Compiled, exported, within `torch.func`, in other precisions and on other devices it is
    torch's own.

    >>> up = Upconv(32, 1, 4, 2, 1)
    >>> x = torch.randn(2, 32, 8, 8)
    >>> torch.allclose(up(x), nn.ConvTranspose2d.forward(up, x), atol=1e-5)
    True
    """

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """See `torch.nn.ConvTranspose2d.forward`."""
        plain = is_eager(input) and input.dim() == 4 and output_size is None and isinstance(self.padding, tuple)
        if not plain or not uses_fast_path(input, self.weight):
            return super().forward(input, output_size)
        settings = (self.stride, self.padding, self.output_padding, self.groups, self.dilation)
        dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else input.dtype
        bias = None if self.bias is None else self.bias.to(dtype)
        return _Upconv.apply(input.to(dtype), self.weight.to(dtype), bias, settings)


def uses_fast_path(x: Tensor, weight: Tensor) -> bool:
    """Whether an upconvolution of x takes the fast path: on the CPU, in float32, float64 or under autocast to
    bfloat16, neither compiled, exported nor transformed by `torch.func`.

    Args:
        x: the input.
        weight: the weights.
    """
    if not is_eager(x) or x.device.type != "cpu" or torch._C._are_functorch_transforms_active():
        return False
    if torch.is_autocast_enabled("cpu"):
        return torch.get_autocast_dtype("cpu") == torch.bfloat16 and torch.float64 not in (x.dtype, weight.dtype)
    return x.dtype == weight.dtype and x.dtype in (torch.float32, torch.float64)


def by_phases(x: Tensor, weight: Tensor, bias: Tensor | None, extra_rows: int, extra_columns: int) -> Tensor:
    """An upconvolution 4×4 of stride 2 and padding 1 as one convolution 2×2 of stride 1 and four copies.

    An output at (2r + p, 2s + q) sees 2×2 inputs, through weights that depend on its phase (p, q) alone; so the four
    phases are output channels of one convolution, where torch leaves most of a vector empty for one channel.

    Args:
        x: the input "b c h w".
        weight: the weights "c o 4 4".
        bias: the bias "o", or None.
        extra_rows: rows to add below.
        extra_columns: columns to add on the right.
    """
    (n, c, h, w), many = x.shape, weight.shape[1]
    kernel = weight.flip(2, 3).reshape(c, many, 2, 2, 2, 2).permute(3, 5, 1, 0, 2, 4).reshape(4 * many, c, 2, 2)
    seen = conv2d(x, kernel, None if bias is None else bias.repeat(4), padding=1).split(many, 1)
    out = x.new_empty(n, many, 2 * h + extra_rows, 2 * w + extra_columns)
    for part, (p, q) in zip(seen, product((0, 1), (0, 1)), strict=True):
        phase = out[:, :, p::2, q::2]
        phase.copy_(part[:, :, p : p + phase.shape[2], q : q + phase.shape[3]])
    return out


class _Upconv(torch.autograd.Function):
    """Few output channels by phases; and the bias's gradient as a sum, for which torch's routine takes ten times as long."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, settings: Any) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.settings = settings
        stride, padding, more, groups, dilation = settings
        if (
            weight.shape[1] <= MAX_PHASE_CHANNELS
            and (tuple(weight.shape[2:]), stride, padding, dilation, groups) == HALVING
        ):
            return by_phases(x, weight, bias, *more)
        return conv_transpose2d(x, weight, bias, stride, padding, more, groups, dilation)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), (grad,) = ctx.saved_tensors, grads
        stride, padding, more, groups, dilation = ctx.settings
        wanted = ctx.needs_input_grad
        d_x, d_weight, _ = torch.ops.aten.convolution_backward(
            grad, x, weight, None, stride, padding, dilation, True, more, groups, [wanted[0], wanted[1], False]
        )
        return d_x, d_weight, grad.sum((0, 2, 3)) if wanted[2] else None, None
