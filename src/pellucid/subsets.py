"""How many rows stand for all of them: the spectrum of a kernel on a sample (KernelNet, Section 6).

A sample is large enough when the spectrum of its normalised kernel is close, in the largest
difference, to that of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from pellucid.data import Batches
from pellucid.nn import gaussian_kernel, median_distance, relative_change
from pellucid.typing import Array

Spread: TypeAlias = Callable[[Tensor, Tensor], Tensor]

REFERENCE = 2000  # rows whose spectrum stands for the data's: all eigenvalues, n^3
SHARES = tuple(i / 20 for i in range(1, 20))  # 5%, 10%, ...
DRAWS, LARGE = 20, 600  # samples that are compared; larger ones are near enough, and cost m^3
MASS, GAP = 0.95, 0.005  # of the spectrum that is compared, and how close it has to come


def subset_rows(
    data: Batches, subset: float | str | None, least: int, seed: int, spread: Spread
) -> Array:
    """The rows to train on: all of them, a share, a number, or as many as the spectrum wants."""
    rng = np.random.default_rng(seed)
    if subset is None:
        return np.arange(data.n)
    if isinstance(subset, str):
        return spectral_rows(data, least, rng, spread)
    m = int(subset) if isinstance(subset, Integral) else max(round(data.n * float(subset)), least)
    if m >= data.n:
        return np.arange(data.n)
    if m > LARGE:
        return np.sort(rng.choice(data.n, m, replace=False))
    whole = Reference(data, rng, spread)
    draws = [np.sort(rng.choice(data.n, m, replace=False)) for _ in range(DRAWS)]
    parts = [data.take(rows).flatten(1) for rows in draws]
    return draws[whole.typical(parts, [whole.gap(z) for z in parts])]


def check_subset(subset: object, least: int) -> None:
    """Refuse what is neither a share, nor a number of rows, nor "auto"."""
    if subset is None or subset == "auto":
        return
    whole = isinstance(subset, Integral) and not isinstance(subset, bool)
    if whole and int(subset) >= least:  # type: ignore[call-overload]
        return
    if not whole and isinstance(subset, Real) and 0 < float(subset) <= 1:
        return
    raise ValueError(
        f"subset={subset!r}: use a share between 0 and 1, a number of at least {least} rows, "
        f'"auto", or None for all rows.'
    )


class Reference:
    """A sample that is as large as can be, whose spectrum others come near.

    ``spread(z, others)`` are the clusters of `others`, one-hot (n, k), by those of z.
    """

    def __init__(self, data: Batches, rng: np.random.Generator, spread: Spread) -> None:
        self.spread = spread
        self.rows = np.sort(rng.choice(data.n, min(REFERENCE, data.n), replace=False))
        self.z = data.take(self.rows).flatten(1)
        self.sigma = median_distance(self.z, seed=0)
        self.values = spectrum(self.z, self.sigma)
        self.top = int((self.values.cumsum(0) < MASS).sum()) + 1

    def gap(self, z: Tensor) -> float:
        """How far the spectrum of z is from this one."""
        return spectral_gap(self.values, spectrum(z, self.sigma), self.top)

    def typical(self, parts: list[Tensor], gaps: list[float]) -> int:
        """Of the half with the smallest gaps, the part whose clusters are most like the others'."""
        near = np.argsort(gaps, kind="stable")[: -(-len(parts) // 2)]
        found = [self.spread(parts[i], self.z) for i in near]
        unit = [u / u.sum(0).clamp_min(1).sqrt() for u in found]
        return int(near[np.argmin([sum(relative_change(u, v) for v in unit) for u in unit])])


def spectral_rows(data: Batches, least: int, rng: np.random.Generator, spread: Spread) -> Array:
    """The smallest of growing samples whose mean spectral gap is below `GAP`."""
    whole = Reference(data, rng, spread)
    n = len(whole.rows)
    for m in (max(round(share * n), least) for share in SHARES):
        if m >= n:
            break
        draws = [rng.choice(n, m, replace=False) for _ in range(DRAWS)]
        gaps = [whole.gap(whole.z[rows]) for rows in draws]
        if np.mean(gaps) < GAP:
            chosen = whole.typical([whole.z[rows] for rows in draws], gaps)
            return np.sort(whole.rows[draws[chosen]])
    return whole.rows


def spectrum(z: Tensor, sigma: float) -> Tensor:
    """Eigenvalues of D^-1/2 K D^-1/2, falling, as shares of their sum."""
    kernel = gaussian_kernel(z.double(), z.double(), sigma)
    root = kernel.sum(1).rsqrt()
    values = torch.linalg.eigvalsh(root[:, None] * kernel * root).flip(0).clamp_min(0)
    return values / values.sum()


def spectral_gap(whole: Tensor, part: Tensor, top: int) -> float:
    """The largest difference among the `top` eigenvalues; those that `part` lacks are zero."""
    padded = torch.zeros(top, dtype=whole.dtype)
    padded[: min(top, len(part))] = part[:top]
    return float((whole[:top] - padded).abs().max())
