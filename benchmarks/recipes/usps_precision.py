"""What bfloat16 costs: TELL on USPS with precision="auto" and in float32."""

from typing import Any

from benchmarks.data import Data
from benchmarks.methods import Tell
from benchmarks.recipe import Recipe
from pellucid import Conv, Training

SHARED: dict[str, Any] = {
    "n_clusters": 10,
    "autoencoder": Conv(),
    "n_init": 1,
    "pretrain": 20,  # 37 steps an epoch
    "init": "k-means",
    "max_iter": 20,
    "lam": 0.1,
    "tol": 0.0,  # both run equally long
}

RECIPE = Recipe(
    title="USPS, precision",
    data=Data("usps"),
    seeds=5,
    methods={
        "auto": Tell({**SHARED, "training": Training("adam", lr=1e-3, precision="auto")}),
        "float32": Tell({**SHARED, "training": Training("adam", lr=1e-3, precision="float32")}),
    },
    compare=("auto", "float32"),
)
