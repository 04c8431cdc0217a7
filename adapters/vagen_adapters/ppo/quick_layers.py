"""Layers of models on a CPU, computed in the quickest way that torch has: the same sums, in another order.

Nothing changes on a GPU, nor in another type than float32: there layers are what their families made of them.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

ROWS = 32
"""oneDNN is given multiples of so many rows: for each number it makes a plan, which takes half a millisecond."""
MANY = 128
"""Rows from which it pays to fill them up to such a multiple."""
ROUNDED = 1e-4
"""What sums of 64 products of numbers up to 1 are off if these are rounded to bfloat16; in float32 it is 1e-5."""
SAME = 1e-5
"""How far float32 may be off when it is computed in another order."""


def quicken(model: nn.Module) -> None:
    """Have a model embed patches by matrix products, take norms' gradients in one go, and use oneDNN where it pays.

    Weights and their names stay. Measured with torch 2.13: for 1,024 of Qwen3-VL's patches its convolution takes 5
    times as long as a product, and 8 times with its gradient; an RMSNorm with its gradient 3 times as long as here.
    """
    for each in model.modules():
        if type(each) is nn.Conv3d and each.padding == (0, 0, 0) and each.dilation == (1, 1, 1) and each.groups == 1:
            each.__class__ = _PatchProduct
        elif type(each) is nn.Linear and onednn_pays():
            each.__class__ = _Product
        elif type(each).__name__.endswith("RMSNorm") and _is_rms(each):
            each.__class__ = _quick_norm(type(each))


@functools.cache
def onednn_pays() -> bool:
    """On AMD's CPUs with AVX-512: the MKL that torch is built with (2024.2) uses half of their vectors.

    A product of 1,400 by 128 and 128 by 384 ran at 250 Gflop/s for 113 on a core of the fifth EPYC. On Intel's the two
    are alike. That oneDNN's is exact, and torch still has the operator, is tried.
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkl.is_available():
        return False
    try:
        vendor = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
        one, other = (torch.linspace(-1, 1, 64 * 64, device="cpu").roll(turn).reshape(64, 64) for turn in (0, 7))
        off = onednn(one, other).double() - one.double() @ other.double().t()
    except (OSError, AttributeError, RuntimeError):  # no such file, or another release
        return False
    return "AuthenticAMD" in vendor and float(off.abs().max()) < ROUNDED


