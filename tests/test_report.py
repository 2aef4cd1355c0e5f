"""The page: what it holds, that it reaches for nothing outside itself, and what it escapes."""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from base64 import b64decode, b64encode
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import confusion_matrix
from sklearn.neighbors import KNeighborsClassifier

from helpers import small_tell
from pellucid import TELL, demo, metrics
from pellucid.cli import main
from pellucid.explain import explain
from pellucid.explain.view import view
from pellucid.report import (
    chart,
    colours,
    compare,
    projection,
    sections,
    training,
    writable,
    write_report,
)
from pellucid.report import survey as surveys
from pellucid.report.figures import Atlas, diverging, pixels_of, png, shrunk, uri
from pellucid.report.gallery import Gallery, Given, one_line, picture_shape
from pellucid.report.points import place
from pellucid.report.survey import Survey

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>window.ran = 1</script>",
    "</title></style><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)> \' " &amp; <!-- ]]>',
    "{{ 7 * 7 }}{% raw %}",
    "🦊 emoji \u202eright to left \u2028\u2029",
    "שלום עולם العربية",
    "x" * 10_000,
]


class Page(HTMLParser):
    """Tags, attributes, words and scripts of a page, read as a browser reads them."""

    VOID = frozenset({"meta", "img", "br", "input", "path"})

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.text = path.read_text(encoding="utf-8")
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.scripts: list[tuple[str | None, str]] = []
        self.words: list[str] = []
        self.feed(self.text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs).get("type"), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def prose(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def data(self) -> dict[str, Any]:
        (text,) = (code for kind, code in self.scripts if kind == "application/json")
        return json.loads(text)

    def ids(self) -> set[str | None]:
        return {attrs["id"] for _, attrs in self.found if "id" in attrs}

    def cards(self) -> list[int]:
        return [int(re.findall(r"\d+", i)[0]) for i in self.ids() if i and re.match(r"cluster-", i)]


@pytest.fixture(scope="session")
def digits() -> np.ndarray:
    return load_digits().data[:240]


@pytest.fixture(scope="session")
def tell(digits: np.ndarray) -> TELL:
    """Two restarts, and snapshots of the centres on the way."""
    params = {"n_clusters": 5, "n_init": 2, "snapshots": (0, 3, 5), "scale": "unit"}
    return small_tell(**params).fit(digits.reshape(-1, 8, 8))


@pytest.fixture(scope="session")
def tell_page(tell: TELL, digits: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Page:
    path = tmp_path_factory.mktemp("page") / "tell.html"
    y = load_digits().target[:240]
    return Page(tell.report(digits.reshape(-1, 8, 8), path, title="Five kinds", y=y))


@pytest.fixture(scope="session")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    return make_blobs(90, 5, centers=3, cluster_std=0.5, random_state=0)


@pytest.fixture(scope="session")
def means(blobs: tuple[np.ndarray, np.ndarray]) -> KMeans:
    return KMeans(3, n_init=1, random_state=0).fit(blobs[0])


# Pictures ------------------------------------------------------------------------------------


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


def shown(src: str) -> np.ndarray:
    kind, _, body = src.partition(",")
    assert kind == "data:image/png;base64"
    return unpack(b64decode(body))


@pytest.mark.parametrize("shape", [(5, 7), (4, 6, 3), (1, 1)])
def test_png_is_a_png(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.testing.assert_array_equal(unpack(png(pixels)), pixels)
    np.testing.assert_array_equal(shown(uri(pixels)), pixels)


@pytest.mark.parametrize(("channels", "ndim"), [(1, 2), (2, 2), (3, 3), (4, 3), (7, 2)])
def test_pixels_of_any_channels(channels: int, ndim: int) -> None:
    image = np.linspace(-1, 2, channels * 12).reshape(1, channels, 3, 4)
    pixels = pixels_of(image, 0.0, 1.0, 64)[0]
    assert pixels.ndim == ndim and pixels.shape[:2] == (3, 4)


def test_pixels_map_the_ends_and_a_constant() -> None:
    image = np.array([[[[2.0, 4.0, 9.0]]]])
    assert pixels_of(image, 2.0, 4.0, 64).tolist() == [[[0, 255, 255]]]
    assert pixels_of(np.zeros((1, 1, 2, 2)), 0.0, 0.0, 64).max() == 0


def test_large_pictures_shrink_to_means() -> None:
    image = np.random.default_rng(0).random((2, 3, 9, 12))
    small = shrunk(image, 4)
    assert small.shape == (2, 3, 3, 4)
    assert small[1, 2, 1, 3] == pytest.approx(image[1, 2, 3:6, 9:12].mean())
    assert shrunk(image, 12) is image
    assert shrunk(image, 5).shape == (2, 3, 3, 4)  # the last rows stand for a whole block


def test_differences_have_two_colours() -> None:
    pixels = diverging(np.array([[-2.0, 0.0, 2.0]]))[0].astype(int)
    assert pixels[1].tolist() == [255, 255, 255]
    assert pixels[0, 2] > pixels[0, 0] and pixels[2, 0] > pixels[2, 2]  # blue, rust
    assert diverging(np.zeros((2, 2))).min() == 255


@pytest.mark.parametrize("channels", [1, 3])
def test_an_atlas_holds_every_picture_in_its_place(channels: int) -> None:
    images = np.random.default_rng(0).random((11, channels, 6, 9)).astype(np.float32)
    atlas = Atlas.of(images, 0.0, 1.0, room=10**6)
    sheet = shown(atlas.src)
    assert (atlas.tiles, atlas.width, atlas.height) == (11, 9, 6)
    for i, image in enumerate(pixels_of(images, 0.0, 1.0, 28)):
        row, column = divmod(i, atlas.columns)
        tile = sheet[row * 6 : row * 6 + 6, column * 9 : column * 9 + 9].astype(int)
        assert np.abs(tile - image).max() <= 9  # sixteen levels


def test_an_atlas_keeps_to_its_room() -> None:
    images = np.random.default_rng(0).random((400, 1, 28, 28)).astype(np.float32)
    free = Atlas.of(images, 0.0, 1.0, room=10**6)
    tight, tiny = (Atlas.of(images, 0.0, 1.0, room) for room in (60_000, 5_000))
    assert (free.width, free.tiles) == (28, 400)
    assert tight.width < 28 and tight.tiles == 400 and len(tight.src) < 66_000
    assert tiny.tiles < 400 and len(tiny.src) < 6_000


def luminance(colour: str) -> float:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_colours_stand_out_from_both_pages_and_have_a_shape_when_they_return() -> None:
    for colour in colours.PALETTE:
        light = luminance(colour)
        assert 1.05 / (light + 0.05) > 2.2  # on white
        assert (light + 0.05) / (luminance("#181e25") + 0.05) > 2.2
    looks = [(colours.colour(j), colours.shape(j)) for j in range(50)]
    assert len(set(looks)) == 50


# The map -------------------------------------------------------------------------------------


def test_neighbours_stay_neighbours_on_the_map(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = blobs
    flat = projection.flatten(X, np.stack([X[y == j].mean(0) for j in range(3)]))
    nearest = KNeighborsClassifier(5).fit(flat.points, y)
    assert flat.method == "t-SNE" and nearest.score(flat.points, y) == 1
    assert nearest.predict(flat.centres).tolist() == [0, 1, 2]
    again = projection.flatten(X, np.stack([X[y == j].mean(0) for j in range(3)]))
    np.testing.assert_array_equal(flat.points, again.points)


def test_many_rows_are_placed_by_pca(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "TSNE_ROWS", 50)
    X = np.random.default_rng(0).normal(size=(60, 4)) * [9, 1, 5, 1]
    flat = projection.flatten(X, X[:2])
    assert flat.method == "PCA" and "up to 50 samples" in flat.note
    assert abs(np.corrcoef(flat.points[:, 0], X[:, 0])[0, 1]) > 0.99
    np.testing.assert_allclose(flat.centres, flat.points[:2], atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "d"), [(1, 3), (2, 3), (5, 4), (12, 200), (40, 1), (30, 2)], ids=str
)
def test_any_number_of_rows_and_dimensions_gets_a_map(rows: int, d: int) -> None:
    z = np.random.default_rng(0).normal(size=(rows, d))
    flat = projection.flatten(z, z[:1])
    assert flat.points.shape == (rows, 2) and flat.centres.shape == (1, 2)
    assert np.isfinite(flat.points).all()


def test_one_point_many_times_over_is_one_point() -> None:
    assert not projection.flatten(np.ones((40, 5)), np.ones((1, 5))).points.any()


def survey_of(est: Any, X: Any, **given: Any) -> tuple[Any, Gallery, Survey]:
    seen = view(est, X)
    gallery = Gallery(seen, Given(**given))
    return seen, gallery, Survey.of(seen, gallery)


def test_the_survey_counts_as_a_slow_loop_does(
    blobs: tuple[np.ndarray, np.ndarray], means: KMeans, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = blobs[0]
    monkeypatch.setattr(surveys, "CHUNK", 7 * X.shape[1])
    seen, _, survey = survey_of(means, X)
    assert sorted(survey.rows) == list(range(90)) and survey.rows.tolist() != list(range(90))
    np.testing.assert_array_equal(survey.labels, means.predict(X[survey.rows]))
    ordered = np.sort(means.transform(X[survey.rows]), axis=1)
    np.testing.assert_allclose(survey.margin, ordered[:, 1] - ordered[:, 0], atol=1e-9)
    mean, deviation = X.mean(0), X.std(0)
    features, values = survey.tops(seen)
    for row, found, numbers in zip(survey.rows, features, values, strict=True):
        far = [abs(X[row, f] - mean[f]) / deviation[f] for f in range(5)]
        assert list(found) == sorted(range(5), key=lambda f, far=far: -far[f])[:3]
        np.testing.assert_allclose(numbers, X[row, found])


def test_a_sample_is_drawn_where_there_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).random((300, 4))
    est = KMeans(2, n_init=1, random_state=0).fit(X)
    monkeypatch.setattr(surveys, "MOST_ROWS", 40)
    rows = survey_of(est, X)[2].rows
    assert len(set(rows)) == 40 and rows.max() > 100
    np.testing.assert_array_equal(rows, survey_of(est, X)[2].rows)
    monkeypatch.setattr(surveys, "MOST_VALUES", 4 * 10)
    assert len(survey_of(est, X)[2].rows) == 10


def test_two_features_are_their_own_map() -> None:
    X = np.random.default_rng(0).random((30, 2))
    est = KMeans(2, n_init=1, random_state=0).fit(X)
    seen, _, survey = survey_of(est, X)
    flat = place(seen, survey)
    np.testing.assert_array_equal(flat.points, X[survey.rows])
    np.testing.assert_allclose(flat.centres, est.cluster_centers_)


def test_what_is_shown_as_an_image() -> None:
    rng = np.random.default_rng(0)

    def shape(X: Any, named: bool = False) -> Any:
        return picture_shape(view(KMeans(2, n_init=1, random_state=0).fit(X), X), named)

    assert shape(rng.random((9, 64))) == (1, 8, 8)
    assert shape(rng.random((9, 64)), named=True) is None
    assert shape(rng.random((9, 63))) is None and shape(rng.random((9, 49))) is None
    assert shape(rng.normal(size=(9, 64))) is None  # an embedding, not brightness


# What the page holds -------------------------------------------------------------------------


def test_a_page_of_images(tell: TELL, tell_page: Page, digits: np.ndarray) -> None:
    page = tell_page
    assert page.found[0][0] == "html" and '<h1 dir="auto">Five kinds</h1>' in page.text
    assert sorted(page.cards()) == list(range(5))
    assert {"map", "clusters", "ambiguity", "training", "k-means", "labels"} <= page.ids()
    assert "TELL sorted 240 images of 8 × 8 pixels into 5 clusters" in page.prose
    assert "2, number" in page.prose and "random_state=0" in page.prose
    points = page.data["points"]
    assert sorted(points["row"]) == list(range(240))
    labels = tell.predict(digits.reshape(-1, 8, 8))
    assert [labels[row] for row in points["row"]] == points["c"]
    assert points["atlas"]["tiles"] == 240 and points["top"] is None
    drawn = {"map", "losses", "changed", "sizes", "margins"}
    assert page.data["charts"].keys() == drawn and drawn <= page.ids()


def test_pictures_are_those_of_the_rows(tell: TELL, tell_page: Page, digits: np.ndarray) -> None:
    sources = {
        str(attrs["alt"]): str(attrs["src"]) for tag, attrs in tell_page.found if tag == "img"
    }
    rows = [name for name in sources if name.startswith("row ")]
    assert len(rows) > 20
    for name in rows:
        row = digits[int(name.split()[1])].reshape(8, 8)
        np.testing.assert_allclose(shown(sources[name]), 255 * row / 16, atol=0.51)
    centre = np.clip(tell.prototypes_[2, 0], 0, 16)
    found = shown(sources["Decoded centre of cluster 2"])
    np.testing.assert_allclose(found, 255 * centre / 16, atol=0.51)
    later = 255 * np.asarray(tell.history_[5]["snapshot"]["prototypes"])[1, 0]
    film = shown(sources["centre 1 in epoch 6"])
    np.testing.assert_allclose(film, np.clip(later, 0, 255), atol=0.51)


def test_a_page_of_a_table(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(size=(90, 5))
    X = pd.DataFrame(noise, columns=[f"column {i}" for i in range(5)])
    X["column 3"] += 40.0 * (np.arange(90) % 2)
    est = KMeans(2, n_init=1, random_state=0).fit(X)
    ids = pd.Series([f"person {i}" for i in range(90)], index=range(500, 590))
    page = Page(write_report(est, X, tmp_path / "page.html", ids=ids))
    assert {"training", "k-means", "labels"}.isdisjoint(page.ids())  # k-means has none of it
    tops = re.findall(r'<th scope="row"><bdi title="(column \d)">', page.text)
    assert len(tops) == 10 and tops[0] == tops[5] == "column 3"
    points = page.data["points"]
    assert points["ids"] == [f"person {row}" for row in points["row"]]
    first = points["top"]["rows"][0]
    name = points["top"]["names"][first[0]]
    assert first[3] == pytest.approx(X[name].iloc[points["row"][0]], rel=1e-2)


def test_texts_and_words(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(rng.random((60, 64)) * (rng.random((60, 64)) < 0.2))
    texts = [f"text number {i}" for i in range(60)]
    est = KMeans(2, n_init=1, random_state=0).fit(X)
    words = [f"word{i}" for i in range(64)]
    path = tmp_path / "page.html"
    page = Page(write_report(est, X, path, feature_names=words, texts=texts))
    points = page.data["points"]
    assert points["texts"] == [f"text number {row}" for row in points["row"]]
    assert points["atlas"] is None and "text number" in page.prose and "word" in page.prose
    assert not [tag for tag, _ in page.found if tag == "img"]


def test_of_words_those_that_are_there_come_first() -> None:
    """Also where more of them are missing; of other features the largest difference does."""
    X = (np.random.default_rng(0).random((80, 20)) < 0.15).astype(float)
    X[:30, :3], X[:30, 5:] = 1, 0
    est = KMeans(2, n_init=1, random_state=0).fit(X)
    seen = view(est, X)
    assert Gallery(seen, Given()).counts and not Gallery(view(est, X - 0.1), Given()).counts
    cluster = explain(est, X, rules=False).clusters[est.labels_[0]]
    shifts = [f["shift"] for f in sections.profile(cluster, True)]
    assert [shift > 0 for shift in shifts] == sorted((s > 0 for s in shifts), reverse=True)
    assert {f["name"] for f in sections.profile(cluster, True)[:3]} == {"x0", "x1", "x2"}
    plain = [abs(f["shift"]) for f in sections.profile(cluster, False)]
    assert plain == sorted(plain, reverse=True)


def test_a_mean_that_is_round_off_is_nothing() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3)) * [1, 1e-8, 1e8]
    X -= X.mean(0)
    est = KMeans(2, n_init=1, random_state=0).fit(X)
    for cluster in explain(est, X, rules=False).clusters:
        told = sections.profile(cluster, False)
        assert all(f["overall"] == 0 and f["mean"] != 0 for f in told) and len(told) == 3


def test_clusters_of_one_size(tmp_path: Path) -> None:
    X = np.repeat(np.eye(3), 5, axis=0)
    est = KMeans(3, n_init=1, random_state=0).fit(X)
    page = Page(write_report(est, X, tmp_path / "page.html"))
    assert "into 3 clusters of the same size." in page.prose


def test_pictures_of_rows_that_are_no_pixels(
    blobs: tuple[np.ndarray, np.ndarray], means: KMeans, tmp_path: Path
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (90, 6, 6, 3), dtype=np.uint8)
    page = Page(write_report(means, blobs[0], tmp_path / "page.html", images=images))
    sources = [attrs for tag, attrs in page.found if tag == "img"]
    assert sources and all(str(a["alt"]).startswith("row ") for a in sources)  # nothing decoded
    for attrs in sources:
        row = int(str(attrs["alt"]).split()[1])
        np.testing.assert_allclose(shown(str(attrs["src"])), images[row], atol=1)
    assert page.data["points"]["top"] is not None and "differs most in" in page.prose


def test_labels_stand_apart_and_change_nothing_else(
    tell: TELL, tell_page: Page, digits: np.ndarray, tmp_path: Path
) -> None:
    X, y = digits.reshape(-1, 8, 8), load_digits().target[:240]
    without = Page(write_report(tell, X, tmp_path / "page.html", title="Five kinds"))
    assert "labels" not in without.ids() and without.data == tell_page.data
    head, tail = tell_page.text.split('<section id="labels"')
    stamp = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC")
    head = stamp.sub("", head.replace('<a href="#labels">Labels</a>', ""))
    assert stamp.sub("", without.text).startswith(head.rstrip())
    labels = tell.predict(X)
    for measure in (metrics.clustering_accuracy, metrics.nmi, metrics.ari):
        assert f"<td>{measure(y, labels):.3f}</td>" in tail


def test_the_confusion_matrix_is_scikit_learns(
    tell: TELL, digits: np.ndarray, tmp_path: Path
) -> None:
    X, y = digits.reshape(-1, 8, 8), load_digits().target[:240]
    truth = compare.Truth.of(view(tell, X), y, None)
    expected = confusion_matrix(y, tell.predict(X), labels=range(10)).T[:5]
    order = [int(name) for name in truth.table.columns]
    np.testing.assert_array_equal(truth.table.counts, expected[:, order])
    kept = np.trace(truth.table.counts) / 240
    assert kept == pytest.approx(metrics.clustering_accuracy(y, tell.predict(X)))


def test_k_means_beside_it_is_scikit_learns(tell: TELL, digits: np.ndarray) -> None:
    seen, _, survey = survey_of(tell, digits.reshape(-1, 8, 8))
    rival = compare.Rival.of(seen, survey)
    assert rival is not None
    unit = digits[survey.rows] / 16
    plain = KMeans(5, n_init=3, random_state=0).fit(unit.astype(np.float32))
    assert metrics.ari(rival.labels, plain.labels_) > 0.999
    every = compare.every_label(seen, rival)
    assert metrics.ari(every["k-means on the input"][survey.rows], rival.labels) > 0.999
    np.testing.assert_array_equal(every["TELL"], tell.predict(digits.reshape(-1, 8, 8)))


def test_a_table_too_large_to_read_is_left_out() -> None:
    names = [str(i) for i in range(41)]
    assert not compare.Table.of(np.arange(41), np.arange(41), names, names).readable
    lines = compare.Table.of(np.zeros(4, int), np.array([0, 0, 1, 1]), ["a"], ["b", "c"]).lines()
    assert lines == [("a", [(2, 0.5), (2, 0.5)])]


def test_charts_of_a_long_fit_are_thinned_and_skip_what_is_not_a_number() -> None:
    history = [
        {"epoch": i, "loss": 1.0 + i, "clustering": float("nan"), "changed": 0.1, "sizes": [3, i]}
        for i in range(2001)
    ]
    short = training.thinned(history)
    assert 300 < len(short) < 402 and short[-1]["at"] == 2001
    found = training.charts(short, 2)
    values = found["losses"][1]["data"]["values"]
    assert {v["series"] for v in values} == {"total"} and values[0] == {
        "epoch": 1, "series": "total", "value": 1.0,
    }  # fmt: skip
    assert found["sizes"][1]["encoding"]["color"]["scale"]["domain"] == ["0", "1"]
    assert "sizes" not in training.charts(short, 41)
    assert not training.charts([{"epoch": 0, "at": 1}], 2)
    assert training.terms([{"hsic": -1.0, "moved": 0.1, "value": 2.0, "loss": -1.0}]) == ["hsic"]


@pytest.mark.parametrize(
    ("numbers", "ticks"),
    [([2e-4, 3.0], [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]), ([2.0, 5.0], [1, 3, 10, 30])],
)
def test_ticks_of_a_logarithmic_scale(numbers: list[float], ticks: list[float]) -> None:
    np.testing.assert_allclose(chart.tens(numbers), ticks)


def test_bars_count_every_row() -> None:
    counts, edges = [0, 3, 4, 0, 1, 0, 0], [i / 10 for i in range(8)]
    bars = chart.bars(counts, edges)
    assert [b["rows"] for b in bars] == [0, 3, 4, 0, 1] and bars[-1]["to"] == 0.5
    many = chart.bars([1] * 63 + [2], [float(i) for i in range(65)])
    assert len(many) == 32 and sum(b["rows"] for b in many) == 65 and many[-1]["to"] == 64


# Nothing outside itself ----------------------------------------------------------------------


def test_nothing_outside_itself(tell_page: Page) -> None:
    for tag, attrs in tell_page.found:
        assert tag not in {"link", "iframe", "object", "embed", "base", "form"}
        for name, value in attrs.items():
            assert not name.startswith("on")
            if name in {"src", "href", "xlink:href", "action", "srcset", "poster"}:
                assert str(value).startswith(("#", "data:image/png;base64,"))
    (style,) = re.findall(r"<style>(.*?)</style>", tell_page.text, re.S)
    assert not re.search(r"@import|url\(|https?:", style)


def test_the_policy_allows_the_pages_own_scripts_and_nothing_else(tell_page: Page) -> None:
    (policy,) = (str(attrs["content"]) for _, attrs in tell_page.found if attrs.get("http-equiv"))
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["img-src"] == "data:"
    assert "connect-src" not in rules and "unsafe" not in rules["script-src"]
    for kind, code in tell_page.scripts:
        if kind is None:
            digest = b64encode(sha256(code.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in rules["script-src"]
    assert len(tell_page.scripts) == 5 and rules["script-src"].count("sha256") == 4
    head = tell_page.text.index("Content-Security-Policy")
    assert head < tell_page.text.index("<script") and "sourceMappingURL" not in tell_page.text


def test_the_libraries_have_their_licences_beside_them() -> None:
    vendor = files("pellucid.report") / "vendor"
    libraries = [f.name for f in vendor.iterdir() if f.name.endswith(".min.js")]
    assert len(libraries) == 3
    for name in libraries:
        licence = (vendor / f"LICENSE.{name.removesuffix('.min.js')}").read_text()
        assert "Redistribution and use" in licence
        assert name in (vendor / "README.md").read_text()


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_shown_as_text(text: str, tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((30, 2))
    est = KMeans(3, n_init=1, random_state=0).fit(X)
    rows = [text] * 30
    given = {"feature_names": [text, "b"], "texts": rows, "ids": rows, "y": rows}
    page = Page(write_report(est, X, tmp_path / "page.html", title=text, **given))
    plain = Page(write_report(est, X, tmp_path / "plain.html"))
    assert [k for k, _ in page.scripts] == [k for k, _ in plain.scripts]
    assert {tag for tag, _ in page.found} <= {tag for tag, _ in plain.found} | {"bdi", "p"}
    assert {a for _, attrs in page.found for a in attrs} <= {
        a for _, attrs in plain.found for a in attrs
    } | {"title", "tabindex", "role"}
    points = page.data["points"]
    assert points["ids"] == [one_line(text, 120)] * 30
    assert points["texts"] == [one_line(text, 400)] * 30
    assert one_line(text, 120) in page.prose or "\u202e" in text


def test_what_is_left_of_a_text() -> None:
    assert one_line("a\n b\tc", 9) == "a b c"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"
    assert one_line("\ud800 half \x00\u202e", 20) == "\ufffd half \ufffd\ufffd"
    assert one_line("👩\u200d🔬 é", 20) == "👩\u200d🔬 é"


# Bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"feature_names": ["a"]}, "feature_names has 1 names, but X has 5 features"),
        ({"images": np.zeros((3, 4, 4))}, "images has 3 entries, but X has 90 rows"),
        ({"texts": ["a"]}, "texts has 1 entries, but X has 90 rows"),
        ({"ids": range(91)}, "ids has 91 entries, but X has 90 rows"),
        ({"y": [0, 1]}, r"y has shape \(2,\), but X has 90 rows"),
        ({"y": np.zeros((90, 2))}, r"y has shape \(90, 2\)"),
    ],
)
def test_wrong_lengths_are_named_and_nothing_is_written(
    given: dict[str, Any], said: str, blobs: tuple[np.ndarray, np.ndarray], means: KMeans,
    tmp_path: Path,
) -> None:  # fmt: skip
    with pytest.raises(ValueError, match=said):
        write_report(means, blobs[0], tmp_path / "page.html", **given)
    assert os.listdir(tmp_path) == []


def test_not_fitted(tmp_path: Path) -> None:
    for est in (KMeans(2), TELL(2)):
        with pytest.raises(NotFittedError):
            write_report(est, np.zeros((3, 2)), tmp_path / "page.html")
    assert os.listdir(tmp_path) == []


def test_one_cluster(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((20, 4))
    for est in (KMeans(1, n_init=1, random_state=0), small_tell(n_clusters=1)):
        page = Page(write_report(est.fit(X), X, tmp_path / "page.html", y=np.zeros(20)))
        assert page.cards() == [0] and "into one cluster" in page.prose
        assert "ambiguity" not in page.ids() and "k-means" not in page.ids()


def test_an_empty_cluster_says_so(blobs: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    est = KMeans(3, n_init=1, random_state=0).fit(blobs[0])
    est.cluster_centers_[2] = 1e3
    page = Page(write_report(est, blobs[0], tmp_path / "page.html", y=blobs[1]))
    assert "No sample chose this centre." in page.prose and "one is empty" in page.prose
    assert {c for *_, c in page.data["points"]["centres"]} == {0, 1}


def test_five_thousand_clusters(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((5050, 3)).astype(np.float32)
    how = {"init": X[:5000], "n_init": 1, "max_iter": 1, "batch_size": 5050}
    est = MiniBatchKMeans(5000, **how, random_state=0).fit(X)
    path = write_report(est, X, tmp_path / "page.html", y=np.arange(5050) % 7)
    page = Page(path)
    assert len(page.cards()) == 200 and path.stat().st_size < 6e6
    assert "The 200 largest of 5,000 clusters have a card." in page.prose
    assert "is too large to be read" in page.prose
    picks = {int(a["data-cluster"]) for _, a in page.found if a.get("class") == "pick"}
    assert picks == {*page.cards()} == {c for *_, c in page.data["points"]["centres"]}


def test_constant_features(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((40, 3))
    X[:, 1] = 7
    for rows in (X, np.ones((40, 3))):
        est = KMeans(2, n_init=1, random_state=0)
        est.fit(X)
        page = Page(write_report(est, rows, tmp_path / "page.html"))
        assert "x1" not in re.findall(r'scope="row"><bdi title="(x\d)">', page.text)


def test_unwritable_paths_are_named_before_X_is_read(means: KMeans, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is a directory: name a file in it"):
        write_report(means, None, tmp_path)
    with pytest.raises(ValueError, match=r"nowhere is not a directory: create it"):
        write_report(means, None, tmp_path / "nowhere" / "page.html")


def test_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ValueError, match="cannot be written to"):
        writable(tmp_path / "page.html")


def test_a_failed_write_leaves_the_old_page(
    blobs: tuple[np.ndarray, np.ndarray], means: KMeans, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    path = tmp_path / "page.html"
    path.write_text("old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ValueError, match="No space left on device"):
        write_report(means, blobs[0], path)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["page.html"]


# Other ways in -------------------------------------------------------------------------------


def test_from_the_command_line(
    tell: TELL, digits: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell.save(tmp_path / "run")
    np.save(tmp_path / "digits.npy", digits.reshape(-1, 8, 8))
    np.save(tmp_path / "y.npy", load_digits().target[:240])
    (tmp_path / "ids.txt").write_text("\n".join(f"digit {i}" for i in range(240)))
    command = ["report", str(tmp_path / "run"), str(tmp_path / "digits.npy"), "--title", "A <b>"]
    files = ["--labels", str(tmp_path / "y.npy"), "--ids", str(tmp_path / "ids.txt")]
    assert main([*command, "-o", str(tmp_path / "page.html"), *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["clusters"] == 5
    page = Page(tmp_path / "page.html")
    assert (
        "A <b>" in page.words and "labels" in page.ids() and "digit 7" in page.data["points"]["ids"]
    )
    assert main([*command, "-o", str(tmp_path / "nowhere" / "page.html")]) == 2
    assert "create it, or write elsewhere" in capsys.readouterr().err
    assert main([*command, "-o", str(tmp_path / "page.html"), "--texts", "absent.txt"]) == 2
    assert "absent.txt does not exist" in capsys.readouterr().err


def test_the_demo_asks_for_its_file_before_it_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.main(["--out", str(tmp_path / "nowhere" / "page.html")]) == 2
    assert "create it, or write elsewhere" in capsys.readouterr().err


def test_the_tables_of_the_demo(tell: TELL, digits: np.ndarray) -> None:
    head, *rows = demo.table(tell, digits.reshape(-1, 8, 8)).strip().splitlines()
    assert head.split()[:3] == ["cluster", "size", "share"]
    sizes = np.bincount(tell.labels_, minlength=5).tolist()
    assert [int(row.split()[1]) for row in rows] == sizes
    scores = demo.comparison(tell.labels_, {"same": (tell.labels_ + 1) % 5})
    assert scores.split() == ["ACC", "NMI", "ARI", "same", "1.000", "1.000", "1.000"]
