"""How a fit went: curves by epoch, restarts, and centres that were decoded on the way."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid.report.chart import Spec, lines
from pellucid.report.gallery import Gallery
from pellucid.typing import Array

# Of a record of `history_`, what is not a loss.
OTHER = {"loss", "epoch", "changed", "seconds", "sizes", "empty", "snapshot", "phase", "lam"}
OTHER |= {"moved", "value"}  # of KernelNet: how far U went, and how large its objective is
MOST_LINES = 40  # clusters whose sizes are drawn
MOST_POINTS = 400  # epochs of a curve; more are thinned out
FRAMES = 10  # snapshots that are shown


def training(est: Any, gallery: Gallery) -> dict[str, Any] | None:
    """None where an estimator has kept nothing."""
    history = list(getattr(est, "history_", ()))
    losses = [float(loss) for loss in getattr(est, "restart_losses_", ())]
    if not history:
        return None
    kept = getattr(est, "best_restart_", 0)
    return {
        "charts": charts(thinned(history), len(est.cluster_centers_)),
        "restarts": [(loss, r == kept) for r, loss in enumerate(losses)],
        "films": films(history, est, gallery),
        "epochs": len(history),
        "pretrained": sum(record.get("phase") == "pretrain" for record in history),
    }


def thinned(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most about `MOST_POINTS` records, with their place in `at`."""
    step = -(-len(history) // MOST_POINTS)
    return [{**r, "at": i + 1} for i, r in enumerate(history) if i % step == 0 or r is history[-1]]


def charts(history: list[dict[str, Any]], k: int) -> dict[str, tuple[str, Spec]]:
    """Title and specification by name; a chart without a point is left out."""
    loss = points(history, {"loss": "total"} | {name: name for name in terms(history)})
    moved = points([r for r in history if r["at"] > 1], {"changed": "changed"})
    sizes = [
        {"epoch": r["at"], "series": str(j), "value": size}
        for r in history
        if "sizes" in r and r.get("phase") != "pretrain" and k <= MOST_LINES
        for j, size in enumerate(r["sizes"])
    ]
    log = bool(loss) and all(p["value"] > 0 for p in loss)
    title = "Loss, on a logarithmic scale" if log else "Loss"
    drawn: dict[str, tuple[str, list[Spec], dict[str, Any]]] = {
        "losses": (title, loss, {"y": "loss", "log": log}),
        "changed": ("Samples that changed cluster", moved, {"y": "share"}),
        "sizes": ("Size of each cluster", sizes, {"y": "samples", "clusters": k}),
    }
    return {name: (t, lines(values, **how)) for name, (t, values, how) in drawn.items() if values}


def terms(history: list[dict[str, Any]]) -> list[str]:
    """The losses that a record names, besides their sum."""
    names = {name for record in history for name, value in record.items() if number(value)}
    return sorted(names - OTHER - {"at", "scale"})


def number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def points(history: list[dict[str, Any]], names: dict[str, str]) -> list[Spec]:
    """Numbers by epoch; what is not finite leaves a gap."""
    return [
        {"epoch": record["at"], "series": series, "value": record[name]}
        for record in history
        for name, series in names.items()
        if number(record.get(name))
    ]


def films(history: list[dict[str, Any]], est: Any, gallery: Gallery) -> list[dict[str, Any]]:
    """The decoded centres of the snapshots, as pictures: a row per epoch."""
    taken = [record for record in history if "snapshot" in record]
    if gallery.shape is None or not taken or len(est.cluster_centers_) > MOST_LINES:
        return []
    places = np.unique(np.linspace(0, len(taken) - 1, FRAMES).round().astype(int))
    return [
        {"epoch": r["epoch"] + 1, "images": frame(r["snapshot"]["prototypes"], est, gallery)}
        for r in (taken[i] for i in places)
    ]


def frame(prototypes: Any, est: Any, gallery: Gallery) -> list[str | None]:
    """On the scale of X, as `prototypes_` are."""
    decoded: Array = est.scaler_.invert(np.asarray(prototypes, dtype=np.float32))
    return [gallery.decoded(image) for image in decoded]
