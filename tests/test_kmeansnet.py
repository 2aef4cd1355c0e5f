"""k-meansNet: each equation against its oracle, gradient, limit and theorem; the estimator."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs
from torch.autograd import gradcheck

import pellucid
from oracles import kmeansnet as oracle
from pellucid import MLP, Conv, KMeansNet, Training
from pellucid.algorithms import kmeansnet as kmn
from pellucid.fitting import pretrain_epochs, stands_still, train
from pellucid.joint import joint_schedule
from pellucid.losses import clustering_loss, gradient_bound, lemma_1_radius, subgradient_radius
from pellucid.metrics import ari
from pellucid.nn import (
    coupled_logits,
    hard_memberships,
    layer_parameters,
    soft_memberships,
    squared_distances,
    unit_rows,
)
from pellucid.nn.centers import along_bound_, bound_
from pellucid.training import Phase, Rows
from pellucid.training.centers import BETA, BIAS, WEIGHT, Bound

ALPHAS = [1e-3, 0.5, 20.0]
QUICK = {"pretrain": 4, "max_iter": 4, "random_state": 0, "training": Training("adam")}


@pytest.fixture
def points():
    """Samples (9, 3) and centres (4, 3) in float64."""
    rng = np.random.default_rng(3)
    return torch.from_numpy(rng.normal(size=(9, 3))), torch.from_numpy(rng.normal(size=(4, 3)))


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(240, centers=3, n_features=6, cluster_std=0.8, random_state=4)


def module(**changes):
    """An untrained module for samples of six features."""
    est = KMeansNet(**{"n_clusters": 3, "autoencoder": MLP((5,), 4), **changes})
    est.sample_shape_, est.bounded_, est.autoencoder_ = (6,), False, est.autoencoder
    return est._build_module().double()


# Equations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS)
def test_eq4_to_7(points, alpha):
    x, omega = points
    weight, bias = layer_parameters(omega, alpha)
    w, b = oracle.eq5_layer(omega.numpy(), alpha)
    np.testing.assert_allclose(weight, w)
    np.testing.assert_allclose(bias, b)
    found = kmn.attention(x, weight, bias)
    soft = soft_memberships(alpha * squared_distances(x, omega), 1.0)
    for i, row in enumerate(x.numpy()):
        np.testing.assert_allclose(found[i], oracle.eq7_attention(row, w, b), rtol=1e-9)
        np.testing.assert_allclose(
            soft[i], oracle.eq4_membership(row, omega.numpy(), alpha), rtol=1e-7, atol=1e-12
        )
    loss = float(kmn.attention_loss(x, weight, bias, alpha))
    assert loss == pytest.approx(oracle.eq6_loss(x.numpy(), w, b, alpha))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_eq8_and_9(points, alpha):
    x, omega = points
    weight, bias = layer_parameters(omega, alpha)
    z = coupled_logits(x, weight, alpha)
    for i, row in enumerate(x.numpy()):
        np.testing.assert_allclose(z[i], oracle.eq9_z(row, weight.numpy(), alpha))
        np.testing.assert_allclose(z[i], oracle.eq8_z(row, weight.numpy(), bias.numpy(), alpha))
    expected = -np.mean([oracle.eq8_f(row) for row in z.numpy()]) / alpha
    assert float(kmn.objective(z, alpha)) == pytest.approx(expected)
    assert expected == pytest.approx(float(kmn.attention_loss(x, weight, bias, alpha)))
    for beta in (0.5, 1.0, 9.0):
        bound = weight.clone()
        bound_(bound, torch.tensor(2 * alpha * beta))
        np.testing.assert_allclose(bound, oracle.eq9_bound(weight.numpy(), alpha, beta))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_gradients(points, alpha):
    x, omega = (t.clone().requires_grad_() for t in points)
    weight, bias = (t.detach().requires_grad_() for t in layer_parameters(omega, alpha))
    assert gradcheck(lambda *a: kmn.attention_loss(*a, alpha), (x, weight, bias))
    assert gradcheck(lambda *a: kmn.attention(*a), (x, weight, bias))
    assert gradcheck(lambda z: kmn.objective(z, alpha), (torch.randn(5, 3).double() + x[:5],))
    assert gradcheck(lambda x, w: coupled_logits(x, w, alpha), (x, weight))


def test_limits(points):
    """alpha to infinity is k-means' objective, alpha to zero the mean distance to all centres."""
    x, omega = points
    d = squared_distances(x, omega)
    hard = float(clustering_loss(d, hard_memberships(d)))
    steep, flat = 1e4, 1e-7
    assert float(kmn.attention_loss(x, *layer_parameters(omega, steep), steep)) == pytest.approx(
        hard
    )
    found = float(kmn.attention_loss(x, *layer_parameters(omega, flat), flat))
    assert found == pytest.approx(float(d.mean()), rel=1e-5)


