"""TELL, Table 1 and 4, MNIST with the convolutional autoencoder, from a warm start."""

from benchmarks.data import Data
from benchmarks.methods import Tell
from benchmarks.recipe import Recipe
from pellucid import Conv, Training

RECIPE = Recipe(
    title="MNIST, convolutional autoencoder (TELL, Table 1)",
    data=Data("mnist"),
    seeds=5,  # one restart each, so that two can run side by side
    set_size=5,  # the smallest L_clu of the five is chosen (Appendix B)
    methods={
        "TELL": Tell(
            {
                "n_clusters": 10,
                "autoencoder": Conv(),
                "n_init": 1,
                "pretrain": 16,  # ours: reconstruction first replaces hundreds of joint epochs
                "init": "graph",  # ours: k-means would put two digits into one centre
                "max_iter": 12,  # six of the centres, six of the encoder ...
                "lam": 0.5,  # ... at fifty times the weight: the paper has 1,500 at 0.01
                "tol": 0.0,  # all restarts run equally long, so that their losses compare
                "training": Training("adam", lr=1e-3),  # the paper's Adadelta is slower here
            }
        ),
    },
    paper={"TELL": (95.16, 88.83, 89.66)},
    keep=("labels", "embedding"),
)
