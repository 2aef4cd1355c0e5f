"""Any input becomes a source of rows: `n`, `sample` (the shape of one) and `read(rows)`."""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import narwhals as nw
import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

__all__ = ["Layout", "Rows", "Source", "open_source"]

Rows = slice | NDArray[np.int64]
Shape = tuple[int, ...]

CHANNEL_COUNTS = (1, 3, 4)  # grey, RGB, RGBA
PAGES_KEPT = 8 * 2**20  # bytes of a memmap that may stay resident
FAULT = 2 * 2**20  # touching one byte of a file maps up to a huge page around it
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class Source(Protocol):
    """Rows of the user's data, in the user's dtype; reading never changes them."""

    n: int
    sample: Shape
    dtype: np.dtype[Any]
    channels_first: bool  # which way an ambiguous image shape is read
    feature_names: list[str] | None

    def read(self, rows: Rows) -> NDArray[Any]:
        """The rows as a dense array ``(b, *sample)``, always a fresh one."""
        ...


class ArraySource:
    """A numpy array in memory or on disk."""

    def __init__(
        self,
        X: NDArray[Any],
        feature_names: list[str] | None = None,
        channels_first: bool = False,
    ) -> None:
        self.X = X
        self.n, self.sample, self.dtype = len(X), X.shape[1:], X.dtype
        self.feature_names = feature_names
        self.channels_first = channels_first
        self._file = _mapping(X) if X.nbytes > PAGES_KEPT else None
        self._touched = self._read = 0  # bytes since pages, and the heap, were given back

    def read(self, rows: Rows) -> NDArray[Any]:
        """See `Source`."""
        if self._file is None:
            return np.array(self.X[rows]) if isinstance(rows, slice) else self.X[rows]
        out = self._from_file(rows)
        self._read += out.nbytes
        if self._read >= PAGES_KEPT:
            give_back_heap()
            self._read = 0
        return out

    def _from_file(self, rows: Rows) -> NDArray[Any]:
        if isinstance(rows, slice):
            out = np.array(self.X[rows])
            self._drop(out.nbytes)
            return out
        out = np.empty((len(rows), *self.sample), self.dtype)
        row_cost = FAULT + self.X[0].nbytes
        piece = max(1, PAGES_KEPT // row_cost)
        for start in range(0, len(rows), piece):
            part = rows[start : start + piece]
            out[start : start + piece] = self.X[part]
            self._drop(len(part) * row_cost)
        return out

    def _drop(self, touched: int) -> None:
        assert self._file is not None
        self._touched += touched
        if self._touched >= PAGES_KEPT:
            self._file.madvise(mmap.MADV_DONTNEED)
            self._touched = 0


def give_back_heap() -> None:
    """Return freed memory to the system where the C library would keep it.

    glibc cannot reuse the gaps that torch's aligned batches leave for batches of the same size: a
    pass over a file would hold twice what is alive in it.
    """
    trim = getattr(LIBC, "malloc_trim", None)
    if trim is not None:
        trim(0)


class ChosenSource:
    """Some rows of another source, read when they are asked for."""

    def __init__(self, source: Source, rows: NDArray[np.int64]) -> None:
        self.source, self.rows, self.n = source, rows, len(rows)
        self.sample, self.dtype = source.sample, source.dtype
        self.channels_first, self.feature_names = source.channels_first, source.feature_names

    def read(self, rows: Rows) -> NDArray[Any]:
        """See `Source`."""
        return self.source.read(self.rows[rows])


class SparseSource:
    """A CSR matrix; only the rows that are read become dense."""

    channels_first = False
    feature_names: list[str] | None = None

    def __init__(self, X: sparse.csr_matrix) -> None:
        self.X = X
        self.n, self.sample, self.dtype = X.shape[0], X.shape[1:], X.dtype

    def read(self, rows: Rows) -> NDArray[Any]:
        """See `Source`."""
        dense: NDArray[Any] = self.X[rows].toarray()
        return dense


class DatasetSource:
    """A torch map-style Dataset whose items are ``x`` or ``(x, ...)``."""

    feature_names: list[str] | None = None

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset
        self.n = len(dataset)  # type: ignore[arg-type]
        if self.n == 0:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        first = self._item(0)
        self.sample, self.dtype = first.shape, first.dtype
        self.channels_first = isinstance(_first(dataset[0]), torch.Tensor)

    def read(self, rows: Rows) -> NDArray[Any]:
        """See `Source`."""
        index = range(*rows.indices(self.n)) if isinstance(rows, slice) else rows
        items = [self._item(int(i)) for i in index]
        odd = next((i for i, x in zip(index, items, strict=True) if x.shape != self.sample), None)
        if odd is not None:
            raise ValueError(
                f"every item of the Dataset needs one shape: item 0 has {self.sample}, "
                f"item {odd} has {self._item(int(odd)).shape}; resize or pad in its transform"
            )
        return np.stack(items)

    def _item(self, i: int) -> NDArray[Any]:
        x = _first(self.dataset[i])
        return _tensor_to_numpy(x) if isinstance(x, torch.Tensor) else np.asarray(x)


def open_source(X: Any) -> Source:
    """Choose the source for whatever the user passed, with scikit-learn's messages."""
    if isinstance(X, (DataLoader, IterableDataset)):
        raise TypeError(
            f"{type(X).__name__} cannot be read by index: pass a map-style Dataset "
            "(for a DataLoader its .dataset), an array, or an np.memmap"
        )
    if isinstance(X, TensorDataset):
        X = X.tensors[0]
    if isinstance(X, Dataset):
        return _checked(DatasetSource(X))
    if isinstance(X, torch.Tensor):
        return _checked(ArraySource(_validated(_tensor_to_numpy(X)), channels_first=True))
    names = _feature_names(X)
    X = _validated(X)
    return _checked(SparseSource(X) if sparse.issparse(X) else ArraySource(X, names))


def _validated(X: Any) -> Any:
    # Finiteness is left to the streaming pass, which also knows where the first NaN is.
    try:
        found = check_array(X, accept_sparse="csr", allow_nd=True, ensure_all_finite=False)
    except ValueError as error:
        if "string" in str(error):
            raise ValueError(_about_text(X)) from error
        raise
    if found.dtype.kind == "O" and _text_columns(X):  # how polars' strings come through
        raise ValueError(_about_text(X))
    return found


def _about_text(X: Any) -> str:
    where = f"in the columns {names}" if (names := _text_columns(X)) else "among its values"
    return (
        f"X of shape {np.shape(X)} has text {where}: encode it as numbers "
        "(sklearn.preprocessing.OneHotEncoder) or leave it out"
    )


def _text_columns(X: Any) -> list[str]:
    frame = nw.from_native(X, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return []
    text = (nw.String, nw.Categorical, nw.Enum, nw.Object)
    return [name for name in frame.columns if isinstance(frame[name].dtype, text)]


def _checked(source: Source) -> Source:
    if source.dtype.kind not in "buif":
        raise TypeError(f"X must be numeric, got dtype {source.dtype}: encode it as numbers first")
    if not source.sample:
        raise ValueError(
            "Expected 2D array, got 1D array instead: every item of the Dataset is one number; "
            "Reshape your data so that an item is a vector or an image"
        )
    if math.prod(source.sample) == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={(source.n, *source.sample)}) "
            "while a minimum of 1 is required."
        )
    return source


