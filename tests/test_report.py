"""The page: what it holds, that it reaches for nothing outside itself, and what it escapes."""

from __future__ import annotations

import os
import re
import struct
import zlib
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from torch.utils.data import TensorDataset

from pellucid import demo
from pellucid.data import Scaler, open_data
from pellucid.report import writable, write_report
from pellucid.report.figures import data_uri, line_chart, png, ticks
from pellucid.report.page import Members, picture_shape, rows_of

HOSTILE = "<script>alert('x')</script> & \"y\" <img src=http://example.org/x.png>"


class Plain(BaseEstimator):
    """k-means with the attributes and methods that a page is made from."""

    def __init__(self, n_clusters: int = 3, image_shape: Any = None, random_state: int = 0) -> None:
        self.n_clusters = n_clusters
        self.image_shape = image_shape
        self.random_state = random_state

    def _rows(self, X: Any) -> np.ndarray:
        data = open_data(X, image_shape=self.image_shape, scale=getattr(self, "scaler_", None))
        return data.take(range(data.n)).numpy().reshape(data.n, -1)

    def fit(self, X: Any) -> Plain:
        data = open_data(X, image_shape=self.image_shape)
        self.scaler_ = Scaler(None)
        rows = self._rows(X)
        self._means = KMeans(self.n_clusters, n_init=1, random_state=0).fit(rows)
        self.cluster_centers_ = self._means.cluster_centers_
        self.prototypes_ = self.cluster_centers_.reshape(-1, *data.shape)
        self.loss_curve_ = [3.0, 2.0, float("nan"), 1.5, 1.4]
        self.loss_, self.n_iter_ = 1.4, 5
        self.restart_losses_, self.best_restart_ = np.array([1.6, 1.4]), 1
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self._means.predict(self._rows(X))

    def distances(self, X: Any) -> np.ndarray:
        return self._means.transform(self._rows(X))


