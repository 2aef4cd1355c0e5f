"""TELL: interpretable neural clustering.

Peng, Li, Tsang, Zhu, Lv, Zhou. *XAI Beyond Classification: Interpretable Neural Clustering.*
Journal of Machine Learning Research 23 (2022).

k-means is written as a layer whose weights are the centres, and trained in turn with an
autoencoder.

===========  ======================================================================================
Eq. 1, 3     min sum_i sum_j I_j(x_i) ||x_i - omega_j||^2               `losses.kmeans_objective`
Eq. 2        omega_j = mean of the points in S_j                        `init.cluster_means`
Eq. 4        ||x - omega||^2 = ||x||^2 - 2 omega'x + ||omega||^2        `nn.squared_distances`
Eq. 5        W = 2 omega, b = -||omega||^2, beta = ||x||^2              `nn.layer_parameters`
Eq. 6        ||x - omega||^2 = beta - W'x - b                           `nn.layer_distances`
Eq. 7, 8     I_j = softmax_j(-||x - omega_j||^2 / tau)                  `nn.soft_memberships`
             tau -> 0: the largest entry only                           `nn.hard_memberships`
Eq. 9        L = sum_j I_j (beta - W_j'x - b_j)                         `layer_loss`
Eq. 10       L = -sum_j f(z_j), z_j = b_j + W_j'x - beta                `attention_loss`
Eq. 11       where b follows W: z_j = -||W_j||^2 / 4 + W_j'x - beta     `nn.coupled_logits`
Eq. 12, 13   on the sphere: L_clu = sum_ij I_j(x_i) (2 - W_j'x_i)       `sphere_loss`
Eq. 14       L_rec = sum_i ||x_i - g(f(x_i))||^2                        `losses.reconstruction_loss`
Eq. 15       L = L_rec + lambda L_clu                                   `TELLModule.forward`
Theorem 1    ||grad L|| <= tau + 2 tau max ||z||                        `losses.gradient_bound`
Lemma 1      a fixed step eta ends within eta epsilon^2 / 2 of the best  `losses.lemma_1_radius`
===========  ======================================================================================

Deviations
----------
Reduction
    The paper sums over samples and features with lambda = 0.01. The losses it prints (Table S1)
    can only come from means over the batch, the features and the clusters, so that the clustering
    term weighs 0.01 / k beside a mean over pixels. ``reduction="mean"`` is that, the default;
    ``"sum"`` adds up the features as printed (the batch is averaged in both: Adadelta and Adam do
    not see a constant factor).
The step of the centres
    Section 2.2.3 gives each centre's gradient 10% of the centre's length, before Adadelta. The
    published runs store centres at length 0.002, where Adadelta's epsilon dominates and the step
    is omega <- normalize(omega + 0.1 m), m the unit mean direction of the batch's points. That
    rule is applied directly (``Centers(by="rule")``). ``by="optimizer"`` hands the gradient to the
    optimizer in the published units instead, as Table 6 compares them.
Alternation
    "Alternatively" means epoch by epoch: even epochs move the centres, odd ones the encoder;
    reconstruction counts in both. Parameters without a gradient are left alone, so Adam's momentum
    does not move the centres in odd epochs.
Empty clusters
    A centre that no point chose has no gradient and stays where it is, for ever. ``empty="keep"``
    is that; by default it moves to a point far from every centre.
Ours
    ``pretrain`` (epochs of reconstruction alone) and ``init`` other than "random". The paper has
    neither: its recipe is ``TELL(pretrain=0, init="random", max_iter=3000, tol=0, empty="keep")``.
"""

from __future__ import annotations

from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid import fitting
from pellucid.base import DeepClusterer
from pellucid.data import ScalerKind
from pellucid.losses import clustering_loss, reconstruction_loss
from pellucid.nn import (
    CenteredModule,
    ClusterLayer,
    hard_memberships,
    layer_distances,
    soft_memberships,
)
from pellucid.training import Phase, Rows, Schedule, Training, one_of, with_callbacks
from pellucid.training.centers import Centers, center_rules
from pellucid.typing import Reduction, Shape, Terms

