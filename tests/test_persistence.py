"""Saved models: equal after loading, whole or refused, and readable by later versions.

``python tests/test_persistence.py`` writes the fixture of the current schema anew; a new schema
gets a folder of its own and the old one stays.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.torch import load_file, save_file
from sklearn.base import BaseEstimator
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

import pellucid
from pellucid import MLP, TELL, Centers, Training, persistence
from pellucid.base import DeepClusterer
from pellucid.data import Scaler

HERE = Path(__file__).parent
FIXTURE = HERE / "fixtures" / "model_schema1"
METHODS = ("predict", "predict_proba", "transform", "distances")


def blobs(n: int = 60, d: int = 4) -> np.ndarray:
    return make_blobs(n, d, centers=3, random_state=0)[0].astype(np.float32)


def fitted(**parameters: Any) -> TELL:
    defaults = {"autoencoder": "identity", "n_init": 2, "max_iter": 2, "random_state": 0}
    return TELL(3, **{**defaults, **parameters}).fit(blobs())


@pytest.fixture(scope="module")
def est() -> TELL:
    return fitted()


@pytest.fixture
def saved(est: TELL, tmp_path: Path) -> Path:
    est.save(tmp_path / "model")
    return tmp_path / "model"


def edit(folder: Path, where: str, value: Any) -> None:
    """Set an entry of config.json, ``a/b`` for config["a"]["b"]; ``...`` removes it."""
    file = folder / "config.json"
    config = json.loads(file.read_text())
    *path, last = where.split("/")
    place = config
    for part in path:
        place = place[part]
    place[last] = value
    if value is ...:
        del place[last]
    file.write_text(json.dumps(config))


def edit_tensor(folder: Path, name: str, value: Tensor | None) -> None:
    file = folder / "weights.safetensors"
    tensors = load_file(file)
    tensors.pop(name, None)
    save_file(tensors if value is None else {**tensors, name: value}, file)


def assert_same(a: Any, b: Any) -> None:
    """Equal values of equal types, modules by their weights."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert_array_equal(a, b)
    elif isinstance(a, nn.Module):
        assert_same(dict(a.state_dict()), dict(b.state_dict()))
    elif isinstance(a, Tensor):
        assert a.dtype == b.dtype and torch.equal(a, b)
    elif isinstance(a, Scaler):
        assert a.kind == b.kind
        assert_same(a.state(), b.state())
    elif isinstance(a, BaseEstimator):
        assert_same(a.get_params(deep=False), b.get_params(deep=False))
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for name in a:
            assert_same(a[name], b[name])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert_same(one, other)
    else:
        assert a == b or (a != a and b != b)


# What comes back -----------------------------------------------------------------------------


SMALL = MLP(hidden=(6,), latent=2)
VARIANTS: dict[str, dict[str, Any]] = {
    "raw": {},
    "scaled": {"scale": "standard"},
    "norm": {"scale": "norm", "tau": 0.5},
    "network": {
        "autoencoder": SMALL,
        "scale": "unit",
        "pretrain": 1,
        "centers": Centers(decay=0.25),
        "training": Training("adam", lr=0.01, checkpoint_every=3),
        "snapshots": (1,),
    },
    "images": {"image_shape": (2, 2), "autoencoder": SMALL, "pretrain": 1, "scale": "unit"},
    "given centres": {"init": np.eye(3, 4)},
}


@pytest.mark.parametrize("parameters", VARIANTS.values(), ids=VARIANTS.keys())
def test_everything_comes_back(parameters: dict[str, Any], tmp_path: Path) -> None:
    X, before = blobs(), fitted(**parameters)
    before.save(tmp_path / "model")
    after = pellucid.load(tmp_path / "model")
    assert_same(before, after)
    names = persistence.fitted_names(before)
    assert set(names) == set(persistence.fitted_names(after)) >= {"module_", "history_"}
    for name in names:
        assert_same(getattr(before, name), getattr(after, name))
    for method in METHODS:
        assert_array_equal(getattr(before, method)(X), getattr(after, method)(X))
    z = before.transform(X)
    assert_array_equal(before.inverse_transform(z), after.inverse_transform(z))
    assert before.score(X) == after.score(X)
    assert not after.module_.training


