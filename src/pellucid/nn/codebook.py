"""Centroids that follow the data as a moving average, and the unit that decodes with them."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.nn.geometry import full_precision, squared_distances

Pace = Literal["steady", "rho", "counts"]


@full_precision
def straight_through(z: Tensor, quantized: Tensor) -> Tensor:
    """`quantized` in value, z in its gradient."""
    return z + (quantized - z).detach()


class CIUnit(nn.Module):
    """z_hat = h(z, z_tilde): concatenate, one linear layer (PC-X, Eq. 3).

    Parameters
    ----------
    dim : int
        Dimension of z, of its centroid z_tilde and of the fused z_hat.
    start : {"mean", "glorot"}, default="mean"
        "mean" starts as (z + z_tilde) / 2, so that h(mu, mu) = mu; "glorot" is the paper's start.
    through : bool, default=False
        Let the gradient by z_tilde through to z, as `straight_through` does.
    """

    def __init__(self, dim: int, start: str = "mean", through: bool = False) -> None:
        super().__init__()
        self.through = through
        self.fuse = nn.Linear(2 * dim, dim)
        with torch.no_grad():
            nn.init.zeros_(self.fuse.bias)
            if start == "glorot":
                nn.init.xavier_uniform_(self.fuse.weight)
            else:
                self.fuse.weight.copy_(torch.eye(dim).repeat(1, 2) / 2)

    def forward(self, z: Tensor, z_tilde: Tensor) -> Tensor:
        z_tilde = straight_through(z, z_tilde) if self.through else z_tilde
        return self.fuse(torch.cat([z, z_tilde], -1))  # (b, d)


class Noise(nn.Module):
    """Add normal noise of standard deviation `scale` while training."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.draws = scale > 0  # a stack would draw otherwise

    def forward(self, z: Tensor) -> Tensor:
        return z + self.scale * torch.randn_like(z) if self.training and self.scale else z


class Codebook(nn.Module):
    """Centroids mu (k, d) and the clusters' shares alpha (k,), both moved by averages of batches.

    In a loop of your own call ``update_(z, labels)`` after the optimizer's step. Where gradients
    are collected anyway, over restarts or processes, add ``pull(z, labels)`` to the loss instead:
    it is zero, and its gradients are what `move_` needs.

    Parameters
    ----------
    n_clusters, dim : int
    """

    def __init__(self, n_clusters: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_clusters, dim))
        self.shares = nn.Parameter(torch.full((n_clusters,), 1 / n_clusters))
        nn.init.xavier_uniform_(self.weight)

    @property
    def centers(self) -> Tensor:
        """mu, (k, d)."""
        return self.weight

    def forward(self, z: Tensor) -> Tensor:
        """Squared distances of z (b, d) to the centroids, (b, k); none of it moves them."""
        return squared_distances(z, self.weight.detach())

    @full_precision
    def quantize(self, labels: Tensor) -> Tensor:
        """z_tilde, the centroid of each label (PC-X, Eq. 3)."""
        one_hot = F.one_hot(labels, self.weight.shape[0]).to(self.weight.dtype)
        return one_hot @ self.weight.detach()  # (b, d)

    @full_precision
    def pull(self, z: Tensor, labels: Tensor) -> Tensor:
        """Zero; its gradient is p_k (mu_k - mean_k) at the centroids and p_k at the shares.

        p_k is the batch's share of cluster k and mean_k the mean of its rows: what is left of the
        clustering loss' gradient by mu (PC-X, Eq. 15) without its factor 2 eta_1.
        """
        one_hot = F.one_hot(labels, self.weight.shape[0]).to(z.dtype)
        p = one_hot.mean(0)  # (k,)
        sums = one_hot.mT @ z.detach() / z.shape[0]  # (k, d)
        mu, alpha = self.weight, self.shares
        s = (p[:, None] * mu.square() / 2 - sums * mu).sum() + (p * alpha).sum()
        return s - s.detach()

    def update_(
        self, z: Tensor, labels: Tensor, *, kappa: float = 0.995, pace: Pace = "steady"
    ) -> None:
        """One step of the moving averages towards a batch."""
        with torch.enable_grad():
            grads = torch.autograd.grad(self.pull(z, labels), [self.weight, self.shares])
        move_(self.weight, self.shares, *grads, kappa=kappa, pace=pace)

    @torch.no_grad()
    def count_(self, z: Tensor) -> None:
        """Set the shares to those of the rows of z."""
        labels, k = self(z).argmin(-1), len(self.shares)
        self.shares.copy_(torch.bincount(labels, minlength=k) / len(labels))

    @torch.no_grad()
    def set_centers_(self, centers: Tensor) -> None:
        self.weight.copy_(centers)

    @torch.no_grad()
    def revive_(self, dead: list[int], z: Tensor) -> None:
        """Move the centroids `dead` to the rows of z that lie farthest from every centroid."""
        far = self(z).min(-1).values.topk(len(dead)).indices
        self.weight[dead] = z[far].to(self.weight)

    def extra_repr(self) -> str:
        k, d = self.weight.shape
        return f"n_clusters={k}, dim={d}"


