"""Stability: does a cluster come back when the method starts again?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pellucid.typing import Array

MATCH = 0.5  # Jaccard from which on a cluster counts as found again


@dataclass(frozen=True)
class Stability:
    """How each cluster fared in the other restarts."""

    scores: Array  # (others, k): best-match Jaccard
    matches: Array  # (others, k): the cluster that matched best
    labels: Array  # (others, n)

    @classmethod
    def of(cls, est: Any, k: int) -> Stability | None:
        """From the labels that every restart found; None where there was one, or none is known."""
        found = getattr(est, "restart_labels_", None)
        if found is None or len(found) < 2:
            return None
        kept = int(est.best_restart_)
        others = np.delete(found, kept, axis=0)
        pairs = [best_match(found[kept], labels, k) for labels in others]
        scores, matches = (np.stack(part) for part in zip(*pairs, strict=True))
        return cls(scores, matches, others)

    def mean(self, j: int) -> float:
        return float(self.scores[:, j].mean())

    def appears(self, j: int) -> tuple[int, int]:
        """Other restarts in which cluster j was found again, of how many."""
        return int((self.scores[:, j] >= MATCH).sum()), len(self.scores)

    def kept(self, rows: Array, clusters: Array) -> Array:
        """Share of the other restarts in which each row lies where its cluster went, (b,)."""
        return (self.labels[:, rows] == self.matches[:, clusters]).mean(0)


def best_match(reference: Array, labels: Array, k: int) -> tuple[Array, Array]:
    """Largest Jaccard index of every cluster with one of `labels`, (k,), and which that is."""
    width = max(k, int(labels.max()) + 1)
    ones = np.ones(len(labels))
    table = sparse.coo_matrix((ones, (reference, labels)), shape=(k, width)).tocsr().tocoo()
    a, b = np.bincount(reference, minlength=k), np.bincount(labels, minlength=width)
    jaccard = table.data / (a[table.row] + b[table.col] - table.data)
    score, match = np.zeros(k), np.full(k, -1)
    order = np.lexsort((-table.col, jaccard))  # the best one is written last
    score[table.row[order]], match[table.row[order]] = jaccard[order], table.col[order]
    return score, match
