"""Records: JSON lines that are only ever appended to, with what is needed to judge them."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn")

Line = dict[str, Any]


def append(path: Path, lines: Iterable[Line]) -> None:
    """Add `lines` in one write, so that several processes may record into one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line, default=float) + "\n" for line in lines)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> list[Line]:
    """All lines; a last one that a kill cut short is left out."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text().splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return lines


def surroundings() -> Line:
    """Versions, machine and when."""
    import pellucid

    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "python": platform.python_version(),
            "pellucid": pellucid.__version__,
            "commit": commit(),
            **{name: version(name) for name in PACKAGES},
        },
        "machine": machine(),
    }


def machine() -> Line:
    """Processor, cores, threads used, memory, and how busy it was."""
    import torch

    return {
        "cpu": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load": round(os.getloadavg()[0], 2),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def processor() -> str:
    """The processor's name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def peak_memory() -> float:
    """The most memory that this process has held since it was started, in MB.

    Linux's ``ru_maxrss`` also counts what the parent held when it forked; VmHWM does not.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (2**20 if sys.platform == "darwin" else 1024)


def commit() -> str | None:
    """The commit the code is at, with a + where files differ from it."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        told = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True
        )
        dirty = subprocess.run(
            [*git, "status", "--porcelain", "--", "../src"], capture_output=True, text=True
        )
    except OSError:
        return None
    return told.stdout.strip() + ("+" if dirty.stdout.strip() else "") or None
