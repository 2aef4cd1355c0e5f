"""Rules that pick a restart without labels; each takes the finished restarts, gives an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from sklearn.metrics import adjusted_rand_score

from pellucid.typing import Array


class Judged(Protocol):
    """What a rule may look at."""

    scores: dict[str, float]
    labels: Array


def smallest_loss(restarts: Sequence[Judged]) -> int:
    """The restart with the smallest objective of its method (TELL, Appendix B)."""
    return int(np.argmin([r.scores["loss"] for r in restarts]))


def consensus(restarts: Sequence[Judged]) -> int:
    """The restart that agrees most with the others, by mean adjusted Rand index.

    Wrong optima differ from one another; right ones look alike. With fewer than three restarts
    nobody is in the majority and the loss decides.
    """
    if len(restarts) < 3:
        return smallest_loss(restarts)
    return int(np.argmax(agreement([r.labels for r in restarts])))


def smallest_scatter(restarts: Sequence[Judged]) -> int:
    """The restart with the smallest share of the embedding's scatter inside its clusters.

    The loss alone prefers an encoder that pulls everything together, right clusters or wrong;
    beside the scatter of the whole, nothing is gained by that.
    """
    if any("scatter" not in r.scores for r in restarts):
        return smallest_loss(restarts)
    return int(np.argmin([r.scores["scatter"] for r in restarts]))


def smallest_cut(restarts: Sequence[Judged]) -> int:
    """The restart whose graph start cut the fewest links; without such a start the loss decides.

    The cut is read before any clustering has shaped the embedding, so that an encoder which pulls
    wrong clusters tight does not look good.
    """
    if any("cut" not in r.scores for r in restarts):
        return smallest_loss(restarts)
    return int(np.argmin([r.scores["cut"] for r in restarts]))


def agreement(labels: Sequence[Array]) -> Array:
    """Mean adjusted Rand index of each labelling with all the others."""
    r = len(labels)
    table = np.zeros((r, r))
    for i in range(r):
        for j in range(i):
            table[i, j] = table[j, i] = adjusted_rand_score(labels[i], labels[j])
    return table.sum(1) / max(r - 1, 1)


RULES: dict[str, Callable[[Sequence[Judged]], int]] = {
    "loss": smallest_loss,
    "consensus": consensus,
    "cut": smallest_cut,
    "scatter": smallest_scatter,
}
