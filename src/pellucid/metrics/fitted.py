"""What a fitted estimator shows beside its labels: the tables and figures of the papers."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.typing import Array

__all__ = ["curves", "fusion_shares", "top_share"]


def fusion_shares(est: Any, X: Any) -> Array:
    """PC-X, Table 7: `top_share` of each cluster before and after the CI-Unit, (k, 2)."""
    labels, spaces = est.predict(X), (est.transform(X), est.fuse(X))
    return np.array([[top_share(z[labels == k]) for z in spaces] for k in range(est.n_clusters)])


def top_share(z: Array) -> float:
    """Share of the largest singular value among all of them, in per cent; NaN without a row."""
    if not len(z):
        return float("nan")
    s = np.linalg.svd(np.asarray(z, dtype=np.float64), compute_uv=False)
    return float(100 * s[0] / s.sum())


def curves(
    est: Any, names: tuple[str, ...] = ("reconstruction", "clustering", "confidence", "entropy")
) -> dict[str, Array]:
    """PC-X, Fig. 4: losses and mean largest membership by epoch; NaN where there was none."""
    return {name: np.array([h.get(name, np.nan) for h in est.history_], float) for name in names}
