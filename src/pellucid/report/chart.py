"""Vega-Lite specifications as plain dicts; colours of text and lines are the page's to set."""

from __future__ import annotations

import math
from typing import Any

from pellucid.report.colours import colour, shape

Spec = dict[str, Any]

PENTAGON = "M0,-1L0.951,-0.309L0.588,0.809L-0.588,0.809L-0.951,-0.309Z"
SIZES = ((500, 60), (2_000, 40), (8_000, 22))  # up to so many rows, a dot of so many square pixels
SMALLEST = 13
MANY = 40  # pentagons


def scatter(k: int, rows: int) -> Spec:
    """The map: the page fills in `points` and `centres` and moves the domain `x0 .. y1`."""
    clusters = list(range(k))
    size = next((area for most, area in SIZES if rows <= most), SMALLEST)
    start = {"x0": 0, "x1": 1, "y0": 0, "y1": 1, "chosen": -1, "ink": "black"}
    return {
        "params": [{"name": name, "value": value} for name, value in start.items()],
        "width": 10,
        "height": 10,
        "padding": 0,
        "layer": [dots(clusters, size), *pentagons(clusters)],
    }


def dots(clusters: list[int], size: int) -> Spec:
    """The samples."""
    return {
        "data": {"name": "points", "values": []},
        "mark": {"type": "point", "filled": True, "size": size, "clip": True},
        "encoding": places(clusters, 0.75, 0.13) | {"shape": scale("shape", clusters)},
    }


def pentagons(clusters: list[int]) -> list[Spec]:
    """The centres and their numbers, smaller where there are many."""
    area, font = (620, 11) if len(clusters) <= MANY else (260, 7)
    data = {"name": "centres", "values": []}
    edge = {"stroke": {"expr": "ink"}, "strokeWidth": 1.5}
    mark = {"type": "point", "filled": True, "shape": PENTAGON, "clip": True, "size": area}
    word = {"type": "text", "fontSize": font, "fontWeight": "bold", "clip": True, "dy": 1}
    number = places(clusters, 1, 0.3) | {"text": {"field": "c"}, "color": {"value": "white"}}
    return [
        {"data": data, "mark": mark | edge, "encoding": places(clusters, 1, 0.3)},
        {"data": data, "mark": word, "encoding": number},
    ]


def places(clusters: list[int], full: float, faint: float) -> Spec:
    """Where, in which colour, and faint when another cluster is chosen."""
    test = {"test": "chosen < 0 || datum.c == chosen", "value": full}
    return {name: axis(name) for name in ("x", "y")} | {
        "color": scale("color", clusters),
        "opacity": {"condition": test, "value": faint},
    }


def axis(name: str) -> Spec:
    """No ticks: the numbers of an embedding mean nothing."""
    ends = {"domainMin": {"expr": f"{name}0"}, "domainMax": {"expr": f"{name}1"}}
    how = {"zero": False, "nice": False, **ends}
    return {"field": name, "type": "quantitative", "axis": None, "scale": how}


def scale(channel: str, clusters: list[int]) -> Spec:
    """One colour or shape per cluster."""
    look = colour if channel == "color" else shape
    found = {"domain": clusters, "range": [look(j) for j in clusters]}
    return {"field": "c", "type": "nominal", "legend": None, "scale": found}


def lines(values: list[Spec], y: str, *, log: bool = False, clusters: int = 0) -> Spec:
    """Something by epoch, one line per series, or per cluster in its colour."""
    numbers = [point["value"] for point in values]
    epochs = [point["epoch"] for point in values]
    across: Spec = {"field": "epoch", "type": "quantitative"}
    across |= {"axis": {"tickMinStep": 1, "grid": False}}
    across |= {"scale": {"domain": [min(epochs, default=0), max(epochs, default=1)]}}
    up: Spec = {"field": "value", "type": "quantitative", "title": y}
    up |= {"scale": {"type": "log"} if log else {"zero": False}}
    up |= {"axis": {"values": tens(numbers), "format": "~g"} if log else {"tickCount": 5}}
    return {
        "data": {"values": values},
        "mark": {"type": "line", "strokeWidth": 1.8, "point": {"size": 14, "opacity": 0.01}},
        "encoding": {
            "x": across,
            "y": up,
            "color": hue(values, clusters),
            "tooltip": [{"field": f, "type": "nominal"} for f in ("epoch", "series", "value")],
        },
    }


def hue(values: list[Spec], clusters: int) -> Spec:
    """Colours of the lines, and a legend where there are several that are not clusters."""
    found: Spec = {"field": "series", "type": "nominal", "legend": None}
    if clusters:
        series = [str(j) for j in range(clusters)]
        return found | {"scale": {"domain": series, "range": [colour(j) for j in range(clusters)]}}
    if len({point["series"] for point in values}) < 2:
        return found
    line = {"symbolType": "stroke", "symbolOpacity": 1, "symbolStrokeWidth": 3}
    return found | {"legend": {"title": None, "orient": "top", **line}}


def tens(numbers: list[float]) -> list[float]:
    """Powers of ten around positive numbers, few enough to be read."""
    low, high = (math.floor(math.log10(end)) for end in (min(numbers), max(numbers)))
    found = [10.0**i for i in range(low, high + 2, max(1, (high + 1 - low) // 5))]
    return found if high - low > 1 else sorted(found + [3 * ten for ten in found])


def histogram(counts: list[int], edges: list[float]) -> Spec:
    """Bars between edges."""
    tip = [{"field": f, "type": "quantitative", "format": ".3~g"} for f in ("from", "to", "rows")]
    across = {"field": "from", "bin": {"binned": True}, "type": "quantitative"}
    across |= {"title": "margin", "axis": {"grid": False, "tickCount": 6}}
    up = {"field": "rows", "type": "quantitative", "title": "samples", "axis": {"tickCount": 5}}
    return {
        "data": {"values": bars(counts, edges)},
        "mark": {"type": "bar", "binSpacing": 1},
        "encoding": {"x": across, "x2": {"field": "to"}, "y": up, "tooltip": tip},
    }


def bars(counts: list[int], edges: list[float]) -> list[Spec]:
    """No more of them than the rows can fill, and none after the last row."""
    used = max((i + 1 for i, n in enumerate(counts) if n), default=0)
    step = 2 if used > 32 and sum(counts) < 5_000 else 1
    starts = range(0, used, step)
    ends = [min(i + step, len(counts)) for i in starts]
    return [
        {"from": edges[i], "to": edges[j], "rows": sum(counts[i:j])}
        for i, j in zip(starts, ends, strict=True)
    ]
