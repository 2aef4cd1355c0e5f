"""Starts: k-means as good as scikit-learn's, seeded, on the sphere, with centres nobody chose."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score

from pellucid.init import (
    GraphStart,
    cluster_means,
    draw,
    exchange,
    kmeans,
    kmeans_plus_plus,
    lloyd,
    named_start,
    random_rows,
    start_from,
)
from pellucid.nn import nearest, unit_rows

BLOBS, GROUPS = make_blobs(400, 5, centers=6, cluster_std=1.5, random_state=3)
SETS = {
    "blobs": (torch.from_numpy(BLOBS.astype(np.float32)), 6),
    "digits": (torch.from_numpy(load_digits().data.astype(np.float32)), 10),
}
EACH_SET = pytest.mark.parametrize("name", SETS)


def inertia(z: torch.Tensor, centers: torch.Tensor) -> float:
    return float(torch.cdist(z.double(), centers.double()).square().min(1).values.sum())


@EACH_SET
def test_kmeans_is_as_good_as_scikit_learns(name):
    z, k = SETS[name]
    theirs = KMeans(k, n_init=10, random_state=0).fit(z.numpy())
    ours = kmeans(z, k, seed=0)
    assert ours.inertia <= 1.01 * theirs.inertia_
    assert ours.inertia == pytest.approx(inertia(z, ours.centers), rel=1e-4)
    torch.testing.assert_close(ours.centers, cluster_means(z, ours.labels, k), rtol=1e-4, atol=1e-4)
    assert torch.equal(ours.labels, nearest(z, ours.centers)[0])


@EACH_SET
def test_kmeans_plus_plus_is_as_good_as_scikit_learns(name):
    z, k = SETS[name]

    def mean(start) -> float:
        return float(np.mean([inertia(z, torch.as_tensor(start(seed))) for seed in range(40)]))

    ours = mean(lambda seed: kmeans_plus_plus(z, k, seed))
    theirs = mean(lambda seed: kmeans_plusplus(z.numpy(), k, random_state=seed)[0])
    random = mean(lambda seed: random_rows(z, k, seed))
    assert ours < 1.1 * theirs and ours < random
    rows = {tuple(row) for row in z.tolist()}
    assert all(tuple(c) in rows for c in kmeans_plus_plus(z, k, 0).tolist())


def test_starts_are_seeded_and_leave_the_generator_alone():
    z, k = SETS["blobs"]
    before, kept = torch.random.get_rng_state(), z.clone()
    assert torch.equal(kmeans(z, k, seed=1)[0], kmeans(z, k, seed=1)[0])
    for fn in (kmeans_plus_plus, random_rows):
        assert torch.equal(fn(z, k, 1), fn(z, k, 1))
        assert not torch.equal(fn(z, k, 1), fn(z, k, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(z, kept)


def test_weights_count_rows_that_often():
    z = SETS["blobs"][0][:60]
    times = torch.randint(0, 4, (60,), generator=torch.Generator().manual_seed(0))
    start = z[times > 0][:4]
    weighted = lloyd(z, start.clone(), weight=times.float())
    repeated = lloyd(z.repeat_interleave(times, 0), start.clone())
    torch.testing.assert_close(weighted.centers, repeated.centers)
    assert weighted.inertia == pytest.approx(repeated.inertia, rel=1e-5)


def test_lloyd_never_climbs():
    z, k = SETS["digits"]
    start = random_rows(z, k, 4)
    steps = [lloyd(z, start.clone(), max_iter=i).inertia for i in (1, 2, 4, 8, 16)]
    assert all(b <= a * (1 + 1e-6) for a, b in pairwise(steps))


def test_on_the_sphere_centres_are_unit_means():
    z = unit_rows(SETS["digits"][0] - 5)
    found = kmeans(z, 10, seed=0, n_init=3, sphere=True)
    torch.testing.assert_close(found.centers.norm(dim=1), torch.ones(10))
    means = unit_rows(cluster_means(z, found.labels, 10))
    torch.testing.assert_close(found.centers, means, rtol=1e-4, atol=1e-4)
    # ||z - omega||^2 = 2 - 2 z'omega there.
    cosine = (z * found.centers[found.labels]).sum(1)
    assert found.inertia == pytest.approx(float((2 - 2 * cosine).double().sum()), rel=1e-4)
    plain = kmeans(z, 10, seed=0, n_init=3)
    assert found.inertia <= 1.05 * inertia(z, unit_rows(plain.centers))


def test_empty_centres_take_the_farthest_rows():
    z = torch.tensor([[0.0], [0.1], [0.2], [5.0], [9.0]])
    far = lloyd(z, torch.tensor([[0.1], [100.0], [200.0]]))
    assert len(far.labels.unique()) == 3
    assert far.inertia == pytest.approx(0.02, abs=1e-6)


def test_more_centres_than_different_rows():
    z = torch.tensor([[0.0, 0], [1, 1]]).repeat(5, 1)
    found = kmeans(z, 4, seed=0, n_init=2)
    assert found.centers.shape == (4, 2) and found.centers.isfinite().all()
    assert found.inertia == 0
    assert kmeans(torch.zeros(6, 2), 3, seed=0, sphere=True).centers.isfinite().all()


def test_one_cluster_is_the_mean():
    z = SETS["blobs"][0]
    torch.testing.assert_close(kmeans(z, 1, seed=0).centers[0], z.mean(0), rtol=1e-4, atol=1e-4)


def test_means_of_clusters_and_of_none():
    z, labels = torch.tensor([[1.0, 0], [3, 0], [0, 5]]), torch.tensor([0, 0, 2])
    assert torch.equal(
        cluster_means(z, labels, 4), torch.tensor([[2.0, 0], [0, 0], [0, 5], [0, 0]])
    )


def test_draw_is_in_proportion():
    generator = torch.Generator().manual_seed(0)
    weights = torch.tensor([0.0, 1, 0, 3, 0])
    counts = torch.bincount(draw(weights, 4000, generator), minlength=5)
    assert counts[[0, 2, 4]].sum() == 0
    assert counts[3] / counts[1] == pytest.approx(3, rel=0.1)
    alike = torch.bincount(draw(torch.zeros(4), 4000, generator), minlength=4)
    assert alike.min() > 900  # all weights zero: every row alike
    tiny = draw(torch.tensor([1e-38, 3e-38]), 1000, generator)
    assert 0 < tiny.float().mean() < 1


@pytest.mark.parametrize("how", ["k-means", "k-means++", "random rows", GraphStart(least=8)])
def test_starts(how):
    z, k = SETS["blobs"]
    start = start_from(how, z, k, seed=0)
    assert start.centers.shape == (k, 5)
    labels = start.labels(z)
    assert labels.shape == (400,) and labels.max() < k
    if isinstance(how, GraphStart):
        assert adjusted_rand_score(GROUPS, labels) > 0.9
    else:
        assert torch.equal(labels, nearest(z, start.centers)[0])
    assert torch.equal(start.centers, start_from(how, z, k, seed=0).centers)
    sphere = start_from(how, unit_rows(z), k, seed=0, sphere=True)
    if isinstance(how, str):
        torch.testing.assert_close(sphere.centers.norm(dim=1), torch.ones(k))


@pytest.mark.parametrize("rows", [7, 30, 400])
def test_the_graph_needs_rows_and_does_without(rows):
    z = SETS["blobs"][0][:rows]
    start = start_from(named_start("graph"), z, 6, seed=0)
    assert start.scores == {"cut": 0.0}
    torch.testing.assert_close(start.centers, start_from("k-means", z, 6, seed=0).centers)


@pytest.mark.parametrize("kind", [list, np.asarray, torch.tensor])
def test_centres_of_ones_own(kind):
    z = SETS["blobs"][0]
    given = z[:6].tolist()
    start = start_from(kind(given), z, 6, seed=0)
    torch.testing.assert_close(start.centers, torch.tensor(given))
    assert start.centers.dtype == z.dtype


@pytest.mark.parametrize("shape", [(5, 5), (6, 4), (30,), (6, 5, 1)])
def test_centres_of_a_wrong_shape_show_both_shapes(shape):
    z = SETS["blobs"][0]
    with pytest.raises(ValueError, match=r"init has shape \(.*6 centres.*dimension 5.*\(6, 5\)"):
        start_from(np.zeros(shape), z, 6, seed=0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_centres_that_are_no_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="init contains NaN or infinity"):
        start_from(np.full((6, 5), bad), SETS["blobs"][0], 6, seed=0)


@pytest.mark.parametrize("sphere", [False, True])
def test_an_exchange_leaves_an_optimum_that_lloyd_can_not(sphere):
    means = unit_rows(torch.randn(6, 5, generator=torch.Generator().manual_seed(3)))
    y = torch.arange(6).repeat_interleave(100)
    z = means[y] + 0.05 * torch.randn(600, 5, generator=torch.Generator().manual_seed(4))
    z = unit_rows(z) if sphere else z
    twice = means[[0, 0, 1, 2, 3, 4]].clone()  # two centres for one cluster, one for two
    twice[1] += 0.01
    stuck = lloyd(z, twice, sphere=sphere)
    found = exchange(z, twice, seed=0, sphere=sphere)
    right = lloyd(z, means, sphere=sphere)
    assert stuck.inertia > 2 * right.inertia
    assert found is not None
    assert found.inertia == pytest.approx(right.inertia)
    assert exchange(z, found.centers, seed=0, sphere=sphere) is None  # nothing left to gain


def test_nothing_is_exchanged_where_nothing_can_be():
    z = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    for k in (1, 2):
        assert exchange(z, z[:k], seed=0) is None
    assert exchange(torch.ones(40, 3), torch.ones(4, 3), seed=0) is None
