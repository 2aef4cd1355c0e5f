"""Deep k-Means: representatives and representation learned together, by annealing or pretraining.

Moradi Fard, Thonet, Gaussier. *Deep k-Means: Jointly clustering with k-Means and learning
representations.* Pattern Recognition Letters 138 (2020).

The cluster of a sample is replaced by a softmax of its distances to the representatives, so that
one gradient step moves the network and the representatives at once.

==========  =====================================================================================
Eq. 1       min sum_x g(x, A(x)) + lambda f(h(x), c_f(h(x)))                      `hard_objective`
Eq. 2       with the identity as autoencoder: k-means                  (a limit, see the tests)
Eq. 3       ... lambda sum_k f(h(x), r_k) G_k(h(x), alpha)                        `soft_objective`
Eq. 4       one gradient step on theta and R together                             the engine's step
Eq. 5       G_k = exp(-alpha f(h, r_k)) / sum_k' exp(-alpha f(h, r_k'))           `surrogate`
Prop. 1     alpha -> infinity: G_k is 1 for the closest r_k and 0 elsewhere       (see the tests)
Sec. 3.3    alpha_1 = 0.1, alpha_i = alpha_(i-1) 2^(1 / ln(i)^2)                  `annealing`
==========  =====================================================================================

Deviations
----------
Annealing
    The paper's recursion divides by log(1)^2 in its first step. The index starts at two, as the
    published values do: 40 values from 0.1 to 28.13.
Batches
    The published runs draw every batch independently of all others. Here an epoch shows each
    sample once.
Prediction
    The published labels are those of distances cached while training. Here they come from one
    pass in eval mode after it.
Cosine
    With ``distance="cosine"`` the embedding is put on the unit sphere, where the cosine distance
    is half the squared Euclidean one; the decoder, too, sees it there.
lambda
    The paper searches 10^-4 to 10^3 by the accuracy on labelled validation data. ``lam="auto"``
    needs no labels: it makes the pull of the representatives on the embedding as strong as the
    reconstruction's, see `balance`. An untrained decoder has hardly any gradient to compare with
    (DKM^a): there the clustering starts as a thousandth of the error, see `modest`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid import fitting
from pellucid.autoencoders import Spec, narrow_mlp
from pellucid.base import DeepClusterer
from pellucid.data import ScalerKind
from pellucid.joint import JointModule, balance, joint_schedule, modest
from pellucid.losses import clustering_loss
from pellucid.nn import full_precision, soft_memberships, unit_rows
from pellucid.training import Phase, Rules, Schedule, Training, one_of, with_callbacks
from pellucid.typing import Shape

__all__ = ["DeepKMeans", "DeepKMeansModule", "alpha_schedule", "annealing", "balance", "modest"]

# Equations -----------------------------------------------------------------------------------


def surrogate(distances: Tensor, alpha: float) -> Tensor:
    """G_k = exp(-alpha f_k) / sum_k' exp(-alpha f_k'), gradients included (Eq. 5)."""
    return soft_memberships(alpha * distances, 1.0)  # (b, k)


def soft_objective(error: Tensor, distances: Tensor, lam: float | Tensor, alpha: float) -> Tensor:
    """error + lambda mean_x sum_k f(h(x), r_k) G_k(h(x), alpha) (Eq. 3)."""
    return error + lam * clustering_loss(distances, surrogate(distances, alpha))


def hard_objective(error: Tensor, distances: Tensor, lam: float | Tensor) -> Tensor:
    """error + lambda mean_x min_k f(h(x), r_k) (Eq. 1)."""
    return error + lam * distances.min(-1).values.mean()


@full_precision
def cosine_errors(x_hat: Tensor, x: Tensor) -> Tensor:
    """g(x, x_hat) = 1 - cos(x, x_hat) of every sample."""
    return 1 - F.cosine_similarity(x_hat.flatten(1), x.flatten(1))  # (b,)


def cosine_error(x_hat: Tensor, x: Tensor) -> Tensor:
    """g averaged over the batch."""
    return cosine_errors(x_hat, x).mean()


def annealing(n: int = 40, first: float = 0.1) -> list[float]:
    """alpha_1 = 0.1, alpha_i = alpha_(i-1) 2^(1 / ln(i)^2) (Section 3.3, index from two)."""
    values = [first]
    for i in range(2, n + 1):
        values.append(values[-1] * 2 ** (1 / log(i) ** 2))
    return values


# Module --------------------------------------------------------------------------------------


class DeepKMeansModule(JointModule):
    """An autoencoder and the representatives R; `forward` gives the terms of Eq. 3."""

    def __init__(self, autoencoder: Any, n_clusters: int, lam: float | str, distance: str) -> None:
        super().__init__(autoencoder, lam, sphere=distance == "cosine")
        start = torch.empty(n_clusters, autoencoder.latent_dim).uniform_(-1, 1)
        self.representatives = nn.Parameter(unit_rows(start) if self.sphere else start)

    @property
    def centers(self) -> Tensor:
        return unit_rows(self.representatives) if self.sphere else self.representatives

    def distances(self, h: Tensor) -> Tensor:
        """f(h, r_k): squared Euclidean, or 1 - cos."""
        d = super().distances(h)
        return d / 2 if self.sphere else d  # (b, k)

    def gaps(self, x_hat: Tensor, x: Tensor) -> Tensor:
        """g(x, x_hat) of every sample."""
        return cosine_errors(x_hat, x) if self.sphere else super().gaps(x_hat, x)

    def clustering(self, h: Tensor, distances: Tensor, phase: Phase) -> Tensor:
        return clustering_loss(distances, surrogate(distances, phase.knobs["alpha"]))

    @torch.no_grad()
    def set_centers_(self, centers: Tensor) -> None:
        self.representatives.copy_(centers)

    @torch.no_grad()
    def revive_(self, dead: list[int], z: Tensor) -> None:
        far = self.distances(z).min(-1).values.topk(len(dead)).indices
        self.representatives[dead] = z[far].to(self.representatives)


# Schedule ------------------------------------------------------------------------------------

Alpha = float | str | Sequence[float] | Callable[[int], float]


def alpha_schedule(alpha: Alpha, epochs: int) -> Callable[[int], float]:
    """alpha in each epoch: a number, "anneal", a list spread evenly over the epochs, a function."""
    if callable(alpha):
        return alpha
    if isinstance(alpha, int | float):
        return lambda epoch: float(alpha)
    values = annealing() if isinstance(alpha, str) else list(alpha)
    return lambda epoch: values[min(epoch * len(values) // max(epochs, 1), len(values) - 1)]


def schedule(alpha: Callable[[int], float], *, frozen: bool = False) -> Schedule:
    """Both terms with the alpha of the epoch (Algorithm 1)."""
    return joint_schedule(lambda epoch: {"alpha": alpha(epoch)}, frozen=frozen)


# Estimator -----------------------------------------------------------------------------------


class DeepKMeans(DeepClusterer):
    """Deep k-Means: an annealed softmax in place of the assignment, everything trained at once.

    Parameters
    ----------
    alpha : float, "anneal", sequence or function of the epoch, default=1000.0
        Inverse temperature in Eq. 5. 1000 after pretraining is the paper's DKM^p;
        ``alpha="anneal", pretrain=0, init="random", max_iter=200`` is its DKM^a.
    lam : float or "auto", default="auto"
        lambda in Eq. 1; "auto" weighs the two losses without labels, see *Deviations*.
    distance : {"euclidean", "cosine"}, default="euclidean"
        f and g.
    autoencoder : spec, nn.Module, {"mlp", "conv", "identity"} or None
        None is the paper's network: 500-500-2000 and an embedding of size n_clusters, Glorot
        start, linear output (a narrower one below 256 features).
    init : {"k-means", "k-means++", "graph", "random rows", "random"} or array, default="k-means"
        Representatives on the embedding; "random" is uniform in (-1, 1).
    max_iter : int, default=100
        Epochs of joint training; a list of alphas is spread evenly over them.
    training : Training, optional
        Optimizer (Adam by default), device, precision, checkpoints.
    Others
        As in `DeepClusterer`.

    Examples
    --------
    >>> from pellucid import DeepKMeans
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> dkm = DeepKMeans(10, scale="unit", pretrain=2, max_iter=2, random_state=0).fit(X)
    >>> dkm.cluster_centers_.shape
    (10, 10)
    """

    def __init__(
        self,
        n_clusters: int = 4,
        *,
        alpha: Alpha = 1000.0,
        lam: float | str = "auto",
        distance: str = "euclidean",
        autoencoder: Any = None,
        representation: str = "joint",
        image_shape: Shape | None = None,
        scale: ScalerKind | None = None,
        pretrain: int | str = 50,
        init: Any = "k-means",
        empty: str = "keep",
        n_init: int = 1,
        select: str = "loss",
        max_iter: int = 100,
        tol: float = 1e-3,
        batch_size: int = 256,
        snapshots: tuple[int, ...] = (),
        training: Training | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        fitting.assign(self, locals())

    @with_callbacks
    def fit(self, X: Any, y: None = None) -> Self:
        """Cluster X; see `pellucid.data.open_data` for what X may be."""
        data = self._open(X, reset=True)
        alpha = alpha_schedule(self.alpha, self.max_iter)
        return fitting.train(
            self, data, schedule(alpha, frozen=fitting.stands_still(self)), Rules()
        )

    @with_callbacks
    def partial_fit(self, X: Any, y: None = None) -> Self:
        """Learn from one more piece of a stream, in one pass with the last alpha."""
        data = fitting.open_piece(self, X)
        alpha = alpha_schedule(self.alpha, self.max_iter)
        phase = schedule(alpha, frozen=fitting.stands_still(self))(max(self.max_iter - 1, 0))
        return fitting.learn_piece(self, data, phase, Rules())

    def _check(self) -> None:
        fitting.check_common(self, auto_lam=True)
        one_of("distance", self.distance, ["euclidean", "cosine"])
        if isinstance(self.alpha, str):
            one_of("alpha", self.alpha, ["anneal"])

    def _network(self, shape: Shape) -> Spec | nn.Module:
        return narrow_mlp(shape, latent=self.n_clusters, weights="glorot", output="linear")

    def _default_training(self) -> Training:
        return Training("adam")

    def _build_module(self) -> DeepKMeansModule:
        return DeepKMeansModule(
            fitting.build_autoencoder(self), self.n_clusters, self.lam, self.distance
        )
