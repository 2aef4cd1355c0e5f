"""A recipe: one table row, or a few that stand beside each other."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.data import Data, File, Geometric, Stream
from benchmarks.methods import Method

HERE = Path(__file__).resolve().parent
METRICS = ("acc", "nmi", "ari")


@dataclass(frozen=True)
class Recipe:
    """What is run on what, and what the paper says about it.

    Parameters
    ----------
    title : str
    data : Data, File, Geometric or Stream
    methods : mapping of name -> Method
    seeds : int
        How many seeds, 0 upwards, unless the command line says otherwise.
    paper : mapping of name -> (ACC, NMI, ARI) in per cent
        Printed beside the method of that name.
    set_size : int, optional
        With one restart per fit: how many seeds in a row make the set of which one is chosen; None
        takes all of them as one set. Fits with several restarts are sets by themselves.
    select : str
        The score by which the smallest is chosen: "loss" or another that the estimator records.
    keep : tuple of str
        Arrays to keep in the work folder: "labels" and "embedding" of every seed.
    compare : pair of names, optional
        The table says how far apart their means are, in standard errors of the difference.
    note : str
    """

    title: str
    data: Data | File | Geometric | Stream
    methods: Mapping[str, Method]
    seeds: int = 3
    paper: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    set_size: int | None = None
    select: str = "loss"
    keep: tuple[str, ...] = ("labels",)
    compare: tuple[str, str] | None = None
    note: str = ""

    def config(self, method: str) -> dict[str, str]:
        """All that decides what `method` computes here, in words."""
        return {**self.methods[method].config(), "data": repr(self.data)}

    def config_id(self, method: str) -> str:
        """A short name of that: a changed recipe is run anew, not mixed with its old records."""
        words = json.dumps(self.config(method), sort_keys=True)
        return hashlib.sha256(words.encode()).hexdigest()[:8]


def find(name: str) -> tuple[str, Recipe]:
    """A recipe by the name of its file in ``benchmarks/recipes``, or by a path."""
    path = Path(name) if name.endswith(".py") else HERE / "recipes" / f"{name}.py"
    if not path.is_file():
        raise FileNotFoundError(f"No recipe {name!r}: use a path, or one of {names()}.")
    spec = importlib.util.spec_from_file_location(f"benchmarks.recipes.{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return path.stem, module.RECIPE


def names() -> list[str]:
    """The recipes that are here."""
    files = (HERE / "recipes").glob("[a-z]*.py")
    return sorted(path.stem for path in files if path.stem != "common")