# Equations -----------------------------------------------------------------------------------


def layer_loss(x: Tensor, weight: Tensor, bias: Tensor, tau: float | None) -> Tensor:
    """mean_i sum_j I_j (beta - W_j'x - b_j) (Eq. 9); tau None is the hard assignment."""
    d = layer_distances(x, weight, bias)  # (n, k)
    return clustering_loss(d, memberships(d, d.argmin(-1), tau))


def memberships(distances: Tensor, labels: Tensor, tau: float | None) -> Tensor:
    """I of Eq. 7 and 8; tau None is its limit for tau -> 0, the entry of the label alone."""
    if tau is not None:
        return soft_memberships(distances, tau)
    return F.one_hot(labels, distances.shape[-1])  # (n, k)


def attention_loss(z: Tensor, tau: float) -> Tensor:
    """-mean sum_j f(z_j), f(z_j) = softmax_j(z / tau) z_j (Eq. 10)."""
    return -(torch.softmax(z / tau, -1) * z).sum(-1).mean()


def sphere_loss(z: Tensor, weight: Tensor) -> Tensor:
    """mean_i max_j (2 - W_j'z_i) with the hard assignment, ||z|| = 1, ||W_j|| = 2 (Eq. 12, 13)."""
    d = 2 - z @ weight.mT  # (n, k)
    return clustering_loss(d, hard_memberships(d))


# Module --------------------------------------------------------------------------------------


