"""Options and fixtures for every test. Nothing here seeds anything: a test says its seed."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--data-dir",
        type=Path,
        default=None,
        help="directory with the .npz data sets; tests that need one are skipped without it",
    )


@pytest.fixture(scope="session")
def data_dir(request: pytest.FixtureRequest) -> Path:
    """The directory of ``--data-dir``; skips the test when none was given."""
    path: Path | None = request.config.getoption("--data-dir")
    if path is None:
        pytest.skip("needs --data-dir")
    if not path.is_dir():
        raise pytest.UsageError(f"--data-dir={path} is not a directory")
    return path.resolve()
