"""TELL: each equation against its oracle, gradient, limit and theorem; then the estimator."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import NotFittedError
from torch.autograd import gradcheck

from oracles import tell as oracle
from pellucid import TELL, Centers, Conv, Training
from pellucid.algorithms import tell
from pellucid.fitting import after_reconstruction
from pellucid.init import cluster_means
from pellucid.losses import (
    clustering_loss,
    gradient_bound,
    kmeans_objective,
    lemma_1_radius,
    published_loss,
    reconstruction_loss,
)
from pellucid.metrics import ari
from pellucid.nn import (
    ClusterLayer,
    coupled_logits,
    hard_memberships,
    layer_distances,
    layer_parameters,
    soft_memberships,
    squared_distances,
    unit_rows,
)
from pellucid.training import Diverged, Rows
from pellucid.training.centers import center_rules

QUICK = {"n_init": 1, "pretrain": 3, "max_iter": 4, "random_state": 0}


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def points(rng):
    """Points (12, 3), centres (4, 3) in float64, and the points on the sphere."""
    x, omega = rng.normal(size=(12, 3)), rng.normal(size=(4, 3))
    return torch.from_numpy(x), torch.from_numpy(omega)


@pytest.fixture(scope="module")
def sphere_blobs():
    """Three tight groups of directions in five dimensions, and which is which."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 60)
    return np.eye(5)[y] * 4 + rng.normal(scale=0.5, size=(180, 5)), y


# Equations ------------------------------------------------------------------------------------


def test_eq1_and_3_objective(points):
    x, omega = points
    s = hard_memberships(squared_distances(x, omega))
    expected = oracle.eq1_kmeans(x.numpy(), s.numpy(), omega.numpy())
    assert float(kmeans_objective(x, s, omega)) == pytest.approx(expected, rel=1e-12)
    d = squared_distances(x, omega)
    assert float(clustering_loss(d, s)) * len(x) == pytest.approx(expected, rel=1e-12)


def test_eq2_centres_are_means(points):
    x, omega = points
    labels = squared_distances(x, omega).argmin(1)
    means = cluster_means(x, labels, 4)
    for j in labels.unique().tolist():
        np.testing.assert_allclose(means[j], oracle.eq2_centre(x.numpy(), labels.numpy(), j))


def test_eq4_5_6_the_layer_is_the_distance(points):
    x, omega = points
    weight, bias = layer_parameters(omega)
    w, b = oracle.eq5_layer(omega.numpy())
    np.testing.assert_allclose(weight, w)
    np.testing.assert_allclose(bias, b)
    through_layer, expanded = layer_distances(x, weight, bias), squared_distances(x, omega)
    for i in range(len(x)):
        for j in range(len(omega)):
            d = oracle.eq4_distance(x[i].numpy(), omega[j].numpy())
            assert oracle.eq6_distance(x[i].numpy(), w[j], b[j]) == pytest.approx(d)
            assert float(through_layer[i, j]) == pytest.approx(d)
            assert float(expanded[i, j]) == pytest.approx(d)


@pytest.mark.parametrize("tau", [0.05, 1.0, 30.0])
def test_eq7_8_attention(points, tau):
    x, omega = points
    soft = soft_memberships(squared_distances(x, omega), tau)
    w, b = oracle.eq5_layer(omega.numpy())
    for i, row in enumerate(x.numpy()):
        np.testing.assert_allclose(
            soft[i], oracle.eq7_attention(row, omega.numpy(), tau), rtol=1e-9
        )
        np.testing.assert_allclose(soft[i], oracle.eq8_attention(row, w, b, tau), rtol=1e-9)


def test_eq7_limits(points):
    x, omega = points
    d = squared_distances(x, omega)
    np.testing.assert_allclose(soft_memberships(d, 1e-4), hard_memberships(d), atol=1e-9)
    np.testing.assert_allclose(soft_memberships(d, 1e9), np.full((12, 4), 0.25), atol=1e-6)


