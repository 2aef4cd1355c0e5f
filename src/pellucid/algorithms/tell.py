"""TELL: interpretable neural clustering.

Peng, Li, Tsang, Zhu, Lv, Zhou. *XAI Beyond Classification: Interpretable Neural Clustering.*
Journal of Machine Learning Research 23 (2022).

k-means is written as a layer whose weights are the centres, and trained in turn with an
autoencoder.

===========  ======================================================================================
Eq. 1, 3     min sum_i sum_j I_j(x_i) ||x_i - omega_j||^2                     `kmeans_objective`
Eq. 2        omega_j = mean of the points in S_j                              `init.cluster_means`
Eq. 4        ||x - omega||^2 = ||x||^2 - 2 omega'x + ||omega||^2              `nn.squared_distances`
Eq. 5        W = 2 omega, b = -||omega||^2, beta = ||x||^2                    `layer_parameters`
Eq. 6        ||x - omega||^2 = beta - W'x - b                                 `nn.layer_distances`
Eq. 7, 8     I_j = softmax_j(-||x - omega_j||^2 / tau)                        `nn.soft_memberships`
             tau -> 0: the largest entry only                                 `nn.hard_memberships`
Eq. 9        L = sum_j I_j (beta - W_j'x - b_j)                               `layer_loss`
Eq. 10, 11   L = -sum_j f(z_j), z_j = b_j + W_j'x - beta                      `attention_loss`
Eq. 12, 13   on the sphere: L_clu = sum_ij I_j(x_i) (2 - W_j'x_i)             `sphere_loss`
Eq. 14       L_rec = sum_i ||x_i - g(f(x_i))||^2                              `reconstruction_loss`
Eq. 15       L = L_rec + lambda L_clu                                         `TELLModule.forward`
Theorem 1    ||grad L|| <= tau + 2 tau max ||z||                              `gradient_bound`
Lemma 1      a fixed step eta ends within eta epsilon^2 / 2 of the optimum    `lemma_1_radius`
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

from pellucid.base import DeepClusterer
from pellucid.data import ScalerKind
from pellucid.fitting import (
    Plan,
    assign,
    build_autoencoder,
    check_common,
    learn_piece,
    pretrain_epochs,
    stands_still,
    train,
)
from pellucid.init import held_epochs
from pellucid.losses import (
    clustering_loss,
    gradient_bound,
    kmeans_objective,
    lemma_1_radius,
    reconstruction_loss,
)
from pellucid.nn import ClusterLayer, hard_memberships, layer_distances, soft_memberships
from pellucid.training import Phase, Rows, Schedule, Training, one_of, warm_up, with_callbacks
from pellucid.training.centers import CenterRules, Centers, center_rules
from pellucid.typing import Reduction, Shape

__all__ = [
    "TELL",
    "CenterRules",
    "Centers",
    "TELLModule",
    "center_rules",
    "gradient_bound",
    "kmeans_objective",
    "lemma_1_radius",
    "schedule",
]

# Equations -----------------------------------------------------------------------------------


def layer_parameters(omega: Tensor) -> tuple[Tensor, Tensor]:
    """W = 2 omega and b = -||omega||^2 (Eq. 5)."""
    return 2 * omega, -omega.square().sum(-1)  # (k, d), (k,)


def layer_loss(x: Tensor, weight: Tensor, bias: Tensor, tau: float | None) -> Tensor:
    """mean_i sum_j I_j (beta - W_j'x - b_j) (Eq. 9); tau None is the hard assignment."""
    d = layer_distances(x, weight, bias)  # (n, k)
    return clustering_loss(d, memberships(d, tau))


def memberships(distances: Tensor, tau: float | None) -> Tensor:
    """I of Eq. 7 and 8, or its limit for tau -> 0."""
    return hard_memberships(distances) if tau is None else soft_memberships(distances, tau)


def attention_loss(z: Tensor, tau: float) -> Tensor:
    """-mean sum_j f(z_j), f(z_j) = softmax_j(z / tau) z_j (Eq. 10)."""
    return -(torch.softmax(z / tau, -1) * z).sum(-1).mean()


def coupled_logits(x: Tensor, weight: Tensor, beta: Tensor) -> Tensor:
    """z_j = -||W_j||^2 / 4 + W_j'x - beta, the constraint of Eq. 11."""
    return x @ weight.mT - weight.square().sum(-1) / 4 - beta  # (n, k)


def sphere_loss(z: Tensor, weight: Tensor) -> Tensor:
    """mean_i max_j (2 - W_j'z_i) with the hard assignment, ||z|| = 1, ||W_j|| = 2 (Eq. 12, 13)."""
    d = 2 - z @ weight.mT  # (n, k)
    return clustering_loss(d, hard_memberships(d))


def published_loss(l_clu: float, n_clusters: int) -> float:
    """L_clu as Table S1 prints it: (0.01 / a) mean_ij (2 a - I_ij W_j'z_i), |W_j| = 2 a."""
    return 0.02 - 0.01 / n_clusters * (2 - l_clu)


# Module --------------------------------------------------------------------------------------


class TELLModule(nn.Module):
    """An autoencoder and a cluster layer; `forward` gives the terms of Eq. 15."""

    autoencoder: Any
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
    def centers(self) -> Tensor:
        return self.clusters.centers

    @property
    def sphere(self) -> bool:
        """Whether the embedding lies on the unit sphere."""
        return self.clusters.normalize

    def set_centers_(self, centers: Tensor) -> None:
        self.clusters.set_centers_(centers)

    def encode(self, x: Tensor) -> Tensor:
        """f(x), on the sphere where the layer lives there."""
        return self.clusters.embed(self.autoencoder.encode(x))  # (b, d)

    def decode(self, z: Tensor) -> Tensor:
        return self.autoencoder.decode(z)

    def forward(
        self, x: Tensor, rows: Rows, phase: Phase
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
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
        return clustering_loss(distances, self.attention(distances, labels))

    def attention(self, distances: Tensor, labels: Tensor) -> Tensor:
        if self.tau is not None:
            return soft_memberships(distances, self.tau)
        return F.one_hot(labels, distances.shape[-1])

    def judge(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Each sample's part of L_clu (Eq. 13), by which restarts are chosen, and its cluster."""
        d = self.clusters(self.encode(x))
        labels = d.argmin(-1)
        return (self.attention(d, labels) * d).sum(-1), labels

    def revive_(self, dead: list[int], z: Tensor) -> None:
        self.clusters.revive_(dead, z)


# Schedule ------------------------------------------------------------------------------------


def schedule(
    weight: float, spec: Centers, pretrain: int, *, frozen: bool = False, hold: int = 0
) -> Schedule:
    """Reconstruction first, then centres and representation in turn (Fig. 3)."""
    first = Phase({"reconstruction": 1.0}, name="pretrain")

    def turn(epoch: int) -> Phase:
        knobs = spec.knobs(epoch) | ({"hold": 1.0} if epoch < hold else {})
        if frozen:  # TELL-TwoStage: the representation stays as it was learned
            return Phase({"centers": weight}, frozenset({"autoencoder"}), knobs, "centers")
        if epoch % 2 == 0:
            return Phase({"reconstruction": 1.0, "centers": weight}, knobs=knobs, name="centers")
        weights = {"reconstruction": 1.0, "representation": weight}
        return Phase(weights, knobs=knobs, name="representation")

    return warm_up(pretrain, first, turn)


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
    n_clusters : int, default=4
    autoencoder : spec, nn.Module, {"mlp", "conv", "identity"} or None
        The representation; None chooses by the shape of X.
    image_shape : tuple, optional
        (h, w), (h, w, c) or (c, h, w) where the rows of X are flat images.
    scale : {None, "unit", "standard", "norm"}
        Scaling of X, remembered. uint8 is divided by 255 in any case.
    init : {"graph", "k-means", "k-means++", "random rows", "random"}, GraphStart, or array of \
            shape (n_clusters, latent), default="graph"
        Centres at the start, on the embedding; "random" is the paper's.
    pretrain : int or "auto", default="auto"
        Epochs of reconstruction before the first centre. "auto" is about 4,000 steps, 100 epochs
        at most, and none without an autoencoder. 0 is the paper's.
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
    empty : {"revive", "keep"}, default="revive"
        What happens to a centre that no point chose in an epoch.
    n_init : int, default=5
        Restarts; they differ in weights, centres and shuffling.
    select : str, default="loss"
        The rule that picks the restart without labels; "loss" is the smallest L_clu, the paper's.
        See `pellucid.training.selection.RULES`.
    max_iter : int, default=100
        Epochs of centres and representation in turn.
    tol : float, default=1e-3
        Stop when, for three epochs, at most this share of the labels and of the loss changed.
    batch_size : int, default=256
    snapshots : tuple of int, default=()
        Epochs after which centres, decoded centres and a sample of the embedding go into
        `history_` (what Fig. 5 and 6 are drawn from).
    training : Training, optional
        Optimizer (Adadelta by default), device, precision, checkpoints.
    random_state : int, RandomState or None
    verbose : int, default=0

    Attributes
    ----------
    labels_, cluster_centers_, prototypes_ : the clusters, the centres, and the centres decoded
    inertia_, loss_, loss_curve_, history_, n_iter_ : how the training went
    restart_losses_, restart_scores_, restart_labels_ : L_clu of every restart, what else rules may
        read, and its clusters
    best_restart_ : which restart was taken
    module_ : the trained network, with `module_.centers`

    Examples
    --------
    >>> from pellucid import TELL
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> tell = TELL(10, scale="unit", n_init=1, max_iter=2, pretrain=2, random_state=0).fit(X)
    >>> tell.prototypes_.shape
    (10, 64)
    """

    init: Any
    lam: float
    reduction: Reduction
    tau: float | None
    centers: Centers | None
    max_iter: int

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
        assign(self, locals())

    @with_callbacks
    def fit(self, X: Any, y: None = None) -> Self:
        """Cluster X; see `pellucid.data.open_data` for what X may be."""
        self._check()
        data = self._open(X, reset=True)
        warm = pretrain_epochs(self, data)
        hold = held_epochs(self.init)
        plan = schedule(self._weight, self._centers, warm, frozen=stands_still(self), hold=hold)
        return train(
            self, data, Plan(plan, center_rules(self._centers), warm, warm + self.max_iter)
        )

    @with_callbacks
    def partial_fit(self, X: Any, y: None = None) -> Self:
        """Learn from one more piece of a stream, in one pass over it.

        After `fit` the representation stays and the centres follow the stream (Section 4.4). The
        first piece of a stream with nothing fitted before starts the centres and must have at
        least `n_clusters` rows; autoencoder and centres then learn together.
        """

        def phase() -> Phase:
            learn = self.online_ and not stands_still(self)
            return together(self._weight, self._centers, self.n_steps_, learn=learn)

        return learn_piece(self, X, phase, lambda: center_rules(self._centers))

    @property
    def _centers(self) -> Centers:
        return self.centers or Centers()

    @property
    def _weight(self) -> float:
        return self.lam / (self.n_clusters if self.reduction == "mean" else 1)

    def _check(self) -> None:
        check_common(self)
        if isinstance(self.lam, str):
            raise ValueError(f"lam={self.lam!r}: TELL takes a positive number.")
        if not isinstance(self._centers, Centers):
            raise TypeError(f"centers={self.centers!r}: pass a pellucid.Centers(...), or None.")
        one_of("reduction", self.reduction, ["mean", "sum"])
        one_of("Centers(by)", self._centers.by, ["rule", "optimizer"])
        if self.tau is not None and not self.tau > 0:
            raise ValueError(f"tau={self.tau!r}: use a positive number, or None for hard.")

    def _build_module(self) -> TELLModule:
        network = build_autoencoder(self)
        spec = self._centers
        layer = ClusterLayer(
            self.n_clusters, network.latent_dim, normalize=spec.normalize, coupled=spec.coupled
        )
        return TELLModule(network, layer, self.reduction, self.tau)
