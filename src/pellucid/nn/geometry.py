"""Distances and the unit sphere, always in full precision."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

PIECE = 2**21  # distances that are held at once where all would be many: 8 MB, which caches hold

P = ParamSpec("P")
R = TypeVar("R")


def full_precision(fn: Callable[P, R]) -> Callable[P, R]:
    """Run `fn` outside autocast, with half-precision tensors widened to float32.

    Networks may run in bfloat16; distances and losses may not: a centre and a point that sits on
    it differ by less than bfloat16 can hold. float64 is left alone (gradcheck needs it).
    """

    def widen(a: object) -> object:
        half = isinstance(a, Tensor) and a.dtype in (torch.bfloat16, torch.float16)
        return a.float() if half else a  # type: ignore[attr-defined]

    @wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        given = (*args, *kwargs.values())
        device = next((a.device.type for a in given if isinstance(a, Tensor)), "cpu")
        named = {name: widen(a) for name, a in kwargs.items()}
        with torch.autocast(device, enabled=False):
            return fn(*map(widen, args), **named)  # type: ignore[arg-type]

    return run


@full_precision
def widened(x: Tensor) -> Tensor:
    """x itself, in float32 where it was narrower."""
    return x


@full_precision
def unit_rows(x: Tensor) -> Tensor:
    """Project every row on the unit sphere; a zero row stays zero."""
    return F.normalize(x, dim=-1)  # (..., d)


@full_precision
def squared_distances(z: Tensor, omega: Tensor) -> Tensor:
    """||z - omega||^2 = ||z||^2 - 2 z'omega + ||omega||^2 (TELL, Eq. 4).

    The expansion costs one matrix product instead of a (b, k, d) difference. It can come out
    slightly negative when a point sits on its centre, hence the clamp.
    """
    zz = z.square().sum(-1, keepdim=True)  # (..., b, 1)
    oo = omega.square().sum(-1).unsqueeze(-2)  # (..., 1, k)
    return (zz - z @ (2 * omega.mT) + oo).clamp_min(0)  # (..., b, k); of the two, omega is small


def nearest(z: Tensor, omega: Tensor, chunk: int | None = None) -> tuple[Tensor, Tensor]:
    """Index of, and squared distance to, the nearest centre; memory is O(chunk * (k + d))."""
    chunk = chunk or min(16384, max(256, PIECE // max(omega.shape)))
    pairs = [squared_distances(part, omega).min(-1) for part in z.split(chunk)]
    return torch.cat([p.indices for p in pairs]), torch.cat([p.values for p in pairs])