def test_a_stream_goes_on_where_it_was(est: TELL, saved: Path) -> None:
    after, piece = pellucid.load(saved), blobs(90)[60:]
    before = copy.deepcopy(est)
    before.partial_fit(piece)
    after.partial_fit(piece)
    assert_same(before.cluster_centers_, after.cluster_centers_)
    assert_same(before.n_steps_, after.n_steps_)
    assert before.history_[-1]["loss"] == after.history_[-1]["loss"]


def test_a_loaded_model_can_be_saved(saved: Path, tmp_path: Path) -> None:
    pellucid.load(saved).save(tmp_path / "again")
    pellucid.load(tmp_path / "again").save(tmp_path / "again")
    first, last = (
        (json.loads((at / "config.json").read_text()), load_file(at / "weights.safetensors"))
        for at in (saved, tmp_path / "again")
    )
    assert first[0] == last[0]
    assert_same(dict(sorted(first[1].items())), dict(sorted(last[1].items())))


def test_column_names_come_back(tmp_path: Path) -> None:
    frame = pd.DataFrame(blobs(), columns=["a", "b", "ä", "d"])
    before = TELL(3, autoencoder="identity", n_init=1, max_iter=1, random_state=0).fit(frame)
    before.save(tmp_path / "model")
    after = pellucid.load(tmp_path / "model")
    assert_same(before.feature_names_in_, after.feature_names_in_)
    with pytest.raises(ValueError, match="feature names"):
        after.predict(frame[["b", "a", "ä", "d"]])


def test_a_generator_is_stored_as_none(tmp_path: Path) -> None:
    fitted(random_state=np.random.RandomState(0)).save(tmp_path / "model")
    assert pellucid.load(tmp_path / "model").random_state is None


def test_the_callers_random_numbers_stand_still(est: TELL, tmp_path: Path) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    est.save(tmp_path / "model")
    pellucid.load(tmp_path / "model")
    assert torch.equal(before[0], torch.get_rng_state())
    assert_array_equal(before[1], np.random.get_state()[1])


def test_peek_gives_all_but_the_network(est: TELL, saved: Path) -> None:
    seen = persistence.peek(saved)
    assert not hasattr(seen, "module_")
    assert_same(seen.labels_, est.labels_)


# A network of the user's own -----------------------------------------------------------------


class Own(nn.Module):
    latent_dim = 2

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, width), nn.Linear(width, 2)
        self.back = nn.Linear(2, 4)

    def encode(self, x: Tensor) -> Tensor:
        return self.outer(torch.relu(self.inner(x)))

    def decode(self, z: Tensor) -> Tensor:
        return self.back(z)


def test_a_network_of_ones_own_is_handed_in_again(tmp_path: Path) -> None:
    X, before = blobs(), fitted(autoencoder=Own(), pretrain=1)
    before.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"network of your own, Own.*autoencoder=Own"):
        pellucid.load(tmp_path / "model")
    with pytest.raises(ValueError, match=r"'module_.autoencoder.inner.weight'.*\(3, 4\).*\(5, 4\)"):
        pellucid.load(tmp_path / "model", autoencoder=Own(5))
    given = Own()
    weights = {n: t.clone() for n, t in given.state_dict().items()}
    after = pellucid.load(tmp_path / "model", autoencoder=given)
    assert_array_equal(before.transform(X), after.transform(X))
    assert after.autoencoder is given
    assert_same(dict(weights), dict(given.state_dict()))
    assert "Own()" in " ".join(repr(persistence.peek(tmp_path / "model")).split())


def test_a_network_that_is_not_needed_is_refused(saved: Path) -> None:
    with pytest.raises(ValueError, match="holds its whole network"):
        pellucid.load(saved, autoencoder=Own())


# Estimators to come --------------------------------------------------------------------------


class Extra(BaseEstimator):
    def __init__(self, sizes: tuple[int, ...] = (1, 2)) -> None:
        self.sizes = sizes


class Centred(nn.Module):
    def __init__(self, k: int, d: int) -> None:
        super().__init__()
        self.centers = nn.Parameter(torch.zeros(k, d))

    def encode(self, x: Tensor) -> Tensor:
        return x

    def decode(self, z: Tensor) -> Tensor:
        return z


