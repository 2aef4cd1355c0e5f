"""Memberships: from distances to rows that sum to one."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from pellucid.nn.geometry import full_precision


@full_precision
def hard_memberships(distances: Tensor) -> Tensor:
    """One-hot of the smallest distance, without a gradient: the limit tau -> 0 of TELL's Eq. 7."""
    k = distances.shape[-1]
    return F.one_hot(distances.argmin(-1), k).to(distances.dtype)  # (b, k)


@full_precision
def soft_memberships(distances: Tensor, tau: float | Tensor) -> Tensor:
    """exp(-d_j / tau) / sum_k exp(-d_k / tau), gradients included (TELL, Eq. 7)."""
    return F.softmax(-distances / tau, dim=-1)  # (b, k)
