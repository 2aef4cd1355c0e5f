"""A record as a table: mean and spread, the choice by the method's own loss, and the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from benchmarks import records
from benchmarks.recipe import METRICS, Recipe, find
from benchmarks.records import Line

HEAD = ("", "fits", "restarts", "every restart", "chosen", "paper", "reached", "time", "core time")
REMARK = "ACC / NMI / ARI in per cent, mean ± sd; of each set the restart with the smallest {}."


@dataclass
class Row:
    """The record of one method."""

    method: str
    fits: list[Line]  # the last line of every seed
    restarts: list[Line]  # of these fits, where they have several
    stale: bool  # recorded with another recipe than the one that is here now

    @property
    def every(self) -> list[Line]:
        """All single restarts."""
        return self.restarts or self.fits

    def chosen(self, recipe: Recipe) -> list[Line]:
        """Of every set of restarts the one with the smallest score (its loss by default)."""
        size = recipe.set_size or max((fit["seed"] for fit in self.fits), default=0) + 1

        def place(line: Line) -> int:
            return int(line["seed"] if self.restarts else line["seed"] // size)

        sets = [list(part) for _, part in groupby(sorted(self.every, key=place), place)]
        return [min(part, key=lambda line: score(line, recipe.select)) for part in sets]


def score(line: Line, name: str) -> float:
    """A score of one restart; a fit with the loss alone has no other."""
    return float(line["scores"].get(name, line["scores"]["loss"]))


def rows(recipe: Recipe, lines: Sequence[Line]) -> list[Row]:
    """The newest record of every method of `recipe` that has one."""
    found = []
    for method in recipe.methods:
        own = [line for line in lines if line["method"] == method]
        now = [line for line in own if line["config_id"] == recipe.config_id(method)]
        kept = now or [line for line in own if line["config_id"] == own[-1]["config_id"]]
        if kept:
            fits = list({line["seed"]: line for line in kept if line["kind"] == "fit"}.values())
            parts = {(p["seed"], p["restart"]): p for p in kept if p["kind"] == "restart"}
            several = [p for p in parts.values() if len(parts) > len(fits)]
            found.append(Row(method, fits, several, stale=not now))
    return found


def table(target: str, folder: Path) -> str:
    """Markdown for ``python -m benchmarks table``."""
    name, recipe = find(target)
    path = folder / name / "runs.jsonl"
    found = rows(recipe, records.read(path))
    if not found:
        raise FileNotFoundError(f"{path} has no record of {name}: run the recipe first.")
    cells = [HEAD, *([cell for cell in cells_of(row, recipe)] for row in found)]
    body = ["| " + " | ".join(line) + " |" for line in cells]
    body.insert(1, "|" + " --- |" * len(HEAD))
    text = [f"## {recipe.title}", "", *body, "", REMARK.format(recipe.select)]
    return "\n".join([*text, *remarks(found, recipe)])


def cells_of(row: Row, recipe: Recipe) -> list[str]:
    """One line of the table."""
    chosen, paper = row.chosen(recipe), recipe.paper.get(row.method)
    return [
        row.method,
        str(len(row.fits)),
        str(sum(fit["restarts"] for fit in row.fits)),
        spread(row.every),
        spread(chosen),
        " / ".join(f"{value:.2f}" for value in paper) if paper else "",
        reached(chosen, paper) if paper else "",
        duration(float(np.mean([fit["seconds"] for fit in row.fits]))),
        duration(float(np.mean([fit["cpu_seconds"] for fit in row.fits]))),
    ]


def spread(lines: Sequence[Line]) -> str:
    """Mean ± standard deviation of the three scores."""
    parts = []
    for metric in METRICS:
        values = 100 * np.array([line[metric] for line in lines])
        plus = f" ± {values.std(ddof=1):.2f}" if len(values) > 1 else ""
        parts.append(f"{values.mean():.2f}{plus}")
    return " / ".join(parts)


def reached(lines: Sequence[Line], paper: Sequence[float]) -> str:
    """Which of the paper's figures the mean of `lines` comes up to."""
    told = []
    for metric, bar in zip(METRICS, paper, strict=True):
        gap = 100 * float(np.mean([line[metric] for line in lines])) - bar
        told.append(f"{'yes' if round(gap, 2) >= 0 else 'no'} ({gap:+.2f})")
    return " / ".join(told)


def difference(first: Sequence[Line], second: Sequence[Line]) -> str:
    """Difference of the means of two methods, and its standard error."""
    parts = []
    for metric in METRICS:
        values = [100 * np.array([line[metric] for line in lines]) for lines in (first, second)]
        gap = values[0].mean() - values[1].mean()
        error = sum(v.var(ddof=1) / len(v) for v in values) ** 0.5 if len(first) > 1 else np.nan
        parts.append(f"{metric.upper()} {gap:+.2f} ± {error:.2f}")
    return ", ".join(parts)


def remarks(found: Sequence[Row], recipe: Recipe) -> list[str]:
    """What must be known to read the table."""
    told = [recipe.note] if recipe.note else []
    for row in found:
        short = [
            f"{fit['seed']} ({fit['epochs']} epochs)" for fit in row.fits if not fit["finished"]
        ]
        if short:
            told.append(f"{row.method}: interrupted, so far: seed {', '.join(short)}.")
        if row.stale:
            told.append(f"{row.method}: recorded with an earlier version of the recipe.")
    pair = [row.fits for name in recipe.compare or () for row in found if row.method == name]
    if recipe.compare and len(pair) == 2:
        told.append(f"{' - '.join(recipe.compare)}: {difference(*pair)} (± standard error).")
    machines = {machine(fit["machine"]) for row in found for fit in row.fits}
    return [*told, *(f"On {name} per fit." for name in sorted(machines))]


def machine(told: Line) -> str:
    """Processor, its threads, and the GPU where there was one."""
    processor = f"{told['cpu']}, {told['threads']} thread(s)"
    return f"{told['gpu']} beside {processor}" if told.get("gpu") else processor


def duration(seconds: float) -> str:
    """Seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
