"""Peak memory of ``pellucid fit`` on a float32 memmap that is larger than its bar."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
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


def measure(out: Path, gigabytes: float, only: list[str], folder: Path | None = None) -> int:
    """Fit in a process of its own, beside one that imports torch and ends; 1 above the bar."""
    above = 0
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        path = Path(scratch) / "X.npy"
        write_blobs(path, rows=int(gigabytes * 2**30 / 4 / FEATURES))
        base = peak(TORCH_ALONE, [])
        for name, options in CASES.items():
            if only and name not in only:
                continue
            line = fit(name, path, [*options, "--out", str(Path(scratch) / name)], base)
            line |= {"file_mb": round(path.stat().st_size / 2**20), **records.surroundings()}
            records.append(out / "memory" / "runs.jsonl", [line])
            told = "{case}: {peak_mb} MB, {above_mb} above torch alone, bar {bar_mb}, {seconds} s"
            print(told.format(**line), flush=True)
            above += not line["reached"]
    return int(above > 0)


def fit(name: str, path: Path, options: list[str], base: float) -> records.Line:
    """One run of the command line."""
    told = ["fit", str(path), "-k", "10", "--algorithm", "tell", "--max_iter", "1", "--n_init", "1"]
    started = time.perf_counter()
    most = peak(FIT, [*told, *options])
    return {
        "case": name,
        "peak_mb": round(most),
        "torch_alone_mb": round(base),
        "above_mb": round(most - base),
        "bar_mb": BAR_MB,
        "reached": most - base < BAR_MB,
        "seconds": round(time.perf_counter() - started, 1),
    }


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
