"""Layers and tensor functions; each is usable alone in anybody's network."""

from pellucid.nn.assign import hard_memberships, soft_memberships
from pellucid.nn.centers import (
    CenteredModule,
    ClusterLayer,
    coupled_logits,
    layer_distances,
    layer_parameters,
)
from pellucid.nn.codebook import CIUnit, Codebook
from pellucid.nn.geometry import full_precision, nearest, squared_distances, unit_rows
from pellucid.nn.kernels import (
    GRAMS,
    Exact,
    Features,
    Kernel,
    Laplacian,
    centred,
    check_room,
    fourier_features,
    gaussian_kernel,
    make_kernel,
    median_distance,
    nystrom_features,
)
from pellucid.nn.sizes import Sizes
from pellucid.nn.spectral import (
    ascend,
    cayley,
    orthonormal,
    relative_change,
    top_eigenvectors,
)

__all__ = [
    "GRAMS",
    "CIUnit",
    "CenteredModule",
    "ClusterLayer",
    "Codebook",
    "Exact",
    "Features",
    "Kernel",
    "Laplacian",
    "Sizes",
    "ascend",
    "cayley",
    "centred",
    "check_room",
    "coupled_logits",
    "fourier_features",
    "full_precision",
    "gaussian_kernel",
    "hard_memberships",
    "layer_distances",
    "layer_parameters",
    "make_kernel",
    "median_distance",
    "nearest",
    "nystrom_features",
    "orthonormal",
    "relative_change",
    "soft_memberships",
    "squared_distances",
    "top_eigenvectors",
    "unit_rows",
]
