"""Batches: float32 tensors, one batch at a time, in an order that is a pure function."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pellucid.data.access import (
    ChosenSource,
    Layout,
    Rows,
    Source,
    as_floating,
    open_source,
)
from pellucid.data.scaling import Extent, Scaler, ScalerKind

__all__ = ["Batch", "Batches", "open_data", "shuffled"]

FLOAT32_MAX = float(np.finfo(np.float32).max)
CHUNK = 2**20  # values read at a time in the first pass: 4 MB of float32
DARK = 0.05  # a smaller mean of values in [0, 1] is that of data which is nearly all zeros
SHARE = 4  # all rows stay on an accelerator where they take at most 1 / SHARE of its free memory


class Batch(NamedTuple):
    """Samples ``(b, *shape)`` in float32 and their rows ``(b,)`` in int64."""

    x: torch.Tensor
    index: torch.Tensor  # type: ignore[assignment]  # hides tuple.index, which nobody needs


def shuffled(n: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The order of epoch ``epoch``: a permutation of ``n`` that depends on nothing else."""
    entropy = np.random.SeedSequence(seed, spawn_key=(epoch,))
    return np.random.Generator(np.random.Philox(entropy)).permutation(n)


def open_data(
    X: Any,
    *,
    image_shape: Sequence[int] | None = None,
    scale: ScalerKind | Scaler | None = None,
    batch_size: int = 256,
    seed: int = 0,
) -> Batches:
    """Open any input as :class:`Batches`, after one pass that validates it and fits the scaler.

    Parameters
    ----------
    X : array, np.memmap, torch tensor, DataFrame, scipy sparse matrix or torch map-style Dataset
        Rows ``(n, d)`` or images ``(n, h, w)``, ``(n, h, w, c)``, ``(n, c, h, w)``. uint8 is
        divided by 255; everything leaves as float32. X itself is neither copied nor changed.
    image_shape : (h, w), (h, w, c) or (c, h, w)
        How flat rows are images.
    scale : {None, "unit", "standard", "norm"} or Scaler
        See :class:`Scaler`; a fitted one is used as it is.
    """
    source = open_source(X)
    layout = Layout.of(source, image_shape)
    return Batches(source, layout, scale, batch_size=batch_size, seed=seed)


