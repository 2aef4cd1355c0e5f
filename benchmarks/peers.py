"""Samples per second of Deep k-Means' joint phase: ours and ClustPy's, in one process, in turn.

ClustPy is not among this project's dependencies: run this where both can be imported. Network
(784-500-500-2000-10, leaky ReLU), batch (256), optimizer (Adam), alpha and samples are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import records
from benchmarks.data import load
from pellucid import MLP, DeepKMeans
from pellucid.algorithms.deep_kmeans import schedule
from pellucid.fitting import engine_for
from pellucid.training import Rules, Single

BATCH, K, ALPHA, LAMBDA, BAR = 256, 10, 1000.0, 0.1, 2.5
WIDTHS = (500, 500, 2000)
FOREVER = 10_000


def measure(folder: Path | None, out: Path, rows: int, repeats: int) -> int:
    """`repeats` epochs of both in turn after one of each to warm up; 1 when the bar is missed."""
    whole = load("mnist", folder).X[:rows]
    X = whole.reshape(len(whole), -1).astype(np.float32) / np.float32(255)
    theirs, own = clustpy_epoch(X), ours(X)
    rates: dict[str, list[float]] = {"clustpy": [], "ours": []}
    for repeat in range(-1, repeats):
        started = time.perf_counter()
        next(own)
        pair = {"ours": time.perf_counter() - started, "clustpy": theirs()}
        for name, seconds in pair.items() if repeat >= 0 else ():
            rates[name].append(len(X) / seconds)
    ratio = median(a / b for a, b in zip(rates["ours"], rates["clustpy"], strict=True))
    line = {
        "case": "DKM, joint phase", "rows": len(X), "batch": BATCH, "repeats": repeats,
        **{name: round(median(values), 1) for name, values in rates.items()},
        "ratio": round(ratio, 3), "bar": BAR, "reached": ratio >= BAR,
        "rates": rates, "clustpy_version": version("clustpy"), **records.surroundings(),
    }  # fmt: skip
    records.append(out / "peers" / "runs.jsonl", [line])
    print("{case}: ClustPy {clustpy} /s, ours {ours} /s, ratio {ratio}, bar {bar}".format(**line))
    return int(not line["reached"])


def ours(X: Any) -> Iterator[Any]:
    """Joint epochs of the engine."""
    spec = MLP(WIDTHS, K, activation="leaky_relu", output="linear")
    est = DeepKMeans(K, lam=LAMBDA, alpha=ALPHA, autoencoder=spec, random_state=0)
    data = est._open(X, reset=True)
    with engine_for(est, data, FOREVER) as engine:
        group = engine.begin(Single(est._build_module(), 0, engine.settings))
        plan = schedule(lambda _: ALPHA)
        yield from engine.epochs(group, data, plan, Rules(), stop=FOREVER)


def clustpy_epoch(X: Any) -> Callable[[], float]:
    """One joint epoch of ClustPy's; the seconds of its training loop alone."""
    import clustpy.deep.dkm as peer
    from clustpy.deep.neural_networks import FeedforwardAutoencoder

    spent = [0.0]
    loop = peer._DKM_Module.fit

    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        found = loop(self, *args, **kwargs)
        spent[0] = time.perf_counter() - started
        return found

    peer._DKM_Module.fit = timed
    network = FeedforwardAutoencoder([X.shape[1], *WIDTHS, K], random_state=0)
    network.fitted = True  # there is nothing to pretrain for

    def run() -> float:
        peer.DKM(
            K, alphas=(ALPHA,), batch_size=BATCH, neural_network=network, clustering_epochs=1,
            clustering_loss_weight=LAMBDA, initial_clustering_params={"n_init": 1},
            random_state=0, device="cpu",
        ).fit(X)  # fmt: skip
        return spent[0]

    return run
