"""k-meansNet: what the paper leaves open or has otherwise, on MNIST and judged without labels.

Code, dropout, lambda, start, and epochs in which W and b learn alone. A network is better whose
images come out better, which needs no label.
"""

from typing import Any

from benchmarks.data import Data
from benchmarks.methods import Estimator
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import kmeansnet
from pellucid import MLP, Conv


def fcn(code: str = "linear", dropout: float = 0.0, **changes: Any) -> Estimator:
    """Fully connected."""
    network = MLP(dropout=dropout, code=code, output="linear", weights="glorot")
    return kmeansnet("FCN", autoencoder=network, **changes)


def cnn(code: str = "linear", **changes: Any) -> Estimator:
    """Convolutional."""
    network = Conv("kmeansnet", code=code, output="linear")
    return kmeansnet("CNN", autoencoder=network, **changes)


RECIPE = Recipe(
    title="MNIST, k-meansNet's open settings",
    data=Data("mnist"),
    seeds=1,
    methods={
        "FCN": fcn(),
        "FCN, dropout 0.2": fcn(dropout=0.2),
        "FCN, sigmoid code": fcn("sigmoid"),
        "FCN, lam=0.03": fcn(lam=0.03),
        "FCN, settle=0": fcn(settle=0),
        "FCN, random": fcn(init="random rows"),
        "FCN, k-means": fcn(init="k-means"),
        "FCN, random, lam=0.1": fcn(init="random rows", lam=0.1),
        "FCN, k-means, lam=0.1": fcn(init="k-means", lam=0.1),
        "CNN": cnn(),
        "CNN, sigmoid code": cnn("sigmoid"),
        "CNN, lam=0.1": cnn(lam=0.1),
        "CNN, random": cnn(init="random rows"),
    },
    paper={"FCN": (87.76, 78.70, 76.21), "CNN": (91.26, 83.81, 82.68)},
    set_size=1,
)
