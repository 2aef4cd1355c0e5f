"""KernelNet: a deep kernel for clusters that are not convex, learned through HSIC.

Wu, Khan, Ioannidis, Dy. *Deep Kernel Learning for Clustering.* SDM 2020 (arXiv 1908.03515).

A network psi is trained so that a Gaussian kernel of psi(X) depends as much as possible on U, a
spectral embedding of the same kernel; in turn U follows the kernel. psi starts as the identity and
U as the spectral embedding of X, so that this begins where spectral clustering ends.

==========  =====================================================================================
Eq. 3.2     K~ = D^-1/2 K D^-1/2                                           `Laplacian.similarity`
Eq. 3.3     D = diag(K 1)                                                     `Laplacian.degrees`
Eq. 3.4     HSIC(X, U) = tr(K~ H K_U H) / (N - 1)^2                                        `hsic`
Eq. 3.5     its maximum over U'U = I: top c eigenvectors                    `nn.top_eigenvectors`
Eq. 3.6     L = H D^-1/2 K D^-1/2 H; Eq. 5.14: of psi(X)                        `Laplacian.apply`
Eq. 4.8     max HSIC(psi(X), U) - lambda ||X - psi'(psi(X))||^2                 `KernelNetModule`
Eq. 4.10    k~(x, y): K of psi(X), over sqrt(d_x d_y)                          `KernelNet.kernel`
Eq. 4.11    sum_ij Gamma_ij exp(-||psi_i - psi_j||^2 / 2 sigma^2)                `pair_objective`
Sec. 4      Gamma = D^-1/2 H U U' H D^-1/2                                      `factor`, `gamma`
Eq. 5.12    min ||X - psi(X)||^2 + ||X - psi'(psi(X))||^2                        phase "pretrain"
Eq. 5.15    A = G U' - U G'                                                           `nn.cayley`
Eq. 5.16    U <- (I + tau/2 A)^-1 (I - tau/2 A) U (and 5.17)                          `nn.ascend`
==========  =====================================================================================

Deviations
----------
Start
    Eq. 5.12 is the paper's slow part. A network of rectified units at least twice as wide as the
    data can *be* the identity, and starts so; ``pretrain=n`` gives Eq. 5.12 in its place.
Eq. 5.15
    is printed with a plus, which makes A symmetric and breaks U'U = I; a minus is meant.
Diagonals
    of K and Gamma are zero, as in the published runs: a sample says nothing about itself.
    ``diagonal=True`` keeps that of K.
Steps
    The paper trains one epoch between two updates of U and 20 in its published runs, in batches of
    5, whose 20 pairs hardly show which clusters there are. Here batches have 64 rows, and U moves
    after about `STEPS` steps, but not before psi has caught up with it: while HSIC is lower than
    when U was found, psi has lost what U stands for, and a new U would forget it. That is so
    where clusters are curves; elsewhere HSIC rises from the first step, and more steps would only
    tie psi to a U that is not yet right. There is one optimizer, which keeps its moments.
Subset
    The paper takes the random draw whose spectrum is the closest. Spectra hardly tell a draw with
    good clusters from one with bad ones; of the ten closest of twenty it is the draw whose
    clusters are the most like those of the other nine.
Convergence
    The published test of K_U is passed at once where N > sqrt(2 c) / 0.015, which is 163 samples
    for three clusters. Here it is ||K_U - K_U'||_F <= tol ||K_U||_F, which means the same at any N.
Second phase
    The published runs go on with one-hot labels as U, up to nine times; the paper doesn't. It
    makes clusters of psi(X) round, so two rounds are the default; ``hard_refine=0`` has none.
k-means
    on psi(X) starts from the clusters of U, not at random: clusters that are not yet round are cut
    in two by a random start as easily as not.
Decoder
    With lambda = 0, and in the second phase, it would stay what it was. It learns to decode without
    pulling at psi, so that centres can be looked at.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid import fitting
from pellucid.autoencoders import MLP, Identity, Spec
from pellucid.base import DeepClusterer
from pellucid.data import Batches, ScalerKind
from pellucid.init import cluster_means, kmeans, lloyd
from pellucid.losses import squared_errors
from pellucid.nn import (
    GRAMS,
    Laplacian,
    ascend,
    centred,
    check_room,
    full_precision,
    gaussian_kernel,
    make_kernel,
    median_distance,
    relative_change,
    squared_distances,
    top_eigenvectors,
    unit_rows,
)
from pellucid.subsets import check_subset, subset_rows
from pellucid.training import (
    Engine,
    Group,
    Phase,
    Rows,
    Rules,
    Schedule,
    Training,
    gather,
    one_of,
    stream,
    warm_up,
    with_callbacks,
)
from pellucid.typing import Array, Shape

__all__ = ["KernelNet", "KernelNetModule"]

STEPS = 225  # between two updates of U, if psi shows it by then

# Equations -----------------------------------------------------------------------------------


def hsic(laplacian: Laplacian, u: Tensor) -> Tensor:
    """tr(K~ H U U' H) / (N - 1)^2, from products alone (Eq. 3.4)."""
    return (u * laplacian.apply(u)).sum() / max(len(u) - 1, 1) ** 2


def factor(u: Tensor, degrees: Tensor) -> Tensor:
    """D^-1/2 H U, whose rows' products are Gamma (Section 4)."""
    return centred(u) * degrees.rsqrt()[:, None]  # (n, c)


def gamma(factors: Tensor) -> Tensor:
    """Gamma among the given rows, its diagonal zero."""
    b = len(factors)
    return factors @ factors.mT * (1 - torch.eye(b, dtype=factors.dtype, device=factors.device))


@full_precision
def pair_objective(z: Tensor, gammas: Tensor, sigma: Tensor) -> Tensor:
    """sum_ij Gamma_ij exp(-||psi_i - psi_j||^2 / 2 sigma^2) (Eq. 4.11)."""
    return (gammas * gaussian_kernel(z, z, sigma)).sum()


# Module --------------------------------------------------------------------------------------


class KernelNetModule(nn.Module):
    """psi and its decoder; while training also U and D^-1/2 H U of every row, which batches need.

    Parameters
    ----------
    autoencoder : nn.Module
    n_clusters : int
    n_rows : int
        Rows that are trained on; 0 for a module that only predicts.
    lam : float
    """

    autoencoder: Any
    lam: Tensor
    sigma: Tensor
    value: Tensor  # tr(U'LU), at most c
    updates: Tensor  # of U so far
    rounds: Tensor  # of the second phase so far
    found: Tensor  # HSIC when U was found
    waited: Tensor  # since then, in units of `inner` epochs
    centers: Tensor
    spectral: Tensor
    factors: Tensor
    sphere = False

    def __init__(self, autoencoder: Any, n_clusters: int, n_rows: int, lam: float) -> None:
        super().__init__()
        self.autoencoder = autoencoder
        self.pulls = lam > 0
        self.register_buffer("lam", torch.tensor(float(lam)))
        for name in ("sigma", "value", "updates", "rounds", "found", "waited"):
            self.register_buffer(name, torch.zeros(()))
        self.register_buffer("centers", torch.zeros(n_clusters, autoencoder.latent_dim))
        for name in ("spectral", "factors"):
            self.register_buffer(name, torch.zeros(n_rows, n_clusters))

    def encode(self, x: Tensor) -> Tensor:
        return self.autoencoder.encode(x)  # (b, d)

    def decode(self, z: Tensor) -> Tensor:
        return self.autoencoder.decode(z)

    def forward(
        self, x: Tensor, rows: Rows, phase: Phase
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        z, n, b = self.encode(x), max(len(self.factors), 2), max(len(x), 2)
        stats = {"labels": rows.labels}  # they stand until U moves
        if phase.name == "pretrain":
            same = F.mse_loss(z, x.flatten(1)) if z.shape[1] == x[0].numel() else z.new_zeros(())
            error = F.mse_loss(self.decode(z), x)
            return {"identity": same, "reconstruction": error}, stats
        pairs = pair_objective(z, gamma(self.factors[rows.index]), self.sigma)
        held = self.rounds == 0 if self.pulls else torch.zeros_like(self.rounds, dtype=torch.bool)
        error = squared_errors(self.decode(torch.where(held, z, z.detach())), x).mean()
        return {  # the batch stands for all pairs: tr(U'LU), at most c
            "hsic": -pairs * (n * (n - 1) / (b * (b - 1))),
            "reconstruction": torch.where(held, self.lam, 1.0) * error,
        }, stats

    @torch.no_grad()
    def follow_(self, u: Tensor, laplacian: Laplacian) -> None:
        """Take over a new U and D."""
        self.spectral.copy_(u)
        self.factors.copy_(factor(u, laplacian.degrees))
        self.found.copy_(hsic(laplacian, u))
        self.waited.zero_()

    def release_(self) -> None:
        """Forget the rows that were trained on."""
        self.spectral, self.factors = self.spectral[:0], self.factors[:0]


# Schedule ------------------------------------------------------------------------------------


def schedule(pretrain: int) -> Schedule:
    """Eq. 5.12 first, if at all; then Eq. 4.8."""
    first = Phase({"identity": 1.0, "reconstruction": 1.0}, name="pretrain")
    joint = Phase({"hsic": 1.0, "reconstruction": 1.0}, name="joint")
    return warm_up(pretrain, first, lambda epoch: joint)


# Estimator -----------------------------------------------------------------------------------


class KernelNet(DeepClusterer):
    """KernelNet: spectral clustering whose kernel is learned, and which labels new data.

    Parameters
    ----------
    n_clusters : int, default=4
    update : {"eig", "stiefel"}, default="eig"
        How U follows the kernel: the top eigenvectors (Eq. 5.14), or ascent on the Stiefel
        manifold (Eq. 5.16).
    subset : float, int, "auto" or None, default=None
        Rows to train on; all are labelled. "auto" takes as many as the spectrum of the kernel
        wants (Section 6). Which they are follows from an integer `random_state`.
    gram : {"exact", "blocks", "nystrom", "fourier"}, default="exact"
        The n x n kernel of the rows that are trained on: stored; computed in blocks whenever it is
        needed; or through `rank` landmarks or random features.
    rank : int, default=1000
    sigma : float or "median", default="median"
        Of the Gaussian kernel; the median distance between embedded samples.
    ratio : float, default=1.0
        Times the median. The paper's sets of curves and rings have 0.1: less than the gap between
        two clusters.
    lam : float, default=0.0
        lambda in Eq. 4.8; a mean over samples beside an HSIC that is at most n_clusters.
    hard_refine : int, default=2
        Rounds of the published second phase, with one-hot labels as U.
    width : int, optional
        Of the hidden layers of the network that starts as the identity; at least twice, and by
        default twice, the number of features (64 where these are fewer than ten).
    autoencoder : spec, nn.Module, {"mlp", "conv", "identity"} or None
        None is that network, with two hidden layers. Others are pretrained.
    pretrain : int or "auto", default="auto"
        Epochs of Eq. 5.12; "auto" is none for the network that starts as the identity.
    inner : int or "auto", default="auto"
        Epochs between two updates of U; "auto" is as many as 225 steps hold, but one at least.
    wait : int, default=20
        How many times as long psi may take until HSIC is no lower than when U was found.
    labels : {"embedding", "spectral"}, default="embedding"
        Centres are those of k-means on psi(X), or the means of the clusters of U.
    diagonal : bool, default=False
        Whether a sample is its own neighbour in K.
    max_iter : int, default=1
        Updates of U before the second phase.
    tol : float, default=0.05
        Stop when K_U changes by less, relative to its size.
    training : Training, optional
        Adam with a rate of 0.001 in float32 by default.
    Others
        As in `DeepClusterer`.

    Attributes
    ----------
    spectral_labels_ : array
        Clusters of the rows of U, for the rows that were trained on, `subset_`.
    sigma_ : float

    Examples
    --------
    >>> from pellucid import KernelNet
    >>> from sklearn.datasets import make_moons
    >>> X, _ = make_moons(400, noise=0.05, random_state=0)
    >>> net = KernelNet(2, ratio=0.1, wait=2, random_state=0).fit(X)
    >>> net.cluster_centers_.shape
    (2, 2)
    """

    init, empty = "k-means", "keep"  # centres are placed after every update
    subset_: Array
    _n_rows: int = 0

    def __init__(
        self,
        n_clusters: int = 4,
        *,
        update: str = "eig",
        subset: float | str | None = None,
        gram: str = "exact",
        rank: int = 1000,
        sigma: float | str = "median",
        ratio: float = 1.0,
        lam: float = 0.0,
        hard_refine: int = 2,
        width: int | None = None,
        autoencoder: Any = None,
        image_shape: Shape | None = None,
        scale: ScalerKind | None = "standard",
        pretrain: int | str = "auto",
        inner: int | str = "auto",
        wait: int = 20,
        labels: str = "embedding",
        diagonal: bool = False,
        n_init: int = 1,
        select: str = "loss",
        max_iter: int = 1,
        tol: float = 0.05,
        batch_size: int = 64,
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
        sample, warm, inner = self._begin(data)
        updates = self.max_iter + self.hard_refine
        stop = warm + inner * updates * self.wait
        with fitting.engine_for(self, sample, stop) as engine:
            for group in engine.groups(self._build_module, self.n_init):
                if warm == 0:
                    self._start(group, sample, data, engine)
                plan = schedule(warm)
                for epoch in engine.epochs(group, sample, plan, Rules(), stop=stop) if stop else ():
                    done = epoch.index + 1 - warm
                    if done == 0:
                        self._start(group, sample, data, engine)
                    elif done > 0 and done % inner == 0:
                        found = self._update(group, sample, data, engine)
                        for record, numbers in zip(epoch.records, found, strict=True):
                            record |= numbers
                    fitting.tend(self, group, sample, epoch, engine)
                    if len(engine.endings) == len(group.indices):
                        break
                engine.keep(group, lambda module: judge(module, data))
            fitting.adopt_best(self, engine, data)
            u = engine.candidates[self.best_restart_].state["spectral"]
            self.spectral_labels_ = clusters(u, engine.seeds("centers", 0)).numpy()
        return self

    def kernel(self, X: Any, *, normalized: bool = False) -> Array:
        """The learned kernel between the rows of X (n, n), over sqrt(d_i d_j) if `normalized`."""
        z = torch.cat(list(self._encode(X)))
        check_room(len(z), "Pass fewer rows.")
        k = gaussian_kernel(z, z, self.sigma_)
        root = k.sum(1).rsqrt()
        return (root[:, None] * k * root if normalized else k).numpy()  # Eq. 4.10

    # Algorithm 1 ---------------------------------------------------------------------------

    def _begin(self, data: Batches) -> tuple[Batches, int, int]:
        """The rows to train on, epochs of Eq. 5.12, and epochs between two updates of U."""
        seed = self.random_state if isinstance(self.random_state, int) else 0
        spread = partial(self._spread, seed=seed)
        self.subset_ = subset_rows(data, self.subset, self.n_clusters, seed, spread)
        sample = data if self.subset is None else data.choose(self.subset_)
        self._n_rows = sample.n
        if self.gram == "exact":
            check_room(sample.n, 'Train on a part, subset=0.1 or subset="auto", or approximate '
                                 'the kernel, gram="nystrom".')  # fmt: skip
        starts_so = getattr(self.autoencoder_, "weights", "") == "identity"
        warm = 0 if starts_so else fitting.pretrain_epochs(self, sample)
        if isinstance(self.autoencoder_, Identity):
            return sample, 0, 0  # nothing learns
        enough = max(1, STEPS // len(sample))
        return sample, warm, enough if self.inner == "auto" else int(self.inner)

    def _spread(self, x: Tensor, others: Tensor, seed: int) -> Tensor:
        """The clusters of `others`, one-hot: those of x that are the closest in the kernel."""
        sigma = self._sigma(x, seed)
        _, u, _ = self._embed(x, sigma, seed)
        own = F.one_hot(clusters(u, seed), self.n_clusters).to(x)
        votes = gaussian_kernel(others, x, sigma) @ (own / own.sum(0).clamp_min(1))
        return F.one_hot(votes.argmax(1), self.n_clusters).to(x)

    def _embed(self, x: Tensor, sigma: float, seed: int) -> tuple[Tensor, Tensor, Laplacian]:
        """The spectral embedding of x (Eq. 3.6): eigenvalues, U and L."""
        laplacian = self._laplacian(x, sigma, seed)
        guess = torch.randn(len(x), self.n_clusters, generator=torch.Generator().manual_seed(seed))
        return *top_eigenvectors(laplacian.apply, guess), laplacian

    def _start(self, group: Group, sample: Batches, data: Batches, engine: Engine) -> None:
        """Line 3: U_0 from X itself, sigma from psi(X)."""
        x = torch.cat([batch.x.flatten(1) for batch in sample.sequential()])
        for r, index in enumerate(group.indices):
            seed = engine.seeds("centers", index)
            with group.member(r) as module:
                module.sigma.fill_(self._sigma(gather(module, module.encode, sample), seed))
                values, u, laplacian = self._embed(x, self._sigma(x, seed), seed)
                module.value.fill_(values.sum())
                module.follow_(u, laplacian)
                self._place(module, sample if self.max_iter else data, sample, seed)
                engine.labels[r] = nearest_centers(module, sample).numpy()

    def _update(
        self, group: Group, sample: Batches, data: Batches, engine: Engine
    ) -> list[dict[str, float]]:
        """Lines 6 to 8 for every restart: D, U, and whether K_U has converged."""
        found: list[dict[str, float]] = [{} for _ in group.indices]
        for r, index in enumerate(group.indices):
            if index in engine.endings:
                continue
            seed = engine.seeds("centers", index)
            with group.member(r) as module:
                moved, over = self._follow(module, sample, seed)
                if moved is None:
                    continue
                self._place(module, data if over else sample, sample, seed)
                labels = nearest_centers(module, sample).numpy()
            changed = float((labels != engine.labels[r]).mean())
            engine.labels[r] = labels
            found[r] = {"value": float(module.value), "moved": moved, "changed": changed}
            if over:
                engine.end(group, r)
        return found

    def _follow(
        self, module: KernelNetModule, sample: Batches, seed: int
    ) -> tuple[float | None, bool]:
        """U from the kernel as it is now; how far K_U moved, and whether that was the last time.

        None while psi shows U less than it did when U was found: it takes longer to catch up.
        """
        z, before = gather(module, module.encode, sample), module.spectral.cpu().clone()
        laplacian = self._laplacian(z, float(module.sigma), seed)
        module.waited += 1
        if module.waited < self.wait and hsic(laplacian, before) < module.found.cpu():
            return None, False
        if self.update == "eig":
            values, u = top_eigenvectors(laplacian.apply, before)
            module.value.fill_(values.sum())
        else:
            u, value = ascend(laplacian.apply, before)
            module.value.fill_(value)
        module.updates += 1
        rounds, moved = int(module.rounds), relative_change(before, u)
        over = moved <= self.tol or bool(module.updates >= self.max_iter)
        if rounds or (over and self.hard_refine):
            u = F.one_hot(clusters(u, seed), self.n_clusters).to(u)
            moved = relative_change(before, u)
            over = rounds > 0 and (moved <= self.tol or rounds >= self.hard_refine)
            module.rounds += 1
        module.follow_(u, laplacian)
        return moved, over

    def _place(self, module: KernelNetModule, data: Batches, sample: Batches, seed: int) -> None:
        """Line 9: centres by k-means on psi, started from the clusters of U, or left there."""
        z, labels = gather(module, module.encode, sample), clusters(module.spectral.cpu(), seed)
        centers = cluster_means(z, labels, self.n_clusters)
        if self.labels == "embedding":
            centers = lloyd(fitting.embed_sample(module, data, seed), centers).centers
        module.centers.copy_(centers)

    def _sigma(self, z: Tensor, seed: int) -> float:
        if not isinstance(self.sigma, str):
            return float(self.sigma)
        return self.ratio * max(median_distance(z, seed), 1e-12)

    def _laplacian(self, z: Tensor, sigma: float, seed: int) -> Laplacian:
        options = {"rank": self.rank, "seed": seed, "diagonal": self.diagonal}
        return Laplacian(make_kernel(z, sigma, self.gram, **options), z)

    # What the base class asks for ----------------------------------------------------------

    def _check(self) -> None:
        fitting.check_common(self, least_lam=0.0)
        one_of("update", self.update, ["eig", "stiefel"])
        one_of("gram", self.gram, list(GRAMS))
        one_of("labels", self.labels, ["embedding", "spectral"])
        check_subset(self.subset, self.n_clusters)
        if isinstance(self.sigma, str):
            one_of("sigma", self.sigma, ["median"])
        whole = {"rank": 1, "inner": 1, "wait": 1, "hard_refine": 0, "width": 1}
        for name, least in whole.items():
            value = getattr(self, name)
            if value not in (None, "auto") and not (isinstance(value, int) and value >= least):
                raise ValueError(f"{name}={value!r}: use a whole number of at least {least}.")
        numbers = ["ratio"] if isinstance(self.sigma, str) else ["ratio", "sigma"]
        fitting.check_numbers(self, "a positive number", *numbers)

    def _network(self, shape: Shape) -> Spec | nn.Module:
        d = prod(shape)
        wide = (max(self.width or (64 if d < 10 else 0), 2 * d),) * 2
        weights = "identity" if self.pretrain in ("auto", 0) else "torch"
        return MLP(wide, d, output="linear", weights=weights)

    def _default_training(self) -> Training:
        return Training("adam", lr=1e-3, precision="float32")

    def _build_module(self) -> KernelNetModule:
        return KernelNetModule(
            fitting.build_autoencoder(self), self.n_clusters, self._n_rows, self.lam
        )

    def _adopt(self, module: Any, data: Batches) -> Self:
        module.release_()
        self._n_rows, self.sigma_ = 0, float(module.sigma)
        return super()._adopt(module, data)


def clusters(u: Tensor, seed: int) -> Tensor:
    """k-means of the rows of U, put on the unit sphere (Ng, Jordan, Weiss 2001)."""
    return kmeans(unit_rows(u), u.shape[1], seed=seed).labels


def judge(module: KernelNetModule, data: Batches) -> tuple[dict[str, float], Array]:
    """Minus tr(U'LU), the scatter that a rule may choose by, and the clusters of all rows."""
    labels = nearest_centers(module, data)
    scores = {"loss": -float(module.value), "scatter": fitting.scatter(module, data, labels)}
    return scores, labels.numpy()


def nearest_centers(module: KernelNetModule, data: Batches) -> Tensor:
    """The cluster of every row, (n,)."""
    gaps = stream(module, lambda x: squared_distances(module.encode(x), module.centers), data)
    return torch.cat([gap.argmin(1) for gap in gaps])
