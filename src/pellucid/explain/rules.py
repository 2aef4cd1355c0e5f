"""Rules: a tree in the names of features, with what it is worth measured on all rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from pellucid.data import Batches, open_data
from pellucid.explain.explanation import Rules
from pellucid.explain.profile import Moments
from pellucid.explain.trees import Node, expand, imm
from pellucid.explain.view import Piece, View, draw_rows, names_of
from pellucid.typing import Array

ROWS = 10_000  # that a tree is grown on; it is measured on all of them
FEATURES = 64  # that it may ask about where nobody names any
CLUSTERS = 100  # with more of them a tree explains nothing


@dataclass(frozen=True)
class Questions:
    """What a tree may ask.

    Parameters
    ----------
    features : sequence of str or int, optional
        Names or numbers of features. None takes the 64 whose variance the clusters explain best.
    table : frame or array of shape (n, m), optional
        Ask about these columns instead of X: where X is an embedding, say, what a person knows of
        the same rows.
    max_leaves : int, optional
        At least the number of clusters, which is the default: more leaves, closer to the clusters.
    """

    features: Sequence[str | int] | None = None
    table: Any = None
    max_leaves: int | None = None


@dataclass(frozen=True)
class Asked:
    """The columns that a tree reads of a piece of the data."""

    view: View
    table: Batches | None
    names: list[str]
    columns: Array

    @classmethod
    def of(cls, view: View, questions: Questions) -> Asked:
        table, names = None, view.names
        if questions.table is not None:
            table = open_data(questions.table)
            names = names_of(table, None, None)
            if table.n != view.n:
                raise ValueError(f"The table has {table.n} rows, but X has {view.n}.")
        given = questions.features
        if given is not None:
            columns = np.array([number_of(feature, names) for feature in given], np.int64)
            if not len(columns):
                raise ValueError("features is empty: name one at least, or leave it out.")
        else:
            columns = np.arange(len(names))
        asked = cls(view, table, names, columns)
        return asked if given is not None or len(columns) <= FEATURES else asked.narrowed()

    def narrowed(self) -> Asked:
        """The features that tell most on a sample."""
        moments = Moments(self.view.k, len(self.columns))
        for piece in self.view.pieces(draw_rows(self.view.n, ROWS)):
            own, cluster = self.view.gaps(piece.z).min(1)
            moments.take(cluster.numpy(), own.sqrt().numpy(), self.read(piece))
        return Asked(self.view, self.table, self.names, moments.telling(FEATURES))

    def read(self, piece: Piece) -> Array:
        """(b, columns)."""
        if self.table is None:
            return self.view.values(piece.raw)[:, self.columns]
        raw = self.table.read(piece.rows)
        return raw.reshape(len(raw), -1)[:, self.columns].astype(np.float64)


def number_of(feature: str | int, names: list[str]) -> int:
    """Where a feature is, by its name or number."""
    if isinstance(feature, str):
        if feature not in names:
            known = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
            raise ValueError(f"There is no feature {feature!r}; there are {known}.")
        return names.index(feature)
    if not 0 <= feature < len(names):
        raise ValueError(f"There is no feature {feature}: they are numbered 0 to {len(names) - 1}.")
    return int(feature)


@dataclass
class Tree:
    """A tree of some clustering, and a count of where it agrees with it."""

    asked: Asked
    root: Node
    counts: Array = field(init=False)  # (k, k): rows by what the tree says and what is so
    costs: Array = field(init=False)  # of the tree's labels and of the clustering's own

    def __post_init__(self) -> None:
        k = self.asked.view.k
        self.counts, self.costs = np.zeros((k, k), np.int64), np.zeros(2)

    @classmethod
    def of(cls, view: View, questions: Questions) -> Tree | None:
        """Grown on a sample; None for one cluster, and for more than a tree could explain."""
        leaves = view.k if questions.max_leaves is None else questions.max_leaves
        if leaves < view.k:
            raise ValueError(f"max_leaves={leaves}: {view.k} clusters need a leaf each, at least.")
        asked = Asked.of(view, questions)
        if not 1 < view.k <= CLUSTERS:
            return None
        pieces = view.pieces(draw_rows(view.n, ROWS))
        parts = [(asked.read(piece), view.gaps(piece.z).numpy()) for piece in pieces]
        x, gaps = (np.concatenate(part) for part in zip(*parts, strict=True))
        root = imm(x, gaps.argmin(1), view.k)
        expand(root, x, gaps, leaves)
        return cls(asked, root)

    def take(self, piece: Piece, clusters: Array) -> None:
        """Compare on some rows."""
        said = self.root.predict(self.asked.read(piece))
        np.add.at(self.counts, (said, clusters), 1)
        for i, labels in enumerate((said, clusters)):
            centres = self.asked.view.centres[torch.from_numpy(labels)]
            self.costs[i] += float((piece.z - centres).square().sum())

    def rules(self) -> Rules:
        """The tree as text, with its worth."""
        asked, (said, own) = self.asked, self.costs
        return Rules(
            text="\n".join(lines(self.root, asked)),
            leaves=sum(1 for _ in self.root.leaves()),
            fidelity=float(np.trace(self.counts) / self.counts.sum()),
            cost_ratio=1.0 if said == own else float(said / max(own, 1e-300)),
            features=[asked.names[i] for i in asked.columns],
        )

    def worth(self, j: int) -> tuple[float, float]:
        """Precision and recall of cluster j's rule."""
        right, said, there = self.counts[j, j], self.counts[j].sum(), self.counts[:, j].sum()
        return float(right / max(said, 1)), float(right / max(there, 1))

    def sentences(self) -> dict[int, str]:
        """Of every cluster with leaves: when a row is in it."""
        found: dict[int, list[str]] = defaultdict(list)
        for leaf, limits in paths(self.root, {}):
            told = [between(self.asked, f, *ends) for f, ends in limits.items()]
            found[leaf.cluster].append(" and ".join(told) or "always")
        return {
            j: told[0] if len(told) == 1 else " or ".join(f"({part})" for part in told)
            for j, told in found.items()
        }


Limits = dict[int, tuple[float, float]]


def paths(node: Node, limits: Limits) -> Iterator[tuple[Node, Limits]]:
    """Every leaf and the interval in which it wants each feature, low < x <= high."""
    if node.low is None or node.high is None:
        yield node, limits
        return
    low, high = limits.get(node.feature, (-np.inf, np.inf))
    yield from paths(node.low, limits | {node.feature: (low, min(high, node.threshold))})
    yield from paths(node.high, limits | {node.feature: (max(low, node.threshold), high)})


def between(asked: Asked, feature: int, low: float, high: float) -> str:
    """An interval in words."""
    name = asked.names[asked.columns[feature]]
    if high == np.inf:
        return f"{name} > {low:.15g}"
    return f"{name} <= {high:.15g}" if low == -np.inf else f"{low:.15g} < {name} <= {high:.15g}"


def lines(node: Node, asked: Asked, indent: str = "") -> Iterator[str]:
    """The tree, a line for each answer."""
    if node.low is None or node.high is None:
        yield f"{indent}cluster {node.cluster}"
        return
    name = asked.names[asked.columns[node.feature]]
    for sign, child in (("<=", node.low), (">", node.high)):
        answer = f"{indent}{name} {sign} {node.threshold:.15g}"
        if child.low is None:
            yield f"{answer}: cluster {child.cluster}"
        else:
            yield answer
            yield from lines(child, asked, indent + "  ")
