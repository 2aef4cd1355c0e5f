"""Settings of PC-X side by side, each from one and the same warm-up: what its defaults rest on.

``python -m benchmarks.search mnist --seed 0 --network conv --data-dir DATA`` warms up once per
seed and then runs every setting of `GRIDS`. A line per fit goes to ``records/pcx_search/``, with
what can be seen without labels (loss, its parts, sizes, agreement with the other seeds by
``python -m benchmarks.search table``) beside the scores, which are there to be reported.
"""

from __future__ import annotations

import argparse
import copy
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks import records
from benchmarks.data import Data, File, Geometric
from benchmarks.recipe import HERE
from benchmarks.runner import judge
from pellucid import MLP, PCX, Conv, Training

SETS: dict[str, Data | File | Geometric] = {
    "mnist": Data("mnist"),
    "fashion": Data("fashion_mnist"),
    "usps": Data("usps"),
    "har": File("har_time265"),
    "reuters": File("reuters21578_top10_tfidf2000"),
    "news20": File("news20_tfidf2000"),
    "snippets": File("searchsnippets_tfidf2000"),
    "bladder": File("sc_mouse_bladder_2100", counts=2000),
    "imbalanced": Geometric("mnist", ratio=20.0),
}
NETWORKS = {"conv": Conv, "mlp": lambda: MLP(weights="glorot")}
GRIDS: dict[str, list[dict[str, Any]]] = {
    "weights": [
        {"eta_1": 0.5},
        {"eta_1": 2.0},
        {"eta_1": 2.0, "eta_2": 0.1},
        {"eta_1": 5.0},
        {"eta_1": 2.0, "ci_unit": False},
        {"eta_1": 2.0, "noise": 0.3},
    ],
    "switches": [
        {},
        {"straight_through": False},
        {"noise": 0.1},
        {"noise": 0.5},
        {"start": "glorot"},
        {"ci_unit": False},
        {"kappa": 1.0},
        {"pace": "counts"},
        {"init": "k-means"},
        {"imbalance": True},
    ],
    "sizes": [
        {"imbalance": True},
        {"init": "k-means"},
        {"init": "k-means", "imbalance": True},
        {"init": "k-means", "imbalance": True, "eta_1": 0.5},
        {"init": "k-means", "imbalance": True, "eta_2": 0.0},
        {"init": "k-means", "imbalance": True, "sphere": False},
    ],
    "pull": [
        {"eta_1": eta_1, "imbalance": uneven, "burn_in": 0}
        for eta_1 in (0.05, 0.2, 0.8)
        for uneven in (False, True)
    ],
    "one": [{}],
}


def main() -> None:
    """One data set and seed."""
    options = parser().parse_args()
    out = options.records / "pcx_search" / "runs.jsonl"
    if options.data == "table":
        print(table(records.read(out)))
        return
    given, y = SETS[options.data].draw(options.data_dir, options.seed)
    k, rows = int(y.max()) + 1, slice(None)
    if options.rows:
        rows = np.sort(np.random.default_rng(0).permutation(len(y))[: options.rows])
    X, y = given.X[rows], y[rows]
    changes = dict(pair.split("=") for pair in options.set)
    base = {name: parsed(value) for name, value in changes.items()}
    shared: dict[str, Any] = {
        "random_state": options.seed,
        "tol": 0.0,
        "training": Training("adam", lr=options.lr),
        **base,
    }
    spec = NETWORKS[options.network]()
    warm = PCX(k, autoencoder=spec, pretrain=options.pretrain, max_iter=0, **shared).fit(X)
    told = {"data": options.data, "n": len(y), "network": options.network, "seed": options.seed}
    told |= {"pretrain": options.pretrain, "lr": options.lr, "epochs": options.epochs}
    for change in GRIDS[options.grid]:
        setting = {"max_iter": options.epochs, "pretrain": 0, **shared, **change}
        started = time.perf_counter()
        est = PCX(k, autoencoder=copy.deepcopy(warm.module_.autoencoder), **setting).fit(X)
        last = est.history_[-1] if est.history_ else {}
        line = told | {"setting": {**base, **change}, "start": judge(y, warm.labels_)}
        line |= {**judge(y, est.labels_), "loss": est.loss_, "rows": est.labels_[:2000].tolist()}
        line |= {name: last.get(name) for name in ("reconstruction", "clustering", "confidence")}
        line |= {"sizes": last.get("sizes"), "seconds": round(time.perf_counter() - started, 1)}
        records.append(out, [line | records.surroundings()])
        shown = ("data", "network", "seed", "setting", "acc", "nmi", "loss", "seconds")
        print({name: line[name] for name in shown}, "from", line["start"]["acc"], flush=True)


def parsed(text: str) -> Any:
    """A number where it is one, else the word."""
    try:
        return float(text) if "." in text or "e" in text else int(text)
    except ValueError:
        return {"True": True, "False": False}.get(text, text)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("data", choices=[*SETS, "table"])
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--network", choices=sorted(NETWORKS), default="mlp")
    made.add_argument("--grid", choices=sorted(GRIDS), default="one")
    made.add_argument("--rows", type=int)
    made.add_argument("--pretrain", type=int, default=16)
    made.add_argument("--epochs", type=int, default=16)
    made.add_argument("--lr", type=float, default=1e-3)
    made.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    made.add_argument("--data-dir", type=Path)
    made.add_argument("--records", type=Path, default=HERE / "records")
    return made


def table(lines: list[records.Line]) -> str:
    """A line per setting: mean scores over the seeds, and how alike the seeds are."""
    groups: dict[tuple[str, ...], list[records.Line]] = {}
    for line in lines:
        keys = ("data", "n", "network", "pretrain", "epochs", "lr", "setting")
        groups.setdefault(tuple(str(line[key]) for key in keys), []).append(line)
    told = ["| set | setting | seeds | ACC | NMI | start | agreement |", "|" + " --- |" * 7]
    for (*where, setting), found in sorted(groups.items()):
        pairs = combinations([line["rows"] for line in found], 2)
        alike = [adjusted_rand_score(a, b) for a, b in pairs]
        means = [f"{np.mean([line[m] for line in found]):.4f}" for m in ("acc", "nmi")]
        start = f"{np.mean([line['start']['acc'] for line in found]):.4f}"
        agreement = f"{np.mean(alike):.3f}" if alike else ""
        cells = [" ".join(where), setting, str(len(found)), *means, start, agreement]
        told.append("| " + " | ".join(cells) + " |")
    return "\n".join(told)


if __name__ == "__main__":
    main()
