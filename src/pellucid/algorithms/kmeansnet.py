"""k-meansNet: the k-means objective as a feed-forward layer with an attention.

Peng, Tsang, Zhou, Zhu. *k-meansNet: When k-means Meets Differentiable Programming.*
arXiv 1808.07292 (2018), versions 1 and 2.

The hard assignment becomes a softmax of the distances, the distance a linear layer (W, b), and W
and b go separate ways once the centres have started them.

===========  ======================================================================================
Eq. 1, 3     min sum_ij I_j(x_i) ||x_i - Omega_j||^2                     `losses.kmeans_objective`
Eq. 2        Omega_j = mean of the points in S_j                         `init.cluster_means`
Eq. 4        I_j = softmax_j(-alpha ||x - Omega_j||^2)                   `nn.soft_memberships`
Eq. 5        W = 2 alpha Omega, b = -alpha ||Omega||^2                   `nn.layer_parameters`
             beta_i = alpha ||x_i||^2
Eq. 6        L = sum_ij I_ij (-W_j'x_i - b_j + beta_i) / alpha           `attention_loss`
Eq. 7        I_ij = softmax_j(W_j'x_i + b_j)                             `attention`
Eq. 8        L = -1/alpha sum_i f(z_i), z_ij = b_j + W_j'x_i - beta_i    `objective`
Eq. 9        coupled: z_ij = -||W_j||^2 / 4 alpha + W_j'x_i - beta_i     `nn.coupled_logits`
             ||W_j|| <= 2 alpha beta, beta = max_i ||x_i||^2             `nn.centers.bound_`
Theorem 1    ||grad L|| <= 1 + 2 max ||z||                               `losses.gradient_bound`
Theorem 2    (||W_1 - W*||^2 + eps^2 sum eta_t^2) / 2 sum eta_t          `losses.subgradient_radius`
===========  ======================================================================================

Deviations
----------
Units
    The module holds W / alpha and b / alpha, so that ``module_.centers`` is half the weight
    whatever alpha is. Adaptive optimizers notice: W of length 0.002 moves by half of itself in one
    step of Adam. ``units="paper"`` lets the optimizer see W and b as printed.
Assignment
    With points and centres on the unit sphere and alpha below one, Eq. 7 is nearly uniform: every
    centre is pulled towards all points alike, and all of them end at the mean, whatever the start
    (soft k-means has a single centre below alpha = 1 / 4 times the largest variance). Yet the
    paper reports the same accuracy for alpha from 1e-5 to 0.5. That is how Eq. 3 behaves, where
    the softmax only picks the nearest centre: ``assignment="hard"``, the default. "soft" is Eq. 7
    with its gradients.
Decoupling
    W and b on their own make Eq. 6 unbounded below. ||W_j|| <= 2 alpha beta is a projection after
    every step. An adaptive optimizer would turn a W_j that leans on the bound, since it scales
    each coordinate of the outward pull on its own. That part of the gradient is left out and such
    a W_j stays on the bound: it comes to rest where its cluster's mean points. What the
    assignment does not see of b (its mean if soft, all of it if hard) is put back to what the
    centres say: no gradient changes, and the loss stays a number. ``decoupled=False`` ties b to W,
    whose gradient then has a part that pulls it back to its cluster's mean.
beta
    Eq. 9 takes the largest squared length, which is the largest length on the unit sphere. In the
    plain space (``normalize=False``) it is measured when the centres are placed, and never less
    than the length itself, or no centre could reach the outermost points.
Network
    Samples of length one have values near zero, where a sigmoid output has no slope: with it the
    autoencoder learns nothing but the mean. The default output is linear, and weights start as
    Glorot's. So is the code, and there is no dropout: with either the images come out worse, and
    with dropout the clusters, too. ``MLP(dropout=0.2, code="sigmoid", output="sigmoid")`` and
    ``Conv("kmeansnet", dropout=0.2, code="sigmoid", output="sigmoid")`` are the paper's.
Start
    `settle` epochs train W and b alone; then two centres that share a cluster may become one, and
    the one that is free joins a centre that holds two, where that lowers the loss. The paper finds
    its results independent of the start; without this they are not.
Labels
    The nearest of the recovered centres W / 2 alpha. The paper's attention, `attend`, is the same
    as long as b is what Eq. 5 says.
Representation
    The paper does not say whether the encoder learns on. Its gains over k-means on fixed features
    need it: ``representation="joint"`` (reconstruction + lambda clustering; lambda is ours), with
    an embedding on the unit sphere. "frozen" trains W and b alone. Epochs of reconstruction come
    first in both.
Stopping
    "Convergence error 1e-3" is taken as the relative change of loss and labels in three epochs;
    3,000 epochs are ``max_iter=3000``.
Reduction
    Sums over features and clusters, means over the batch.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from pellucid import fitting
from pellucid.autoencoders import Conv, Spec, narrow_mlp
from pellucid.base import DeepClusterer
from pellucid.data import ScalerKind
from pellucid.joint import JointModule, joint_schedule
from pellucid.losses import clustering_loss
from pellucid.nn import CenteredModule, ClusterLayer, hard_memberships, soft_memberships
from pellucid.training import Phase, Training, one_of, with_callbacks
from pellucid.training.centers import BIAS, WEIGHT, Bound
from pellucid.typing import Shape

# Equations -----------------------------------------------------------------------------------


def attention(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """I_ij = softmax_j(W_j'x_i + b_j) (Eq. 7)."""
    return torch.softmax(x @ weight.mT + bias, -1)  # (n, k)


def attention_loss(x: Tensor, weight: Tensor, bias: Tensor, alpha: float) -> Tensor:
    """mean_i sum_j I_ij (-W_j'x_i - b_j + beta_i) / alpha (Eq. 6)."""
    beta = alpha * x.square().sum(-1, keepdim=True)  # (n, 1)
    gaps = (beta - x @ weight.mT - bias) / alpha
    return clustering_loss(gaps, attention(x, weight, bias))


def objective(z: Tensor, alpha: float) -> Tensor:
    """-1/alpha mean_i f(z_i) with f(z) = sum_j softmax(z)_j z_j (Eq. 8)."""
    return -(torch.softmax(z, -1) * z).sum(-1).mean() / alpha


# Module --------------------------------------------------------------------------------------


class KMeansNetModule(CenteredModule, JointModule):
    """An autoencoder and the layer (W, b), held as W / alpha and b / alpha."""

    def __init__(self, autoencoder: Any, clusters: ClusterLayer, est: KMeansNet) -> None:
        super().__init__(autoencoder, est.lam, est.normalize)
        self.clusters = clusters
        self.alpha, self.hard = est.alpha, est.assignment == "hard"
        # A parameter that no optimizer moves: rules see parameters, and it is saved with them.
        self.beta = nn.Parameter(torch.ones(()), requires_grad=False)

    def clustering(self, h: Tensor, distances: Tensor, phase: Phase) -> Tensor:
        """Eq. 6 with I of Eq. 7, or with the nearest centre's."""
        gaps = self.clusters(h)  # (beta_i - W'h - b) / alpha
        if self.hard:
            return clustering_loss(gaps, hard_memberships(distances))
        return clustering_loss(gaps, soft_memberships(self.alpha * gaps, 1.0))

    def attend(self, h: Tensor) -> Tensor:
        """I of Eq. 7, the paper's labels by its largest entry."""
        return soft_memberships(self.alpha * self.clusters(h), 1.0)

    @torch.no_grad()
    def calibrate_(self, x: Tensor) -> dict[str, float]:
        if not self.sphere:
            longest = torch.cat([self.encode(x).float(), self.centers]).norm(dim=1).max()
            self.beta.copy_(torch.maximum(longest.square(), longest))
        return super().calibrate_(x) | {"beta": float(self.beta)}


# Estimator -----------------------------------------------------------------------------------


class KMeansNet(DeepClusterer):
    """k-means as an attention layer whose weight and bias are trained apart.

    Parameters
    ----------
    alpha : float, default=0.01
        alpha in Eq. 4: the inverse temperature where the assignment is soft, and with
        ``units="paper"`` the scale of W and b.
    assignment : {"hard", "soft"}, default="hard"
        I by the nearest centre (Eq. 3) or by Eq. 7; see *Deviations* in the module's docstring.
    decoupled : bool, default=True
        b is a parameter of its own; False ties it to W (Eq. 9).
    units : {"centers", "paper"}, default="centers"
        What the optimizer takes for its parameters: W / alpha, b / alpha, or W, b.
    normalize : bool, default=True
        Put the embedding on the unit sphere.
    lam : float or "auto", default="auto"
        Weight of the clustering beside the reconstruction, summed over features; "auto" balances
        the pulls of the two.
    autoencoder : spec, nn.Module, {"mlp", "conv", "identity"} or None
        None is the paper's: 500-500-2000-10 (narrower below 256 features), or its convolutions
        for images of at least 16 x 16; without its dropout and sigmoids, see *Deviations*.
    scale : {None, "unit", "standard", "norm"}
        "norm" is the paper's: every sample divided by its length.
    init : {"k-means++", "k-means", "random rows", "graph", "random"} or array, default="k-means++"
        Omega on the embedding.
    settle : int, default=3
        Epochs of the joint training in which W and b learn alone. Centres may then change places:
        two that share a cluster for one that holds two, if the loss is lower.
    Others
        As in `DeepClusterer`.

    Examples
    --------
    >>> from pellucid import KMeansNet
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> net = KMeansNet(10, scale="unit", pretrain=2, max_iter=2, random_state=0).fit(X)
    >>> net.cluster_centers_.shape
    (10, 10)
    """

    def __init__(
        self,
        n_clusters: int = 4,
        *,
        alpha: float = 0.01,
        assignment: str = "hard",
        decoupled: bool = True,
        units: str = "centers",
        normalize: bool = True,
        lam: float | str = "auto",
        autoencoder: Any = None,
        representation: str = "joint",
        image_shape: Shape | None = None,
        scale: ScalerKind | None = None,
        pretrain: int | str = "auto",
        init: Any = "k-means++",
        settle: int = 3,
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
        plan = joint_schedule(frozen=fitting.stands_still(self), settle=self.settle)
        return fitting.train(self, data, plan, self._rules(), moves=self.settle)

    @with_callbacks
    def partial_fit(self, X: Any, y: None = None) -> Self:
        """Learn from one more piece of a stream, in one pass."""
        data = fitting.open_piece(self, X)
        phase = joint_schedule(frozen=fitting.stands_still(self))(0)
        return fitting.learn_piece(self, data, phase, self._rules())

    def _rules(self) -> Bound:
        held = [WEIGHT, BIAS] if self.decoupled else [WEIGHT]
        units = dict.fromkeys(held, 1 / self.alpha) if self.units == "paper" else None
        return Bound(units=units, hard=self.assignment == "hard")

    def _check(self) -> None:
        fitting.check_common(self, auto_lam=True)
        fitting.check_numbers(self, "a positive number", "alpha")
        fitting.check_numbers(self, "a whole number of at least 0", "settle")
        one_of("assignment", self.assignment, ["hard", "soft"])
        one_of("units", self.units, ["centers", "paper"])

    def _network(self, shape: Shape) -> Spec | nn.Module:
        if len(shape) == 3 and min(shape[1:]) >= 16:
            return Conv("kmeansnet", output="linear")
        return narrow_mlp(shape, output="linear", weights="glorot")

    def _build_module(self) -> KMeansNetModule:
        network = fitting.build_autoencoder(self)
        clusters = ClusterLayer(
            self.n_clusters, network.latent_dim, normalize=False, coupled=not self.decoupled
        )
        return KMeansNetModule(network, clusters, self)
