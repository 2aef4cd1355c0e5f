"""Scaling that is fitted in one streaming pass, remembered, and undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["Extent", "Scaler", "ScalerKind"]

ScalerKind = Literal["unit", "standard", "norm"]
KINDS = (None, *get_args(ScalerKind))

Numbers = TypeVar("Numbers", NDArray[Any], torch.Tensor)


@dataclass
class Extent:
    """Running minimum, maximum, mean and variance: per feature, or one of each (``pooled``)."""

    pooled: bool
    moments: bool = True  # mean and variance cost a float64 copy of the chunk
    count: int = 0
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))
    low: NDArray[Any] = field(default_factory=lambda: np.array([np.inf]))
    high: NDArray[Any] = field(default_factory=lambda: np.array([-np.inf]))
    mean: NDArray[Any] = field(default_factory=lambda: np.zeros(1))
    squares: NDArray[Any] = field(default_factory=lambda: np.zeros(1))

    def update(self, x: NDArray[Any]) -> None:
        """Take in a chunk of samples, ``(b, *shape)``."""
        self.dtype = x.dtype
        x = x.reshape(-1, 1) if self.pooled else x.reshape(len(x), -1)
        with np.errstate(invalid="ignore"):  # NaN is reported by whoever reads `low`
            self.low = np.minimum(self.low, x.min(axis=0))
            self.high = np.maximum(self.high, x.max(axis=0))
        if self.moments:
            self._merge(x)

    def _merge(self, x: NDArray[Any]) -> None:
        # Chan, Golub, LeVeque 1979: exact merging of (count, mean, sum of squared deviations).
        with np.errstate(invalid="ignore", over="ignore"):
            mean = x.mean(axis=0, dtype=np.float64)
            squares = np.square(x - mean).sum(axis=0)
            total = self.count + len(x)
            delta = mean - self.mean
            self.squares = self.squares + squares + delta**2 * (self.count * len(x) / total)
            self.mean = self.mean + delta * (len(x) / total)
        self.count = total

    @property
    def fits(self) -> bool:
        """Whether all that was seen is a finite float32; NaN and infinity stay in the ends."""
        ends = np.abs(np.concatenate([self.low, self.high]))
        return bool((ends <= np.finfo(np.float32).max).all())


class Scaler:
    """What ``scale=`` means, with its fitted numbers.

    Parameters
    ----------
    kind : {None, "unit", "standard", "norm"}
        "unit" maps to [0, 1] by minimum and maximum, "standard" to zero mean and unit variance:
        one pair for all pixels of an image, one per feature for flat rows (sparse rows are
        densified batch by batch, so they are centred like any other). A constant feature maps
        to 0. "norm" divides each sample by its L2 norm (a zero sample stays zero).
    shift, scale : array of shape (d,) or (1,)
        Scaled = (x - shift) / scale.
    """

    def __init__(
        self,
        kind: ScalerKind | None = None,
        shift: NDArray[Any] | None = None,
        scale: NDArray[Any] | None = None,
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"scale={kind!r} is unknown: choose one of {KINDS} or a fitted Scaler")
        self.kind = kind
        self.shift = np.zeros(1) if shift is None else np.asarray(shift, dtype=np.float64)
        self.scale = np.ones(1) if scale is None else np.asarray(scale, dtype=np.float64)

    def __repr__(self) -> str:
        return f"Scaler({self.kind!r})"

    @classmethod
    def fit(cls, kind: ScalerKind | None, seen: Extent) -> Scaler:
        """The scaler of the data that ``seen`` has passed over."""
        if kind == "unit":
            span = seen.high.astype(np.float64) - seen.low
            return cls(kind, seen.low, np.where(span > 0, span, 1.0))
        if kind == "standard":
            deviation = np.sqrt(seen.squares / max(seen.count, 1))
            # A constant feature's deviation is round-off of its mean, not exactly zero.
            constant = (seen.high == seen.low) | (deviation == 0)
            mean = np.where(constant, seen.low, seen.mean)
            return cls(kind, mean, np.where(constant, 1.0, deviation))
        return cls(kind)

    @classmethod
    def from_state(cls, kind: ScalerKind | None, state: Mapping[str, NDArray[Any]]) -> Scaler:
        """Inverse of :meth:`state`."""
        return cls(kind, state.get("shift"), state.get("scale"))

    def state(self) -> dict[str, NDArray[Any]]:
        """The fitted numbers; empty for None and "norm", which have none."""
        if self.kind in ("unit", "standard"):
            return {"shift": self.shift.copy(), "scale": self.scale.copy()}
        return {}

    @property
    def n_features(self) -> int | None:
        """How many features it was fitted on; None when any number will do."""
        return len(self.shift) if len(self.shift) > 1 else None

    def apply(self, x: Numbers) -> Numbers:
        """Scale a batch ``(b, *shape)``; the argument is not modified."""
        if self.kind == "norm":
            return _unit_norm(x)
        if self.kind is None:
            return x
        return (x - _like(self.shift, x)) / _like(self.scale, x)

    def invert(self, x: Numbers) -> Numbers:
        """Undo :meth:`apply`; "norm" cannot be undone and returns ``x`` as it is."""
        if self.kind in (None, "norm"):
            return x
        return x * _like(self.scale, x) + _like(self.shift, x)


def _like(values: NDArray[Any], x: Numbers) -> Numbers:
    if isinstance(x, torch.Tensor):
        return torch.as_tensor(values, dtype=x.dtype, device=x.device)
    return values.astype(x.dtype)


def _unit_norm(x: Numbers) -> Numbers:
    rows = x.reshape(len(x), -1)
    if isinstance(rows, torch.Tensor):
        norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        return (rows / norm.masked_fill(norm == 0, 1)).reshape(x.shape)
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(norm > 0, norm, 1).astype(x.dtype)).reshape(x.shape)
