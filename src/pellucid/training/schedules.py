"""Schedules: pure functions epoch -> Phase, so that there is nothing of them to save."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Phase:
    """What counts now: weights of the loss terms, parts that stand still, and numbers like tau."""

    weights: Mapping[str, float]
    frozen: frozenset[str] = frozenset()
    knobs: Mapping[str, float] = field(default_factory=dict)
    name: str = ""


Schedule: TypeAlias = Callable[[int], Phase]


def alternate(*phases: Phase) -> Schedule:
    """Epoch after epoch, one phase after another."""
    return lambda epoch: phases[epoch % len(phases)]


def warm_up(epochs: int, first: Phase, then: Schedule) -> Schedule:
    """`first` for some epochs; `then` counts from zero after them."""
    return lambda epoch: first if epoch < epochs else then(epoch - epochs)
