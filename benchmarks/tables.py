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

HEAD = ("", "fits", "restarts", "every restart", "chosen by the loss", "paper", "reached", "time")


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

    def chosen(self, set_size: int | None) -> list[Line]:
        """Of every set of restarts the one with the smallest loss."""
        if any(fit["restarts"] > 1 for fit in self.fits):
            return self.fits  # the fit has chosen
        size = set_size or max((fit["seed"] for fit in self.fits), default=0) + 1
        ordered = sorted(self.fits, key=lambda fit: fit["seed"])
        sets = [list(part) for _, part in groupby(ordered, lambda fit: fit["seed"] // size)]
        return [min(part, key=lambda fit: fit["loss"]) for part in sets]


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
    text = [f"## {recipe.title}", "", *body, "", "ACC / NMI / ARI in per cent, mean ± sd."]
    return "\n".join([*text, *remarks(found, recipe)])


def cells_of(row: Row, recipe: Recipe) -> list[str]:
    """One line of the table."""
    chosen, paper = row.chosen(recipe.set_size), recipe.paper.get(row.method)
    seconds = np.array([fit["seconds"] for fit in row.fits])
    return [
        row.method,
        str(len(row.fits)),
        str(sum(fit["restarts"] for fit in row.fits)),
        spread(row.every),
        spread(chosen),
        " / ".join(f"{value:.2f}" for value in paper) if paper else "",
        reached(chosen, paper) if paper else "",
        duration(float(seconds.mean())),
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
    machines = {(fit["machine"]["cpu"], fit["machine"]["threads"]) for r in found for fit in r.fits}
    told += [f"On {cpu}, {threads} thread(s) per fit." for cpu, threads in sorted(machines)]
    return told


def duration(seconds: float) -> str:
    """Seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
