"""The parts of a page as plain values, ready for the template."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.explain import Cluster, Explanation, Sample, Shift
from pellucid.report.colours import colour
from pellucid.report.gallery import NAME, Gallery, one_line
from pellucid.typing import Shape

MOST_CARDS = 200
FEATURES = 8  # of a profile
PASSAGES = 3  # of text in each list of exemplars
RULE = 600  # characters
CATCH = 0.01  # of its cluster: a rule that catches less says nothing on a card
NEIGHBOURS = 4
PAIRS = 8


def cards(told: Explanation, gallery: Gallery) -> list[dict[str, Any]]:
    """A card for each of the largest clusters, in the order of their numbers."""
    largest = sorted(told.clusters, key=lambda c: -c.size)[:MOST_CARDS]
    return [card(cluster, told, gallery) for cluster in sorted(largest, key=lambda c: c.index)]


def sizes(told: Explanation) -> list[dict[str, Any]]:
    """Every cluster's size, for the strip and the legend."""
    return [
        {"id": c.index, "colour": colour(c.index), "size": c.size, "share": c.share}
        for c in told.clusters
    ]


def card(cluster: Cluster, told: Explanation, gallery: Gallery) -> dict[str, Any]:
    """Everything about one cluster."""
    lists = {
        "Most central": cluster.central,
        "On the border": cluster.boundary,
        "Least typical": cluster.untypical,
    }
    worded = gallery.texts is not None and gallery.shape is None
    nearest = cluster.central[0].distance if cluster.central else None
    return {
        "id": cluster.index,
        "colour": colour(cluster.index),
        "size": cluster.size,
        "share": cluster.share,
        "spread": cluster.spread,
        "stability": cluster.stability,
        "appears": cluster.appears,
        "doubt": doubt(cluster, told),
        "centre": gallery.decoded(cluster.prototype),
        "nearest": nearest,
        "difference": gallery.difference(cluster.difference) if cluster.size else None,
        "exemplars": [
            (name, [sample(s, gallery) for s in found[: PASSAGES if worded else None]])
            for name, found in lists.items()
            if found
        ],
        "profile": [] if gallery.shape and gallery.pixels else profile(cluster, gallery.counts),
        "rule": one_line(cluster.rule, RULE) if cluster.rule_recall >= CATCH else "",
        "precision": cluster.rule_precision,
        "recall": cluster.rule_recall,
        "neighbours": [(j, colour(j), n) for j, n in cluster.neighbours[:NEIGHBOURS]],
    }


def doubt(cluster: Cluster, told: Explanation) -> float:
    """Share of the members that are near a border, counted over its pairs."""
    near = sum(n for a, b, n in told.ambiguity.pairs if cluster.index in (a, b))
    return near / cluster.size if cluster.size else 0.0


def sample(s: Sample, gallery: Gallery) -> dict[str, Any]:
    """A row as it is shown on a card."""
    return {
        "row": s.row,
        "id": gallery.id(s.row),
        "image": gallery.image(s.row),
        "text": gallery.text(s.row),
        "cluster": s.cluster,
        "second": s.second,
        "colours": (colour(s.cluster), colour(max(s.second, 0))),
        "distance": s.distance,
        "margin": s.margin,
    }


def profile(cluster: Cluster, counts: bool) -> list[dict[str, Any]]:
    """The features in which the cluster differs most, with the length of their bars from 0 to 1.

    Of words and counts first those that it has more of: what is absent tells little.
    """
    known = [s for s in cluster.profile if s.standardised]
    if counts:
        known.sort(key=lambda s: s.standardised < 0)
    shifts = known[:FEATURES]
    longest = max((abs(s.standardised) for s in shifts), default=1.0)
    return [
        {
            "name": one_line(s.name, NAME),
            "shift": s.standardised,
            "width": abs(s.standardised) / longest,
            "mean": plain(s.mean, s),
            "overall": plain(s.overall, s),
        }
        for s in shifts
    ]


