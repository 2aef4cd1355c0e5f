"""Fit SpectralNet to the samples of an .npz and put the labels into it.

Run with an interpreter that has SpectralNet, which is not among this project's dependencies.
"""

import sys
import time
from importlib.metadata import version

import numpy as np
import torch
from spectralnet import SpectralNet


def main(path: str) -> None:
    with np.load(path) as given:
        X, k, seed = torch.from_numpy(given["X"]), int(given["k"]), int(given["seed"])
    torch.manual_seed(seed)
    np.random.seed(seed)
    started = time.perf_counter()
    widths = [1024, 1024, 512, k]  # its default, but for the last, which it wants to be k
    model = SpectralNet(n_clusters=k, spectral_hiddens=widths)
    model.fit(X)
    labels = np.asarray(model.predict(X))
    seconds = time.perf_counter() - started
    np.savez(path, labels=labels, seconds=seconds, version=version("spectralnet"))


if __name__ == "__main__":
    main(sys.argv[1])
