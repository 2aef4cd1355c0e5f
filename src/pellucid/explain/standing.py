"""How rows stand to the centres, and the best of them by any such number, in one pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pellucid.explain.explanation import Sample
from pellucid.explain.view import VALUES, View
from pellucid.nn import soft_memberships
from pellucid.typing import Array


@dataclass(frozen=True)
class Standing:
    """Columns (b,), named as in `Sample`; `position` is 0 on the border and 1 at the own centre."""

    row: Array
    cluster: Array
    distance: Array
    margin: Array
    second: Array
    entropy: Array
    position: Array

    def table(self, chosen: Array) -> Array:
        """What `samples` reads, (b, 6); row numbers fit in a float64."""
        columns = (self.row, self.cluster, self.distance, self.margin, self.second, self.entropy)
        return np.stack([column[chosen].astype(np.float64) for column in columns], axis=1)


def standing(view: View, rows: Array, z: Tensor) -> Standing:
    """Rows z (b, d), a part at a time where there are many centres."""
    parts = [stand(view, part) for part in z.split(max(1, VALUES // view.k))]
    columns = [torch.cat(column).numpy() for column in zip(*parts, strict=True)]
    return Standing(rows, *columns)


def stand(view: View, z: Tensor) -> tuple[Tensor, ...]:
    """Cluster, distance, margin, second, entropy and position of z (b, d)."""
    gaps = view.gaps(z)  # (b, k)
    own, cluster = gaps.min(1)
    if view.k == 1:  # there is no border
        nothing = torch.zeros_like(own)
        return cluster, own.sqrt(), nothing, cluster - 1, nothing, nothing + 1
    entropy = torch.special.entr(soft_memberships(gaps, view.tau)).sum(1)
    gap, second = gaps.scatter(1, cluster[:, None], torch.inf).min(1)
    between = (view.centres[cluster] - view.centres[second]).square().sum(1)
    # The projection on the line through both centres: what is orthogonal to it cancels.
    position = torch.where(between > 0, (gap - own) / between, 0.0)
    return cluster, own.sqrt(), gap.sqrt() - own.sqrt(), second, entropy, position


class Best:
    """Of every group the m rows with the smallest keys, no two of them with the same content."""

    def __init__(self, m: int, groups: int) -> None:
        self.keys = np.full((groups, m), np.inf)
        self.tables = np.zeros((groups, m, 6))
        self.contents = np.zeros((groups, m), np.int64)

    def take(self, groups: Array, keys: Array, found: Standing, content: Contents) -> None:
        """Let the rows `found` in, where they are better than the worst that is kept."""
        fresh = np.flatnonzero(keys < self.keys[groups, -1])
        if not len(fresh):
            return
        touched = np.unique(groups[fresh])
        held, place = np.nonzero(np.isfinite(self.keys[touched]))
        old = touched[held], place
        group = np.concatenate([old[0], groups[fresh]])
        key = np.concatenate([self.keys[old], keys[fresh]])
        table = np.concatenate([self.tables[old], found.table(fresh)])
        contents = np.concatenate([self.contents[old], content(fresh)])

        order = np.lexsort((table[:, 0], key, group))
        order = order[first_of_each(group[order], contents[order])]
        rank = ranks(group[order])
        order, rank = order[rank < self.keys.shape[1]], rank[rank < self.keys.shape[1]]
        self.keys[touched] = np.inf
        at = group[order], rank
        self.keys[at], self.tables[at], self.contents[at] = (
            key[order],
            table[order],
            contents[order],
        )

    def samples(self, group: int) -> list[Sample]:
        """What is kept of a group, best first."""
        return [
            Sample(int(row), int(cluster), distance, margin, int(second), entropy)
            for row, cluster, distance, margin, second, entropy in self.tables[group][
                np.isfinite(self.keys[group])
            ].tolist()
        ]


Contents = Callable[[Array], Array]


def contents_of(raw: Array) -> Contents:
    """A number for what is in each of the rows that are asked for: duplicates get the same."""

    def content(chosen: Array) -> Array:
        return np.array([hash(raw[i].tobytes()) for i in chosen.tolist()], np.int64)

    return content


def first_of_each(group: Array, content: Array) -> Array:
    """Places, in order, at which a pair of group and content appears for the first time."""
    order = np.lexsort((np.arange(len(group)), content, group))
    g, c = group[order], content[order]
    new = np.ones(len(order), bool)
    new[1:] = (g[1:] != g[:-1]) | (c[1:] != c[:-1])
    return np.sort(order[new])


def ranks(group: Array) -> Array:
    """0, 1, 2, ... within each run of a sorted array."""
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    return np.arange(len(group)) - np.repeat(starts, np.diff(np.r_[starts, len(group)]))
