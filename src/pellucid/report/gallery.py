"""What a page shows of a row: its name, its text, its picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np

from pellucid.data import open_data
from pellucid.explain.build import entry
from pellucid.explain.view import View
from pellucid.report.figures import TILES, diverging, pixels_of, shrunk, uri
from pellucid.typing import Array, Shape

SMALLEST_SQUARE = 64  # flat rows of 8 x 8 values and more are worth trying as an image
LOOKED_AT = 512  # rows that say how dark and how bright pictures are
ROOM, PER_CARD = 1_100_000, 20  # bytes for the pictures of all cards, and pictures on a card
SMALLEST, THUMBNAIL = 14, 64  # the longest side of a picture on a card
NAME, TEXT = 120, 400  # characters of a name and of a text that are shown


def shorten(text: object, limit: int) -> str:
    """At most `limit` characters, none of which is a control character or half a surrogate pair."""
    words = str(text)
    cut = words if len(words) <= limit else words[: limit - 1] + "…"
    return "".join(c if c.isprintable() or c in "\u200d\ufe0f\u00a0 " else "\ufffd" for c in cut)


def one_line(text: object, limit: int) -> str:
    """The same, on one line."""
    return shorten(" ".join(str(text)[: 4 * limit].split()), limit)


@dataclass(frozen=True)
class Given:
    """What a person passed along with X."""

    ids: Sequence[Any] | None = None
    texts: Sequence[Any] | None = None
    images: Any = None
    named: bool = False  # whether the features have names, or are sparse: no pixels then


class Gallery:
    """Names, texts and pictures of the rows of a view, looked up when they are needed."""

    def __init__(self, view: View, given: Given, cards: int = 1) -> None:
        self.view, self.ids, self.texts, self.named = view, given.ids, given.texts, given.named
        self.pictures = None if given.images is None else open_data(given.images)
        self.shape = self.pictures.shape if self.pictures else picture_shape(view, given.named)
        room = ROOM / (PER_CARD * max(cards, 1) * self.channels)
        self.longest = int(np.clip(room**0.5, SMALLEST, THUMBNAIL))

    @property
    def pixels(self) -> bool:
        """Whether the features of a sample are the pixels of its picture."""
        return self.pictures is None or self.view.shape == self.shape

    @property
    def channels(self) -> int:
        return 3 if self.shape and self.shape[0] in (3, 4) else 1

    def id(self, row: int) -> str:
        return f"row {row}" if self.ids is None else one_line(entry(self.ids, row), NAME)

    def text(self, row: int, limit: int = TEXT) -> str | None:
        return None if self.texts is None else one_line(entry(self.texts, row), limit)

    def image(self, row: int) -> str | None:
        """The picture of a row as a data URI."""
        if self.shape is None:
            return None
        return uri(pixels_of(self.images(np.array([row])), *self.extent, self.longest)[0])

    def tiles(self, rows: Array) -> Array:
        """Small pictures (b, c, h, w) for the map."""
        return shrunk(self.images(rows), TILES[0])

    def images(self, rows: Array) -> Array:
        """The pictures of rows (b, c, h, w), as numbers."""
        if self.pictures is not None:
            return self.pictures.take(rows).numpy()
        assert self.shape is not None
        return self.view.values(self.view.data.read(rows)).reshape(-1, *self.shape)

    def decoded(self, prototype: Array | None) -> str | None:
        """A decoded centre as a picture, where samples are pictures themselves."""
        if prototype is None or self.shape is None or not self.pixels:
            return None
        image = prototype.reshape(1, *self.shape)
        # Rows of length one are decoded at that length, whatever that of the samples was.
        ends = (image.min(), image.max()) if self.view.data.scaler.kind == "norm" else self.extent
        lo, hi = map(float, ends)
        return uri(pixels_of(image, lo, hi, self.longest)[0])

    def difference(self, values: Array | None) -> str | None:
        """Signed values of every feature as a picture, where samples are pictures themselves."""
        if values is None or self.shape is None or not self.pixels:
            return None
        return uri(diverging(shrunk(values.reshape(1, *self.shape), self.longest)[0].mean(0)))

    @cached_property
    def extent(self) -> tuple[float, float]:
        """The values that are black and white."""
        if self.pictures is not None:
            return self.pictures.lo, self.pictures.hi
        x = self.images(self.looked_at)
        return float(x.min()), float(x.max())

    @cached_property
    def counts(self) -> bool:
        """Whether features are words or counts: never negative, and mostly zero."""
        x = self.view.values(self.view.data.read(self.looked_at))
        return bool(x.min() >= 0 and (x == 0).mean() > 0.5)

    @property
    def looked_at(self) -> Array:
        """Some rows, evenly spread."""
        return np.arange(0, self.view.n, -(-self.view.n // LOOKED_AT))


def picture_shape(view: View, named: bool) -> Shape | None:
    """(c, h, w) if the samples are to be shown as images, else None.

    Flat rows are, if they could be a square of pixels: without names, and none of them negative.
    """
    if len(view.shape) == 3:
        return view.shape
    data, side = view.data, isqrt(view.data.n_features)
    square = side**2 == data.n_features >= SMALLEST_SQUARE
    return (1, side, side) if square and not named and data.lo >= 0 else None
