"""KernelNet: each equation against its oracle, gradient, limit and theorem; the estimator."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans as SpectralRows
from sklearn.datasets import load_digits, load_wine, make_blobs, make_moons
from torch.autograd import gradcheck

import pellucid
from helpers import Fused, ctrl_c
from oracles import kernelnet as oracle
from pellucid import MLP, KernelNet, Training, nn
from pellucid.algorithms import kernelnet as knet
from pellucid.autoencoders.mlp import identity_
from pellucid.data import open_data
from pellucid.metrics import ari, nmi
from pellucid.subsets import Reference, spectral_gap, spectrum, subset_rows

QUICK = {"max_iter": 2, "hard_refine": 0, "inner": 4, "random_state": 0}
SIGMA = 0.8


@pytest.fixture
def rows():
    """Samples (12, 3) in three loose groups, float64."""
    rng = np.random.default_rng(3)
    return torch.from_numpy(rng.normal(size=(12, 3)) + 2 * (np.arange(12) % 3)[:, None])


@pytest.fixture
def u(rows):
    """Orthonormal columns (12, 2)."""
    return torch.linalg.qr(torch.from_numpy(np.random.default_rng(4).normal(size=(12, 2))))[0]


@pytest.fixture(scope="module")
def moons():
    return make_moons(300, noise=0.04, random_state=1)


def laplacian(x, **options):
    return nn.Laplacian(nn.Exact(x, SIGMA, **options), x)


# Equations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("diagonal", [False, True])
def test_eq32_33_36(rows, diagonal):
    k = oracle.kernel(rows.numpy(), SIGMA, diagonal)
    found = laplacian(rows, diagonal=diagonal)
    eye = torch.eye(12, dtype=torch.float64)
    np.testing.assert_allclose(found.kernel.apply(eye), k, atol=1e-12)
    np.testing.assert_allclose(found.degrees, oracle.eq33_degrees(k), rtol=1e-12)
    np.testing.assert_allclose(found.similarity(eye), oracle.eq32_normalised(k), atol=1e-12)
    np.testing.assert_allclose(found.apply(eye), oracle.eq36_laplacian(k), atol=1e-12)


def test_eq34_and_411_are_one_number(rows, u):
    """Appendix C: the trace is the sum over pairs, whatever the normalisation."""
    k = oracle.kernel(rows.numpy(), SIGMA, False)
    found = laplacian(rows)
    trace = float(knet.hsic(found, u)) * 11**2
    assert trace == pytest.approx(oracle.eq34_hsic(k, u.numpy()) * 11**2, rel=1e-10)
    gammas = knet.gamma(knet.factor(u, found.degrees))
    expected = oracle.gamma(k, u.numpy())
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(gammas, expected, atol=1e-12)
    pairs = float(knet.pair_objective(rows, gammas, SIGMA))
    assert pairs == pytest.approx(oracle.eq411(expected, rows.numpy(), SIGMA), rel=1e-10)
    assert pairs == pytest.approx(trace, rel=1e-10)


def test_eq411_gradient(rows, u):
    gammas = knet.gamma(knet.factor(u, laplacian(rows).degrees))
    assert gradcheck(lambda z: knet.pair_objective(z, gammas, SIGMA), rows.clone().requires_grad_())


def test_eq411_limits(rows, u):
    """An infinite sigma sees all pairs alike, a small one sees none."""
    gammas = knet.gamma(knet.factor(u, laplacian(rows).degrees))
    assert float(knet.pair_objective(rows, gammas, 1e8)) == pytest.approx(float(gammas.sum()))
    assert float(knet.pair_objective(rows, gammas, 1e-3)) == pytest.approx(0, abs=1e-12)


def test_eq35_optimum_is_the_sum_of_the_top_eigenvalues(rows):
    found = laplacian(rows)
    values = np.linalg.eigvalsh(oracle.eq36_laplacian(oracle.kernel(rows.numpy(), SIGMA, False)))
    top, best = nn.top_eigenvectors(found.apply, torch.ones(12, 2, dtype=torch.float64))
    assert float(knet.hsic(found, best)) * 11**2 == pytest.approx(values[-2:].sum(), rel=1e-10)
    np.testing.assert_allclose(top, values[::-1][:2], rtol=1e-10)
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = torch.linalg.qr(torch.from_numpy(rng.normal(size=(12, 2))))[0]
        assert float(knet.hsic(found, other)) <= float(knet.hsic(found, best)) + 1e-12


def test_lanczos_is_the_dense_solver():
    x = torch.from_numpy(make_blobs(500, 4, centers=5, random_state=1)[0])
    found = nn.Laplacian(nn.Exact(x, 2.0), x)
    start = torch.randn(500, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values, vectors = nn.top_eigenvectors(found.apply, start, tol=1e-9)
    dense = np.linalg.eigvalsh(found.apply(torch.eye(500, dtype=torch.float64)).numpy())
    np.testing.assert_allclose(values, dense[::-1][:3], rtol=1e-7)
    np.testing.assert_allclose(vectors.mT @ vectors, np.eye(3), atol=1e-8)
    np.testing.assert_allclose(found.apply(vectors), vectors * values, atol=1e-6)


def test_eq515_to_517(rows, u):
    g = -2 * laplacian(rows).apply(u)
    skew = oracle.eq515_skew(g.numpy(), u.numpy())
    np.testing.assert_allclose(skew, -skew.T)
    for tau in (1e-3, 0.5, 4.0):
        woodbury = nn.cayley(u, g, tau)
        np.testing.assert_allclose(
            woodbury, oracle.eq517_cayley(g.numpy(), u.numpy(), tau), atol=1e-12
        )


def test_cayley_stays_on_the_manifold(rows, u):
    """U'U = I to 1e-12 over 1,000 steps."""
    apply = laplacian(rows).apply
    for _ in range(1000):
        u = nn.cayley(u, -2 * apply(u), 0.1)
    np.testing.assert_allclose(u.mT @ u, np.eye(2), atol=1e-12)


