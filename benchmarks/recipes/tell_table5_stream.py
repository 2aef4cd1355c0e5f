"""TELL, Table 5, "Raw", dagger rows: 1,000 test digits first, then 60,000 training digits once."""

from typing import Any

from benchmarks.data import Stream
from benchmarks.methods import KMeansFrozen, MiniBatchStream, TellStream
from benchmarks.recipe import Recipe
from pellucid import Centers, Training

KMEANS = {"n_clusters": 10, "n_init": 10}
TELL: dict[str, Any] = {
    "n_clusters": 10,
    "autoencoder": "identity",  # raw pixels on the sphere
    "init": "random rows",  # starts on data points
    "n_init": 5,  # of five restarts, the smallest L_clu wins (Appendix B)
    "max_iter": 100,  # 4 batches each
    "tol": 1e-4,
    "centers": Centers(decay=0.1),  # a step that shrinks: the stream is long
    "training": Training(precision="float32", checkpoint_every=100),  # one small product
}

RECIPE = Recipe(
    title="MNIST as a stream, raw pixels (TELL, Table 5, dagger rows)",
    data=Stream("mnist", first=1000, train=60_000),
    seeds=10,
    methods={
        "TELL, streamed": TellStream(TELL, learn=True),  # labels a batch, then learns from it
        "TELL, frozen": TellStream(TELL, learn=False),  # centres of the first 1,000
        "k-means, frozen": KMeansFrozen(KMEANS),  # the paper's opponent
        "MiniBatchKMeans.partial_fit": MiniBatchStream(KMEANS),  # the fair one: it learns, too
    },
    paper={
        "TELL, streamed": (54.59, 50.80, 38.33),
        "k-means, frozen": (48.52, 46.75, 31.25),
    },
    set_size=1,  # every seed is a draw of data of its own: there is nothing to choose
    keep=(),
)
