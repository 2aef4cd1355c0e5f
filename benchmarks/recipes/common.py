"""TELL, TwoStage, AE + k-means and k-means on one data set, for the sets the paper has not."""

from typing import Any

from benchmarks.data import Data
from benchmarks.methods import AutoencoderKMeans, KMeans, Method, Tell
from pellucid import Conv, Training


def side_by_side(k: int, **changes: Any) -> dict[str, Method]:
    """The four methods with `k` clusters; `changes` are of TELL's parameters."""
    shared = {
        "n_clusters": k,
        "autoencoder": Conv(),
        "n_init": 1,  # a seed is a restart
        "pretrain": 30,  # ours: a warm start
        "init": "k-means",  # on the sphere of the pretrained embedding
        "tol": 0.0,  # all run equally long, so that losses compare
        "lam": 0.1,  # ten times the published weight, since there are few epochs
        "max_iter": 40,
        "training": Training("adam", lr=1e-3),
        **changes,
    }
    return {
        "TELL": Tell(shared),
        "TELL-TwoStage": Tell({**shared, "representation": "frozen"}),
        "AE + k-means": AutoencoderKMeans(shared),
        "k-means": KMeans({"n_clusters": k, "n_init": 10}),
    }


def twelve_thousand(name: str) -> Data:
    """12,000 rows of a set, what two cores do in minutes."""
    return Data(name, rows=12_000)
