"""k-meansNet: what the paper leaves open, on MNIST and judged without labels.

lambda, frozen or joint, coupled or not, on the sphere or in the plain space. A setting is better
whose three seeds agree more (`consensus` of their labels), which needs no label.
"""

from benchmarks.data import Data
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import kmeansnet
from pellucid import MLP

FCN = {"dropout": 0.2, "output": "linear", "weights": "glorot"}
OPEN = {
    "lam=auto": {},
    **{f"lam={lam:g}": {"lam": lam} for lam in (0.01, 0.03, 0.1, 0.3, 1.0)},
    "frozen": {"representation": "frozen"},
    "coupled": {"decoupled": False},
    "plain space, coupled": {"normalize": False, "decoupled": False},
    "soft, alpha=20": {"assignment": "soft", "alpha": 20.0},
    "linear code": {"autoencoder": MLP(code="linear", **FCN)},
    "graph start": {"init": "graph"},
}

RECIPE = Recipe(
    title="MNIST, k-meansNet's open settings, FCN",
    data=Data("mnist"),
    seeds=3,
    methods={name: kmeansnet("FCN", **changes) for name, changes in OPEN.items()},
    paper={"lam=auto": (87.76, 78.70, 76.21)},
    set_size=1,
    keep=("labels", "embedding"),
)
