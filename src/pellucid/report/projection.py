"""An embedding in two dimensions."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from pellucid.typing import Array

TSNE_ROWS = 5_000  # scikit-learn's t-SNE takes about a quarter of a minute for so many
WIDE = 50  # dimensions that go into a neighbour embedding; more are reduced by PCA before
PERPLEXITY = 30


class Flat(NamedTuple):
    """Points and centres in the plane, and how they got there."""

    points: Array  # (m, 2)
    centres: Array  # (k, 2)
    method: str
    note: str


def flatten(z: Array, centres: Array) -> Flat:
    """Rows ``z`` (m, d) and centres (k, d) in two dimensions, always the same for the same rows.

    Up to `TSNE_ROWS` by t-SNE; above by openTSNE or UMAP where one is installed, else by PCA. The
    centres are embedded along with the rows, since t-SNE places no new points.
    """
    both = np.concatenate([z, centres]).astype(np.float32)
    if not np.ptp(both, axis=0).any():  # one point many times over
        both = np.zeros((len(both), 1), np.float32)
    if both.shape[1] <= 2:
        flat = np.pad(both, ((0, 0), (0, 2 - both.shape[1])))
        return Flat(flat[: len(z)], flat[len(z) :], "as it is", "The embedding has two dimensions.")
    method, note, project = choose(len(both))
    flat = project(narrow(both))
    return Flat(flat[: len(z)], flat[len(z) :], method, note)


def choose(rows: int) -> tuple[str, str, Callable[[Array], Array]]:
    """Name, caption and function for so many rows."""
    near = "Neighbours stay neighbours; distances between groups and their sizes mean little."
    if rows < 8:
        return "PCA", "The two directions of largest variance.", pca
    if importlib.util.find_spec("openTSNE"):
        return "t-SNE", near, open_tsne
    if rows <= TSNE_ROWS:
        return "t-SNE", near, tsne
    if importlib.util.find_spec("umap"):
        return "UMAP", near, umap
    few = f"t-SNE is used up to {TSNE_ROWS:,} samples, or with openTSNE or UMAP installed."
    return "PCA", f"The two directions of largest variance. {few}", pca


def narrow(x: Array) -> Array:
    """At most `WIDE` dimensions."""
    most = min(WIDE, len(x) - 1)
    if x.shape[1] <= most:
        return x
    return PCA(most, svd_solver="randomized", random_state=0).fit_transform(x)


def pca(x: Array) -> Array:
    """The two directions of largest variance."""
    return PCA(2, random_state=0).fit_transform(x - x.mean(0))


def tsne(x: Array) -> Array:
    """scikit-learn's t-SNE."""
    perplexity = min(PERPLEXITY, (len(x) - 1) / 3)
    return TSNE(2, perplexity=perplexity, init="pca", random_state=0).fit_transform(x)


def open_tsne(x: Array) -> Array:
    """openTSNE's, which takes tens of thousands."""
    from openTSNE.sklearn import TSNE as OpenTSNE

    perplexity = min(PERPLEXITY, (len(x) - 1) / 3)
    return np.asarray(OpenTSNE(perplexity=perplexity, random_state=0).fit_transform(x))


def umap(x: Array) -> Any:
    """UMAP with its defaults."""
    from umap import UMAP

    return UMAP(n_components=2, random_state=0).fit_transform(x)
