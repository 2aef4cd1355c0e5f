"""Contributions: why a row is in cluster A and not in B, in latent features and in the input's.

Centres as weights, W = 2 omega and b = -||omega||^2, make the margin linear in the embedding:
||z - omega_B||^2 - ||z - omega_A||^2 = (W_A - W_B)'z + b_A - b_B, and its terms are exact. Back to
the input it is not linear. Gradient x input takes the slope at the row. Integrated gradients
(Sundararajan, Taly, Yan. *Axiomatic Attribution for Deep Networks.* ICML 2017) take its mean on the
way from a baseline, so that the parts sum to the difference of the two margins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.explain.view import View, draw_rows, view
from pellucid.typing import Array

BACKGROUND = 2000  # rows whose mean is the baseline
STEPS, MOST = 32, 4096  # on the way from the baseline: as many as completeness asks for


@dataclass(frozen=True)
class Margin:
    """``terms.sum(1) + bias == margin``: how much nearer each row is to A than to B, squared."""

    a: Array  # (m,)
    b: Array
    margin: Array
    terms: Array  # (m, d), of the latent features
    bias: Array  # (m,)


@dataclass(frozen=True)
class Attribution:
    """What each feature of the input adds to the margin of A over B."""

    a: Array  # (m,)
    b: Array
    values: Array  # (m, *sample_shape)
    margin: Array  # (m,), of the rows
    baseline: Array  # (m,), the margin of the baseline
    gap: Array  # (m,), |sum of values - (margin - baseline)| / |margin - baseline|
    steps: int


def latent_terms(est: Any, X: Any, rows: Any, a: Any = None, b: Any = None) -> Margin:
    """The exact terms of the margin in the latent space.

    Parameters
    ----------
    est, X : as for `explain`
    rows : int or sequence of int
        Rows of X.
    a, b : int or sequence of int, optional
        Clusters; by default each row's own, and the one nearest to it besides `a`.
    """
    asked = Contrast.of(est, X, rows, a, b)
    weight, bias = asked.direction
    terms = weight * asked.z
    parts = (asked.a, asked.b, asked.margin(asked.z), terms, bias)
    return Margin(*(part.numpy() for part in parts))


def gradient_times_input(est: Any, X: Any, rows: Any, a: Any = None, b: Any = None) -> Attribution:
    """The margin's slope at each row times the row: exact where the embedding is linear.

    Parameters as for `latent_terms`. The baseline is zero; nothing bounds `gap`.
    """
    asked = Contrast.of(est, X, rows, a, b)
    return asked.attribution(asked.x * asked.slope(asked.x), torch.zeros_like(asked.x), 1)


def integrated_gradients(
    est: Any, X: Any, rows: Any, a: Any = None, b: Any = None,
    *, baseline: Any = "mean", tol: float = 0.01,
) -> Attribution:  # fmt: skip
    """The margin back to the input, by integrated gradients from a baseline.

    Parameters
    ----------
    est, X, rows, a, b : as for `latent_terms`
    baseline : {"mean", "zero"} or array of a sample's shape, default="mean"
        What the rows are compared with: the mean of (2,000 rows of) X, say.
    tol : float, default=0.01
        Steps are doubled, up to 4,096, until every `gap` is at most this. A gap that stays larger
        means that the embedding jumps between baseline and row: then don't use the values.
    """
    asked = Contrast.of(est, X, rows, a, b)
    start = baseline_of(asked.view, baseline).expand_as(asked.x)
    steps = STEPS
    while True:
        found = asked.attribution((asked.x - start) * asked.mean_slope(start, steps), start, steps)
        if steps >= MOST or (found.gap <= tol).all():
            return found
        steps *= 2


@dataclass(frozen=True)
class Contrast:
    """Some rows, and the two clusters that each is asked about."""

    view: View
    x: Tensor  # (m, features)
    z: Tensor  # (m, d)
    a: Tensor  # (m,)
    b: Tensor

    @classmethod
    def of(cls, est: Any, X: Any, rows: Any, a: Any, b: Any) -> Contrast:
        seen = view(est, X)
        if seen.k == 1:
            raise ValueError("There is one cluster: nothing to compare it with.")
        pieces = list(seen.pieces(rows_of(rows, seen.n)))
        x = torch.from_numpy(np.concatenate([seen.values(piece.raw) for piece in pieces]))
        z = torch.cat([piece.z for piece in pieces])
        gaps = seen.gaps(z)
        own = gaps.argmin(1) if a is None else clusters_of("a", a, len(z), seen.k)
        others = gaps.scatter(1, own[:, None], torch.inf)
        other = others.argmin(1) if b is None else clusters_of("b", b, len(z), seen.k)
        return cls(seen, x, z, own, other)

    @property
    def direction(self) -> tuple[Tensor, Tensor]:
        """W_A - W_B, (m, d), and b_A - b_B, (m,)."""
        a, b = self.view.centres[self.a], self.view.centres[self.b]
        return 2 * (a - b), b.square().sum(1) - a.square().sum(1)

    def margin(self, z: Tensor) -> Tensor:
        """||z - omega_B||^2 - ||z - omega_A||^2, (m,)."""
        a, b = self.view.centres[self.a], self.view.centres[self.b]
        return (z - b).square().sum(1) - (z - a).square().sum(1)

    def slope(self, x: Tensor) -> Tensor:
        """Gradient of the margin at x (m, features)."""
        x = x.detach().clone().requires_grad_()
        with torch.enable_grad():
            z = self.view.trace(x)
            if not z.requires_grad:
                name = type(self.view.est).__name__
                raise TypeError(f"The embedding of {name} has no gradient: use `latent_terms`.")
            return torch.autograd.grad((self.direction[0] * z).sum(), x)[0]

    def mean_slope(self, start: Tensor, steps: int) -> Tensor:
        """Over the way from `start` to the rows, by the midpoint rule."""
        total = torch.zeros_like(self.x)
        for step in range(steps):
            total += self.slope(start + (step + 0.5) / steps * (self.x - start))
        return total / steps

    def attribution(self, values: Tensor, start: Tensor, steps: int) -> Attribution:
        """Beside what they should sum to."""
        with torch.no_grad():
            margin, before = (self.margin(self.view.trace(end)) for end in (self.x, start))
        difference = margin - before
        gap = (values.sum(1) - difference).abs() / difference.abs().clamp_min(1e-12)
        shaped = values.reshape(len(values), *self.view.shape)
        a, b = self.a.numpy(), self.b.numpy()
        return Attribution(a, b, shaped.numpy(), margin.numpy(), before.numpy(), gap.numpy(), steps)


def rows_of(rows: Any, n: int) -> Array:
    """Row numbers that are there."""
    found = np.atleast_1d(np.asarray(rows))
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found):
        raise ValueError(f"rows={rows!r}: use numbers of rows.")
    if found.min() < 0 or found.max() >= n:
        raise ValueError(f"rows run from {found.min()} to {found.max()}, but X has {n} rows.")
    return found.astype(np.int64)


def clusters_of(name: str, given: Any, m: int, k: int) -> Tensor:
    """One cluster for every row."""
    found = np.asarray(given)
    if found.dtype.kind not in "iu" or found.shape not in ((), (m,)):
        raise ValueError(f"{name}={given!r}: use one cluster, or one for each of the {m} rows.")
    if found.min() < 0 or found.max() >= k:
        raise ValueError(f"{name}={given!r}: the clusters are numbered 0 to {k - 1}.")
    return torch.from_numpy(np.broadcast_to(found.astype(np.int64), (m,)).copy())


def baseline_of(seen: View, baseline: Any) -> Tensor:
    """What rows are compared with, (features,)."""
    if isinstance(baseline, str):
        if baseline not in ("mean", "zero"):
            raise ValueError(f'baseline={baseline!r}: use "mean", "zero" or an array.')
        total = np.zeros(seen.data.n_features)
        if baseline == "mean":
            rows = draw_rows(seen.n, BACKGROUND)
            total = sum((seen.values(p.raw).sum(0) for p in seen.pieces(rows)), total) / len(rows)
        return torch.from_numpy(total)
    found = np.asarray(baseline, dtype=np.float64)
    if found.size != seen.data.n_features:
        raise ValueError(f"baseline has shape {found.shape}, but a sample has {seen.shape}.")
    return torch.from_numpy(found.ravel())