@pytest.mark.parametrize("tau", [0.3, 2.0])
def test_eq9_10_11_loss_and_coupling(points, tau):
    x, omega = points
    weight, bias = layer_parameters(omega)
    expected = oracle.eq9_loss(x.numpy(), *oracle.eq5_layer(omega.numpy()), tau)
    assert float(tell.layer_loss(x, weight, bias, tau)) == pytest.approx(expected)
    # Eq. 11 is the coupled case: the same number through f(z).
    z = coupled_logits(x, weight)
    assert float(tell.attention_loss(z, tau)) == pytest.approx(expected)
    row = [oracle.eq11_z(x[0].numpy(), w.numpy()) for w in weight]
    np.testing.assert_allclose(z[0], row)
    by_hand = -sum(oracle.eq10_f(row, j, tau) for j in range(4))
    assert float(tell.attention_loss(z[:1], tau)) == pytest.approx(by_hand)


def test_eq12_13_is_eq9_on_the_sphere(points):
    x, omega = map(unit_rows, points)
    weight, bias = layer_parameters(omega)
    np.testing.assert_allclose(bias, -np.ones(4))  # b is a constant there, and beta = 1
    on_sphere = float(tell.sphere_loss(x, weight))
    assert on_sphere == pytest.approx(oracle.eq13_loss(x.numpy(), weight.numpy()))
    assert on_sphere == pytest.approx(float(tell.layer_loss(x, weight, bias, None)))
    assert published_loss(on_sphere, 4) == pytest.approx(oracle.table_s1(x.numpy(), weight.numpy()))


