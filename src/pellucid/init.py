"""Where centres start: random, k-means++, k-means, a graph of landmarks; seeded, chunked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import BaseEstimator
from torch import Tensor

from pellucid.nn.geometry import PIECE, nearest, squared_distances, unit_rows

WORTH = 1e-3  # of the inertia: what an exchange of centres has to save


class KMeansResult(NamedTuple):
    centers: Tensor  # (k, d)
    labels: Tensor  # (n,)
    inertia: float


def random_rows(z: Tensor, k: int, seed: int) -> Tensor:
    """k different rows of z."""
    generator = torch.Generator().manual_seed(seed)
    return z[torch.randperm(len(z), generator=generator)[:k]].clone()


def kmeans_plus_plus(z: Tensor, k: int, seed: int, weight: Tensor | None = None) -> Tensor:
    """Greedy k-means++: of 2 + log k rows drawn by squared distance, the one that helps most."""
    generator = torch.Generator().manual_seed(seed)
    trials = 2 + int(torch.tensor(float(k)).log())
    weight = torch.ones(len(z), dtype=z.dtype, device=z.device) if weight is None else weight
    first = int(draw(weight, 1, generator))
    chosen, gap = [first], squared_distances(z, z[first : first + 1])[:, 0]  # (n,)
    for _ in range(k - 1):
        rows = draw(gap * weight, trials, generator)
        gaps = torch.minimum(squared_distances(z, z[rows]), gap[:, None])  # (n, trials)
        best = int((gaps * weight[:, None]).sum(0).argmin())
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


def lloyd(
    z: Tensor,
    omega: Tensor,
    *,
    sphere: bool = False,
    max_iter: int = 100,
    weight: Tensor | None = None,
) -> KMeansResult:
    """Assign and average until the labels stand still; an empty centre takes the farthest row."""
    k, labels = len(omega), None
    for _ in range(max_iter):
        new, gap = nearest(z, omega)
        if labels is not None and torch.equal(new, labels):
            break
        labels = new
        omega = cluster_means(z, labels, k, weight)
        empty = torch.bincount(labels, minlength=k) == 0
        if empty.any():
            omega[empty] = z[gap.topk(int(empty.sum())).indices]
        omega = unit_rows(omega) if sphere else omega
    labels, gap = nearest(z, omega)
    gap = gap.double() if weight is None else gap.double() * weight
    return KMeansResult(omega, labels, float(gap.sum()))


def cluster_means(z: Tensor, labels: Tensor, k: int, weight: Tensor | None = None) -> Tensor:
    """The mean of every cluster's rows (TELL, Eq. 2); zero where there are none."""
    sums = torch.zeros(k, z.shape[1], dtype=z.dtype, device=z.device)
    sums.index_add_(0, labels, z if weight is None else z * weight[:, None])
    weight = torch.ones(len(z), dtype=z.dtype, device=z.device) if weight is None else weight
    sizes = torch.zeros(k, dtype=z.dtype, device=z.device).index_add_(0, labels, weight)
    return sums / torch.where(sizes > 0, sizes, 1)[:, None]


def kmeans(
    z: Tensor,
    k: int,
    *,
    seed: int,
    n_init: int = 10,
    sphere: bool = False,
    max_iter: int = 100,
    weight: Tensor | None = None,
) -> KMeansResult:
    """The best of `n_init` Lloyd runs from k-means++ starts; on the unit sphere if asked."""
    runs = (
        lloyd(
            z, kmeans_plus_plus(z, k, seed + i, weight),
            sphere=sphere, max_iter=max_iter, weight=weight,
        )
        for i in range(n_init)
    )  # fmt: skip
    return min(runs, key=lambda run: run.inertia)


def exchange(z: Tensor, omega: Tensor, *, seed: int, sphere: bool = False) -> KMeansResult | None:
    """Moves that leave an optimum of k-means; None where none lowers the inertia.

    Two centres that share a cluster become one, and the one that is free joins a centre that holds
    two clusters. Lloyd's steps follow, and the move stands if it was worth it.
    """
    best, moved = lloyd(z, omega, sphere=sphere), False
    for _ in range(len(omega) if len(omega) > 2 else 0):
        tried = lloyd(z, swapped(z, best, seed), sphere=sphere)
        if not tried.inertia < (1 - WORTH) * best.inertia:
            break
        best, moved = tried, True
    return best if moved else None


