"""Where centres start: random, k-means++, k-means; chunked, on any device, seeded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pellucid.nn.geometry import nearest, squared_distances, unit_rows


class KMeansResult(NamedTuple):
    centers: Tensor  # (k, d)
    labels: Tensor  # (n,)
    inertia: float


def random_rows(z: Tensor, k: int, seed: int) -> Tensor:
    """k different rows of z."""
    generator = torch.Generator().manual_seed(seed)
    return z[torch.randperm(len(z), generator=generator)[:k]].clone()


def kmeans_plus_plus(z: Tensor, k: int, seed: int) -> Tensor:
    """Greedy k-means++: of 2 + log k rows drawn by squared distance, the one that helps most."""
    generator = torch.Generator().manual_seed(seed)
    trials = 2 + int(torch.tensor(float(k)).log())
    first = int(torch.randint(len(z), (1,), generator=generator))
    chosen, gap = [first], squared_distances(z, z[first : first + 1])[:, 0]  # (n,)
    for _ in range(k - 1):
        rows = draw(gap, trials, generator)
        gaps = torch.minimum(squared_distances(z, z[rows]), gap[:, None])  # (n, trials)
        best = int(gaps.sum(0).argmin())
        gap = gaps[:, best]
        chosen.append(int(rows[best]))
    return z[chosen].clone()


def draw(weights: Tensor, m: int, generator: torch.Generator) -> Tensor:
    """m rows in proportion to `weights`; all alike when every weight is zero.

    By the cumulative sum, since ``torch.multinomial`` refuses more than 2^24 rows.
    """
    total = weights.double().cumsum(0)
    if total[-1] <= 0:
        return torch.randint(len(weights), (m,), generator=generator)
    at = torch.rand(m, generator=generator, dtype=torch.float64).to(total) * total[-1]
    return torch.searchsorted(total, at).clamp_max(len(weights) - 1)


def lloyd(z: Tensor, omega: Tensor, *, sphere: bool, max_iter: int = 100) -> KMeansResult:
    """Assign and average until the labels stand still; an empty centre takes the farthest row."""
    k, labels = len(omega), None
    for _ in range(max_iter):
        new, gap = nearest(z, omega)
        if labels is not None and torch.equal(new, labels):
            break
        labels = new
        omega = cluster_means(z, labels, k)
        empty = torch.bincount(labels, minlength=k) == 0
        if empty.any():
            omega[empty] = z[gap.topk(int(empty.sum())).indices]
        omega = unit_rows(omega) if sphere else omega
    labels, gap = nearest(z, omega)
    return KMeansResult(omega, labels, float(gap.double().sum()))


def cluster_means(z: Tensor, labels: Tensor, k: int) -> Tensor:
    """The mean of every cluster's rows (TELL, Eq. 2); zero where there are none."""
    sums = torch.zeros(k, z.shape[1], dtype=z.dtype, device=z.device).index_add_(0, labels, z)
    return sums / torch.bincount(labels, minlength=k).clamp_min(1)[:, None]


def kmeans(
    z: Tensor, k: int, *, seed: int, n_init: int = 10, sphere: bool = False, max_iter: int = 100
) -> KMeansResult:
    """The best of `n_init` Lloyd runs from k-means++ starts; on the unit sphere if asked."""
    runs = (
        lloyd(z, kmeans_plus_plus(z, k, seed + i), sphere=sphere, max_iter=max_iter)
        for i in range(n_init)
    )
    return min(runs, key=lambda run: run.inertia)


NAMED: dict[str, Callable[[Tensor, int, int, bool], Tensor]] = {
    "k-means": lambda z, k, seed, sphere: kmeans(z, k, seed=seed, sphere=sphere).centers,
    "k-means++": lambda z, k, seed, sphere: kmeans_plus_plus(z, k, seed),
    "random rows": lambda z, k, seed, sphere: random_rows(z, k, seed),
}


def start_centers(how: Any, z: Tensor, k: int, *, seed: int, sphere: bool = False) -> Tensor:
    """Centres (k, d) from a name, or from an array of them."""
    if isinstance(how, str):
        return NAMED[how](z, k, seed, sphere)
    centers = torch.as_tensor(np.asarray(how, dtype=np.float32))
    if centers.shape != (k, z.shape[1]):
        raise ValueError(
            f"init has shape {tuple(centers.shape)}; {k} centres in an embedding of dimension "
            f"{z.shape[1]} need shape {(k, z.shape[1])}."
        )
    return centers.to(z)
