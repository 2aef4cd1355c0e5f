"""Layers: distances, memberships, the cluster layer in all of its modes, and the losses on them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import vmap

from pellucid.losses import clustering_loss, reconstruction_loss
from pellucid.nn import (
    ClusterLayer,
    full_precision,
    hard_memberships,
    layer_distances,
    nearest,
    soft_memberships,
    squared_distances,
    unit_rows,
)
from pellucid.nn.centers import normalize_gradient_, normalize_weight_

MODES = {
    "sphere": {},
    "coupled": {"normalize": False},
    "decoupled": {"normalize": False, "coupled": False},
}
EACH_MODE = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


def draw(*shape: int, seed: int = 0, double: bool = False) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    t = torch.randn(shape, generator=generator, dtype=torch.float64)
    return t if double else t.float()


def layer(k: int = 4, d: int = 3, **mode) -> ClusterLayer:
    made = ClusterLayer(k, d, **mode)
    made.set_centers_(draw(k, d, seed=9))
    return made


def oracle(z, omega) -> np.ndarray:
    """||z_i - omega_j||^2, coordinate by coordinate."""
    out = np.zeros((len(z), len(omega)))
    for i, point in enumerate(np.asarray(z, dtype=np.float64)):
        for j, centre in enumerate(np.asarray(omega, dtype=np.float64)):
            out[i, j] = sum((p - c) ** 2 for p, c in zip(point, centre, strict=True))
    return out


# Geometry ------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 6), st.integers(0, 99))
def test_squared_distances_are_what_a_loop_finds(b, k, d, seed):
    z, omega = draw(b, d, seed=seed, double=True), draw(k, d, seed=seed + 1, double=True)
    np.testing.assert_allclose(squared_distances(z, omega), oracle(z, omega), atol=1e-12)
    np.testing.assert_allclose(
        squared_distances(z.float(), omega.float()), oracle(z, omega), rtol=1e-4, atol=1e-5
    )


def test_squared_distances_take_stacks():
    z, omega = draw(3, 5, 4), draw(3, 2, 4, seed=1)
    whole = squared_distances(z, omega)
    for r in range(3):
        torch.testing.assert_close(whole[r], squared_distances(z[r], omega[r]))


def test_a_point_on_its_centre_is_at_distance_zero_not_below():
    """The expansion loses the last digits there: without the clamp some come out negative."""
    z = 1000 + draw(300, 50)
    raw = z.square().sum(1) - 2 * (z * z).sum(1) + z.square().sum(1)
    gaps = squared_distances(z, z)
    assert gaps.min() >= 0 and (gaps.sqrt() >= 0).all()
    assert gaps.diagonal().max() <= 1e-6 * float(z.square().sum(1).max()) + raw.abs().max()
    assert torch.equal(nearest(draw(20, 5), draw(20, 5))[0], torch.arange(20))


@pytest.mark.parametrize("chunk", [1, 7, 20, 100])
def test_nearest_in_chunks_is_nearest(chunk):
    z, omega = draw(20, 6), draw(5, 6, seed=1)
    index, gap = nearest(z, omega, chunk)
    whole = oracle(z, omega)
    np.testing.assert_array_equal(index, whole.argmin(1))
    np.testing.assert_allclose(gap, whole.min(1), rtol=1e-4, atol=1e-5)


def test_unit_rows_keep_zero_and_direction():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0], [-1e-3, 0.0]])
    torch.testing.assert_close(unit_rows(x), torch.tensor([[0.6, 0.8], [0.0, 0.0], [-1.0, 0.0]]))
    assert unit_rows(draw(2, 3, 4)).norm(dim=-1).allclose(torch.ones(2, 3))


# Precision -----------------------------------------------------------------------------------


@full_precision
def dtypes(*args: object, **kwargs: object) -> list[object]:
    values = [*args, *kwargs.values()]
    return [a.dtype if isinstance(a, Tensor) else a for a in values]


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_full_precision_widens_half_and_leaves_the_rest(half):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = dtypes(torch.ones(2, dtype=half), torch.ones(2).double(), 3, x=torch.ones(2).to(half))
    assert got == [torch.float32, torch.float64, 3, torch.float32]


@pytest.mark.parametrize(
    "fn",
    [
        lambda z, w: squared_distances(z, w),
        lambda z, w: squared_distances(z=z, omega=w),
        lambda z, w: layer_distances(z, w, -w.square().sum(-1) / 4),
        lambda z, w: soft_memberships(squared_distances(z, w), 0.5),
        lambda z, w: hard_memberships(z),
        lambda z, w: unit_rows(z),
        lambda z, w: reconstruction_loss(z, z + 1),
        lambda z, w: clustering_loss(z, z),
        lambda z, w: layer()(z),
    ],
)
def test_losses_and_distances_are_float32_under_autocast(fn):
    z, w = draw(6, 3), draw(4, 3, seed=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = (z @ torch.eye(3)).bfloat16()
        assert fn(half, w).dtype == torch.float32
        assert torch.equal(fn(z, w), fn(z, w).float())
    torch.testing.assert_close(fn(z, w), autocast(fn, z, w), rtol=0, atol=0)


def autocast(fn, *args):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return fn(*args)


# Memberships ---------------------------------------------------------------------------------


def test_memberships_and_their_limits():
    gaps = draw(30, 5).square()
    hard, eye = hard_memberships(gaps), torch.eye(5)
    assert torch.equal(hard, eye[gaps.argmin(1)])
    torch.testing.assert_close(soft_memberships(gaps, 1e-4), hard)
    torch.testing.assert_close(
        soft_memberships(gaps, 1e6), torch.full((30, 5), 0.2), atol=1e-4, rtol=0
    )
    soft = soft_memberships(gaps, 0.7)
    torch.testing.assert_close(soft.sum(1), torch.ones(30))
    assert torch.equal(soft.argmax(1), gaps.argmin(1))
    for i in range(3):
        e = np.exp(-gaps[i].double().numpy() / 0.7)
        np.testing.assert_allclose(soft[i], e / e.sum(), rtol=1e-5)


def test_memberships_survive_large_distances():
    gaps = torch.tensor([[1e30, 2e30], [0.0, 1e30]])
    torch.testing.assert_close(soft_memberships(gaps, 1e-3), torch.tensor([[1.0, 0], [1, 0]]))


def test_a_stack_of_memberships():
    gaps = draw(3, 6, 4).square()
    for fn in (hard_memberships, lambda d: soft_memberships(d, 0.3)):
        torch.testing.assert_close(vmap(fn)(gaps), torch.stack([fn(g) for g in gaps]))


# The layer -----------------------------------------------------------------------------------


@EACH_MODE
def test_forward_is_the_squared_distance_to_the_centres(mode):
    made, z = layer(**mode), draw(20, 3)
    seen = made.embed(z)
    np.testing.assert_allclose(
        made(z).detach(), oracle(seen, made.centers.detach()), rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(made(z).detach(), squared_distances(seen, made.centers.detach()))


@EACH_MODE
def test_centres_are_the_weights_halved(mode):
    made, centers = ClusterLayer(4, 3, **mode), draw(4, 3, seed=5)
    before = centers.clone()
    made.set_centers_(centers)
    assert torch.equal(centers, before)
    wanted = unit_rows(centers) if made.normalize else centers
    torch.testing.assert_close(made.centers.detach(), wanted)
    torch.testing.assert_close(made.weight.detach(), 2 * wanted)
    torch.testing.assert_close(made.bias.detach(), -wanted.square().sum(-1))
    assert set(dict(made.named_parameters())) == (
        {"weight", "free_bias"} if mode.get("coupled") is False else {"weight"}
    )
    assert "weight" in made.state_dict()


@EACH_MODE
def test_a_fresh_layer_is_consistent(mode):
    made, z = ClusterLayer(5, 3, **mode), draw(7, 3)
    gaps = squared_distances(made.embed(z), made.centers.detach())
    torch.testing.assert_close(made(z).detach(), gaps)
    if made.normalize:
        torch.testing.assert_close(made.weight.norm(dim=1), torch.full((5,), 2.0))


def test_the_bias_follows_or_is_free_or_constant():
    z = draw(10, 3)
    sphere, coupled, free = (layer(**mode) for mode in MODES.values())
    for made in (sphere, coupled, free):
        made(z).sum().backward()
    assert not sphere.bias.requires_grad
    # Coupled: d/dW of -W'z + ||W||^2/4, summed; free: without the second part.
    torch.testing.assert_close(coupled.weight.grad, 10 * coupled.weight / 2 - z.sum(0).expand(4, 3))
    torch.testing.assert_close(free.weight.grad, -z.sum(0).expand(4, 3))
    torch.testing.assert_close(free.free_bias.grad, torch.full((4,), -10.0))
    torch.testing.assert_close(sphere.weight.grad, -unit_rows(z).sum(0).expand(4, 3))


@EACH_MODE
def test_dead_centres_move_to_the_farthest_rows(mode):
    made, z = layer(**mode), draw(40, 3)
    gaps = made(z).min(1).values
    still = made.centers[[0, 2]].clone()
    far = gaps.topk(2).indices
    made.revive_([1, 3], z)
    torch.testing.assert_close(made.centers[[1, 3]].detach(), made.embed(z[far]))
    assert torch.equal(made.centers[[0, 2]], still)
    torch.testing.assert_close(made.bias.detach(), -made.centers.detach().square().sum(-1))
    assert set(made(z).argmin(1).tolist()) >= {1, 3}


def test_weights_and_gradients_are_normalised():
    made, z = layer(), draw(30, 3)
    made(z)[:, :3].square().sum().backward()  # the last centre gets no gradient
    way = unit_rows(made.weight.grad)
    made.normalize_gradient_(0.1)
    torch.testing.assert_close(made.weight.grad.norm(dim=1)[:3], torch.full((3,), 0.2))
    assert torch.equal(made.weight.grad[3], torch.zeros(3))
    torch.testing.assert_close(unit_rows(made.weight.grad), way)
    with torch.no_grad():
        made.weight.mul_(3)
    made.normalize_weight_()
    torch.testing.assert_close(made.weight.norm(dim=1), torch.full((4,), 2.0))
    ClusterLayer(2, 3).normalize_gradient_()  # nothing to normalise yet


def test_tiny_gradients_keep_their_direction():
    w = nn.Parameter(torch.ones(2, 3))
    w.grad = torch.tensor([[1e-20, 0, 0], [0, 0, 0]])
    normalize_gradient_(w, 0.1)
    torch.testing.assert_close(w.grad[0], torch.tensor([0.1 * 3**0.5, 0, 0]))
    assert torch.equal(w.grad[1], torch.zeros(3))


def test_the_rules_take_stacks():
    stack = nn.Parameter(draw(3, 4, 2))
    stack.grad = draw(3, 4, 2, seed=1)
    alone = [nn.Parameter(w.detach().clone()) for w in stack]
    for w, g in zip(alone, stack.grad.clone(), strict=True):
        w.grad = g
        normalize_gradient_(w, 0.1)
        normalize_weight_(w)
    normalize_gradient_(stack, 0.1)
    normalize_weight_(stack)
    torch.testing.assert_close(stack.detach(), torch.stack([w.detach() for w in alone]))
    torch.testing.assert_close(stack.grad, torch.stack([w.grad for w in alone]))


def test_the_layer_says_what_it_is():
    assert "n_clusters=4, dim=3, normalize=True" in repr(ClusterLayer(4, 3))


def test_a_layer_is_rebuilt_from_its_state():
    for mode in MODES.values():
        made, other = layer(**mode), ClusterLayer(4, 3, **mode)
        other.load_state_dict(made.state_dict())
        z = draw(5, 3)
        assert torch.equal(made(z), other(z))


# Losses --------------------------------------------------------------------------------------


def test_losses_are_their_formulas():
    gaps, s = draw(6, 3).square(), soft_memberships(draw(6, 3, seed=1), 1.0)
    by_hand = sum(float(s[i, j] * gaps[i, j]) for i in range(6) for j in range(3)) / 6
    assert float(clustering_loss(gaps, s)) == pytest.approx(by_hand, rel=1e-5)
    x, x_hat = draw(5, 1, 2, 3), draw(5, 1, 2, 3, seed=1)
    each = [float((x[i] - x_hat[i]).square().sum()) for i in range(5)]
    assert float(reconstruction_loss(x_hat, x, "sum")) == pytest.approx(sum(each) / 5, rel=1e-5)
    assert float(reconstruction_loss(x_hat, x)) == pytest.approx(sum(each) / 30, rel=1e-5)
    assert float(reconstruction_loss(x, x)) == 0


@pytest.mark.parametrize(
    "fn",
    [
        lambda z, w, b: layer_distances(z, w, b),
        lambda z, w, b: squared_distances(z, w),
        lambda z, w, b: soft_memberships(squared_distances(z, w), 0.5),
        lambda z, w, b: clustering_loss(d := squared_distances(z, w), soft_memberships(d, 0.5)),
        lambda z, w, b: clustering_loss(d := layer_distances(z, w, b), hard_memberships(d)),
        lambda z, w, b: reconstruction_loss(z[:, :3], w[:4, :3].repeat(2, 1)[:5], "sum"),
        lambda z, w, b: unit_rows(z) @ unit_rows(w).mT,
    ],
    ids=["layer", "squares", "soft", "soft loss", "hard loss", "reconstruction", "sphere"],
)
def test_gradcheck(fn):
    z, w, b = (draw(*s, seed=i, double=True) for i, s in enumerate([(5, 3), (4, 3), (4,)]))
    inputs = [t.requires_grad_() for t in (z, w, b)]
    assert torch.autograd.gradcheck(fn, inputs)