def coordinated(
    z: Tensor, delta: Tensor, c: Tensor, mu: Tensor, eta_1: float, rho: float | Tensor
) -> Tensor:
    """What of L(Delta, c, mu) depends on c and mu (PC-X, Eq. 4); rho is a number or (k,)."""
    d = (z[:, None] - c).square().sum(-1)  # (n, k)
    return eta_1 * (delta * d).sum(-1).mean() + (rho * (c - mu).square().sum(-1)).sum()


def auxiliary(z: Tensor, delta: Tensor, mu: Tensor, kappa: Tensor) -> Tensor:
    """c_k = kappa_k mu_k + (1 - kappa_k) mean_k; an empty cluster keeps mu_k (PC-X, Eq. 6)."""
    counts = delta.sum(0)[:, None]  # (k, 1)
    means = torch.where(counts > 0, delta.mT @ z / counts.clamp_min(1), mu)
    return kappa[:, None] * mu + (1 - kappa[:, None]) * means


def kappa_of(delta: Tensor, eta_1: float, rho: float) -> Tensor:
    """kappa_k = rho / (rho + eta_1 / N sum_n delta_nk) (PC-X, Eq. 6); `move_` has the same."""
    return rho / (rho + eta_1 * delta.mean(0))  # (k,)


@torch.no_grad()
def move_(
    weight: Tensor,
    shares: Tensor,
    weight_grad: Tensor,
    shares_grad: Tensor,
    *,
    kappa: float = 0.995,
    pace: Pace = "steady",
    rho: float = 1.0,
) -> None:
    """mu <- mu - s (mu - mean) and alpha <- kappa alpha + (1 - kappa) p, from `Codebook.pull`.

    For (..., k, d) and (..., k). A common factor of both gradients does not matter. `rho` is in
    units of eta_1 (PC-X, Eq. 6). A cluster without a row in the batch stays where it is.
    """
    p = shares_grad / shares_grad.sum(-1, keepdim=True)  # (..., k)
    gap = weight_grad / shares_grad.clamp_min(torch.finfo(p.dtype).tiny)[..., None]
    shares.mul_(kappa).add_((1 - kappa) * p)
    weight.sub_(stride(p, shares, kappa, pace, rho)[..., None] * gap)


def stride(p: Tensor, shares: Tensor, kappa: float, pace: Pace, rho: float) -> Tensor:
    """1 - kappa_k, how far a centroid goes towards the mean of its rows in the batch.

    "steady" is 1 - kappa, constant as in the paper's experiments; "rho" is p / (rho + p); "counts"
    makes the centroid the average of sums over the average of counts, as the published code does.
    """
    if pace == "rho":
        return p / (rho + p)
    if pace == "counts":
        return (1 - kappa) * p / shares.clamp_min(torch.finfo(p.dtype).tiny)
    return (1 - kappa) * (p > 0).to(p)