def test_eq14_reconstruction(rng):
    x, x_hat = rng.normal(size=(5, 2, 3)), rng.normal(size=(5, 2, 3))
    summed = reconstruction_loss(torch.from_numpy(x_hat), torch.from_numpy(x), "sum")
    mean = reconstruction_loss(torch.from_numpy(x_hat), torch.from_numpy(x), "mean")
    assert float(summed) == pytest.approx(oracle.eq14_reconstruction(x, x_hat))
    assert float(mean) == pytest.approx(float(summed) / 6)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_eq15_terms_of_the_module(reduction):
    est = TELL(3, autoencoder=None, reduction=reduction)
    est.sample_shape_, est.bounded_ = (6,), False
    from pellucid.autoencoders import MLP

    est.autoencoder_ = MLP(hidden=(5,), latent=4)
    module = est._build_module().double()
    rows = Rows(torch.arange(9), torch.full((9,), -1))
    x = torch.randn(9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    phase = tell.schedule(0.01, Centers())(1)
    terms, stats = module(x, rows, phase)
    z = module.encode(x).detach().numpy()
    weight = module.clusters.weight.detach().numpy()
    terms = {name: float(t.detach()) for name, t in terms.items()}
    assert terms["representation"] == pytest.approx(oracle.eq13_loss(z, weight))
    x_hat = module.decode(module.encode(x)).detach().numpy()
    share = 1 if reduction == "sum" else 6
    expected = oracle.eq14_reconstruction(x.numpy(), x_hat) / share
    assert terms["reconstruction"] == pytest.approx(expected)
    np.testing.assert_array_equal(stats["labels"], (z @ weight.T).argmax(1))


@pytest.mark.parametrize("tau", [0.2, 1.5])
def test_gradients(points, tau):
    x, omega = (t.clone().requires_grad_() for t in points)
    weight, bias = (t.detach().requires_grad_() for t in layer_parameters(omega))
    assert gradcheck(lambda *a: tell.layer_loss(*a, tau), (x, weight, bias))
    assert gradcheck(lambda w: tell.layer_loss(x.detach(), w, bias.detach(), None), (weight,))
    assert gradcheck(
        lambda z: tell.attention_loss(z, tau), (torch.randn(5, 3).double().requires_grad_(),)
    )
    assert gradcheck(lambda w: tell.sphere_loss(unit_rows(x.detach()), w), (weight,))
    assert gradcheck(lambda w: coupled_logits(x.detach(), w), (weight,))


# Theorems -------------------------------------------------------------------------------------


def test_hard_loss_at_lloyds_solution_is_inertia_with_zero_gradient():
    X, _ = make_blobs(200, centers=4, n_features=3, random_state=3)
    km = KMeans(4, n_init=5, random_state=0, tol=0).fit(X)
    layer = ClusterLayer(4, 3, normalize=False).double()
    layer.set_centers_(torch.from_numpy(km.cluster_centers_))
    x = torch.from_numpy(X)
    d = layer(x)
    loss = clustering_loss(d, hard_memberships(d))
    loss.backward()
    assert float(loss.detach()) * len(X) == pytest.approx(km.inertia_, rel=1e-9)
    assert float(layer.weight.grad.abs().max()) < 1e-9


@pytest.mark.parametrize("tau", [0.1, 1.0, 5.0])
def test_theorem_1_bounds_the_gradient(rng, tau):
    for scale in (0.1, 1.0, 10.0):
        z = torch.from_numpy(rng.normal(scale=scale, size=(200, 6))).requires_grad_()
        (-tau * (torch.softmax(z, -1) * z).sum()).backward()  # L = -tau sum p_i z_i (Eq. 4, App. A)
        bound = float(gradient_bound(z.detach(), tau))
        assert bound == pytest.approx(oracle.theorem_1(z.detach().numpy(), tau))
        assert float(z.grad.abs().max()) <= bound


def test_lemma_1_radius_is_reached_by_fixed_steps(sphere_blobs):
    """SGD with a fixed step on the convex stretch around the optimum ends within eta eps^2 / 2."""
    X, y = sphere_blobs
    z = unit_rows(torch.from_numpy(X))
    assign = F.one_hot(torch.from_numpy(y), 3).double()  # fixed features, fixed memberships
    best = unit_rows(torch.stack([z[y == j].mean(0) for j in range(3)]))
    optimum = float(clustering_loss(squared_distances(z, best), assign))
    layer = ClusterLayer(3, 5, normalize=False).double()
    layer.set_centers_(unit_rows(best + 0.5))
    for eta in (0.3, 0.03):
        lowest, largest = np.inf, 0.0
        for _ in range(600):
            layer.weight.grad = None
            loss = clustering_loss(layer(z), assign)
            loss.backward()
            largest = max(largest, float(layer.weight.grad.norm()))
            lowest = min(lowest, float(loss.detach()))
            with torch.no_grad():
                layer.weight -= eta * layer.weight.grad
        free = cluster_means(z, torch.from_numpy(y), 3)
        optimum = float(clustering_loss(squared_distances(z, free), assign))
        assert 0 <= lowest - optimum + 1e-9 <= lemma_1_radius(eta, largest) + 1e-9


def test_decoupled_bias_grows_without_bound_and_coupling_holds_it(sphere_blobs):
    """Section 2.2.3: W and b on their own go to infinity; b = -|W|^2 / 4 does not."""
    x = torch.from_numpy(sphere_blobs[0])
    growth = {}
    for coupled in (True, False):
        torch.manual_seed(0)
        layer = ClusterLayer(3, 5, normalize=False, coupled=coupled).double()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        sizes = []
        for _ in range(2000):
            optimizer.zero_grad()
            d = layer(x)
            clustering_loss(d, hard_memberships(d)).backward()
            optimizer.step()
            sizes.append(float((layer.weight.norm() + layer.bias.norm()).detach()))
        growth[coupled] = sizes[-1] / sizes[999]
    assert growth[True] == pytest.approx(1, abs=1e-3)
    assert growth[False] > 1.8


# Rules ----------------------------------------------------------------------------------------


def test_centre_step_is_the_published_rule(points):
    x, omega = map(unit_rows, points)
    weight = (2 * omega).requires_grad_()
    tell.sphere_loss(x, weight).backward()
    labels = (x @ omega.T).argmax(1).numpy()
    rules = center_rules(Centers(step=0.1))
    params = {"clusters.weight": weight}
    phase = tell.schedule(1.0, Centers(), frozen=True)(0)
    rules.edit_grads(params, phase)
    rules.after_step(params, phase)
    expected = oracle.centre_step(omega.numpy(), x.numpy(), labels, 0.1)
    np.testing.assert_allclose(weight.detach() / 2, expected, rtol=1e-9)


def test_adadelta_in_published_units_is_nearly_the_rule(sphere_blobs):
    """paper: alpha = 0.001 makes Adadelta's epsilon dominate, so both routes agree."""
    X = sphere_blobs[0]
    common = {"autoencoder": "identity", "max_iter": 1, "init": "k-means++", "batch_size": 180}
    a = TELL(3, **QUICK | common, centers=Centers(by="rule")).fit(X)
    b = TELL(3, **QUICK | common, centers=Centers(by="optimizer")).fit(X)
    np.testing.assert_allclose(a.cluster_centers_, b.cluster_centers_, atol=2e-3)


def test_figure_2_three_cases(sphere_blobs):
    """(a) W grows; (b) unit length, jumps about; (c) unit length, small steps."""
    X = sphere_blobs[0]
    base = {"autoencoder": "identity", "tol": 0, "training": Training("sgd", lr=1.0)}
    base |= {"lam": 10.0, "reduction": "sum"}  # a gradient that is large beside W
    lengths = {}
    for case, spec in {
        "a": Centers(weight_norm=False, step=None),
        "b": Centers(step=None),
        "c": Centers(),
    }.items():
        est = TELL(3, **QUICK | base | {"max_iter": 40}, centers=spec).fit(X)
        lengths[case] = np.linalg.norm(est.cluster_centers_, axis=1)
    assert lengths["a"].max() > 10
    np.testing.assert_allclose(lengths["b"], 1, rtol=1e-5)
    np.testing.assert_allclose(lengths["c"], 1, rtol=1e-5)


def test_schedule_alternates_and_frozen_moves_centres_only():
    plan = after_reconstruction(2, tell.schedule(0.01, Centers()))
    assert [plan(i).name for i in range(5)] == [
        "pretrain", "pretrain", "centers", "representation", "centers",
    ]  # fmt: skip
    assert plan(2).weights == {"reconstruction": 1.0, "centers": 0.01}
    assert plan(3).weights == {"reconstruction": 1.0, "representation": 0.01}
    stage = after_reconstruction(2, tell.schedule(0.01, Centers(), frozen=True))
    assert stage(2).weights == stage(3).weights == {"centers": 0.01}
    assert "autoencoder" in stage(3).frozen


# Estimator ------------------------------------------------------------------------------------


def test_finds_groups_and_reads_like_scikit_learn(sphere_blobs):
    X, y = sphere_blobs
    est = TELL(3, n_init=2, pretrain=30, max_iter=20, random_state=0).fit(X)
    assert ari(y, est.labels_) == 1.0
    np.testing.assert_array_equal(est.predict(X), est.labels_)
    np.testing.assert_array_equal(est.predict_proba(X).argmax(1), est.labels_)
    np.testing.assert_array_equal(est.distances(X).argmin(1), est.labels_)
    np.testing.assert_allclose(est.predict_proba(X).sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(est.transform(X), axis=1), 1, rtol=1e-5)
    assert est.score(X) == pytest.approx(-est.inertia_, rel=1e-5)
    assert est.inertia_ == pytest.approx((est.distances(X).min(1) ** 2).sum(), rel=1e-4)
    assert est.prototypes_.shape == (3, 5)
    assert est.best_restart_ == int(np.argmin(est.restart_losses_))
    assert est.restart_labels_.shape == (2, 180)
    assert est.loss_ == est.restart_losses_[est.best_restart_]
    assert [s["loss"] for s in est.restart_scores_] == list(est.restart_losses_)
    assert est.loss_ == pytest.approx(est.inertia_ / 180, rel=1e-4)
    assert len(est.history_) == est.n_iter_ == len(est.loss_curve_)
    assert sum(est.history_[-1]["sizes"]) == 180
    assert "clusters.weight" in est.module_.state_dict()


def test_permuting_the_clusters_permutes_everything(sphere_blobs):
    X = sphere_blobs[0]
    start = unit_rows(torch.from_numpy(X[[0, 70, 130, 20]])).numpy()
    order = np.array([2, 0, 3, 1])
    settings = QUICK | {"autoencoder": "identity", "max_iter": 6, "tol": 0}
    a = TELL(4, init=start, **settings).fit(X)
    b = TELL(4, init=start[order], **settings).fit(X)
    np.testing.assert_allclose(b.cluster_centers_, a.cluster_centers_[order], rtol=1e-5)
    np.testing.assert_array_equal(order[b.labels_], a.labels_)
    np.testing.assert_allclose(b.distances(X), a.distances(X)[:, order], rtol=1e-3, atol=1e-6)
    assert b.history_[-1]["sizes"] == [a.history_[-1]["sizes"][j] for j in order]


def test_soft_assignment_decoupled_and_plain_space():
    X, y = make_blobs(150, centers=3, n_features=2, cluster_std=0.4, random_state=1)
    plain = Centers(normalize=False, step=None)
    est = TELL(3, autoencoder="identity", scale="standard", init="k-means", n_init=1, max_iter=30,
               centers=plain, training=Training("sgd", lr=0.5), random_state=0).fit(X)  # fmt: skip
    km = KMeans(3, n_init=10, random_state=0).fit((X - X.mean(0)) / X.std(0))
    assert est.inertia_ == pytest.approx(km.inertia_, rel=0.01)
    soft = TELL(3, autoencoder="identity", scale="standard", tau=0.05, n_init=1, max_iter=30,
                centers=plain, training=Training("sgd", lr=0.5), random_state=0).fit(X)  # fmt: skip
    assert ari(y, soft.labels_) == ari(y, est.labels_) == 1.0
    loose = TELL(3, autoencoder="identity", scale="standard", n_init=1, max_iter=3, random_state=0,
                 centers=Centers(normalize=False, step=None, coupled=False),
                 training=Training("sgd", lr=0.01)).fit(X)  # fmt: skip
    assert "clusters.free_bias" in loose.module_.state_dict()


def test_two_stage_leaves_the_representation_as_it_was_learned(sphere_blobs):
    X = sphere_blobs[0]
    a = TELL(3, representation="frozen", **QUICK | {"max_iter": 0}).fit(X)
    b = TELL(3, representation="frozen", **QUICK | {"max_iter": 5, "tol": 0}).fit(X)
    before, after = a.module_.state_dict(), b.module_.state_dict()
    for name in before:
        assert torch.equal(before[name], after[name]) == name.startswith("autoencoder"), name


def test_partial_fit_follows_a_stream(sphere_blobs):
    X, y = sphere_blobs
    est = TELL(3, autoencoder="identity", random_state=0, n_init=2, max_iter=10).fit(X[::6])
    for start in range(0, 180, 30):
        est.partial_fit(X[start : start + 30])
    assert ari(y, est.predict(X)) == 1.0
    drifted = np.roll(X, 1, axis=1)  # every group moves to another axis
    before = -est.score(drifted)
    for _ in range(20):
        est.partial_fit(drifted)
    assert -est.score(drifted) < before
    new = TELL(3, autoencoder="identity", random_state=0)
    for start in range(0, 180, 30):
        new.partial_fit(X[np.arange(start, start + 180, 6) % 180])
    assert ari(y, new.predict(X)) == 1.0
    np.testing.assert_array_equal(new.predict(X[:30]), new.predict(X)[:30])


def test_partial_fit_from_nothing_trains_the_network(sphere_blobs):
    X = sphere_blobs[0]
    est = TELL(3, random_state=0).partial_fit(X)
    first = {n: t.clone() for n, t in est.module_.state_dict().items()}
    est.partial_fit(X)
    assert all(not torch.equal(first[n], t) for n, t in est.module_.state_dict().items())


def test_empty_centres_are_reported_and_revived(sphere_blobs):
    X = sphere_blobs[0]
    start = np.eye(5)[[0, 1, 2, 3]] * np.array([[1], [1], [1], [-1]])  # nobody is at -e3
    settings = QUICK | {"autoencoder": "identity", "max_iter": 4, "tol": 0, "init": start}
    kept = TELL(4, empty="keep", **settings).fit(X)
    assert [h["empty"] for h in kept.history_] == [[3]] * 4
    np.testing.assert_allclose(kept.cluster_centers_[3], start[3], atol=1e-6)
    revived = TELL(4, empty="revive", **settings).fit(X)
    assert revived.history_[0]["empty"] == [3]
    assert revived.history_[-1]["empty"] == []
    assert np.bincount(revived.labels_, minlength=4).min() > 0


def test_snapshots_hold_what_the_figures_are_drawn_from(sphere_blobs):
    est = TELL(3, snapshots=(2, 5), **QUICK).fit(sphere_blobs[0])
    taken = {h["epoch"]: h["snapshot"] for h in est.history_ if "snapshot" in h}
    assert sorted(taken) == [2, 5]
    assert np.shape(taken[5]["centers"]) == (3, 10)
    assert np.shape(taken[5]["prototypes"]) == (3, 5)
    assert np.shape(taken[5]["embedding"]) == (180, 10)


def test_images_through_the_convolutional_network():
    images = load_digits().images[:300].repeat(2, 1).repeat(2, 2).astype(np.uint8) * 15
    est = TELL(10, **QUICK | {"pretrain": 1, "max_iter": 2}).fit(images)
    assert isinstance(est.autoencoder_, Conv)
    assert est.prototypes_.shape == (10, 1, 16, 16)
    assert 0 <= est.prototypes_.min() and est.prototypes_.max() <= 1
    np.testing.assert_array_equal(est.predict(images), est.labels_)


def test_cluster_layer_in_a_network_and_loop_of_ones_own():
    """A two-layer network and a plain loop: Eq. 13 falls and the labels are those of k-means."""
    X, y = make_blobs(300, centers=4, n_features=6, cluster_std=0.6, random_state=2)
    x = torch.from_numpy(X / np.abs(X).max()).float()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8))
    layer = ClusterLayer(4, 8)
    with torch.no_grad():
        layer.set_centers_(net(x)[[int(np.flatnonzero(y == j)[0]) for j in range(4)]])
    optimizer = torch.optim.SGD([*net.parameters(), *layer.parameters()], lr=0.2)
    losses = []
    for _ in range(150):
        d = layer(net(x))
        loss = clustering_loss(d, hard_memberships(d))
        optimizer.zero_grad()
        loss.backward()
        layer.normalize_gradient_(0.1)
        optimizer.step()
        layer.normalize_weight_()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
    km = KMeans(4, n_init=10, random_state=0).fit(X)
    assert ari(km.labels_, layer(net(x)).argmin(1).numpy()) == 1.0


# Bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"n_clusters": 0}, ValueError, "n_clusters=0"),
        ({"n_clusters": 181}, ValueError, "n_samples=180"),
        ({"init": "kmeans"}, ValueError, "k-means"),
        ({"init": np.zeros((3, 4))}, ValueError, r"\(3, 4\)"),
        ({"autoencoder": "cnn"}, ValueError, "conv"),
        ({"autoencoder": object()}, TypeError, "encode"),
        ({"autoencoder": "conv"}, ValueError, "image_shape"),
        ({"image_shape": (4, 4)}, ValueError, r"4, 4"),
        ({"training": "adam"}, TypeError, "Training"),
        ({"training": Training("adamw")}, ValueError, "adadelta"),
        ({"training": Training(device="cuda")}, ValueError, "CUDA"),
        ({"training": Training(device="nonsense")}, ValueError, "nonsense"),
        ({"training": Training(lr=-1.0)}, ValueError, "positive"),
        ({"tau": 0.0}, ValueError, "tau"),
        ({"select": "labels"}, ValueError, "loss"),
        ({"reduction": "none"}, ValueError, "mean"),
        ({"representation": "two"}, ValueError, "frozen"),
        ({"empty": "drop"}, ValueError, "revive"),
        ({"pretrain": -1}, ValueError, "pretrain"),
        ({"centers": Centers(by="hand")}, ValueError, "rule"),
        ({"centers": {"step": 0.1}}, TypeError, "Centers"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"lam": "auto"}, ValueError, "positive"),
        ({"tol": -1e-3}, ValueError, "tol=-0.001"),
        ({"tol": "none"}, ValueError, "share"),
        ({"snapshots": 5}, TypeError, "snapshots=5"),
    ],
)
def test_bad_parameters_say_what_to_do(sphere_blobs, change, error, words):
    if "cuda" in str(change) and torch.cuda.is_available():
        pytest.skip("CUDA is here")
    with pytest.raises(error, match=words):
        TELL(**{"n_clusters": 3, **QUICK, **change}).fit(sphere_blobs[0])