class TELLModule(CenteredModule):
    """An autoencoder and a cluster layer; `forward` gives the terms of Eq. 15."""

    clusters: ClusterLayer

    def __init__(
        self,
        autoencoder: nn.Module,
        clusters: ClusterLayer,
        reduction: Reduction,
        tau: float | None,
    ) -> None:
        super().__init__()
        self.autoencoder = autoencoder
        self.clusters = clusters
        self.reduction = reduction
        self.tau = tau

    @property
    def sphere(self) -> bool:
        """Whether the embedding lies on the unit sphere."""
        return self.clusters.normalize

    def encode(self, x: Tensor) -> Tensor:
        """f(x), on the sphere where the layer lives there."""
        return self.clusters.embed(self.autoencoder.encode(x))  # (b, d)

    def forward(self, x: Tensor, rows: Rows, phase: Phase) -> Terms:
        """L_rec, and L_clu once as the centres see it and once as the encoder does."""
        z = self.encode(x)
        d = self.clusters(z.detach())  # (b, k)
        labels = rows.labels if phase.knobs.get("hold") else d.argmin(-1)
        terms = {"centers": self.clustering(d, labels)}
        if phase.weights.get("representation"):
            still = layer_distances(z, self.clusters.weight.detach(), self.clusters.bias.detach())
            terms["representation"] = self.clustering(still, labels)
        if phase.weights.get("reconstruction"):
            terms["reconstruction"] = reconstruction_loss(self.decode(z), x, self.reduction)
        return terms, {"labels": labels}

    def clustering(self, distances: Tensor, labels: Tensor) -> Tensor:
        """L_clu with the hard assignment `labels`, or the soft one."""
        return clustering_loss(distances, memberships(distances, labels, self.tau))

    def judge(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Each sample's part of L_clu (Eq. 13), by which restarts are chosen, and its cluster."""
        d = self.clusters(self.encode(x))
        labels = d.argmin(-1)
        return (memberships(d, labels, self.tau) * d).sum(-1), labels


# Schedule ------------------------------------------------------------------------------------


def schedule(weight: float, spec: Centers, *, frozen: bool = False) -> Schedule:
    """Centres and representation in turn (Fig. 3)."""

    def turn(epoch: int) -> Phase:
        knobs = spec.knobs(epoch)
        if frozen:  # TELL-TwoStage: the representation stays as it was learned
            return Phase({"centers": weight}, frozenset({"autoencoder"}), knobs, "centers")
        if epoch % 2 == 0:
            return Phase({"reconstruction": 1.0, "centers": weight}, knobs=knobs, name="centers")
        weights = {"reconstruction": 1.0, "representation": weight}
        return Phase(weights, knobs=knobs, name="representation")

    return turn


def together(weight: float, spec: Centers, pieces: int, *, learn: bool) -> Phase:
    """On a stream: the centres move, and the representation with them if it is to `learn`."""
    knobs = spec.knobs(pieces)
    if not learn:
        return Phase({"centers": weight}, frozenset({"autoencoder"}), knobs, "stream")
    weights = {"reconstruction": 1.0, "centers": weight, "representation": weight}
    return Phase(weights, knobs=knobs, name="stream")


# Estimator -----------------------------------------------------------------------------------


class TELL(DeepClusterer):
    """k-means as a neural layer, trained in turn with an autoencoder.

    Parameters
    ----------
    lam : float, default=0.01
        lambda in Eq. 15.
    reduction : {"mean", "sum"}, default="mean"
        See *Deviations* in the module's docstring.
    tau : float, optional
        Temperature in Eq. 7; None is the hard assignment, which the paper uses.
    centers : Centers, optional
        How the centres move.
    representation : {"joint", "frozen"}, default="joint"
        "frozen" is TELL-TwoStage: after `pretrain` only the centres are trained.
    Others
        As in `DeepClusterer`.

    Examples
    --------
    >>> from pellucid import TELL
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> tell = TELL(10, scale="unit", n_init=1, max_iter=2, pretrain=2, random_state=0).fit(X)
    >>> tell.prototypes_.shape
    (10, 64)
    """

    def __init__(
        self,
        n_clusters: int = 4,
        *,
        autoencoder: Any = None,
        image_shape: Shape | None = None,
        scale: ScalerKind | None = None,
        init: Any = "graph",
        pretrain: int | str = "auto",
        lam: float = 0.01,
        reduction: Reduction = "mean",
        tau: float | None = None,
        centers: Centers | None = None,
        representation: str = "joint",
        empty: str = "revive",
        n_init: int = 5,
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
        turns = schedule(self._weight, self._centers, frozen=fitting.stands_still(self))
        return fitting.train(
            self, data, fitting.hold_start(self, turns), center_rules(self._centers)
        )

    @with_callbacks
    def partial_fit(self, X: Any, y: None = None) -> Self:
        """Learn from one more piece of a stream, in one pass over it.

        After `fit` the representation stays and the centres follow the stream (Section 4.4). The
        first piece of a stream with nothing fitted before starts the centres and must have at
        least `n_clusters` rows; autoencoder and centres then learn together.
        """
        data = fitting.open_piece(self, X)
        learn = self.online_ and not fitting.stands_still(self)
        phase = together(self._weight, self._centers, self.n_steps_, learn=learn)
        return fitting.learn_piece(self, data, phase, center_rules(self._centers))

    @property
    def _centers(self) -> Centers:
        return self.centers or Centers()

    @property
    def _weight(self) -> float:
        return self.lam / (self.n_clusters if self.reduction == "mean" else 1)

    def _check(self) -> None:
        fitting.check_common(self)
        if not isinstance(self._centers, Centers):
            raise TypeError(f"centers={self.centers!r}: pass a pellucid.Centers(...), or None.")
        one_of("reduction", self.reduction, ["mean", "sum"])
        one_of("Centers(by)", self._centers.by, ["rule", "optimizer"])
        if self.tau is not None and not self.tau > 0:
            raise ValueError(f"tau={self.tau!r}: use a positive number, or None for hard.")

    def _build_module(self) -> TELLModule:
        network = fitting.build_autoencoder(self)
        spec = self._centers
        layer = ClusterLayer(
            self.n_clusters, network.latent_dim, normalize=spec.normalize, coupled=spec.coupled
        )
        return TELLModule(network, layer, self.reduction, self.tau)
