"""How well separated clusters are, without any true labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.metrics import silhouette_score

__all__ = ["silhouette"]


def silhouette(
    X: Any, labels: ArrayLike, sample: int | None = 2000, random_state: int = 0
) -> float:
    """Mean silhouette in [-1, 1] over ``sample`` points (all of them when None): cost sample^2.

    Parameters
    ----------
    X : array or scipy sparse matrix (n, ...)
        Points in the space that the clusters live in, for a deep model ``est.transform(X)``.
    """
    labels = np.asarray(labels)
    X = X.tocsr() if sparse.issparse(X) else np.asarray(X).reshape(len(X), -1)
    if labels.shape != (X.shape[0],):
        raise ValueError(f"X has {X.shape[0]} rows, labels has shape {labels.shape}: pass one each")
    if sample is not None and sample < len(labels):
        rows = np.random.default_rng(random_state).choice(len(labels), sample, replace=False)
        X, labels = X[rows], labels[rows]
    found = len(np.unique(labels))
    if not 2 <= found < len(labels):
        raise ValueError(
            f"a silhouette needs 2 to {len(labels) - 1} clusters among {len(labels)} points, "
            f"got {found}: pass more points, or a larger sample"
        )
    return float(silhouette_score(X, labels))
