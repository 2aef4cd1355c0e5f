"""Small data, small fits, and processes to kill: what the tests of the engine share."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import make_blobs
from torch import nn
from torch.utils.data import Dataset

from pellucid import MLP, TELL, Conv, Training

ROWS = make_blobs(96, 8, centers=3, cluster_std=0.6, random_state=0)[0].astype(np.float32)
SQUARES = np.random.default_rng(0).random((48, 1, 8, 8)).astype(np.float32)
BATCH = 32
SMALL = MLP(hidden=(16,), latent=3)


def small_tell(training: dict[str, Any] | None = None, **changes: Any) -> TELL:
    """Three clusters, two epochs of reconstruction and four in turn; a tenth of a second."""
    params: dict[str, Any] = {
        "n_clusters": 3, "autoencoder": SMALL, "init": "k-means", "pretrain": 2, "n_init": 1,
        "max_iter": 4, "tol": 0, "batch_size": BATCH, "random_state": 0,
    }  # fmt: skip
    settings = {"restarts": "single", "precision": "float32"}
    return TELL(**params | changes, training=Training(**settings | (training or {})))


def dropout_tell(**training: Any) -> TELL:
    return small_tell(training, autoencoder=MLP(hidden=(16,), latent=3, dropout=0.3))


def conv_tell(**training: Any) -> TELL:
    """With batch normalisation."""
    return small_tell(training, autoencoder=Conv(latent=3), batch_size=16, max_iter=3)


def three_restarts(**training: Any) -> TELL:
    return small_tell({"optimizer": "adam"} | training, n_init=3, max_iter=3)


def stacked_tell(**training: Any) -> TELL:
    return small_tell({"optimizer": "adam", "restarts": "stacked"} | training, n_init=3)


def network(est: TELL) -> dict[str, torch.Tensor]:
    return est.module_.state_dict()


def course(est: TELL) -> list[dict[str, Any]]:
    """History without the wall clock."""
    return [{k: v for k, v in record.items() if k != "seconds"} for record in est.history_]


def assert_same_fit(a: TELL, b: TELL) -> None:
    """To the last bit."""
    assert network(a).keys() == network(b).keys()
    for name, t in network(a).items():
        assert torch.equal(t, network(b)[name]), name
    assert course(a) == course(b)
    np.testing.assert_array_equal(a.labels_, b.labels_)
    np.testing.assert_array_equal(a.restart_losses_, b.restart_losses_)
    np.testing.assert_array_equal(a.restart_labels_, b.restart_labels_)


class Fused(Dataset):
    """Rows that do `act` when item number `after` is read once the file `armed` is there."""

    def __init__(self, X: np.ndarray, armed: Path, after: int, act: Callable[[], None]) -> None:
        self.X, self.armed, self.left, self.act = X, armed, after, act

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, i: int) -> torch.Tensor:
        if self.left and self.armed.exists():
            self.left -= 1
            if not self.left:
                self.act()
        return torch.from_numpy(self.X[i])


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


class Fading(nn.Module):
    """A network of somebody's own that is not a number any more after some steps."""

    def __init__(self, d: int, steps: int) -> None:
        super().__init__()
        self.latent_dim, self.steps = 3, steps
        self.enc, self.dec = nn.Linear(d, 3), nn.Linear(3, d)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.step += 1
        return self.enc(x) * torch.where(self.step > self.steps, float("nan"), 1.0)

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        return self.dec(z)


# Other processes -----------------------------------------------------------------------------


def process(target: Callable[..., None], *args: Any) -> multiprocessing.Process:
    """A real process, started; forked from a server that has imported torch once for all."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pellucid", "sklearn.datasets"])
    # Read when the server loads OpenMP: threads that spin starve each other on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    child = context.Process(target=target, args=args)
    child.start()
    return child


def fit_and_die(make: Callable[..., TELL], X: np.ndarray, folder: Path, armed: str) -> None:
    """Fit, and be killed one batch and a half after the file `armed` was written."""
    est = make(checkpoint_dir=folder)
    est.fit(Fused(X, folder / armed, est.batch_size * 3 // 2, die))


def fit(est: TELL, X: np.ndarray, threads: int, out: Path) -> None:
    """Fit with so many threads; labels and the warnings go to `out`."""
    torch.set_num_threads(threads)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        est.fit(X)
    said = " ".join(str(w.message) for w in caught)
    np.savez(out, labels=est.labels_, said=said, again=est.predict(X), epochs=est.n_iter_)


class StopAfter:
    """A scikit-learn callback that asks to stop after so many epochs."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self.log: list[str] = []

    def setup(self, estimator: Any, context: Any) -> None:
        self.log.append("setup")

    def teardown(self, estimator: Any, context: Any) -> None:
        self.log.append("teardown")

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.log.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        self.log.append(f"end {context.task_name}")
        return self.log.count("end epoch") == self.epochs


def together(out: Path) -> None:
    """What two processes do under torchrun; each writes what it has found."""
    from pellucid.training import distributed

    found: dict[str, Any] = {}

    def note(name: str, est: TELL) -> None:
        weights = torch.cat([t.double().flatten() for t in network(est).values()])
        found[f"{name}.labels"], found[f"{name}.weights"] = est.labels_, weights.numpy()
        found[f"{name}.losses"] = np.array(est.loss_curve_)
        found[f"{name}.sizes"] = np.array([r["sizes"] for r in est.history_])

    note("single", small_tell({"optimizer": "sgd"}).fit(ROWS))
    note("stacked", small_tell({"optimizer": "sgd", "restarts": "stacked"}, n_init=3).fit(ROWS))
    # No seed, batches that don't divide, batch statistics, own weights: the first process rules.
    torch.manual_seed(distributed.rank())
    own = Conv(latent=3).build((1, 8, 8), True)
    free = {"batch_size": 15, "random_state": None, "n_init": 2}
    note("free", small_tell(autoencoder=own, **free).fit(SQUARES[:47]))
    # Ctrl-C reaches only one of them; both stop, and both go on.
    one = {"checkpoint_dir": out / "files", "optimizer": "sgd"}
    act = ctrl_c if distributed.rank() else int
    X = Fused(ROWS, out / "files" / "training-0.safetensors", 20, act)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cut = small_tell(one).fit(X)
    found["cut.said"], found["cut.epochs"] = str(caught[-1].message), cut.n_iter_
    note("resumed", small_tell(one).fit(ROWS))
    np.savez(out / f"rank{distributed.rank()}.npz", **found)


if __name__ == "__main__":
    together(Path(sys.argv[1]))
