"""The rows that are on the map, read in one pass: where they are and what is to be said of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.explain.profile import Moments
from pellucid.explain.standing import standing
from pellucid.explain.view import View
from pellucid.report.gallery import Gallery
from pellucid.typing import Array

MOST_ROWS = 20_000
MOST_VALUES = 2**27  # of them: half a gigabyte while the features are compared
CHUNK = 2**22  # values at a time
TOP = 3  # features named per point


@dataclass
class Survey:
    """Columns (m,), and what they add up to."""

    rows: Array
    labels: Array
    margin: Array
    second: Array
    z: Array  # (m, d)
    means: Array  # (k, features), the mean of all for a cluster that has no rows here
    mean: Array  # (features,)
    deviation: Array
    tiles: Array | None = None  # (m, c, h, w), where there are pictures

    @classmethod
    def of(cls, view: View, gallery: Gallery) -> Survey:
        """Up to `MOST_ROWS` rows, drawn without looking at them and always the same."""
        rows = drawn(view)
        moments = Moments(view.k, view.data.n_features)
        columns: dict[str, list[Array]] = {}
        for part in chunks(rows, view.data.n_features):
            raw = view.data.read(part)
            z = view.embed(raw).double()
            found = standing(view, part, z)
            moments.take(found.cluster, found.distance, view.values(raw))
            fresh = {"labels": found.cluster, "margin": found.margin, "second": found.second}
            fresh["z"] = z.float().numpy()
            if gallery.shape is not None:
                fresh["tiles"] = gallery.tiles(part)
            for name, values in fresh.items():
                columns.setdefault(name, []).append(values)
        order = np.random.default_rng(1).permutation(len(rows))  # no cluster is drawn last
        joined: dict[str, Any] = {n: np.concatenate(c)[order] for n, c in columns.items()}
        overall = {"mean": moments.all.mean, "deviation": moments.deviation}
        return cls(rows[order], **joined, means=moments.means, **overall)

    def tops(self, view: View) -> tuple[Array, Array]:
        """For every row the `TOP` features that stand out most, and their values."""
        m = min(TOP, view.data.n_features)
        scale = np.where(self.deviation > 0, self.deviation, np.inf)
        order = np.argsort(self.rows)
        features, values = np.zeros((len(order), m), int), np.zeros((len(order), m))
        for part in chunks(order, view.data.n_features):
            x = view.values(view.data.read(self.rows[part]))
            far = np.abs(x - self.mean) / scale
            top = np.argpartition(-far, m - 1, axis=1)[:, :m]
            top = np.take_along_axis(top, np.argsort(-np.take_along_axis(far, top, 1)), 1)
            features[part], values[part] = top, np.take_along_axis(x, top, 1)
        return features, values


def drawn(view: View) -> Array:
    """The rows to show, in order."""
    most = max(2, min(MOST_ROWS, MOST_VALUES // view.data.n_features))
    if view.n <= most:
        return np.arange(view.n)
    return np.sort(np.random.default_rng(0).choice(view.n, most, replace=False))


def chunks(rows: Array, features: int) -> list[Array]:
    """Few enough rows at a time."""
    step = max(1, min(4096, CHUNK // features))
    return [rows[start : start + step] for start in range(0, len(rows), step)]
