"""What a recipe compares: each takes samples, a seed and a folder, and gives labels.

No method has a place for true labels; the runner judges what comes back.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering, MiniBatchKMeans
from sklearn.cluster import KMeans as LloydKMeans
from sklearn.mixture import GaussianMixture

import pellucid
from benchmarks.data import Array, Given
from pellucid import PCX, TELL
from pellucid.training import Seeds

SAVED = 5  # epochs between two checkpoints; on a small set each takes as long as an epoch
SNAPSHOT_ROWS = 1000  # what `pellucid.fitting.snapshot` embeds


@dataclass
class Outcome:
    """What a fit found."""

    labels: Array
    loss: float  # the method's own objective, by which its restarts are chosen
    history: list[dict[str, Any]] = field(default_factory=list)
    finished: bool = True
    embedding: Array | None = None
    restart_labels: Array | None = None  # (r, n)
    restart_scores: list[dict[str, float]] = field(default_factory=list)  # "loss" and others
    chosen: int = 0
    moments: list[tuple[int, Array, Array]] = field(default_factory=list)  # (epoch, rows, labels)


class Method(Protocol):
    """A row of the table."""

    def fit(self, given: Given, seed: int, folder: Path) -> Outcome:
        """Cluster; what must survive a kill goes into `folder`."""
        ...

    def config(self) -> dict[str, str]:
        """All that decides what is computed, in words."""
        ...


@dataclass(frozen=True)
class Params:
    """A method that is its parameters."""

    params: dict[str, Any] = field(default_factory=dict)

    def config(self) -> dict[str, str]:
        """See `Method`."""
        words = {name: " ".join(repr(value).split()) for name, value in self.params.items()}
        return {"method": type(self).__name__, **words}


@dataclass(frozen=True)
class Estimator:
    """The estimator `cls_name` of the package with `params`."""

    cls_name: str
    params: dict[str, Any] = field(default_factory=dict)

    def config(self) -> dict[str, str]:
        """See `Method`."""
        return {**Params(self.params).config(), "method": self.cls_name}

    def fit(self, given: Given, seed: int, folder: Path) -> Outcome:
        """See `Method`."""
        kind = getattr(pellucid, self.cls_name)
        est, finished = fitted(self.params, given.X, seed, folder, kind)
        return Outcome(
            est.labels_,
            float(est.loss_),
            est.history_,
            finished,
            embedding=embedding_of(est, given.X),
            restart_labels=est.restart_labels_,
            restart_scores=scores(est),
            chosen=int(est.best_restart_),
            moments=moments(est, len(given.X)),
        )


@dataclass(frozen=True)
class Tell(Params):
    """`pellucid.TELL` with `params`; ``representation="frozen"`` is TELL-TwoStage."""

    def fit(self, given: Given, seed: int, folder: Path) -> Outcome:
        """See `Method`."""
        return Estimator("TELL", self.params).fit(given, seed, folder)


@dataclass(frozen=True)
class Pcx(Params):
    """`pellucid.PCX` with `params`; ``ci_unit=False`` and ``kappa=1.0`` are Table 6's."""

    def fit(self, given: Given, seed: int, folder: Path) -> Outcome:
        """See `Method`."""
        return Estimator("PCX", self.params).fit(given, seed, folder)


@dataclass(frozen=True)
class PcxWhole(Params):
    """PC-X that sees all samples in every joint step, on the autoencoder that batches have made."""

    steps: int = 2000

    def config(self) -> dict[str, str]:
        """See `Method`."""
        return {**super().config(), "steps": str(self.steps)}

    def fit(self, given: Given, seed: int, folder: Path) -> Outcome:
        """See `Method`."""
        start, _ = fitted({**self.params, "max_iter": 0}, given.X, seed, folder / "start", PCX)
        whole = {
            **self.params,
            "autoencoder": start.module_.autoencoder,
            "pretrain": 0,
            "batch_size": len(given.X),
            "max_iter": self.steps,  # an epoch is one step
        }
        return Estimator("PCX", whole).fit(given, seed, folder / "whole")


