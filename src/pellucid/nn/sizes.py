"""How the sizes of clusters enter a loss: small clusters as heavy as large ones (PC-X-IMBA)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

UNEVEN = 0.8  # effective share of the clusters below which sizes count as imbalanced


def omega(alpha: Tensor) -> Tensor:
    """omega_k = alpha_k K / sum_j alpha_j (PC-X, Eq. 10)."""
    return alpha * alpha.shape[-1] / alpha.sum(-1, keepdim=True)


def smoothed(alpha: Tensor, eps: float) -> Tensor:
    """alpha_k <- (alpha_k + eps) sum_j alpha_j / (sum_j alpha_j + eps K) (PC-X, Eq. 14)."""
    total = alpha.sum(-1, keepdim=True)
    return (alpha + eps) * total / (total + eps * alpha.shape[-1])


def effective_share(alpha: Tensor) -> Tensor:
    """exp(entropy of the sizes) / K: 1 where all are equal, 1 / K where one has everything."""
    return torch.special.entr(alpha / alpha.sum()).sum().exp() / alpha.shape[-1]


@dataclass(frozen=True)
class Sizes:
    """The weights 1 / omega of clusters with `shares` of the samples (PC-X, Eq. 10 to 14).

    Eq. 14 is applied when the sizes are read and not written back, and never to the centroids,
    which would not be means otherwise.

    Parameters
    ----------
    imbalance : bool or "auto"
        Whether sizes count; "auto" counts them while `effective_share` is below `UNEVEN`.
        A fit's `history_` has the share of batches in which they did.
    eps : float
        Pseudo-count in Eq. 14, in samples of a batch.
    batch : int
    """

    imbalance: bool | str
    eps: float
    batch: int

    def weights(self, shares: Tensor) -> tuple[Tensor, Tensor]:
        """1 / omega_k, or ones where sizes do not count; and whether they do."""
        alpha = smoothed(shares.detach() * self.batch, self.eps)
        uses = torch.full_like(alpha[0], float(self.imbalance not in (False, "auto")))
        if self.imbalance == "auto":
            uses = (effective_share(shares.detach()) < UNEVEN).to(alpha)
        return torch.where(uses > 0, 1 / omega(alpha), 1.0), uses