def onednn(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(..., K), (N, K), (N,) → (..., N), for float32 on a CPU. Without gradients.

    The setting by which torch itself would take oneDNN is the whole process's, other threads' too.
    """
    found: Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")
    return found


def are_plain(*tensors: Tensor) -> bool:
    """Whether all are whole float32 tensors of a CPU, and nothing is to be computed in another type."""
    for each in tensors:
        if not each.is_cpu or each.dtype is not torch.float32 or type(each) not in (Tensor, nn.Parameter):
            return False
    return not torch.is_autocast_enabled("cpu")


class _PatchProduct(nn.Conv3d):
    """A convolution that is given pictures cut into patches of its kernel's size: of each it makes one product."""

    def _conv_forward(self, patches: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if patches.shape[2:] != self.kernel_size:
            return super()._conv_forward(patches, weight, bias)
        return _linear(patches.flatten(1), weight.flatten(1), bias)[..., None, None, None]


class _Product(nn.Linear):
    """A linear layer by oneDNN."""

    def forward(self, states: Tensor) -> Tensor:
        return _linear(states, self.weight, self.bias)


def _linear(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    rows = states.numel() // max(1, states.shape[-1])
    missing = -rows % ROWS
    if rows < (MANY if missing else ROWS) or not are_plain(states, weight) or not onednn_pays():
        return nn.functional.linear(states, weight, bias)
    multiply = _Linear.apply if torch.is_grad_enabled() else onednn
    if not missing:
        found: Tensor = multiply(states, weight, bias)
        return found
    filled = nn.functional.pad(states.reshape(rows, -1), (0, 0, 0, missing))
    return multiply(filled, weight, bias)[:rows].reshape(*states.shape[:-1], -1)  # type: ignore[no-any-return]


class _Linear(torch.autograd.Function):
    """A linear layer whose gradients are oneDNN's products, too."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(states, weight)
        ctx.has_bias = bias is not None
        return onednn(states, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        states, weight = ctx.saved_tensors
        rows, inputs = gradient.reshape(-1, gradient.shape[-1]).t(), states.reshape(-1, states.shape[-1]).t()
        of_states = onednn(gradient, weight.t()) if ctx.needs_input_grad[0] else None
        of_weight = None
        if ctx.needs_input_grad[1]:  # a fifth quicker with the smaller one first
            of_weight = onednn(rows, inputs) if len(rows) <= len(inputs) else onednn(inputs, rows).t()
        of_bias = rows.sum(1) if ctx.has_bias and ctx.needs_input_grad[2] else None
        return of_states, of_weight, of_bias


class _Norm:
    """What a family's RMSNorm is on a CPU, before its own class."""

    def forward(self: Any, states: Tensor) -> Tensor:
        if not are_plain(states, self.weight):
            return super().forward(states)  # type: ignore[misc, no-any-return]
        if torch.is_grad_enabled():
            found: Tensor = _RMS.apply(states, self.weight, _epsilon_of(self))
            return found
        return _normal(states, _epsilon_of(self))[0].mul_(self.weight)


def _normal(states: Tensor, epsilon: Any) -> tuple[Tensor, Tensor]:
    """States of a root mean square of 1, and what they were multiplied by."""
    length = torch.linalg.vector_norm(states, dim=-1, keepdim=True)
    scale = length.square_().div_(states.shape[-1]).add_(epsilon).rsqrt_()
    return states * scale, scale


class _RMS(torch.autograd.Function):
    """Root mean square normalisation (Zhang and Sennrich 2019), with its gradient in seven operations."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        normal, scale = _normal(states, epsilon)
        ctx.save_for_backward(normal, scale, weight)
        return normal * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        normal, scale, weight = ctx.saved_tensors
        product = gradient * normal
        along = torch.matmul(product, weight[:, None]).div_(normal.shape[-1])
        return (gradient * weight).addcmul_(normal, along, value=-1).mul_(scale), product.flatten(0, -2).sum(0), None


_NORMS: dict[Any, Any] = {}


def _quick_norm(own: Any) -> Any:
    """The class of a norm of this class that is computed here; always the same one."""
    if own not in _NORMS:
        _NORMS[own] = type(own.__name__, (_Norm, own), {"__module__": own.__module__, "__reduce_ex__": _as_own})
    return _NORMS[own]


def _as_own(norm: Any, _: Any) -> Any:
    """Pickled and copied by its own class, since the one made here has no name."""
    return _made, (type(norm).__mro__[2],), norm.__getstate__()


def _made(own: Any) -> Any:
    return object.__new__(_quick_norm(own))


@torch.no_grad()
def _is_rms(norm: Any) -> bool:
    """Whether a norm is what its name says: some add 1 to their weights, or scale in another way."""
    weight, epsilon = getattr(norm, "weight", None), _epsilon_of(norm)
    if epsilon is None or weight is None or weight.dim() != 1 or not are_plain(weight) or isinstance(norm, _Norm):
        return False
    sample = torch.linspace(-1, 2, 3 * len(weight), device="cpu").reshape(3, len(weight))
    own, here = norm.forward(sample), nn.functional.rms_norm(sample, weight.shape, weight, epsilon)
    return own.shape == here.shape and torch.allclose(own, here, rtol=SAME, atol=SAME)


def _epsilon_of(norm: Any) -> float | None:
    found: float | None = getattr(norm, "variance_epsilon", getattr(norm, "eps", None))
    return found
