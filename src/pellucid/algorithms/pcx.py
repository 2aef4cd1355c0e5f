"""PC-X: profound clustering via slow exemplars.

Pan, Yao, Tsang. *PC-X: Profound Clustering via Slow Exemplars.* CPAL (2024).

An autoencoder decodes every sample together with its centroid, so that a centroid decodes to an
exemplar; the centroids follow the samples slowly, as a moving average of batches.

==========  ======================================================================================
Eq. 1       mean D(x, g(z)) + eta_1 mean sum_k delta_nk ||z - mu_k||^2        `PCXModule.forward`
Eq. 2       lambda_nk = softmax_k(-tau ||z_n - mu_k||^2), delta its largest   `memberships`
Eq. 3       z_tilde = mu_argmax, z_hat = h(z, z_tilde)           `nn.Codebook.quantize`, `nn.CIUnit`
Eq. 4       L(Delta, c, mu) = L(Delta, c) + rho sum_k ||c_k - mu_k||^2        `coordinated`
Eq. 5       Delta <- Delta - gamma dL / dDelta                                the engine's step
Eq. 6, 16   c_k = kappa_k mu_k + (1 - kappa_k) mean_k                     `auxiliary`, `kappa_of`
Eq. 7       mu <- c                                  `training.centers.Slow`, `nn.codebook.move_`
Eq. 8       L_ME = -mean sum_k lambda_nk log lambda_nk                        `losses.entropy_loss`
Eq. 9       reconstruction + eta_1 clustering + eta_2 L_ME                    `PCXModule.forward`
Eq. 10, 14  omega_k = K alpha_k / sum alpha, of alpha + eps    `nn.sizes.omega`, `nn.sizes.smoothed`
Eq. 11, 12  the clustering loss of a sample divided by omega_k                `reweighted_loss`
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
z_tilde
    ``straight_through=True`` lets the reconstruction's gradient through z_tilde to the encoder, as
    the published code does; the paper does not say.
Losses
    The paper prints sums over features ("sum"), the published code has means ("mean"), and neither
    gives eta_1 one meaning for pixels, counts and tf-idf. ``reduction="relative"`` divides the
    reconstruction by the total variance of x: the share left unexplained. eta_1 and eta_2 are in
    neither; ours were chosen without a label (``benchmarks/search.py``).
Order
    Eq. 6 takes its batch means from the embedding before the step of Eq. 5, one pass for both, as
    the published code does. Algorithm 1 would embed each batch twice.
Centroids
    Eq. 6 with the constant kappa = 0.995 of the experiments (``pace="steady"``), with rho
    (``"rho"``), or as averages of sums over averages of counts (``"counts"``), the published code.
Sizes
    Eq. 14 is applied when the sizes are read and not written back, and never to the centroids,
    which would not be means otherwise. ``imbalance="auto"`` uses Eq. 12 while the sizes' effective
    number, the exponential of their entropy, is below 0.8 K; `history_` has the share of batches.
"""

from __future__ import annotations

from math import prod
from typing import Any, Self

import torch
from torch import Tensor, nn

from pellucid.autoencoders import Identity, Spec, narrow_mlp, resolve
from pellucid.base import DeepClusterer
from pellucid.data import Batches, ScalerKind
from pellucid.fitting import (
    Plan,
    assign,
    build_autoencoder,
    check_common,
    learn_piece,
    pretrain_epochs,
    train,
)
from pellucid.init import held_epochs
from pellucid.losses import entropy_loss, reconstruction_loss, squared_errors
from pellucid.nn import CIUnit, Codebook, Sizes, full_precision, soft_memberships, unit_rows
from pellucid.nn.codebook import Pace, straight_through
from pellucid.nn.geometry import widened
from pellucid.training import Phase, Rows, Schedule, Training, one_of, warm_up, with_callbacks
from pellucid.training.centers import Slow
from pellucid.typing import Array, Shape

# Equations -----------------------------------------------------------------------------------


def memberships(distances: Tensor, tau: float) -> Tensor:
    """lambda_nk = exp(-tau d_nk) / sum_i exp(-tau d_ni) (Eq. 2)."""
    return soft_memberships(distances, 1 / tau)  # (b, k)


def coordinated(
    z: Tensor, delta: Tensor, c: Tensor, mu: Tensor, eta_1: float, rho: float | Tensor
) -> Tensor:
    """What of L(Delta, c, mu) depends on c and mu (Eq. 4); rho may differ by cluster, (k,)."""
    d = (z[:, None] - c).square().sum(-1)  # (n, k)
    return eta_1 * (delta * d).sum(-1).mean() + (rho * (c - mu).square().sum(-1)).sum()


def auxiliary(z: Tensor, delta: Tensor, mu: Tensor, kappa: Tensor) -> Tensor:
    """c_k = kappa_k mu_k + (1 - kappa_k) mean_k; an empty cluster keeps mu_k (Eq. 6)."""
    counts = delta.sum(0)[:, None]  # (k, 1)
    means = torch.where(counts > 0, delta.mT @ z / counts.clamp_min(1), mu)
    return kappa[:, None] * mu + (1 - kappa[:, None]) * means


