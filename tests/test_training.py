"""The engine: nothing but the seed and the data decides what comes out, whatever happens."""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import helpers
from helpers import (
    BATCH,
    ROWS,
    SMALL,
    SQUARES,
    Fading,
    Fused,
    assert_same_fit,
    course,
    ctrl_c,
    fit_and_die,
    network,
    process,
    small_tell,
)
from pellucid import MLP, TELL, Centers, Conv, Training
from pellucid.algorithms.tell import TELLModule, schedule
from pellucid.data import open_data
from pellucid.fitting import after_reconstruction
from pellucid.nn import ClusterLayer
from pellucid.training import (
    Diverged,
    Engine,
    Phase,
    Rules,
    Seeds,
    Single,
    Stacked,
    alternate,
    isolated,
    warm_up,
)
from pellucid.training import checkpoint as files
from pellucid.training.centers import center_rules
from pellucid.training.loop import is_still
from pellucid.training.optim import OPTIMIZERS, PIECE, build_optimizer, clip_gradients
from pellucid.training.restarts import Rows, is_frozen, stacks
from pellucid.training.selection import RULES, agreement
from pellucid.training.steps import Step

OPTIMIZER = pytest.mark.parametrize("optimizer", ["sgd", "adam", "adadelta"])


def tell_module(autoencoder=SMALL, shape=(8,), k: int = 3) -> TELLModule:
    network = autoencoder.build(shape, False)
    return TELLModule(network, ClusterLayer(k, network.latent_dim), "mean", None)


def copies(module: nn.Module) -> dict[str, torch.Tensor]:
    return {n: t.detach().clone() for n, t in module.state_dict().items()}


# Restarts ------------------------------------------------------------------------------------


@OPTIMIZER
def test_a_restart_in_a_stack_is_the_restart_alone(optimizer):
    """To the last bit, as long as the same matrix product is called: a stack of one."""
    settings = Training(optimizer, restarts="stacked", precision="float32")
    data = open_data(ROWS, batch_size=BATCH)

    def ends(indices: list[int]) -> list[dict[str, torch.Tensor]]:
        engine = Engine(settings, Seeds(0), data.n)
        modules = []
        for r in indices:
            with isolated(engine.seeds("init", r)):
                modules.append(tell_module())
        group = engine.begin(Stacked(modules, indices, settings))
        plan, rules = after_reconstruction(1, schedule(0.1, Centers())), center_rules(Centers())
        for epoch in engine.epochs(group, data, plan, rules, stop=5):
            assert epoch.labels.shape == (len(indices), 96)
        return [group.state(r) for r in range(len(indices))]

    for r, together in enumerate(ends([0, 1, 2])):
        alone = ends([r])[0]
        assert all(torch.equal(t, alone[n]) for n, t in together.items())


