"""Deep k-Means: each equation against its oracle, gradient, limit and theorem; the estimator."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs
from torch.autograd import gradcheck

import pellucid
from oracles import deep_kmeans as oracle
from pellucid import DeepKMeans, Training
from pellucid.algorithms import deep_kmeans as dkm
from pellucid.metrics import ari
from pellucid.nn import squared_distances, unit_rows

QUICK = {"pretrain": 5, "max_iter": 6, "random_state": 0}


@pytest.fixture
def embedded():
    """Embedded samples (11, 3) and representatives (4, 3) in float64."""
    rng = np.random.default_rng(5)
    return torch.from_numpy(rng.normal(size=(11, 3))), torch.from_numpy(rng.normal(size=(4, 3)))


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(240, centers=3, n_features=6, cluster_std=0.8, random_state=4)


# Equations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.1, 3.0, 1000.0])
def test_eq3_and_5(embedded, alpha):
    h, r = embedded
    d = squared_distances(h, r)
    g = dkm.surrogate(d, alpha)
    for row, z in zip(g, h.numpy(), strict=True):
        expected = oracle.eq5_g(z, r.numpy(), alpha, oracle.f_euclidean)
        np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-300)
    error = torch.tensor(0.7, dtype=torch.float64)
    soft = oracle.eq3_soft(0.7, h.numpy(), r.numpy(), 0.3, alpha, oracle.f_euclidean)
    assert float(dkm.soft_objective(error, d, 0.3, alpha)) == pytest.approx(soft, rel=1e-10)


def test_eq1_and_cosine(embedded):
    h, r = embedded
    error = torch.tensor(0.2, dtype=torch.float64)
    hard = oracle.eq1_hard(0.2, h.numpy(), r.numpy(), 0.5, oracle.f_euclidean)
    found = dkm.hard_objective(error, squared_distances(h, r), 0.5)
    assert float(found) == pytest.approx(hard, rel=1e-10)
    half = squared_distances(unit_rows(h), unit_rows(r)) / 2  # 1 - cos on the sphere
    for i in range(11):
        for k in range(4):
            assert float(half[i, k]) == pytest.approx(oracle.f_cosine(h[i].numpy(), r[k].numpy()))
    x, x_hat = torch.randn(5, 7).double(), torch.randn(5, 7).double()
    mean = np.mean([oracle.f_cosine(a.numpy(), b.numpy()) for a, b in zip(x, x_hat, strict=True)])
    assert float(dkm.cosine_error(x_hat, x)) == pytest.approx(mean)


def test_limits(embedded):
    """alpha to infinity is k-means' objective, alpha = 0 the mean distance to all (Section 3.3)."""
    h, r = embedded
    d, zero = squared_distances(h, r), torch.zeros((), dtype=torch.float64)
    hard = float(dkm.hard_objective(zero, d, 1.0))
    assert float(dkm.soft_objective(zero, d, 1.0, 1e5)) == pytest.approx(hard, rel=1e-9)
    assert float(dkm.soft_objective(zero, d, 1.0, 0.0)) == pytest.approx(float(d.mean()))


def test_property_1(embedded):
    h, r = embedded
    d = squared_distances(h, r)
    g = dkm.surrogate(d, 1e6)
    np.testing.assert_array_equal(g.argmax(1), d.argmin(1))
    np.testing.assert_allclose(g.max(1).values, 1, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.1, 2.0])
def test_gradients(embedded, alpha):
    h, r = (t.clone().requires_grad_() for t in embedded)
    error = torch.tensor(0.1, dtype=torch.float64)
    soft = lambda h, r: dkm.soft_objective(error, squared_distances(h, r), 0.4, alpha)  # noqa: E731
    assert gradcheck(soft, (h, r))
    x = torch.randn(4, 5).double()
    assert gradcheck(
        lambda x_hat: dkm.cosine_error(x_hat, x), (torch.randn(4, 5).double().requires_grad_(),)
    )


def test_annealing_is_the_published_list():
    np.testing.assert_allclose(dkm.annealing(), oracle.PUBLISHED_ALPHAS, atol=5.1e-6)
    plan = dkm.alpha_schedule("anneal", 200)
    assert [round(plan(e), 5) for e in (0, 4, 5, 199, 500)] == [
        0.1,
        0.1,
        0.42321,
        28.13258,
        28.13258,
    ]
    assert dkm.alpha_schedule([1.0, 2.0], 4)(3) == 2.0
    assert dkm.alpha_schedule(lambda epoch: epoch + 1.0, 4)(3) == 4.0


def test_balance_makes_both_pulls_equal(embedded):
    h = embedded[0].clone().requires_grad_()
    error, pull = (3 * h).square().sum(), squared_distances(h, embedded[1]).min(1)[0].mean()
    lam = dkm.balance(error, pull, h)
    a, b = (torch.autograd.grad(t, h, retain_graph=True)[0].norm() for t in (error, pull))
    assert lam * float(b) == pytest.approx(float(a))