def _feature_names(X: Any) -> list[str] | None:
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise TypeError("X is a lazy frame: call .collect() first")
    if not isinstance(frame, nw.DataFrame):
        return None
    named = {isinstance(name, str) for name in frame.columns}
    if len(named) > 1:
        raise TypeError(
            "Feature names are only supported if all input features have string names: "
            "X.columns = X.columns.astype(str) makes them so"
        )
    return list(frame.columns) if named == {True} else None


def _tensor_to_numpy(x: torch.Tensor) -> NDArray[Any]:
    if x.layout != torch.strided:
        raise TypeError(f"X is a torch tensor of layout {x.layout}: pass scipy CSR or X.to_dense()")
    x = x.detach().cpu()
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()


def _first(item: Any) -> Any:
    if isinstance(item, dict):
        raise TypeError(f"Dataset items must be x or (x, ...), got a dict with keys {list(item)}")
    return item[0] if isinstance(item, (tuple, list)) else item


def _mapping(X: NDArray[Any]) -> mmap.mmap | None:
    """The file mapping whose pages may be dropped, if there is one."""
    base: Any = X
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    # Dropping the pages of a copy-on-write mapping would lose the user's changes.
    if base is None or base.mode == "c" or not hasattr(mmap, "MADV_DONTNEED"):
        return None
    return base._mmap  # type: ignore[attr-defined]  # numpy's own name for it, not in its stubs


