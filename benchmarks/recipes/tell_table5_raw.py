"""TELL, Table 5, "Raw": the layer alone on the pixels of MNIST in full."""

from benchmarks.data import Data
from benchmarks.methods import KMeans, Tell
from benchmarks.recipe import Recipe
from pellucid import Centers, Training

RECIPE = Recipe(
    title="MNIST, raw pixels (TELL, Table 5)",
    data=Data("mnist"),  # training and test part merged, as in the paper
    seeds=5,  # five sets ...
    methods={
        "TELL-TwoStage": Tell(
            {
                "n_clusters": 10,
                "autoencoder": "identity",  # raw pixels; the layer puts them on the sphere
                "init": "random rows",  # starts on data points; the paper's random ones are not
                "n_init": 5,  # ... of five restarts, the smallest L_clu wins (Appendix B)
                "max_iter": 60,  # the centres stand still long before
                "tol": 1e-4,
                "centers": Centers(decay=0.5),  # a fixed step circles around the optimum
                "training": Training(precision="float32", checkpoint_every=20),  # one product
            }
        ),
        "k-means": KMeans({"n_clusters": 10, "n_init": 10}),
        "k-means, unit rows": KMeans({"n_clusters": 10, "n_init": 10}, unit_rows=True),
    },
    paper={"TELL-TwoStage": (56.20, 52.82, 40.33), "k-means": (55.34, 53.20, 40.28)},
)
