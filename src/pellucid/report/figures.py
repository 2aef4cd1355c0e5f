"""Pictures as text: PNG data URIs with the standard library and numpy alone."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from typing import NamedTuple

import numpy as np

from pellucid.typing import Array

GREY, RGB = 0, 2  # colour types of the PNG specification, section 11.2.2
TILES = (28, 20, 14, 10, 8)  # the longest side of a picture on the map, whichever fits
LEVELS = 16  # grey levels, or levels of each colour, of a picture on the map


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


def uri(pixels: Array) -> str:
    """uint8 pixels as ``data:image/png``."""
    return "data:image/png;base64," + b64encode(png(pixels)).decode()


def pixels_of(images: Array, lo: float, hi: float, longest: int) -> Array:
    """Images ``(n, c, h, w)`` as uint8 ``(n, h, w)`` or ``(n, h, w, 3)``, shrunk where large."""
    x = shrunk(np.asarray(images, dtype=np.float32), longest)
    unit = np.clip((x - lo) / (hi - lo or 1.0), 0, 1)
    # Any number of channels but 3 (RGB) and 4 (RGBA) is shown as its mean.
    unit = unit[:, :3].transpose(0, 2, 3, 1) if unit.shape[1] in (3, 4) else unit.mean(1)
    return np.rint(255 * unit).astype(np.uint8)


def shrunk(images: Array, longest: int) -> Array:
    """Means of whole blocks, so that neither side is longer than `longest`."""
    height, width = images.shape[2:]
    step = -(-max(height, width) // longest)
    if step == 1:
        return images
    high, wide = -(-height // step), -(-width // step)
    edge = ((0, 0), (0, 0), (0, high * step - height), (0, wide * step - width))
    blocks = np.pad(images, edge, mode="edge")
    shape = (*images.shape[:2], high, step, wide, step)
    return blocks.reshape(shape).mean((3, 5))


def diverging(values: Array) -> Array:
    """Signed values ``(h, w)`` as RGB: blue below zero, white at it, rust above."""
    most = float(np.abs(values).max()) or 1.0
    t = np.clip(values / most, -1, 1)[..., None]
    ends = np.where(t < 0, np.array([13.0, 114, 179]), np.array([176.0, 82, 16]))
    return np.rint(255 + np.abs(t) * (ends - 255)).astype(np.uint8)


class Atlas(NamedTuple):
    """Many small pictures in one."""

    src: str
    width: int  # of a tile
    height: int
    columns: int
    tiles: int

    @classmethod
    def of(cls, images: Array, lo: float, hi: float, room: int) -> Atlas:
        """The largest tiles of `TILES` for which all fit into `room` bytes, or as many as do."""
        size = 0
        for longest in TILES:
            tiles = coarse(pixels_of(images, lo, hi, longest))
            size = len(png(np.concatenate(list(tiles[:256])))) * len(tiles) // min(len(tiles), 256)
            if size * 4 / 3 <= room:
                break
        count = min(len(tiles), max(1, int(len(tiles) * room * 3 / 4 / max(size, 1))))
        columns = int(np.ceil(np.sqrt(count)))
        sheet = cls._sheet(tiles[:count], columns)
        return cls(uri(sheet), tiles.shape[2], tiles.shape[1], columns, count)

    @staticmethod
    def _sheet(tiles: Array, columns: int) -> Array:
        rows = -(-len(tiles) // columns)
        blank = np.zeros((rows * columns - len(tiles), *tiles.shape[1:]), np.uint8)
        grid = np.concatenate([tiles, blank]).reshape(rows, columns, *tiles.shape[1:])
        return np.concatenate(list(np.concatenate(list(grid.swapaxes(0, 1)), axis=2)), axis=0)


def coarse(pixels: Array) -> Array:
    """Few levels, which compress."""
    step = 255 / (LEVELS - 1)
    return np.rint(np.rint(pixels / step) * step).astype(np.uint8)
