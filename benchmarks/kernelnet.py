"""KernelNet, Tables 2 to 5: NMI and time on the paper's sets, beside what else there is.

Every method gets the standardised samples. `prep` is what comes before the first step of training:
a fit with ``max_iter=0`` opens the data, builds the network and embeds spectrally.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans, SpectralClustering

from benchmarks import records
from benchmarks.data import Array
from benchmarks.records import Line
from pellucid import KernelNet, Training, datasets
from pellucid.fitting import settings_of
from pellucid.metrics import ari, clustering_accuracy, nmi

Labels = Callable[["Set", Array, int], tuple[Array, Line]]


@dataclass(frozen=True)
class Set:
    """A set of the paper: its clusters, the ratio of sigma to the median, the share of Table 4.

    `paper` has (NMI, sd) of Table 2 and NMI of Table 4 by method.
    """

    file: str
    k: int
    ratio: float = 1.0
    share: float = 1.0
    paper: dict[str, tuple[float, ...]] = field(default_factory=dict)


def paper(eig: float, eig_sd: float, sma: float, sma_sd: float, *other: float) -> dict[str, Any]:
    """Table 2 and 4; `other` are k-means, SC, SN, SN's sd, and the two shares."""
    means, sc, sn, sn_sd, eig_part, sma_part = other
    return {
        "eig": (eig, eig_sd), "stiefel": (sma, sma_sd), "eig, subset": (eig_part,),
        "stiefel, subset": (sma_part,), "k-means": (means,), "spectral": (sc,),
        "spectralnet": (sn, sn_sd),
    }  # fmt: skip


SETS = {
    "moon": Set("moon", 2, 0.1, 0.25, paper(100, 0, 100, 0, 66.1, 72.0, 100, 0, 100, 100)),
    "spiral": Set("spiral", 3, 0.1, 0.1, paper(100, 0, 100, 0, 42.0, 100, 100, 0, 100, 100)),
    "cancer": Set(
        "cancer", 2, 1.0, 0.3, paper(84.2, 0.4, 82.5, 0.1, 73.0, 69.8, 82.9, 0, 84.0, 83.6)
    ),
    "wine": Set(
        "wine", 3, 1.0, 0.75, paper(91.0, 0.8, 90.0, 0.7, 42.8, 88.0, 79.7, 0.2, 91.1, 89.3)
    ),
    "rcv": Set("rcv", 4, 1.0, 0.06, paper(46.3, 0.4, 46.1, 0.2, 56.0, 46.0, 43.5, 0.2, 45.2, 43.1)),
    "face": Set(
        "face", 20, 1.0, 0.35, paper(93.0, 0.3, 92.6, 0.5, 91.8, 66.0, 75.6, 0.1, 92.7, 91.1)
    ),
    "spiral_large": Set("spiral_large", 3, 0.1, 0.01),
}  # fmt: skip


@dataclass(frozen=True)
class Learned:
    """KernelNet with `changes`; ``subset=None`` in them is the set's share.

    With `noise` the rows that are labelled are not those of the fit (Fig. 5).
    """

    changes: dict[str, Any] = field(default_factory=dict)
    noise: float = 0.0

    def net(self, chosen: Set, seed: int = 0, **more: Any) -> KernelNet:
        given = {**self.changes, "ratio": chosen.ratio, "random_state": seed, **more}
        if "subset" in given:
            given["subset"] = given["subset"] or chosen.share
        return KernelNet(chosen.k, **given)

    def config(self, chosen: Set) -> dict[str, str]:
        """All parameters but the seed, and what `training` stands for."""
        net = self.net(chosen)
        told = net.get_params(deep=False) | {"training": settings_of(net)}
        return {name: repr(value) for name, value in told.items() if name != "random_state"}

    def __call__(self, chosen: Set, X: Array, seed: int) -> tuple[Array, Line]:
        started = time.perf_counter()
        self.net(chosen, seed, max_iter=0, hard_refine=0).fit(X)
        prepared = time.perf_counter() - started
        net = self.net(chosen, seed).fit(X)
        told = {
            "prep": round(prepared, 3), "loss": net.loss_, "sigma": net.sigma_,
            "trained_on": len(net.subset_), "epochs": net.n_iter_,
            "moved": [h["moved"] for h in net.history_ if "moved" in h],
            "config": self.config(chosen),
        }  # fmt: skip
        if not self.noise:
            return net.labels_, told
        shift = self.noise * np.random.default_rng(seed).normal(size=X.shape)
        return net.predict(X + shift), told


def means(chosen: Set, X: Array, seed: int) -> tuple[Array, Line]:
    """scikit-learn's k-means."""
    return KMeans(chosen.k, n_init=10, random_state=seed).fit_predict(X), {}


def spectral(chosen: Set, X: Array, seed: int) -> tuple[Array, Line]:
    """scikit-learn's spectral clustering with the same sigma."""
    some = X[np.random.default_rng(seed).permutation(len(X))[:2000]]
    sigma = chosen.ratio * float(np.median(pdist(some)))
    model = SpectralClustering(chosen.k, gamma=1 / (2 * sigma**2), random_state=seed)
    return model.fit_predict(X), {"sigma": sigma}


def spectralnet(python: str) -> Labels:
    """SpectralNet from PyPI with its defaults, in the environment of the interpreter `python`."""

    def labels(chosen: Set, X: Array, seed: int) -> tuple[Array, Line]:
        script = Path(__file__).with_name("spectralnet_peer.py")
        given = {"X": X.astype(np.float32), "k": chosen.k, "seed": seed}
        at = Path("spectralnet-in.npz").absolute()
        np.savez(at, **given)
        subprocess.run([python, str(script), str(at)], check=True, stdout=sys.stderr)
        with np.load(at) as found:
            told = {"seconds": float(found["seconds"]), "version": str(found["version"])}
            return found["labels"], told

    return labels


