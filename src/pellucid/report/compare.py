"""The clustering beside others: k-means on the same rows, and labels that somebody knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import k_means
from sklearn.metrics import pairwise_distances_argmin

from pellucid.explain.view import View
from pellucid.metrics import ari, clustering_accuracy, nmi
from pellucid.report.gallery import NAME, one_line
from pellucid.report.survey import Survey, chunks
from pellucid.typing import Array

LARGEST_TABLE = 40  # rows and columns that can still be read
STARTS, STEPS = 3, 100  # of k-means
MOST = 200  # clusters; for more it takes longer than the rest of the page


@dataclass(frozen=True)
class Table:
    """Counts of pairs, the columns arranged so that what matches is on the diagonal."""

    counts: Array
    rows: list[str]
    columns: list[str]

    @classmethod
    def of(cls, a: Array, b: Array, rows: list[str], columns: list[str]) -> Table:
        counts = np.zeros((len(rows), len(columns)), np.int64)
        np.add.at(counts, (a, b), 1)
        match = linear_sum_assignment(counts, maximize=True)[1]
        order = [*match, *np.setdiff1d(np.arange(len(columns)), match)]
        return cls(counts[:, order], rows, [columns[i] for i in order])

    @property
    def readable(self) -> bool:
        return max(self.counts.shape) <= LARGEST_TABLE

    def lines(self) -> list[tuple[str, list[tuple[int, float]]]]:
        """Name of a row; count and share of the row of each of its cells."""
        whole = np.maximum(self.counts.sum(1, keepdims=True), 1)
        shares = self.counts / whole
        return [
            (name, list(zip(counts.tolist(), share.tolist(), strict=True)))
            for name, counts, share in zip(self.rows, self.counts, shares, strict=True)
        ]


@dataclass(frozen=True)
class Rival:
    """k-means on the input itself, with the same number of clusters."""

    centres: Array  # (k, features), as scaled for the network
    labels: Array  # (m,), of the rows on the map

    @classmethod
    def of(cls, view: View, survey: Survey) -> Rival | None:
        """None where the clustering is k-means on the input already, or k does not allow it."""
        if not hasattr(view.est, "module_") or not 1 < view.k < min(MOST, len(survey.rows)):
            return None
        parts = chunks(survey.rows, view.data.n_features)
        x = np.concatenate([scaled(view, view.data.read(rows)) for rows in parts])
        how: dict[str, Any] = {"n_init": STARTS, "max_iter": STEPS, "random_state": 0}
        centres, labels, _ = k_means(x, view.k, **how)
        return cls(centres, labels)

    def summary(self, survey: Survey) -> dict[str, Any]:
        """How far the two agree, and where they do not."""
        names = [str(j) for j in range(len(self.centres))]
        table = Table.of(survey.labels, self.labels, names, names)
        return {
            "table": table,
            "same": clustering_accuracy(survey.labels, self.labels),
            "nmi": nmi(survey.labels, self.labels),
            "ari": round(ari(survey.labels, self.labels), 2) + 0.0,  # no -0.00
        }


def scaled(view: View, raw: Array) -> Array:
    """Rows as the network gets them, flat."""
    return view.data.prepare(raw).reshape(len(raw), -1).numpy()


@dataclass(frozen=True)
class Truth:
    """How clusters agree with labels that nothing before this has seen."""

    scores: dict[str, dict[str, float]]  # method: ACC, NMI, ARI
    table: Table
    n: int

    @classmethod
    def of(cls, view: View, y: Any, rival: Rival | None) -> Truth:
        names, classes = np.unique(np.asarray(y).astype(str), return_inverse=True)
        labels = every_label(view, rival)
        measures = {"ACC": clustering_accuracy, "NMI": nmi, "ARI": ari}
        scores = {
            method: {name: measure(classes, found) for name, measure in measures.items()}
            for method, found in labels.items()
        }
        own = next(iter(labels.values()))
        clusters = [str(j) for j in range(view.k)]
        table = Table.of(own, classes, clusters, [one_line(name, NAME) for name in names])
        return cls(scores, table, view.n)


def every_label(view: View, rival: Rival | None) -> dict[str, Array]:
    """The cluster of every row, (n,), by the method and by k-means."""
    found: dict[str, list[Array]] = {}
    for piece in view.pieces():
        found.setdefault(type(view.est).__name__, []).append(view.gaps(piece.z).argmin(1).numpy())
        if rival is not None:
            nearest = pairwise_distances_argmin(scaled(view, piece.raw), rival.centres)
            found.setdefault("k-means on the input", []).append(nearest)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def check_labels(y: Any, n: int) -> None:
    """Refuse labels that are not one per row."""
    shape = np.shape(y)
    if len(shape) != 1 or shape[0] != n:
        raise ValueError(f"y has shape {shape}, but X has {n} rows: pass one label per row.")
