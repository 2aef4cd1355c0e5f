"""What PC-X's figures show, with the CI-Unit and without: exemplars, Table 7 and Fig. 4.

``python -m benchmarks.exemplars fit mnist --data-dir DATA --out FILE.npz`` fits both and keeps
what is to be seen; ``python -m benchmarks.exemplars draw FILE.npz PICTURE.png`` needs matplotlib.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import Data
from benchmarks.recipes.common import pcx_setting
from pellucid import PCX, Conv

SETS = {"mnist": "mnist", "fashion": "fashion_mnist"}
WAYS: dict[str, dict[str, Any]] = {"PC-X": {}, "without the CI-Unit": {"ci_unit": False}}


def fit(name: str, seed: int, folder: Path | None, rows: int | None, out: Path) -> None:
    """Both fits; labels are not asked for."""
    X = Data(SETS[name], rows=rows).draw(folder, seed)[0].X
    kept: dict[str, Any] = {}
    for way, change in WAYS.items():
        how = pcx_setting(10, len(X), autoencoder=Conv(), random_state=seed, **change)
        est = PCX(**how).fit(X)
        nearest = est.nearest_samples(X, 1)[:, 0]
        kept[f"{way}/exemplars"] = est.prototypes_.reshape(10, *X.shape[-2:])
        kept[f"{way}/nearest"] = X[nearest].reshape(10, *X.shape[-2:])
        kept[f"{way}/singular shares"] = est.singular_shares(X)
        kept |= {f"{way}/{curve}": values for curve, values in est.curves().items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out, **kept)


def draw(file: Path, picture: Path) -> None:
    """Exemplars above the samples nearest to them, one way below the other."""
    from matplotlib.figure import Figure

    with np.load(file) as arrays:
        rows = [(f"{way}: {part}", arrays[f"{way}/{part}"]) for way in WAYS for part in PARTS]
    figure = Figure(figsize=(10, 1.25 * len(rows)), layout="constrained")
    for grid, (title, images) in zip(figure.subfigures(len(rows)), rows, strict=True):
        grid.suptitle(title, fontsize="small", x=0.01, ha="left")
        for axes, image in zip(grid.subplots(1, len(images)), images, strict=True):
            axes.imshow(image, cmap="gray_r")
            axes.axis("off")
    figure.savefig(picture, dpi=100)


PARTS = ("exemplars", "nearest")


def main() -> None:
    """fit or draw"""
    top = argparse.ArgumentParser(description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    fitting = commands.add_parser("fit")
    fitting.add_argument("set", choices=SETS)
    fitting.add_argument("--seed", type=int, default=0)
    fitting.add_argument("--rows", type=int)
    fitting.add_argument("--data-dir", type=Path)
    fitting.add_argument("--out", type=Path, required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("file", type=Path)
    drawing.add_argument("picture", type=Path)
    told = top.parse_args()
    if told.command == "fit":
        fit(told.set, told.seed, told.data_dir, told.rows, told.out)
    else:
        draw(told.file, told.picture)


if __name__ == "__main__":
    main()
