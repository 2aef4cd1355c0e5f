"""Reports as people would make them: estimators, data and what is shown beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_wine
from sklearn.feature_extraction.text import TfidfVectorizer
from tests.helpers import small_tell

from pellucid import MLP, PCX, DeepKMeans, KernelNet, Training
from pellucid.report import write_report

WORDS = {
    "sailing": "boat sail wind harbour mast rope tide anchor crew deck storm compass",
    "baking": "flour yeast oven dough sugar butter crust loaf knead salt crumb tin",
    "sky": "star orbit planet telescope comet galaxy moon lens nebula dust eclipse",
}
NETWORK = MLP(hidden=(32,), latent=4)
DEEP: dict[str, Any] = {"pretrain": 6, "max_iter": 4, "batch_size": 32, "random_state": 0}


@dataclass
class Made:
    """A report and what went into it."""

    path: Path
    est: Any
    X: Any
    shown: dict[str, Any]

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def k(self) -> int:
        return len(self.est.cluster_centers_)


def digits() -> tuple[Any, Any, dict[str, Any]]:
    """TELL: pictures, restarts, centres decoded on the way, labels."""
    X, y = load_digits(return_X_y=True)
    est = small_tell(n_clusters=10, n_init=2, pretrain=6, snapshots=(0, 2, 3), scale="unit")
    return est.fit(X[:360].reshape(-1, 8, 8)), X[:360].reshape(-1, 8, 8), {"y": y[:360]}


def texts() -> tuple[Any, Any, dict[str, Any]]:
    """DeepKMeans: sparse tf-idf rows with their texts and words."""
    rng, said = np.random.default_rng(0), []
    for i in range(150):
        own = list(WORDS.values())[i % 3].split()
        said.append(" ".join(rng.choice(own, 8)) + " and so on.")
    words = TfidfVectorizer(stop_words="english")
    X = words.fit_transform(said)
    est = DeepKMeans(
        3, autoencoder=NETWORK, scale="standard", training=Training("adam", lr=1e-2), **DEEP
    )
    return est.fit(X), X, {"texts": said, "feature_names": words.get_feature_names_out()}


def cells() -> tuple[Any, Any, dict[str, Any]]:
    """PCX: counts as of single cells, four kinds with twelve marker genes each; genes made up."""
    rng, genes = np.random.default_rng(0), 120
    kind = rng.choice(4, 240, p=[0.5, 0.3, 0.15, 0.05])
    mean = np.tile(rng.gamma(0.5, 1.5, genes), (4, 1))
    for j in range(4):
        mean[j, 12 * j : 12 * j + 12] += 6
    counts = rng.poisson(mean[kind] * rng.gamma(5, 0.2, (240, 1)))
    X = np.log1p(1e3 * counts / np.maximum(counts.sum(1, keepdims=True), 1)).astype(np.float32)
    names = [f"{a}{b}{i}" for i, (a, b) in enumerate(rng.choice(list("BCDFGKLMPT"), (genes, 2)))]
    est = PCX(4, autoencoder=NETWORK, **DEEP).fit(X)
    return est, X, {"feature_names": names, "ids": [f"cell {i}" for i in range(240)]}


def wine() -> tuple[Any, Any, dict[str, Any]]:
    """scikit-learn's KMeans: a table whose columns have names."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = (X - X.mean()) / X.std()
    return KMeans(3, n_init=2, random_state=0).fit(X), X, {"y": y}


def spirals() -> tuple[Any, Any, dict[str, Any]]:
    """KernelNet: two arms around each other, in the plane as they are."""
    rng, arm = np.random.default_rng(0), np.repeat([0, 1], 100)
    turn = np.tile(np.sqrt(np.linspace(0.1, 1.7, 100)), 2) * np.pi
    X = turn * np.array([np.cos(turn + np.pi * arm), np.sin(turn + np.pi * arm)])
    X = (X.T + rng.normal(scale=0.08, size=(200, 2))).astype(np.float32)
    return KernelNet(2, ratio=0.1, max_iter=1, random_state=0).fit(X), X, {"y": arm}


CASES = {
    "TELL on digits": digits,
    "DeepKMeans on tf-idf": texts,
    "PCX on counts": cells,
    "KMeans on wine": wine,
    "KernelNet on spirals": spirals,
}


def made(name: str, folder: Path) -> Made:
    """Fit and write."""
    est, X, shown = CASES[name]()
    path = write_report(est, X, folder / f"{name}.html", title=name, **shown)
    return Made(path, est, X, shown)