def test_the_printed_sign_leaves_the_manifold(rows, u):
    """Eq. 5.15 with its plus makes A symmetric, and one short step breaks U'U = I."""
    g, eye = (-2 * laplacian(rows).apply(u)).numpy(), np.eye(12)
    a = -(g @ u.numpy().T + u.numpy() @ g.T)
    moved = np.linalg.inv(eye + 0.005 * a) @ (eye - 0.005 * a) @ u.numpy()
    assert np.abs(moved.T @ moved - np.eye(2)).max() > 1e-3


def test_ascent_does_not_fall_and_arrives(rows, u):
    found = laplacian(rows)
    best = float(nn.top_eigenvectors(found.apply, u)[0].sum())
    values = [float((u * found.apply(u)).sum())]
    for _ in range(60):
        u, value = nn.ascend(found.apply, u)
        values.append(value)
        assert value == pytest.approx(float((u * found.apply(u)).sum()))
    assert (np.diff(values) >= -1e-12).all()
    assert values[-1] == pytest.approx(best, rel=1e-3)
    np.testing.assert_allclose(u.mT @ u, np.eye(2), atol=1e-12)


def test_relative_change_is_the_norm_of_the_difference(rows, u):
    v = torch.linalg.qr(torch.from_numpy(np.random.default_rng(9).normal(size=(12, 2))))[0]
    whole = (u @ u.mT - v @ v.mT).norm() / (v @ v.mT).norm()
    assert nn.relative_change(u, v) == pytest.approx(float(whole))
    turned = u @ torch.linalg.qr(torch.randn(2, 2).double())[0]
    assert nn.relative_change(u, turned) == pytest.approx(0, abs=1e-7)


# Kernels --------------------------------------------------------------------------------------


def test_blocks_are_the_stored_kernel(monkeypatch):
    monkeypatch.setattr("pellucid.nn.kernels.PIECE", 700)
    x = torch.randn(90, 3, dtype=torch.float64)
    v = torch.randn(90, 2, dtype=torch.float64)
    stored, blocks = nn.Exact(x, SIGMA), nn.Exact(x, SIGMA, stored=False)
    np.testing.assert_allclose(stored.apply(v), blocks.apply(v), rtol=1e-12)
    assert blocks.matrix.numel() == 0 and blocks.step == 7