@dataclass(frozen=True)
class Layout:
    """How a stored sample becomes ``shape``: ``(d,)`` or ``(c, h, w)``."""

    shape: Shape
    stored: Shape
    channels_last: bool = False

    def arrange(self, x: NDArray[Any]) -> NDArray[Any]:
        """``(b, *anything)`` to ``(b, *shape)``."""
        x = x.reshape(len(x), *self.stored)
        return np.moveaxis(x, -1, 1).reshape(len(x), *self.shape) if self.channels_last else x

    @classmethod
    def of(cls, source: Source, image_shape: Sequence[int] | None) -> Layout:
        """The layout of a source, read from its own shape and from ``image_shape``."""
        sample, first = source.sample, source.channels_first
        if image_shape is None:
            return cls(sample, sample) if len(sample) == 1 else cls._image(sample, first)
        layout = cls._image(tuple(image_shape), first, "image_shape")
        fits = (
            math.prod(layout.stored) == sample[0]
            if len(sample) == 1
            else layout.shape == cls._image(sample, first).shape
        )
        if not fits:
            raise ValueError(
                f"image_shape={tuple(image_shape)} does not fit X of shape {(source.n, *sample)}: "
                f"a sample has {math.prod(sample)} values, the image {math.prod(layout.stored)}"
            )
        return layout if len(sample) == 1 else cls._image(sample, first)

    @classmethod
    def _image(cls, sample: Shape, channels_first: bool, name: str = "a sample of X") -> Layout:
        if not (len(sample) in (2, 3) and all(isinstance(s, int | np.integer) for s in sample)):
            raise ValueError(
                f"{name} must be an image (h, w), (h, w, c) or (c, h, w), got {sample}; "
                "X itself may be (n, d), (n, h, w), (n, h, w, c) or (n, c, h, w)"
            )
        if len(sample) == 2:
            return cls((1, *sample), (1, *sample))
        last = _channels_last(sample, channels_first)
        h_w_c = (sample[2], sample[0], sample[1])
        return cls(h_w_c, sample, True) if last else cls(sample, sample)


def _channels_last(sample: Shape, channels_first: bool) -> bool:
    first, last = (sample[i] in CHANNEL_COUNTS for i in (0, -1))
    if first != last:
        return last
    if channels_first:  # torch's own convention decides for tensors
        return False
    if first or sample[0] == sample[-1]:
        raise ValueError(
            f"an image of shape {sample} can be read as (c, h, w) and as (h, w, c): "
            "pass X as a torch tensor in (n, c, h, w) order"
        )
    return sample[-1] < sample[0]


def as_floating(x: NDArray[Any]) -> NDArray[Any]:
    """Float32, or float64 where float32 would round before scaling; uint8 divided by 255."""
    wide = x.dtype.itemsize > (2 if x.dtype.kind in "iu" else 4)
    out = x.astype(np.float64 if wide else np.float32, order="C", copy=False)
    return np.divide(out, 255, out=out) if x.dtype == np.uint8 else out
