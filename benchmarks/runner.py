"""Runs a recipe: a process per method and seed, finished ones skipped, interrupted ones resumed.

A fit that is killed goes on from its last checkpoint when the same command is given again. One
that is interrupted (Ctrl-C, or the end of ``--minutes``) leaves a line marked as not finished,
and goes on as well.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks import records
from benchmarks.data import Array, Given
from benchmarks.methods import Outcome
from benchmarks.recipe import HERE, METRICS, Recipe, find
from benchmarks.records import Line
from pellucid.metrics import ari, clustering_accuracy, nmi


@dataclass(frozen=True)
class Task:
    """One seed of one method, and where its things are."""

    name: str
    recipe: Recipe
    method: str
    seed: int
    records: Path
    work: Path

    @property
    def key(self) -> tuple[str, str, int]:
        return self.method, self.recipe.config_id(self.method), self.seed

    @property
    def folder(self) -> Path:
        """For checkpoints."""
        return self.work / self.name / "-".join([slug(self.method), self.key[1], str(self.seed)])

    @property
    def arrays(self) -> Path:
        """For labels and embeddings."""
        return self.folder.with_suffix(".npz")

    @property
    def lines(self) -> Path:
        return self.records / self.name / "runs.jsonl"


@dataclass
class Place:
    """Where data comes from, and where records and work go."""

    data: Path | None = None
    records: Path = HERE / "records"
    work: Path = HERE / "work"

    def arguments(self) -> list[str]:
        """The same for a child process."""
        told = ["--records", str(self.records.resolve()), "--work", str(self.work.resolve())]
        return told + (["--data-dir", str(self.data.resolve())] if self.data else [])


@dataclass(frozen=True)
class Plan:
    """How many processes at a time, of how many threads, for how long."""

    jobs: int = 1
    threads: int | None = None
    minutes: float | None = None

    def environment(self) -> dict[str, str]:
        """Of a child: two processes of one thread do more than one process of two."""
        threads = self.threads or max((os.cpu_count() or 1) // self.jobs, 1)
        return {**os.environ, "OMP_NUM_THREADS": str(threads)}

    def end(self) -> float:
        return time.monotonic() + 60 * self.minutes if self.minutes else float("inf")


def tasks(name: str, recipe: Recipe, seeds: list[int], place: Place) -> list[Task]:
    """Every method for every seed, seeds outside so that methods grow side by side."""
    return [
        Task(name, recipe, method, seed, place.records, place.work)
        for seed in seeds
        for method in recipe.methods
    ]


def done(lines: list[Line]) -> set[tuple[str, str, int]]:
    """What has a line that is finished."""
    fits = (line for line in lines if line["kind"] == "fit" and line["finished"])
    return {(line["method"], line["config_id"], line["seed"]) for line in fits}


def run(
    target: str,
    place: Place,
    plan: Plan,
    *,
    seeds: list[int] | None = None,
    methods: list[str] | None = None,
) -> int:
    """Run what is missing of a recipe; the number of fits that failed."""
    name, recipe = find(target)
    every = tasks(name, recipe, seeds or list(range(recipe.seeds)), place)
    wanted = [t for t in every if not methods or t.method in methods]
    if not wanted:
        raise ValueError(f"No method {methods}: {name} has {list(recipe.methods)}.")
    recorded = done(records.read(wanted[0].lines))
    left = [t for t in wanted if t.key not in recorded]
    print(f"{name}: {len(wanted) - len(left)} recorded, {len(left)} to run", file=sys.stderr)
    return supervise([command(target, t, place) for t in left], plan)


def command(target: str, task: Task, place: Place) -> list[str]:
    """What runs `task` in a process of its own: its peak memory is then its own, too."""
    target = str(Path(target).resolve()) if target.endswith(".py") else target
    python = [sys.executable, "-m", "benchmarks", "task", target]
    return [*python, "--method", task.method, "--seed", str(task.seed), *place.arguments()]


def supervise(commands: list[list[str]], plan: Plan) -> int:
    """Run `commands`, some at a time; interrupt them in the end or on Ctrl-C; count failures."""
    environment, end = plan.environment(), plan.end()
    waiting, running, failed, stopped = list(commands), [], 0, False
    while running or (waiting and not stopped):
        try:
            if waiting and not stopped and len(running) < plan.jobs:
                child = subprocess.Popen(waiting.pop(0), env=environment, cwd=HERE.parent)
                running.append(child)
                continue
            time.sleep(0.2)
        except KeyboardInterrupt:  # the terminal has told the children, too
            stopped = True
        if time.monotonic() > end and not stopped:
            stopped = True
            for child in running:
                child.send_signal(signal.SIGINT)
        over = [child for child in running if child.poll() is not None]
        failed += sum(child.returncode != 0 for child in over)
        running = [child for child in running if child not in over]
    return failed


# In the process of one task --------------------------------------------------------------------


def run_task(task: Task, data: Path | None) -> None:
    """Fit, judge, record."""
    task.folder.mkdir(parents=True, exist_ok=True)
    with only_one(task.folder / "lock"):
        if task.key not in done(records.read(task.lines)):
            fit_and_record(task, data)


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Refuse a second process on the same fit: it would share its checkpoints."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(f"{lock.parent.name} is being run by another process.") from error
        yield


def fit_and_record(task: Task, data: Path | None) -> None:
    """The work of `run_task`."""
    given, y = task.recipe.data.draw(data, task.seed)
    before = records.peak_memory()
    with Clock(task.folder) as clock:
        found = task.recipe.methods[task.method].fit(given, task.seed, task.folder)
    cost = {
        "seconds": round(clock.total(found.history), 2),
        "cpu_seconds": round(clock.cpu, 2),
        "peak_mb": round(records.peak_memory(), 1),
        "peak_mb_above_data": round(records.peak_memory() - before, 1),
    }
    keep_arrays(task, found)
    records.append(task.lines, lines_of(task, given, found, y, cost))
    if found.finished:
        shutil.rmtree(task.folder, ignore_errors=True)


def lines_of(task: Task, given: Given, found: Outcome, y: Array, cost: Line) -> list[Line]:
    """One line for the fit and one for each of its restarts."""
    method, config_id, seed = task.key
    head = {"recipe": task.name, "method": method, "config_id": config_id, "seed": seed}
    fit = head | {
        "kind": "fit",
        "finished": found.finished,
        **judge(y, found.labels),
        "scores": {"loss": found.loss} | (found.restart_scores or [{}])[found.chosen],
        "restarts": max(len(found.restart_scores), 1),
        "chosen": found.chosen,
        "epochs": len(found.history),
        **cost,
        "n": len(given.X),
        "config": task.recipe.config(method),
        "curve": curve(found, y),
        **records.surroundings(),
    }
    each = [] if found.restart_labels is None else found.restart_labels
    parts = [
        head | {"kind": "restart", "restart": r, **judge(y, labels), "scores": scores}
        for r, (labels, scores) in enumerate(zip(each, found.restart_scores, strict=True))
    ]
    return [fit, *parts]


def judge(y: Array, labels: Array) -> dict[str, float]:
    """ACC, NMI and ARI: the only place where true labels are looked at."""
    scores = clustering_accuracy(y, labels), nmi(y, labels), ari(y, labels)
    found = dict(zip(METRICS, scores, strict=True)) | recalls(y, labels)
    return {name: round(value, 5) for name, value in found.items()}


def recalls(y: Array, labels: Array, small: int = 5) -> dict[str, float]:
    """Mean recall of the smallest classes and of the others, clusters matched as for ACC."""
    table = np.zeros((int(y.max()) + 1, int(labels.max()) + 1))
    np.add.at(table, (y, labels), 1)
    rows, columns = linear_sum_assignment(table, maximize=True)
    sizes = table.sum(1)
    hit = np.zeros(len(sizes))
    hit[rows] = table[rows, columns] / sizes[rows].clip(1)
    order = np.argsort(sizes, kind="stable")
    small = min(small, len(order) - 1)
    parts = hit[order[:small]], hit[order[small:]]
    return {"recall_small": float(parts[0].mean()), "recall_large": float(parts[1].mean())}


def curve(found: Outcome, y: Array) -> list[Line]:
    """The history, and the scores of a sample where snapshots were taken."""
    epochs = {epoch: judge(y[rows], labels) for epoch, rows, labels in found.moments}
    return [rounded(record) | epochs.get(record["epoch"], {}) for record in found.history]


def rounded(record: Line) -> Line:
    """Floats with six digits: what a curve needs."""
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in record.items()}


def keep_arrays(task: Task, found: Outcome) -> None:
    """Labels and embedding beside the checkpoints, for `benchmarks.selection`."""
    arrays: dict[str, Any] = {}
    if "labels" in task.recipe.keep:
        arrays["labels"] = found.labels.astype(np.uint8)
        if found.restart_labels is not None:
            arrays["restart_labels"] = found.restart_labels.astype(np.uint8)
    if "embedding" in task.recipe.keep and found.embedding is not None:
        arrays["embedding"] = found.embedding.astype(np.float32)
    if arrays:
        task.arrays.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(task.arrays, **arrays)


class Clock:
    """Wall clock and processor time over the pieces in which a fit was run."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "clock.json"
        self.earlier = json.loads(self.file.read_text()) if self.file.exists() else [0.0, 0.0]

    def __enter__(self) -> Clock:
        self.started = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        now = time.perf_counter(), time.process_time()
        pieces = zip(self.earlier, self.started, now, strict=True)
        self.seconds, self.cpu = (before + end - start for before, start, end in pieces)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps([self.seconds, self.cpu]))

    def total(self, history: list[Line]) -> float:
        """What was measured, or what the epochs add up to where a kill lost a measurement."""
        return max(self.seconds, sum(record.get("seconds", 0.0) for record in history))


def slug(name: str) -> str:
    """A name for files."""
    return "".join(c if c.isalnum() else "_" for c in name)
