"""Layers whose weights are the cluster centres."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pellucid.nn.geometry import full_precision, unit_rows


def layer_parameters(omega: Tensor, alpha: float = 1.0) -> tuple[Tensor, Tensor]:
    """W = 2 alpha omega and b = -alpha ||omega||^2 (k-meansNet, Eq. 5; TELL's has no alpha)."""
    return 2 * alpha * omega, -alpha * omega.square().sum(-1)  # (k, d), (k,)


@full_precision
def layer_distances(z: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """beta - W'z - b with beta = ||z||^2, the distance as one linear layer (TELL, Eq. 6)."""
    beta = z.square().sum(-1, keepdim=True)  # (b, 1)
    return beta - z @ weight.mT - bias  # (b, k)


def coupled_logits(x: Tensor, weight: Tensor, alpha: float = 1.0) -> Tensor:
    """z_j = -||W_j||^2 / 4 alpha + W_j'x - beta where b follows W (k-meansNet, Eq. 9; TELL, 11)."""
    beta = alpha * x.square().sum(-1, keepdim=True)  # (n, 1)
    return x @ weight.mT - weight.square().sum(-1) / (4 * alpha) - beta  # (n, k)


class ClusterLayer(nn.Module):
    """k-means as a layer: ``forward(z)`` gives the squared distances to the centres.

    With W = 2 omega and b = -||omega||^2 (TELL, Eq. 5), beta - W'z - b is ||z - omega||^2, so the
    weights of the layer are the centres: ``layer.centers`` is ``layer.weight / 2``.

    Parameters
    ----------
    n_clusters, dim : int
        Number of centres and their dimension.
    normalize : bool, default=True
        Keep points and centres on the unit sphere (Section 2.2.3): W has length 2, b is the
        constant -1, and the distance is 2 - W'z (Eq. 12). Call `normalize_weight_` after every
        optimizer step. With False the distances are Euclidean.
    coupled : bool, default=True
        Only without `normalize`: b = -||W||^2 / 4 follows W. With False b is a parameter of its
        own that starts there; Section 2.2.2 asks for this, and Section 2.2.3 shows that W and b
        then grow without bound.
    """

    def __init__(
        self, n_clusters: int, dim: int, *, normalize: bool = True, coupled: bool = True
    ) -> None:
        super().__init__()
        self.normalize = normalize
        self.weight = nn.Parameter(torch.empty(n_clusters, dim))
        self.free_bias = None if normalize or coupled else nn.Parameter(torch.empty(n_clusters))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Kaiming uniform as ``nn.Linear`` has it (Section 4.1), then as `set_centers_`."""
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)
        self.set_centers_(self.weight)

    @property
    def centers(self) -> Tensor:
        """omega = W / 2, (k, d)."""
        return self.weight / 2

    @property
    def bias(self) -> Tensor:
        """b of Eq. 5, (k,)."""
        if self.free_bias is not None:
            return self.free_bias
        if self.normalize:  # a constant of Eq. 12: no gradient goes through it
            return -torch.ones_like(self.weight[..., 0])
        return -self.weight.square().sum(-1) / 4

    def embed(self, z: Tensor) -> Tensor:
        """Where the layer sees z: on the sphere, or where it is."""
        return unit_rows(z) if self.normalize else z

    def forward(self, z: Tensor) -> Tensor:
        """Squared distances of z (b, d) to the centres, (b, k)."""
        return layer_distances(self.embed(z), self.weight, self.bias)

    @torch.no_grad()
    def set_centers_(self, centers: Tensor) -> None:
        """Set W = 2 omega (and b), with omega put on the sphere where the layer lives there."""
        weight, bias = layer_parameters(self.embed(centers.to(self.weight)))
        self.weight.copy_(weight)
        if self.free_bias is not None:
            self.free_bias.copy_(bias)

    @torch.no_grad()
    def revive_(self, dead: list[int], z: Tensor) -> None:
        """Move the centres `dead` to the rows of z that lie farthest from every centre."""
        far = self(z).min(-1).values.topk(len(dead)).indices
        self.weight[dead], bias = layer_parameters(self.embed(z[far].to(self.weight)))
        if self.free_bias is not None:
            self.free_bias[dead] = bias

    def normalize_gradient_(self, share: float = 0.1) -> None:
        """Give every centre's gradient `share` of the centre's length (Section 2.2.3)."""
        if self.weight.grad is not None:
            normalize_gradient_(self.weight, share)

    def normalize_weight_(self) -> None:
        """Put the centres back on the sphere; call it after the optimizer's step."""
        normalize_weight_(self.weight)

    def extra_repr(self) -> str:
        k, d = self.weight.shape
        return f"n_clusters={k}, dim={d}, normalize={self.normalize}"


class CenteredModule(nn.Module):
    """An `autoencoder`, and a layer `clusters` that holds the centres of its embedding."""

    autoencoder: Any
    clusters: Any

    @property
    def centers(self) -> Tensor:
        """(k, d)."""
        return self.clusters.centers

    def decode(self, z: Tensor) -> Tensor:
        return self.autoencoder.decode(z)

    def set_centers_(self, centers: Tensor) -> None:
        self.clusters.set_centers_(centers)

    def revive_(self, dead: list[int], z: Tensor) -> None:
        self.clusters.revive_(dead, z)


@torch.no_grad()
def normalize_gradient_(weight: Tensor, share: float) -> None:
    """||grad_j|| = share * ||W_j|| for every row of (..., k, d); a zero gradient stays zero."""
    assert weight.grad is not None
    length = weight.norm(dim=-1, keepdim=True)  # (..., k, 1)
    # The smallest normal number, not 1e-12: a centre that few points chose has a tiny gradient,
    # and its direction still counts.
    size = weight.grad.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(weight.dtype).tiny)
    weight.grad.mul_(share * length / size)


@torch.no_grad()
def normalize_weight_(weight: Tensor) -> None:
    """||W_j|| = 2, that is ||omega_j|| = 1, for every row of (..., k, d)."""
    weight.copy_(2 * unit_rows(weight))


@torch.no_grad()
def bound_(weight: Tensor, limit: Tensor) -> None:
    """||W_j|| <= limit for every row of (..., k, d), by projection (k-meansNet, Eq. 9)."""
    length = weight.norm(dim=-1, keepdim=True)
    weight.mul_((limit[..., None, None] / length.clamp_min(1e-30)).clamp_max(1))


@torch.no_grad()
def along_bound_(weight: Tensor, limit: Tensor) -> Tensor:
    """Take the outward part from the gradient of every row that the bound holds; which it is."""
    assert weight.grad is not None
    length = weight.norm(dim=-1, keepdim=True)  # (..., k, 1)
    unit = weight / length.clamp_min(1e-30)
    outward = (weight.grad * unit).sum(-1, keepdim=True).clamp_max(0)
    held = (length >= (1 - 1e-5) * limit[..., None, None]) & (outward < 0)
    weight.grad.sub_(torch.where(held, outward, torch.zeros_like(outward)) * unit)
    return held  # (..., k, 1)