def test_auto_is_modest_until_the_network_has_learned(blobs):
    """Untrained: a thousandth of the error, as the centres are all alike. Trained: `balance`."""
    X = blobs[0].astype(np.float32)
    how = {"init": "random", "max_iter": 0, "random_state": 0, "scale": None}
    for pretrain in (0, 40):
        est = DeepKMeans(3, pretrain=pretrain, **how).fit(X)
        made, x, lam = est.module_, torch.from_numpy(X), float(est.module_.lam)
        h = made.encode(x).detach().requires_grad_()
        d, error = made.distances(h), made.errors(h, x).mean()
        if pretrain:
            assert lam == pytest.approx(dkm.balance(error, d.min(1)[0].mean(), h), rel=1e-3)
        else:
            assert lam * d.mean().item() == pytest.approx(1e-3 * error.item(), rel=1e-3)


# Estimator ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["blobs", "digits"])
def test_identity_and_large_alpha_is_k_means(name, blobs):
    """Eq. 2: the same start reaches scikit-learn's inertia within 1%."""
    X = blobs[0] / 10 if name == "blobs" else load_digits().data / 16
    k = 3 if name == "blobs" else 10
    start = X[np.random.default_rng(1).choice(len(X), k, replace=False)]
    km = KMeans(k, init=start, n_init=1).fit(X)
    settings = {"max_iter": 150, "tol": 0, "random_state": 0, "lam": 1.0, "batch_size": len(X)}
    adam = Training("adam", lr=0.02)
    est = DeepKMeans(k, autoencoder="identity", init=start, training=adam, **settings).fit(X)
    assert est.inertia_ <= 1.01 * km.inertia_


def test_pretrained_and_annealed_find_groups(blobs):
    X, y = blobs
    p = DeepKMeans(3, scale="unit", pretrain=30, max_iter=20, random_state=0).fit(X)
    a = DeepKMeans(3, autoencoder="identity", scale="standard", init="random", alpha="anneal",
                   tol=0, lam=1.0, max_iter=80, training=Training("adam", lr=0.05), batch_size=64,
                   random_state=0).fit(X)  # fmt: skip
    assert ari(y, p.labels_) > 0.95
    assert ari(y, a.labels_) > 0.95
    np.testing.assert_array_equal(p.predict(X), p.labels_)
    np.testing.assert_array_equal(p.predict_proba(X).argmax(1), p.labels_)
    assert p.cluster_centers_.shape == (3, 3)
    assert p.prototypes_.shape == (3, 6)
    assert all(h["scale"] > 0 for h in p.history_)
    assert float(p.module_.lam) > 0


def test_cosine_lives_on_the_sphere(blobs):
    X = blobs[0]
    est = DeepKMeans(3, distance="cosine", pretrain=30, max_iter=10, random_state=0).fit(X)
    np.testing.assert_allclose(np.linalg.norm(est.transform(X), axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(est.cluster_centers_, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(est.predict(X), est.labels_)


def test_both_terms_move_what_they_should(blobs):
    X = blobs[0]
    a = DeepKMeans(3, lam=1.0, **QUICK | {"max_iter": 0}).fit(X).module_.state_dict()
    b = DeepKMeans(3, lam=1.0, **QUICK | {"tol": 0}).fit(X).module_.state_dict()
    c = DeepKMeans(3, lam=1.0, representation="frozen", **QUICK | {"tol": 0}).fit(X).module_
    assert all(not torch.equal(a[n], b[n]) for n in a if n != "lam")
    assert not torch.equal(c.state_dict()["representatives"], a["representatives"])
    assert torch.equal(
        c.state_dict()["autoencoder.encoder.0.weight"], a["autoencoder.encoder.0.weight"]
    )


def test_restarts_streams_files_and_sparse_rows(blobs, tmp_path):
    import scipy.sparse as sp

    X = blobs[0]
    est = DeepKMeans(3, n_init=3, scale="unit", **QUICK).fit(X)
    assert est.best_restart_ == int(np.argmin(est.restart_losses_))
    est.save(tmp_path / "run")
    again = pellucid.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict(X), est.labels_)
    again.partial_fit(X)
    piece = DeepKMeans(3, scale="unit", random_state=0).partial_fit(X)
    piece.partial_fit(X[:50])
    assert piece.labels_.shape == (50,)
    dense = DeepKMeans(3, **QUICK).fit(np.abs(X))
    sparse = DeepKMeans(3, **QUICK).fit(sp.csr_matrix(np.abs(X)))
    np.testing.assert_array_equal(dense.labels_, sparse.labels_)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alpha": "hot"}, "anneal"),
        ({"lam": "best"}, "auto"),
        ({"lam": 0.0}, "positive"),
        ({"distance": "l1"}, "cosine"),
        ({"init": np.zeros((3, 9))}, r"\(3, 9\)"),
    ],
)
def test_bad_parameters_say_what_to_do(blobs, change, words):
    with pytest.raises(ValueError, match=words):
        DeepKMeans(**{"n_clusters": 3, **QUICK, **change}).fit(blobs[0])
