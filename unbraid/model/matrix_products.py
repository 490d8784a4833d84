"""Products of float32 matrices by oneDNN on processors where torch's own library, MKL, is slow (docs/benchmarks.md)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from unbraid.core.hardware import mkl_is_slow

MIN_MULTIPLICATIONS = 1 << 22  # below, copies into oneDNN's tensors cost more than its product gains


def uses_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN computes x Wᵀ: large float32 matrices on such a processor, neither compiled nor exported.

    Args:
        x: the input "b i".
        weight: the weights "o i".
    """
    return (
        not torch.compiler.is_compiling()  # first: exported, the number of rows is a symbol
        and x.dim() == 2
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == "cpu"
        and is_large(len(x), weight)
        and mkl_is_slow()
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_autocast_enabled("cpu")
    )


def is_large(rows: int, weight: Tensor) -> bool:
    """Whether a product has so many multiplications that oneDNN is worth its copies.

    Args:
        rows: rows of the input.
        weight: the weights "o i".
    """
    return rows * weight.numel() >= MIN_MULTIPLICATIONS


def linear_output(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, with the numbers of `torch.nn.functional.linear` up to rounding; it can be differentiated once.

    Args:
        x: the input "b i".
        weight: the weights "o i".
        bias: the bias "o", or None.

    >>> x, weight = torch.randn(64, 512), torch.randn(256, 512)
    >>> torch.allclose(linear_output(x, weight), x @ weight.T, atol=1e-4)
    True
    """
    if not uses_onednn(x, weight):
        return functional.linear(x, weight, bias)
    return functional.linear(x.to_mkldnn(), weight, bias).to_dense()


def input_gradient(grad: Tensor, weight: Tensor) -> Tensor:
    """The gradient of a linear layer in its input, G W.

    Args:
        grad: the gradient in the output "b o".
        weight: the weights "o i".
    """
    if not uses_onednn(grad, weight):
        return grad @ weight
    shape = [len(grad), weight.shape[1]]
    return torch.ops.aten.mkldnn_linear_backward_input(shape, grad.to_mkldnn(), weight).to_dense()


def weight_gradient(grad: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """The gradient of a linear layer in its weights, Gᵀ x.

    Args:
        grad: the gradient in the output "b o".
        x: the input "b i".
        weight: the weights "o i".
    """
    if not uses_onednn(x, weight):
        return grad.T @ x
    return torch.ops.aten.mkldnn_linear_backward_weights(grad.to_mkldnn(), x.to_mkldnn(), weight, False)[0]
