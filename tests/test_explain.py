"""Explanations against slow oracles, for every estimator, and for what cannot be explained."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import DBSCAN, BisectingKMeans, KMeans, MiniBatchKMeans
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from tests.helpers import ROWS, SMALL, SQUARES, Fused, small_tell
from tests.oracles import explain as oracle
from torch.utils.data import TensorDataset

from pellucid import PCX, TELL, DeepKMeans, KernelNet, KMeansNet, load
from pellucid.explain import explain
from pellucid.explain.ambiguity import Histogram
from pellucid.explain.stability import best_match

DEEP = {"autoencoder": SMALL, "pretrain": 1, "max_iter": 2, "random_state": 0}
ESTIMATORS = [
    TELL(3, n_init=2, **DEEP),
    KMeansNet(3, **DEEP),
    DeepKMeans(3, **DEEP),
    PCX(3, **DEEP),
    KernelNet(3, max_iter=1, inner=2, random_state=0),
    KMeans(3, n_init=1, random_state=0),
    MiniBatchKMeans(3, n_init=1, random_state=0),
]
each_estimator = pytest.mark.parametrize("est", ESTIMATORS, ids=lambda est: type(est).__name__)


@pytest.fixture(scope="module")
def wine():
    return load_wine(as_frame=True).data


@pytest.fixture(scope="module")
def kmeans(wine):
    return KMeans(4, n_init=1, random_state=0).fit(wine)


@pytest.fixture(scope="module")
def found(kmeans, wine):
    return explain(kmeans, wine)


# What every estimator's explanation says -----------------------------------------------------


@each_estimator
def test_an_explanation_agrees_with_the_estimator(est, recwarn):
    est = est.fit(ROWS)
    found, labels = explain(est, ROWS, n_exemplars=4), est.predict(ROWS)
    np.testing.assert_array_equal(found.sizes, np.bincount(labels, minlength=3))
    assert (found.method, found.n, found.sample_shape) == (type(est).__name__, 96, (8,))
    for cluster in found.clusters:
        shown = [*cluster.central, *cluster.boundary, *cluster.untypical]
        assert {s.cluster for s in shown} <= {cluster.index}
        assert (labels[[s.row for s in shown]] == cluster.index).all()
        assert len(cluster.central) == min(4, cluster.size)
        np.testing.assert_allclose(
            cluster.prototype, getattr(est, "prototypes_", est.cluster_centers_)[cluster.index]
        )
    json.dumps(found.to_dict(), allow_nan=False)
    assert len(found.to_frame()) == 3
    assert not recwarn.list


@each_estimator
def test_distances_and_entropies_are_those_of_the_estimator(est):
    est = est.fit(ROWS)
    distances = est.distances(ROWS) if hasattr(est, "distances") else est.transform(ROWS)
    for sample in explain(est, ROWS).ambiguity.least_certain:
        near = np.sort(distances[sample.row])
        assert sample.distance == pytest.approx(near[0], abs=1e-4)
        assert sample.margin == pytest.approx(near[1] - near[0], abs=1e-4)
        assert sample.second == np.argsort(distances[sample.row])[1]
        if hasattr(est, "predict_proba"):
            s = est.predict_proba(ROWS)[sample.row]
            assert sample.entropy == pytest.approx(-(s * np.log(s)).sum(), abs=1e-4)


def test_the_method_is_the_function():
    est = small_tell().fit(ROWS)
    assert est.explain(ROWS, n_exemplars=2).to_dict() == explain(est, ROWS, n_exemplars=2).to_dict()


def test_nothing_that_was_given_changes():
    est, X = small_tell().fit(ROWS), ROWS.copy()
    before = {name: repr(value) for name, value in vars(est).items()}
    explain(est, X)
    np.testing.assert_array_equal(X, ROWS)
    assert {name: repr(value) for name, value in vars(est).items()} == before


# Against loops -------------------------------------------------------------------------------


def test_exemplars_are_those_of_a_loop(kmeans, wine, found):
    X, tau = wine.to_numpy(), kmeans.inertia_ / len(wine)
    stands = [oracle.stand(x, kmeans.cluster_centers_, tau) for x in X]
    labels, distance, margin, second, entropy, position = map(np.array, zip(*stands, strict=True))
    for c in found.clusters:
        for name, keys in [("central", distance), ("boundary", margin), ("untypical", -distance)]:
            shown = getattr(c, name)
            assert [s.row for s in shown] == oracle.exemplars(X, labels, keys, c.index, 5), name
            for s in shown:
                told = s.distance, s.margin, s.entropy
                expected = distance[s.row], margin[s.row], entropy[s.row]
                assert told == pytest.approx(expected, rel=1e-9, abs=1e-9)
                assert s.second == second[s.row]
        members = labels == c.index
        assert c.spread == pytest.approx(np.sqrt(np.mean(distance[members] ** 2)))
        others = np.bincount(second[members], minlength=4)
        assert dict(c.neighbours) == {j: n for j, n in enumerate(others) if n}
        assert [n for _, n in c.neighbours] == sorted(others[others > 0], reverse=True)
    near = position < 0.2
    for a, b, rows in found.ambiguity.pairs:
        there = [sorted(pair) == [a, b] for pair in zip(labels, second, strict=True)]
        assert rows == np.sum(near & there)
    assert sum(rows for *_, rows in found.ambiguity.pairs) == near.sum()
    assert [s.row for s in found.ambiguity.least_certain] == np.argsort(margin)[:10].tolist()


def test_the_histogram_counts_every_margin(found, kmeans, wine):
    near = np.sort(kmeans.transform(wine.rename(columns=str)), axis=1)
    counts, _ = np.histogram(near[:, 1] - near[:, 0], found.ambiguity.edges)
    np.testing.assert_array_equal(found.ambiguity.margins, counts)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.floats(0, 1e6), min_size=1, max_size=20), min_size=1, max_size=8))
def test_a_histogram_that_grows_loses_nothing(pieces):
    grown = Histogram(8)
    for piece in pieces:
        grown.take(np.array(piece))
    values = np.concatenate([np.array(p) for p in pieces])
    assert grown.counts.sum() == len(values)
    top = np.flatnonzero(grown.counts)[-1]
    assert grown.edges[top] <= values.max() * (1 + 1e-9)
    assert values.max() <= grown.edges[-1] * (1 + 1e-9)


def test_profiles_are_those_of_a_loop(found, kmeans, wine):
    for c in found.clusters:
        expected = oracle.profile(wine.to_numpy(), kmeans.labels_, c.index)
        sizes = [abs(shift.standardised) for shift in c.profile]
        assert sizes == sorted(sizes, reverse=True) and len(sizes) == 13
        for shift in c.profile:
            assert shift.name == wine.columns[shift.feature]
            told = shift.mean, shift.overall, shift.standardised
            assert told == pytest.approx(expected[shift.feature], rel=1e-9)
            assert c.difference[shift.feature] == pytest.approx(shift.mean - shift.overall)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=60))
def test_jaccard_is_that_of_sets(pairs):
    reference, labels = (np.array(part) for part in zip(*pairs, strict=True))
    score, match = best_match(reference, labels, 5)
    for j in range(5):
        assert score[j] == pytest.approx(oracle.jaccard(reference.tolist(), labels.tolist(), j))
        inside = (reference == j) & (labels == match[j])
        assert (match[j] == -1) == (not (reference == j).any())
        assert match[j] == -1 or inside.any()


def test_stability_counts_restarts():
    est, rng = small_tell(init="random", n_init=2).fit(ROWS), np.random.default_rng(0)
    noise = [np.where(rng.random(96) < p, rng.integers(3, size=96), est.labels_) for p in (0.2, 1)]
    est.restart_labels_ = np.stack([noise[1], est.labels_, noise[0], 2 - est.labels_])
    est.best_restart_ = 1
    found = explain(est, ROWS)
    others = np.delete(est.restart_labels_, est.best_restart_, axis=0).tolist()
    mine = est.restart_labels_[est.best_restart_].tolist()
    for c in found.clusters:
        scores = [oracle.jaccard(mine, labels, c.index) for labels in others]
        assert c.stability == pytest.approx(np.mean(scores))
        assert c.appears == (sum(s >= 0.5 for s in scores), 3)
    weights = [c.size for c in found.clusters]
    assert found.stability == pytest.approx(
        np.average([c.stability for c in found.clusters], weights=weights)
    )
    assert {c.appears for c in found.clusters} == {(2, 3)}  # a random labelling finds none of them
    assert found.ambiguity.kept_in == "3 other restarts"
    assert explain(est, ROWS[:50]).ambiguity.kept_in == "20 bootstrap draws"  # other rows


def test_without_restarts_the_bootstrap_speaks(found):
    assert found.stability is None and found.clusters[0].appears is None
    kept = found.ambiguity.kept
    assert "bootstrap" in found.ambiguity.kept_in and "not probabilities" in found.ambiguity.note
    assert len(kept) == 10 and kept[0] < kept[-1] == 1


# Every kind of data --------------------------------------------------------------------------


def test_equal_rows_are_shown_once():
    X = np.repeat(np.random.default_rng(0).normal(size=(12, 3)), 5, axis=0)
    est = KMeans(2, n_init=1, random_state=0).fit(X)
    for c in explain(est, X).clusters:
        for shown in (c.central, c.boundary, c.untypical):
            assert len({X[s.row].tobytes() for s in shown}) == len(shown) == min(5, c.size // 5)
            assert all(s.row % 5 == 0 for s in shown)


def test_sparse_rows_and_frames_say_the_same(kmeans, wine, found):
    plain = KMeans(4, n_init=1, random_state=0).fit(wine.to_numpy())
    names = list(wine.columns)
    a = explain(plain, sparse.csr_matrix(wine.to_numpy()), feature_names=names)
    b = explain(plain, wine.to_numpy(), feature_names=names)
    assert a.to_dict() == b.to_dict() == found.to_dict()
    assert explain(plain, wine.to_numpy()).feature_names[:2] == ["x0", "x1"]


def test_a_model_that_was_saved_says_the_same(tmp_path):
    est = small_tell(n_init=2).fit(ROWS)
    est.save(tmp_path / "model")
    assert explain(load(tmp_path / "model"), ROWS).to_dict() == explain(est, ROWS).to_dict()


def test_tensors_and_datasets_say_the_same():
    est = small_tell().fit(ROWS)
    found = explain(est, ROWS).to_dict()
    x = torch.from_numpy(ROWS)
    assert explain(est, x).to_dict() == explain(est, TensorDataset(x)).to_dict() == found
    assert explain(est, Fused(ROWS, Path("never"), 0, int)).to_dict() == found


def test_memory_does_not_grow_with_the_rows(tmp_path):
    """What Python holds beyond the file, for 40,000 rows and four times as many."""
    peaks = []
    for n in (40_000, 160_000):
        X = np.lib.format.open_memmap(tmp_path / f"{n}.npy", "w+", np.float32, (n, 16))
        X[:] = np.random.default_rng(0).normal(size=(n, 16))
        est = KMeans(4, n_init=1, max_iter=1, random_state=0).fit(X[:1000])
        tracemalloc.start()
        try:
            explain(est, X)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0], peaks


def test_what_is_shown_of_rows(kmeans, wine):
    n = len(wine)
    texts, ids = pd.Series([f"wine {i}" for i in range(n)], index=range(n, 2 * n)), range(100, 400)
    images = np.arange(n)[:, None, None] * np.ones((n, 2, 2))
    found = explain(kmeans, wine, texts=texts, ids=ids[:n], images=images)
    rows = {s.row for c in found.clusters for s in (*c.central, *c.boundary, *c.untypical)}
    assert found.texts.keys() == found.ids.keys() == found.images.keys() >= rows
    for row in rows:
        assert (found.texts[row], found.ids[row]) == (f"wine {row}", str(100 + row))
        assert found.images[row].shape == (2, 2) and found.images[row][0, 0] == row


def test_images_show_themselves():
    X = (SQUARES * 255).astype(np.uint8)
    est = small_tell().fit(X)
    found = explain(est, X)
    assert found.sample_shape == (1, 8, 8) and found.feature_names[9] == "pixel 1,1"
    for row, image in found.images.items():
        np.testing.assert_array_equal(image, X[row, 0])
    c = found.clusters[0]
    np.testing.assert_allclose(
        c.difference, X[est.labels_ == 0].mean(0) / 255 - X.mean(0) / 255, atol=1e-6
    )


def test_names_follow_the_layout_of_colour_images():
    X = np.random.default_rng(0).random((30, 8 * 9 * 3))
    est = small_tell(image_shape=(8, 9, 3)).fit(X)
    names = [f"{r} {c} {channel}" for r in range(8) for c in range(9) for channel in "rgb"]
    found = explain(est, X, feature_names=names)
    assert found.sample_shape == (3, 8, 9)
    assert found.feature_names[:6] == ["0 0 r", "0 1 r", "0 2 r", "0 3 r", "0 4 r", "0 5 r"]
    assert found.feature_names[9] == "1 0 r"
    assert next(iter(found.images.values())).shape == (8, 9, 3)
    for shift in found.clusters[0].profile:
        mean = X[:, names.index(shift.name)].mean()
        assert shift.overall == pytest.approx(mean)


# What goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize("est", [KMeans(3), TELL(3)], ids=lambda est: type(est).__name__)
def test_an_estimator_that_is_not_fitted(est):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        explain(est, ROWS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"feature_names": ["a"] * 12}, "12 names, but X has 13 features"),
        ({"texts": ["a"] * 3}, "texts has 3 entries, but X has 178 rows"),
        ({"ids": range(179)}, "ids has 179 entries"),
        ({"images": np.zeros((1, 2, 2))}, "images has 1 entries"),
        ({"n_exemplars": 0}, "n_exemplars=0"),
        ({"n_exemplars": 2.5}, "n_exemplars=2.5"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_options_that_do_not_fit(kmeans, wine, given, message):
    with pytest.raises(ValueError, match=message):
        explain(kmeans, wine, **given)


def test_data_that_does_not_fit(kmeans, wine):
    with pytest.raises(ValueError, match="feature names"):
        explain(kmeans, wine.iloc[:, ::-1])
    with pytest.raises(ValueError, match="3 features"):
        explain(KMeans(2, n_init=1).fit(ROWS), ROWS[:, :3])
    with pytest.raises(ValueError, match=r"NaN.*row 5"):
        explain(kmeans, wine.assign(ash=wine["ash"].mask(wine.index == 5)))


def test_what_is_not_made_of_nearest_centres():
    with pytest.raises(TypeError, match="DBSCAN has no cluster_centers_"):
        explain(DBSCAN().fit(ROWS), ROWS)
    with pytest.raises(TypeError, match="str is no estimator"):
        explain("model.pkl", ROWS)
    with pytest.raises(TypeError, match="by its own tree"):
        explain(BisectingKMeans(3).fit(ROWS), ROWS)
    with pytest.raises(TypeError, match="rules=5: use True, False or Questions"):
        explain(KMeans(3, n_init=1).fit(ROWS), ROWS, rules=5)


def test_a_single_row():
    found = explain(KMeans(3, n_init=1, random_state=0).fit(ROWS), ROWS[:1])
    assert found.sizes.sum() == 1 and found.rules.fidelity == 1
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_stream_of_batches_has_no_inertia():
    est = MiniBatchKMeans(3, n_init=1, random_state=0).partial_fit(ROWS[:50])
    least = explain(est, ROWS).ambiguity.least_certain
    assert all(0 <= sample.entropy <= np.log(3) + 1e-9 for sample in least)


def test_one_cluster():
    found = explain(KMeans(1, n_init=1).fit(ROWS), ROWS)
    (c,) = found.clusters
    assert (c.size, c.share, c.boundary, c.neighbours) == (96, 1.0, [], [])
    assert {(s.second, s.margin, s.entropy) for s in c.central} == {(-1, 0.0, 0.0)}
    assert found.ambiguity.pairs == found.ambiguity.least_certain == []
    assert found.ambiguity.margins.sum() == 96 and "one cluster" in found.ambiguity.note
    json.dumps(found.to_dict(), allow_nan=False)


def test_an_empty_cluster():
    est = KMeans(3, n_init=1, random_state=0).fit(ROWS)
    est.cluster_centers_[1] = 1e6
    found = explain(est, ROWS)
    c = found.clusters[1]
    assert (c.size, c.share, c.spread, c.central, c.profile, c.stability) == (0, 0, 0, [], [], None)
    assert not c.difference.any()
    json.dumps(found.to_dict(), allow_nan=False)


def test_constant_features():
    X = np.hstack([ROWS, np.full((96, 1), 0.1, np.float32)])
    for c in explain(KMeans(3, n_init=1, random_state=0).fit(X), X).clusters:
        shift = c.profile[-1]
        assert (shift.feature, shift.standardised) == (8, 0.0)
        assert shift.mean == shift.overall == pytest.approx(0.1)


def test_values_far_from_zero():
    """Where ||x||^2 leaves no digits for distances."""
    far = ROWS.astype(np.float64) + 1e9
    near, away = (KMeans(3, n_init=1, random_state=0).fit(X) for X in (ROWS, far))
    away.cluster_centers_ = near.cluster_centers_.astype(np.float64) + 1e9
    a, b = explain(near, ROWS), explain(away, far)
    for one, two in zip(a.clusters, b.clusters, strict=True):
        assert [s.row for s in one.central] == [s.row for s in two.central]
        assert one.spread == pytest.approx(two.spread, rel=1e-5)


def test_thousands_of_clusters():
    X = np.random.default_rng(0).normal(size=(6000, 4))
    est = KMeans(5000, n_init=1, max_iter=1, init=X[:5000], random_state=0)
    est.cluster_centers_, est._n_threads, est.n_features_in_ = X[:5000], 1, 4
    found = explain(est, X)
    assert found.sizes.sum() == 6000 and (found.sizes >= 1).all()
    assert [c.central[0].row for c in found.clusters] == list(range(5000))
