"""Losses as free functions, the formula in each docstring."""

from __future__ import annotations

from torch import Tensor

from pellucid.nn.geometry import full_precision
from pellucid.typing import Reduction


@full_precision
def clustering_loss(distances: Tensor, memberships: Tensor) -> Tensor:
    """mean_i sum_j s_ij d_ij: k-means' objective over n (TELL, Eq. 3 and 13)."""
    return (memberships * distances).sum(-1).mean()


@full_precision
def reconstruction_loss(x_hat: Tensor, x: Tensor, reduction: Reduction = "mean") -> Tensor:
    """||x - x_hat||^2 per sample, averaged over the batch (TELL, Eq. 14).

    "sum" adds up the features as the papers write it; "mean" divides by their number.
    """
    error = (x_hat - x).square().mean()
    return error if reduction == "mean" else error * x[0].numel()


@full_precision
def entropy_loss(logits: Tensor) -> Tensor:
    """-mean_i sum_j s_ij log s_ij with s = softmax(logits) (PC-X, Eq. 8).

    From the logits: s log s has no gradient that a computer could find where s is zero.
    """
    log_s = logits.log_softmax(-1)  # (b, k)
    return -(log_s.exp() * log_s).sum(-1).mean()
