"""Convolutional autoencoders for images (c, h, w) of any side.

No bias stands before a batch normalisation: its true gradient is zero and Adam would turn
round-off into drift.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pellucid.autoencoders.mlp import activation_named, glorot_
from pellucid.typing import Shape


def halved(side: int) -> int:
    """Side of an image after a 3 x 3 convolution with stride 2 and padding 1."""
    return (side + 1) // 2


class TellConv(nn.Module):
    """TELL's network: conv 16-32-32-16 with batch normalisation, then 256 and the code.

    The paper gives the encoder and "mirrored"; that the decoder's two linear layers have no batch
    normalisation, and the second no activation, is how the published runs were made.
    """

    def __init__(self, shape: Shape, latent: int, *, code: str, output: nn.Module) -> None:
        super().__init__()
        c, h, w = shape
        half = halved(h), halved(w)
        self.latent_dim = latent
        self.core = (16, halved(half[0]), halved(half[1]))
        inner = self.core[0] * self.core[1] * self.core[2]
        self.encoder = nn.Sequential(
            *self.down(c, 16, 1), *self.down(16, 32, 2), *self.down(32, 32, 1),
            *self.down(32, 16, 2), nn.Flatten(),
            nn.Linear(inner, 256), nn.ReLU(), nn.Linear(256, latent), activation_named(code)(),
        )  # fmt: skip
        self.widen = nn.Sequential(nn.Linear(latent, 256), nn.ReLU(), nn.Linear(256, inner))
        self.decoder = nn.Sequential(
            *self.up(16, 32, half), *self.down(32, 32, 1), *self.up(32, 16, (h, w)),
            nn.Conv2d(16, c, 3, 1, 1), output,
        )  # fmt: skip

    @staticmethod
    def down(i: int, o: int, stride: int) -> list[nn.Module]:
        return [nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]

    @staticmethod
    def up(i: int, o: int, size: tuple[int, int]) -> list[nn.Module]:
        # 2 side - 1 rows come out; one more is padded where the target is even.
        more = (1 - size[0] % 2, 1 - size[1] % 2)
        conv = nn.ConvTranspose2d(i, o, 3, 2, 1, output_padding=more, bias=False)
        return [conv, nn.BatchNorm2d(o), nn.ReLU()]

    def encode(self, x: Tensor) -> Tensor:
        return self.encoder(x.contiguous(memory_format=torch.channels_last))  # (b, d)

    def decode(self, z: Tensor) -> Tensor:
        core = self.widen(z).unflatten(1, self.core)
        return self.decoder(core.contiguous(memory_format=torch.channels_last))  # (b, c, h, w)


class KMeansNetConv(nn.Module):
    """k-meansNet's network: conv(64, 5)-pool-conv(32, 5)-pool-1024 and the code.

    "Symmetric decoder" is read as upsampling and convolution with the same widths; the paper
    leaves the padding open, and "same" keeps the sides. Weights start as Glorot's and biases at
    zero: pixels of an image of length one are smaller than torch's biases, which then drown them.
    """

    def __init__(
        self, shape: Shape, latent: int, *, dropout: float, code: str, output: nn.Module
    ) -> None:
        super().__init__()
        c, h, w = shape
        self.latent_dim = latent
        self.core = (32, h // 4, w // 4)
        inner = self.core[0] * self.core[1] * self.core[2]
        self.encoder = nn.Sequential(
            nn.Conv2d(c, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(dropout),
            nn.Conv2d(64, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(dropout),
            nn.Flatten(), nn.Linear(inner, 1024), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(1024, latent), activation_named(code)(),
        )  # fmt: skip
        self.widen = nn.Sequential(
            nn.Linear(latent, 1024), nn.ReLU(), nn.Linear(1024, inner), nn.ReLU()
        )
        self.decoder = nn.Sequential(
            nn.Upsample(size=(h // 2, w // 2)), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(),
            nn.Upsample(size=(h, w)), nn.Conv2d(64, c, 5, padding=2), output,
        )  # fmt: skip
        self.apply(glorot_)

    def encode(self, x: Tensor) -> Tensor:
        return self.encoder(x.contiguous(memory_format=torch.channels_last))

    def decode(self, z: Tensor) -> Tensor:
        core = self.widen(z).unflatten(1, self.core)
        return self.decoder(core.contiguous(memory_format=torch.channels_last))