class Batches:
    """Data that is ready to be iterated; made by :func:`open_data`.

    Attributes
    ----------
    n, shape, n_features : rows, shape of a sample ``(d,)`` or ``(c, h, w)``, its size
    feature_names : list of str, or None
    scaler : the fitted :class:`Scaler`
    lo, hi : smallest and largest value after scaling
    """

    def __init__(
        self,
        source: Source,
        layout: Layout,
        scale: ScalerKind | Scaler | None = None,
        *,
        batch_size: int = 256,
        seed: int = 0,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: at least 1 is needed")
        self._source, self._layout = source, layout
        self.n, self.shape, self.n_features = source.n, layout.shape, math.prod(layout.shape)
        self.feature_names = source.feature_names
        self.batch_size, self.seed = batch_size, seed
        self.scaler = scale if isinstance(scale, Scaler) else Scaler(scale)
        self._match(self.scaler)
        seen = self._pass(moments=scale == "standard")
        if not isinstance(scale, Scaler):
            self.scaler = Scaler.fit(scale, seen)
        self.lo, self.hi = self._bounds(seen)
        self._resident: torch.Tensor | None = None

    def __len__(self) -> int:
        return -(-self.n // self.batch_size)

    @property
    def fills_unit(self) -> bool:
        """Whether values lie in [0, 1], and not nearly all at 0, where a sigmoid has no slope."""
        if self.lo < 0 or self.hi > 1:
            return False
        return float(self.sample(1024, seed=0).mean()) >= DARK

    def order(
        self, i: int, seed: int, *, rank: int = 0, world: int = 1, drop_last: bool = False
    ) -> Iterator[NDArray[np.int64]]:
        """The rows of each batch of epoch ``i``, as ``rank`` of ``world`` sees them.

        Each global batch of ``batch_size`` is split into equal parts, because gradients are
        averaged over ranks; where it does not divide, fewer than ``world`` rows sit this epoch
        out. ``drop_last`` drops an incomplete last batch unless it is the only one.
        """
        order = shuffled(self.n, seed, i)
        stop = self.n
        if drop_last and self.n > self.batch_size:
            stop -= self.n % self.batch_size
        for start in range(0, stop, self.batch_size):
            rows = order[start : start + self.batch_size]
            share = len(rows) // world
            if share:
                yield rows[rank * share : (rank + 1) * share]

    def epoch(self, i: int, seed: int | None = None, **options: Any) -> Iterator[Batch]:
        """The batches of epoch ``i`` in shuffled order; `options` are those of :meth:`order`."""
        for rows in self.order(i, self.seed if seed is None else seed, **options):
            yield Batch(self._tensor(rows), torch.from_numpy(rows))

    def settle(self, device: torch.device) -> None:
        """Put all rows on a CUDA `device` where there is plenty of room, for `fetch`.

        A batch read and scaled on the host takes longer than a small network's step there.
        """
        if device.type != "cuda" or self._resident is not None:
            return
        free, _ = torch.cuda.mem_get_info(device)
        if 4 * self.n * self.n_features * SHARE <= free:
            room = torch.empty((self.n, *self.shape), device=device)
            for batch in self.sequential():
                room[batch.index] = batch.x.to(device)
            self._resident = room

    def fetch(self, index: torch.Tensor) -> torch.Tensor:
        """The rows ``index`` (r, b) of r restarts side by side, on the device of ``index``."""
        if self._resident is not None:
            return self._resident[index]
        parts = [self.take(rows) for rows in index.cpu()]
        return (parts[0][None] if len(parts) == 1 else torch.stack(parts)).to(index.device)

    def sequential(self, size: int | None = None) -> Iterator[Batch]:
        """All rows in order; by default 4,096 at a time, or fewer where samples are large."""
        size = min(4096, max(1, 16 * CHUNK // self.n_features)) if size is None else size
        for start in range(0, self.n, size):
            stop = min(start + size, self.n)
            ready = self._resident
            x = self._tensor(slice(start, stop)) if ready is None else ready[start:stop]
            yield Batch(x, torch.arange(start, stop))

    def take(self, index: Any) -> torch.Tensor:
        """The rows at ``index``, scaled, float32."""
        index = index.cpu() if isinstance(index, torch.Tensor) else index
        return self._tensor(np.atleast_1d(np.asarray(index, dtype=np.int64)))

    def sample(self, m: int, seed: int) -> torch.Tensor:
        """``m`` different rows (all of them when there are fewer), drawn with ``seed``."""
        rng = np.random.default_rng(seed)
        return self.take(rng.choice(self.n, size=min(m, self.n), replace=False))

    def variance(self) -> float:
        """The sum over features of the variance of (a sample of) the rows."""
        rows = self.sample(4096, seed=0).flatten(1).double()
        return float(rows.var(0, unbiased=False).sum())

    def read(self, rows: Rows) -> NDArray[Any]:
        """Rows as they are: the user's values and dtype, arranged as ``(b, *shape)``."""
        return self._layout.arrange(self._source.read(rows))

    def prepare(self, raw: NDArray[Any]) -> torch.Tensor:
        """What :meth:`read` gave, as a network sees it: scaled, float32."""
        x = self.scaler.apply(as_floating(raw))
        with np.errstate(over="ignore"):
            return torch.from_numpy(x.astype(np.float32, copy=False))

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        """Something that has an entry per stored feature, ``(b, n_features)``, like the rows."""
        return self._layout.arrange(values)

    def choose(self, rows: NDArray[np.int64]) -> Batches:
        """The given rows as data of their own, scaled as these are; nothing is copied."""
        source = ChosenSource(self._source, rows)
        return Batches(source, self._layout, self.scaler, batch_size=self.batch_size)

    def fingerprint(self) -> str:
        """A hash of the shape, the extent and up to 256 rows."""
        rows = self.sample(256, seed=0).numpy()
        head = f"{self.n} {self.shape} {self.lo} {self.hi}".encode()
        return hashlib.sha256(head + rows.tobytes()).hexdigest()[:16]

    def _tensor(self, rows: Rows) -> torch.Tensor:
        return self.prepare(self.read(rows))

    def _floating(self, rows: Rows) -> NDArray[Any]:
        return as_floating(self.read(rows))

    def _match(self, scaler: Scaler) -> None:
        expected = scaler.n_features
        if expected is not None and (len(self.shape) != 1 or expected != self.n_features):
            raise ValueError(
                f"X has {self.n_features} features, but {scaler!r} is expecting "
                f"{expected} features as input."
            )

    def _pass(self, moments: bool) -> Extent:
        """Stream over everything once: finite? how large? for "norm", how large afterwards?"""
        pooled, norm = len(self.shape) > 1, self.scaler.kind == "norm"
        seen, scaled = Extent(pooled, moments), Extent(pooled, moments=False)
        problems = _NonFinite(self.feature_names)
        step = max(1, CHUNK // self.n_features)
        for start in range(0, self.n, step):
            x = self._floating(slice(start, min(start + step, self.n)))
            seen.update(x)
            if not seen.fits:
                problems.look(x, start)
            elif norm:
                scaled.update(self.scaler.apply(x))
        problems.report()
        return scaled if norm else seen

    def _bounds(self, seen: Extent) -> tuple[float, float]:
        # Scaling is monotone, so the scaled extremes are the extremes scaled.
        ends = np.stack([seen.low, seen.high]).astype(seen.dtype)
        if self.scaler.kind != "norm":
            ends = self.scaler.apply(ends)
        ends = ends.astype(np.float32)
        return float(ends.min()), float(ends.max())


class _NonFinite:
    """Counts NaN and infinity and remembers where the first was."""

    def __init__(self, feature_names: list[str] | None) -> None:
        self.names = feature_names
        self.nan = self.infinite = 0
        self.where = ""

    def look(self, x: NDArray[Any], start: int) -> None:
        nan = np.isnan(x)
        bad = nan | ~(np.abs(x) <= FLOAT32_MAX)
        if not self.where and bad.any():
            row, *place = (int(i) for i in np.unravel_index(bad.argmax(), bad.shape))
            column = repr(self.names[place[0]]) if self.names else ", ".join(map(str, place))
            self.where = f"row {start + row}, {'column' if len(place) == 1 else 'pixel'} {column}"
        self.nan += int(nan.sum())
        self.infinite += int(bad.sum() - nan.sum())

    def report(self) -> None:
        if not self.where:
            return
        kind = "NaN" if self.nan else "infinity or a value too large for dtype('float32')"
        raise ValueError(
            f"Input X contains {kind}. {self.nan} NaN and {self.infinite} infinite values, the "
            f"first in {self.where}: impute them (sklearn.impute.SimpleImputer) or drop the rows"
        )
