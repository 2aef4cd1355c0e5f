"""Every Python block of the README runs, each on its own, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [
    pytest.param(match[1], README.count("\n", 0, match.start()) + 1, id=f"block{i}")
    for i, match in enumerate(re.finditer(r"^```python\n(.*?)^```", README, re.M | re.S))
]


@pytest.mark.parametrize(("source", "line"), BLOCKS)
def test_block_runs(
    source: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # The newlines put a traceback on the README's own line.
    code = compile("\n" * line + source, "README.md", "exec")
    exec(code, {"__name__": "readme"})


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#]+)", README))))
def test_link_leads_somewhere(target: str) -> None:
    if not target.startswith(("http://", "https://")):
        assert (ROOT / target).exists(), f"README links to {target}"
