"""Single figures with matplotlib: an axes goes in, or none, and comes out.

Colours are those of the report. matplotlib is imported when a function is called, and comes with
``pip install 'pellucid[plot]'``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pellucid.explain import Explanation, explain
from pellucid.explain.view import View, draw_rows, view
from pellucid.report.colours import colour
from pellucid.report.gallery import Gallery, Given, picture_shape
from pellucid.report.projection import TSNE_ROWS, flatten
from pellucid.report.training import points, terms
from pellucid.typing import Array

INK, EDGE = "#17202b", "white"
FEATURES = 12  # of a profile
Axes = Any  # matplotlib's, which is not there at import


def plot_embedding(est: Any, X: Any, *, ax: Axes = None) -> Axes:
    """The rows of X in two dimensions in the colours of their clusters, centres as pentagons.

    Placed as on the map of a report, by t-SNE; of more than 5,000 rows a sample is drawn.
    """
    seen, ax = view(est, X), axes(ax)
    pieces = list(seen.pieces(draw_rows(seen.n, TSNE_ROWS - seen.k)))
    z = np.concatenate([piece.z.numpy() for piece in pieces])
    labels = np.concatenate([seen.gaps(piece.z).argmin(1).numpy() for piece in pieces])
    flat = flatten(z, seen.centres.numpy())
    order = np.random.default_rng(1).permutation(len(z))  # no cluster is drawn last
    shades = np.array([colour(j) for j in range(seen.k)])
    ax.scatter(*flat.points[order].T, c=shades[labels[order]], s=8, alpha=0.75, linewidths=0)
    alive = np.unique(labels)
    pentagon = {"marker": "p", "s": 190, "edgecolors": EDGE, "linewidths": 1.2, "zorder": 3}
    ax.scatter(*flat.centres[alive].T, c=shades[alive], **pentagon)
    for j in alive.tolist():
        word = {"ha": "center", "va": "center", "fontsize": 8, "fontweight": "bold", "zorder": 4}
        ax.text(*flat.centres[j], str(j), color=EDGE, **word)
    ax.set(xticks=[], yticks=[], aspect="equal", title=f"{len(z):,} samples, by {flat.method}")
    return ax


def plot_prototypes(est: Any, X: Any, *, ax: Axes = None) -> Axes:
    """The decoded centres side by side, and below each the sample of X nearest to it.

    Pictures where the samples are some; for other rows a table of the centres' features.
    """
    seen, ax = view(est, X), axes(ax)
    if seen.prototypes is None:
        raise TypeError(f"{type(est).__name__} has no decoder, so its centres can't be shown.")
    shape = picture_shape(seen, named=hasattr(est, "feature_names_in_"))
    if shape is None:
        return heat(seen, ax)
    found = explain(est, X, n_exemplars=1, rules=False)
    gallery, black = Gallery(seen, Given()), np.zeros(shape)
    near = [c.central[0].row if c.size else -1 for c in found.clusters]
    rows = [
        [np.reshape(prototype, shape) for prototype in seen.prototypes],
        [gallery.images(np.array([i]))[0] if i >= 0 else black for i in near],
    ]
    sheet = np.concatenate([np.concatenate([framed(i) for i in row], -1) for row in rows], -2)
    lo, hi = gallery.extent
    shown = np.clip((np.moveaxis(sheet, 0, -1) - lo) / (hi - lo or 1.0), 0, 1)
    ax.imshow(shown if shape[0] == 3 else shown.mean(-1), cmap="gray", vmin=0, vmax=1)
    high, wide = shape[1] + 2, shape[2] + 2
    ax.set_xticks(wide * (np.arange(seen.k) + 0.5) - 0.5, [str(j) for j in range(seen.k)])
    ax.set_yticks([high / 2 - 0.5, 1.5 * high - 0.5], ["centre", "nearest"])
    ax.tick_params(length=0)
    return ax


def framed(image: Array) -> Array:
    """(c, h, w) with a line of its brightest value around it."""
    return np.pad(image, ((0, 0), (1, 1), (1, 1)), constant_values=np.inf)


def heat(seen: View, ax: Axes) -> Axes:
    """Centres (k, features), each feature from its lowest centre to its highest."""
    values = np.reshape(np.asarray(seen.prototypes, dtype=float), (seen.k, -1))
    span = np.ptp(values, axis=0)
    shares = (values - values.min(0)) / np.where(span > 0, span, 1)
    ax.imshow(shares, cmap="cividis", aspect="auto", interpolation="nearest")
    ax.set(ylabel="cluster", yticks=range(seen.k))
    if len(seen.names) <= 40:
        ax.set_xticks(range(len(seen.names)), seen.names, rotation=90)
    return ax


def plot_history(est: Any, *, ax: Axes = None) -> Axes:
    """The losses by epoch, on a logarithmic scale where all of them are positive."""
    history = [record | {"at": i + 1} for i, record in enumerate(history_of(est))]
    ax = axes(ax)
    names = {"loss": "total"} | {name: name for name in terms(history)}
    for i, (name, label) in enumerate(names.items()):
        line = points(history, {name: label})
        if line:
            x, y = [p["epoch"] for p in line], [p["value"] for p in line]
            ax.plot(x, y, label=label, color=INK if name == "loss" else colour(i))
    if all(value > 0 for line in ax.get_lines() for value in line.get_ydata()):
        ax.set_yscale("log")
    ax.set(xlabel="epoch", ylabel="loss")
    ax.legend(frameon=False)
    return ax


def plot_sizes(est: Any, *, epochs: bool = False, ax: Axes = None) -> Axes:
    """How many rows each cluster has, or with ``epochs=True`` had by epoch."""
    check_is_fitted(est)
    k, ax = len(est.cluster_centers_), axes(ax)
    if not epochs:
        ax.bar(range(k), np.bincount(est.labels_, minlength=k), color=[*map(colour, range(k))])
        ax.set(xlabel="cluster", ylabel="samples", xticks=range(k))
        return ax
    history = enumerate(history_of(est), start=1)
    known = [(i, r["sizes"]) for i, r in history if "sizes" in r and r.get("phase") != "pretrain"]
    if not known:
        raise ValueError(f"{type(est).__name__} has kept no sizes: use epochs=False.")
    at, sizes = zip(*known, strict=True)
    for j, line in enumerate(np.array(sizes).T):
        ax.plot(at, line, color=colour(j), label=str(j))
    ax.set(xlabel="epoch", ylabel="samples")
    return ax


def plot_kernel(kernel: Any, X: Any = None, labels: Any = None, *, ax: Axes = None) -> Axes:
    """A kernel matrix with its rows sorted by cluster: blocks on the diagonal are clusters.

    Parameters
    ----------
    kernel : fitted KernelNet, or array (n, n)
    X : the rows, for an estimator
    labels : array (n,), optional
        The cluster of every row; for an estimator what it predicts.
    """
    if hasattr(kernel, "kernel"):
        check_is_fitted(kernel)
        labels = kernel.predict(X) if labels is None else labels
        kernel = kernel.kernel(X)
    matrix = np.asarray(kernel, dtype=float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"kernel has shape {matrix.shape}: pass a square one, or a KernelNet.")
    found = np.zeros(len(matrix), int) if labels is None else np.asarray(labels)
    if found.shape != (len(matrix),):
        raise ValueError(f"labels have shape {found.shape}, but the kernel has {len(matrix)} rows.")
    order, ax = np.argsort(found, kind="stable"), axes(ax)
    ax.imshow(matrix[np.ix_(order, order)], cmap="cividis", interpolation="nearest")
    ends = np.flatnonzero(np.diff(found[order])) + 0.5
    ax.hlines(ends, -0.5, len(matrix) - 0.5, color=EDGE, linewidth=0.8)
    ax.vlines(ends, -0.5, len(matrix) - 0.5, color=EDGE, linewidth=0.8)
    ax.set(xticks=[], yticks=[])
    return ax


def plot_profile(told: Any, cluster: int, X: Any = None, *, ax: Axes = None) -> Axes:
    """In which features a cluster differs most, in standard deviations of all rows.

    ``told`` is an `Explanation`, or a fitted estimator together with X.
    """
    found = told if isinstance(told, Explanation) else explain(told, X, rules=False)
    if not 0 <= cluster < len(found.clusters):
        raise ValueError(f"cluster={cluster}: they are numbered 0 to {len(found.clusters) - 1}.")
    shifts = found.clusters[cluster].profile[:FEATURES][::-1]
    lengths, ax = [shift.standardised for shift in shifts], axes(ax)
    ax.barh(range(len(shifts)), lengths, color=colour(cluster))
    ax.set_yticks(range(len(shifts)), [shift.name for shift in shifts])
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set(xlabel="difference from all samples, in standard deviations", title=f"Cluster {cluster}")
    return ax


def history_of(est: Any) -> list[dict[str, Any]]:
    """What a fit has recorded."""
    check_is_fitted(est)
    history = list(getattr(est, "history_", ()))
    if not history:
        raise ValueError(f"{type(est).__name__} keeps no history_: estimators of pellucid do.")
    return history


def axes(ax: Axes) -> Axes:
    """The given one, or that of a new figure."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'pellucid[plot]'") from error
    return pyplot.subplots(layout="constrained")[1]
