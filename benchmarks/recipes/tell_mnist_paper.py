"""TELL, Table 1 and Fig. 7 (b): the paper's own protocol, one restart.

3,000 epochs take days on two cores and an hour on a GPU; the fit can be run in pieces:
``python -m benchmarks run tell_mnist_paper --minutes 180``.
"""

from benchmarks.data import Data
from benchmarks.methods import Tell
from benchmarks.recipe import Recipe
from pellucid import Conv, Training

RECIPE = Recipe(
    title="MNIST, the paper's protocol (TELL, Table 1, Fig. 7 b)",
    data=Data("mnist"),
    seeds=1,
    methods={
        "TELL": Tell(
            {
                "n_clusters": 10,
                "autoencoder": Conv(),
                "n_init": 1,  # the paper takes the best of five
                "pretrain": 0,  # the paper starts both parts together,
                "init": "random",  # at random (Section 4.1)
                "max_iter": 3000,
                "tol": 0.0,  # no early stop
                "empty": "keep",  # nothing is said of empty clusters
                "snapshots": (0, 9, 24, 49, 99, 149, 199, 299, 499, 999, 1499, 2999),  # Fig. 6, 7
                # Adadelta with its defaults (Section 4.1). A kill costs at most five epochs.
                "training": Training("adadelta", checkpoint_every=5),
            }
        ),
    },
    paper={"TELL": (95.16, 88.83, 89.66)},
    keep=("labels", "embedding"),
    note="Scores along the curve are of 1,000 samples.",
)
