"""What a recipe is run on. Labels are kept apart from what a method sees."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid import datasets

Array = NDArray[Any]


class Given(NamedTuple):
    """All that a method sees: samples, and perhaps more of them that arrive later."""

    X: Array
    stream: Array | None = None


@dataclass(frozen=True)
class Data:
    """A labelled set by the name of its loader.

    Parameters
    ----------
    name : str
        ``pellucid.datasets.load_<name>``.
    rows : int, optional
        Keep this many, drawn once and for all (seed 0) without a look at the labels.
    """

    name: str
    rows: int | None = None

    def draw(self, folder: Path | None, seed: int) -> tuple[Given, Array]:
        """What the method is given, and the labels to judge it by."""
        whole = load(self.name, folder)
        kept = slice(None)
        if self.rows is not None:
            kept = np.sort(np.random.default_rng(0).permutation(len(whole.y))[: self.rows])
        return Given(whole.X[kept]), whole.y[kept]


@dataclass(frozen=True)
class Stream:
    """A few samples of the test part first, the whole training part afterwards.

    The seed decides which are the first and in what order the others arrive.
    """

    name: str
    first: int
    train: int  # rows of the training part, which is in front

    def draw(self, folder: Path | None, seed: int) -> tuple[Given, Array]:
        """The first samples and the stream; the labels of the stream."""
        whole, rng = load(self.name, folder), np.random.default_rng(seed)
        first = self.train + rng.permutation(len(whole.y) - self.train)[: self.first]
        order = rng.permutation(self.train)
        return Given(whole.X[first], whole.X[order]), whole.y[order]


def load(name: str, folder: Path | None) -> datasets.LabelledData:
    """The labelled set `name`, from `folder` or from where its library fetches it."""
    return getattr(datasets, f"load_{name}")(data_dir=folder)


@dataclass(frozen=True)
class File:
    """A labelled ``NAME.npz`` of the data folder that has no loader.

    Parameters
    ----------
    name : str
    counts : int, optional
        X are counts of genes: per 10,000 of a cell, log(1 + x), and of that the so many genes of
        the largest variance, standardised.
    """

    name: str
    counts: int | None = None

    def draw(self, folder: Path | None, seed: int) -> tuple[Given, Array]:
        """What the method is given, and the labels to judge it by."""
        if folder is None:
            raise ValueError(f"{self.name}.npz is only found with --data-dir.")
        whole = datasets.load_npz(folder / f"{self.name}.npz")
        X = whole.X if self.counts is None else most_variable(whole.X, self.counts)
        return Given(X), np.asarray(whole.y)


def most_variable(counts: Array, m: int) -> Array:
    """log(1 + counts per 10,000), its m columns of the largest variance, standardised."""
    totals = counts.sum(1, keepdims=True, dtype=np.float64)
    x = np.log1p(counts / totals * 1e4)
    x = x[:, np.sort(np.argsort(-x.var(0), kind="stable")[:m])]
    return ((x - x.mean(0)) / x.std(0)).astype(np.float32)


@dataclass(frozen=True)
class Geometric:
    """A set whose classes are thinned to sizes that fall geometrically to 1 : `ratio`.

    Which class becomes small, and which rows stay, is drawn once and for all (seed 0).
    """

    name: str
    ratio: float

    def draw(self, folder: Path | None, seed: int) -> tuple[Given, Array]:
        """What the method is given, and the labels to judge it by."""
        whole, rng = load(self.name, folder), np.random.default_rng(0)
        y = np.asarray(whole.y)
        order = rng.permutation(int(y.max()) + 1)
        most = np.bincount(y).min()
        kept = []
        for place, k in enumerate(order):
            size = round(most * self.ratio ** (-place / (len(order) - 1)))
            kept.append(rng.permutation(np.flatnonzero(y == k))[:size])
        rows = np.sort(np.concatenate(kept))
        return Given(whole.X[rows]), y[rows]
