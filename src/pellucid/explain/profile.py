"""Profiles: in which features a cluster differs from everything, and by how much."""

from __future__ import annotations

import numpy as np

from pellucid.data.scaling import Extent
from pellucid.explain.explanation import Shift
from pellucid.typing import Array

SHOWN = 50  # features of a profile that are spelled out


class Moments:
    """Means of the clusters, and mean and deviation of everything, over a stream of rows."""

    def __init__(self, k: int, features: int) -> None:
        self.sums = np.zeros((k, features))
        self.sizes = np.zeros(k, np.int64)
        self.squares = np.zeros(k)  # of the distances to the centre
        self.all = Extent(pooled=False)

    def take(self, labels: Array, distances: Array, values: Array) -> None:
        """Add rows `values` (b, features)."""
        self.all.update(values)
        order = np.argsort(labels, kind="stable")
        found, starts = np.unique(labels[order], return_index=True)
        self.sums[found] += np.add.reduceat(values[order], starts, axis=0)
        self.sizes += np.bincount(labels, minlength=len(self.sizes))
        self.squares += np.bincount(labels, distances**2, minlength=len(self.sizes))

    @property
    def spreads(self) -> Array:
        """Root mean squared distance to the centre, (k,)."""
        return np.sqrt(self.squares / np.maximum(self.sizes, 1))

    @property
    def deviation(self) -> Array:
        """Standard deviation of every feature; zero where it never changes."""
        constant = self.all.low == self.all.high  # where the deviation would be round-off
        return np.where(constant, 0.0, np.sqrt(self.all.squares / self.all.count))

    @property
    def means(self) -> Array:
        """(k, features); that of everything for a cluster without rows."""
        sizes = self.sizes[:, None]
        return np.where(sizes > 0, self.sums / np.maximum(sizes, 1), self.all.mean)

    def differences(self, j: int) -> Array:
        """Mean of cluster j minus the mean of everything, (features,)."""
        if not self.sizes[j]:
            return np.zeros_like(self.all.mean)
        gap = self.sums[j] / self.sizes[j] - self.all.mean
        return np.where(self.all.low == self.all.high, 0.0, gap)

    def shifts(self, j: int, names: list[str]) -> list[Shift]:
        """The profile of cluster j, the largest standardised difference first."""
        if not self.sizes[j]:
            return []
        gap, deviation = self.differences(j), self.deviation
        standardised = gap / np.where(deviation > 0, deviation, np.inf)
        top = np.argsort(-np.abs(standardised), kind="stable")[:SHOWN]
        overall = self.all.mean
        return [
            Shift(
                i, names[i], float(overall[i] + gap[i]), float(overall[i]), float(standardised[i])
            )
            for i in top.tolist()
        ]

    def telling(self, m: int) -> Array:
        """The m features whose variance the clusters explain best, in the order of the features."""
        between = (self.sizes[:, None] * (self.means - self.all.mean) ** 2).sum(0)
        total = self.deviation**2 * self.all.count
        share = between / np.where(total > 0, total, np.inf)
        return np.sort(np.argsort(-share, kind="stable")[:m])
