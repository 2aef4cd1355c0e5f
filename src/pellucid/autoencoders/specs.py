"""Small specs that say what network to build; `build(shape, bounded)` builds it."""

from __future__ import annotations

from math import prod
from typing import Any, Literal

from sklearn.base import BaseEstimator
from torch import nn

from pellucid.autoencoders.conv import KMeansNetConv, TellConv
from pellucid.autoencoders.mlp import IdentityAutoencoder, MLPAutoencoder
from pellucid.typing import Shape

Output = Literal["auto", "linear", "sigmoid"]


def output_activation(output: str, bounded: bool) -> nn.Module:
    """The decoder's last activation; "auto" is the sigmoid where `bounded`."""
    if output not in ("auto", "linear", "sigmoid"):
        raise ValueError(f'output={output!r}: use "auto", "linear" or "sigmoid".')
    squash = bounded if output == "auto" else output == "sigmoid"
    return nn.Sigmoid() if squash else nn.Identity()


class MLP(BaseEstimator):
    """Fully connected autoencoder, d-500-500-2000-10 and mirrored unless told otherwise.

    Parameters
    ----------
    hidden : tuple of int, default=(500, 500, 2000)
        Widths of the hidden layers of the encoder.
    latent : int, default=10
        Dimension of the embedding.
    dropout : float, default=0.0
        Dropout before every linear layer of the encoder, the first included (k-meansNet's 0.2).
    activation : {"relu", "leaky_relu", "elu", "tanh"}, default="relu"
    code : {"linear", "sigmoid"}, default="linear"
        Last activation of the encoder.
    output : {"auto", "linear", "sigmoid"}, default="auto"
        Last activation of the decoder; "auto" is the sigmoid where the data lies in [0, 1], unless
        nearly all of it is zero (tf-idf, counts), where the sigmoid would saturate for good.
    weights : {"torch", "glorot", "identity"}, default="torch"
        Start of the linear layers: torch's default, Glorot uniform with zero bias, or weights with
        which encoder and decoder are exactly the identity (the latent is as wide as the data, each
        hidden layer at least twice).
    """

    def __init__(
        self,
        hidden: tuple[int, ...] = (500, 500, 2000),
        latent: int = 10,
        *,
        dropout: float = 0.0,
        activation: str = "relu",
        code: str = "linear",
        output: Output = "auto",
        weights: str = "torch",
    ) -> None:
        self.hidden = hidden
        self.latent = latent
        self.dropout = dropout
        self.activation = activation
        self.code = code
        self.output = output
        self.weights = weights

    def build(self, shape: Shape, bounded: bool) -> nn.Module:
        """The network for samples of `shape`; `bounded` says that they fill [0, 1]."""
        return MLPAutoencoder(
            shape,
            (*self.hidden, self.latent),
            dropout=self.dropout,
            activation=self.activation,
            code=self.code,
            output=output_activation(self.output, bounded),
            weights=self.weights,
        )


class Conv(BaseEstimator):
    """Convolutional autoencoder for images of any side.

    Parameters
    ----------
    layout : {"tell", "kmeansnet"}, default="tell"
        "tell": conv 16-32-32-16 (3 x 3, two of them with stride 2, batch normalisation), 256, 10.
        "kmeansnet": conv(64, 5)-pool-conv(32, 5)-pool-1024-10.
    latent : int, default=10
    dropout : float, default=0.0
        "kmeansnet" only: dropout after each layer of the encoder.
    code : {"linear", "sigmoid"}, default="linear"
    output : {"auto", "linear", "sigmoid"}, default="auto"
    """

    def __init__(
        self,
        layout: str = "tell",
        latent: int = 10,
        *,
        dropout: float = 0.0,
        code: str = "linear",
        output: Output = "auto",
    ) -> None:
        self.layout = layout
        self.latent = latent
        self.dropout = dropout
        self.code = code
        self.output = output

    def build(self, shape: Shape, bounded: bool) -> nn.Module:
        """The network for images of `shape` (c, h, w)."""
        if len(shape) != 3 or min(shape[1:]) < 4:
            raise ValueError(
                f"A convolutional autoencoder needs images of at least 4 x 4, the samples here "
                f'have shape {shape}. Pass image_shape=(h, w), or autoencoder="mlp".'
            )
        if self.layout not in ("tell", "kmeansnet"):
            raise ValueError(f'layout={self.layout!r}: use "tell" or "kmeansnet".')
        output = output_activation(self.output, bounded)
        if self.layout == "tell":
            return TellConv(shape, self.latent, code=self.code, output=output)
        return KMeansNetConv(
            shape, self.latent, dropout=self.dropout, code=self.code, output=output
        )


class Identity(BaseEstimator):
    """No network: cluster the features as they are."""

    def build(self, shape: Shape, bounded: bool) -> nn.Module:
        """Flatten, and back."""
        return IdentityAutoencoder(shape)


Spec = MLP | Conv | Identity
NAMED: dict[str, type[Spec]] = {"mlp": MLP, "conv": Conv, "identity": Identity}


def narrow_mlp(shape: Shape, **changes: Any) -> MLP:
    """The papers' MLP, or a narrow one for fewer than 256 features."""
    widths = (500, 500, 2000) if prod(shape) >= 256 else (128, 128, 512)
    return MLP(widths, **changes)


def resolve(autoencoder: object, shape: Shape) -> Spec | nn.Module:
    """From what a user may pass as ``autoencoder=`` to a spec or a module.

    None chooses by the shape: the convolutional network for images of at least 16 x 16, the
    papers' fully connected one for 256 features or more, and a narrow one below, where 2.6 million
    weights would only cost time.
    """
    if autoencoder is None:
        if len(shape) == 3 and min(shape[1:]) >= 16:
            return Conv()
        return narrow_mlp(shape)
    if isinstance(autoencoder, str):
        if autoencoder not in NAMED:
            raise ValueError(f"autoencoder={autoencoder!r}: use one of {sorted(NAMED)} or a spec.")
        return NAMED[autoencoder]()
    if isinstance(autoencoder, MLP | Conv | Identity):
        return autoencoder
    missing = [m for m in ("encode", "decode") if not callable(getattr(autoencoder, m, None))]
    if not isinstance(autoencoder, nn.Module) or missing:
        raise TypeError(
            f"autoencoder={autoencoder!r} is a {type(autoencoder).__name__}; pass a spec "
            f"(MLP, Conv, Identity), one of {sorted(NAMED)}, or an nn.Module with encode, decode."
        )
    return autoencoder
