"""Ambiguity: which rows and which pairs of clusters are unsure, and whether margins say so."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from pellucid.explain.exemplars import Exemplars
from pellucid.explain.explanation import Ambiguity
from pellucid.explain.stability import Stability
from pellucid.explain.standing import Standing
from pellucid.explain.view import VALUES, View, draw_rows
from pellucid.nn import nearest
from pellucid.typing import Array

NEAR = 0.2  # position below which a row counts as near the border; the centre is at 1
BINS = 64
PAIRS, NEIGHBOURS = 20, 8  # that are named, at most
ROWS, DRAWS = 5000, 20  # of the bootstrap: rows that are watched, and how often they are drawn
PRODUCTS = 2**22  # rows times clusters, or times dimensions, that are watched at most


class Histogram:
    """Counts of numbers from 0 on in equal bins, over a stream: the range doubles as needed."""

    def __init__(self, bins: int = BINS) -> None:
        self.counts = np.zeros(bins, np.int64)
        self.width = 0.0

    def take(self, values: Array) -> None:
        bins, top = len(self.counts), float(values.max(initial=0))
        if self.width == 0:
            self.width = top / bins
        while self.width and top > bins * self.width:
            merged = self.counts.reshape(-1, 2).sum(1)
            self.counts, self.width = np.r_[merged, np.zeros_like(merged)], 2 * self.width
        place = (values / self.width).astype(np.int64) if self.width else np.zeros(len(values), int)
        self.counts += np.bincount(np.minimum(place, bins - 1), minlength=bins)

    @property
    def edges(self) -> Array:
        return np.arange(len(self.counts) + 1) * (self.width or 1 / len(self.counts))


class Borders:
    """Rows between each two clusters."""

    def __init__(self, k: int) -> None:
        self.second = sparse.csr_matrix((k, k), dtype=np.int64)
        self.near = sparse.csr_matrix((k, k), dtype=np.int64)
        self.margins = Histogram()

    def take(self, found: Standing) -> None:
        self.margins.take(found.margin)
        if self.second.shape[0] > 1:
            self.second = self.second + self._count(found, found.position >= -np.inf)
            self.near = self.near + self._count(found, found.position < NEAR)

    def _count(self, found: Standing, which: Array) -> sparse.csr_matrix:
        at = found.cluster[which], found.second[which]
        return sparse.csr_matrix((np.ones(len(at[0]), np.int64), at), shape=self.second.shape)

    def neighbours(self, j: int) -> list[tuple[int, int]]:
        """Other clusters and how many of cluster j's rows have them second, most first."""
        here = slice(*self.second.indptr[j : j + 2])
        others, rows = self.second.indices[here], self.second.data[here]
        order = np.lexsort((others, -rows))[:NEIGHBOURS]
        return [(int(others[i]), int(rows[i])) for i in order]

    def pairs(self) -> list[tuple[int, int, int]]:
        """The pairs with the most rows near their border."""
        both = sparse.triu(self.near + self.near.T).tocoo()
        order = np.lexsort((both.col, both.row, -both.data))[:PAIRS]
        return [(int(both.row[i]), int(both.col[i]), int(both.data[i])) for i in order]


class Watched:
    """Some rows, drawn beforehand, that are kept as they pass by."""

    def __init__(self, view: View) -> None:
        bound = PRODUCTS // max(view.centres.shape) + 1
        self.rows, self.n = draw_rows(view.n, min(ROWS, bound)), view.n
        self.parts: list[tuple[Tensor, Array, Array]] = []

    def take(self, found: Standing, z: Tensor) -> None:
        first, last = np.searchsorted(self.rows, (found.row[0], found.row[-1] + 1))
        at = self.rows[first:last] - found.row[0]
        self.parts.append((z[at], found.cluster[at], found.margin[at]))

    def kept(self, view: View, stability: Stability | None) -> tuple[Array, str]:
        """By tenth of the margins, smallest first: how often rows kept their cluster; over what."""
        z = torch.cat([part[0] for part in self.parts])
        clusters, margins = (np.concatenate([part[i] for part in self.parts]) for i in (1, 2))
        if stability is not None and stability.labels.shape[1] == self.n:
            share = stability.kept(self.rows, clusters)
            others = len(stability.labels)
            how = f"{others} other restart" + ("s" if others > 1 else "")
        else:
            share, how = bootstrap(view, z, clusters, self.n), f"{DRAWS} bootstrap draws"
        tenths = np.array_split(share[np.argsort(margins, kind="stable")], min(10, len(share)))
        return np.array([tenth.mean() for tenth in tenths]), how


def bootstrap(view: View, z: Tensor, clusters: Array, n: int) -> Array:
    """Share of draws after which a row z is still nearest to its own centre, (b,).

    Each centre moves by what its mean moves when the rows are drawn again, with replacement; the
    embedding stays. The rows stand for n, whose means move less, by sqrt(b / n).
    """
    rng, b = np.random.default_rng(0), len(z)
    own, kept = torch.from_numpy(clusters), torch.zeros(b)
    sizes, mean = means(z, own, torch.ones(b), view.k)
    for _ in range(DRAWS):
        weight = torch.from_numpy(rng.multinomial(b, np.full(b, 1 / b)))
        drawn, moved = means(z, own, weight, view.k)
        known = ((sizes > 0) & (drawn > 0))[:, None]
        centres = view.centres + torch.where(known, moved - mean, 0.0) * (b / n) ** 0.5
        labels, _ = nearest(z - view.origin, centres - view.origin, max(1, VALUES // view.k))
        kept += labels == own
    return (kept / DRAWS).numpy()


def means(z: Tensor, labels: Tensor, weight: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Sizes (k,) and means (k, d) of weighted rows; zero where there are none."""
    weight = weight.to(z)
    sizes = z.new_zeros(k).index_add_(0, labels, weight)
    sums = z.new_zeros(k, z.shape[1]).index_add_(0, labels, z * weight[:, None])
    return sizes, sums / sizes.clamp_min(1)[:, None]


def ambiguity(
    borders: Borders, exemplars: Exemplars, watched: Watched, view: View, found: Stability | None
) -> Ambiguity:
    """All of it."""
    least = exemplars.doubtful.samples(0)
    margins = borders.margins
    if view.k == 1:
        kept, how, note = None, "", "There is one cluster, so no row can be between two."
    else:
        kept, how = watched.kept(view, found)
        note = (
            f"Margins and entropies rank rows, they are not probabilities. In {how} the rows with "
            f"the smallest tenth of the margins kept their cluster in {kept[0]:.0%} of the cases, "
            f"those with the largest in {kept[-1]:.0%}."
        )
    return Ambiguity(least, borders.pairs(), margins.counts, margins.edges, note, kept, how)
