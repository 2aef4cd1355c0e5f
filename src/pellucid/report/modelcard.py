"""What a result depends on: data, method, seed, time, versions."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from pellucid.explain import Explanation
from pellucid.explain.view import View
from pellucid.report.sections import describe


def facts(seen: View, told: Explanation) -> list[tuple[str, str]]:
    """Pairs for the head of the page."""
    est = seen.est
    found = [
        ("Data", f"{told.n:,} {describe(told.sample_shape)}"),
        ("Data hash", seen.data.fingerprint()),
        ("Method", told.method),
        ("Clusters", f"{len(told.clusters):,}"),
        ("Seed", str(getattr(est, "random_state", None))),
    ]
    history, restarts = getattr(est, "history_", ()), getattr(est, "restart_losses_", ())
    epochs = len(history) or getattr(est, "n_iter_", 0)
    if epochs:
        found.append(("Epochs" if history else "Iterations", f"{epochs:,}"))
    if len(restarts) > 1:
        found.append(("Restarts", f"{len(restarts)}, number {est.best_restart_ + 1} kept"))
    if history:
        took = duration(sum(record.get("seconds", 0.0) for record in history))
        found.append(("Training", f"{took}, the kept restart" if len(restarts) > 1 else took))
    for name, value in (("Loss", "loss_"), ("Inertia", "inertia_")):
        if getattr(est, value, None) is not None:
            found.append((name, f"{getattr(est, value):.6g}"))
    return [*found, ("Written", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))]


def duration(seconds: float) -> str:
    """In words."""
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def versions() -> dict[str, str]:
    """Of everything that the numbers depend on."""
    found = {"Python": platform.python_version()}
    for name in ("pellucid", "torch", "numpy", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from its sources
            found[name] = "(not installed)"
    return found
