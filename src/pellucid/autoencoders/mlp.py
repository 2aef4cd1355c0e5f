"""Fully connected autoencoders."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn

from pellucid.typing import Shape


class Sigmoid(nn.Sigmoid):
    """In eval mode a row's value does not depend on where in the batch it stands.

    torch rounds otherwise in the last few entries of a tensor than before; float64 hides that.
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.training else super().forward(x.double()).to(x.dtype)


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "tanh": nn.Tanh,
    "sigmoid": Sigmoid,
    "linear": nn.Identity,
}


def activation_named(name: str) -> type[nn.Module]:
    """The layer class of an activation, or an error that lists the names."""
    if name not in ACTIVATIONS:
        raise ValueError(f"activation {name!r}: use one of {sorted(ACTIVATIONS)}.")
    return ACTIVATIONS[name]


def dense(
    widths: tuple[int, ...], activation: type[nn.Module], last: nn.Module, dropout: float = 0.0
) -> nn.Sequential:
    """(dropout, linear, activation) for every step of `widths`, `last` in the last place."""
    layers: list[nn.Module] = []
    for i, o in pairwise(widths):
        layers += [nn.Dropout(dropout)] if dropout else []
        layers += [nn.Linear(i, o), activation()]
    return nn.Sequential(*layers[:-1], last)


class MLPAutoencoder(nn.Module):
    """`widths` of the encoder, the latent one last; the decoder is its mirror."""

    def __init__(
        self,
        shape: Shape,
        widths: tuple[int, ...],
        *,
        dropout: float,
        activation: str,
        code: str,
        output: nn.Module,
        weights: str,
    ) -> None:
        super().__init__()
        self.shape = shape
        self.latent_dim = widths[-1]
        widths = (prod(shape), *widths)
        kind = activation_named(activation)
        self.encoder = dense(widths, kind, activation_named(code)(), dropout)
        self.decoder = dense(widths[::-1], kind, output)
        if weights not in ("torch", "glorot", "identity"):
            raise ValueError(f'weights={weights!r}: use "torch", "glorot" or "identity".')
        if weights == "glorot":
            self.apply(glorot_)
        elif weights == "identity":
            check_identity(widths, activation, code, output)
            identity_(self.encoder)
            identity_(self.decoder)

    def encode(self, x: Tensor) -> Tensor:
        return self.encoder(x.flatten(1))  # (b, d)

    def decode(self, z: Tensor) -> Tensor:
        return self.decoder(z).unflatten(1, self.shape)  # (b, *shape)


class IdentityAutoencoder(nn.Module):
    """encode flattens, decode folds back."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.latent_dim = prod(shape)

    def encode(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def decode(self, z: Tensor) -> Tensor:
        return z.unflatten(1, self.shape)


def glorot_(layer: nn.Module) -> None:
    """Glorot uniform weights and zero biases, for ``module.apply``."""
    if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
        nn.init.xavier_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


def check_identity(widths: tuple[int, ...], activation: str, code: str, output: nn.Module) -> None:
    """Refuse a network that can't start as the identity."""
    d = widths[0]
    if widths[-1] != d or min(widths[1:-1], default=2 * d) < 2 * d:
        raise ValueError(
            f'weights="identity": {d} features need latent={d} and hidden widths of at least '
            f"{2 * d}, not hidden={widths[1:-1]} and latent={widths[-1]}."
        )
    if activation != "relu" or code != "linear" or not isinstance(output, nn.Identity):
        raise ValueError('weights="identity" needs activation="relu", code and output "linear".')


@torch.no_grad()
def identity_(network: nn.Sequential) -> None:
    """Weights with which `network` returns what it is given, to the last bit.

    The first layer puts x and -x side by side, rectifying keeps the one that is positive, the
    layers between pass both on, and the last subtracts. Further units start as He's, and nothing
    listens to them yet.
    """
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    d = layers[0].in_features
    eye, pair = torch.eye(d), torch.eye(2 * d)
    for i, layer in enumerate(layers):
        nn.init.kaiming_normal_(layer.weight)
        nn.init.zeros_(layer.bias)
        last = i == len(layers) - 1
        if len(layers) == 1:
            layer.weight.copy_(eye)
        elif i == 0:
            layer.weight[: 2 * d] = torch.cat([eye, -eye])
        elif last:
            layer.weight.zero_()
            layer.weight[:, : 2 * d] = torch.cat([eye, -eye], 1)
        else:
            layer.weight[: 2 * d] = 0
            layer.weight[: 2 * d, : 2 * d] = pair