@dataclass(frozen=True)
class AutoencoderKMeans(Params):
    """k-means on the embedding of the autoencoder that TELL starts from."""

    kind = TELL
    n_init: int = 10

    def config(self) -> dict[str, str]:
        """See `Method`."""
        return {**super().config(), "k-means n_init": str(self.n_init)}

    def fit(self, given: Given, seed: int, folder: Path) -> Outcome:
        """See `Method`."""
        params = {**self.params, "max_iter": 0, "n_init": 1}
        est, finished = fitted(params, given.X, seed, folder, self.kind)
        z = est.transform(given.X)
        kmeans = LloydKMeans(est.n_clusters, n_init=self.n_init, random_state=seed).fit(z)
        return Outcome(kmeans.labels_, kmeans.inertia_, est.history_, finished, embedding=z)


@dataclass(frozen=True)
class PcxStart(AutoencoderKMeans):
    """k-means on the embedding of the autoencoder that PC-X starts from."""

    kind = PCX


@dataclass(frozen=True)
class OnLatent(Params):
    """Another clustering of the embedding that the recipe's "PC-X" has ended with (its Fig. 3)."""

    how: str = "k-means"

    def config(self) -> dict[str, str]:
        """See `Method`."""
        return {**super().config(), "how": self.how}

    def fit(self, given: Given, seed: int, folder: Path) -> Outcome:
        """See `Method`."""
        left = sorted(folder.parent.glob(f"PC_X-*-{seed}.npz"), key=lambda p: p.stat().st_mtime)
        if not left:
            raise FileNotFoundError(f"{folder.parent}: run PC-X first, it leaves its embedding.")
        with np.load(left[-1]) as arrays:
            z, k = arrays["embedding"], self.params["n_clusters"]
        models = {
            "k-means": LloydKMeans(k, n_init=10, random_state=seed),
            "GMM": GaussianMixture(k, n_init=3, random_state=seed),
            "AGG": AgglomerativeClustering(k),  # Ward
        }
        model = models[self.how]
        return Outcome(model.fit_predict(z), float(getattr(model, "inertia_", 0.0)))


