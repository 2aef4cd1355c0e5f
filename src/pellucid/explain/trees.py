"""Threshold trees that approximate a clustering.

Dasgupta, Frost, Moshkovitz, Rashtchian. *Explainable k-Means and k-Medians Clustering.* ICML 2020:
iterative mistake minimisation (IMM), a leaf per cluster. Frost, Moshkovitz, Rashtchian. *ExKMC:
Expanding Explainable k-Means Clustering.* 2020: further leaves where they save the most cost.
Both are written from the idea. Clusters are represented by the means of their rows in the features
that the tree may ask about, and costs are those of the clustering, wherever its centres live.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pellucid.typing import Array


@dataclass
class Node:
    """A question, or without one a leaf that means a cluster."""

    cluster: int
    feature: int = -1
    threshold: float = np.nan
    low: Node | None = None  # x[feature] <= threshold
    high: Node | None = None

    def ask(self, cut: Cut, low: Node, high: Node) -> None:
        """Turn a leaf into a question."""
        self.feature, self.threshold, self.low, self.high = cut.feature, cut.threshold, low, high

    def leaves(self) -> Iterator[Node]:
        """From low to high."""
        if self.low is None or self.high is None:
            yield self
            return
        yield from self.low.leaves()
        yield from self.high.leaves()

    def route(self, x: Array) -> list[tuple[Node, Array]]:
        """Every leaf and the rows of x (n, features) that reach it."""
        return list(self._route(x, np.arange(len(x))))

    def _route(self, x: Array, rows: Array) -> Iterator[tuple[Node, Array]]:
        if self.low is None or self.high is None:
            yield self, rows
            return
        below = x[rows, self.feature] <= self.threshold
        yield from self.low._route(x, rows[below])
        yield from self.high._route(x, rows[~below])

    def predict(self, x: Array) -> Array:
        """The cluster that the tree gives to every row."""
        labels = np.empty(len(x), np.int64)
        for leaf, rows in self.route(x):
            labels[rows] = leaf.cluster
        return labels


class Cut(NamedTuple):
    """A question: is x[feature] <= threshold? The best one has the smallest price."""

    price: tuple[float, float]
    feature: int
    threshold: float


# IMM -----------------------------------------------------------------------------------------


def imm(x: Array, labels: Array, k: int) -> Node:
    """A leaf for every cluster that has rows, with as few rows as possible on wrong sides."""
    means = np.full((k, x.shape[1]), np.nan)
    present, sizes = np.unique(labels, return_counts=True)
    for j in present:
        means[j] = x[labels == j].mean(0)
    scale = np.where(x.std(0) > 0, x.std(0), 1.0)

    def grow(rows: Array, clusters: Array) -> Node:
        largest = clusters[np.argmax(sizes[np.searchsorted(present, clusters)])]
        node = Node(int(largest))
        if len(clusters) == 1:
            return node
        cut = fewest_mistakes(x[rows], means[labels[rows]], means[clusters], scale)
        if cut is None:  # nothing that may be asked tells these clusters apart
            return node
        low_side = means[clusters, cut.feature] <= cut.threshold
        below = x[rows, cut.feature] <= cut.threshold
        right = below == (means[labels[rows], cut.feature] <= cut.threshold)
        node.ask(
            cut,
            grow(rows[below & right], clusters[low_side]),
            grow(rows[~below & right], clusters[~low_side]),
        )
        return node

    return grow(np.arange(len(x)), present)


def fewest_mistakes(x: Array, own: Array, means: Array, scale: Array) -> Cut | None:
    """The cut that separates two of the means and the fewest rows x from their `own` mean.

    A row is cut off where the threshold lies between it and its mean. Of equal cuts the one in the
    widest gap, in units of the feature's deviation, is taken.
    """
    best: Cut | None = None
    starts, ends = np.sort(np.minimum(x, own), axis=0), np.sort(np.maximum(x, own), axis=0)
    for f in range(x.shape[1]):
        values = np.unique(np.concatenate([x[:, f], means[:, f]]))
        first, last = np.searchsorted(values, (means[:, f].min(), means[:, f].max()))
        if first == last:  # the means agree in this feature
            continue
        at, after = values[first:last], values[first + 1 : last + 1]
        mistakes = np.searchsorted(starts[:, f], at, "right")
        mistakes -= np.searchsorted(ends[:, f], at, "right")
        gaps = (after - at) / scale[f]
        i = np.lexsort((-gaps, mistakes))[0]
        price = float(mistakes[i]), -float(gaps[i])
        if best is None or price < best.price:
            best = Cut(price, f, plainest(float(at[i]), float(after[i])))
    return best


def plainest(low: float, high: float) -> float:
    """The number with the fewest digits in [low, high), from the middle on."""
    middle = low + (high - low) / 2
    rounded = (float(f"{middle:.{digits}g}") for digits in range(1, 17))
    return next((number for number in rounded if low <= number < high), low)


# ExKMC ---------------------------------------------------------------------------------------


def expand(tree: Node, x: Array, gaps: Array, leaves: int) -> None:
    """Split leaves, the one that saves most first, until there are so many.

    `gaps` (n, k) are the squared distances of the rows to the centres. Each new leaf means the
    centre that costs its rows least.
    """
    grown = [(leaf, rows, saving(x[rows], gaps[rows], leaf)) for leaf, rows in tree.route(x)]
    while len(grown) < leaves:
        i = min(range(len(grown)), key=lambda i: grown[i][2].price)
        leaf, rows, cut = grown.pop(i)
        if cut.price[0] >= 0:  # nothing is left to save
            return
        below = x[rows, cut.feature] <= cut.threshold
        sides = [rows[below], rows[~below]]
        children = [Node(int(gaps[side].sum(0).argmin())) for side in sides]
        leaf.ask(cut, *children)
        for child, side in zip(children, sides, strict=True):
            grown.append((child, side, saving(x[side], gaps[side], child)))


def saving(x: Array, gaps: Array, leaf: Node) -> Cut:
    """The best split of a leaf's rows; its price is what the cost changes by."""
    best = Cut((0.0, 0.0), -1, np.nan)
    if len(x) < 2:
        return best
    now, total = gaps[:, leaf.cluster].sum(), gaps.sum(0)
    for f in range(x.shape[1]):
        order = np.argsort(x[:, f], kind="stable")
        values = x[order, f]
        ends = np.flatnonzero(values[:-1] < values[1:])
        if not len(ends):
            continue
        low = gaps[order].cumsum(0)[ends]  # (cuts, k)
        change = low.min(1) + (total - low).min(1) - now
        i = int(change.argmin())
        # Beneath what rounding leaves of the sums there is no saving.
        if change[i] < min(best.price[0], -1e-9 * max(now, 1e-300)):
            at, after = float(values[ends[i]]), float(values[ends[i] + 1])
            best = Cut((float(change[i]), 0.0), f, plainest(at, after))
    return best
