"""What PC-X's figures show, with the CI-Unit and without, and what class exemplars are of.

``python -m benchmarks.exemplars fit mnist --data-dir DATA --out FILE.npz`` fits both and keeps
what is to be seen (exemplars, Table 7 and Fig. 4); ``python -m benchmarks.exemplars draw FILE.npz
PICTURE.png`` needs matplotlib. ``python -m benchmarks.exemplars labels mnist --data-dir DATA``
records how many exemplars of PC-X and TELL are of the class that most of their cluster is of.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import records
from benchmarks.data import Data
from benchmarks.recipe import HERE
from benchmarks.recipes.common import pcx_setting
from benchmarks.search import NETWORKS
from pellucid import MLP, PCX, TELL, Training
from pellucid.explain import Explanation, explain
from pellucid.metrics import clustering_accuracy, curves, fusion_shares, nmi

KINDS = ("central", "boundary", "untypical")
SHOWN, BAR = 10, 0.95  # exemplars of each kind; share of the central ones with their class
SETS = {"mnist": "mnist", "fashion": "fashion_mnist"}
WAYS: dict[str, dict[str, Any]] = {"PC-X": {}, "without the CI-Unit": {"ci_unit": False}}


def fit(
    name: str, seed: int, folder: Path | None, network: str, rows: int | None, out: Path
) -> None:
    """Both fits; labels are not asked for."""
    X = Data(SETS[name], rows=rows).draw(folder, seed)[0].X
    kept: dict[str, Any] = {}
    shared = {"autoencoder": NETWORKS[network](), "random_state": seed}
    for way, change in WAYS.items():
        est = PCX(**pcx_setting(10, len(X), **shared, **change)).fit(X)
        kept[f"{way}/exemplars"] = est.prototypes_.reshape(10, *X.shape[-2:])
        kept[f"{way}/nearest"] = np.zeros((10, *X.shape[-2:]), X.dtype)
        for cluster in explain(est, X, n_exemplars=1, rules=False).clusters:
            for sample in cluster.central:
                kept[f"{way}/nearest"][cluster.index] = X[sample.row]
        kept[f"{way}/singular shares"] = fusion_shares(est, X)
        kept |= {f"{way}/{curve}": values for curve, values in curves(est).items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out, **kept)


def labels(name: str, seeds: int, folder: Path | None, rows: int | None, out: Path) -> None:
    """Fit, explain, and only then look at the labels."""
    given, y = Data(SETS[name], rows=rows).draw(folder, 0)
    for seed in range(seeds):
        for method, est in fits(len(given.X), seed).items():
            started = time.perf_counter()
            found = explain(est.fit(given.X), given.X, n_exemplars=SHOWN, rules=False)
            shares = of_the_majority(found, est.labels_, y)
            line = {
                "set": name, "rows": len(y), "method": method, "seed": seed,
                "seconds": round(time.perf_counter() - started, 1),
                "acc": clustering_accuracy(y, est.labels_), "nmi": nmi(y, est.labels_),
                "loss": est.loss_, "n_exemplars": SHOWN, **shares,
                "bar": BAR, "reached": shares["central"] >= BAR, "config": repr(est),
            }  # fmt: skip
            records.append(out / "exemplars" / "runs.jsonl", [line | records.surroundings()])
            told = "{method} {seed}: ACC {acc:.3f}, central {central:.3f}, boundary {boundary:.3f}"
            print(told.format(**line), flush=True)


def fits(n: int, seed: int) -> dict[str, PCX | TELL]:
    """Fits of a few minutes: the 500-500-2000-10 network."""
    tell = TELL(
        10, autoencoder=MLP(), n_init=1, pretrain=30, max_iter=12, lam=0.5, tol=0.0,
        training=Training("adam", lr=1e-3), random_state=seed,
    )  # fmt: skip
    network = MLP(weights="glorot")
    return {"TELL": tell, "PC-X": PCX(**pcx_setting(10, n, autoencoder=network, random_state=seed))}


def of_the_majority(found: Explanation, clusters: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Share of each kind of exemplars that are of the class most of their cluster is of."""
    right: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    for cluster in found.clusters:
        counts = np.bincount(y[clusters == cluster.index], minlength=int(y.max()) + 1)
        for kind in KINDS:
            right[kind] += [y[s.row] == counts.argmax() for s in getattr(cluster, kind)]
    return {kind: float(np.mean(hits)) for kind, hits in right.items()}


def draw(file: Path, picture: Path) -> None:
    """Exemplars above the samples nearest to them, one way below the other."""
    from matplotlib.figure import Figure

    with np.load(file) as arrays:
        rows = [(f"{way}: {part}", arrays[f"{way}/{part}"]) for way in WAYS for part in PARTS]
    figure = Figure(figsize=(10, 1.25 * len(rows)), layout="constrained")
    for grid, (title, images) in zip(figure.subfigures(len(rows)), rows, strict=True):
        grid.suptitle(title, fontsize="small", x=0.01, ha="left")
        for axes, image in zip(grid.subplots(1, len(images)), images, strict=True):
            axes.imshow(image, cmap="gray_r")
            axes.axis("off")
    figure.savefig(picture, dpi=100)


PARTS = ("exemplars", "nearest")


def main() -> None:
    """fit, labels or draw"""
    top = argparse.ArgumentParser(description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    fitting, labelling = commands.add_parser("fit"), commands.add_parser("labels")
    for command in (fitting, labelling):
        command.add_argument("set", choices=SETS)
        command.add_argument("--rows", type=int)
        command.add_argument("--data-dir", type=Path)
    fitting.add_argument("--seed", type=int, default=0)
    fitting.add_argument("--network", choices=sorted(NETWORKS), default="conv")
    fitting.add_argument("--out", type=Path, required=True)
    labelling.add_argument("--seeds", type=int, default=3, help="how many fits [%(default)s]")
    labelling.add_argument("--records", type=Path, default=HERE / "records")
    drawing = commands.add_parser("draw")
    drawing.add_argument("file", type=Path)
    drawing.add_argument("picture", type=Path)
    told = top.parse_args()
    if told.command == "fit":
        fit(told.set, told.seed, told.data_dir, told.network, told.rows, told.out)
    elif told.command == "labels":
        labels(told.set, told.seeds, told.data_dir, told.rows, told.records)
    else:
        draw(told.file, told.picture)


if __name__ == "__main__":
    main()
