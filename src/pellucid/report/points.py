"""The map's data: a column per thing that is said of a point, small enough for 20,000 of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pellucid.explain.view import View
from pellucid.report.figures import Atlas
from pellucid.report.gallery import NAME, TEXT, Gallery, one_line
from pellucid.report.projection import Flat, flatten
from pellucid.report.survey import Survey, chunks
from pellucid.typing import Array

PICTURES = 1_300_000  # bytes for all pictures of the map
WORDS = 1_000_000  # characters for all its texts
STEPS = 4095  # places along the longer side of the map


def place(view: View, survey: Survey) -> Flat:
    """Rows and centres in the plane; samples of two features are their own picture."""
    if view.data.n_features != 2:
        return flatten(survey.z, view.centres.numpy())
    points = np.concatenate([view.values(view.data.read(r)) for r in chunks(survey.rows, 2)])
    centres: Any = view.prototypes
    centres = survey.means if centres is None else np.asarray(centres).reshape(-1, 2)
    across, up = (one_line(name, NAME) for name in view.names)
    return Flat(points, centres, f"{across} and {up}", "These are the samples' own two features.")


def columns(
    view: View, survey: Survey, gallery: Gallery, flat: Flat, carded: Iterable[int]
) -> dict[str, Any]:
    """Everything for the page's script, as lists; centres of the clusters that have a card."""
    both = np.concatenate([flat.points, flat.centres]).astype(np.float64)
    low, span = both.min(0), float(np.ptp(both, axis=0).max()) or 1.0
    x, y = np.rint(STEPS * (both - low) / span).astype(int).T.tolist()
    m, alive = len(survey.rows), np.bincount(survey.labels, minlength=view.k) > 0
    return {
        "x": x[:m],
        "y": y[:m],
        "c": survey.labels.tolist(),
        "row": survey.rows.tolist(),
        "second": survey.second.tolist(),
        "margin": [float(f"{v:.3g}") for v in survey.margin],
        "centres": [[x[m + j], y[m + j], j] for j in carded if alive[j]],
        "ids": None if gallery.ids is None else [gallery.id(row) for row in survey.rows.tolist()],
        "texts": texts(survey, gallery),
        "atlas": atlas(survey, gallery),
        "top": top(view, survey, gallery),
    }


def texts(survey: Survey, gallery: Gallery) -> list[str | None] | None:
    """Short enough that all of them fit."""
    if gallery.texts is None:
        return None
    limit = max(24, min(TEXT, WORDS // len(survey.rows)))
    return [gallery.text(row, limit) for row in survey.rows.tolist()]


def atlas(survey: Survey, gallery: Gallery) -> dict[str, Any] | None:
    """All pictures in one."""
    if survey.tiles is None:
        return None
    return Atlas.of(survey.tiles, *gallery.extent, room=PICTURES)._asdict()


def top(view: View, survey: Survey, gallery: Gallery) -> dict[str, Any] | None:
    """Which features stand out in each row, where there is no picture to show."""
    if gallery.shape is not None and gallery.pixels:
        return None
    features, values = survey.tops(view)
    used, places = np.unique(features, return_inverse=True)
    pairs = zip(places.reshape(features.shape).tolist(), rounded(values), strict=True)
    return {
        "names": [one_line(view.names[i], NAME) for i in used],
        "rows": [[*which, *numbers] for which, numbers in pairs],
    }


def rounded(values: Array) -> list[list[float]]:
    """Three digits are enough."""
    return [[float(f"{v:.3g}") for v in row] for row in values]
