"""Exemplars: the most central, the most doubtful and the least typical members of each cluster."""

from __future__ import annotations

import numpy as np

from pellucid.explain.explanation import Sample
from pellucid.explain.standing import Best, Standing, contents_of
from pellucid.typing import Array


class Exemplars:
    """The m most central, boundary and untypical members of k clusters, and of all the doubtful.

    Every one belongs to its cluster, and no list shows two rows with the same content.
    """

    def __init__(self, m: int, k: int, doubtful: int) -> None:
        self.central, self.boundary, self.untypical = (Best(m, k) for _ in range(3))
        self.doubtful = Best(doubtful, 1)
        self.borders = k > 1

    def take(self, found: Standing, raw: Array) -> None:
        """Look at some rows."""
        content = contents_of(raw)
        self.central.take(found.cluster, found.distance, found, content)
        self.untypical.take(found.cluster, -found.distance, found, content)
        if self.borders:
            self.boundary.take(found.cluster, found.margin, found, content)
            self.doubtful.take(np.zeros_like(found.cluster), found.margin, found, content)

    def of(self, j: int) -> dict[str, list[Sample]]:
        """The lists of cluster j, by the names of `Cluster`'s fields."""
        return {
            "central": self.central.samples(j),
            "boundary": self.boundary.samples(j),
            "untypical": self.untypical.samples(j),
        }
