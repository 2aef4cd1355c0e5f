"""Networks: shapes for every side, last activations, names and specs, and modules of one's own."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from pellucid import PCX
from pellucid.autoencoders import MLP, NAMED, Conv, Identity, resolve
from pellucid.autoencoders.conv import halved
from pellucid.training import isolated

SPECS = {
    "mlp": MLP(hidden=(6, 5), latent=3),
    "tell": Conv(latent=3),
    "kmeansnet": Conv("kmeansnet", latent=3),
    "identity": Identity(),
}
EACH_SPEC = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
LAYOUT = pytest.mark.parametrize("layout", ["tell", "kmeansnet"])
SIDES = [(4, 4), (5, 5), (6, 7), (7, 6), (8, 8), (9, 13), (16, 16), (17, 31), (28, 28), (32, 33)]


def built(spec, shape=(1, 8, 8), bounded: bool = True, seed: int = 0) -> nn.Module:
    with isolated(seed):
        return spec.build(shape, bounded)


def images(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


@LAYOUT
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("side", SIDES, ids=str)
def test_images_of_any_side_come_back(layout, channels, side):
    net = built(Conv(layout, latent=3), (channels, *side))
    x = images(2, channels, *side)
    z = net.encode(x)
    assert z.shape == (2, net.latent_dim) == (2, 3)
    assert net.decode(z).shape == x.shape
    (net.decode(z) - x).square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_stride_two_halves_upwards():
    for side in range(4, 40):
        conv = nn.Conv2d(1, 1, 3, 2, 1)
        assert conv(torch.zeros(1, 1, side, side)).shape[-1] == halved(side)


@EACH_SPEC
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 5, 6)])
def test_every_network_keeps_the_protocol(spec, shape):
    net, x = built(spec, shape).eval(), images(4, *shape)
    z = net.encode(x)
    assert z.shape == (4, net.latent_dim) and z.dtype == torch.float32
    assert net.decode(z).shape == x.shape
    one = net.encode(x[:1])  # rows don't see each other
    torch.testing.assert_close(one, z[:1], rtol=1e-4, atol=1e-5)


def test_flat_rows():
    for spec in (SPECS["mlp"], Identity()):
        net, x = built(spec, (7,)), images(4, 7)
        assert net.decode(net.encode(x)).shape == x.shape
    assert torch.equal(
        built(Identity(), (2, 3)).encode(images(4, 2, 3)), images(4, 2, 3).flatten(1)
    )
    assert not list(built(Identity()).parameters())


@EACH_SPEC
def test_builds_are_decided_by_the_seed_and_leave_no_trace(spec):
    before = torch.random.get_rng_state()
    a, b, other = (built(spec, seed=s).state_dict() for s in (0, 0, 1))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(t, b[n]) for n, t in a.items())
    if a:
        assert any(not torch.equal(t, other[n]) for n, t in a.items())


@pytest.mark.parametrize("name", ["mlp", "tell", "kmeansnet"])
@pytest.mark.parametrize(
    ("output", "bounded", "squash"),
    [
        ("auto", True, True),
        ("auto", False, False),
        ("sigmoid", False, True),
        ("linear", True, False),
    ],
)
def test_the_sigmoid_stands_where_the_data_is_bounded(name, output, bounded, squash):
    net = built(clone(SPECS[name]).set_params(output=output), bounded=bounded).eval()
    x_hat = net.decode(100 * images(8, 3) - 50)
    assert isinstance(net.decoder[-1], nn.Sigmoid) == squash
    assert bool(x_hat.min() >= 0 and x_hat.max() <= 1) == squash


@pytest.mark.parametrize("name", ["mlp", "tell", "kmeansnet"])
def test_the_code_may_be_squashed(name):
    net = built(clone(SPECS[name]).set_params(code="sigmoid")).eval()
    z = net.encode(100 * images(8, 1, 8, 8))
    assert z.min() >= 0 and z.max() <= 1
    assert isinstance(net.encoder[-1], nn.Sigmoid)


def test_the_papers_networks():
    mlp = built(MLP(), (784,))
    widths = [m.out_features for m in mlp.encoder if isinstance(m, nn.Linear)]
    assert widths == [500, 500, 2000, 10]
    assert [m.out_features for m in mlp.decoder if isinstance(m, nn.Linear)] == [
        2000,
        500,
        500,
        784,
    ]
    tell = built(Conv(), (1, 28, 28))
    down = [(m.out_channels, m.stride[0]) for m in tell.encoder if isinstance(m, nn.Conv2d)]
    assert down == [(16, 1), (32, 2), (32, 1), (16, 2)]
    assert [m.out_features for m in tell.encoder if isinstance(m, nn.Linear)] == [256, 10]
    other = built(Conv("kmeansnet"), (1, 28, 28))
    shapes = [tuple(m.weight.shape) for m in other.encoder if isinstance(m, nn.Conv2d)]
    assert shapes == [(64, 1, 5, 5), (32, 64, 5, 5)]
    assert [m.out_features for m in other.encoder if isinstance(m, nn.Linear)] == [1024, 10]


def test_no_bias_before_batch_normalisation():
    net = built(Conv())
    for part in (net.encoder, net.decoder):
        layers = list(part)
        for layer, after in pairwise(layers):
            if isinstance(after, nn.BatchNorm2d):
                assert layer.bias is None


def test_dropout_stands_before_every_layer_of_the_encoder_and_only_in_training():
    net = built(MLP(hidden=(6, 5), latent=3, dropout=0.5), (8,))
    kinds = [type(m) for m in net.encoder]
    assert kinds[::3] == [nn.Dropout] * 3 and kinds[1::3] == [nn.Linear] * 3
    assert not any(isinstance(m, nn.Dropout) for m in net.decoder)
    x = images(4, 8)
    assert not torch.equal(net.encode(x), net.encode(x))
    net.eval()
    assert torch.equal(net.encode(x), net.encode(x))
    drops = [
        m.p for m in built(Conv("kmeansnet", dropout=0.2)).modules() if isinstance(m, nn.Dropout)
    ]
    assert drops == [0.2] * 3


def test_glorot_start():
    net = built(MLP(hidden=(50,), latent=40, weights="glorot"), (30,))
    for layer in (m for m in net.modules() if isinstance(m, nn.Linear)):
        limit = (6 / sum(layer.weight.shape)) ** 0.5
        assert 0.9 * limit < layer.weight.abs().max() <= limit
        assert not layer.bias.any()


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "elu", "tanh"])
def test_activations_by_name(activation):
    kinds = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU, "elu": nn.ELU, "tanh": nn.Tanh}
    net = built(MLP(hidden=(4, 4), latent=2, activation=activation), (5,))
    assert sum(isinstance(m, kinds[activation]) for m in net.modules()) == 4
    assert isinstance(net.encoder[-1], nn.Identity)


@pytest.mark.parametrize(
    ("spec", "shape", "words"),
    [
        (MLP(activation="swish"), (8,), r"activation 'swish'.*'relu'"),
        (MLP(code="tan"), (8,), r"activation 'tan'"),
        (MLP(output="tanh"), (8,), r"output='tanh'.*\"sigmoid\""),
        (MLP(weights="he"), (8,), r"weights='he'.*\"glorot\""),
        (Conv("resnet"), (1, 8, 8), r"layout='resnet'.*\"kmeansnet\""),
        (Conv(output="tanh"), (1, 8, 8), r"output='tanh'"),
        (Conv(), (64,), r"at least 4 x 4.*\(64,\).*image_shape"),
        (Conv(), (1, 3, 8), r"at least 4 x 4.*\(1, 3, 8\).*\"mlp\""),
        (Conv("kmeansnet"), (1, 8, 3), r"at least 4 x 4"),
    ],
)
def test_what_cannot_be_built_says_why(spec, shape, words):
    with pytest.raises(ValueError, match=words):
        spec.build(shape, True)


@EACH_SPEC
def test_specs_are_scikit_learn_objects(spec):
    again = clone(spec)
    assert again is not spec and again.get_params() == spec.get_params()
    assert repr(spec).startswith(type(spec).__name__ + "(")


def test_none_chooses_by_the_shape():
    assert isinstance(resolve(None, (1, 28, 28)), Conv)
    assert isinstance(resolve(None, (3, 16, 40)), Conv)
    assert isinstance(resolve(None, (1, 8, 8)), MLP)
    assert resolve(None, (784,)).hidden == (500, 500, 2000)
    assert sum(resolve(None, (4,)).hidden) < 1000  # small data, small network


def test_names_specs_and_modules():
    for name, kind in NAMED.items():
        assert type(resolve(name, (8,))) is kind
    for made in (*SPECS.values(), built(SPECS["mlp"])):
        assert resolve(made, (1, 8, 8)) is made


@pytest.mark.parametrize("bad", [nn.Linear(3, 3), 7, MLP, object()], ids=lambda b: type(b).__name__)
def test_what_is_no_autoencoder_is_named(bad):
    with pytest.raises(TypeError, match=r"pass a spec.*an nn\.Module with encode"):
        resolve(bad, (8,))
    with pytest.raises(ValueError, match=r"autoencoder='vae'.*'conv', 'identity', 'mlp'"):
        resolve("vae", (8,))


def test_an_autoencoder_learns_more_than_zeros_of_data_that_is_nearly_all_zeros():
    rng = np.random.default_rng(0)
    topics = (rng.random((4, 300)) < 0.03) * rng.random((4, 300))
    X = (topics[rng.integers(0, 4, 400)] * (rng.random((400, 300)) < 0.7)).astype(np.float32)
    est = PCX(4, autoencoder=MLP((64,), 4, weights="glorot"), pretrain=60, max_iter=0,
              random_state=0, batch_size=64).fit(X)  # fmt: skip
    assert est.history_[-1]["reconstruction"] < 0.6  # of the variance; zeros are above one
