"""Scores of a clustering: numpy in, float out."""

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
from pellucid.metrics.internal import silhouette

__all__ = [
    "ami",
    "ari",
    "clustering_accuracy",
    "completeness",
    "evaluate",
    "homogeneity",
    "nmi",
    "purity",
    "silhouette",
    "v_measure",
]
