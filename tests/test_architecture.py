"""The arrows between the rooms, and the rules that hold for every line, read from the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import pellucid

PACKAGE = Path(pellucid.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
ids = [str(path.relative_to(PACKAGE)) for path in FILES]
each_file = pytest.mark.parametrize("path", FILES, ids=ids)

LAYERS = {"typing", "nn"}
TRAINING = LAYERS | {"losses", "autoencoders", "init", "data", "training"}

# room -> the rooms it may import, besides itself. Arrows point down only.
ARROWS: dict[str, set[str]] = {
    "typing": set(),
    "nn": {"typing"},
    "losses": LAYERS,
    "autoencoders": LAYERS,
    "data": {"typing"},
    "init": LAYERS | {"losses", "data"},
    "training": LAYERS | {"data"},
    "persistence": {"typing", "data", "autoencoders", "training"},
    "base": TRAINING | {"persistence", "explain", "report"},
    "fitting": TRAINING,
    "joint": TRAINING,
    "subsets": {"typing", "nn", "data"},
    "algorithms": TRAINING | {"base", "fitting", "joint", "subsets"},
    "metrics": {"typing"},
    "explain": {"typing", "nn", "data", "metrics"},  # reads fitted attributes and rows, no engine
    "report": {"typing", "data", "metrics", "explain"},  # data only opens what is to be shown
    "plots": {"typing", "explain", "report"},
    "datasets": {"data"},
}
# Rooms that base may open inside a method, when somebody calls it: nothing that trains needs them.
LATE = {"persistence", "explain", "report"}
# These stand above all rooms: the front door, the command line, the demonstration.
ABOVE = {"__init__", "__main__", "cli", "demo"}

# Labels may be given to these, because scikit-learn's contract has the slot; none reads them.
TAKES_Y = {"fit", "partial_fit", "fit_predict", "fit_transform", "score"}
KNOWS_LABELS = {"metrics", "explain", "report"} | ABOVE


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', '?')}"


def imports(path: Path) -> Iterator[tuple[str, ast.AST]]:
    """Every imported dotted name; ``from a.b import c`` counts as ``a.b.c``."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{where(path, node)}: relative import"
            yield from ((f"{node.module}.{alias.name}", node) for alias in node.names)


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of an attribute chain that starts at a name, else the tail with a leading dot."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call):
            yield dotted(node.func), node


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[str]:
    a = node.args
    optional = [arg for arg in (a.vararg, a.kwarg) if arg is not None]
    return [arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, *optional)]


@each_file
def test_arrows_point_down(path: Path) -> None:
    here = room(path)
    if here in ABOVE:
        return
    assert here in ARROWS, f"{where(path, parsed(path))}: no room called {here!r}"
    for name, node in imports(path):
        package, _, inner = name.partition(".")
        if package != "pellucid":
            continue
        there = inner.partition(".")[0]
        assert there in ARROWS[here] | {here}, f"{where(path, node)}: {here} imports {name}"


def test_base_opens_the_upper_rooms_late() -> None:
    """So that nothing which fits can come to depend on what reads a finished fit."""
    for statement in parsed(PACKAGE / "base.py").body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        module = getattr(statement, "module", "") or ""
        assert module.removeprefix("pellucid.").partition(".")[0] not in LATE, module


def test_arrows_make_no_circle() -> None:
    left = {name: set(below) for name, below in ARROWS.items()}
    while left:
        lowest = {name for name, below in left.items() if not below & left.keys()}
        assert lowest, f"a circle among {sorted(left)}"
        left = {name: below for name, below in left.items() if name not in lowest}


def test_one_backward() -> None:
    found = [
        where(path, node)
        for path in FILES
        for name, node in calls(path)
        if name.rpartition(".")[2] == "backward"
    ]
    assert len(found) == 1 and found[0].startswith("training/"), found


@each_file
def test_one_file_knows_processes(path: Path) -> None:
    if path == PACKAGE / "training" / "distributed.py":
        return
    for name, node in imports(path):
        assert not f"{name}.".startswith("torch.distributed."), where(path, node)
    for node in ast.walk(parsed(path)):
        assert not dotted(node).startswith("torch.distributed"), where(path, node)


@each_file
def test_no_code_from_files(path: Path) -> None:
    for name, node in imports(path):
        banned = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
        assert name.partition(".")[0] not in banned, f"{where(path, node)}: {name}"
    for name, call in calls(path):
        given = {k.arg: getattr(k.value, "value", None) for k in call.keywords}
        assert not given.get("allow_pickle"), where(path, call)
        assert not name.endswith(("read_pickle", "to_pickle")), where(path, call)
        if name == "torch.load":
            assert given.get("weights_only") is True, where(path, call)


@each_file
def test_labels_cannot_leak(path: Path) -> None:
    """Below the metrics ``y`` is a parameter of scikit-learn's methods only, and never read."""
    if room(path) in KNOWS_LABELS:
        return
    for function in functions(path):
        if "y" not in parameters(function):
            continue
        name = getattr(function, "name", "<lambda>")
        assert name in TAKES_Y, f"{where(path, function)}: {name} has a parameter y"
        for node in ast.walk(function):
            read = isinstance(node, ast.Name) and node.id == "y" and isinstance(node.ctx, ast.Load)
            assert not read, f"{where(path, node)}: {name} reads y"


@each_file
def test_the_library_does_not_print(path: Path) -> None:
    if room(path) in ABOVE:
        return
    for name, call in calls(path):
        assert name != "print", where(path, call)


@each_file
def test_the_report_does_not_train(path: Path) -> None:
    if room(path) not in {"metrics", "plots", "report"}:
        return
    for name, call in calls(path):
        assert name.rpartition(".")[2] not in {"fit", "partial_fit", "fit_predict"}, where(
            path, call
        )


IMPORT_CHECK = """
import random, socket, sys

def refuse(*args, **kwargs):
    raise AssertionError("the network was used at import")

import numpy, torch, sklearn.metrics, sklearn.utils.validation
brought = set(sys.modules)  # scikit-learn imports pandas where it is installed
socket.socket.connect = refuse
socket.getaddrinfo = refuse

def state():
    key, draws = numpy.random.get_state()[1:3]
    return (
        torch.get_rng_state().tolist(), torch.get_num_threads(), torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(), random.getstate(), key.tolist(), draws,
        torch.distributed.is_available() and torch.distributed.is_initialized(),
        numpy.geterr(), torch.is_grad_enabled(),
    )

before = state()
import pellucid
for name in pellucid.__all__:
    getattr(pellucid, name)
assert state() == before, "import changed a global state"
optional = {"matplotlib", "pandas", "polars", "pyarrow", "torchvision", "anndata", "ray", "onnx"}
found = sorted(optional & sys.modules.keys() - brought)
assert not found, f"imported {found}"
"""


def test_nothing_runs_at_import() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_CHECK], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
