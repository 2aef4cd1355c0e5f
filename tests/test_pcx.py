"""PC-X: each equation against its oracle, gradient, limit and theorem; the estimator."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from torch import nn
from torch.autograd import gradcheck

import pellucid
from helpers import Fused, assert_same_fit, ctrl_c
from oracles import pcx as oracle
from pellucid import MLP, PCX, Training
from pellucid.algorithms import pcx
from pellucid.explain import explain
from pellucid.losses import entropy_loss, reweighted_loss
from pellucid.metrics import ari, curves, fusion_shares
from pellucid.nn import CIUnit, Codebook, Sizes, squared_distances
from pellucid.nn.codebook import auxiliary, coordinated, kappa_of, move_, straight_through
from pellucid.nn.sizes import effective_share, omega, smoothed
from pellucid.training import Phase, Rows

TAU, ETA_1 = 0.7, 0.3
SMALL = MLP(hidden=(16,), latent=3)
QUICK: dict[str, Any] = {
    "pretrain": 20, "max_iter": 12, "random_state": 0, "scale": "unit", "batch_size": 32,
}  # fmt: skip
JOINT = Phase({"reconstruction": 1.0, "clustering": ETA_1, "entropy": 0.1}, knobs={"settled": 1})


@pytest.fixture
def embedded():
    """Embedded samples (14, 3) and centroids (4, 3) in float64."""
    rng = np.random.default_rng(5)
    return torch.from_numpy(rng.normal(size=(14, 3))), torch.from_numpy(rng.normal(size=(4, 3)))


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(240, centers=3, n_features=6, cluster_std=0.8, random_state=4)


def one_hot(z, mu):
    labels = squared_distances(z, mu).argmin(1)
    return nn.functional.one_hot(labels, len(mu)).double(), labels


def book(mu) -> Codebook:
    """A codebook at mu, in float64."""
    made = Codebook(*mu.shape).double()
    made.set_centers_(mu)
    return made


def moved(z, mu, steps=1, **how):
    """Centroids and shares after some steps towards the same batch."""
    made, labels = book(mu), one_hot(z, mu)[1]
    for _ in range(steps):
        made.update_(z, labels, **how)
    return made.weight.detach(), made.shares.detach()


def module(k=3, d=6, **changes) -> pcx.PCXModule:
    """A module in float64, built as the estimator builds it."""
    est = PCX(k, autoencoder=SMALL, **changes)
    est.sample_shape_, est.bounded_, est.autoencoder_, est.spread_ = (d,), False, SMALL, 2.0
    est.n_features_in_ = d
    torch.manual_seed(3)
    return est._build_module().double()


def terms_of(made, x, phase=JOINT):
    rows = Rows(torch.arange(len(x)), torch.zeros(len(x), dtype=torch.long))
    return made(x, rows, phase)


# Equations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [0.1, 5.0])
def test_eq1_2_3_8(embedded, tau):
    z, mu = embedded
    d = squared_distances(z, mu)
    lam = pcx.memberships(d, tau)
    delta, labels = one_hot(z, mu)
    for n, row in enumerate(z.numpy()):
        np.testing.assert_allclose(lam[n], oracle.eq2_lambda(row, mu.numpy(), tau), rtol=1e-9)
        assert delta[n].tolist() == oracle.eq2_delta(row, mu.numpy(), tau)
    found = reweighted_loss(d, labels, torch.ones(4).double())
    assert float(found) == pytest.approx(oracle.eq1_clustering(z.numpy(), mu.numpy(), tau))
    assert float(entropy_loss(-tau * d)) == pytest.approx(oracle.eq8(z.numpy(), mu.numpy(), tau))
    unit, made = CIUnit(3, start="glorot").double(), book(mu)
    z_hat = unit(z, made.quantize(labels)).detach()
    for n, row in enumerate(z.numpy()):
        weights = unit.fuse.weight.detach().numpy(), unit.fuse.bias.detach().numpy()
        expected = oracle.eq3_z_hat(row, mu.numpy(), tau, *weights)
        np.testing.assert_allclose(z_hat[n], expected, rtol=1e-9)


@pytest.mark.parametrize("rho", [1e-3, 0.2, 40.0])
def test_eq6_is_the_argmin_of_its_subproblem(embedded, rho):
    """Eq. 15 and 16: the closed form has no gradient and no better neighbour."""
    z, mu = embedded
    delta, _ = one_hot(z, mu)
    kappa = kappa_of(delta, ETA_1, rho)
    c = auxiliary(z, delta, mu, kappa).requires_grad_()
    expected = oracle.eq6(z.numpy(), delta.numpy(), mu.numpy(), ETA_1, rho)
    np.testing.assert_allclose(c.detach(), expected, rtol=1e-9)
    value = coordinated(z, delta, c, mu, ETA_1, rho)
    told = oracle.eq4(z.numpy(), delta.numpy(), expected, mu.numpy(), ETA_1, rho)
    assert value.item() == pytest.approx(told)
    assert torch.autograd.grad(value, c)[0].abs().max() < 1e-12 * max(rho, 1)
    for seed in range(5):
        step = torch.from_numpy(np.random.default_rng(seed).normal(size=c.shape)) * 0.01
        assert coordinated(z, delta, c + step, mu, ETA_1, rho) > value


def test_a_constant_kappa_is_the_argmin_with_a_rho_of_each_cluster(embedded):
    z, mu = embedded
    delta, _ = one_hot(z, mu)
    kappa, p = 0.995, delta.mean(0)
    c = auxiliary(z, delta, mu, torch.full((4,), kappa, dtype=z.dtype)).requires_grad_()
    expected = oracle.eq6_constant(z.numpy(), delta.numpy(), mu.numpy(), kappa)
    np.testing.assert_allclose(c.detach(), expected, rtol=1e-9)
    rho = kappa * ETA_1 * p / (1 - kappa)
    gradient = torch.autograd.grad(coordinated(z, delta, c, mu, ETA_1, rho), c)[0]
    assert gradient.abs().max() < 1e-12


def test_eq6_limits(embedded):
    """rho to infinity keeps mu, rho to zero takes the means of the batch."""
    z, mu = embedded
    delta, labels = one_hot(z, mu)
    slow = auxiliary(z, delta, mu, kappa_of(delta, ETA_1, 1e12))
    torch.testing.assert_close(slow, mu, rtol=0, atol=1e-10)
    fast = auxiliary(z, delta, mu, kappa_of(delta, ETA_1, 1e-12))
    for k in set(labels.tolist()):
        torch.testing.assert_close(fast[k], z[labels == k].mean(0), rtol=1e-8, atol=0)


def test_the_layer_moves_as_the_equations_say(embedded):
    z, mu = embedded
    delta, _ = one_hot(z, mu)
    arrays = z.numpy(), delta.numpy(), mu.numpy()
    mu_, alpha = moved(z, mu, kappa=0.9)
    np.testing.assert_allclose(mu_, oracle.eq6_constant(*arrays, 0.9), rtol=1e-9)
    n = len(z)  # Eq. 13 counts; the layer holds shares
    expected = oracle.eq13([n / 4] * 4, delta.numpy(), 0.9)
    np.testing.assert_allclose(alpha * n, expected, rtol=1e-7)
    mu_, alpha = moved(z, mu, steps=5, kappa=0.9, pace="counts")
    told, shares = oracle.counts([arrays[:2]] * 5, arrays[2], [0.25] * 4, 0.9)
    np.testing.assert_allclose(mu_, told, rtol=1e-7)
    np.testing.assert_allclose(alpha, shares, rtol=1e-7)
    made = book(mu)
    grads = torch.autograd.grad(made.pull(z, delta.argmax(1)), [made.weight, made.shares])
    move_(made.weight, made.shares, *grads, pace="rho", rho=0.2 / ETA_1)
    np.testing.assert_allclose(made.weight.detach(), oracle.eq6(*arrays, ETA_1, 0.2), rtol=1e-9)


def test_the_pull_is_the_derivative_of_eq15(embedded):
    z, mu = embedded
    delta, labels = one_hot(z, mu)
    made, c = book(mu), mu.clone().requires_grad_()
    pull = made.pull(z, labels)
    assert pull.item() == 0
    grad, shares = torch.autograd.grad(pull, [made.weight, made.shares])
    expected = torch.autograd.grad(coordinated(z, delta, c, mu, ETA_1, 5.0), c)[0]
    torch.testing.assert_close(2 * ETA_1 * grad, expected)
    torch.testing.assert_close(shares, delta.mean(0))


@pytest.mark.parametrize("pace", ["steady", "rho", "counts"])
def test_a_batch_that_repeats_the_centroids_moves_nothing(embedded, pace):
    mu = embedded[1]
    after, _ = moved(mu.repeat(3, 1), mu, steps=4, pace=pace)
    torch.testing.assert_close(after, mu, rtol=0, atol=1e-15)
    assert torch.equal(moved(embedded[0], mu, kappa=1.0)[0], mu)  # PC-X-Fix


def test_eq10_to_14(embedded):
    z, mu = embedded
    alpha = torch.tensor([5.0, 1.0, 6.0, 2.0]).double()
    np.testing.assert_allclose(omega(alpha), oracle.eq10(alpha.tolist()))
    np.testing.assert_allclose(smoothed(alpha, 5.0), oracle.eq14(alpha.tolist(), 5.0))
    labels = torch.arange(14) % 4
    d, sizes = squared_distances(z, mu), torch.bincount(labels).double()
    found = reweighted_loss(d, labels, 1 / omega(alpha))
    told = oracle.eq12_clustering(z.numpy(), labels.tolist(), mu.numpy(), alpha.tolist())
    assert float(found) == pytest.approx(told)
    # Eq. 11, and (1) of Eq. 12: with the true sizes the mean over clusters of their variances.
    plain = float(reweighted_loss(d, labels, torch.ones(4)))
    assert plain == pytest.approx(oracle.eq11(z.numpy(), labels.tolist(), mu.numpy()))
    own = d.gather(1, labels[:, None])[:, 0]
    variances = [float(own[labels == k].mean()) for k in range(4)]
    weighted = float(reweighted_loss(d, labels, 1 / omega(sizes)))
    assert weighted == pytest.approx(np.mean(variances))


def test_limits(embedded):
    """tau to infinity: lambda is delta and the entropy zero; tau = 0: log K."""
    d = squared_distances(*embedded)
    torch.testing.assert_close(pcx.memberships(d, 1e6), one_hot(*embedded)[0])
    assert float(entropy_loss(-1e6 * d)) == pytest.approx(0, abs=1e-12)
    assert float(entropy_loss(0 * d)) == pytest.approx(np.log(4))
    assert float(smoothed(torch.tensor([3.0, 1.0]), 1e9)[0]) == pytest.approx(2)
    assert float(effective_share(torch.ones(4) / 4)) == pytest.approx(1)
    assert float(effective_share(torch.tensor([1.0, 0, 0, 0]))) == pytest.approx(0.25)


def test_gradients(embedded):
    z, mu = (t.clone().requires_grad_() for t in embedded)
    _, labels = one_hot(*embedded)
    weights = torch.rand(4).double()
    assert gradcheck(lambda z, mu: entropy_loss(-TAU * squared_distances(z, mu)), (z, mu))
    weighted = lambda z, mu: reweighted_loss(squared_distances(z, mu), labels, weights)  # noqa: E731
    assert gradcheck(weighted, (z, mu))
    unit = CIUnit(3, start="glorot").double()
    assert gradcheck(unit, (z, torch.randn(14, 3).double().requires_grad_()))
    far = torch.full((2, 3), 1e4, dtype=torch.float64, requires_grad=True)  # lambda is 0 or 1
    (grad,) = torch.autograd.grad(entropy_loss(-5 * squared_distances(far, embedded[1])), far)
    assert grad.isfinite().all()


def test_straight_through_takes_the_value_of_one_and_the_gradient_of_the_other(embedded):
    z, q = embedded[0].clone().requires_grad_(), embedded[0] + 1
    out = straight_through(z, q)
    torch.testing.assert_close(out, q)
    assert torch.equal(torch.autograd.grad(out.sum(), z)[0], torch.ones_like(z))


# Module ---------------------------------------------------------------------------------------


def test_terms_are_the_equations_and_reach_what_they_should():
    made, x = module(eta_1=ETA_1, reduction="sum", sphere=False), torch.randn(20, 6).double()
    terms, stats = terms_of(made, x)
    z, mu = made.encode(x).detach(), made.centers.detach()
    tau = made.tau
    told = oracle.eq1_clustering(z.numpy(), mu.numpy(), tau)
    assert terms["clustering"].item() == pytest.approx(told)
    assert terms["entropy"].item() == pytest.approx(oracle.eq8(z.numpy(), mu.numpy(), tau))
    x_hat = made.decode(made.encode(x))  # Eq. 9: through h(z, z_tilde)
    error = (x - x_hat).square().sum(1).mean()
    assert terms["reconstruction"].item() == pytest.approx(error.item())
    confidence = pcx.memberships(made.codebook(z), tau).max(1)[0].mean()
    assert stats["confidence"].item() == pytest.approx(confidence.item())
    # Entropy and reconstruction do not move centroids, and no gradient of the clustering loss does.
    for name in ("entropy", "reconstruction"):
        grads = torch.autograd.grad(
            terms[name], [made.centers, made.codebook.shares], allow_unused=True, retain_graph=True
        )
        assert grads == (None, None), name
    weight = made.autoencoder.encoder[0].weight
    for term in terms.values():
        assert torch.autograd.grad(term, weight, retain_graph=True)[0].abs().sum() > 0
    per_sample, labels = made.eval().judge(x)
    weights = {"reconstruction": 1.0, "clustering": ETA_1, "entropy": made.eta_2}
    total = sum(w * terms[n].item() for n, w in weights.items())
    assert per_sample.mean().item() == pytest.approx(total)
    assert torch.equal(labels, stats["labels"])


@pytest.mark.parametrize("through", [True, False])
def test_z_tilde_lets_the_gradient_through_or_not(through):
    made = module(straight_through=through)
    z = torch.randn(5, 3).double().requires_grad_()
    fused = made.fused(z, torch.zeros(5, dtype=torch.long))
    grad = torch.autograd.grad(fused.sum(), z)[0]
    half = made.unit.fuse.weight.detach()[:, :3].sum(0)
    both = half + made.unit.fuse.weight.detach()[:, 3:].sum(0)
    torch.testing.assert_close(grad, (both if through else half).expand(5, 3))


def test_a_permutation_of_the_clusters_permutes_everything():
    a, b, order = module(k=4), module(k=4), [2, 0, 3, 1]
    b.codebook.set_centers_(a.centers.detach()[order])
    x = torch.randn(30, 6).double()
    (one, one_stats), (two, two_stats) = terms_of(a, x), terms_of(b, x)
    for name in one:
        torch.testing.assert_close(one[name], two[name])
    assert torch.equal(torch.tensor(order)[two_stats["labels"]], one_stats["labels"])
    for made, stats in ((a, one_stats), (b, two_stats)):
        made.codebook.update_(made.encode(x), stats["labels"], kappa=0.5)
    torch.testing.assert_close(a.centers[order], b.centers)
    torch.testing.assert_close(a.codebook.shares[order], b.codebook.shares)
    torch.testing.assert_close(a.decode(a.centers)[order], b.decode(b.centers))


def test_equal_sizes_make_imba_pcx_and_others_do_not():
    x = torch.randn(30, 6).double()
    plain, made = module(), module(imbalance=True)
    one, two = (terms_of(m, x)[0]["clustering"] for m in (plain, made))
    assert torch.equal(one, two)
    with torch.no_grad():
        for m in (plain, made):
            m.codebook.shares.copy_(torch.tensor([0.9, 0.05, 0.05]))
    one, two = (terms_of(m, x)[0]["clustering"] for m in (plain, made))
    assert one.item() != pytest.approx(two.item())
    burning = Phase(JOINT.weights, knobs={"settled": 0})
    assert torch.equal(terms_of(made, x, burning)[0]["clustering"], one)


def test_auto_decides_from_the_sizes():
    even, uneven = torch.tensor([0.3, 0.4, 0.3]), torch.tensor([0.9, 0.05, 0.05])
    sizes = Sizes("auto", 5.0, 256)
    weights, uses = sizes.weights(even)
    assert torch.equal(weights, torch.ones(3)) and not uses
    weights, uses = sizes.weights(uneven)
    torch.testing.assert_close(weights, 1 / omega(smoothed(uneven * 256, 5.0)))
    assert uses and weights[0] < 1 < weights[1]


def test_noise_comes_while_training_only_and_from_the_torch_generator():
    made, z = module(noise=0.5), torch.randn(4000, 3).double()
    quiet = made.eval().fused(z, None)
    assert torch.equal(quiet, made.fused(z, None))
    added = made.train().fused(z, None) - quiet
    assert added.std().item() == pytest.approx(0.5, rel=0.05)


def test_the_unit_starts_as_the_mean():
    unit, z = CIUnit(3), torch.randn(5, 3)
    torch.testing.assert_close(unit(z, z), z)
    torch.testing.assert_close(unit(z, z + 2), z + 1)


def saved_bytes(b: int, k: int, d: int) -> int:
    """What the clustering part keeps for its gradients: the most that it holds at once."""
    made, z = Codebook(k, d), torch.randn(b, d, requires_grad=True)
    sizes: dict[int, int] = {}

    def note(t):
        sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        dist = made(z)
        labels = dist.argmin(-1)
        kept = [reweighted_loss(dist, labels, torch.ones(k)), made.pull(z, labels),
                straight_through(z, made.quantize(labels)), entropy_loss(-5 * dist)]  # fmt: skip
    assert len(kept) == 4
    return sum(sizes.values())


def test_memory_of_the_clustering_part():
    """Table 2: (B + K) d. What is kept grows by a batch or by a cluster, and N is nowhere.

    Nothing has B K d values: where d is large a second set of clusters adds next to nothing.
    """
    base = saved_bytes(256, 10, 10)
    assert saved_bytes(512, 10, 10) < 2.05 * base
    assert saved_bytes(256, 20, 10) < 2.05 * base
    assert saved_bytes(256, 20, 800) < 1.2 * saved_bytes(256, 10, 800)
    made = Codebook(10, 7)
    assert sum(t.numel() for t in made.state_dict().values()) == 10 * 7 + 10


# Estimator ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(blobs):
    return PCX(3, autoencoder=SMALL, eta_1=0.5, **QUICK).fit(blobs[0])


def test_it_finds_groups(blobs, fitted):
    X, y = blobs
    assert ari(y, fitted.labels_) > 0.9
    np.testing.assert_array_equal(fitted.predict(X), fitted.labels_)
    lam = fitted.predict_proba(X)
    np.testing.assert_array_equal(lam.argmax(1), fitted.labels_)
    row = oracle.eq2_lambda(fitted.transform(X[:1])[0], fitted.cluster_centers_, fitted.tau)
    np.testing.assert_allclose(lam[0], row, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(fitted.transform(X), axis=1), 1, rtol=1e-5)
    assert fitted.loss_ == fitted.restart_losses_[fitted.best_restart_]


def test_centroids_are_exemplars(blobs, fitted):
    """prototypes_ = g(h(mu, mu)), and real samples beside them."""
    X, made = blobs[0], fitted.module_
    with torch.no_grad():
        decoded = made.autoencoder.decode(made.unit(made.centers, made.centers)).numpy()
    np.testing.assert_allclose(fitted.prototypes_, fitted.scaler_.invert(decoded), rtol=1e-5)
    for cluster in explain(fitted, X, n_exemplars=2, rules=False).clusters:
        gaps = fitted.distances(X)[:, cluster.index]
        assert [s.row for s in cluster.central] == np.argsort(gaps)[:2].tolist()


@pytest.mark.parametrize(
    ("reduction", "x", "z"), [("sum", 1, 1), ("mean", 6, 3), ("relative", 2, 1)]
)
def test_reductions(reduction, x, z):
    rows = torch.randn(20, 6).double()
    made, plain = module(reduction=reduction), module(reduction="sum")
    one, two = (terms_of(m, rows)[0] for m in (made, plain))
    torch.testing.assert_close(one["reconstruction"] * x, two["reconstruction"])
    torch.testing.assert_close(one["clustering"] * z, two["clustering"])
    torch.testing.assert_close(one["entropy"], two["entropy"])


def test_relative_is_the_share_left_unexplained(blobs):
    est = PCX(3, **QUICK | {"pretrain": 1, "max_iter": 1}).fit(blobs[0])
    x = est.scaler_.apply(blobs[0].astype(np.float32))
    assert est.spread_ == pytest.approx(x.var(0).sum(), rel=1e-4)


def test_table_7_and_figure_4(blobs, fitted):
    X = blobs[0]
    shares = fusion_shares(fitted, X)
    assert shares.shape == (3, 2)
    z = fitted.transform(X)
    assert shares[1, 0] == pytest.approx(oracle.table7(z[fitted.labels_ == 1]), rel=1e-4)
    lines = curves(fitted)
    assert all(len(c) == fitted.n_iter_ for c in lines.values())
    assert np.isnan(lines["clustering"][:20]).all() and (lines["clustering"][20:] > 0).all()
    begun = np.isfinite(lines["entropy"])
    assert begun[23:].all() and not begun[:23].any()  # a quarter of twelve epochs of burn-in
    assert 1 / 3 <= lines["confidence"][-1] <= 1


def test_without_a_network_it_is_online_k_means(blobs):
    X = blobs[0] / 10
    start = X[np.random.default_rng(1).choice(len(X), 3, replace=False)]
    km = KMeans(3, init=start, n_init=1).fit(X)
    how: dict[str, Any] = {"max_iter": 100, "tol": 0, "random_state": 0, "batch_size": 240}
    est = PCX(3, autoencoder="identity", init=start, kappa=0.9, **how).fit(X)
    assert est.inertia_ == pytest.approx(km.inertia_, rel=1e-3)
    assert ari(km.labels_, est.labels_) > 0.9


@pytest.mark.parametrize("pace", ["steady", "counts"])
def test_restarts_in_a_stack_are_the_restarts_alone(blobs, pace):
    def fit(restarts):
        settings = Training("adam", lr=1e-3, restarts=restarts, precision="float32")
        how = {**QUICK, "pretrain": 2, "max_iter": 4, "tol": 0, "n_init": 3, "init": "k-means"}
        return PCX(3, autoencoder=SMALL, training=settings, pace=pace, **how).fit(blobs[0])

    a, b = fit("stacked"), fit("single")
    np.testing.assert_allclose(a.restart_losses_, b.restart_losses_, rtol=1e-4)
    np.testing.assert_allclose(a.cluster_centers_, b.cluster_centers_, rtol=1e-3, atol=1e-4)
    assert a.best_restart_ == int(np.argmin(a.restart_losses_)) == b.best_restart_
    with pytest.raises(ValueError, match="noise"):
        PCX(3, noise=0.5, n_init=2, training=Training("adam", restarts="stacked")).fit(blobs[0])


def test_an_interrupted_fit_goes_on_exactly(blobs, tmp_path):
    X = blobs[0].astype(np.float32)
    how = {**QUICK, "scale": None, "pretrain": 2, "max_iter": 5, "tol": 0, "noise": 0.3}

    def make(folder=None):
        settings = Training("adam", checkpoint_dir=folder, restarts="single")
        return PCX(3, autoencoder=SMALL, training=settings, **how)

    (tmp_path / "armed").touch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cut = make(tmp_path).fit(Fused(X, tmp_path / "armed", 1600, ctrl_c))
    assert "Interrupted" in str(caught[-1].message) and cut.n_iter_ < 7
    assert_same_fit(make(tmp_path).fit(X), make().fit(X))


def test_streams_files_and_sparse_rows(blobs, fitted, tmp_path):
    X = blobs[0]
    fitted.save(tmp_path / "run")
    again = pellucid.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict(X), fitted.labels_)
    np.testing.assert_array_equal(again.prototypes_, fitted.prototypes_)
    before = again.cluster_centers_.copy()
    again.partial_fit(X)
    assert not np.array_equal(again.cluster_centers_, before)
    piece = PCX(3, scale="unit", random_state=0).partial_fit(X).partial_fit(X[:50])
    assert piece.labels_.shape == (50,)
    short = {**QUICK, "pretrain": 2, "max_iter": 2, "scale": None, "autoencoder": SMALL}
    dense = PCX(3, **short).fit(np.abs(X))
    sparse = PCX(3, **short).fit(sp.csr_matrix(np.abs(X)))
    np.testing.assert_array_equal(dense.labels_, sparse.labels_)


def test_the_switches(blobs):
    X, short = blobs[0], {**QUICK, "pretrain": 2, "max_iter": 3, "autoencoder": SMALL, "tol": 0}
    fixed = PCX(3, kappa=1.0, empty="keep", **short).fit(X)
    start = PCX(3, **short | {"max_iter": 0}).fit(X)
    np.testing.assert_array_equal(fixed.cluster_centers_, start.cluster_centers_)
    assert PCX(3, ci_unit=False, **short).fit(X).module_.unit is None
    flat = PCX(3, sphere=False, init="random", start="glorot", pace="counts", **short).fit(X)
    assert not np.allclose(np.linalg.norm(flat.transform(X), axis=1), 1)
    uneven = np.concatenate([X, np.repeat(X[blobs[1] == 0], 20, 0)])
    auto = PCX(3, imbalance="auto", burn_in=1, init="k-means", **short).fit(uneven)
    assert [h["reweighted"] for h in auto.history_ if "reweighted" in h] == [1, 1, 1]
    assert PCX(3, imbalance="auto", **short).fit(X).history_[-1]["reweighted"] == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"eta_1": 0.0}, "positive"),
        ({"eta_2": -1.0}, "zero or a positive"),
        ({"kappa": 2.0}, "from 0 to 1"),
        ({"pace": "fast"}, "counts"),
        ({"start": "warm"}, "glorot"),
        ({"imbalance": "often"}, "auto"),
        ({"init": np.zeros((3, 9))}, r"\(3, 9\)"),
    ],
)
def test_bad_parameters_say_what_to_do(blobs, change, words):
    with pytest.raises(ValueError, match=words):
        PCX(**{"n_clusters": 3, **QUICK, **change}).fit(blobs[0])