def kappa_of(delta: Tensor, eta_1: float, rho: float) -> Tensor:
    """kappa_k = rho / (rho + eta_1 / N sum_n delta_nk) (Eq. 6)."""
    return rho / (rho + eta_1 * delta.mean(0))  # (k,)


@full_precision
def reweighted_loss(distances: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """mean_n sum_k delta_nk / omega_k ||z_n - mu_k||^2, weights = 1 / omega (Eq. 1 and 12)."""
    delta = nn.functional.one_hot(labels, distances.shape[-1])
    return (delta * weights * distances).sum(-1).mean()


# Module --------------------------------------------------------------------------------------


class PCXModule(nn.Module):
    """Autoencoder, CI-Unit and centroids; `forward` gives the terms of Eq. 9 or 12."""

    autoencoder: Any
    sphere = False  # the centroids are means: those of unit vectors lie inside the sphere

    def __init__(self, autoencoder: Any, est: PCX) -> None:
        super().__init__()
        dim = autoencoder.latent_dim
        self.autoencoder = autoencoder
        self.unit = CIUnit(dim, est.start) if est.ci_unit and not est._frozen else None
        self.codebook = Codebook(est.n_clusters, dim)
        self.eta_1, self.eta_2, self.tau, self.noise = est.eta_1, est.eta_2, est.tau, est.noise
        self.draws = est.noise > 0
        self.on_sphere = est.sphere and not est._frozen
        self.straight_through = est.straight_through
        self.sizes = Sizes(est.imbalance, est.eps, est.batch_size)
        per_x = {"relative": est.spread_, "mean": float(prod(est.sample_shape_)), "sum": 1.0}
        self.per_x = per_x[est.reduction]  # what a squared error of x, and one of z, is divided by
        self.per_z = dim if est.reduction == "mean" else 1.0

    @property
    def centers(self) -> Tensor:
        return self.codebook.weight

    def encode(self, x: Tensor) -> Tensor:
        """z = f(x)."""
        z = self.autoencoder.encode(x)
        return unit_rows(z) if self.on_sphere else widened(z)  # (b, d)

    def decode(self, z: Tensor) -> Tensor:
        """g(h(z, its centroid)); for a centroid g(h(mu, mu)), its exemplar."""
        return self.autoencoder.decode(self.fused(z, self.codebook(z).argmin(-1)))

    def fused(self, z: Tensor, labels: Tensor | None) -> Tensor:
        """z_hat = h(z, z_tilde), and noise while training; without labels h(z, z)."""
        z_hat = z
        if self.unit is not None:
            z_tilde = z if labels is None else self.codebook.quantize(labels)
            if self.straight_through:
                z_tilde = straight_through(z, z_tilde)
            z_hat = self.unit(z, z_tilde)
        if self.training and self.noise:
            z_hat = z_hat + self.noise * torch.randn_like(z_hat)
        return z_hat

    def forward(
        self, x: Tensor, rows: Rows, phase: Phase
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        z = self.encode(x)
        d = self.codebook(z)  # (b, k)
        labels = rows.labels if phase.knobs.get("hold") else d.argmin(-1)
        joint = bool(phase.weights.get("clustering"))
        x_hat = self.autoencoder.decode(self.fused(z, labels if joint else None))
        error = reconstruction_loss(x_hat, x, "sum") / self.per_x
        terms = {"reconstruction": error}
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

    def set_centers_(self, centers: Tensor) -> None:
        self.codebook.set_centers_(centers)

    def revive_(self, dead: list[int], z: Tensor) -> None:
        self.codebook.revive_(dead, z)

    @torch.no_grad()
    def calibrate_(self, x: Tensor) -> dict[str, float]:
        """Sizes alpha from a sample, when the centroids have just been placed."""
        labels, k = self.codebook(self.encode(x)).argmin(-1), len(self.centers)
        self.codebook.shares.copy_(torch.bincount(labels, minlength=k) / len(labels))
        return {}


# Schedule ------------------------------------------------------------------------------------


def schedule(
    eta_1: float, eta_2: float, pretrain: int, burn_in: int, *, frozen: bool = False, hold: int = 0
) -> Schedule:
    """Reconstruction first; both losses; after the burn-in entropy and sizes as well."""
    still = frozenset({"autoencoder", "unit"}) if frozen else frozenset[str]()

    def joint(epoch: int) -> Phase:
        settled = epoch >= burn_in
        weights = {"reconstruction": 1.0, "clustering": eta_1, "entropy": eta_2 * settled}
        knobs = {"settled": float(settled), "hold": float(epoch < hold)}
        return Phase(weights, still, knobs, "joint" if settled else "burn-in")

    return warm_up(pretrain, Phase({"reconstruction": 1.0}, name="pretrain"), joint)


# Estimator -----------------------------------------------------------------------------------


class PCX(DeepClusterer):
    """Clustering via slow exemplars: every sample is decoded together with its centroid.

    Parameters
    ----------
    n_clusters : int, default=4
    eta_1, eta_2 : float
        Weights of the clustering loss and of the minimum entropy (Eq. 9).
    tau : float, default=5.0
        tau in Eq. 2.
    kappa : float, default=0.995
        kappa in Eq. 6 and 13. 1 leaves the centroids where they were placed (PC-X-Fix).
    rho : float, default=1.0
        rho in Eq. 6, in units of eta_1, with ``pace="rho"``.
    pace : {"steady", "rho", "counts"}, default="steady"
        How the centroids follow; see *Deviations*.
    burn_in : int, optional
        Epochs without entropy and reweighting; None is a quarter of `max_iter`.
    imbalance : bool or "auto", default=False
        Whether clusters weigh by the inverse of their size (PC-X-IMBA, Eq. 12).
    eps : float, default=5.0
        Pseudo-count in Eq. 14, in samples of a batch.
    ci_unit : bool, default=True
        False decodes z alone (PC-X-no CI).
    start : {"mean", "glorot"}, default="mean"
        Start of the CI-Unit: (z + z_tilde) / 2, or at random.
    noise : float, default=0.0
        Standard deviation of what is added to z_hat while training.
    straight_through, sphere : bool, default=True
    reduction : {"relative", "mean", "sum"}, default="relative"
        See *Deviations* in the module's docstring.
    autoencoder : spec, nn.Module, {"mlp", "conv", "identity"} or None
        None is the paper's 500-500-2000-10, or its convolutional network for images.
    init : {"graph", "k-means", "k-means++", "random rows", "random"} or array, default="graph"
        Centroids on the embedding; "random" is the paper's Glorot start.
    max_iter : int, default=100
        Epochs of joint training.
    image_shape, scale, pretrain, empty, n_init, select, tol, batch_size, snapshots, training, \
            random_state, verbose
        As in `TELL`; the loss is that of Eq. 9 or 12, the optimizer Adam at 1e-3.

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
        assign(self, locals())

    @with_callbacks
    def fit(self, X: Any, y: None = None) -> Self:
        """Cluster X; see `pellucid.data.open_data` for what X may be."""
        self._check()
        data = self._open(X, reset=True)
        warm = pretrain_epochs(self, data)
        hold = held_epochs(self.init)
        burn_in = self.max_iter // 4 if self.burn_in is None else self.burn_in
        plan = schedule(self.eta_1, self.eta_2, warm, burn_in, frozen=self._frozen, hold=hold)
        return train(self, data, Plan(plan, self._rules(), warm, warm + self.max_iter))

    @with_callbacks
    def partial_fit(self, X: Any, y: None = None) -> Self:
        """Learn from one more piece of a stream, in one pass with all terms."""

        def phase() -> Phase:
            return schedule(self.eta_1, self.eta_2, 0, 0, frozen=self._frozen)(0)

        return learn_piece(self, X, phase, self._rules)

    def fuse(self, X: Any) -> Array:
        """z_hat = h(z, z_tilde), what the decoder sees of each row, (n, d)."""
        made, device = self.module_, self.module_.centers.device
        with torch.no_grad():
            pairs = ((z.to(device), self._gaps(z).argmin(1).to(device)) for z in self._encode(X))
            return torch.cat([made.fused(z, labels).cpu() for z, labels in pairs]).numpy()

    @property
    def _frozen(self) -> bool:
        return isinstance(self.autoencoder_, Identity)

    def _rules(self) -> Slow:
        return Slow(kappa=self.kappa, pace=self.pace, rho=self.rho)

    def _temperature(self) -> float:
        return 1 / self.tau

    def _check(self) -> None:
        check_common(self)
        for name in ("eta_1", "tau", "rho"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)!r}: use a positive number.")
        for name in ("eta_2", "eps", "noise"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}={getattr(self, name)!r}: use zero or a positive number.")
        if not 0 <= self.kappa <= 1:
            raise ValueError(f"kappa={self.kappa!r}: use a number from 0 to 1.")
        one_of("pace", self.pace, ["steady", "rho", "counts"])
        one_of("start", self.start, ["mean", "glorot"])
        one_of("reduction", self.reduction, ["relative", "mean", "sum"])
        if self.imbalance != "auto" and not isinstance(self.imbalance, bool):
            raise ValueError(f'imbalance={self.imbalance!r}: use True, False or "auto".')

    def _open(self, X: Any, *, reset: bool) -> Batches:
        data = super()._open(X, reset=reset)
        if reset:  # the total variance of (a sample of) x
            rows = data.sample(4096, seed=0).flatten(1).double()
            self.spread_ = max(float(rows.var(0, unbiased=False).sum()), 1e-12)
        return data

    def _network(self, shape: Shape) -> Spec | nn.Module:
        if self.autoencoder is not None or len(shape) == 3:
            return resolve(self.autoencoder, shape)
        return narrow_mlp(shape, weights="glorot")

    def _default_training(self) -> Training:
        return Training("adam", lr=1e-3)

    def _build_module(self) -> PCXModule:
        return PCXModule(build_autoencoder(self), self)
