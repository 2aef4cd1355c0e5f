"""Peak memory of ``pellucid fit`` and of `explain` on float32 memmaps larger than their bars."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import records
from benchmarks.recipe import HERE

BAR_MB = 1024
FEATURES, CHUNK = 1024, 16_384
CASES = {
    "identity": ["--autoencoder", "identity"],
    "mlp": ["--autoencoder", "mlp", "--pretrain", "1"],
}
TORCH_ALONE = "import torch"
FIT = (
    "import sys; from pellucid.cli import main; code = main(sys.argv[1:]); code and sys.exit(code)"
)

EXPLAIN_BAR_MB = 1536  # of the whole process, torch and the fit of the first rows included
EXPLAINED = {
    "kmeans": "MiniBatchKMeans(10, n_init=1, random_state=0)",
    "tell": "TELL(10, autoencoder='mlp', pretrain=1, max_iter=1, n_init=1, random_state=0)",
}
EXPLAIN = """
import sys
import numpy as np
from sklearn.cluster import MiniBatchKMeans
from pellucid import TELL
from pellucid.explain import explain
X = np.load(sys.argv[1], mmap_mode="r")
found = explain({fitted}.fit(np.array(X[:4096])), X)
assert found.sizes.sum() == len(X) and found.rules is not None
"""


def measure(out: Path, gigabytes: float, only: list[str], folder: Path | None = None) -> int:
    """Fit in a process of its own, beside one that imports torch and ends; 1 above the bar."""
    told = ["-k", "10", "--algorithm", "tell", "--max_iter", "1", "--n_init", "1"]
    base = peak(TORCH_ALONE, [])

    def fit(name: str, path: Path) -> records.Line:
        made = ["--out", str(path.parent / name)]
        found, seconds = timed(FIT, ["fit", str(path), *told, *CASES[name], *made])
        line = {"torch_alone_mb": round(base), "above_mb": round(found - base), "bar_mb": BAR_MB}
        return {"peak_mb": round(found), **line, "reached": found - base < BAR_MB, **seconds}

    return over_memmap(out / "memory" / "runs.jsonl", gigabytes, folder, only or list(CASES), fit)


def measure_explain(
    out: Path, gigabytes: float, only: list[str], folder: Path | None = None
) -> int:
    """Explain, in a process of its own, after a fit on the first rows; 1 above the bar."""

    def explain(name: str, path: Path) -> records.Line:
        found, seconds = timed(EXPLAIN.format(fitted=EXPLAINED[name]), [str(path)])
        line = {"peak_mb": round(found), "bar_mb": EXPLAIN_BAR_MB}
        return {**line, "reached": found < EXPLAIN_BAR_MB, **seconds}

    record = out / "explain_memory" / "runs.jsonl"
    return over_memmap(record, gigabytes, folder, only or list(EXPLAINED), explain)


def over_memmap(
    record: Path,
    gigabytes: float,
    folder: Path | None,
    names: list[str],
    run: Callable[[str, Path], records.Line],
) -> int:
    """Write the file, run the cases on it, record them; the file is gone in the end."""
    above = 0
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        path = Path(scratch) / "X.npy"
        write_blobs(path, rows=int(gigabytes * 2**30 / 4 / FEATURES))
        for name in names:
            line = {"case": name, **run(name, path)}
            line |= {"file_mb": round(path.stat().st_size / 2**20), **records.surroundings()}
            records.append(record, [line])
            told = "{case}: {peak_mb} MB, bar {bar_mb}, reached {reached}, {seconds} s"
            print(told.format(**line), flush=True)
            above += not line["reached"]
    return int(above > 0)


def timed(code: str, arguments: list[str]) -> tuple[float, records.Line]:
    """`peak`, and how long it took."""
    started = time.perf_counter()
    most = peak(code, arguments)
    return most, {"seconds": round(time.perf_counter() - started, 1)}


def peak(code: str, arguments: list[str]) -> float:
    """The most memory in MB that a process running `code` held, as it says itself in the end."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "peak"
        tell = f"from benchmarks.records import peak_memory; open({str(told)!r}, 'w')"
        command = [sys.executable, "-c", f"{code}\n{tell}.write(str(peak_memory()))", *arguments]
        subprocess.run(command, stdout=subprocess.DEVNULL, cwd=HERE.parent, check=True)
        return float(told.read_text())


def write_blobs(path: Path, rows: int) -> None:
    """Ten clouds of points, written piece by piece."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(10, FEATURES)).astype(np.float32)
    out = np.lib.format.open_memmap(path, "w+", np.float32, (rows, FEATURES))
    for start in range(0, rows, CHUNK):
        size = min(CHUNK, rows - start)
        noise = rng.standard_normal((size, FEATURES), dtype=np.float32)
        out[start : start + size] = centers[rng.integers(10, size=size)] + noise
    out.flush()