# Restarts by themselves: three side by side would all train until the last has caught up.
ALONE = Training("adam", lr=1e-3, precision="float32", restarts="single")
THREE = {"subset": None, "n_init": 3, "select": "scatter", "training": ALONE}

METHODS: dict[str, Labels] = {
    "eig": Learned(),
    "stiefel": Learned({"update": "stiefel"}),
    "eig, subset": Learned({"subset": None}),
    "stiefel, subset": Learned({"update": "stiefel", "subset": None}),
    "eig, subset, best of 3": Learned(THREE),
    "stiefel, subset, best of 3": Learned(THREE | {"update": "stiefel"}),
    "eig, nystrom": Learned({"gram": "nystrom", "rank": 500}),
    "eig, noise": Learned(noise=0.1),
    "k-means": means,
    "spectral": spectral,
}


def standing(lines: list[Line], name: str, method: str) -> list[Line]:
    """The records of a set and method; of KernelNet those with the parameters that it has now."""
    own = [r for r in lines if (r["set"], r["method"]) == (name, method)]
    labels = METHODS.get(method)
    if isinstance(labels, Learned):
        own = [r for r in own if r.get("config") == labels.config(SETS[name])]
    return own


def measure(
    names: Iterable[str], methods: Iterable[str], seeds: int, folder: Path, out: Path, python: str
) -> None:
    """Every set with every method and seed that is not yet recorded."""
    path = out / "kernelnet" / "runs.jsonl"
    for name in names:
        X, y = load(SETS[name], folder)
        for method in methods:
            labels = spectralnet(python) if method == "spectralnet" else METHODS[method]
            done = {r["seed"] for r in standing(records.read(path), name, method)}
            for seed in range(seeds):
                if seed not in done:
                    line = {"set": name, "method": method, "seed": seed}
                    line |= timed(labels, SETS[name], X, y, seed)
                    records.append(path, [line | records.surroundings()])
                    print(f"{name}, {method}, {seed}: NMI {line['nmi']:.1f}, {line['seconds']} s")


def load(chosen: Set, folder: Path) -> tuple[Array, Array]:
    """Standardised samples, and labels to judge by."""
    found = datasets.load_npz(folder / f"knet_{chosen.file}.npz")
    X = np.asarray(found.X, dtype=np.float64)
    return (X - X.mean(0)) / X.std(0), np.asarray(found.y)


def timed(labels: Labels, chosen: Set, X: Array, y: Array, seed: int) -> Line:
    """One fit, judged; NMI over the geometric mean, as in the paper."""
    started, cpu = time.perf_counter(), time.process_time()
    found, told = labels(chosen, X, seed)
    seconds = time.perf_counter() - started - told.get("prep", 0.0)
    return {
        "nmi": 100 * nmi(y, found, average="geometric"), "acc": 100 * clustering_accuracy(y, found),
        "ari": 100 * ari(y, found), "seconds": round(seconds, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3), "n": len(X),
        "peak_mb": round(records.peak_memory()), **told,
    }  # fmt: skip


def picture(folder: Path, path: Path, rows: int = 600) -> None:
    """Fig. 1: 30,000 samples, their kernel, psi trained on 1% of them, and its kernel."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from pellucid.nn import gaussian_kernel
    from pellucid.plots import plot_kernel

    chosen = SETS["spiral_large"]
    X, _ = load(chosen, folder)
    net = KernelNet(chosen.k, ratio=chosen.ratio, subset=chosen.share, random_state=0).fit(X)
    some = np.random.default_rng(0).choice(len(X), rows, replace=False)
    x = torch.from_numpy(X[some])
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.6), layout="constrained")
    titles = "(a) the data", "(b) its kernel, σ = 0.3", "(c) the embedding", "(d) its kernel"
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, fontsize=11)
    for ax, points in ((axes[0], X), (axes[2], net.transform(X))):
        ax.scatter(*points.T, s=0.5, c=net.labels_, cmap="viridis", linewidths=0, rasterized=True)
        ax.set(xticks=[], yticks=[], aspect="equal")
    plot_kernel(gaussian_kernel(x, x, 0.3).numpy(), labels=net.labels_[some], ax=axes[1])
    plot_kernel(net, X[some], ax=axes[3])
    figure.savefig(path, dpi=110)


def table(out: Path) -> str:
    """NMI beside the paper's, and seconds."""
    lines = records.read(out / "kernelnet" / "runs.jsonl")
    head = ("set", "method", "seeds", "NMI", "paper", "reached", "prep", "run", "trained on")
    text = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for name, chosen in SETS.items():
        for method in (*METHODS, "spectralnet"):
            if own := standing(lines, name, method):
                text.append("| " + " | ".join([name, method, *cells(own, chosen, method)]) + " |")
    return "\n".join(text)


def cells(own: list[Line], chosen: Set, method: str) -> list[str]:
    """One line of the table."""
    values = np.array([r["nmi"] for r in own])
    told = chosen.paper.get(method.removesuffix(", best of 3"), ())
    bar = told[0] - (told[1] if len(told) > 1 else 0) if told else None
    prep = [r["prep"] for r in own if "prep" in r]
    return [
        str(len(own)),
        f"{values.mean():.1f} ± {values.std():.1f}",
        " ± ".join(f"{v:g}" for v in told),
        "" if bar is None else "yes" if round(values.mean(), 1) >= bar else "no",
        f"{np.median(prep):.2f} s" if prep else "",
        f"{np.median([r['seconds'] for r in own]):.2f} s",
        str(own[0].get("trained_on", own[0]["n"])),
    ]