def test_features_come_near_the_kernel():
    x = torch.from_numpy(make_moons(400, noise=0.05, random_state=1)[0])
    v = torch.randn(400, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    exact = nn.Exact(x, 0.3).apply(v)
    for gram, rank, most in (("nystrom", 120, 0.01), ("fourier", 4000, 0.2)):
        found = nn.make_kernel(x, 0.3, gram, rank=rank, seed=0).apply(v)
        assert float((found - exact).norm() / exact.norm()) < most, gram
    landmarks = nn.nystrom_features(x, 0.3, x)  # all rows as landmarks: exact
    np.testing.assert_allclose(landmarks @ landmarks.mT, nn.gaussian_kernel(x, x, 0.3), atol=1e-4)


def test_the_guard_speaks_before_memory_is_touched():
    X = np.lib.stride_tricks.as_strided(np.zeros(1), (200_000, 2), (0, 0))
    with pytest.raises(ValueError, match=r"200000 x 200000 rows takes 160\.0 GB.*subset=0\.1"):
        KernelNet(2).fit(X + np.arange(2) + (np.arange(200_000) % 2)[:, None])


# Network --------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [(), (8,), (8, 8), (9, 20, 8)])
def test_identity_to_the_last_bit(hidden):
    spec = MLP(hidden, 4, output="linear", weights="identity")
    network, x = spec.build((4,), False), torch.randn(50, 4) * 100
    assert torch.equal(network.encode(x), x)
    assert torch.equal(network.decode(x), x)


def test_identity_needs_room():
    with pytest.raises(ValueError, match=r"at least 8, not hidden=\(6,\) and latent=4"):
        MLP((6,), 4, output="linear", weights="identity").build((4,), False)
    with pytest.raises(ValueError, match="relu"):
        MLP((8,), 4, activation="elu", output="linear", weights="identity").build((4,), False)
    assert identity_(torch.nn.Sequential(torch.nn.Linear(2, 2))) is None


# Estimator ------------------------------------------------------------------------------------


def test_identity_alone_is_spectral_clustering(moons):
    """With psi the identity, U is the spectral embedding of X up to rotation."""
    X = moons[0]
    est = KernelNet(2, autoencoder="identity", ratio=0.1, scale=None, random_state=0).fit(X)
    matrix = oracle.eq36_laplacian(oracle.kernel(X, est.sigma_, False))
    values, vectors = np.linalg.eigh(matrix)
    assert est.loss_ == pytest.approx(-values[-2:].sum(), rel=1e-4)
    rows = nn.unit_rows(torch.from_numpy(vectors[:, -2:]))
    theirs = SpectralRows(2, n_init=10, random_state=0).fit_predict(rows)
    assert ari(theirs, est.spectral_labels_) == 1.0
    np.testing.assert_array_equal(est.labels_, est.predict(X))


@pytest.mark.parametrize("update", ["eig", "stiefel"])
def test_moons_become_convex(moons, update):
    X, y = moons
    est = KernelNet(2, update=update, ratio=0.1, wait=4, random_state=0).fit(X)
    assert nmi(y, est.labels_) > 0.99
    assert nmi(y, est.spectral_labels_) > 0.99
    np.testing.assert_array_equal(est.labels_, est.predict(X))
    np.testing.assert_array_equal(est.predict_proba(X).argmax(1), est.labels_)
    values = [h["value"] for h in est.history_ if "value" in h]
    assert 0 < values[-1] <= 2 and est.loss_ == pytest.approx(-values[-1])
    assert est.history_[-1]["sizes"] == np.bincount(est.labels_).tolist()
    new, truth = make_moons(200, noise=0.04, random_state=5)
    assert nmi(truth, est.predict(new)) > 0.95
    k = est.kernel(X)
    same = y[:, None] == y
    assert k[same].mean() > 2 * k[~same].mean()
    normal = est.kernel(X, normalized=True)
    np.testing.assert_allclose(np.linalg.eigvalsh(normal.astype(float))[-1], 1, atol=1e-4)


def test_a_subset_labels_everything():
    X, y = make_blobs(900, centers=3, n_features=4, random_state=2)
    est = KernelNet(3, subset=0.1, random_state=0).fit(X)
    assert est.subset_.shape == (90,) and est.labels_.shape == (900,)
    assert est.spectral_labels_.shape == (90,)
    assert nmi(y, est.labels_) > 0.95
    assert len(est.module_.spectral) == 0  # nothing of the rows stays
    other = KernelNet(3, subset=0.1, **QUICK | {"random_state": 1}).fit(X)
    assert not np.array_equal(other.subset_, est.subset_)


@pytest.mark.parametrize("gram", ["blocks", "nystrom", "fourier"])
def test_without_the_matrix(gram):
    X, y = make_blobs(300, centers=3, n_features=4, random_state=2)
    est = KernelNet(3, gram=gram, rank=200, ratio=0.5, **QUICK | {"inner": 15}).fit(X)
    assert nmi(y, est.labels_) > 0.95
    assert -3.2 < est.loss_ < -1


def test_blocks_and_matrix_agree(moons):
    a = KernelNet(2, **QUICK).fit(moons[0])
    b = KernelNet(2, gram="blocks", **QUICK).fit(moons[0])
    np.testing.assert_allclose(a.transform(moons[0]), b.transform(moons[0]), atol=1e-3)


def test_second_phase_and_labels_of_u(moons):
    X, y = moons
    est = KernelNet(2, ratio=0.1, wait=4, hard_refine=3, random_state=0).fit(X)
    assert nmi(y, est.labels_) > 0.99
    assert sum("moved" in h for h in est.history_) > 1
    spectral = KernelNet(2, ratio=0.1, wait=4, labels="spectral", random_state=0).fit(X)
    assert nmi(y, spectral.labels_) > 0.99
    np.testing.assert_array_equal(spectral.labels_, spectral.predict(X))


def test_pretraining_comes_near_the_identity():
    X = load_wine().data
    raw = KernelNet(3, max_iter=0, hard_refine=0).fit(X)
    x = (X - X.mean(0)) / X.std(0)
    np.testing.assert_allclose(raw.transform(X), x, atol=1e-4)
    short, long = (
        KernelNet(3, pretrain=p, max_iter=0, hard_refine=0, width=40, random_state=0).fit(X)
        for p in (5, 150)
    )
    gaps = [np.square(est.transform(X) - x).mean() for est in (short, long)]
    assert gaps[1] < 0.25 * gaps[0] and gaps[1] < 0.1


def test_lambda_keeps_the_input_readable(moons):
    X = moons[0]
    free = KernelNet(2, ratio=0.1, **QUICK).fit(X)
    held = KernelNet(2, ratio=0.1, lam=100.0, **QUICK).fit(X)

    def error(est):
        return np.square(est.inverse_transform(est.transform(X)) - X).mean()

    assert error(held) < 0.1 * error(free)
    # Without lambda the decoder learns all the same, and does not pull at psi.
    still = KernelNet(2, ratio=0.1, max_iter=0, hard_refine=0).fit(X)
    decoder = [n for n in free.module_.state_dict() if "decoder" in n]
    assert any(
        not torch.equal(free.module_.state_dict()[n], still.module_.state_dict()[n])
        for n in decoder
    )


def test_permuted_rows_permute_labels(moons):
    """A full batch knows no order; what is left is round-off."""
    X = moons[0]
    order = np.random.default_rng(0).permutation(300)
    settings = {"batch_size": 300, "inner": 20, "max_iter": 1, "hard_refine": 0, "width": 4}
    a = KernelNet(2, random_state=0, **settings).fit(X)
    b = KernelNet(2, random_state=0, **settings).fit(X[order])
    np.testing.assert_allclose(a.transform(X)[order], b.transform(X[order]), atol=1e-2)


def halves(z, others):
    """Two clusters by the sign of the first feature, as far as z shows them."""
    right = (others[:, 0] > z[:, 0].mean()).long()
    return torch.nn.functional.one_hot(right, 2).double()


def test_the_draw_that_others_agree_with():
    data = open_data(np.random.default_rng(0).normal(size=(60, 2)), scale="standard")

    def spread(z, others):
        """Parts with an even number of rows see other clusters than those with an odd number."""
        return torch.nn.functional.one_hot((others[:, len(z) % 2] > 0).long(), 2).double()

    whole = Reference(data, np.random.default_rng(0), spread)
    parts = [whole.z[:m] for m in (20, 21, 30, 40, 51, 53, 55)]
    assert whole.typical(parts, [0.1, 0.1, 0.2, 0.3, 1.0, 1.0, 1.0]) == 0  # three of four are even
    assert whole.typical(parts, [0.1, 0.1, 0.9, 0.9, 0.2, 0.3, 1.0]) == 1  # and here odd
    assert whole.gap(whole.z) == pytest.approx(0, abs=1e-12)


def test_u_waits_until_psi_shows_it(moons):
    """Curves come apart in the first steps, and HSIC falls; between blobs it only rises."""
    settings = {"hard_refine": 0, "inner": 2, "random_state": 0}
    for wait in (1, 7):
        est = KernelNet(2, ratio=0.1, wait=wait, **settings).fit(moons[0])
        assert est.n_iter_ == 2 * wait
        assert ["moved" in h for h in est.history_] == [False] * (2 * wait - 1) + [True]
    X, _ = make_blobs(200, centers=3, n_features=4, random_state=2)
    assert KernelNet(3, wait=7, **settings).fit(X).n_iter_ == 2


def test_spectrum_chooses_the_size():
    X, _ = make_blobs(600, centers=4, n_features=5, random_state=0)
    data = open_data(X, scale="standard")
    rows = subset_rows(data, "auto", 4, 0, halves)
    assert 4 <= len(rows) < 600
    np.testing.assert_array_equal(rows, subset_rows(data, "auto", 4, 0, halves))
    x = torch.from_numpy(X)
    whole = spectrum(x, 3.0)
    assert float(whole.sum()) == pytest.approx(1) and (whole.diff() <= 1e-12).all()
    assert spectral_gap(whole, whole, 20) == 0
    assert spectral_gap(whole, whole[:1], 3) == pytest.approx(float(whole[1]))
    est = KernelNet(4, subset="auto", **QUICK).fit(X)
    assert len(est.subset_) == len(rows) and len(est.labels_) == 600


@pytest.mark.parametrize("update", ["eig", "stiefel"])
def test_restarts_one_by_one_or_stacked(moons, update):
    X = moons[0]
    fits = [
        KernelNet(
            2, update=update, n_init=3, batch_size=100, **QUICK,
            training=Training("adam", precision="float32", restarts=how),
        ).fit(X)
        for how in ("single", "stacked")
    ]  # fmt: skip
    for est in fits:
        assert est.best_restart_ == int(np.argmin(est.restart_losses_))
        assert est.restart_labels_.shape == (3, 300)
        assert all(0 < scores["scatter"] < 1 for scores in est.restart_scores_)
    np.testing.assert_allclose(fits[0].restart_losses_, fits[1].restart_losses_, rtol=1e-3)


def test_cut_short_and_resumed_is_the_same(moons, tmp_path):
    X = moons[0].astype(np.float32)
    settings = QUICK | {
        "inner": 3,
        "max_iter": 3,
        "hard_refine": 1,
        "tol": 0.0,
        "update": "stiefel",
    }

    def make():
        training = Training("adam", precision="float32", checkpoint_dir=tmp_path)
        return KernelNet(2, scale=None, training=training, **settings)

    whole = KernelNet(2, scale=None, training=Training("adam", precision="float32"), **settings)
    whole.fit(X)
    with pytest.warns(UserWarning, match="Interrupted"):
        make().fit(Fused(X, tmp_path / "training-0.safetensors", 500, ctrl_c))
    again = make().fit(X)
    for name, t in whole.module_.state_dict().items():
        assert torch.equal(t, again.module_.state_dict()[name]), name
    np.testing.assert_array_equal(whole.labels_, again.labels_)


def test_files_sparse_rows_and_images(moons, tmp_path):
    import scipy.sparse as sp

    X = np.abs(moons[0])
    est = KernelNet(2, subset=100, **QUICK).fit(X)
    est.save(tmp_path / "run")
    again = pellucid.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict(X), est.labels_)
    np.testing.assert_array_equal(again.subset_, est.subset_)
    np.testing.assert_allclose(again.kernel(X[:20]), est.kernel(X[:20]))
    sparse = KernelNet(2, **QUICK).fit(sp.csr_matrix(X))
    np.testing.assert_array_equal(sparse.labels_, KernelNet(2, **QUICK).fit(X).labels_)
    images = load_digits().images[:120]
    few = KernelNet(3, subset=90, **QUICK | {"inner": 1}).fit(images)
    assert few.prototypes_.shape == (3, 1, 8, 8)
    assert few.kernel(images[:7]).shape == (7, 7)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"update": "qr"}, "stiefel"),
        ({"gram": "sparse"}, "nystrom"),
        ({"subset": 1.5}, "between 0 and 1"),
        ({"subset": 1}, "at least 2 rows"),
        ({"subset": "some"}, "auto"),
        ({"sigma": "mean"}, "median"),
        ({"sigma": -1.0}, "positive"),
        ({"ratio": 0.0}, "positive"),
        ({"lam": -1.0}, "zero or more"),
        ({"inner": 0}, "at least 1"),
        ({"wait": 0}, "at least 1"),
        ({"hard_refine": -1}, "at least 0"),
        ({"labels": "u"}, "embedding"),
    ],
)
def test_bad_parameters_say_what_to_do(moons, change, words):
    with pytest.raises(ValueError, match=words):
        KernelNet(**{"n_clusters": 2, **QUICK, **change}).fit(moons[0])
