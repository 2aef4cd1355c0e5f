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
