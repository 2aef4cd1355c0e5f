"""PC-X: profound clustering via slow exemplars.

Pan, Yao, Tsang. *PC-X: Profound Clustering via Slow Exemplars.* CPAL (2024).

An autoencoder decodes every sample together with its centroid, so that a centroid decodes to an
exemplar; the centroids follow the samples slowly, as a moving average of batches.

==========  ======================================================================================
Eq. 1       mean D(x, g(z)) + eta_1 mean sum_k delta_nk ||z - mu_k||^2        `PCXModule.forward`
Eq. 2       lambda_nk = softmax_k(-tau ||z_n - mu_k||^2), delta its largest   `memberships`
Eq. 3       z_tilde = mu_argmax, z_hat = h(z, z_tilde)           `nn.Codebook.quantize`, `nn.CIUnit`
Eq. 4       L(Delta, c, mu) = L(Delta, c) + rho sum_k ||c_k - mu_k||^2     `nn.codebook.coordinated`
Eq. 5       Delta <- Delta - gamma dL / dDelta                                the engine's step
Eq. 6, 16   c_k = kappa_k mu_k + (1 - kappa_k) mean_k         `nn.codebook.auxiliary`, `kappa_of`
Eq. 7       mu <- c                                  `training.centers.Slow`, `nn.codebook.move_`
Eq. 8       L_ME = -mean sum_k lambda_nk log lambda_nk                        `losses.entropy_loss`
Eq. 9       reconstruction + eta_1 clustering + eta_2 L_ME                    `PCXModule.forward`
Eq. 10, 14  omega_k = K alpha_k / sum alpha, of alpha + eps    `nn.sizes.omega`, `nn.sizes.smoothed`
Eq. 11, 12  the clustering loss of a sample divided by omega_k         `losses.reweighted_loss`
Eq. 13      alpha <- kappa alpha + (1 - kappa) sum_n delta_nk                 `nn.codebook.move_`
Eq. 15      dL / dc = 0                      `nn.Codebook.pull`, whose gradient is this derivative
Alg. 1      assign, step Delta, then c, then mu                               `schedule`, `Slow`
==========  ======================================================================================

Deviations
----------
Start
    The paper starts everything at random; the published runs then hold all samples in one cluster
    for about a thousand steps, until the unused centroids have decayed into the data. Here that is
    said: `pretrain` epochs of reconstruction alone (z takes the place of z_tilde), centroids placed
    by `init`, and centroids that no sample chose in an epoch move (``empty="revive"``).
    ``pretrain=0, init="random", start="glorot", empty="keep"`` is the paper's.
Scale
    L_cluster can be made small by shrinking z: ``sphere=True`` puts z on the unit sphere, the
    paper's plain space is ``False``. The published code adds noise (0.5) to z_hat instead, also
    when it predicts; here `noise` is 0, as in the paper, and comes while training only.
Losses
    The paper prints sums over features ("sum"), the published code has means ("mean"), and neither
    gives eta_1 one meaning for pixels, counts and tf-idf. ``reduction="relative"`` divides the
    reconstruction by the total variance of x: the share left unexplained. eta_1 and eta_2 are in
    neither; ours were chosen without a label (``benchmarks/search.py``).
z_tilde, order of the steps, pace, sizes
    Told at `straight_through` below, `training.centers.Slow`, `nn.codebook.stride`, `nn.Sizes`.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from pellucid import fitting
from pellucid.autoencoders import Spec, narrow_mlp
from pellucid.base import DeepClusterer
from pellucid.data import Batches, ScalerKind
from pellucid.losses import entropy_loss, reconstruction_loss, reweighted_loss, squared_errors
from pellucid.nn import CenteredModule, CIUnit, Codebook, Sizes, soft_memberships, unit_rows
from pellucid.nn.codebook import Noise, Pace
from pellucid.nn.geometry import widened
from pellucid.training import Phase, Rows, Schedule, Training, one_of, with_callbacks
from pellucid.training.centers import Slow
from pellucid.typing import Array, Shape, Terms

# Equations -----------------------------------------------------------------------------------


def memberships(distances: Tensor, tau: float) -> Tensor:
    """lambda_nk = exp(-tau d_nk) / sum_i exp(-tau d_ni) (Eq. 2)."""
    return soft_memberships(distances, 1 / tau)  # (b, k)


# Module --------------------------------------------------------------------------------------


class PCXModule(CenteredModule):
    """Autoencoder, CI-Unit and centroids; `forward` gives the terms of Eq. 9 or 12."""

    clusters = property(lambda self: self.codebook)  # where the centroids are
    sphere = False  # they are means: those of unit vectors lie inside the sphere

    def __init__(self, autoencoder: Any, est: PCX) -> None:
        super().__init__()
        dim, learns = autoencoder.latent_dim, not fitting.stands_still(est)
        self.autoencoder = autoencoder
        self.unit = CIUnit(dim, est.start, est.straight_through) if est.ci_unit and learns else None
        self.noise = Noise(est.noise)
        self.codebook = Codebook(est.n_clusters, dim)
        self.eta_1, self.eta_2, self.tau = est.eta_1, est.eta_2, est.tau
        self.on_sphere = est.sphere and learns
        self.sizes = Sizes(est.imbalance, est.eps, est.batch_size)
        per_x = {"relative": est.spread_, "mean": float(est.n_features_in_), "sum": 1.0}
        self.per_x = per_x[est.reduction]  # what a squared error of x, and one of z, is divided by
        self.per_z = dim if est.reduction == "mean" else 1.0

    def encode(self, x: Tensor) -> Tensor:
        z = self.autoencoder.encode(x)  # f(x), (b, d)
        return unit_rows(z) if self.on_sphere else widened(z)

    def decode(self, z: Tensor) -> Tensor:
        """g(h(z, its centroid)); for a centroid g(h(mu, mu)), its exemplar."""
        return self.autoencoder.decode(self.fused(z, self.codebook(z).argmin(-1)))

    def fused(self, z: Tensor, labels: Tensor | None) -> Tensor:
        """z_hat = h(z, z_tilde), and noise while training; without labels h(z, z)."""
        z_tilde = z if labels is None else self.codebook.quantize(labels)
        return self.noise(z if self.unit is None else self.unit(z, z_tilde))

    def forward(self, x: Tensor, rows: Rows, phase: Phase) -> Terms:
        z = self.encode(x)
        d = self.codebook(z)  # (b, k)
        labels = rows.labels if phase.knobs.get("hold") else d.argmin(-1)
        joint = bool(phase.weights.get("clustering"))
        x_hat = self.autoencoder.decode(self.fused(z, labels if joint else None))
        terms = {"reconstruction": reconstruction_loss(x_hat, x, "sum") / self.per_x}
        stats = {"labels": labels}
        if joint:
            weights, stats["reweighted"] = self.sizes.weights(self.codebook.shares)
            weights = weights if phase.knobs.get("settled") else torch.ones_like(weights)
            stats["confidence"] = memberships(d, self.tau).amax(-1).mean().detach()
            pulls = reweighted_loss(d, labels, weights) / self.per_z
            terms["clustering"] = pulls + self.codebook.pull(z, labels)
        if phase.weights.get("entropy"):
            terms["entropy"] = entropy_loss(-self.tau * d)
        return terms, stats

    def judge(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Each sample's part of Eq. 9 or 12, by which restarts are chosen, and its cluster."""
        z = self.encode(x)
        d = self.codebook(z)
        gap, labels = d.min(-1)
        error = squared_errors(self.decode(z), x) / self.per_x
        weights, _ = self.sizes.weights(self.codebook.shares)
        pulls = weights[labels] * gap / self.per_z
        entropy = torch.special.entr(memberships(d, self.tau)).sum(-1)
        return error + self.eta_1 * pulls + self.eta_2 * entropy, labels

    def calibrate_(self, x: Tensor) -> dict[str, float]:
        """Sizes alpha from a sample, when the centroids have just been placed."""
        self.codebook.count_(self.encode(x))
        return {}


