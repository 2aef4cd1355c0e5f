"""Scores against values worked out by hand, and against what must not change them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from pellucid import metrics

# Contingency (class x cluster)  [[3, 1, 0],
#                                 [0, 2, 2]]
TRUE = np.array([0, 0, 0, 0, 1, 1, 1, 1])
PRED = np.array([0, 0, 0, 1, 1, 1, 2, 2])

labellings = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 5), min_size=n, max_size=n),
        st.lists(st.integers(0, 5), min_size=n, max_size=n),
    )
)


def entropy(*counts: float) -> float:
    total = sum(counts)
    return -sum(c / total * math.log(c / total) for c in counts if c)


H_TRUE, H_PRED = entropy(4, 4), entropy(3, 3, 2)
MUTUAL = H_TRUE + H_PRED - entropy(3, 1, 2, 2)


def test_accuracy_by_hand():
    # Best match 0-0 and 1-1 (or 1-2): 3 + 2 of 8.
    assert metrics.clustering_accuracy(TRUE, PRED) == 5 / 8
    # Seen from the other side there are more classes than clusters: still one-to-one.
    assert metrics.clustering_accuracy(PRED, TRUE) == 5 / 8


def test_accuracy_needs_the_best_match_not_the_greedy_one():
    # Greedy takes the 5 first and then 0; the best match is 4 + 4.
    true = [0] * 9 + [1] * 4
    pred = [0] * 5 + [1] * 4 + [0] * 4
    assert metrics.clustering_accuracy(true, pred) == 8 / 13


def test_purity_by_hand():
    assert metrics.purity(TRUE, PRED) == (3 + 2 + 2) / 8
    assert metrics.purity(TRUE, np.arange(8)) == 1.0  # known blind spot
    assert metrics.purity(TRUE, np.zeros(8)) == 0.5


def test_information_scores_by_hand():
    assert metrics.nmi(TRUE, PRED) == pytest.approx(2 * MUTUAL / (H_TRUE + H_PRED))
    assert metrics.nmi(TRUE, PRED, average="geometric") == pytest.approx(
        MUTUAL / math.sqrt(H_TRUE * H_PRED)
    )
    assert metrics.homogeneity(TRUE, PRED) == pytest.approx(MUTUAL / H_TRUE)
    assert metrics.completeness(TRUE, PRED) == pytest.approx(MUTUAL / H_PRED)
    assert metrics.v_measure(TRUE, PRED) == pytest.approx(metrics.nmi(TRUE, PRED))


def test_ari_by_hand():
    # Pairs together in both: C(3,2) + C(2,2) + C(2,2) = 5; in TRUE: 2 C(4,2) = 12;
    # in PRED: 3 + 3 + 1 = 7; of 28 pairs.
    expected = 12 * 7 / 28
    assert metrics.ari(TRUE, PRED) == pytest.approx((5 - expected) / ((12 + 7) / 2 - expected))


def test_ari_of_the_worst_labelling_is_negative():
    # No pair is together in both: (0 - 2*2/6) / (2 - 2*2/6).
    assert metrics.ari([0, 0, 1, 1], [0, 1, 0, 1]) == pytest.approx(-0.5)


def test_ami_against_all_permutations():
    """AMI subtracts the mean over every relabelling with the same sizes: enumerate them."""
    true, pred = [0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2]

    def mutual(a, b):
        pairs = [
            list(zip(a, b, strict=True)).count(p) for p in itertools.product(range(3), repeat=2)
        ]
        sizes = [[list(v).count(i) for i in range(3)] for v in (a, b)]
        return entropy(*sizes[0]) + entropy(*sizes[1]) - entropy(*pairs)

    chance = np.mean([mutual(true, p) for p in itertools.permutations(pred)])
    mean = (entropy(3, 3) + entropy(2, 2, 2)) / 2
    assert metrics.ami(true, pred) == pytest.approx((mutual(true, pred) - chance) / (mean - chance))


def test_evaluate_has_every_external_score():
    scores = metrics.evaluate(TRUE, PRED)
    assert scores["acc"] == metrics.clustering_accuracy(TRUE, PRED)
    assert scores["nmi_geometric"] == metrics.nmi(TRUE, PRED, average="geometric")
    assert set(scores) == {
        "acc", "nmi", "nmi_geometric", "ari", "ami",
        "homogeneity", "completeness", "v_measure", "purity",
    }  # fmt: skip
    assert all(type(v) is float for v in scores.values())


@settings(max_examples=40, deadline=None)
@given(labellings, st.permutations(range(6)), st.permutations(range(6)))
def test_names_of_clusters_do_not_matter(pair, p, q):
    true, pred = np.array(pair[0]), np.array(pair[1])
    renamed = metrics.evaluate(np.array(p)[true], np.array(q)[pred])
    assert renamed == pytest.approx(metrics.evaluate(true, pred), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(labellings, st.randoms(use_true_random=False))
def test_order_of_points_does_not_matter(pair, random):
    points = list(zip(*pair, strict=True))
    random.shuffle(points)
    shuffled = metrics.evaluate(*zip(*points, strict=True))
    assert shuffled == pytest.approx(metrics.evaluate(*pair), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(labellings)
def test_bounds_and_symmetry(pair):
    scores, swapped = metrics.evaluate(*pair), metrics.evaluate(*pair[::-1])
    for name in ("acc", "nmi", "nmi_geometric", "ari", "ami", "v_measure"):
        assert scores[name] == pytest.approx(swapped[name], abs=1e-9), name
    assert scores["homogeneity"] == pytest.approx(swapped["completeness"], abs=1e-9)
    for name in ("acc", "nmi", "homogeneity", "completeness", "purity"):
        assert -1e-9 <= scores[name] <= 1 + 1e-9, name
    assert scores["acc"] <= scores["purity"] + 1e-9
    assert metrics.evaluate(pair[0], pair[0]) == pytest.approx(dict.fromkeys(scores, 1.0))


@settings(max_examples=40, deadline=None)
@given(labellings)
def test_accuracy_equals_brute_force(pair):
    true, pred = np.array(pair[0]), np.array(pair[1])
    best = max((np.array(p)[pred] == true).mean() for p in itertools.permutations(range(6)))
    assert metrics.clustering_accuracy(true, pred) == pytest.approx(best)


@pytest.mark.parametrize(
    "names", [["cat", "dog"], [-1, 7], [0.5, 2.5], [False, True], [10**12, -(10**12)]]
)
def test_any_label_values(names):
    assert metrics.evaluate(np.array(names)[TRUE], PRED) == metrics.evaluate(TRUE, PRED)


def test_as_many_clusters_as_points_does_not_warn():
    each = np.arange(30)
    assert metrics.clustering_accuracy(each, each[::-1]) == 1.0
    assert metrics.evaluate(each % 3, each)["homogeneity"] == pytest.approx(1.0)


@pytest.mark.parametrize("score", [metrics.clustering_accuracy, metrics.nmi, metrics.evaluate])
def test_errors_show_both_sides(score):
    with pytest.raises(ValueError, match=r"y_true has 8 labels, y_pred has 7"):
        score(TRUE, PRED[:-1])
    with pytest.raises(ValueError, match=r"\(8, 1\).*\.ravel\(\)"):
        score(TRUE, PRED[:, None])
    with pytest.raises(ValueError, match="0 labels"):
        score([], [])


def test_nmi_refuses_an_unknown_average():
    with pytest.raises(ValueError, match="'arithmetic' or 'geometric'"):
        metrics.nmi(TRUE, PRED, average="max")


def test_silhouette_by_hand():
    # Points 0 and 1 against 5 on a line: a=1, b=5 -> 0.8; a=1, b=4 -> 0.75; alone -> 0.
    X = np.array([[0.0], [1.0], [5.0]])
    assert metrics.silhouette(X, [0, 0, 1]) == pytest.approx((0.8 + 0.75 + 0) / 3)
    assert metrics.silhouette(sparse.csr_array(X), [0, 0, 1]) == pytest.approx(1.55 / 3)


def test_silhouette_samples_with_its_seed():
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 3
    X = rng.normal(size=(600, 4)) + 4 * labels[:, None]
    whole = metrics.silhouette(X, labels, sample=None)
    part = metrics.silhouette(X.reshape(600, 2, 2), labels, sample=200, random_state=1)
    assert part == metrics.silhouette(X, labels, sample=200, random_state=1)
    assert part != metrics.silhouette(X, labels, sample=200, random_state=2)
    assert part == pytest.approx(whole, abs=0.05)
    assert metrics.silhouette(X, labels, sample=600) == whole


def test_silhouette_errors():
    X = np.eye(4)
    with pytest.raises(ValueError, match=r"X has 4 rows, labels has shape \(3,\)"):
        metrics.silhouette(X, [0, 1, 1])
    with pytest.raises(ValueError, match="2 to 3 clusters among 4 points, got 1"):
        metrics.silhouette(X, [0, 0, 0, 0])
    with pytest.raises(ValueError, match="got 4"):
        metrics.silhouette(X, [0, 1, 2, 3])
