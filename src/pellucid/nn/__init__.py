"""Layers and tensor functions; each is usable alone in anybody's network."""

from pellucid.nn.assign import hard_memberships, soft_memberships
from pellucid.nn.centers import ClusterLayer, layer_distances
from pellucid.nn.codebook import CIUnit, Codebook
from pellucid.nn.geometry import full_precision, nearest, squared_distances, unit_rows
from pellucid.nn.sizes import Sizes

__all__ = [
    "CIUnit",
    "ClusterLayer",
    "Codebook",
    "Sizes",
    "full_precision",
    "hard_memberships",
    "layer_distances",
    "nearest",
    "soft_memberships",
    "squared_distances",
    "unit_rows",
]
