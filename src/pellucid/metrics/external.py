"""Agreement of two labellings of the same points: label values are arbitrary, 1 is perfect."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn import metrics

__all__ = [
    "ami",
    "ari",
    "clustering_accuracy",
    "completeness",
    "evaluate",
    "homogeneity",
    "nmi",
    "purity",
    "v_measure",
]

Labels = NDArray[np.int64]


def clustering_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Share of points that are right under the best one-to-one match of clusters to classes.

    The match is found by the Hungarian method. With more clusters than classes the clusters left
    over count as wrong; with fewer, the classes left over do.
    """
    counts = _contingency(y_true, y_pred)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    return float(counts[rows, columns].sum() / counts.sum())


def purity(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Share of points that belong to the largest class of their cluster: grows with clusters."""
    counts = _contingency(y_true, y_pred)
    return float(counts.max(axis=0).sum() / counts.sum())


def nmi(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    average: Literal["arithmetic", "geometric"] = "arithmetic",
) -> float:
    """Mutual information over a mean of the entropies: I / ((H + H') / 2) or I / sqrt(H H')."""
    if average not in ("arithmetic", "geometric"):
        raise ValueError(f"average={average!r}: choose 'arithmetic' or 'geometric'")
    score = metrics.normalized_mutual_info_score
    return _ask(score, y_true, y_pred, average_method=average)


def ari(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Rand index adjusted for chance: 0 on average for random labels, below 0 when worse."""
    return _ask(metrics.adjusted_rand_score, y_true, y_pred)


def ami(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Mutual information adjusted for chance (arithmetic mean of the entropies)."""
    return _ask(metrics.adjusted_mutual_info_score, y_true, y_pred)


def homogeneity(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """1 - H(class | cluster) / H(class): 1 when every cluster holds one class."""
    return _ask(metrics.homogeneity_score, y_true, y_pred)


def completeness(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """1 - H(cluster | class) / H(cluster): 1 when every class sits in one cluster."""
    return _ask(metrics.completeness_score, y_true, y_pred)


def v_measure(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Harmonic mean of homogeneity and completeness; equal to arithmetic NMI."""
    return _ask(metrics.v_measure_score, y_true, y_pred)


def evaluate(y_true: ArrayLike, y_pred: ArrayLike) -> dict[str, float]:
    """Every score of this module by its short name."""
    return {
        "acc": clustering_accuracy(y_true, y_pred),
        "nmi": nmi(y_true, y_pred),
        "nmi_geometric": nmi(y_true, y_pred, average="geometric"),
        "ari": ari(y_true, y_pred),
        "ami": ami(y_true, y_pred),
        "homogeneity": homogeneity(y_true, y_pred),
        "completeness": completeness(y_true, y_pred),
        "v_measure": v_measure(y_true, y_pred),
        "purity": purity(y_true, y_pred),
    }


def _pair(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[Labels, Labels]:
    """Both labellings as 0..k-1."""
    true, pred = np.asarray(y_true), np.asarray(y_pred)
    if true.ndim != 1 or pred.ndim != 1:
        raise ValueError(
            f"labels must be 1-D: y_true has shape {true.shape}, y_pred {pred.shape}; "
            "use .ravel() on a column, .argmax(axis=1) on memberships"
        )
    if len(true) != len(pred):
        raise ValueError(
            f"y_true has {len(true)} labels, y_pred has {len(pred)}: "
            "both must label the same points in the same order"
        )
    if len(true) == 0:
        raise ValueError("y_true and y_pred have 0 labels: at least 1 is needed")
    return np.unique(true, return_inverse=True)[1], np.unique(pred, return_inverse=True)[1]


def _contingency(y_true: ArrayLike, y_pred: ArrayLike) -> NDArray[np.int64]:
    """Points by class (row) and cluster (column)."""
    true, pred = _pair(y_true, y_pred)
    shape = true.max() + 1, pred.max() + 1
    flat = np.bincount(true * shape[1] + pred, minlength=shape[0] * shape[1])
    return flat.reshape(shape)


def _ask(score: Callable[..., float], y_true: ArrayLike, y_pred: ArrayLike, **how: Any) -> float:
    true, pred = _pair(y_true, y_pred)
    with warnings.catch_warnings():
        # One cluster per point is a legitimate answer here, not a regression target by mistake.
        warnings.filterwarnings("ignore", message="The number of unique classes")
        return float(score(true, pred, **how))
