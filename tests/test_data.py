"""Every input gives the same rows; order, scaling and memory are what is promised."""

from __future__ import annotations

import re
import subprocess
import sys
import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.preprocessing import MinMaxScaler, StandardScaler, normalize
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from pellucid.data import Batches, Scaler, open_data, shuffled

ROWS = np.random.default_rng(0).integers(-8, 8, (37, 6)) / 4  # exact in bfloat16
ROWS[:, 2] = 0.5
NAMES = [f"f{i}" for i in range(6)]
IMAGES = np.random.default_rng(1).integers(0, 256, (9, 5, 7, 3), dtype=np.uint8)


class Items(Dataset):
    """A map-style Dataset over any sequence of items."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(ROWS)


def on_disk(array: np.ndarray, path: Path, mode: str = "r") -> np.memmap:
    np.save(path, array)
    return np.load(path, mmap_mode=mode)


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def everything(data: Batches) -> torch.Tensor:
    return torch.cat([batch.x for batch in data.sequential(10)])


INPUTS = {
    "list": lambda p: ROWS.tolist(),
    "float64": lambda p: ROWS,
    "float32": lambda p: ROWS.astype(np.float32),
    "float16": lambda p: ROWS.astype(np.float16),
    "fortran": lambda p: np.asfortranarray(ROWS, dtype=np.float32),
    "strided": lambda p: np.repeat(ROWS, 2, axis=0)[::2],
    "read-only": lambda p: read_only(ROWS.astype(np.float32)),
    "big-endian": lambda p: ROWS.astype(">f4"),
    "objects": lambda p: ROWS.astype(object),
    "memmap": lambda p: on_disk(ROWS.astype(np.float32), p / "x.npy"),
    "memmap of float64": lambda p: on_disk(ROWS, p / "x.npy"),
    "tensor": lambda p: torch.from_numpy(ROWS),
    "tensor with gradient": lambda p: torch.tensor(ROWS, requires_grad=True),
    "bfloat16": lambda p: torch.tensor(ROWS, dtype=torch.bfloat16),
    "pandas": lambda p: pd.DataFrame(ROWS, columns=NAMES),
    "pandas of mixed types": lambda p: pd.DataFrame(ROWS, columns=NAMES).astype({"f1": "float32"}),
    "polars": lambda p: pl.DataFrame(ROWS, schema=NAMES),
    "csr_array": lambda p: sparse.csr_array(ROWS),
    "csr_matrix": lambda p: sparse.csr_matrix(ROWS.astype(np.float32)),
    "csc_array": lambda p: sparse.csc_array(ROWS),
    "coo_matrix": lambda p: sparse.coo_matrix(ROWS),
    "TensorDataset": lambda p: TensorDataset(torch.from_numpy(ROWS), torch.zeros(len(ROWS))),
    "Dataset": lambda p: Items(ROWS),
    "Dataset of pairs": lambda p: Items([(torch.tensor(x), i) for i, x in enumerate(ROWS)]),
}


@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS)
def test_every_input_gives_the_same_rows(make, tmp_path):
    X = make(tmp_path)
    data = open_data(X, batch_size=8)
    expected = torch.tensor(ROWS, dtype=torch.float32)
    assert (data.n, data.shape, data.n_features, len(data)) == (37, (6,), 6, 5)
    assert (data.lo, data.hi) == (ROWS.min(), ROWS.max())
    torch.testing.assert_close(everything(data), expected, rtol=0, atol=0)
    torch.testing.assert_close(data.take([3, 3, 36]), expected[[3, 3, 36]], rtol=0, atol=0)
    for batch in data.epoch(0):
        assert batch.x.dtype == torch.float32 and batch.index.dtype == torch.int64
        assert batch.x.is_contiguous()
        torch.testing.assert_close(batch.x, expected[batch.index], rtol=0, atol=0)
    assert data.feature_names == (NAMES if isinstance(X, pd.DataFrame | pl.DataFrame) else None)


@pytest.mark.parametrize("scale", [None, "unit", "standard", "norm"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_nothing_is_changed_even_when_a_batch_is(dtype, scale):
    X = np.arange(24, dtype=dtype).reshape(6, 4)
    kept = X.copy()
    data = open_data(X, scale=scale)
    for batch in [*data.sequential(), *data.epoch(0)]:
        batch.x.zero_()
    data.take(slice_of := np.arange(3)).zero_()
    np.testing.assert_array_equal(X, kept)
    np.testing.assert_array_equal(slice_of, np.arange(3))


# Order


def test_order_is_pinned():
    # A changed order would change the result of every seed that anyone has published.
    assert shuffled(8, seed=0, epoch=0).tolist() == [3, 7, 5, 0, 4, 6, 2, 1]
    assert shuffled(8, seed=0, epoch=1).tolist() != shuffled(8, seed=0, epoch=0).tolist()
    assert shuffled(8, seed=1, epoch=0).tolist() != shuffled(8, seed=0, epoch=0).tolist()


def test_order_needs_no_history():
    data, late = open_data(ROWS, batch_size=10, seed=3), open_data(ROWS, batch_size=10, seed=3)
    for i in range(4):
        last = [b.index.tolist() for b in data.epoch(i)]
    assert [b.index.tolist() for b in late.epoch(3)] == last
    assert [b.index.tolist() for b in late.epoch(3, seed=4)] != last
    assert [row for rows in last for row in rows] == shuffled(37, 3, 3).tolist()


def test_opening_and_iterating_leave_the_global_generators_alone():
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    data = open_data(ROWS, scale="standard")
    list(data.epoch(0)), data.sample(5, seed=0)
    assert torch.equal(torch.get_rng_state(), torch_before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 60), size=st.integers(1, 20), world=st.integers(1, 4), drop_last=st.booleans()
)
def test_ranks_share_every_batch_evenly(n, size, world, drop_last):
    data = open_data(np.arange(n, dtype=np.float32)[:, None], batch_size=size)
    whole = [b.index for b in data.epoch(2, drop_last=drop_last)]
    ranks = [list(data.epoch(2, rank=r, world=world, drop_last=drop_last)) for r in range(world)]
    assert len({len(batches) for batches in ranks}) == 1
    for shares in zip(*ranks, strict=True):
        assert len({len(share.index) for share in shares}) == 1  # or the mean of means is wrong
    seen = [i for batches in ranks for b in batches for i in b.index.tolist()]
    assert len(set(seen)) == len(seen)
    assert len(seen) == sum(len(index) // world * world for index in whole)
    assert sum(map(len, whole)) == (n - n % size if drop_last and n > size else n)


def test_sample_is_without_replacement():
    data = open_data(np.arange(20.0)[:, None])
    drawn = data.sample(12, seed=5).ravel().tolist()
    assert len(set(drawn)) == 12 and drawn == data.sample(12, seed=5).ravel().tolist()
    assert sorted(data.sample(99, seed=5).ravel().tolist()) == list(range(20))


# Images


@pytest.mark.parametrize(
    "X",
    [
        IMAGES,
        np.moveaxis(IMAGES, -1, 1),
        torch.from_numpy(IMAGES),
        torch.from_numpy(IMAGES).permute(0, 3, 1, 2),
        Items(IMAGES),
        Items([(torch.from_numpy(x).permute(2, 0, 1), 0) for x in IMAGES]),
    ],
    ids=["nhwc", "nchw", "tensor nhwc", "tensor nchw", "Dataset hwc", "Dataset of tensors chw"],
)
def test_images_become_channels_first(X):
    data = open_data(X)
    assert (data.shape, data.n_features) == ((3, 5, 7), 105)
    expected = np.moveaxis(IMAGES, -1, 1).astype(np.float32) / 255
    np.testing.assert_array_equal(everything(data).numpy(), expected)
    assert (data.lo, data.hi) == (float(expected.min()), float(expected.max()))


@pytest.mark.parametrize("image_shape", [(5, 7, 3), [5, 7, 3]])
def test_flat_rows_with_a_declared_shape(image_shape):
    flat = IMAGES.reshape(9, -1)
    expected = everything(open_data(IMAGES))
    assert torch.equal(everything(open_data(flat, image_shape=image_shape)), expected)
    assert torch.equal(
        everything(open_data(sparse.csr_array(flat), image_shape=image_shape)), expected
    )
    first = np.ascontiguousarray(np.moveaxis(IMAGES, -1, 1)).reshape(9, -1)
    assert torch.equal(everything(open_data(first, image_shape=(3, 5, 7))), expected)


def test_grey_images():
    grey = IMAGES[..., 0]
    for X, shape in [
        (grey, None),
        (grey, (5, 7)),
        (grey[..., None], None),
        (grey[:, None], (5, 7)),
        (grey.reshape(9, -1), (5, 7)),
        (grey.reshape(9, -1), (1, 5, 7)),
        (grey.reshape(9, -1), (5, 7, 1)),
    ]:
        data = open_data(X, image_shape=shape)
        assert data.shape == (1, 5, 7)
        np.testing.assert_array_equal(everything(data).numpy()[:, 0], np.float32(grey) / 255)


def test_channels_of_unusual_number_are_the_shorter_end():
    assert open_data(np.zeros((2, 6, 16, 16))).shape == (6, 16, 16)
    assert open_data(np.zeros((2, 16, 16, 6))).shape == (6, 16, 16)


# Scaling


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize(
    ("kind", "peer"),
    [
        ("unit", MinMaxScaler().fit_transform),
        ("standard", StandardScaler().fit_transform),
        ("norm", normalize),
    ],
)
def test_scaling_of_rows_equals_scikit_learn(kind, peer, sparse_rows):
    X = np.random.default_rng(2).normal(3, 5, (500, 4))
    X[:, 1] = 7.7
    X[3] = 0 if kind == "norm" else X[3]
    data = open_data(sparse.csr_array(X) if sparse_rows else X, scale=kind)
    scaled = everything(data).numpy()
    np.testing.assert_allclose(scaled, peer(X), atol=1e-6)
    assert (data.lo, data.hi) == (scaled.min(), scaled.max())
    new = open_data(X[:5] * 2, scale=data.scaler)
    assert new.scaler is data.scaler
    assert (new.lo, new.hi) == (everything(new).min(), everything(new).max())


@pytest.mark.parametrize("kind", ["unit", "standard"])
def test_scaling_of_images_is_one_pair_for_all_pixels(kind):
    data = open_data(IMAGES, scale=kind)
    pixels = np.moveaxis(IMAGES, -1, 1) / 255
    shift, scale = (
        (pixels.min(), np.ptp(pixels)) if kind == "unit" else (pixels.mean(), pixels.std())
    )
    np.testing.assert_allclose(everything(data).numpy(), (pixels - shift) / scale, atol=1e-5)


def test_unit_scaling_stays_inside_exactly():
    X = np.random.default_rng(3).normal(size=(4000, 5)).astype(np.float32)
    for data in (open_data(X, scale="unit"), open_data(X.astype(np.float64) * 1.1, scale="unit")):
        scaled = everything(data)
        assert (data.lo, data.hi) == (0.0, 1.0) == (scaled.min(), scaled.max())


def test_a_constant_column_is_zero():
    # 0.1 is not exact, and its mean over 1,000 rows is not 0.1: the round-off must not be scaled.
    X = np.column_stack([np.full(1000, 0.1), np.arange(1000.0)])
    for kind in ("unit", "standard"):
        for dtype in (np.float32, np.float64):
            scaled = everything(open_data(X.astype(dtype), scale=kind))
            assert torch.equal(scaled[:, 0], torch.zeros(1000)), (kind, dtype)


def test_float64_is_scaled_before_it_is_rounded():
    seconds = 1.7e9 + np.arange(100.0)[:, None]  # float32 has steps of 128 here
    assert everything(open_data(seconds, scale="unit")).unique().numel() == 100
    assert everything(open_data(seconds, scale="standard")).unique().numel() == 100
    assert everything(open_data(seconds.astype(np.int64), scale="unit")).unique().numel() == 100


@pytest.mark.parametrize("kind", [None, "unit", "standard", "norm"])
@pytest.mark.parametrize("image", [False, True])
def test_scaler_round_trip(kind, image):
    X = np.random.default_rng(4).normal(2, 3, (50, 4, 4) if image else (50, 3)).astype(np.float32)
    data = open_data(X, scale=kind)
    again = Scaler.from_state(data.scaler.kind, data.scaler.state())
    raw = torch.from_numpy(X[:, None] if image else X)
    scaled = again.apply(raw)
    torch.testing.assert_close(scaled, everything(data), rtol=0, atol=1e-6)
    np.testing.assert_allclose(again.apply(raw.numpy()), scaled, rtol=0, atol=1e-6)
    back = scaled if kind == "norm" else raw
    torch.testing.assert_close(again.invert(scaled), back, rtol=0, atol=1e-5)
    assert all(v.dtype == np.float64 and v.ndim == 1 for v in again.state().values())
    assert set(again.state()) == ({"shift", "scale"} if kind in ("unit", "standard") else set())


# Memory


def test_no_second_copy_of_bytes():
    X = np.zeros((60_000, 1000), dtype=np.uint8)  # 60 MB, 240 MB as float32
    X[::2] = 255
    tracemalloc.start()
    try:
        data = open_data(X, scale="unit")
        for _ in data.epoch(0):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (data.lo, data.hi) == (0, 1)
    assert peak < 30e6


STREAM = """
import re, sys
import numpy as np
import torch
from pellucid.data import open_data
from pellucid.nn import squared_distances

