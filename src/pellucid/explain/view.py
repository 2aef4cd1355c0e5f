"""One way to look at any clusterer with centres: ours, and scikit-learn's KMeans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from sklearn.cluster import BisectingKMeans
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from pellucid.data import Batches, open_data
from pellucid.nn import squared_distances
from pellucid.typing import Array, Shape

ROWS, VALUES = 2048, 2**22  # of a piece: at most so many rows, and so many numbers


@dataclass(frozen=True)
class Piece:
    """Some rows: which they are, as the user has them, and embedded."""

    rows: Array  # (b,)
    raw: Array  # (b, *shape)
    z: Tensor  # (b, d), float64


class View:
    """A fitted clusterer and the rows to be explained; rows belong to their nearest centre.

    This one reads estimators whose centres live where the data does. Bytes stay from 0 to 255.
    """

    def __init__(self, est: Any, X: Any, feature_names: Sequence[str] | None = None) -> None:
        self.est = est
        self.data = self._open(X)
        self.n, self.shape = self.data.n, self.data.shape
        self.names = names_of(self.data, est, feature_names)
        self.centres = torch.as_tensor(np.asarray(est.cluster_centers_)).double()  # (k, d)
        self.k = len(self.centres)
        self.origin = self._origin()

    def _open(self, X: Any) -> Batches:
        X = np.asarray(X) if isinstance(X, list | tuple) else X
        validate_data(self.est, X, reset=False, skip_check_array=True)
        return open_data(X)

    def _origin(self) -> Tensor:
        """Distances are computed from here: far from it, float64 would lose their digits."""
        return self.centres.mean(0)

    @property
    def prototypes(self) -> Array | None:
        """The centres as samples, (k, *shape)."""
        return self.centres.numpy()

    @property
    def tau(self) -> float:
        """Temperature of the memberships: mean squared distance to the own centre when fitted."""
        inertia = getattr(self.est, "inertia_", 0.0) or 0.0  # a stream of batches has no inertia
        return max(float(inertia) / max(len(getattr(self.est, "labels_", ())), 1), 1e-12)

    def values(self, raw: Array) -> Array:
        """Rows on the scale on which they are explained, (b, features) in float64."""
        return raw.reshape(len(raw), -1).astype(np.float64)

    def embed(self, raw: Array) -> Tensor:
        """Where the centres live, (b, d)."""
        return torch.from_numpy(self.values(raw))

    def trace(self, x: Tensor) -> Tensor:
        """`embed` of `values` (b, features), with its gradient."""
        return x

    def gaps(self, z: Tensor) -> Tensor:
        """Squared distances to the centres, (b, k)."""
        return squared_distances(z - self.origin, self.centres - self.origin)

    def pieces(self, rows: Array | None = None) -> Iterator[Piece]:
        """All rows in order, or those that are named."""
        step = max(1, min(ROWS, VALUES // self.data.n_features))
        for start in range(0, self.n if rows is None else len(rows), step):
            here = slice(start, start + step)
            raw = self.data.read(here if rows is None else rows[here])
            which = np.arange(start, start + len(raw)) if rows is None else rows[here]
            yield Piece(which, raw, self.embed(raw).double())


class DeepView(View):
    """An estimator of this package, whose centres live in its network's embedding."""

    def _open(self, X: Any) -> Batches:
        return self.est._open(X, reset=False)

    def _origin(self) -> Tensor:
        return torch.zeros(())  # exactly as `predict` computes it

    @property
    def prototypes(self) -> Array | None:
        return getattr(self.est, "prototypes_", None)

    @property
    def tau(self) -> float:
        return float(self.est._temperature())

    def values(self, raw: Array) -> Array:
        """As `prototypes_` has them: bytes are divided by 255."""
        scale = 255 if raw.dtype == np.uint8 else 1
        return super().values(raw) / scale

    @torch.no_grad()
    def embed(self, raw: Array) -> Tensor:
        return self._encode(self.data.prepare(raw))

    def trace(self, x: Tensor) -> Tensor:
        scaled = self.data.scaler.apply(x.reshape(len(x), *self.shape))
        return self._encode(scaled.float()).double()

    def _encode(self, x: Tensor) -> Tensor:
        device = next(iter(self.est.module_.state_dict().values())).device
        return self.est.module_.encode(x.to(device)).cpu()


def view(est: Any, X: Any, feature_names: Sequence[str] | None = None) -> View:
    """The clusterer and the data in one; refuses what has no centres or is not fitted."""
    if not hasattr(est, "fit"):
        raise TypeError(f"{type(est).__name__} is no estimator: pass a fitted TELL or KMeans, say.")
    check_is_fitted(est)
    if not hasattr(est, "cluster_centers_"):
        raise TypeError(
            f"{type(est).__name__} has no cluster_centers_, and without centres there is nothing "
            f"to measure distances to: pass an estimator of pellucid, KMeans or MiniBatchKMeans."
        )
    if isinstance(est, BisectingKMeans):
        raise TypeError(
            "BisectingKMeans assigns rows by its own tree, not to the nearest of its centres: "
            "KMeans(init=est.cluster_centers_, n_init=1).fit(X) has clusters that can be explained."
        )
    return (DeepView if hasattr(est, "module_") else View)(est, X, feature_names)


def draw_rows(n: int, m: int) -> Array:
    """m different rows of n, in order; the same ones every time."""
    return np.sort(np.random.default_rng(0).choice(n, min(m, n), replace=False))


def names_of(data: Batches, est: Any, given: Sequence[str] | None) -> list[str]:
    """A name for every feature, arranged as samples are."""
    if given is not None and len(given) != data.n_features:
        raise ValueError(
            f"feature_names has {len(given)} names, but X has {data.n_features} features."
        )
    fitted = getattr(est, "feature_names_in_", None)
    found = next(
        (names for names in (given, fitted, data.feature_names) if names is not None), None
    )
    if found is None:
        return default_names(data.shape)
    table = np.array([[str(name) for name in found]], dtype=object)
    return list(data.arrange(table).ravel())


def default_names(shape: Shape) -> list[str]:
    """x0, x1, ... as scikit-learn has it, or the places of pixels."""
    if len(shape) == 1:
        return [f"x{i}" for i in range(shape[0])]
    places = product(*map(range, shape))
    if shape[0] == 1:
        return [f"pixel {row},{column}" for _, row, column in places]
    return [f"pixel {row},{column} channel {c}" for c, row, column in places]
