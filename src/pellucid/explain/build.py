"""`explain`: one pass over the rows that keeps what an explanation holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from numbers import Integral
from typing import Any

import numpy as np

from pellucid.explain.ambiguity import Borders, Watched, ambiguity
from pellucid.explain.exemplars import Exemplars
from pellucid.explain.explanation import Ambiguity, Cluster, Explanation, Sample
from pellucid.explain.profile import Moments
from pellucid.explain.rules import Questions, Tree
from pellucid.explain.stability import Stability
from pellucid.explain.standing import standing
from pellucid.explain.view import View, view
from pellucid.typing import Array

DOUBTFUL = 10  # least certain rows, or n_exemplars where that is more


def explain(
    est: Any,
    X: Any,
    *,
    n_exemplars: int = 5,
    feature_names: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
    images: Any = None,
    ids: Sequence[Any] | None = None,
    rules: Questions | bool = True,
) -> Explanation:
    """Why is x in cluster j? See docs/explain.md for what each figure means.

    Parameters
    ----------
    est : fitted estimator of this package, or scikit-learn's KMeans or MiniBatchKMeans
    X : the rows it was fitted on, or new ones of the same kind
        Read piece by piece, as `pellucid.data.open_data` does: memory does not grow with n.
    n_exemplars : int, default=5
        Rows in each list of exemplars.
    feature_names : sequence of str, optional
        One per feature; by default those that `est` or X knows.
    texts, images, ids : sequences with an entry per row, optional
        What stands for a row when it is shown. Images are (h, w) or (h, w, c).
    rules : Questions or bool, default=True
        What the threshold tree may ask, and how many leaves it may have; False grows none.
    """
    if not isinstance(n_exemplars, Integral) or n_exemplars < 1:
        raise ValueError(f"n_exemplars={n_exemplars!r}: use a whole number from 1 on.")
    if not isinstance(rules, bool | Questions):
        raise TypeError(f"rules={rules!r}: use True, False or Questions(...).")
    seen = view(est, X, feature_names)
    shown = Shown(ids, texts, images)
    shown.check(seen.n)
    tree = None if rules is False else Tree.of(seen, Questions() if rules is True else rules)
    found = Findings.of(seen, tree, int(n_exemplars))
    clusters = [card(found, j) for j in range(seen.k)]
    unsure = ambiguity(found.borders, found.exemplars, found.watched, seen, found.stability)
    return Explanation(
        method=type(est).__name__,
        n=seen.n,
        sample_shape=seen.shape,
        feature_names=seen.names,
        clusters=clusters,
        ambiguity=unsure,
        rules=tree.rules() if tree else None,
        stability=mean_stability(clusters),
        sizes=found.moments.sizes,
        **shown.of(seen, rows_shown(clusters, unsure)),
    )


@dataclass(frozen=True)
class Findings:
    """What one pass has collected."""

    view: View
    exemplars: Exemplars
    moments: Moments
    borders: Borders
    watched: Watched
    stability: Stability | None
    tree: Tree | None

    @classmethod
    def of(cls, seen: View, tree: Tree | None, m: int) -> Findings:
        found = cls(
            seen,
            Exemplars(min(m, seen.n), seen.k, min(max(m, DOUBTFUL), seen.n)),
            Moments(seen.k, seen.data.n_features),
            Borders(seen.k),
            Watched(seen),
            Stability.of(seen.est, seen.k),
            tree,
        )
        for piece in seen.pieces():
            rows = standing(seen, piece.rows, piece.z)
            found.exemplars.take(rows, piece.raw)
            found.moments.take(rows.cluster, rows.distance, seen.values(piece.raw))
            found.borders.take(rows)
            found.watched.take(rows, piece.z)
            if tree is not None:
                tree.take(piece, rows.cluster)
        return found

    @cached_property
    def sentences(self) -> dict[int, str]:
        """The rule of every cluster that has one."""
        return self.tree.sentences() if self.tree else {}


def card(found: Findings, j: int) -> Cluster:
    """What is known of cluster j."""
    seen, moments, stability = found.view, found.moments, found.stability
    size = int(moments.sizes[j])
    known = stability is not None and size > 0
    prototypes, rule = seen.prototypes, found.sentences.get(j, "")
    precision, recall = found.tree.worth(j) if found.tree and rule else (0.0, 0.0)
    return Cluster(
        index=j,
        size=size,
        share=size / seen.n,
        spread=float(moments.spreads[j]),
        **found.exemplars.of(j),
        prototype=None if prototypes is None else prototypes[j].reshape(seen.shape),
        profile=moments.shifts(j, seen.names),
        rule=rule,
        rule_precision=precision,
        rule_recall=recall,
        neighbours=found.borders.neighbours(j),
        stability=stability.mean(j) if stability and known else None,
        appears=stability.appears(j) if stability and known else None,
        difference=moments.differences(j).reshape(seen.shape),
    )


def mean_stability(clusters: list[Cluster]) -> float | None:
    """Over the clusters, weighted by size."""
    known = [(c.stability, c.size) for c in clusters if c.stability is not None]
    if not known:
        return None
    scores, sizes = zip(*known, strict=True)
    return float(np.average(scores, weights=sizes))


def rows_shown(clusters: Iterable[Cluster], unsure: Ambiguity) -> list[int]:
    """All rows that an explanation names."""
    lists = [(c.central, c.boundary, c.untypical) for c in clusters]
    samples: Iterable[Sample] = chain(unsure.least_certain, *chain.from_iterable(lists))
    return sorted({sample.row for sample in samples})


@dataclass(frozen=True)
class Shown:
    """What the user has to show for each row."""

    ids: Any
    texts: Any
    images: Any

    def check(self, n: int) -> None:
        """One entry per row, or none at all."""
        for name, values in vars(self).items():
            if values is not None and len(values) != n:
                raise ValueError(f"{name} has {len(values)} entries, but X has {n} rows.")

    def of(self, seen: View, rows: list[int]) -> dict[str, dict[int, Any]]:
        """Those of some rows; images are X's own where it has some and no others are given."""
        images = self.images
        if images is None and len(seen.shape) == 3:
            own = seen.data.read(np.array(rows, np.int64))  # (b, c, h, w)
            images = dict(zip(rows, (picture(image) for image in own), strict=True))
        return {
            "ids": {row: str(entry(self.ids, row)) for row in rows if self.ids is not None},
            "texts": {row: str(entry(self.texts, row)) for row in rows if self.texts is not None},
            "images": {row: np.array(entry(images, row)) for row in rows if images is not None},
        }


def picture(image: Array) -> Array:
    """(c, h, w) as (h, w) or (h, w, c)."""
    return image[0] if len(image) == 1 else np.moveaxis(image, 0, -1)


def entry(values: Any, row: int) -> Any:
    """One of a sequence, whatever a Series calls it."""
    return values.iloc[row] if hasattr(values, "iloc") else values[row]