def gaps(x):  # makes large tensors and keeps a small one, which is what leaves gaps in a heap
    return squared_distances(x.double(), torch.ones(10, x.shape[1]).double()).min(-1)

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024

n, d = map(int, sys.argv[2:])
warm = open_data(np.ones((2000, d), np.float32), scale="standard")
list(warm.epoch(0)), [gaps(batch.x) for batch in warm.sequential()]
X = np.memmap(sys.argv[1], dtype=np.float32, mode="r", shape=(n, d))
before = peak()
data = open_data(X, scale="standard")
kept = [gaps(batch.x) for batch in data.sequential(2048)]
kept += [gaps(batch.x) for batch in data.epoch(0)]
assert sum(len(k.values) for k in kept) == 2 * n
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_a_file_is_streamed_not_loaded(tmp_path):
    path, (n, d) = tmp_path / "x.f32", (100_000, 784)
    block = np.random.default_rng(0).random((10_000, d), dtype=np.float32)
    with path.open("wb") as file:
        for _ in range(10):
            block.tofile(file)
    assert path.stat().st_size > 300e6
    done = subprocess.run(
        [sys.executable, "-c", STREAM, str(path), str(n), str(d)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 150e6


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_changes_to_a_mapped_file_are_kept(mode, tmp_path, monkeypatch):
    monkeypatch.setattr("pellucid.data.access.PAGES_KEPT", 1)  # drop pages after every read
    X = on_disk(ROWS.astype(np.float32), tmp_path / "x.npy", mode)
    X[5] = 99
    data = open_data(X)
    for batch in data.epoch(0):
        np.testing.assert_array_equal(batch.x, X[batch.index.numpy()])
    assert (data.take(5) == 99).all() and (X[5] == 99).all()
    del X, data
    on_file = np.load(tmp_path / "x.npy")
    assert (on_file[5] == 99).all() == (mode == "r+")


# Refusals


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros(4), ValueError, "Expected 2D array, got 1D array instead[^~]*Reshape your data"),
        (np.zeros((0, 3)), ValueError, r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1"),
        (np.zeros((3, 0)), ValueError, r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1"),
        (np.zeros((3, 0, 4)), ValueError, r"0 feature\(s\) \(shape=\(3, 0, 4\)\)"),
        (np.zeros((3, 2), complex), ValueError, "Complex data not supported"),
        ([["a", "b"]], ValueError, r"shape \(1, 2\) has text among its values: encode"),
        (np.array([[1, "a"]], dtype=object), ValueError, r"shape \(1, 2\) has text among"),
        (np.array([[1, {}]], dtype=object), TypeError, "float"),
        (np.zeros((2, 2), "datetime64[s]"), TypeError, r"numeric, got dtype datetime64\[s\]"),
        (np.zeros((2, 3, 4, 5, 6)), ValueError, r"got \(3, 4, 5, 6\); X itself"),
        (np.zeros((2, 3, 9, 3)), ValueError, r"\(3, 9, 3\) can be read as .* torch tensor"),
        (np.zeros((2, 9, 9, 9)), ValueError, r"\(9, 9, 9\) can be read as"),
        (pl.LazyFrame({"a": [1.0]}), TypeError, r"\.collect\(\)"),
        (pd.DataFrame({"a": [1.0], 3: [2.0]}), TypeError, "string names"),
        (pd.DataFrame({"a": ["x", "y"], "b": 1}), ValueError, r"\(2, 2\) has text in .* \['a'\]"),
        (pl.DataFrame({"a": ["x", "y"], "b": 1}), ValueError, r"\(2, 2\) has text in .* \['a'\]"),
        (torch.eye(3).to_sparse(), TypeError, "sparse_coo"),
        (Stream(), TypeError, "Stream cannot be read by index: pass a map-style Dataset"),
        (DataLoader(TensorDataset(torch.eye(3))), TypeError, r"\.dataset"),
        (Items([]), ValueError, r"0 sample\(s\)"),
        (Items([1.0, 2.0]), ValueError, "Expected 2D array, got 1D array instead"),
        (Items([{"image": 1}]), TypeError, r"dict with keys \['image'\]"),
        (Items([np.zeros(3), np.zeros(4)]), ValueError, r"has \(3,\), item 1 has \(4,\)"),
        (Items(["a"]), TypeError, "numeric, got dtype <U1"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_refused(X, error, message):
    with pytest.raises(error, match=message):
        open_data(X)


@pytest.mark.parametrize(
    "wrap", [np.asarray, sparse.csr_array, torch.from_numpy, Items, pl.DataFrame]
)
def test_the_first_non_finite_value_is_found(wrap):
    X = ROWS.copy()
    X[5, 3] = X[20, 0] = np.nan
    X[21, 1] = -np.inf
    with pytest.raises(ValueError, match=r"contains NaN\. 2 NaN and 1 infinite .* row 5, column "):
        open_data(wrap(X))
    X[5, 3] = X[20, 0] = 0
    with pytest.raises(ValueError, match=r"contains infinity .* 0 NaN and 1 .* row 21, column"):
        open_data(wrap(X), scale="norm")


def test_where_a_non_finite_value_is_named():
    frame = pd.DataFrame({"age": [1.0, 2.0], "height": [1.0, np.nan]})
    with pytest.raises(ValueError, match="row 1, column 'height'"):
        open_data(frame)
    image = IMAGES.astype(np.float32)
    image[8, 4, 6, 2] = np.inf
    with pytest.raises(ValueError, match="row 8, pixel 2, 4, 6"):
        open_data(image)


@pytest.mark.parametrize("scale", [None, "unit", "norm"])
def test_too_large_for_float32(scale):
    with pytest.raises(ValueError, match=r"too large for dtype\('float32'\).*row 0, column 1"):
        open_data([[1.0, 1e300]], scale=scale)


@pytest.mark.parametrize("image_shape", [(28, 27), (3, 28, 28), (27, 28, 1)])
def test_a_wrong_image_shape_shows_both(image_shape):
    shown = re.escape(f"image_shape={image_shape} does not fit X of shape (5, 784)")
    with pytest.raises(ValueError, match=shown):
        open_data(np.zeros((5, 784)), image_shape=image_shape)


def test_an_image_shape_that_contradicts_the_images():
    with pytest.raises(ValueError, match=r"image_shape=\(8, 8\) does not fit X of shape \(9, 5, 7"):
        open_data(IMAGES, image_shape=(8, 8))


@pytest.mark.parametrize("image_shape", [(784,), (1, 1, 28, 28), (28.0, 28)])
def test_an_image_shape_that_is_none(image_shape):
    message = re.escape("image_shape must be an image (h, w), (h, w, c) or (c, h, w), got ")
    with pytest.raises(ValueError, match=message + re.escape(str(image_shape))):
        open_data(np.zeros((5, 784)), image_shape=image_shape)


def test_other_refusals():
    with pytest.raises(ValueError, match="batch_size=0"):
        open_data(ROWS, batch_size=0)
    with pytest.raises(ValueError, match=r"scale='minmax' is unknown.*'unit'"):
        open_data(ROWS, scale="minmax")
    fitted = open_data(ROWS, scale="unit").scaler
    with pytest.raises(ValueError, match=r"X has 5 features, but .* expecting 6 features as input"):
        open_data(ROWS[:, :5], scale=fitted)


def test_real_images(data_dir):
    with np.load(data_dir / "mnist.npz") as archive:
        X = archive["X"]
    data = open_data(X, batch_size=500)
    assert (data.n, data.shape, data.lo, data.hi) == (70_000, (1, 28, 28), 0, 1)
    order = torch.cat([batch.index for batch in data.epoch(0)])
    assert torch.equal(order.sort().values, torch.arange(70_000))
    assert all(a.tolist() != b.tolist() for a, b in pairwise(order.split(500)))


def test_data_that_is_nearly_all_zeros_does_not_fill_the_unit_interval():
    rng = np.random.default_rng(0)
    dense = rng.random((300, 40), dtype=np.float32)
    thin = dense * (rng.random(dense.shape) < 0.05)
    assert open_data(dense).fills_unit
    assert not open_data(thin).fills_unit
    assert not open_data(2 * dense).fills_unit
    assert not open_data(-dense).fills_unit
