"""Losses as free functions, the formula in each docstring."""

from __future__ import annotations

import torch.nn.functional as F
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
    error = F.mse_loss(x_hat, x)
    return error if reduction == "mean" else error * x[0].numel()


@full_precision
def squared_errors(x_hat: Tensor, x: Tensor) -> Tensor:
    """||x - x_hat||^2 of every sample, summed over its features."""
    return (x_hat - x).square().flatten(1).sum(1)  # (b,)


def gradient_bound(z: Tensor, tau: float) -> Tensor:
    """epsilon = tau + 2 tau max |z| with z = W'x / tau, which |dL/dz_i| stays below (Theorem 1)."""
    return tau + 2 * tau * z.abs().max()


def lemma_1_radius(eta: float, epsilon: float) -> float:
    """eta epsilon^2 / 2: how near to the optimum a fixed step size comes (Lemma 1)."""
    return eta * epsilon**2 / 2


def published_loss(l_clu: float, n_clusters: int) -> float:
    """TELL's L_clu as Table S1 prints it: (0.01 / a) mean_ij (2 a - I_ij W_j'z_i), |W_j| = 2 a."""
    return 0.02 - 0.01 / n_clusters * (2 - l_clu)


def kmeans_objective(x: Tensor, memberships: Tensor, omega: Tensor) -> Tensor:
    """sum_i sum_j I_j(x_i) ||x_i - omega_j||^2 (Eq. 1 and 3)."""
    return (memberships * (x[:, None] - omega).square().sum(-1)).sum()  # (n, k) -> ()


def subgradient_radius(distance: float, steps: Tensor, epsilon: float) -> Tensor:
    """(||W_1 - W*||^2 + eps^2 sum eta^2) / 2 sum eta, not below L_T* - L* (Theorem 2)."""
    return (distance**2 + epsilon**2 * steps.square().sum()) / (2 * steps.sum())


def reweighted_loss(distances: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """mean_n sum_k delta_nk / omega_k ||z_n - mu_k||^2, weights = 1 / omega (PC-X, Eq. 1, 12)."""
    return clustering_loss(distances, F.one_hot(labels, distances.shape[-1]) * weights)


@full_precision
def entropy_loss(logits: Tensor) -> Tensor:
    """-mean_i sum_j s_ij log s_ij with s = softmax(logits) (PC-X, Eq. 8).

    From the logits: s log s has no gradient that a computer could find where s is zero.
    """
    log_s = logits.log_softmax(-1)  # (b, k)
    return -(log_s.exp() * log_s).sum(-1).mean()