def plain(value: float, shift: Shift) -> float:
    """Without the round-off of a mean of numbers as large as their deviation."""
    deviation = abs((shift.mean - shift.overall) / shift.standardised)
    return 0.0 if abs(value) < 1e-6 * deviation else value


def ambiguity(told: Explanation, gallery: Gallery) -> dict[str, Any]:
    """Pairs with bars, and the least certain rows."""
    found = told.ambiguity
    pairs = [pair for pair in found.pairs if pair[2]][:PAIRS]
    most = max((n for *_, n in pairs), default=1)
    return {
        "pairs": [
            {"a": a, "b": b, "n": n, "width": 100 * n / most, "colours": (colour(a), colour(b))}
            for a, b, n in pairs
        ],
        "samples": [sample(s, gallery) for s in found.least_certain],
        "note": found.note,
    }


def lede(told: Explanation) -> list[str]:
    """The three sentences that a colleague needs."""
    return [what(told), borders(told), trust(told)]


def what(told: Explanation) -> str:
    """What was sorted into how many, and how evenly."""
    sizes, k = told.sizes, len(told.clusters)
    start = f"{told.method} sorted {told.n:,} {describe(told.sample_shape)} into "
    if k == 1:
        return f"{start}one cluster."
    large, small = int(np.argmax(sizes)), int(np.argmin(sizes))
    if large == small:
        return f"{start}{k:,} clusters of the same size."
    empty = int((sizes == 0).sum())
    end = f"the smallest, number {small}, {sizes[small] / told.n:.1%}"
    if empty:
        end = f"and {'one is' if empty == 1 else f'{empty:,} are'} empty"
    most = f"the largest, number {large}, holds {sizes[large] / told.n:.1%} of them"
    return f"{start}{k:,} clusters; {most}, {end}."


def borders(told: Explanation) -> str:
    """Which clusters run into each other."""
    pairs = told.ambiguity.pairs
    if not pairs or not pairs[0][2]:
        return "No sample lies near a border between two of them."
    a, b, n = pairs[0]
    share = n / max(told.sizes[a] + told.sizes[b], 1)
    return (
        f"Clusters {a} and {b} are the hardest to tell apart: {n:,} of their members "
        f"({share:.0%}) lie near the border between them."
    )


def trust(told: Explanation) -> str:
    """How far the clusters may be relied upon."""
    known = [(c.index, *c.appears) for c in told.clusters if c.appears is not None]
    if known:
        others = known[0][2]
        runs = "another start" if others == 1 else f"{others} other starts"
        weak = [j for j, found, of in known if 2 * found <= of]
        return f"Trained again from {runs}, the method found {again(weak, len(known), others)}"
    if told.rules is not None:
        return (
            f"A tree of {told.rules.leaves} plain rules gives {told.rules.fidelity:.0%} of the "
            f"samples the same cluster."
        )
    return "There was one start, so nothing is known about how stable these clusters are."


def again(weak: list[int], k: int, others: int) -> str:
    """Which clusters came back."""
    often = "again" if others == 1 else "again in more than half of them"
    if not weak:
        return f"every one of these clusters {often}."
    if len(weak) == k:
        return f"none of these clusters {often}: read them with care."
    named = listed([str(j) for j in weak[:6]] + (["others"] if len(weak) > 6 else []))
    many = len(weak) > 1
    return (
        f"{k - len(weak)} of the {k} clusters {often}, but not "
        f"{f'clusters {named}: read these' if many else f'cluster {named}: read it'} with care."
    )


def listed(words: list[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def describe(shape: Shape) -> str:
    """What samples of this shape are, in words."""
    if len(shape) == 1:
        return f"rows of {shape[0]:,} feature{'s' if shape[0] > 1 else ''}"
    channels, height, width = shape
    return f"images of {height} × {width}" + (f" × {channels}" if channels > 1 else "") + " pixels"