@OPTIMIZER
def test_stacked_and_single_fits_agree(optimizer):
    """Not to the last bit: BLAS sums a batched product in another order for some shapes."""
    stacked, single = (
        small_tell({"optimizer": optimizer, "restarts": kind}, n_init=3).fit(ROWS)
        for kind in ("stacked", "single")
    )
    assert stacked.best_restart_ == single.best_restart_
    np.testing.assert_array_equal(stacked.restart_labels_, single.restart_labels_)
    np.testing.assert_allclose(stacked.loss_curve_, single.loss_curve_, rtol=1e-5)
    for name, t in network(stacked).items():
        torch.testing.assert_close(t, network(single)[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["stacked", "single"])
def test_restarts_differ_and_the_first_is_the_fit_of_one(kind):
    three = small_tell({"restarts": kind}, n_init=3).fit(ROWS)
    one = small_tell({"restarts": kind}).fit(ROWS)
    assert len(set(three.restart_losses_)) == 3
    assert three.restart_losses_[0] == one.loss_
    assert three.loss_ == three.restart_losses_.min()


@pytest.mark.parametrize("spec", [Conv(latent=3), MLP(hidden=(8,), latent=3, dropout=0.1)])
def test_stacks_refuse_what_they_cannot_do_exactly(spec):
    said = r"batch normalisation, dropout or noise.*\"single\" or \"auto\""
    with pytest.raises(ValueError, match=said):
        small_tell({"restarts": "stacked"}, autoencoder=spec, n_init=2).fit(SQUARES)


def test_auto_stacks_small_exact_networks_of_ours():
    auto = Training(restarts="auto")
    assert stacks(tell_module(), 2, auto)
    assert not stacks(tell_module(), 1, auto)
    assert not stacks(tell_module(MLP(latent=3)), 2, auto)  # large: one by one is faster
    assert not stacks(tell_module(MLP(hidden=(8,), latent=3, dropout=0.1)), 2, auto)
    assert not stacks(tell_module(Conv(latent=3), (1, 8, 8)), 2, auto)
    assert not stacks(nn.Sequential(nn.Linear(8, 3), nn.Dropout1d(0.1)), 2, auto)
    assert not stacks(Fading(8, 9), 2, auto)  # vmap may refuse what somebody else wrote
    assert not stacks(tell_module(), 2, Training(compile=True))


def test_a_member_of_a_stack_can_be_edited():
    group = Stacked([tell_module() for _ in range(2)], [0, 1], Training())
    before = group.state(0)
    with group.member(1) as module, torch.no_grad():
        module.clusters.weight.fill_(7)
    assert (group.params["clusters.weight"][1] == 7).all()
    assert all(torch.equal(t, before[n]) for n, t in group.state(0).items())


# Phases --------------------------------------------------------------------------------------


def moved(autoencoder, shape, X, plan, kind: str = "single", epochs: int = 4):
    """For every epoch, the phase's name and which parts moved by more than round-off."""
    settings = Training("adam", precision="float32", restarts=kind)
    data, engine = open_data(X, batch_size=16), Engine(Training("adam"), Seeds(0), len(X))
    engine.settings = settings
    with isolated(0):
        module = tell_module(autoencoder, shape)
    group = Stacked([module], [0], settings) if kind == "stacked" else Single(module, 0, settings)
    before, out = group.state(0), []
    for epoch in engine.epochs(
        engine.begin(group), data, plan, center_rules(Centers()), stop=epochs
    ):
        now = group.state(0)
        names = {
            n for n in now if not torch.allclose(now[n].double(), before[n].double(), atol=1e-6)
        }
        out.append((epoch.phase.name, names))
        before = now
    return out, {n for n, _ in module.named_parameters()}


@pytest.mark.parametrize("kind", ["single", "stacked"])
def test_every_part_moves_in_its_phase_and_stands_still_in_the_others(kind):
    plan = after_reconstruction(1, schedule(0.1, Centers()))
    course, params = moved(SMALL, (8,), ROWS, plan, kind)
    network = {n for n in params if n.startswith("autoencoder")}
    assert course == [
        ("pretrain", network),
        ("centers", network | {"clusters.weight"}),
        ("representation", network),
        ("centers", network | {"clusters.weight"}),
    ]


def test_frozen_parts_keep_weights_and_running_statistics():
    frozen = after_reconstruction(1, schedule(0.1, Centers(), frozen=True))
    course, _ = moved(Conv(latent=3), (1, 8, 8), SQUARES, frozen, epochs=3)
    running = {n for n in course[0][1] if "running" in n}
    assert len(running) == 14  # 7 normalisations, mean and variance
    assert [c for c in course[1:]] == [("centers", {"clusters.weight"})] * 2


def test_frozen_parameters_get_no_gradient_and_thaw():
    module = tell_module()
    module.autoencoder.decoder[0].weight.requires_grad_(False)  # somebody's own wish
    group = Single(module, 0, Training())
    with group.training():
        group.enter(Phase({}, frozenset({"autoencoder.encoder"})))
        on = {n for n, p in module.named_parameters() if p.requires_grad}
        assert on == {
            "autoencoder.decoder.0.bias",
            "autoencoder.decoder.2.weight",
            "autoencoder.decoder.2.bias",
            "clusters.weight",
        }
        assert not module.autoencoder.encoder.training
        assert module.autoencoder.decoder.training
    off = {n for n, p in module.named_parameters() if not p.requires_grad}
    assert off == {"autoencoder.decoder.0.weight"}


def test_what_the_user_froze_stays_frozen_in_a_fit():
    own = SMALL.build((8,), False)
    own.encoder.requires_grad_(False)
    est = small_tell(autoencoder=own).fit(ROWS)
    for name, t in own.encoder.state_dict().items():
        assert torch.equal(t, est.module_.autoencoder.encoder.state_dict()[name])
    assert not torch.equal(own.decoder[0].weight, est.module_.autoencoder.decoder[0].weight)


def test_a_part_is_frozen_by_whole_names():
    phase = Phase({}, frozenset({"auto"}))
    assert is_frozen("auto", phase) and is_frozen("auto.weight", phase)
    assert not is_frozen("autoencoder.weight", phase)


def test_schedules_are_pure():
    a, b, first = (Phase({"loss": w}, name=str(w)) for w in (1.0, 2.0, 3.0))
    plan = warm_up(2, first, alternate(a, b))
    names = [plan(i).name for i in (5, 0, 3, 1, 2, 4)]
    assert names == ["2.0", "3.0", "2.0", "3.0", "1.0", "1.0"]
    assert plan(4) == plan(4)
    tells = after_reconstruction(1, schedule(0.1, Centers(decay=0.5)))
    assert [tells(i) for i in (3, 0)] == [tells(i) for i in (3, 0)]
    with pytest.raises(AttributeError):
        a.name = "other"


# Seeds ---------------------------------------------------------------------------------------


def test_the_seed_decides_everything():
    first, again, other = (helpers.dropout_tell().set_params(random_state=s) for s in (3, 3, 4))
    assert_same_fit(first.fit(ROWS), again.fit(ROWS))
    assert course(first) != course(other.fit(ROWS))
    generator = small_tell(random_state=np.random.RandomState(3)).fit(ROWS)
    assert_same_fit(generator, small_tell(random_state=np.random.RandomState(3)).fit(ROWS))


def test_streams_of_seeds_are_independent():
    seeds = Seeds(0)
    names = [("shuffle", 0), ("shuffle", 1), ("noise", 0), ("noise", 0, 1), ("init",)]
    drawn = [seeds(*name) for name in names]
    assert len(set(drawn)) == len(drawn)
    assert drawn == [Seeds(0)(*name) for name in names]
    assert all(0 <= seed < 2**63 for seed in drawn)


class Drawing(nn.Module):
    """Reports what it drew and which row it saw first."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, x, rows, phase):
        stats = {"drawn": torch.rand(()), "first": rows.index[0].float()}
        return {"loss": self.weight.square()}, stats | {"labels": rows.index * 0}


def test_noise_and_order_are_new_in_every_epoch_and_restart():
    data, engine = open_data(ROWS, batch_size=96), Engine(Training(), Seeds(0), len(ROWS))
    seen = []
    for r in range(3):
        group = engine.begin(Single(Drawing(), r, engine.settings))
        for epoch in engine.epochs(group, data, lambda _: Phase({"loss": 1.0}), Rules(), stop=4):
            seen.append(epoch.records[0])
    assert len({record["drawn"] for record in seen}) == 12
    assert len({record["first"] for record in seen}) > 6


def test_isolated_leaves_the_generator_alone_even_on_errors():
    before = torch.random.get_rng_state()
    with pytest.raises(RuntimeError), isolated(5):
        a = torch.rand(3)
        raise RuntimeError
    assert torch.equal(before, torch.random.get_rng_state())
    with isolated(5):
        assert torch.equal(a, torch.rand(3))


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_global_generators_are_left_alone(how):
    torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    getattr(helpers.dropout_tell(), how)(ROWS)
    assert torch.equal(torch_state, torch.random.get_rng_state())
    np.testing.assert_array_equal(numpy_state, np.random.get_state()[1])


def test_what_the_user_passes_is_not_modified():
    own, X = SMALL.build((8,), False), ROWS.copy()
    own.decoder.eval()
    weights, modes = copies(own), [m.training for m in own.modules()]
    settings, centers = Training("adam", restarts="single"), Centers(decay=0.1)
    said = [settings.get_params(), centers.get_params()]
    spec, shape = MLP(hidden=(16,), latent=3), MLP(hidden=(16,), latent=3).get_params()
    for autoencoder in (own, spec):
        est = small_tell(autoencoder=autoencoder, centers=centers, n_init=2)
        params = est.set_params(training=settings).get_params(deep=False)
        est.fit(X)
        assert est.get_params(deep=False) == params
    assert all(torch.equal(t, weights[n]) for n, t in own.state_dict().items())
    assert [m.training for m in own.modules()] == modes
    assert all(p.grad is None and p.requires_grad for p in own.parameters())
    assert [settings.get_params(), centers.get_params()] == said and spec.get_params() == shape
    np.testing.assert_array_equal(X, ROWS)


def test_one_thread_or_two_give_the_same_labels_on_digits(tmp_path):
    X = (load_digits().data / 16).astype(np.float32)
    spec = MLP(hidden=(64,), latent=8)
    settings = {"optimizer": "adam", "lr": 3e-3}
    est = small_tell(settings, n_clusters=10, autoencoder=spec, batch_size=256, pretrain=6)
    children = [process(helpers.fit, est, X, t, tmp_path / f"{t}.npz") for t in (1, 2)]
    for child in children:
        child.join(120)
        assert child.exitcode == 0
    one, two = (np.load(tmp_path / f"{t}.npz")["labels"] for t in (1, 2))
    assert len(set(one)) >= 8
    np.testing.assert_array_equal(one, two)


# Checkpoints ---------------------------------------------------------------------------------

KILLED = {
    "dropout": (helpers.dropout_tell, ROWS, "training-0.safetensors"),
    "batch normalisation": (helpers.conv_tell, SQUARES, "training-0.safetensors"),
    "in the second restart": (helpers.three_restarts, ROWS, "training-1.safetensors"),
    "a stack": (helpers.stacked_tell, ROWS, "training-0.safetensors"),
}


@pytest.mark.parametrize("case", KILLED)
def test_killed_in_an_epoch_and_run_again(case, tmp_path):
    make, X, armed = KILLED[case]
    child = process(fit_and_die, make, X, tmp_path, armed)
    child.join(120)
    assert child.exitcode == -signal.SIGKILL
    assert (tmp_path / armed).exists()
    assert (tmp_path / "restart-0.safetensors").exists() == (case == "in the second restart")
    resumed = make(checkpoint_dir=tmp_path).fit(X)
    assert not list(tmp_path.iterdir())  # a finished fit leaves nothing
    assert_same_fit(resumed, make().fit(X))


def long_tell(**training) -> TELL:
    return small_tell({"optimizer": "adam", "checkpoint_every": 3} | training, max_iter=150)


def wait_for(path: Path, child) -> None:
    end = time.monotonic() + 120
    while not path.exists():
        assert child.is_alive() and time.monotonic() < end
        time.sleep(0.002)


def test_killed_from_outside_at_any_moment(tmp_path):
    child = process(helpers.fit, long_tell(checkpoint_dir=tmp_path), ROWS, 1, tmp_path / "out")
    wait_for(tmp_path / "training-0.safetensors", child)
    time.sleep(0.05)
    child.kill()
    child.join()
    _, meta = files.read(tmp_path / "training-0.safetensors")
    assert 0 < meta["epoch"] < 152 and meta["epoch"] % 3 == 0
    resumed = long_tell(checkpoint_dir=tmp_path).fit(ROWS)
    assert_same_fit(resumed, long_tell().fit(ROWS))


@pytest.fixture
def cut_short(tmp_path) -> Path:
    """A folder with a checkpoint of `small_tell`, interrupted in its fourth epoch."""
    armed = tmp_path / "training-0.safetensors"
    with pytest.warns(UserWarning, match="Interrupted in epoch 4 of 6"):
        small_tell({"checkpoint_dir": tmp_path}).fit(
            Fused(ROWS, armed, after=2 * len(ROWS) + 2 * len(ROWS) + 50, act=ctrl_c)
        )
    assert files.read(armed)[1]["epoch"] == 3
    return tmp_path


@pytest.mark.parametrize("change", ["parameters", "data"])
def test_a_checkpoint_of_another_fit_is_refused(cut_short, change):
    X = ROWS + 1 if change == "data" else ROWS
    est = small_tell({"checkpoint_dir": cut_short}, lam=0.01 if change == "data" else 0.5)
    with pytest.raises(ValueError, match=rf"training-0.safetensors.*another fit.*\['{change}'\]"):
        est.fit(X)
    assert (cut_short / "training-0.safetensors").exists()


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_truncated_checkpoint_is_a_clear_error(cut_short, keep):
    path = cut_short / "training-0.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"training-0.safetensors is not a whole checkpoint"):
        small_tell({"checkpoint_dir": cut_short}).fit(ROWS)


def test_writing_is_atomic_and_only_own_files_are_removed(cut_short):
    """A kill while writing leaves a part, which the next write replaces."""
    (cut_short / "training-0.safetensors.part").write_bytes(b"half of")
    for name in ("weights.safetensors", "restart-7.safetensors.of.mine", "notes.txt"):
        (cut_short / name).write_text("mine")
    est = small_tell({"checkpoint_dir": cut_short}).fit(ROWS)
    assert_same_fit(est, small_tell().fit(ROWS))
    left = {path.name for path in cut_short.iterdir()}
    assert left == {"weights.safetensors", "restart-7.safetensors.of.mine", "notes.txt"}


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "state.safetensors"
    files.write(path, {"a": torch.ones(2)}, {"epoch": 1})
    with pytest.raises(TypeError):
        files.write(path, {"a": torch.zeros(2)}, {"epoch": object()})
    tensors, meta = files.read(path)
    assert torch.equal(tensors["a"], torch.ones(2)) and meta == {"epoch": 1}


def test_checkpoints_hold_any_tensor_and_long_histories(tmp_path):
    path = tmp_path / "deep" / "state.safetensors"
    shared = torch.arange(6.0).reshape(2, 3)
    tensors = {"t": shared.T, "again": shared, "n": torch.tensor(3), "none": torch.empty(0)}
    meta = {"history": [{"snapshot": list(range(300_000))}], "name": "ω"}
    files.write(path, tensors, meta)
    got, said = files.read(path)
    assert said == meta and got.keys() == tensors.keys()
    assert all(torch.equal(t, tensors[n]) for n, t in got.items())
    got["t"].zero_()  # not the file
    assert torch.equal(files.read(path)[0]["t"], shared.T)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_optimizers_are_restored_exactly(name, tmp_path):
    def steps(optimizer, w, n):
        for i in range(n):
            w.grad = torch.sin(w.detach() * (i + 1))
            optimizer.step()

    a, b = (nn.Parameter(torch.linspace(-1, 1, 5)) for _ in range(2))
    first, second = build_optimizer(name, {"w": a}), build_optimizer(name, {"w": b})
    steps(first, a, 3)
    files.write(tmp_path / "o", {"w": a} | files.optimizer_tensors(first), {})
    tensors, _ = files.read(tmp_path / "o")
    with torch.no_grad():
        b.copy_(tensors["w"])
    files.restore_optimizer(second, tensors)
    steps(first, a, 3)
    steps(second, b, 3)
    assert torch.equal(a, b)


def test_a_fit_without_a_seed_goes_on_with_the_seed_it_had(tmp_path):
    folder = {"checkpoint_dir": tmp_path}
    X = Fused(ROWS, tmp_path / "training-1.safetensors", 50, ctrl_c)
    with pytest.warns(UserWarning, match="Interrupted in epoch 2 of 6"):
        small_tell(folder, random_state=None, n_init=2).fit(X)
    seed = files.read(tmp_path / "training-1.safetensors")[1]["seed"]
    engine = Engine(Training(**folder), Seeds(None), len(ROWS))
    engine.identity = files.read(tmp_path / "training-1.safetensors")[1]["identity"]
    engine.restore_candidates(2)
    assert engine.seeds.root == seed and len(engine.candidates) == 1
    est = small_tell(folder, random_state=None, n_init=2).fit(ROWS)
    assert est.restart_losses_.shape == (2,)


def test_an_unwritable_folder_is_refused_before_any_training(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"checkpoint_dir='.*file/sub' can't be written"):
        small_tell({"checkpoint_dir": str(tmp_path / "file" / "sub")}).fit(ROWS)


# Stopping ------------------------------------------------------------------------------------


def test_ctrl_c_keeps_the_finished_restarts_and_a_second_fit_goes_on(tmp_path):
    make = functools.partial(helpers.three_restarts, checkpoint_dir=tmp_path)
    X = Fused(ROWS, tmp_path / "training-1.safetensors", 50, ctrl_c)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.warns(UserWarning, match=r"Interrupted in epoch 2 of 5: keeping the best so far"):
        est = make().fit(X)
    assert signal.getsignal(signal.SIGINT) is handler
    # The half trained second restart is no candidate beside the finished first one.
    assert est.restart_losses_.shape == (1,) and est.n_iter_ == 5
    np.testing.assert_array_equal(est.predict(ROWS), est.labels_)
    assert_same_fit(make().fit(ROWS), helpers.three_restarts().fit(ROWS))


@pytest.mark.parametrize("kind", ["single", "stacked"])
def test_ctrl_c_in_the_only_group_keeps_what_there_is(kind, tmp_path):
    X = Fused(ROWS, tmp_path, 3 * len(ROWS), ctrl_c)  # armed from the start
    with pytest.warns(UserWarning, match=r"Interrupted in epoch \d of 6: keeping the best so far"):
        est = small_tell({"restarts": kind}, n_init=2).fit(X)
    assert est.n_iter_ < 6
    assert len(est.restart_losses_) == (2 if kind == "stacked" else 1)
    np.testing.assert_array_equal(est.predict(ROWS), est.labels_)


@pytest.mark.parametrize(
    ("pretrain", "after", "said"),
    [(2, 96 + 5, "in epoch 2 of 2"), (1, 5, "before restart 2 of 2")],
    ids=["while centres start", "while a restart is judged"],
)
def test_ctrl_c_between_epochs_is_not_lost(pretrain, after, said, tmp_path):
    X = Fused(ROWS, tmp_path / "training-0.safetensors", after, ctrl_c)
    est = small_tell({"checkpoint_dir": tmp_path}, pretrain=pretrain, max_iter=0, n_init=2)
    with pytest.warns(UserWarning, match=f"Interrupted {said}"):
        est.fit(X)
    assert est.n_iter_ == pretrain
    np.testing.assert_array_equal(est.predict(ROWS), est.labels_)


def test_a_second_ctrl_c_ends_at_once(tmp_path):
    def twice() -> None:
        ctrl_c()
        ctrl_c()

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        small_tell().fit(Fused(ROWS, tmp_path, 250, twice))
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_from_outside(tmp_path):
    est = long_tell(checkpoint_dir=tmp_path / "files").set_params(max_iter=100_000)
    child = process(helpers.fit, est, ROWS, 1, tmp_path / "out.npz")
    wait_for(tmp_path / "files" / "training-0.safetensors", child)
    os.kill(child.pid, signal.SIGINT)
    child.join(60)
    assert child.exitcode == 0
    out = np.load(tmp_path / "out.npz")
    assert "Interrupted in epoch" in str(out["said"]) and 3 <= out["epochs"] < 100_000
    np.testing.assert_array_equal(out["labels"], out["again"])


def test_callbacks_see_every_epoch_and_are_obeyed():
    pytest.importorskip("sklearn.callback")
    watch = helpers.StopAfter(epochs=10**6)
    small_tell(n_init=2).set_callbacks(watch).fit(ROWS)
    epochs = ["begin epoch", "end epoch"] * 12
    assert watch.log == ["setup", "begin fit", *epochs, "end fit", "teardown"]
    watch = helpers.StopAfter(epochs=8)
    est = small_tell(n_init=2).set_callbacks(watch)
    with pytest.warns(UserWarning, match=r"A callback asked to stop in epoch 2 of 6"):
        est.fit(ROWS)
    assert watch.log.count("end epoch") == 8 and watch.log[-2:] == ["end fit", "teardown"]
    assert est.n_iter_ == 6 and est.restart_losses_.shape == (1,)


@pytest.mark.parametrize("kind", ["single", "stacked"])
def test_the_bar_counts_epochs_and_shows_the_loss(kind, capsys):
    est = small_tell({"restarts": kind}, n_init=2, verbose=1).fit(ROWS)
    out, err = capsys.readouterr()
    assert out == ""
    assert "TELL" in err and "12/12" in err.split("\r")[-1]
    assert "loss" in err.split("\r")[-1]
    est.set_params(verbose=0).fit(ROWS)
    assert capsys.readouterr() == ("", "")


def test_a_loss_that_is_not_a_number_names_its_place(tmp_path):
    with pytest.raises(Diverged, match=r"epoch 1, batch \d+ of restart \[0\].*Training\(lr=") as e:
        small_tell({"optimizer": "sgd", "lr": 1e8, "checkpoint_dir": tmp_path}).fit(ROWS)
    assert "last good" not in str(e.value)  # there is none yet
    assert isinstance(e.value, FloatingPointError)
    own = small_tell({"checkpoint_dir": tmp_path}, autoencoder=Fading(8, steps=7))
    with pytest.raises(Diverged, match=r"epoch 3, batch 2.*training-0.safetensors"):
        own.fit(ROWS)
    tensors, meta = files.read(tmp_path / "training-0.safetensors")
    assert meta["epoch"] == 2 and all(t.isfinite().all() for t in tensors.values())


def test_a_diverged_restart_in_a_stack_is_named():
    with pytest.raises(Diverged, match=r"epoch 1, batch \d of restart \[0, 1\]"):
        small_tell({"optimizer": "sgd", "lr": 1e30, "restarts": "stacked"}, n_init=2).fit(ROWS)


class Spoiling(Rules):
    """Rules whose last step of the second epoch leaves a weight that is no number."""

    def after_step(self, params, phase):
        if phase.knobs["epoch"] == 1:
            params["clusters.weight"].data.fill_(float("inf"))


def test_spoilt_weights_are_not_saved(tmp_path):
    settings = Training("sgd", checkpoint_dir=tmp_path)
    engine, data = Engine(settings, Seeds(0), len(ROWS)), open_data(ROWS, batch_size=len(ROWS))
    group = engine.begin(Single(tell_module(), 0, settings))

    def plan(epoch: int) -> Phase:
        return Phase({"reconstruction": 1.0, "centers": 1.0}, knobs={"epoch": epoch})

    with pytest.raises(Diverged, match="epoch 3, batch 1"):
        for _ in engine.epochs(group, data, plan, Spoiling(), stop=5):
            pass
    tensors, meta = files.read(tmp_path / "training-0.safetensors")
    assert meta["epoch"] == 1 and all(t.isfinite().all() for t in tensors.values())


# Early stopping ------------------------------------------------------------------------------


def steady(tol: float, **training) -> TELL:
    """Raw features and a shrinking step: the centres come to rest."""
    return small_tell(
        training, autoencoder="identity", scale="norm", centers=Centers(decay=2.0), tol=tol,
        max_iter=60, n_init=3,
    )  # fmt: skip


def test_a_fit_that_stands_still_stops():
    assert steady(1e-2).fit(ROWS).n_iter_ < 60
    assert steady(0).fit(ROWS).n_iter_ == 60


def test_in_a_stack_every_restart_stops_where_it_would_alone():
    stacked = steady(1e-3, restarts="stacked").fit(ROWS)
    single = steady(1e-3, restarts="single").fit(ROWS)
    assert stacked.n_iter_ == single.n_iter_ < 60
    np.testing.assert_allclose(stacked.restart_losses_, single.restart_losses_, rtol=1e-5)
    np.testing.assert_array_equal(stacked.restart_labels_, single.restart_labels_)


def record(loss: float, changed: float = 0.0, phase: str = "a") -> dict:
    return {"loss": loss, "changed": changed, "phase": phase}


def test_standing_still_is_labels_and_loss_within_a_phase():
    still = [record(1.0) for _ in range(4)]
    assert is_still(still, 1e-3, 3)
    assert not is_still(still[:3], 1e-3, 3)
    assert not is_still(still, 0.0, 3)
    assert not is_still([*still, record(1.1)], 1e-3, 3)
    assert not is_still([*still, record(1.0, changed=0.1)], 1e-3, 3)
    turns = [record(1.0 + i % 2, phase="ab"[i % 2]) for i in range(8)]
    assert is_still(turns, 1e-3, 3)
    assert not is_still([record(-1.0), record(-1.1), record(-1.0), record(-1.1)], 1e-3, 3)


# Optimizers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
@pytest.mark.parametrize("lr", [None, 0.02])
def test_a_parameter_in_other_units_moves_as_if_stored_in_them(name, lr):
    """w = s q: the optimizer over w, told s, does to w what it does to q, times s."""
    s, target = 1000.0, torch.linspace(-2, 3, 5, dtype=torch.float64) * 1e-3
    q = nn.Parameter(torch.full((5,), 2e-3, dtype=torch.float64))
    w = nn.Parameter(s * q.detach().clone())
    plain = build_optimizer(name, {"q": q}, lr=lr)
    scaled = build_optimizer(name, {"w": w}, lr=lr, units={"w": s})
    for _ in range(20):
        q.grad = 2 * (q.detach() - target)
        w.grad = s * 2 * (w.detach() / s - target)  # in the units of w
        plain.step()
        scaled.step()
    torch.testing.assert_close(w.detach(), s * q.detach(), rtol=1e-9, atol=1e-12)
    assert not torch.allclose(q, torch.full_like(q, 2e-3))


def test_adadelta_is_torchs():
    torch.manual_seed(0)
    wide = torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last)
    starts = [torch.randn(()), torch.randn(5), torch.randn(2, PIECE + 7), wide]
    ours, theirs = ([nn.Parameter(t.double()) for t in starts] for _ in range(2))
    first = build_optimizer("adadelta", dict(zip("abcd", ours, strict=True)))
    second = torch.optim.Adadelta(theirs)
    for _ in range(4):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        first.step()
        second.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-13)
    assert not torch.allclose(ours[2], starts[2].double())
    assert first.state_dict()["state"].keys() == second.state_dict()["state"].keys()


def test_units_leave_other_parameters_alone():
    ends = []
    for units in ({}, {"w": 1000.0}):
        params = {n: nn.Parameter(torch.ones(3)) for n in "vw"}
        optimizer = build_optimizer("adadelta", params, units=units)
        for _ in range(3):
            for p in params.values():
                p.grad = torch.full_like(p, 0.1)
            optimizer.step()
        ends.append(params["v"].detach())
    assert torch.equal(*ends)


def test_gradients_are_clipped_restart_by_restart():
    stack = [torch.randn(3, 4, 2), torch.randn(3, 5)]
    stack[0][0] *= 100
    stack[0][2], stack[1][2] = 1e-3, 0.0
    alone = [[g[r].clone() for g in stack] for r in range(3)]
    clip_gradients(stack, 1.0, leading=1)
    for r, grads in enumerate(alone):
        whole = torch.cat([g.flatten() for g in grads])
        clip_gradients(grads, 1.0, leading=0)
        clipped = torch.cat([g.flatten() for g in grads])
        torch.testing.assert_close(clipped, whole / max(1.0, float(whole.norm())))
        torch.testing.assert_close(clipped, torch.cat([g[r].flatten() for g in stack]))
    zero = [torch.zeros(3)]
    clip_gradients(zero, 1.0, leading=0)
    assert torch.equal(zero[0], torch.zeros(3))


def test_clipping_in_a_fit_bounds_the_step():
    est = small_tell({"optimizer": "sgd", "lr": 1.0, "clip": 1e-4}, pretrain=1, max_iter=0).fit(
        ROWS
    )
    start = small_tell({"optimizer": "sgd"}, pretrain=0, max_iter=0).fit(ROWS)
    a, b = (e.module_.autoencoder.state_dict().values() for e in (est, start))
    gone = sum((p - q).square().sum() for p, q in zip(a, b, strict=True)) ** 0.5
    assert 0 < gone <= 3 * 1e-4 * 1.001  # three batches


@pytest.mark.parametrize(
    "bad",
    [
        {"optimizer": "lion"}, {"precision": "half"}, {"restarts": "many"}, {"lr": 0}, {"lr": -1.0},
        {"lr": float("nan")}, {"clip": 0.0}, {"checkpoint_every": 0}, {"checkpoint_every": 1.5},
        {"device": "abacus"}, {"compile": True, "restarts": "stacked"},
    ],
    ids=str,
)  # fmt: skip
def test_settings_refuse_what_cannot_work(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Training(**bad).check()
    Training().check()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_cuda_asked_for_and_absent():
    with pytest.raises(ValueError, match=r"no CUDA device.*Use device=\"cpu\""):
        small_tell({"device": "cuda"}).fit(ROWS)


# Precision -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["single", "stacked"])
def test_networks_in_bfloat16_losses_in_float32(kind):
    settings = Training(precision="bfloat16")
    with isolated(0):
        module = tell_module()
    group = Stacked([module], [0], settings) if kind == "stacked" else Single(module, 0, settings)
    at = torch.arange(BATCH)[None]
    given = open_data(ROWS).fetch(at), Rows(at, torch.zeros_like(at))
    phase = Phase({"reconstruction": 1.0, "centers": 1.0, "representation": 1.0})
    optimizer = build_optimizer("sgd", group.params)
    total, terms, _ = Step(group, optimizer, Rules(), settings).forward(*given, phase)
    plain = Step(group, optimizer, Rules(), Training(precision="float32"))
    exact, *_ = plain.forward(*given, phase)
    assert total != exact and abs(total / exact - 1) < 1e-2
    assert {t.dtype for t in terms.values()} | {total.dtype} == {torch.float32}
    total.backward()
    assert {p.grad.dtype for p in group.params.values()} == {torch.float32}


def test_bfloat16_learns_what_float32_learns():
    fits = [small_tell({"precision": p}, max_iter=8).fit(ROWS) for p in ("float32", "bfloat16")]
    assert abs(fits[0].loss_curve_[-1] / fits[1].loss_curve_[-1] - 1) < 0.05
    assert all(t.dtype == torch.float32 for t in network(fits[1]).values())


# Odd networks and data -----------------------------------------------------------------------


class Signs(nn.Module):
    """No weights at all."""

    latent_dim = 8

    def encode(self, x):
        return torch.sign(x)

    def decode(self, z):
        return z


def test_a_network_without_weights_still_gets_centres():
    est = small_tell(autoencoder=Signs()).fit(ROWS)
    assert len(set(est.labels_)) == 3


def test_a_last_batch_of_one_row_is_no_error_under_batch_normalisation():
    class Normal(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.dec = nn.Linear(8, 3), nn.Linear(3, 8)
            self.norm = nn.BatchNorm1d(3)

        def encode(self, x):
            return self.norm(self.enc(x))

        def decode(self, z):
            return self.dec(z)

    est = small_tell(autoencoder=Normal()).fit(ROWS[: 2 * BATCH + 1])
    assert est.labels_.shape == (2 * BATCH + 1,)
    assert (est.labels_ >= 0).all()


# Selection -----------------------------------------------------------------------------------


class Ended:
    def __init__(self, loss, labels):
        self.scores, self.labels = {"loss": loss}, np.array(labels)


def test_rules_pick_by_loss_or_by_consensus():
    a, b = [0, 0, 1, 1, 2, 2], [0, 1, 2, 0, 1, 2]
    restarts = [Ended(3.0, a), Ended(1.0, b), Ended(2.0, [1, 1, 2, 2, 0, 0])]
    assert RULES["loss"](restarts) == 1
    assert RULES["consensus"](restarts) in (0, 2)  # the same partition, twice
    assert RULES["consensus"](restarts[:2]) == 1  # no majority among two
    table = agreement([r.labels for r in restarts])
    assert table[0] == table[2] > table[1]


def test_scatter_is_blind_to_an_encoder_that_shrinks_everything():
    restarts = [Ended(3.0, [0, 1]), Ended(1.0, [0, 1])]
    assert RULES["scatter"](restarts) == 1  # unknown: the loss decides
    for r, value in zip(restarts, (0.2, 0.3), strict=True):
        r.scores["scatter"] = value
    assert RULES["scatter"](restarts) == 0
    est = small_tell().fit(ROWS)
    z = est.transform(ROWS).astype(np.float64)
    inside = sum(
        ((z[own] - z[own].mean(0)) ** 2).sum() for own in map(est.labels_.__eq__, range(3))
    )
    known = inside / ((z - z.mean(0)) ** 2).sum()
    assert est.restart_scores_[est.best_restart_]["scatter"] == pytest.approx(known, rel=1e-5)


# Several processes ---------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def launch_two(out: Path) -> list[dict[str, np.ndarray]]:
    """What `helpers.together` finds in each of two processes under torchrun."""
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port"]
    script = [str(free_port()), helpers.__file__, str(out)]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, *launch, *script], capture_output=True, text=True, env=env, timeout=300
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return [dict(np.load(out / f"rank{r}.npz")) for r in range(2)]


def test_two_processes_are_one(tmp_path):
    both = launch_two(tmp_path)
    for kind, n_init in (("single", 1), ("stacked", 3)):
        one = small_tell({"optimizer": "sgd", "restarts": kind}, n_init=n_init).fit(ROWS)
        weights = torch.cat([t.double().flatten() for t in network(one).values()]).numpy()
        sizes = [r["sizes"] for r in one.history_]
        for found in both:
            np.testing.assert_allclose(found[f"{kind}.losses"], one.loss_curve_, rtol=1e-5)
            np.testing.assert_allclose(found[f"{kind}.weights"], weights, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(found[f"{kind}.labels"], one.labels_)
            np.testing.assert_array_equal(found[f"{kind}.sizes"], sizes)
    a, b = both
    for name in ("weights", "labels", "losses", "sizes"):  # whatever each of them drew
        np.testing.assert_array_equal(a[f"free.{name}"], b[f"free.{name}"])
    assert a["cut.said"] == b["cut.said"] and "Interrupted in epoch 2 of 6" in str(a["cut.said"])
    assert a["cut.epochs"] == b["cut.epochs"] == 2
    for found in both:
        for name in ("weights", "labels", "losses"):
            np.testing.assert_array_equal(found[f"resumed.{name}"], found[f"single.{name}"])