class Tags(HTMLParser):
    """Every tag and attribute of a page, and whether the tags close in order."""

    VOID = frozenset({"meta", "img", "br", "line", "circle", "polyline"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def images(self) -> list[str]:
        return [str(attrs["src"]) for tag, attrs in self.found if tag == "img"]


@pytest.fixture
def blobs() -> np.ndarray:
    rng = np.random.default_rng(0)
    centres = rng.uniform(0, 1, (3, 64))
    return np.concatenate([c + 0.05 * rng.standard_normal((20, 64)) for c in centres])


def unpack(data: bytes) -> np.ndarray:
    """The pixels of a PNG as this package writes them, read by the specification."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(
            kind + body
        )
        chunks[kind], at = body, at + 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert depth == 8
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape((height, width, 3) if colour == 2 else (height, width))


@pytest.mark.parametrize("shape", [(5, 7), (4, 6, 3), (1, 1)])
def test_png_is_a_png(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.testing.assert_array_equal(unpack(png(pixels)), pixels)


@pytest.mark.parametrize(("channels", "ndim"), [(1, 2), (2, 2), (3, 3), (4, 3), (7, 2)])
def test_data_uri_takes_any_channels(channels: int, ndim: int) -> None:
    image = np.linspace(-1, 2, channels * 12).reshape(channels, 3, 4)
    kind, _, body = data_uri(image, 0.0, 1.0).partition(",")
    pixels = unpack(b64decode(body))
    assert kind == "data:image/png;base64"
    assert pixels.ndim == ndim and pixels.shape[:2] == (3, 4)


def test_data_uri_maps_the_ends_and_a_constant() -> None:
    image = np.array([[[2.0, 4.0, 9.0]]])
    pixels = unpack(b64decode(data_uri(image, 2.0, 4.0).partition(",")[2]))
    assert pixels.tolist() == [[0, 255, 255]]
    data_uri(np.zeros((1, 2, 2)), 0.0, 0.0)


@pytest.mark.parametrize(
    ("lo", "hi"), [(0.0, 1.0), (-3.0, 17.0), (1e-9, 3e-9), (1e6, 1e6 + 3), (1.0, 2.0)]
)
def test_ticks_are_round_and_inside(lo: float, hi: float) -> None:
    found = ticks(lo, hi)
    assert 2 <= len(found) <= 7
    assert all(lo - 1e-6 * (hi - lo) <= t <= hi + 1e-6 * (hi - lo) for t in found)


def test_line_chart() -> None:
    svg = line_chart([3.0, 2.0, float("nan"), 1.0, float("inf")], "loss <by> epoch")
    assert svg.count("<polyline") == 1 and svg.count("<circle") == 1  # two runs, one a point
    assert "<by>" not in svg and "nan" not in svg and "inf" not in svg
    assert line_chart([], "nothing") == "" and line_chart([float("nan")], "nothing") == ""
    assert "<polyline" in line_chart([2.0, 2.0], "constant")


def test_page_of_images(blobs: np.ndarray, tmp_path: Path) -> None:
    est = Plain(image_shape=(8, 8)).fit(blobs)
    path = write_report(est, blobs, tmp_path / "page.html", title="Three kinds")
    page = path.read_text(encoding="utf-8")
    images = Tags(page).images()
    assert len(images) == 3 * 9 and all(i.startswith("data:image/png;base64,") for i in images)
    assert "<h1>Three kinds</h1>" in page and "<svg" in page
    assert "1.4 (kept)" in page and "random_state" not in page  # only changed settings are shown
    assert os.listdir(tmp_path) == ["page.html"]


def test_nothing_outside_itself(blobs: np.ndarray, tmp_path: Path) -> None:
    page = write_report(Plain().fit(blobs), blobs, tmp_path / "page.html").read_text("utf-8")
    assert not re.search(r"https?:|//[a-z]|@import|url\(", page)
    for tag, attrs in Tags(page).found:
        assert tag not in {"script", "link", "iframe", "object"}
        for name in ("src", "href", "xlink:href"):
            assert (attrs.get(name) or "#").startswith(("#", "data:"))


def test_hostile_text_is_shown_as_text(tmp_path: Path) -> None:
    X = pd.DataFrame(np.random.default_rng(0).random((30, 2)), columns=[HOSTILE, "b"])
    path = write_report(Plain().fit(X), X, tmp_path / "page.html", title=HOSTILE)
    tags = Tags(path.read_text("utf-8"))
    assert {"script", "img"}.isdisjoint(tag for tag, _ in tags.found)
    assert path.read_text("utf-8").count("&lt;script&gt;") >= 3  # title, heading, feature


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(np.asarray, id="numpy"),
        pytest.param(lambda X: X.tolist(), id="list"),
        pytest.param(lambda X: torch.from_numpy(X), id="tensor"),
        pytest.param(lambda X: TensorDataset(torch.from_numpy(X)), id="dataset"),
        pytest.param(lambda X: sparse.coo_array(X), id="coo"),
        pytest.param(
            lambda X: pd.DataFrame(X, index=range(100, 160)).rename(columns=str), id="pandas"
        ),
        pytest.param(lambda X: pl.DataFrame(X), id="polars"),
    ],
)
def test_every_input_gives_the_same_cards(convert: Any, monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    X = (rng.integers(0, 3, (60, 1)) * [1.0, 2, 0, 0, 3] + 0.1 * rng.random((60, 5))).round(3)
    est = Plain().fit(X)
    expected = Members.of(est, X, open_data(X), with_features=True)
    monkeypatch.setattr("pellucid.report.page.CHUNK", 7 * 5)  # seven rows at a time
    given = convert(X)
    found = Members.of(est, given, open_data(given), with_features=True)
    np.testing.assert_array_equal(found.sizes, np.bincount(est.predict(X), minlength=3))
    np.testing.assert_array_equal(found.rows, expected.rows)
    for ours, theirs in zip(found.spread(), expected.spread(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_nearest_are_the_nearest_members(blobs: np.ndarray, monkeypatch: Any) -> None:
    monkeypatch.setattr("pellucid.report.page.CHUNK", 11 * 64)
    est = Plain(n_clusters=4).fit(blobs)
    labels, distances = est.predict(blobs), est.distances(blobs)
    members = Members.of(est, blobs, open_data(blobs), with_features=False)
    for j in range(4):
        mine = np.flatnonzero(labels == j)
        order = mine[np.argsort(distances[mine, j], kind="stable")][:8]
        assert [row for row, _ in members.nearest(j)] == order.tolist()


def test_features_that_differ_come_first(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((90, 12)), columns=[f"column {i}" for i in range(12)])
    X.iloc[:30, 7] += 40
    est = Plain(n_clusters=2).fit(X)
    path = write_report(est, X, tmp_path / "page.html")
    names = re.findall(r"<tr><td>(column \d+)</td>", path.read_text("utf-8"))
    assert len(names) == 16 and names[0] == names[8] == "column 7"


def test_an_empty_cluster_says_so(blobs: np.ndarray, tmp_path: Path) -> None:
    for X in (blobs, blobs[:, :5]):
        est = Plain().fit(X)
        est._means.cluster_centers_[2] = 1e3
        page = write_report(est, X, tmp_path / "page.html").read_text("utf-8")
        Tags(page)
        assert "No sample chose this centre." in page


def test_what_is_shown_as_an_image(blobs: np.ndarray) -> None:
    assert picture_shape(open_data(blobs)) == (1, 8, 8)
    assert picture_shape(open_data(blobs), is_sparse=True) is None
    assert picture_shape(open_data(blobs[:, :63])) is None
    assert picture_shape(open_data(blobs[:, :49])) is None
    assert picture_shape(open_data(pd.DataFrame(blobs).rename(columns=str))) is None
    assert picture_shape(open_data(torch.zeros(4, 3, 5, 6))) == (3, 5, 6)


def test_rows_of_keeps_the_kind() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]}, index=[9, 0, 5])
    assert rows_of(frame, 1, 3)["a"].tolist() == [2, 3]
    assert rows_of([[1], [2], [3]], 0, 2) == [[1], [2]]


def test_not_fitted(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        write_report(Plain(), np.zeros((3, 2)), tmp_path / "page.html")


def test_unwritable_paths_are_named_before_X_is_read(blobs: np.ndarray, tmp_path: Path) -> None:
    est = Plain().fit(blobs)
    with pytest.raises(ValueError, match=r"is a directory: name a file in it"):
        write_report(est, None, tmp_path)
    with pytest.raises(ValueError, match=r"nowhere is not a directory: create it"):
        write_report(est, None, tmp_path / "nowhere" / "page.html")


def test_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ValueError, match="cannot be written to"):
        writable(tmp_path / "page.html")


def test_a_failed_write_leaves_the_old_page(
    blobs: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, est = tmp_path / "page.html", Plain().fit(blobs)
    path.write_text("old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ValueError, match="No space left on device"):
        write_report(est, blobs, path)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["page.html"]


def test_the_demo_asks_for_its_file_before_it_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.main(["--out", str(tmp_path / "nowhere" / "page.html")]) == 2
    assert "create it, or write elsewhere" in capsys.readouterr().err


def test_the_tables_of_the_demo(blobs: np.ndarray) -> None:
    est = Plain().fit(blobs)
    est.labels_ = est.predict(blobs)
    head, *rows = demo.table(est, blobs).strip().splitlines()
    assert head.split()[:3] == ["cluster", "size", "share"]
    assert [int(row.split()[1]) for row in rows] == np.bincount(est.labels_).tolist()
    scores = demo.comparison(est.labels_, {"same": (est.labels_ + 1) % 3})
    assert scores.split() == ["ACC", "NMI", "ARI", "same", "1.000", "1.000", "1.000"]
