"""The page of 20,000 samples in 20 clusters: how large it is, how long to write it and to open it.

A headless Chromium opens it. The clock starts with the navigation and stops when the map is drawn
and answers, a tenth of a second of waiting for the answer included. Choosing a cluster and pointing
at a sample are timed until the next frame.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import make_blobs
from tests.browser import Visit, launched

from benchmarks import records
from benchmarks.data import load
from pellucid import MLP, TELL, DeepKMeans

BARS = {"megabytes": 4.0, "open_seconds": 2.0, "write_seconds": 60.0}
ROWS, K = 20_000, 20
Case = tuple[Any, Any, dict[str, Any]]  # a fitted estimator, its X, what is shown of the rows
SMALL: dict[str, Any] = {
    "autoencoder": MLP(hidden=(64,), latent=10), "pretrain": 1, "max_iter": 2, "random_state": 0,
}  # fmt: skip

DRAWN = """async () => {
    await pellucid.views.map.runAsync();
    await new Promise(requestAnimationFrame);
    return performance.now();
}"""
CHOSEN = """async () => {
    const before = performance.now();
    document.querySelector(".pick:enabled").click();
    await pellucid.views.map.runAsync();
    await new Promise(requestAnimationFrame);
    return performance.now() - before;
}"""
POINTED = """async ([clientX, clientY]) => {
    const before = performance.now(), how = { clientX, clientY, bubbles: true };
    document.querySelector("#map canvas").dispatchEvent(new PointerEvent("pointermove", how));
    if (document.querySelector("#tip").hidden) throw new Error("no sample is shown");
    await new Promise(requestAnimationFrame);
    return performance.now() - before;
}"""


def pictures(folder: Path | None) -> Case:
    """MNIST, which has to be there."""
    X = load("mnist", folder).X[:ROWS]
    return TELL(K, n_init=1, **SMALL).fit(X), X, {}


def table(folder: Path | None) -> Case:
    """Fifty named features."""
    X = make_blobs(ROWS, 50, centers=K, random_state=0)[0].astype(np.float32)
    names = [f"measured quantity {i}" for i in range(50)]
    ids = [f"sample {i:05d}" for i in range(ROWS)]
    est = TELL(K, n_init=2, scale="standard", **SMALL).fit(X)
    return est, X, {"feature_names": names, "ids": ids}


def texts(folder: Path | None) -> Case:
    """Sparse rows of a thousand words, with thirty words of text each."""
    rng, words = np.random.default_rng(0), [f"word{i:03d}" for i in range(1000)]
    said = rng.integers(50, size=(ROWS, 30)) + 50 * rng.integers(K, size=(ROWS, 1))
    at = (np.repeat(np.arange(ROWS), 30), said.ravel())
    X = sparse.csr_matrix((np.ones(said.size, np.float32), at), shape=(ROWS, 1000))
    est = DeepKMeans(K, scale="standard", **SMALL).fit(X)
    return est, X, {"feature_names": words, "texts": [" ".join(words[i] for i in r) for r in said]}


CASES: dict[str, Callable[[Path | None], Case]] = {
    "pictures": pictures, "table": table, "texts": texts,
}  # fmt: skip


def measure(folder: Path | None, out: Path, only: list[str], repeats: int) -> int:
    """Write, weigh and open the page of every case; record and print it; 1 above a bar."""
    above = 0
    for name in only or CASES:
        est, X, shown = CASES[name](folder)
        with tempfile.TemporaryDirectory() as scratch:
            path, started = Path(scratch) / "page.html", time.perf_counter()
            est.report(X, path, **shown)
            found = {"write_seconds": time.perf_counter() - started}
            found["megabytes"] = path.stat().st_size / 1e6
            opened = [opening(path) for _ in range(repeats)]
        found |= {what: median(once[what] for once in opened) for what in opened[0]}
        line: records.Line = {"case": name, "rows": ROWS, "clusters": K, "repeats": repeats}
        line |= {what: round(value, 3) for what, value in found.items()}
        line["slowest_open_seconds"] = round(max(once["open_seconds"] for once in opened), 3)
        line |= {"bars": BARS, "reached": all(found[what] < bar for what, bar in BARS.items())}
        records.append(out / "report" / "runs.jsonl", [line | records.surroundings()])
        told = "{case}: {megabytes} MB, written in {write_seconds} s, open in {open_seconds} s, "
        told += "a click {click_seconds} s, a pointer {point_seconds} s; reached {reached}"
        print(told.format(**line), flush=True)
        above += not line["reached"]
    return int(above > 0)


def opening(path: Path) -> dict[str, float]:
    """Seconds until the page of a browser that has just started answers, and what answers take."""
    with launched() as browser, Visit(browser, path) as visit:
        ready = float(visit.page.get_attribute("html", "data-ready") or "nan")
        drawn = visit.page.evaluate(DRAWN)
        click = visit.page.evaluate(CHOSEN)
        i = visit.clear()  # scrolls there
        point = visit.page.evaluate(POINTED, visit.ask("places")[i])
        assert visit.faults == [] and len(visit.ask("points")["x"]) == ROWS
    times = {"script": ready, "open": drawn, "click": click, "point": point}
    return {f"{what}_seconds": ms / 1000 for what, ms in times.items()}