@dataclass(frozen=True)
class Mixture(Params):
    """scikit-learn's Gaussian mixture, diagonal, on the samples as they are."""

    def fit(self, given: Given, seed: int, folder: Path) -> Outcome:
        """See `Method`."""
        how = {"covariance_type": "diag", "reg_covar": 1e-3, "max_iter": 50, **self.params}
        model = GaussianMixture(**how, random_state=seed)
        x = flat(given.X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fifty steps may be too few to converge
            return Outcome(model.fit_predict(x), -float(model.score(x)))


@dataclass(frozen=True)
class KMeans(Params):
    """scikit-learn's KMeans on the samples as they are (uint8 divided by 255)."""

    unit_rows: bool = False  # put every sample on the sphere first

    def config(self) -> dict[str, str]:
        """See `Method`."""
        return {**super().config(), "unit_rows": str(self.unit_rows)}

    def fit(self, given: Given, seed: int, folder: Path) -> Outcome:
        """See `Method`."""
        kmeans = LloydKMeans(**self.params, random_state=seed).fit(flat(given.X, self.unit_rows))
        return Outcome(kmeans.labels_, float(kmeans.inertia_))


@dataclass(frozen=True)
class KMeansFrozen(Params):
    """scikit-learn's KMeans on the first samples, nearest centre for the stream."""

    def fit(self, given: Given, seed: int, folder: Path) -> Outcome:
        """See `Method`."""
        assert given.stream is not None
        kmeans = LloydKMeans(**self.params, random_state=seed).fit(flat(given.X))
        return Outcome(kmeans.predict(flat(given.stream)), float(kmeans.inertia_))


@dataclass(frozen=True)
class MiniBatchStream(Params):
    """MiniBatchKMeans from the same start, each batch labelled and then learned from."""

    batch: int = 256

    def config(self) -> dict[str, str]:
        """See `Method`."""
        return {**super().config(), "batch": str(self.batch)}

    def fit(self, given: Given, seed: int, folder: Path) -> Outcome:
        """See `Method`."""
        assert given.stream is not None
        first = flat(given.X)
        start = LloydKMeans(**self.params, random_state=seed).fit(first)
        model = MiniBatchKMeans(
            start.n_clusters, init=start.cluster_centers_, n_init=1, random_state=seed
        )
        model.partial_fit(first)  # so that each centre starts with the weight of its samples
        labels = []
        for x in pieces(given.stream, self.batch):
            labels.append(model.predict(flat(x)))
            model.partial_fit(flat(x))
        return Outcome(np.concatenate(labels), float(start.inertia_))


@dataclass(frozen=True)
class TellStream(Params):
    """TELL fitted on the first samples; each batch is labelled, then learned from if `learn`."""

    learn: bool = True
    batch: int = 256

    def config(self) -> dict[str, str]:
        """See `Method`."""
        return {**super().config(), "learn": str(self.learn), "batch": str(self.batch)}

    def fit(self, given: Given, seed: int, folder: Path) -> Outcome:
        """See `Method`."""
        assert given.stream is not None
        est, finished = fitted(self.params, given.X, seed, folder)
        loss, history = float(est.loss_), est.history_
        if not self.learn:
            return Outcome(est.predict(given.stream), loss, history, finished)
        labels = []
        for x in pieces(given.stream, self.batch):
            labels.append(est.predict(x))
            est.partial_fit(x)
        return Outcome(np.concatenate(labels), loss, history, finished)


def fitted(
    params: dict[str, Any], X: Array, seed: int, folder: Path, kind: Any = TELL
) -> tuple[Any, bool]:
    """`kind` on X with its checkpoints in `folder`, and whether it came to its end."""
    training = params.get("training") or kind()._default_training()
    every = max(training.checkpoint_every, SAVED)
    training = clone(training).set_params(checkpoint_dir=folder, checkpoint_every=every)
    est = kind(**{**params, "training": training, "random_state": seed})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        est.fit(X)
    return est, not any("keeping the best so far" in str(w.message) for w in caught)


def scores(est: Any) -> list[dict[str, float]]:
    """What rules may choose a restart by: its loss, and whatever else the estimator knows."""
    more = getattr(est, "restart_scores_", None) or [{}] * len(est.restart_losses_)
    pairs = zip(est.restart_losses_, more, strict=True)
    return [{"loss": float(value), **known} for value, known in pairs]


def embedding_of(est: Any, X: Array) -> Array | None:
    """The embedding, unless it is as wide as the samples."""
    small = est.cluster_centers_.shape[1] < est.n_features_in_
    return est.transform(X) if small else None


def moments(est: Any, n: int) -> list[tuple[int, Array, Array]]:
    """(epoch, rows, their labels) for the snapshots in `history_`, which are taken out of it."""
    order = np.random.default_rng(Seeds(est.random_state)("snapshot")).permutation(n)
    rows, found = order[:SNAPSHOT_ROWS] if SNAPSHOT_ROWS < n else np.arange(n), []
    for record in est.history_:
        shot = record.pop("snapshot", None)
        if shot:
            z, omega = np.array(shot["embedding"]), np.array(shot["centers"])
            gaps = (omega**2).sum(1) - 2 * z @ omega.T
            found.append((record["epoch"], rows, gaps.argmin(1)))
    return found


def flat(X: Array, unit_rows: bool = False) -> Array:
    """Rows of float32; uint8 divided by 255."""
    X = X.toarray() if issparse(X) else X
    x = X.reshape(len(X), -1).astype(np.float32)
    x = x / np.float32(255) if X.dtype == np.uint8 else x
    return x / np.linalg.norm(x, axis=1, keepdims=True).clip(1e-12) if unit_rows else x


def pieces(X: Array, size: int) -> list[Array]:
    """X in batches, in order."""
    return [X[start : start + size] for start in range(0, len(X), size)]
