"""``python -m pellucid.demo``: scikit-learn's handwritten digits, clustered and written up."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans

from pellucid import TELL, Training
from pellucid.datasets import load_digits
from pellucid.metrics import ari, clustering_accuracy, nmi
from pellucid.report import writable
from pellucid.typing import Array

CLUSTERS = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Cluster, print a table, compare with k-means, write the page."""
    options = parse(argv)
    try:
        out = writable(options.out)
    except ValueError as error:
        print(f"pellucid.demo: {error}", file=sys.stderr)
        return 2
    digits = load_digits()
    n, X = len(digits.X), digits.X.reshape(-1, 8, 8)
    print(f"{n:,} handwritten digits of 8 x 8 pixels, {CLUSTERS} clusters, seed {options.seed}\n")
    # Batches of tiny images: a second thread waits more than it works, and many times longer
    # where it has to share its core.
    torch.set_num_threads(1)
    started = time.perf_counter()
    est = build(options.seed).fit(X)
    took = time.perf_counter() - started
    print(table(est, X))
    plain = KMeans(CLUSTERS, n_init=10, random_state=options.seed).fit(digits.X)
    # Here, after everything is fitted, the true digits are looked at for the first time.
    print(comparison(digits.y, {"TELL": est.labels_, "k-means": plain.labels_}))
    runs = len(est.restart_losses_)
    print(f"TELL took {took:.0f} s; of its {runs} restarts the one with the lowest loss was kept.")
    est.report(X, out, title="Handwritten digits, clustered by TELL", y=digits.y)
    print(f"The whole report, to be opened in a browser: {out.resolve()}")
    return 0


def build(seed: int) -> TELL:
    """TELL, set for 1,797 small images and about a minute."""
    return TELL(
        CLUSTERS,
        scale="unit",
        pretrain=120,
        init="graph",
        lam=0.5,  # fifty times the paper's, for 16 epochs instead of 3,000
        max_iter=16,
        batch_size=64,
        n_init=3,
        select="loss",
        training=Training("adam", lr=1e-3),
        random_state=seed,
    )


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """``--out`` and ``--seed``."""
    parser = argparse.ArgumentParser(prog="python -m pellucid.demo", description=__doc__)
    parser.add_argument("--out", default="report.html", help="the page to write [%(default)s]")
    parser.add_argument("--seed", type=int, default=0, help="of every random choice [%(default)s]")
    return parser.parse_args(argv)


def table(est: Any, X: Array) -> str:
    """Size, spread and nearest samples of every cluster."""
    distances, lines = est.distances(X), ["cluster   size   share   spread   nearest rows"]
    for j in range(len(est.cluster_centers_)):
        rows = np.flatnonzero(est.labels_ == j)
        own = distances[rows, j]
        spread = float(np.sqrt(np.mean(own**2))) if len(rows) else 0.0
        nearest = ", ".join(map(str, rows[np.argsort(own)][:4]))
        share = len(rows) / len(distances)
        lines.append(f"{j:>7}   {len(rows):>4}   {share:>5.1%}   {spread:>6.3f}   {nearest}")
    return "\n".join(lines) + "\n"


def comparison(y: Array, found: dict[str, Array]) -> str:
    """ACC, NMI and ARI of every labelling."""
    scores = (clustering_accuracy, nmi, ari)
    lines = [f"{'':<9}{'ACC':>7}{'NMI':>7}{'ARI':>7}"]
    for name, labels in found.items():
        lines.append(f"{name:<9}" + "".join(f"{score(y, labels):>7.3f}" for score in scores))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
