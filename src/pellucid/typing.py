"""The letters used throughout, so that a shape comment can be read without looking anything up.

===== =========================================================================
n     samples in the data
b     samples in a batch
d     dimensions of the latent space (``latent`` in the autoencoder specs)
k     clusters
r     restarts trained side by side
x     an input, ``(b, *sample_shape)``;  x_hat  its reconstruction
z     an embedding, ``(b, d)``
omega a centre, ``(k, d)``;  W, b, beta  the layer that holds it (TELL, Eq. 5)
s     memberships, ``(b, k)``, rows sum to one
===== =========================================================================

A rule that edits parameters in place is written with leading dots, ``(..., k, d)``, and so serves
one restart and a stack of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike as ArrayLike
from torch import Tensor

Shape: TypeAlias = tuple[int, ...]
Array: TypeAlias = np.ndarray[Any, Any]
Params: TypeAlias = Mapping[str, Tensor]
Terms: TypeAlias = tuple[dict[str, Tensor], dict[str, Tensor]]  # named losses, and statistics
Device: TypeAlias = torch.device
Reduction: TypeAlias = Literal["mean", "sum"]


class Autoencoder(Protocol):
    """What every algorithm asks of a representation; any ``nn.Module`` with these will do."""

    latent_dim: int

    def encode(self, x: Tensor) -> Tensor: ...

    def decode(self, z: Tensor) -> Tensor: ...