class Toy(DeepClusterer):
    """Not TELL: nothing here has cluster layers, histories or restarts."""

    def __init__(self, n_clusters: int = 2, *, extra: Any = None) -> None:
        self.n_clusters = n_clusters
        self.extra = extra

    autoencoder, image_shape, scale, batch_size = "identity", None, None, 32

    def _build_module(self) -> nn.Module:
        return Centred(self.n_clusters, self.n_features_in_)

    def fit(self, X: Any, y: None = None) -> Self:
        data = self._open(X, reset=True)
        module = self._build_module()
        module.centers.data.copy_(data.sample(self.n_clusters, 0))
        return self._adopt(module, data)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistence, "_registered", {})
    for cls in (Toy, Extra):
        assert persistence.register(cls) is cls


VALUES: dict[str, Any] = {
    "nothing": None,
    "numbers": [1, 1.5, True, 2**70, float("inf"), -float("inf"), float("nan"), 1e-300],
    "nested": {"a": ({"b": [(), (1,)]},), "$": 1},
    "other keys": {1: "one", (2, 3): [4], None: {}},
    "text": "ä \u2028 \ud800",
    "path": Path("some") / "where",
    "numpy scalars": [0.5, 3],
    "object strings": np.array(["x", "yy"], dtype=object),
    "strings": np.array([["x"], ["yy"]]),
    "zero dimensions": np.array(3.5),
    "empty": np.zeros((0, 3)),
    "integers": np.arange(4, dtype=np.uint16),
    "truth": np.array([True, False]),
    "half": torch.ones(2, dtype=torch.bfloat16),
    "arrays in a list": [np.arange(2), (np.ones(1),)],
    "scaler": Scaler("unit", np.array([1.0]), np.array([2.0])),
    "spec": Extra(sizes=(3,)),
}


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_the_registry_is_enough(value: Any, tmp_path: Path) -> None:
    X = blobs()
    before = Toy(3, extra=value).fit(X)
    before.more_ = value
    before.save(tmp_path / "model")
    after = pellucid.load(tmp_path / "model")
    assert_same(value, after.extra)
    assert_same(value, after.more_)
    assert_array_equal(before.predict(X), after.predict(X))


@pytest.mark.usefixtures("known")
def test_numpy_values_become_plain_ones(tmp_path: Path) -> None:
    before = Toy(extra=[np.float64(0.5), np.int32(3), np.bool_(True), np.str_("a")]).fit(blobs())
    before.more_ = np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3))[:, ::2]
    before.save(tmp_path / "model")
    after = pellucid.load(tmp_path / "model")
    assert_same(after.extra, [0.5, 3, True, "a"])
    assert_array_equal(after.more_, before.more_)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    "value",
    [
        len,
        {1, 2},
        OrderedDict(a=1),
        b"bytes",
        1j,
        np.array([object()]),
        np.ma.masked_array([1, 2], [0, 1]),
        np.zeros(1, dtype=np.complex128),
        np.array(["2020"], dtype="datetime64[Y]"),
        torch.zeros(2).to_sparse(),
        nn.Linear(1, 1),
        Own,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_stored_is_named(value: Any, tmp_path: Path) -> None:
    est = Toy().fit(blobs())
    est.odd_ = {"here": [0, value]}
    with pytest.raises(TypeError, match=r"odd_\.here\[1\]"):
        est.save(tmp_path / "model")
    est = Toy(extra=value).fit(blobs())
    with pytest.raises(TypeError, match=r"params\.extra"):
        est.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_class_that_load_would_not_know_is_refused_by_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persistence, "_registered", {})
    with pytest.raises(TypeError, match=r"Toy.*register\(Toy\)"):
        Toy().fit(blobs()).save(tmp_path / "model")

    class TELL(Toy):  # the name of one of ours, and another class
        pass

    with pytest.raises(TypeError, match="TELL"):
        TELL().fit(blobs()).save(tmp_path / "model")
    with pytest.raises(ValueError, match="of its own"):
        persistence.register(TELL)


def test_an_unfitted_estimator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="TELL"):
        TELL().save(tmp_path / "model")


# Damaged, foreign and newer files ------------------------------------------------------------