def swapped(z: Tensor, run: KMeansResult, seed: int) -> Tensor:
    """Centres with the cheapest pair merged and, of the others, the most scattered one split."""
    k = len(run.centers)
    n = torch.bincount(run.labels, minlength=k).to(z)
    cost = squared_distances(run.centers, run.centers) * (n[:, None] * n) / (n[:, None] + n)
    cost = cost.nan_to_num(0.0).fill_diagonal_(torch.inf)
    i, j = divmod(int(cost.argmin()), k)
    gap = (z - run.centers[run.labels]).square().sum(1)
    rest = [s for s in range(k) if s not in (i, j) and n[s] > 1]
    parts = {s: kmeans(z[run.labels == s], 2, seed=seed, n_init=1, max_iter=20) for s in rest}
    gain = {s: float(gap[run.labels == s].sum()) - part.inertia for s, part in parts.items()}
    centers = run.centers.clone()
    if gain:
        worst = max(gain, key=lambda s: gain[s])
        centers[i] = (n[i] * centers[i] + n[j] * centers[j]) / (n[i] + n[j]).clamp_min(1)
        centers[j], centers[worst] = parts[worst].centers
    return centers


class GraphStart(BaseEstimator):
    """A start that follows the shape of the data: spectral clustering of landmarks.

    k-means on an embedding often puts two classes into one centre and splits a third, and the
    lowest inertia may well be such a wrong one. Here a thousand landmarks stand for the data, two
    of them are linked by every row that has both among its nearest, and the landmarks are
    clustered by the eigenvectors of that graph (Ng, Jordan, Weiss 2001). More eigenvectors than
    clusters are tried and the smallest normalised cut decides, so nothing is left to set by hand.

    Parameters
    ----------
    landmarks : int, default=1000
        At most an eighth of the rows are taken.
    least : int, default=20
        Landmarks per cluster; with fewer, a small cluster has none of its own, the cut makes all
        clusters equally large, and k-means' centres are taken instead.
    neighbors : int, default=3
        Landmarks that a row is linked to.
    extra : tuple of int, default=(2, 3, 4, 6)
        How many eigenvectors beyond n_clusters are tried.
    draws : int, default=5
        Sets of landmarks that are tried; the smallest cut wins here, too.
    hold : int, default=2
        Epochs for which the start's own assignments stay, whatever centre is nearest meanwhile:
        its clusters are not round, and the encoder needs a moment to make them so.
    """

    def __init__(
        self,
        landmarks: int = 1000,
        *,
        least: int = 20,
        neighbors: int = 3,
        extra: tuple[int, ...] = (2, 3, 4, 6),
        draws: int = 5,
        hold: int = 2,
    ) -> None:
        self.landmarks = landmarks
        self.least = least
        self.neighbors = neighbors
        self.extra = extra
        self.draws = draws
        self.hold = hold

    def fit(self, z: Tensor, k: int, seed: int) -> LandmarkGraph:
        """Cluster (a sample of) the embedding z (n, d)."""
        fewest = max(self.least * k, self.neighbors)
        if min(self.landmarks, len(z) // 8) < fewest:
            return LandmarkGraph(kmeans(z, k, seed=seed).centers, torch.arange(k), 1, 0.0)
        draws = (self.draw(z, k, seed + i) for i in range(self.draws))
        return min(draws, key=lambda graph: graph.cut)

    def draw(self, z: Tensor, k: int, seed: int) -> LandmarkGraph:
        """One set of landmarks."""
        z = z[torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))[:20_000]]
        m = min(self.landmarks, len(z) // 8)
        # Ten steps spread the landmarks; where exactly they end does not matter.
        points = lloyd(z, z[:m].clone(), max_iter=10).centers
        links, rows = soft_links(z, points, self.neighbors)
        graph = torch.zeros(m * m, dtype=z.dtype, device=z.device)
        for p in range(self.neighbors):
            for q in range(self.neighbors):
                if p != q:
                    graph.index_add_(0, rows[:, p] * m + rows[:, q], links[:, p] * links[:, q])
        labels, cut = smallest_cut(graph.view(m, m), k, self.extra, seed)
        return LandmarkGraph(points, labels, self.neighbors, cut)


class LandmarkGraph(NamedTuple):
    """Landmarks with a cluster each; a row belongs where most of its links go."""

    points: Tensor  # (m, d)
    clusters: Tensor  # (m,)
    neighbors: int
    cut: float  # normalised cut, between 0 and k: how tangled the clusters are

    def labels(self, z: Tensor) -> Tensor:
        links, rows = soft_links(z, self.points.to(z), self.neighbors)
        one_hot = F.one_hot(self.clusters.to(z.device))[rows]  # (n, s, k)
        return (one_hot * links[..., None]).sum(1).argmax(1)  # (n,)


def soft_links(z: Tensor, points: Tensor, s: int) -> tuple[Tensor, Tensor]:
    """Weights (n, s), summing to one, of every row's s nearest points, and which they are."""
    chunk = max(256, PIECE // max(points.shape))
    parts = [squared_distances(part, points).topk(s, largest=False) for part in z.split(chunk)]
    gap, rows = torch.cat([p.values for p in parts]), torch.cat([p.indices for p in parts])
    scale = gap[:, -1:].clamp_min(1e-12)  # the s-th distance: dense and sparse regions alike
    return torch.softmax(-2 * gap / scale, 1), rows


def smallest_cut(graph: Tensor, k: int, extra: tuple[int, ...], seed: int) -> tuple[Tensor, float]:
    """Spectral clustering with more than k eigenvectors; the smallest normalised cut wins."""
    degree = graph.sum(1).clamp_min(1e-6)
    normal = graph / degree.sqrt()[:, None] / degree.sqrt()
    vectors = torch.linalg.eigh(normal.double()).eigenvectors.to(graph.dtype)
    best, lowest = torch.zeros_like(degree, dtype=torch.long), float("inf")
    for more in extra:
        u = unit_rows(vectors[:, -(k + more) :])
        labels = kmeans(u, k, seed=seed, n_init=15, sphere=True, weight=degree).labels
        one_hot = F.one_hot(labels, k).to(graph)
        inside = (one_hot.mT @ graph @ one_hot).diagonal()
        cut = float((1 - inside / (one_hot.mT @ degree).clamp_min(1e-9)).sum())
        if cut < lowest:
            best, lowest = labels, cut
    return best, lowest


NAMED = ("random rows", "k-means++", "k-means", "graph")


def held_epochs(how: Any) -> int:
    """For how many epochs the start `how` keeps its own assignments."""
    begin = named_start(how)
    return begin.hold if isinstance(begin, GraphStart) else 0


class Start(NamedTuple):
    """Centres (k, d), and the start's own assignment of embedded rows."""

    centers: Tensor
    labels: Callable[[Tensor], Tensor]
    scores: dict[str, float]


def named_start(how: Any) -> Any:
    """`how`, with "graph" as the `GraphStart` that it means."""
    return GraphStart() if isinstance(how, str) and how == "graph" else how


def start_from(how: Any, z: Tensor, k: int, *, seed: int, sphere: bool = False) -> Start:
    """A start on the embedding z from a name, a `GraphStart`, or an array of centres."""
    how = named_start(how)
    if isinstance(how, GraphStart):
        graph = how.fit(z, k, seed)
        return Start(cluster_means(z, graph.labels(z), k), graph.labels, {"cut": graph.cut})
    if isinstance(how, str) and how == "random rows":
        centers = random_rows(z, k, seed)
    elif isinstance(how, str) and how == "k-means++":
        centers = kmeans_plus_plus(z, k, seed)
    elif isinstance(how, str):
        centers = kmeans(z, k, seed=seed, sphere=sphere).centers
    else:
        centers = torch.as_tensor(np.asarray(how, dtype=np.float32)).to(z)
    if centers.shape != (k, z.shape[1]):
        raise ValueError(
            f"init has shape {tuple(centers.shape)}; {k} centres in an embedding of dimension "
            f"{z.shape[1]} need shape {(k, z.shape[1])}."
        )
    if not centers.isfinite().all():
        raise ValueError("init contains NaN or infinity.")
    centers = unit_rows(centers) if sphere else centers
    return Start(centers, lambda z: nearest(z, centers.to(z))[0], {})
