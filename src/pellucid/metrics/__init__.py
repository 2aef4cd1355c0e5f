"""Scores of a clustering: numpy in, float out; and what a fitted estimator shows."""

from pellucid.metrics.external import (
    ami,
    ari,
    clustering_accuracy,
    completeness,
    evaluate,
    homogeneity,
    nmi,
    purity,
    v_measure,
)
from pellucid.metrics.fitted import curves, fusion_shares, top_share
from pellucid.metrics.internal import silhouette

__all__ = [
    "ami",
    "ari",
    "clustering_accuracy",
    "completeness",
    "curves",
    "evaluate",
    "fusion_shares",
    "homogeneity",
    "nmi",
    "purity",
    "silhouette",
    "top_share",
    "v_measure",
]