def test_missing_files(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder with a saved model"):
        pellucid.load(tmp_path / "nowhere")
    for name in ("weights.safetensors", "config.json"):
        (saved / name).unlink()
        with pytest.raises(FileNotFoundError, match=f"{name} is missing"):
            pellucid.load(saved)


@pytest.mark.parametrize("keep", [0, 5, 0.5, -1])
def test_truncated_files(saved: Path, keep: float) -> None:
    for name in ("weights.safetensors", "config.json"):
        content = (saved / name).read_bytes().rstrip()
        end = int(keep * len(content)) if isinstance(keep, float) else keep
        (saved / name).write_bytes(content[:end])
        with pytest.raises(ValueError, match=f"{name} is damaged"):
            pellucid.load(saved)
        (saved / name).write_bytes(content)
    pellucid.load(saved)


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("schema", 2, r"config.json has schema version 2, .*Upgrade"),
        ("schema", "1", "config.json is damaged: its schema version is '1'"),
        ("schema", ..., "its schema version is None"),
        ("format", "other", "does not describe a pellucid model"),
        ("params", ..., "'params' is missing"),
        ("fitted", [], "'fitted' is missing or of a wrong kind"),
        ("class", "antigravity", "'antigravity' is not an estimator"),
        ("class", "MLP", "'MLP' is not an estimator"),
        ("params/surprise", 1, "TELL has no parameter surprise"),
        ("params/training", {"$": "object", "class": "Popen", "params": {}}, "'Popen'.*know"),
        ("params/n_clusters", "many", "no network can be built"),
        ("params/autoencoder", {"$": "code"}, "params.autoencoder cannot be read"),
        ("params/snapshots", {"$": "tuple"}, "params.snapshots cannot be read"),
        ("fitted/predict", 1, "'predict' is no fitted attribute"),
        ("fitted/__class__", 1, "'__class__' is no fitted attribute"),
        ("fitted/module_", ..., "module_ is missing"),
        ("fitted/module_", 1, "module_ is missing"),
        ("fitted/sample_shape_", ..., "no network can be built"),
        ("fitted/scaler_", {"$": "scaler", "kind": "odd", "state": {}}, "scaler_ cannot be read"),
        ("fitted/labels_", ..., r"'labels_' of shape \(60,\) is unexpected"),
    ],
)
def test_a_config_that_is_wrong(saved: Path, where: str, value: Any, message: str) -> None:
    edit(saved, where, value)
    with pytest.raises(ValueError, match=message) as caught:
        pellucid.load(saved)
    assert str(saved) in str(caught.value)
    assert "antigravity" not in sys.modules


def test_json_of_another_shape(saved: Path) -> None:
    for text in ("[]", "3", "[" * 100_000, '{"format": NaN'):
        (saved / "config.json").write_text(text)
        with pytest.raises(ValueError, match=r"config\.json"):
            pellucid.load(saved)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("module_.clusters.weight", torch.zeros(3, 5), r"has shape \(3, 5\).*needs shape \(3, 4\)"),
        ("module_.clusters.weight", torch.zeros(3, 4).double(), r"float64.*float32"),
        ("module_.clusters.weight", None, r"of shape \(3, 4\) is missing"),
        ("labels_", torch.zeros(7, dtype=torch.int32), r"has shape \(7,\).*needs shape \(60,\)"),
        ("labels_", None, r"of shape \(60,\) is missing"),
        ("surprise", torch.zeros(2, 1), r"of shape \(2, 1\) is unexpected"),
    ],
)
def test_a_tensor_that_is_wrong(saved: Path, name: str, value: Any, message: str) -> None:
    edit_tensor(saved, name, value)
    with pytest.raises(ValueError, match=message) as caught:
        pellucid.load(saved)
    assert f"{saved / 'weights.safetensors'}: tensor '{name}'" in str(caught.value)


# Folders -------------------------------------------------------------------------------------


def test_a_folder_of_something_else_is_left_alone(est: TELL, saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.txt").write_text("all there is")
    with pytest.raises(ValueError, match=r"thesis .*chapter\.txt.*left as it is"):
        est.save(other)
    assert (other / "chapter.txt").read_text() == "all there is"
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"notes\.txt"):
        est.save(saved)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="foreign"):
        est.save(foreign)
    assert (foreign / "config.json").read_text() == "{}"


