"""Trees, rules and contributions: against loops, bounds that the papers prove, and plain Python."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, make_blobs
from tests.helpers import ROWS, SMALL, SQUARES, small_tell
from tests.oracles import explain as oracle

from pellucid import PCX, TELL, Conv, DeepKMeans, KernelNet, KMeansNet
from pellucid.explain import (
    Questions,
    explain,
    gradient_times_input,
    integrated_gradients,
    latent_terms,
)
from pellucid.explain.rules import FEATURES
from pellucid.explain.trees import expand, fewest_mistakes, imm, plainest

DEEP = {"autoencoder": SMALL, "pretrain": 2, "max_iter": 3, "random_state": 0}
FITTED = [
    TELL(3, **DEEP, n_init=1),
    KMeansNet(3, **DEEP),
    DeepKMeans(3, **DEEP),
    PCX(3, **DEEP),
    KernelNet(3, max_iter=1, inner=2, random_state=0),
    TELL(3, scale="norm", n_init=1, **DEEP | {"autoencoder": "identity"}),
    TELL(3, scale="standard", n_init=1, **DEEP),
    KMeans(3, n_init=1, random_state=0),
]
each_fitted = pytest.mark.parametrize("est", FITTED, ids=lambda est: str(est)[:30])
ROWS_ASKED = [0, 5, 90, 17]


def blobs(n, features, k, seed=0):
    return make_blobs(n, features, centers=k, random_state=seed)[0]


@pytest.fixture(scope="module")
def iris():
    return load_iris(as_frame=True).data.set_axis(["a", "b", "c", "d"], axis=1)


@pytest.fixture(scope="module")
def kmeans(iris):
    return KMeans(3, n_init=1, random_state=0).fit(iris)


# Trees ---------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 5))
def test_the_first_cut_makes_the_fewest_mistakes(seed, k):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 6, size=(30, 3)).astype(float)
    labels = np.arange(30) % k
    means = np.stack([x[labels == j].mean(0) for j in range(k)])
    cut = fewest_mistakes(x, means[labels], means, np.ones(3))
    prices = [
        oracle.mistakes(x, means[labels], f, value)
        for f in range(3)
        for value in {*x[:, f], *means[:, f]}
        if means[:, f].min() <= value < means[:, f].max()
    ]
    assert cut.price[0] == min(prices)
    assert cut.price[0] == oracle.mistakes(x, means[labels], cut.feature, cut.threshold)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.integers(2, 6))
def test_imm_has_a_leaf_per_cluster_and_keeps_its_bound(seed, k):
    """Theorem 3 of the ICML paper: the cost is at most 8 k^2 + 2 times that of the centres."""
    x = np.random.default_rng(seed).normal(size=(60, 3))
    est = KMeans(k, n_init=1, random_state=0, tol=0).fit(x)
    tree = imm(x, est.labels_, k)
    assert sorted(leaf.cluster for leaf in tree.leaves()) == list(range(k))
    cost = oracle.tree_cost(x, tree.predict(x), est.cluster_centers_)
    assert est.inertia_ * (1 - 1e-9) <= cost <= (8 * k**2 + 2) * est.inertia_


def test_clusters_that_cuts_can_separate_are_found_exactly():
    rng, corners = np.random.default_rng(0), [(0, 0), (0, 9), (9, 0), (9, 9)]
    X = np.concatenate([rng.random((20, 2)) + corner for corner in corners])
    est = KMeans(4, n_init=5, random_state=0).fit(X)
    found = explain(est, X)
    assert (found.rules.fidelity, found.rules.cost_ratio, found.rules.leaves) == (1.0, 1.0, 4)
    assert {(c.rule_precision, c.rule_recall) for c in found.clusters} == {(1.0, 1.0)}


def test_each_further_leaf_saves_the_most():
    x = blobs(80, 2, 4)
    est = KMeans(4, n_init=1, random_state=0).fit(x)
    gaps = est.transform(x) ** 2
    costs = []
    for leaves in range(4, 12):
        tree = imm(x, est.labels_, 4)
        expand(tree, x, gaps, leaves)
        costs.append(oracle.tree_cost(x, tree.predict(x), est.cluster_centers_))
        if leaves == 5:
            best = min(oracle.split_cost(x, gaps, imm(x, est.labels_, 4).predict(x)))
            assert costs[-1] == pytest.approx(best)
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] >= est.inertia_ * (1 - 1e-9)


def test_expansion_ends_where_nothing_is_saved(iris, kmeans):
    short, long = (explain(kmeans, iris, rules=Questions(max_leaves=m)).rules for m in (3, 150))
    assert short.leaves == 3 < long.leaves < 150
    assert short.fidelity < long.fidelity and short.cost_ratio > long.cost_ratio >= 1
    one = np.arange(20.0)[:, None]  # here single cuts lead all the way
    whole = explain(KMeans(3, n_init=1).fit(one), one, rules=Questions(max_leaves=20)).rules
    assert (whole.leaves, whole.fidelity, whole.cost_ratio) == (3, 1.0, 1.0)


@settings(deadline=None)
@given(st.floats(-1e9, 1e9), st.floats(1e-12, 1e6))
def test_the_plainest_number_lies_in_the_gap(low, width):
    high = low + width
    if low < high:
        assert low <= plainest(low, high) < high


def test_plain_numbers():
    assert [plainest(0.8, 1.75), plainest(3, 4), plainest(2.45, 2.46)] == [1, 3.5, 2.455]


# Rules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", [3, 6, 9])
def test_rules_mean_what_they_say(iris, kmeans, leaves):
    """Each rule, run as Python, gives its precision and recall; all of them give the fidelity."""
    found, labels = explain(kmeans, iris, rules=Questions(max_leaves=leaves)), kmeans.labels_
    said = np.stack([iris.eval(python(c.rule)).to_numpy(bool) for c in found.clusters])
    assert (said.sum(0) == 1).all()
    for j, c in enumerate(found.clusters):
        assert c.rule_precision == (labels[said[j]] == j).mean()
        assert c.rule_recall == said[j][labels == j].mean()
    assert found.rules.fidelity == (said.argmax(0) == labels).mean()
    cost = oracle.tree_cost(iris.to_numpy(), said.argmax(0), kmeans.cluster_centers_)
    assert found.rules.cost_ratio == pytest.approx(cost / kmeans.inertia_)
    assert found.rules.leaves == found.rules.text.count(": cluster") <= leaves
    assert found.rules.features == list("abcd")


def python(rule):
    return rule.replace(" or ", " | ").replace("and", "&").replace("always", "True")


def test_the_text_is_the_tree(iris, kmeans):
    first, *rest = explain(kmeans, iris).rules.text.splitlines()
    assert first.startswith("c <= 2") and any(line.startswith("  c") for line in rest)


def test_a_tree_asks_what_it_is_told_to(iris, kmeans):
    found = explain(kmeans, iris, rules=Questions(features=["d", 0]))
    assert found.rules.features == ["d", "a"]
    assert "b" not in found.rules.text.replace("cluster", "") and " c " not in found.rules.text
    table = pd.DataFrame({"length": iris["c"] * 10, "noise": np.arange(150) % 7})
    known = explain(kmeans, iris, rules=Questions(table=table))
    assert known.rules.features == ["length", "noise"]
    assert known.clusters[1].rule == "length <= 20" and known.rules.fidelity > 0.9
    assert explain(kmeans, iris, rules=False).rules is None
    assert explain(kmeans, iris, rules=False).clusters[0].rule == ""


def test_of_many_features_the_telling_ones_are_asked():
    X = np.random.default_rng(0).normal(size=(300, 3 * FEATURES))
    X[:100, 7] += 20
    X[100:200, 150] += 20
    found = explain(KMeans(3, n_init=5, random_state=0).fit(X), X)
    assert len(found.rules.features) == FEATURES and {"x7", "x150"} <= {*found.rules.features}
    assert found.rules.fidelity == 1


def test_deep_clusters_have_rules():
    est = small_tell().fit(ROWS)
    found, labels = explain(est, ROWS, rules=Questions(max_leaves=8)), est.predict(ROWS)
    frame = pd.DataFrame(ROWS.astype(np.float64), columns=found.feature_names)
    told = [c for c in found.clusters if c.rule]
    said = np.stack([frame.eval(python(c.rule)).to_numpy(bool) for c in told])
    tree = np.array([c.index for c in told])[said.argmax(0)]
    assert found.rules.fidelity == (tree == labels).mean()
    gaps = est.distances(ROWS).astype(np.float64) ** 2
    ratio = gaps[np.arange(96), tree].sum() / gaps.min(1).sum()
    assert found.rules.cost_ratio == pytest.approx(ratio, rel=1e-4)


def test_clusters_that_no_question_tells_apart(iris, kmeans):
    found = explain(kmeans, iris, rules=Questions(table=np.ones((150, 2))))
    largest = found.sizes.argmax()
    assert (found.rules.text, found.rules.leaves) == (f"cluster {largest}", 1)
    assert found.clusters[largest].rule == "always"
    assert found.rules.fidelity == found.clusters[largest].share


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        (Questions(features=["z"]), "no feature 'z'; there are a, b, c, d"),
        (Questions(features=[4]), "no feature 4: they are numbered 0 to 3"),
        (Questions(features=[]), "features is empty"),
        (Questions(max_leaves=2), "max_leaves=2: 3 clusters need a leaf each"),
        (Questions(table=np.ones((3, 2))), "table has 3 rows, but X has 150"),
    ],
    ids=["name", "number", "none", "leaves", "table"],
)
def test_questions_that_cannot_be_asked(iris, kmeans, questions, message):
    with pytest.raises(ValueError, match=message):
        explain(kmeans, iris, rules=questions)


def test_no_tree_for_one_cluster_or_hundreds():
    assert explain(KMeans(1, n_init=1).fit(ROWS), ROWS).rules is None
    X = np.random.default_rng(0).normal(size=(202, 2))
    assert explain(KMeans(101, n_init=1, max_iter=1, random_state=0).fit(X), X).rules is None


# Contributions -------------------------------------------------------------------------------


@each_fitted
def test_latent_terms_sum_to_the_margin(est):
    est = est.fit(ROWS)
    found, z = latent_terms(est, ROWS, ROWS_ASKED), embedding(est, ROWS)[ROWS_ASKED]
    np.testing.assert_allclose(found.terms.sum(1) + found.bias, found.margin, atol=1e-5)
    centres = est.cluster_centers_.astype(np.float64)
    gaps = np.square(z[:, None] - centres).sum(2)
    np.testing.assert_array_equal(found.a, gaps.argmin(1))
    np.testing.assert_array_equal(found.b, gaps.argsort(1)[:, 1])
    np.testing.assert_allclose(found.margin, np.sort(gaps)[:, 1] - gaps.min(1), atol=1e-5)
    weight = 2 * (centres[found.a] - centres[found.b])
    np.testing.assert_allclose(found.terms, weight * z, atol=1e-5)


def embedding(est, X):
    return X.astype(np.float64) if isinstance(est, KMeans) else est.transform(X).astype(np.float64)


@each_fitted
def test_integrated_gradients_are_complete(est):
    est = est.fit(ROWS)
    found = integrated_gradients(est, ROWS, ROWS_ASKED, 0, 1)
    assert found.values.shape == (4, 8) and (found.gap <= 0.01).all()
    np.testing.assert_allclose(found.values.sum(1), found.margin - found.baseline, rtol=0.0101)
    margins = latent_terms(est, ROWS, ROWS_ASKED, 0, 1).margin
    np.testing.assert_allclose(found.margin, margins, rtol=1e-4, atol=1e-4)


def test_a_linear_embedding_is_attributed_exactly():
    est = KMeans(3, n_init=1, random_state=0).fit(ROWS)
    weight = 2 * (est.cluster_centers_[2] - est.cluster_centers_[0])
    x = ROWS[ROWS_ASKED]
    exact = gradient_times_input(est, ROWS, ROWS_ASKED, 2, 0)
    np.testing.assert_allclose(exact.values, weight * x, rtol=1e-5)
    assert (exact.gap < 1e-6).all()
    found = integrated_gradients(est, ROWS, ROWS_ASKED, 2, 0)
    np.testing.assert_allclose(found.values, weight * (x - ROWS.mean(0)), rtol=1e-4, atol=1e-5)


def test_the_slope_is_that_of_small_steps():
    est = small_tell(scale="standard").fit(ROWS)
    found = gradient_times_input(est, ROWS, [3], 0, 1)
    for f in range(8):
        ends = []
        for step in (1e-2, -1e-2):
            x = ROWS[[3]].copy()
            x[0, f] += step
            ends.append(latent_terms(est, x, 0, 0, 1).margin[0])
        slope = (ends[0] - ends[1]) / 2e-2
        assert found.values[0, f] == pytest.approx(slope * ROWS[3, f], rel=0.05, abs=1e-3)


def test_pixels_are_attributed_as_an_image():
    X = (SQUARES * 255).astype(np.uint8)
    est = small_tell(autoencoder=Conv(latent=3), batch_size=16, max_iter=2).fit(X)
    found = integrated_gradients(est, X, [0, 1], baseline="zero")
    assert found.values.shape == (2, 1, 8, 8) and (found.gap <= 0.01).all()
    own = integrated_gradients(est, X, [0, 1], baseline=np.zeros((8, 8)))
    np.testing.assert_array_equal(found.values, own.values)
    assert est.module_.autoencoder.training is False
    assert all(p.grad is None for p in est.module_.parameters())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": [96]}, "rows run from 96 to 96, but X has 96 rows"),
        ({"rows": "first"}, "use numbers of rows"),
        ({"rows": []}, "use numbers of rows"),
        ({"rows": [0], "a": 3}, "a=3: the clusters are numbered 0 to 2"),
        ({"rows": [0], "b": [0, 1]}, "one cluster, or one for each of the 1 rows"),
        ({"rows": [0], "baseline": "median"}, "baseline='median'"),
        ({"rows": [0], "baseline": np.zeros(3)}, r"baseline has shape \(3,\)"),
    ],
    ids=["row", "words", "nothing", "cluster", "clusters", "baseline", "shape"],
)
def test_what_cannot_be_contrasted(given, message):
    est = KMeans(3, n_init=1, random_state=0).fit(ROWS)
    with pytest.raises(ValueError, match=message):
        integrated_gradients(est, ROWS, **given)


def test_one_cluster_has_nothing_to_be_compared_with():
    with pytest.raises(ValueError, match="one cluster"):
        latent_terms(KMeans(1, n_init=1).fit(ROWS), ROWS, 0)