# Schedule ------------------------------------------------------------------------------------


def schedule(eta_1: float, eta_2: float, burn_in: int) -> Schedule:
    """Both losses; after the burn-in entropy and sizes as well."""

    def joint(epoch: int) -> Phase:
        settled = epoch >= burn_in
        weights = {"reconstruction": 1.0, "clustering": eta_1, "entropy": eta_2 * settled}
        name = "joint" if settled else "burn-in"
        return Phase(weights, knobs={"settled": float(settled)}, name=name)

    return joint


# Estimator -----------------------------------------------------------------------------------


class PCX(DeepClusterer):
    """Clustering via slow exemplars: every sample is decoded together with its centroid.

    Parameters
    ----------
    eta_1, eta_2 : float
        Weights of the clustering loss and of the minimum entropy (Eq. 9).
    tau : float, default=5.0
        tau in Eq. 2.
    kappa : float, default=0.995
        kappa in Eq. 6 and 13. 1 leaves the centroids where they were placed (PC-X-Fix).
    rho : float, default=1.0
        rho in Eq. 6, in units of eta_1, with ``pace="rho"``.
    pace : {"steady", "rho", "counts"}, default="steady"
        By constant kappa, by rho, or averages of sums over averages of counts (published code).
    burn_in : int, optional
        Epochs without entropy and reweighting; None is a quarter of `max_iter`.
    imbalance : bool or "auto", default=False
        Whether clusters weigh by the inverse of their size (PC-X-IMBA, Eq. 12); "auto" while the
        exponential of the sizes' entropy is below 0.8 n_clusters.
    eps : float, default=5.0
        Pseudo-count in Eq. 14, in samples of a batch.
    ci_unit : bool, default=True
        False decodes z alone (PC-X-no CI).
    start : {"mean", "glorot"}, default="mean"
        Start of the CI-Unit: (z + z_tilde) / 2, or at random.
    noise : float, default=0.0
        Standard deviation of what is added to z_hat while training.
    straight_through : bool, default=True
        Let gradients through z_tilde to the encoder: the published code does, the paper is open.
    sphere : bool, default=True
        Put z on the unit sphere; see *Deviations* in the module's docstring.
    reduction : {"relative", "mean", "sum"}, default="relative"
        Of the reconstruction; see *Deviations*.
    autoencoder : spec, nn.Module, {"mlp", "conv", "identity"} or None
        None is the paper's 500-500-2000-10, or its convolutional network for images.
    training : Training, optional
        Optimizer (Adam at 1e-3 by default), device, precision, checkpoints.
    Others
        As in `DeepClusterer`.

    Examples
    --------
    >>> from pellucid import PCX
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> pcx = PCX(10, scale="unit", pretrain=2, max_iter=2, random_state=0).fit(X)
    >>> pcx.prototypes_.shape
    (10, 64)
    """

    def __init__(
        self,
        n_clusters: int = 4,
        *,
        eta_1: float = 2.0,
        eta_2: float = 0.1,
        tau: float = 5.0,
        kappa: float = 0.995,
        rho: float = 1.0,
        pace: Pace = "steady",
        burn_in: int | None = None,
        imbalance: bool | str = False,
        eps: float = 5.0,
        ci_unit: bool = True,
        start: str = "mean",
        noise: float = 0.0,
        straight_through: bool = True,
        sphere: bool = True,
        reduction: str = "relative",
        autoencoder: Any = None,
        image_shape: Shape | None = None,
        scale: ScalerKind | None = None,
        pretrain: int | str = "auto",
        init: Any = "graph",
        empty: str = "revive",
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
        burn_in = self.max_iter // 4 if self.burn_in is None else self.burn_in
        plan = fitting.hold_start(self, schedule(self.eta_1, self.eta_2, burn_in))
        return fitting.train(self, data, plan, self._rules())

    @with_callbacks
    def partial_fit(self, X: Any, y: None = None) -> Self:
        """Learn from one more piece of a stream, in one pass with all terms."""
        phase = schedule(self.eta_1, self.eta_2, 0)(0)
        return fitting.learn_piece(self, fitting.open_piece(self, X), phase, self._rules())

    def fuse(self, X: Any) -> Array:
        """z_hat = h(z, z_tilde), what the decoder sees of each row, (n, d)."""
        made, device = self.module_, self.module_.centers.device
        with torch.no_grad():
            pairs = ((z.to(device), self._gaps(z).argmin(1).to(device)) for z in self._encode(X))
            return torch.cat([made.fused(z, labels).cpu() for z, labels in pairs]).numpy()

    def _rules(self) -> Slow:
        return Slow(kappa=self.kappa, pace=self.pace, rho=self.rho)

    def _temperature(self) -> float:
        return 1 / self.tau

    def _check(self) -> None:
        fitting.check_common(self)
        fitting.check_numbers(self, "a positive number", "eta_1", "tau", "rho")
        fitting.check_numbers(self, "zero or a positive number", "eta_2", "eps", "noise")
        fitting.check_numbers(self, "a number from 0 to 1", "kappa")
        one_of("pace", self.pace, ["steady", "rho", "counts"])
        one_of("start", self.start, ["mean", "glorot"])
        one_of("reduction", self.reduction, ["relative", "mean", "sum"])
        one_of("imbalance", self.imbalance, [True, False, "auto"])

    def _open(self, X: Any, *, reset: bool) -> Batches:
        data = super()._open(X, reset=reset)
        if reset:
            self.spread_ = max(data.variance(), 1e-12)
        return data

    def _network(self, shape: Shape) -> Spec | nn.Module:
        return super()._network(shape) if len(shape) == 3 else narrow_mlp(shape, weights="glorot")

    def _default_training(self) -> Training:
        return Training("adam", lr=1e-3)

    def _build_module(self) -> PCXModule:
        return PCXModule(fitting.build_autoencoder(self), self)
