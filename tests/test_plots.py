"""Figures: what is drawn is what was fitted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from tests.helpers import ROWS, SQUARES, small_tell

from pellucid import TELL, KernelNet, plots
from pellucid.explain import explain
from pellucid.report.colours import colour


@pytest.fixture(autouse=True)
def no_window() -> Iterator[None]:
    matplotlib.use("Agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def tell() -> TELL:
    return small_tell(max_iter=6).fit(ROWS)


CALLS = {
    "embedding": lambda est, ax: plots.plot_embedding(est, ROWS, ax=ax),
    "prototypes": lambda est, ax: plots.plot_prototypes(est, ROWS, ax=ax),
    "history": lambda est, ax: plots.plot_history(est, ax=ax),
    "sizes": lambda est, ax: plots.plot_sizes(est, ax=ax),
    "sizes by epoch": lambda est, ax: plots.plot_sizes(est, epochs=True, ax=ax),
    "kernel": lambda est, ax: plots.plot_kernel(np.eye(96), labels=est.labels_, ax=ax),
    "profile": lambda est, ax: plots.plot_profile(est, 0, ROWS, ax=ax),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_axes_goes_in_or_none_and_comes_out(name: str, tell: TELL) -> None:
    ax = pyplot.subplots()[1]
    assert CALLS[name](tell, ax) is ax and ax.has_data()
    assert len(pyplot.get_fignums()) == 1
    fresh = CALLS[name](tell, None)
    assert fresh is not ax and len(pyplot.get_fignums()) == 2
    fresh.figure.canvas.draw()


def test_the_embedding_has_every_row_in_its_colour_and_every_centre(tell: TELL) -> None:
    dots, pentagons = plots.plot_embedding(tell, ROWS).collections
    shades = [to_hex(rgba[:3]) for rgba in dots.get_facecolor()]
    counts = {colour(j): int((tell.labels_ == j).sum()) for j in range(3)}
    assert {shade: shades.count(shade) for shade in set(shades)} == counts
    assert len(pentagons.get_offsets()) == 3
    nearest = np.linalg.norm(dots.get_offsets() - pentagons.get_offsets()[1], axis=1).argmin()
    assert shades[nearest] == colour(1)


def test_prototypes_of_pictures_stand_above_their_nearest_samples() -> None:
    est = small_tell(max_iter=2).fit(SQUARES)
    image = plots.plot_prototypes(est, SQUARES).images[0].get_array()
    assert image.shape == (20, 30)
    told = explain(est, SQUARES, rules=False)
    lo, hi = SQUARES.min(), SQUARES.max()
    for j, cluster in enumerate(told.clusters):
        above, below = image[1:9, 10 * j + 1 : 10 * j + 9], image[11:19, 10 * j + 1 : 10 * j + 9]
        expected = np.clip((est.prototypes_[j, 0] - lo) / (hi - lo), 0, 1)
        np.testing.assert_allclose(above, expected, atol=1e-6)
        if cluster.size:
            near = (SQUARES[cluster.central[0].row, 0] - lo) / (hi - lo)
            np.testing.assert_allclose(below, near, atol=1e-6)


def test_prototypes_of_a_table_are_a_table() -> None:
    X = load_iris(as_frame=True).data
    est = KMeans(3, n_init=1, random_state=0).fit(X)
    ax = plots.plot_prototypes(est, X)
    values = ax.images[0].get_array()
    np.testing.assert_array_equal(values.argmax(0), est.cluster_centers_.argmax(0))
    assert values.min() == 0 and values.max() == 1
    assert [t.get_text() for t in ax.get_xticklabels()] == list(X.columns)


def test_the_history_is_the_recorded_one(tell: TELL) -> None:
    ax = plots.plot_history(tell)
    lines = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    np.testing.assert_array_equal(lines["total"], [record["loss"] for record in tell.history_])
    assert {"total", "reconstruction"} <= lines.keys() and ax.get_yscale() == "log"


def test_sizes(tell: TELL) -> None:
    bars = [bar.get_height() for bar in plots.plot_sizes(tell).patches]
    assert bars == np.bincount(tell.labels_, minlength=3).tolist()
    lines = [line.get_ydata() for line in plots.plot_sizes(tell, epochs=True).get_lines()]
    np.testing.assert_array_equal(np.transpose(lines)[-1], tell.history_[-1]["sizes"])
    assert len(lines[0]) == 6  # without the two epochs before clusters count


def test_a_kernel_is_sorted_by_cluster() -> None:
    labels = np.array([2, 0, 1, 0, 2, 1, 1])
    kernel = (labels[:, None] == labels) + 0.01 * np.arange(7)
    ax = plots.plot_kernel(kernel, labels=labels)
    order = [1, 3, 2, 5, 6, 0, 4]
    np.testing.assert_array_equal(ax.images[0].get_array(), kernel[np.ix_(order, order)])
    lines = ax.collections[0].get_segments()
    assert [segment[0][1] for segment in lines] == [1.5, 4.5]
    est = KernelNet(3, max_iter=1, inner=2, random_state=0).fit(ROWS)
    order = np.argsort(est.predict(ROWS), kind="stable")
    shown = plots.plot_kernel(est, ROWS).images[0].get_array()
    np.testing.assert_array_equal(shown, est.kernel(ROWS)[np.ix_(order, order)])


def test_a_profile_is_that_of_the_explanation(tell: TELL) -> None:
    told = explain(tell, ROWS, rules=False)
    ax = plots.plot_profile(told, 1)
    lengths = [bar.get_width() for bar in ax.patches][::-1]
    assert lengths == [shift.standardised for shift in told.clusters[1].profile]
    assert [t.get_text() for t in ax.get_yticklabels()][-1] == told.clusters[1].profile[0].name


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.plot_kernel(np.ones((3, 2))), r"shape \(3, 2\): pass a square one"),
        (lambda: plots.plot_kernel(np.eye(3), labels=[0, 1]), r"\(2,\), but the kernel has 3 rows"),
        (lambda: plots.plot_history(KMeans(2, n_init=1).fit(ROWS)), "KMeans keeps no history_"),
        (lambda: plots.plot_profile(explain(KMeans(2).fit(ROWS), ROWS), 2), "numbered 0 to 1"),
    ],
    ids=["square", "labels", "history", "cluster"],
)
def test_what_cannot_be_drawn(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_without_matplotlib(tell: TELL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'pellucid\[plot\]'"):
        plots.plot_sizes(tell)
