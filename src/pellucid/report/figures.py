"""Pictures as text: PNG data URIs and inline SVG, with the standard library and numpy alone."""

from __future__ import annotations

import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from pellucid.typing import Array

GREY, RGB = 0, 2  # colour types of the PNG specification, section 11.2.2


def png(pixels: Array) -> bytes:
    """A PNG of uint8 pixels, ``(h, w)`` for grey or ``(h, w, 3)`` for RGB."""
    height, width = pixels.shape[:2]
    rows = np.ascontiguousarray(pixels, dtype=np.uint8).reshape(height, -1)
    filtered = np.hstack([np.zeros((height, 1), np.uint8), rows])  # filter 0 before each row
    header = struct.pack(">IIBBBBB", width, height, 8, RGB if pixels.ndim == 3 else GREY, 0, 0, 0)
    data = zlib.compress(filtered.tobytes(), 9)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def data_uri(image: Array, lo: float, hi: float) -> str:
    """A sample ``(c, h, w)`` as ``data:image/png``, ``lo`` black and ``hi`` white."""
    span = hi - lo or 1.0
    unit = np.clip((np.asarray(image, dtype=np.float64) - lo) / span, 0, 1)
    # Any number of channels but 3 (RGB) and 4 (RGBA) is shown as its mean.
    pixels = unit[:3].transpose(1, 2, 0) if len(unit) in (3, 4) else unit.mean(0)
    return "data:image/png;base64," + b64encode(png(np.rint(255 * pixels))).decode()


def ticks(lo: float, hi: float, about: int = 5) -> list[float]:
    """Round numbers between ``lo`` and ``hi``: multiples of 1, 2 or 5 times a power of ten."""
    raw = (hi - lo) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * (1 - 1e-9))
    first, last = math.ceil(lo / step - 1e-9), math.floor(hi / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def line_chart(values: Sequence[float], label: str, width: int = 720, height: int = 300) -> Markup:
    """One line over epochs 1, 2, ...; values that are not finite leave a gap."""
    y = np.asarray(values, dtype=np.float64)
    finite = y[np.isfinite(y)]
    if not len(finite):
        return Markup("")
    lo, hi = float(finite.min()), float(finite.max())
    pad = 0.05 * (hi - lo) or 0.05 * abs(hi) or 1.0
    frame = _Frame((1.0, max(len(y), 2)), (lo - pad, hi + pad), width, height)
    svg = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{Markup.escape(label)}">']
    svg += [frame.horizontal(t) for t in ticks(lo - pad, hi + pad)]
    svg += [frame.epoch(t) for t in ticks(1, max(len(y), 2), 8) if t == int(t) and t >= 1]
    svg += [frame.line(run) for run in _finite_runs(y)]
    return Markup("".join([*svg, "</svg>"]))


class _Frame:
    """Maps numbers to the picture; leaves room for the tick labels left and below."""

    left, right, top, bottom = 76, 12, 10, 30

    def __init__(
        self, x: tuple[float, float], y: tuple[float, float], width: int, height: int
    ) -> None:
        self.x, self.y, self.width, self.height = x, y, width, height

    def place(self, x: float, y: float) -> tuple[float, float]:
        wide = self.width - self.left - self.right
        high = self.height - self.top - self.bottom
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        down = (self.y[1] - y) / (self.y[1] - self.y[0])
        return self.left + wide * across, self.top + high * down

    def horizontal(self, value: float) -> str:
        _, y = self.place(self.x[0], value)
        return (
            f'<line class="grid" x1="{self.left}" x2="{self.width - self.right}" '
            f'y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="y" x="{self.left - 8}" y="{y + 5:.1f}">{value:.4g}</text>'
        )

    def epoch(self, value: float) -> str:
        x, _ = self.place(value, self.y[0])
        return f'<text class="x" x="{x:.1f}" y="{self.height - 8}">{value:g}</text>'

    def line(self, run: list[tuple[int, float]]) -> str:
        if len(run) == 1:
            x, y = self.place(*run[0])
            return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
        points = " ".join("{:.1f},{:.1f}".format(*self.place(*point)) for point in run)
        return f'<polyline class="line" points="{points}"/>'


def _finite_runs(y: Array) -> list[list[tuple[int, float]]]:
    runs: list[list[tuple[int, float]]] = [[]]
    for epoch, value in enumerate(y.tolist(), start=1):
        if math.isfinite(value):
            runs[-1].append((epoch, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]