def test_the_bias_mean_is_invisible(points):
    """What `Bound` takes from b changes neither Eq. 7 nor any gradient of Eq. 6 but b's value."""
    x, omega = points
    weight, bias = layer_parameters(omega, 0.5)
    grads = []
    for shift in (0.0, 7.0):
        w, b = weight.clone().requires_grad_(), (bias + shift).requires_grad_()
        kmn.attention_loss(x, w, b, 0.5).backward()
        grads.append((w.grad, b.grad))
        np.testing.assert_allclose(kmn.attention(x, w.detach(), b.detach()),
                                   kmn.attention(x, weight, bias), rtol=1e-9)  # fmt: skip
    for one, other in zip(*grads, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_theorem_1_bounds_the_gradient():
    for scale in (0.1, 1.0, 10.0):
        z = torch.randn(200, 6, generator=torch.Generator().manual_seed(0)).double() * scale
        z.requires_grad_()
        (len(z) * kmn.objective(z, 1.0)).backward()
        bound = float(gradient_bound(z.detach(), 1.0))
        assert bound == pytest.approx(oracle.theorem_1(z.detach().numpy()))
        assert float(z.grad.abs().max()) <= bound


@pytest.mark.parametrize("eta", [0.3, 0.03])
def test_theorem_2_and_lemma_1_bound_the_best_loss(points, eta):
    """Subgradient steps on the convex stretch: fixed memberships, coupled layer, SGD."""
    x, omega = points
    fixed = hard_memberships(squared_distances(x, omega))
    best = (fixed.mT @ x) / fixed.sum(0)[:, None].clamp_min(1)
    best = torch.where(fixed.sum(0)[:, None] > 0, best, omega)
    optimum = float(clustering_loss(squared_distances(x, best), fixed))
    now, lowest, largest, steps = omega + 1.0, np.inf, 0.0, 400
    start = float((now - best).norm())
    for _ in range(steps):
        now = now.detach().requires_grad_()
        loss = clustering_loss(squared_distances(x, now), fixed)
        loss.backward()
        lowest = min(lowest, float(loss.detach()))
        largest = max(largest, float(now.grad.norm()))
        now = now - eta * now.grad
    etas = torch.full((steps,), eta, dtype=torch.float64)
    radius = float(subgradient_radius(start, etas, largest))
    assert radius == pytest.approx(oracle.theorem_2(start, etas.tolist(), largest))
    assert 0 <= lowest - optimum + 1e-9 <= radius
    endless = subgradient_radius(start, torch.full((10**6,), eta).double(), largest)
    assert float(endless) == pytest.approx(lemma_1_radius(eta, largest), rel=1e-2)


# Module and rules -----------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("assignment", ["hard", "soft"])
def test_the_decoupled_layer_starts_as_the_coupled_distance(alpha, assignment):
    m = module(alpha=alpha, assignment=assignment)
    m.set_centers_(unit_rows(torch.randn(3, 4, generator=torch.Generator().manual_seed(1))))
    x = torch.randn(9, 6, generator=torch.Generator().manual_seed(2)).double()
    h = m.encode(x)
    np.testing.assert_allclose(m.clusters(h).detach(), m.distances(h).detach(), atol=1e-6)
    np.testing.assert_allclose(m.attend(h).argmax(1), m.distances(h).argmin(1))
    with torch.no_grad():
        terms, stats = m(x, Rows(torch.arange(9), torch.zeros(9)), Phase({"clustering": 1.0}))
    weight, bias = (alpha * t.detach().numpy() for t in (m.clusters.weight, m.clusters.bias))
    expected = oracle.eq6_loss(h.detach().numpy(), weight, bias, alpha)
    if assignment == "hard":
        expected = float(m.distances(h).detach().min(1).values.mean())
    assert float(terms["clustering"]) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_array_equal(stats["labels"], m.distances(h).argmin(1))


@dataclass(frozen=True)
class Watched(Bound):
    """Notes after every step how long the longest centre is beside the bound, and b's mean."""

    seen: list[tuple[float, float]] = field(default_factory=list)

    def after_step(self, params, phase):
        super().after_step(params, phase)
        weight, bias = params[WEIGHT].detach(), params[BIAS].detach()
        tied = -weight.square().sum(-1) / 4
        longest = float(weight.norm(dim=-1).max() / (2 * params[BETA].max()))
        self.seen.append((longest, float((bias - tied).mean().abs())))


@pytest.mark.parametrize("changes", [
    {}, {"units": "paper", "alpha": 1e-3}, {"assignment": "soft", "alpha": 5.0},
    {"normalize": False}, {"training": Training("adadelta")}, {"training": Training("sgd")},
    {"training": Training(restarts="stacked"), "n_init": 2, "autoencoder": MLP((8,), 3)},
])  # fmt: skip
def test_the_constraint_holds_after_every_step(blobs, changes):
    est = KMeansNet(3, scale="unit", **QUICK | {"tol": 0.0} | changes)
    data = est._open(blobs[0], reset=True)
    warm = pretrain_epochs(est, data)
    plan = joint_schedule(frozen=stands_still(est))
    rules = Watched(units=est._rules().units, hard=est.assignment == "hard")
    train(est, data, plan, rules)
    longest, drift = np.array(rules.seen).T
    assert len(longest) == (warm + est.max_iter) * len(data)
    assert longest.max() <= 1 + 1e-5
    assert drift.max() < 1e-4
    if rules.hard:
        gaps = [r["clustering"] for r in est.history_ if r["phase"] == "joint"]
        assert min(gaps) > -1e-4  # distances, however long b has been free


def test_only_what_leads_out_is_taken_from_a_gradient():
    weight = torch.tensor([[2.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 0.0]], requires_grad=True)
    weight.grad = torch.tensor([[-1.0, 3.0], [1.0, 3.0], [-1.0, 3.0], [-1.0, 3.0]])
    along_bound_(weight, torch.tensor(2.0))
    np.testing.assert_array_equal(weight.grad, [[0, 3], [1, 3], [-1, 3], [-1, 3]])


# Estimator ------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "adadelta", "adagrad"])
@pytest.mark.parametrize("decoupled", [True, False])
def test_on_the_sphere_it_is_spherical_k_means(blobs, optimizer, decoupled):
    """At rest every centre points to its cluster's mean, whatever scales the coordinates."""
    X = blobs[0] / np.linalg.norm(blobs[0], axis=1, keepdims=True)
    lr = {"adam": 0.01, "rmsprop": 0.003, "adadelta": 1.0, "adagrad": 0.1}[optimizer]
    start = unit(np.stack([X[blobs[1] == j].mean(0) for j in range(3)]) + 0.3)
    est = KMeansNet(3, autoencoder="identity", scale="norm", max_iter=400, tol=0, init=start,
                    decoupled=decoupled, random_state=0, batch_size=240,
                    training=Training(optimizer, lr=lr)).fit(blobs[0])  # fmt: skip
    means = np.stack([X[est.labels_ == j].mean(0) for j in range(3)])
    cosine = (unit(means) * unit(est.cluster_centers_)).sum(1)
    assert cosine.min() > 0.999


def unit(a):
    return a / np.linalg.norm(a, axis=1, keepdims=True)


def test_identity_and_coupled_is_k_means(blobs):
    X = blobs[0] / 10
    start = X[[int(np.argmax(blobs[1] == j)) for j in range(3)]]
    km = KMeans(3, init=start, n_init=1).fit(X)
    est = KMeansNet(3, autoencoder="identity", normalize=False, decoupled=False, init=start,
                    max_iter=150, tol=0, batch_size=len(X), random_state=0,
                    training=Training("adam", lr=0.02)).fit(X)  # fmt: skip
    assert est.inertia_ <= 1.01 * km.inertia_


def test_small_alpha_and_soft_assignment_has_one_centre(blobs):
    """The deviation's reason: below the critical alpha all centres end at the mean."""
    settings = {"autoencoder": "identity", "scale": "norm", "init": "k-means", "tol": 0}
    settings |= {"training": Training("adam", lr=0.02), "max_iter": 150, "random_state": 0}
    gaps = {}
    for alpha in (0.01, 50.0):
        est = KMeansNet(3, assignment="soft", decoupled=False, alpha=alpha, **settings)
        gaps[alpha] = np.ptp(est.fit(blobs[0]).cluster_centers_, axis=0).max()
    assert gaps[0.01] < 0.01
    assert gaps[50.0] > 0.3


@pytest.mark.parametrize("init", ["k-means++", "k-means", "random rows", "random", "graph"])
def test_starts(blobs, init):
    est = KMeansNet(3, autoencoder=MLP((32,), 5), scale="unit", init=init, **QUICK).fit(blobs[0])
    np.testing.assert_array_equal(est.predict(blobs[0]), est.labels_)
    np.testing.assert_array_equal(est.predict_proba(blobs[0]).argmax(1), est.labels_)
    np.testing.assert_allclose(np.linalg.norm(est.transform(blobs[0]), axis=1), 1, rtol=1e-5)


def test_it_finds_groups_and_says_how(blobs):
    X, y = blobs
    network, adam = MLP((64,), 5, code="sigmoid"), Training("adam")
    est = KMeansNet(3, scale="unit", pretrain=40, max_iter=20, init="k-means", random_state=0,
                    autoencoder=network, training=adam).fit(X)  # fmt: skip
    assert ari(y, est.labels_) > 0.9
    assert est.prototypes_.shape == (3, 6)
    assert est.history_[-1]["phase"] == "joint"
    assert float(est.module_.lam) > 0
    assert not est.module_.beta.requires_grad


def test_the_papers_networks_by_default_without_what_harms_them():
    est = KMeansNet()
    flat, image = est._network((784,)), est._network((1, 28, 28))
    assert isinstance(flat, MLP) and isinstance(image, Conv)
    assert (flat.hidden, flat.latent) == ((500, 500, 2000), 10)
    assert image.layout == "kmeansnet"
    assert all(
        (spec.dropout, spec.code, spec.output) == (0, "linear", "linear") for spec in (flat, image)
    )


def test_joint_and_frozen_move_what_they_should(blobs):
    X, fit = blobs[0], QUICK | {"tol": 0.0, "scale": "unit"}
    a = KMeansNet(3, **fit | {"max_iter": 0}).fit(X).module_.state_dict()
    b = KMeansNet(3, **fit).fit(X).module_.state_dict()
    c = KMeansNet(3, representation="frozen", **fit).fit(X).module_.state_dict()
    for name in a:
        still = name in ("lam", "beta")
        assert torch.equal(a[name], b[name]) == still, name
        assert torch.equal(a[name], c[name]) == (still or name.startswith("autoencoder")), name


def test_restarts_streams_files_and_sparse_rows(blobs, tmp_path):
    X = blobs[0]
    est = KMeansNet(3, n_init=2, scale="unit", normalize=False, **QUICK).fit(X)
    assert est.best_restart_ == int(np.argmin(est.restart_losses_))
    est.save(tmp_path / "run")
    again = pellucid.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict(X), est.labels_)
    assert torch.equal(again.module_.beta, est.module_.beta)
    again.partial_fit(X)
    piece = KMeansNet(3, scale="unit", random_state=0).partial_fit(X)
    piece.partial_fit(X[:50])
    assert piece.labels_.shape == (50,)
    dense = KMeansNet(3, scale="norm", **QUICK).fit(np.abs(X))
    sparse = KMeansNet(3, scale="norm", **QUICK).fit(sp.csr_matrix(np.abs(X)))
    np.testing.assert_array_equal(dense.labels_, sparse.labels_)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alpha": 0.0}, "alpha=0.0.*positive"),
        ({"settle": -1}, "settle=-1.*at least 0"),
        ({"assignment": "firm"}, "hard"),
        ({"units": "miles"}, "paper"),
        ({"lam": "best"}, "auto"),
        ({"representation": "thawed"}, "frozen"),
        ({"init": np.zeros((3, 9))}, r"\(3, 9\)"),
    ],
)
def test_bad_parameters_say_what_to_do(blobs, change, words):
    with pytest.raises(ValueError, match=words):
        KMeansNet(**{"n_clusters": 3, **QUICK, **change}).fit(blobs[0])


def test_w_and_b_settle_before_the_network_joins():
    X = load_digits().data[:300]
    still = KMeansNet(10, scale="unit", pretrain=2, max_iter=2, settle=2, random_state=0).fit(X)
    start = KMeansNet(10, scale="unit", pretrain=2, max_iter=0, random_state=0).fit(X)
    joint = KMeansNet(10, scale="unit", pretrain=2, max_iter=2, settle=0, random_state=0).fit(X)
    assert [h["phase"] for h in still.history_] == ["pretrain", "pretrain", "settle", "settle"]
    weights = [est.module_.autoencoder.encoder[0].weight for est in (still, start, joint)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[2], weights[1])
    assert not np.array_equal(still.cluster_centers_, start.cluster_centers_)


def test_alpha_is_a_unit_where_the_assignment_is_hard():
    """Fig. 5: the same fit from 1e-5 to 0.5."""
    X = load_digits().data[:300]
    low, high = (
        KMeansNet(10, alpha=a, scale="unit", pretrain=2, max_iter=5, random_state=0).fit(X)
        for a in (1e-5, 0.5)
    )
    np.testing.assert_array_equal(low.cluster_centers_, high.cluster_centers_)
    np.testing.assert_array_equal(low.labels_, high.labels_)
