"""What all estimators share: opening data, and everything that reads a fitted module."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from pellucid.autoencoders import Spec, resolve
from pellucid.data import Batches, Scaler, ScalerKind, open_data
from pellucid.nn import soft_memberships, squared_distances
from pellucid.training import CallbackSupportMixin, Training, stream
from pellucid.typing import Array, Shape

if TYPE_CHECKING:
    from pellucid.explain import Explanation


def check_extent(data: Batches, scale: object) -> None:
    """Refuse values that no autoencoder could learn from."""
    if data.lo == data.hi and data.n > 1:
        raise ValueError(
            f"There is nothing to cluster: all values are {data.lo:g} in the {data.n} rows of X."
        )
    if len(data.shape) == 3 and scale is None and data.hi - data.lo > 16:
        raise ValueError(
            f"The images range from {data.lo:g} to {data.hi:g}: bytes that became floats, or were "
            f'centred. Pass them as uint8 (divided by 255 here), or scale="unit" or "standard".'
        )


def as_array(rows: list[Any] | tuple[Any, ...]) -> Array:
    """A list of rows as an array."""
    try:
        return np.asarray(rows)
    except ValueError as error:
        shapes = sorted({np.shape(row) for row in rows})
        raise ValueError(
            f"X is a list of {len(rows)} rows of different shapes, {shapes[:4]}: cut or pad them "
            f"to one."
        ) from error


PARAMETERS, ATTRIBUTES = (f"{title}\n----------\n" for title in ("Parameters", "Attributes"))
ENTRY = re.compile(r"^(\w[\w, ]*) : (.+)((?:\n    .+)*)", re.M)  # not "Others", which has no type


def in_full(cls: type) -> str | None:
    """The docstring of an estimator, with the parameters and attributes that all of them have."""
    if not cls.__doc__ or not DeepClusterer.__doc__:
        return cls.__doc__  # python -OO has none
    shared, _, attributes = inspect.cleandoc(DeepClusterer.__doc__).partition(ATTRIBUTES)
    head, found, rest = inspect.cleandoc(cls.__doc__).partition(PARAMETERS)
    if not found:
        return cls.__doc__
    own, _, rest = rest.partition("\n\n")
    given, entries = inspect.signature(cls).parameters, {}
    for name, kind, text in ENTRY.findall(shared):
        if name in given:
            default = repr(given[name].default).replace("'", '"')
            entries[name] = f"{name} : {kind}, default={default}{text}"
    for names, kind, text in ENTRY.findall(own):
        entries[names.split(", ")[0]] = f"{names} : {kind}{text}"
    rest = rest if ATTRIBUTES in rest else f"{ATTRIBUTES}\n{rest}"
    told = "\n".join(entries[name] for name in given if name in entries)
    rest = rest.replace(ATTRIBUTES, f"{ATTRIBUTES}{attributes}\n")
    return f"{head}{PARAMETERS}{told}\n\n{rest}"


class DeepClusterer(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
    BaseEstimator,
    ABC,
):
    """A fitted `module_` (``encode(x)``, ``decode(z)``, ``centers``), read as scikit-learn does.

    A subclass is final. It assigns its parameters, builds its module and fits it. What all of them
    share is told here once, and `in_full` puts it into the help of each.

    Parameters
    ----------
    n_clusters : int
    autoencoder : spec, nn.Module, {"mlp", "conv", "identity"} or None
        The representation; None chooses by the shape of X.
    image_shape : tuple or None
        (h, w), (h, w, c) or (c, h, w) where the rows of X are flat images.
    scale : {None, "unit", "standard", "norm"}
        Scaling of X, remembered. uint8 is divided by 255 in any case.
    init : {"graph", "k-means", "k-means++", "random rows", "random"}, GraphStart or array
        Centres at the start, on the embedding, or themselves; "random" is the paper's.
    pretrain : int or "auto"
        Epochs of reconstruction before the centres are placed. "auto" is about 4,000 steps, 100
        epochs at most, and none without an autoencoder.
    representation : {"joint", "frozen"}
        "frozen" trains the centres alone after `pretrain`.
    empty : {"revive", "keep"}
        What happens to a centre that no point chose in an epoch.
    n_init : int
        Restarts; they differ in weights, centres and shuffling.
    select : str
        The rule that picks the restart without labels; "loss" is the smallest loss. See
        `pellucid.training.selection.RULES`.
    max_iter : int
        Epochs after `pretrain`.
    tol : float
        Stop when, for three epochs, at most this share of the labels and of the loss changed.
    batch_size : int
    snapshots : tuple of int
        Epochs after which centres, decoded centres and a sample of the embedding go into
        `history_`.
    training : Training or None
        Optimizer (Adadelta by default), device, precision, checkpoints.
    random_state : int, RandomState or None
    verbose : int
        1 always shows a bar, 0 on a terminal where a fit lasts.

    Attributes
    ----------
    labels_, cluster_centers_, prototypes_ : the clusters, the centres, and the centres decoded
    inertia_, loss_, loss_curve_, history_, n_iter_ : how the training went
    restart_losses_, restart_scores_, restart_labels_ : the loss of every restart, what else rules
        may read, and its clusters
    best_restart_ : which restart was taken
    module_ : the trained network, with `module_.centers`
    """

    n_clusters: int
    autoencoder: Any
    image_shape: Shape | None
    scale: ScalerKind | None
    batch_size: int
    module_: Any
    online_: bool = False  # whether a stream alone has trained it; the oldest files don't say
    n_steps_: int = 0
    scaler_: Scaler
    sample_shape_: Shape

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__doc__ = in_full(cls)

    @abstractmethod
    def fit(self, X: Any, y: None = None) -> Self:
        """Train on X."""

    @abstractmethod
    def _build_module(self) -> nn.Module:
        """An untrained module for samples of `sample_shape_`."""

    def _network(self, shape: Shape) -> Spec | nn.Module:
        """The representation for samples of `shape`, where none is given."""
        return resolve(None, shape)

    def _default_training(self) -> Training:
        return Training()

    def _check(self) -> None:
        """Refuse parameters that can't work, before any work is done."""

    def _open(self, X: Any, *, reset: bool) -> Batches:
        """X as batches, checked against what the estimator was fitted on unless `reset`."""
        if reset:
            self._check()
        if isinstance(X, list | tuple):
            X = as_array(X)
        table = len(getattr(X, "shape", ())) == 2
        if table and not reset:
            validate_data(self, X, reset=False, skip_check_array=True)
        data = open_data(
            X,
            image_shape=self.image_shape,
            scale=self.scale if reset else self.scaler_,
            batch_size=self.batch_size,
        )
        if not reset:
            if data.shape != self.sample_shape_:
                raise ValueError(
                    f"Samples have shape {data.shape}, but {type(self).__name__} was fitted on "
                    f"samples of shape {self.sample_shape_}."
                )
            return data
        if data.n < self.n_clusters:
            raise ValueError(
                f"n_samples={data.n} should be >= n_clusters={self.n_clusters}: there are fewer "
                f"rows than clusters. Lower n_clusters or pass more data."
            )
        check_extent(data, self.scale)
        if table:
            validate_data(self, X, reset=True, skip_check_array=True)
        self.n_features_in_, self.sample_shape_ = data.n_features, data.shape
        self.scaler_, self.bounded_ = data.scaler, data.fills_unit
        given, shape = self.autoencoder, data.shape
        self.autoencoder_ = self._network(shape) if given is None else resolve(given, shape)
        return data

    def _encode(self, X: Any) -> Iterator[Tensor]:
        check_is_fitted(self)
        return stream(self.module_, self.module_.encode, self._open(X, reset=False))

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[1])

    def transform(self, X: Any) -> Array:
        """The embedding of X, (n, d)."""
        return torch.cat(list(self._encode(X))).numpy()

    def distances(self, X: Any) -> Array:
        """Euclidean distances of the embedding to the centres, (n, k)."""
        return torch.cat([self._gaps(z).sqrt().float() for z in self._encode(X)]).numpy()

    def predict(self, X: Any) -> Array:
        """The nearest centre of every row, (n,)."""
        parts = [self._gaps(z).argmin(1) for z in self._encode(X)]
        return torch.cat(parts).numpy().astype(np.int32)

    def predict_proba(self, X: Any) -> Array:
        """Memberships, (n, k): rows sum to one and the largest is what `predict` gives."""
        soft = [soft_memberships(self._gaps(z), self._temperature()) for z in self._encode(X)]
        return torch.cat(soft).numpy()

    def inverse_transform(self, Z: Any) -> Array:
        """Decode embeddings (n, d) into samples (n, *sample_shape_), on the scale of X."""
        check_is_fitted(self)
        z = torch.as_tensor(np.asarray(Z, dtype=np.float32))
        if z.ndim != 2 or z.shape[1] != self._n_features_out:
            raise ValueError(
                f"Z has shape {tuple(z.shape)}; embeddings to decode have shape "
                f"(n, {self._n_features_out}), as transform gives them."
            )
        device = self.module_.centers.device
        with torch.no_grad():
            x = torch.cat([self.module_.decode(part.to(device)).cpu() for part in z.split(4096)])
        return np.asarray(self.scaler_.invert(x.numpy()))

    def score(self, X: Any, y: None = None) -> float:
        """Minus the sum of squared distances to the nearest centres, as KMeans has it."""
        return -float(sum(self._gaps(z).min(1).values.double().sum() for z in self._encode(X)))

    def explain(self, X: Any, **shown: Any) -> Explanation:
        """Why the rows of X are where they are; options as in `pellucid.explain.explain`."""
        from pellucid.explain import explain

        return explain(self, X, **shown)

    def report(self, X: Any, path: str | PathLike[str], **shown: Any) -> Path:
        """Write what was found in X as one HTML page; options as in `pellucid.report`."""
        from pellucid.report import write_report

        return write_report(self, X, path, **shown)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator into the folder `path`; `pellucid.load` reads it."""
        from pellucid.persistence import save

        save(self, path)

    def _gaps(self, z: Tensor) -> Tensor:
        """Squared distances (b, k); in float64, so that they don't depend on the rows around."""
        return squared_distances(z.double(), torch.from_numpy(self.cluster_centers_).double())

    def _temperature(self) -> float:
        """tau of the memberships: the mean squared distance of a sample to its own centre."""
        return max(self.inertia_ / len(self.labels_), 1e-12)

    def _adopt(self, module: Any, data: Batches) -> Self:
        """Set what every fitted estimator has, from a trained module."""
        self.module_ = module.eval()
        self.cluster_centers_ = module.centers.detach().cpu().numpy().astype(np.float32)
        gaps = [self._gaps(z).min(1) for z in stream(module, module.encode, data)]
        self.labels_ = torch.cat([g.indices for g in gaps]).numpy().astype(np.int32)
        self.inertia_ = float(sum(g.values.double().sum() for g in gaps))
        self.prototypes_ = self.inverse_transform(self.cluster_centers_)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # scikit-learn's sparse check takes whatever has predict_proba for a classifier of four
        # classes. This, and n_clusters=4 by default, is what it looks for; `estimator_type` still
        # says clusterer, and nothing else reads the tag.
        tags.classifier_tags = ClassifierTags()
        tags.input_tags.three_d_array = True
        return tags
