"""One self-contained HTML page about a fitted clustering: no script, no address outside itself."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from scipy import sparse
from sklearn.utils.validation import check_is_fitted
from torch.utils.data import Dataset, Subset

from pellucid.data import Batches, open_data
from pellucid.report.figures import data_uri, line_chart
from pellucid.typing import Array, Shape

NEAREST = 8  # real samples beside each centre
FEATURES = 8  # features that tell a cluster apart, where there is no image to show
SMALLEST_SQUARE = 64  # flat rows of 8 x 8 values and more are worth trying as an image
CHUNK = 2**22  # values that are read, embedded and forgotten at a time


def write_report(est: Any, X: Any, path: str | Path, *, title: str | None = None) -> Path:
    """Write what ``est`` found in ``X`` as one HTML file, and return its path.

    Parameters
    ----------
    est : fitted clusterer
    X : what it was fitted on, or new data of the same kind
        Read in chunks. Images, and flat rows that make a square of 8 x 8 or more without column
        names, are shown as pictures; other data as the features that tell the clusters apart.
    path : str or Path
        The file to write; an existing one is replaced, in one step, when the page is complete.
    title : str, optional
    """
    check_is_fitted(est)
    target = writable(path)
    # "norm" cannot be undone, so those samples are shown as the network saw them.
    scale = est.scaler_ if est.scaler_.kind == "norm" else None
    data = open_data(X, image_shape=getattr(est, "image_shape", None), scale=scale)
    pictured = picture_shape(data, sparse.issparse(X))
    members = Members.of(est, X, data, with_features=pictured is None)
    cards = pictures(est, data, members, pictured) if pictured else tables(est, data, members)
    page = _template().render(
        title=title or f"{len(members.sizes)} clusters of {data.n:,} samples",
        facts=facts(est, data),
        settings=repr(est),
        versions=versions(),
        cards=cards,
        pictured=pictured is not None,
        aspect=pictured[2] / pictured[1] if pictured else 1,
        n=data.n,
        charts=charts(est),
        restarts=restarts(est),
    )
    _replace(target, page)
    return target


def writable(path: str | Path) -> Path:
    """``path`` if a file can be written there; worth asking before a long fit."""
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"{target} is a directory: name a file in it, {target / 'report.html'}")
    if not target.parent.is_dir():
        raise ValueError(f"{target.parent} is not a directory: create it, or write elsewhere")
    if not os.access(target.parent, os.W_OK):
        raise ValueError(f"{target.parent} cannot be written to: write the report elsewhere")
    return target


def _replace(target: Path, text: str) -> None:
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ValueError(f"{target} cannot be written ({error.strerror}): try elsewhere") from error


@cache
def _template() -> Template:
    loader = PackageLoader("pellucid.report")
    env = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return env.get_template("report.html.j2")


def picture_shape(data: Batches, is_sparse: bool = False) -> Shape | None:
    """(c, h, w) if the samples are to be shown as images, else None."""
    if len(data.shape) == 3:
        return data.shape
    side = isqrt(data.n_features)
    square = side**2 == data.n_features >= SMALLEST_SQUARE
    return (1, side, side) if square and data.feature_names is None and not is_sparse else None


def rows_of(X: Any, start: int, stop: int) -> Any:
    """Some rows of anything that the estimators read, as the same kind of thing."""
    if isinstance(X, Dataset):
        return Subset(X, range(start, stop))
    return X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop]


@dataclass
class Members:
    """What one pass over the data keeps of each cluster."""

    sizes: Array  # (k,)
    rows: Array  # (k, m), nearest first; -1 where the cluster has fewer members
    distances: Array  # (k, m)
    sums: Array | None  # (k, d)
    squares: Array | None  # (d,)

    @classmethod
    def of(cls, est: Any, X: Any, data: Batches, *, with_features: bool) -> Members:
        """Label every sample, and keep the nearest members of every centre."""
        k, d = len(est.cluster_centers_), data.n_features
        found = cls(
            sizes=np.zeros(k, np.int64),
            rows=np.full((k, NEAREST), -1),
            distances=np.full((k, NEAREST), np.inf),
            sums=np.zeros((k, d)) if with_features else None,
            squares=np.zeros(d) if with_features else None,
        )
        X = X.tocsr() if sparse.issparse(X) else X
        for x, index in data.sequential(size=max(1, min(4096, CHUNK // d))):
            # The estimator is given the user's own rows: names, dtype and scaling are its affair.
            part = rows_of(X, int(index[0]), int(index[-1]) + 1)
            labels = est.predict(part)
            found._take(labels, np.asarray(est.distances(part)), index.numpy())
            if with_features:
                found._add(labels, x.numpy().reshape(len(labels), -1).astype(np.float64))
        return found

    def _take(self, labels: Array, distances: Array, index: Array) -> None:
        for j in np.unique(labels):
            mine = np.flatnonzero(labels == j)
            near = np.concatenate([self.distances[j], distances[mine, j]])
            rows = np.concatenate([self.rows[j], index[mine]])
            order = np.argsort(near, kind="stable")[:NEAREST]
            self.distances[j], self.rows[j] = near[order], rows[order]
            self.sizes[j] += len(mine)

    def _add(self, labels: Array, x: Array) -> None:
        assert self.sums is not None and self.squares is not None
        for j in np.unique(labels):
            self.sums[j] += x[labels == j].sum(0)
        self.squares += np.square(x).sum(0)

    def nearest(self, j: int) -> list[tuple[int, float]]:
        """Rows and distances of the nearest members of cluster ``j``."""
        pairs = zip(self.rows[j].tolist(), self.distances[j].tolist(), strict=True)
        return [(row, distance) for row, distance in pairs if row >= 0]

    def spread(self) -> tuple[Array, Array, Array]:
        """Means of the clusters (k, d), and mean and standard deviation of everything (d,)."""
        assert self.sums is not None and self.squares is not None
        n = self.sizes.sum()
        mean = self.sums.sum(0) / n
        deviation = np.sqrt(np.clip(self.squares / n - mean**2, 0, None))
        return self.sums / np.maximum(self.sizes, 1)[:, None], mean, deviation


def pictures(est: Any, data: Batches, members: Members, shape: Shape) -> list[dict[str, Any]]:
    """A card per cluster: the decoded centre beside the nearest real samples."""
    prototypes = np.asarray(est.prototypes_).reshape(-1, *shape)

    def show(image: Array) -> str:
        return data_uri(image.reshape(shape), data.lo, data.hi)

    cards = []
    for j, card in enumerate(_cards(members)):
        shown = members.nearest(j)
        images = data.take([row for row, _ in shown]).numpy()
        near = [(show(image), *pair) for image, pair in zip(images, shown, strict=True)]
        cards.append(card | {"centre": show(prototypes[j]), "near": near})
    return cards


def tables(est: Any, data: Batches, members: Members) -> list[dict[str, Any]]:
    """A card per cluster: the features in which its members differ most from the rest."""
    means, overall, deviation = members.spread()
    names = data.feature_names or [f"feature {i}" for i in range(data.n_features)]
    centres = np.asarray(est.prototypes_).reshape(-1, data.n_features)
    shift = (means - overall) / np.where(deviation > 0, deviation, np.inf)
    longest = float(np.abs(shift[members.sizes > 0]).max(initial=0)) or 1.0
    cards = []
    for j, card in enumerate(_cards(members)):
        top = np.argsort(-np.abs(shift[j]), kind="stable")[: FEATURES if card["size"] else 0]
        rows = [
            {
                "name": names[i],
                "shift": shift[j, i],
                "width": 50 * abs(shift[j, i]) / longest,
                "mean": means[j, i],
                "overall": overall[i],
                "centre": centres[j, i],
            }
            for i in top
        ]
        cards.append(card | {"features": rows, "near": members.nearest(j)})
    return cards


def _cards(members: Members) -> list[dict[str, Any]]:
    share = members.sizes / members.sizes.sum()
    largest = max(int(members.sizes.max()), 1)
    return [
        {"id": j, "size": int(size), "share": share[j], "width": 100 * size / largest}
        for j, size in enumerate(members.sizes)
    ]


def facts(est: Any, data: Batches) -> list[tuple[str, str]]:
    """What was clustered and how, as pairs for the head of the page."""
    found = [
        ("Samples", f"{data.n:,} {describe(data.shape)}"),
        ("Method", type(est).__name__),
        ("Clusters", str(len(est.cluster_centers_))),
        ("Seed", str(getattr(est, "random_state", None))),
    ]
    if hasattr(est, "n_iter_"):
        found.append(("Epochs", str(est.n_iter_)))
    if hasattr(est, "loss_"):
        found.append(("Loss", f"{est.loss_:.6g}"))
    return found


def describe(shape: Shape) -> str:
    """What samples of this shape are, in words."""
    if len(shape) == 1:
        return f"rows of {shape[0]:,} features"
    channels, height, width = shape
    return f"images of {height} × {width}" + (f" × {channels}" if channels > 1 else "")


def charts(est: Any) -> list[tuple[str, Markup]]:
    """Titles and curves of what was recorded while training."""
    changed = [epoch.get("changed", np.nan) for epoch in getattr(est, "history_", ())]
    curves = {
        "Loss": getattr(est, "loss_curve_", ()),
        "Share of the samples that changed cluster": changed,
    }
    drawn = [(name, line_chart(values, f"{name} by epoch")) for name, values in curves.items()]
    return [(name, chart) for name, chart in drawn if chart]


def restarts(est: Any) -> list[tuple[float, bool]]:
    """The loss of each restart, and whether it is the one that was kept."""
    losses, best = getattr(est, "restart_losses_", ()), getattr(est, "best_restart_", None)
    return [(float(loss), r == best) for r, loss in enumerate(losses)]


def versions() -> dict[str, str]:
    """Of everything that the numbers depend on."""
    found = {"Python": platform.python_version()}
    for name in ("pellucid", "torch", "numpy", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from its sources
            found[name] = "(not installed)"
    return found
