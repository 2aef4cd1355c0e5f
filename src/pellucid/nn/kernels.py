"""Gaussian kernels as operators: stored, in blocks, or through a few features of every sample.

A kernel is asked for one thing, its product with some vectors; so spectral methods need not know
whether there is an n x n matrix behind it.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Protocol

import torch
from torch import Tensor

from pellucid.nn.geometry import PIECE, full_precision, squared_distances


class Kernel(Protocol):
    """A symmetric positive kernel of n samples."""

    n: int
    floor: float  # the smallest degree, as a share of the mean, that is taken at its word

    def apply(self, v: Tensor) -> Tensor:
        """K v for v (n, m)."""
        ...


@full_precision
def gaussian_kernel(a: Tensor, b: Tensor, sigma: float | Tensor) -> Tensor:
    """exp(-||a - b||^2 / 2 sigma^2) (KernelNet, Section 3)."""
    return torch.exp(-squared_distances(a, b) / (2 * sigma**2))  # (..., n, m)


def median_distance(z: Tensor, seed: int, rows: int = 2000) -> float:
    """The median distance between different samples, of at most `rows` of them."""
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))[:rows]
    some = z[order.to(z.device)].double()
    return float(torch.pdist(some).median()) if len(some) > 1 else 1.0


class Exact:
    """All n^2 entries: stored once, or computed again in blocks of rows whenever they are needed.

    Parameters
    ----------
    z : Tensor (n, d)
    sigma : float
    stored : bool, default=True
        4 n^2 bytes; in blocks it is O(n d) and each product costs the exponentials anew.
    diagonal : bool, default=False
        Whether a sample is its own neighbour.
    """

    floor = 1e-12

    def __init__(
        self, z: Tensor, sigma: float, *, stored: bool = True, diagonal: bool = False
    ) -> None:
        self.n, self.z, self.sigma, self.diagonal = len(z), z, sigma, diagonal
        self.step = max(1, PIECE // max(self.n, 1))
        self.matrix = torch.empty(0)
        if stored:
            self.matrix = z.new_empty(self.n, self.n)
            for start in range(0, self.n, self.step):
                block = self.block(start)
                self.matrix[start : start + len(block)] = block

    def block(self, start: int) -> Tensor:
        """Rows `start` to ``start + step`` of K."""
        rows = gaussian_kernel(self.z[start : start + self.step], self.z, self.sigma)
        rows.diagonal(start).fill_(float(self.diagonal))
        return rows  # (step, n)

    def apply(self, v: Tensor) -> Tensor:
        if len(self.matrix):
            return self.matrix @ v
        return torch.cat([self.block(start) @ v for start in range(0, self.n, self.step)])


class Features:
    """K = F F' with m features of each sample, m much smaller than n.

    What is left out of K, or drawn, can leave a sample without neighbours a degree near zero or
    below, and would count for more than all the others: `floor`.
    """

    floor = 0.1

    def __init__(self, features: Tensor, *, diagonal: bool = False) -> None:
        self.n, self.features = len(features), features
        own = features.square().sum(1, keepdim=True)
        self.own = torch.zeros_like(own) if diagonal else own  # what a sample gives itself

    def apply(self, v: Tensor) -> Tensor:
        return self.features @ (self.features.mT @ v) - self.own * v


def nystrom_features(z: Tensor, sigma: float, landmarks: Tensor) -> Tensor:
    """K_nm K_mm^(-1/2): exact between the landmarks (Williams, Seeger 2001), (n, m)."""
    values, vectors = torch.linalg.eigh(gaussian_kernel(landmarks, landmarks, sigma).double())
    good = values > 1e-6 * values[-1]  # below, there is only round-off to divide by
    root = (vectors[:, good] * values[good].rsqrt()).to(z.dtype)
    parts = z.split(max(1, PIECE // len(landmarks)))
    return torch.cat([gaussian_kernel(part, landmarks, sigma) @ root for part in parts])


def fourier_features(z: Tensor, sigma: float, m: int, seed: int) -> Tensor:
    """sqrt(2 / m) cos(z W + b), whose products are the kernel on average (Rahimi, Recht 2008)."""
    generator = torch.Generator().manual_seed(seed)
    waves = torch.randn(z.shape[1], m, generator=generator).to(z) / sigma
    shifts = torch.rand(m, generator=generator).to(z) * 2 * pi
    return torch.cos(z @ waves + shifts) * sqrt(2 / m)  # (n, m)


GRAMS = ("exact", "blocks", "nystrom", "fourier")
ROOM = 2 * 2**30  # bytes that an n x n matrix may take


def check_room(n: int, advice: str) -> None:
    """Refuse an n x n matrix that is too large, before any of it is made."""
    if 4 * n * n > ROOM:
        raise ValueError(f"The kernel of {n} x {n} rows takes {4 * n * n / 1e9:.1f} GB. {advice}")


def make_kernel(
    z: Tensor, sigma: float, gram: str, *, rank: int, seed: int, diagonal: bool = False
) -> Kernel:
    """The Gaussian kernel of z as `gram` says: all of it, in blocks, or by `rank` features."""
    if gram in ("exact", "blocks"):
        return Exact(z, sigma, stored=gram == "exact", diagonal=diagonal)
    if gram == "fourier":
        return Features(fourier_features(z, sigma, rank, seed), diagonal=diagonal)
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))
    return Features(nystrom_features(z, sigma, z[order[:rank]]), diagonal=diagonal)


class Laplacian:
    """L = H D^-1/2 K D^-1/2 H with the degrees D = diag(K 1) and the centring H = I - 11'/n."""

    def __init__(self, kernel: Kernel, like: Tensor) -> None:
        self.kernel = kernel
        ones = torch.ones(kernel.n, 1, dtype=like.dtype, device=like.device)
        degrees = kernel.apply(ones)[:, 0]  # (n,) (KernelNet, Eq. 3.3)
        least = max(kernel.floor * float(degrees.mean()), 1e-12)
        self.degrees = degrees.clamp_min(least)
        self.roots = self.degrees.rsqrt()[:, None]

    def similarity(self, v: Tensor) -> Tensor:
        """D^-1/2 K D^-1/2 v (KernelNet, Eq. 3.2)."""
        return self.roots * self.kernel.apply(self.roots * v)

    def apply(self, v: Tensor) -> Tensor:
        """L v (KernelNet, Eq. 3.6 and 5.14)."""
        return centred(self.similarity(centred(v)))


def centred(v: Tensor) -> Tensor:
    """H v: every column without its mean."""
    return v - v.mean(0)