def test_where_a_model_can_go(est: TELL, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        est.save(tmp_path / "file")
    with pytest.raises(ValueError, match="cannot be written"):
        est.save(tmp_path / "file" / "model")
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "new" / "and" / "deep"):
        est.save(str(place))
        pellucid.load(str(place))
    (tmp_path / "link").symlink_to(tmp_path / "empty", target_is_directory=True)
    est.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()


@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="the superuser may write anywhere")
def test_a_folder_without_permission(est: TELL, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ValueError, match="cannot be written"):
        est.save(tmp_path / "model")


@pytest.mark.parametrize("one_step", [True, False])
def test_a_model_takes_the_place_of_another(
    one_step: bool, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not one_step:
        monkeypatch.setattr(persistence, "exchange", lambda a, b: False)
    fitted(max_iter=1, verbose=0, tol=0.5).save(saved)
    assert pellucid.load(saved).tol == 0.5
    assert [p.name for p in saved.parent.iterdir()] == ["model"]


def test_a_save_that_fails_leaves_the_model_before(
    est: TELL, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(persistence, "write", full)
        with pytest.raises(ValueError, match=r"cannot be written.*No space left"):
            est.save(saved)
    with monkeypatch.context() as patched:
        patched.setattr(persistence, "exchange", lambda a, b: False)
        renamed = Path.rename

        def once(self: Path, target: Path) -> Path:
            return full() if self.name.endswith(".part") else renamed(self, target)

        patched.setattr(Path, "rename", once)
        with pytest.raises(ValueError, match="cannot be written"):
            est.save(saved)
    pellucid.load(saved)
    assert [p.name for p in saved.parent.iterdir()] == ["model"]


def test_cut_short_between_two_steps_the_old_model_is_pointed_to(saved: Path) -> None:
    saved.rename(persistence.retired(saved))
    with pytest.raises(FileNotFoundError, match=r"cut short.*\.model\.old"):
        pellucid.load(saved)
    pellucid.load(persistence.retired(saved))


SAVE_FOREVER = """
import sys
import pellucid
folder = sys.argv[1]
one, other = pellucid.load(folder), pellucid.load(folder)
one.loss_, other.loss_ = 1.0, 2.0
one.labels_, other.labels_ = one.labels_ * 0 + 1, one.labels_ * 0 + 2
print("ready", flush=True)
while True:
    one.save(folder)
    other.save(folder)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_killed_while_saving_the_old_or_the_new_model_is_there(saved: Path) -> None:
    command = [sys.executable, "-c", SAVE_FOREVER, str(saved)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
    after = pellucid.load(saved)
    assert after.loss_ in (1.0, 2.0)
    assert set(after.labels_) == {int(after.loss_)}
    after.save(saved)


def test_files_can_be_read_by_others_as_the_umask_says(saved: Path) -> None:
    mode = (saved / "config.json").stat().st_mode
    assert (saved / "weights.safetensors").stat().st_mode == mode


# Later versions ------------------------------------------------------------------------------


def test_schema_1_stays_readable() -> None:
    expected = json.loads((FIXTURE.parent / "model_schema1.json").read_text())
    X = np.array(expected["X"], dtype=np.float32)
    est = pellucid.load(FIXTURE)
    assert type(est) is TELL
    assert est.get_params()["centers__decay"] == 0.25
    assert est.snapshots == ()
    assert list(est.feature_names_in_) == ["a", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=list("abcd"))
    assert_array_equal(est.predict(frame), expected["labels"])
    for method in METHODS[1:]:
        assert_allclose(getattr(est, method)(frame), expected[method], rtol=1e-4, atol=1e-5)
    assert len(est.history_) == est.n_iter_
    est.partial_fit(frame)


def write_fixture() -> None:
    """The model of `test_schema_1_stays_readable`, and what it answered when it was written."""
    frame = pd.DataFrame(blobs(30), columns=list("abcd"))
    options = {"n_init": 2, "max_iter": 2, "random_state": 0, "scale": "unit"}
    est = TELL(3, autoencoder="identity", centers=Centers(decay=0.25), **options).fit(frame)
    est.save(FIXTURE)
    expected = {method: getattr(est, method)(frame).tolist() for method in METHODS}
    expected = {"X": frame.to_numpy().tolist(), "labels": expected.pop("predict"), **expected}
    (FIXTURE.parent / "model_schema1.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    write_fixture()
