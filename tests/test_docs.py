"""The pages about papers name functions that exist, and lines that these functions have."""

from __future__ import annotations

import inspect
import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
# | equation | what it says | `module.function` | `line` |
ROW = re.compile(r"^\|[^`]*\|[^`]*\| `([\w.]+)` \| `(.+)` \|$", re.M)
ROWS = [
    pytest.param(name, line, id=f"{page.stem}-{name}")
    for page in sorted(DOCS.glob("papers/*.md"))
    for name, line in ROW.findall(page.read_text(encoding="utf-8"))
]


def test_there_are_rows() -> None:
    assert len(ROWS) >= 20


@pytest.mark.parametrize(("name", "line"), ROWS)
def test_the_line_of_an_equation_is_there(name: str, line: str) -> None:
    module, *inside = re.split(r"\.(?=[A-Z]|\w+$)", f"pellucid.{name}", maxsplit=1)
    function = reduce(getattr, inside[0].split("."), import_module(module))
    assert line in inspect.getsource(inspect.unwrap(function))