def test_bad_data_says_what_to_do(sphere_blobs):
    X = sphere_blobs[0]
    est = TELL(3, **QUICK)
    with pytest.raises(NotFittedError):
        est.predict(X)
    for bad, words in (
        (np.where(X > 4, np.nan, X), "NaN"),
        (X[:, 0], "1D array"),
        (X[:2], "n_samples=2"),
        (X[:0], "0 sample"),
        (np.array([["a", "b"], ["c", "d"]]), "has text among its values: encode it"),
        ([[0.0] * 3, [0.0] * 4, [0.0] * 3], r"3 rows of different shapes, \[\(3,\), \(4,\)\]"),
    ):
        with pytest.raises(ValueError, match=words):
            est.fit(bad)
    est.fit(X)
    with pytest.raises(ValueError, match="3 features, but TELL is expecting 5 features"):
        est.predict(X[:, :3])
    with pytest.raises(ValueError, match="shape"):
        est.predict(np.zeros((2, 5, 5)))
    with pytest.raises(ValueError, match=r"\(2, 9\).*\(n, 10\)"):
        est.inverse_transform(np.zeros((2, 9)))


def test_a_network_spoilt_before_there_are_centres_is_named(sphere_blobs):
    """The last step of reconstruction may do it, after a loss that was still a number."""
    spoilt = {"pretrain": 1, "batch_size": 200, "training": Training("sgd", lr=1e30)}
    with pytest.raises(Diverged, match=r"restart 0 is not finite.*Lower the learning rate"):
        TELL(3, **QUICK | spoilt).fit(sphere_blobs[0])


def test_constant_columns_and_duplicates_are_fine(sphere_blobs):
    X = np.c_[sphere_blobs[0], np.full(180, 3.0)]
    for scale in (None, "unit", "standard", "norm"):
        est = TELL(3, scale=scale, **QUICK).fit(X)
        assert np.isfinite(est.cluster_centers_).all()
    with pytest.raises(ValueError, match="all values are 1"):
        TELL(2, **QUICK).fit(np.ones((20, 3)))


def test_centred_bytes_are_refused():
    images = np.random.default_rng(0).integers(0, 256, (40, 16, 16)).astype(float)
    for bad in (images, images - images.mean(0)):
        with pytest.raises(ValueError, match="scale="):
            TELL(2, **QUICK).fit(bad)
