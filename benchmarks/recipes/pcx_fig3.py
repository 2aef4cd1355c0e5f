"""PC-X, Fig. 3: other clusterings of the latent space it ends with, and the full batch."""

from benchmarks.data import Data
from benchmarks.methods import OnLatent, Pcx
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import PCX_SETTING
from pellucid import Conv

SHARED = {"n_clusters": 10, **PCX_SETTING, "autoencoder": Conv()}
ROWS = 5_000
# As many steps of the network, and as far a walk of the centroids, as twenty batches make.
FULL = {"batch_size": ROWS, "pretrain": 2000, "max_iter": 600, "kappa": 0.995}

RECIPE = Recipe(
    title="MNIST, 5,000 images (PC-X, Fig. 3)",
    data=Data("mnist", rows=ROWS),
    seeds=3,
    methods={
        "PC-X": Pcx(SHARED),
        "k-means on z": OnLatent(SHARED, how="k-means"),
        "GMM on z": OnLatent(SHARED, how="GMM"),
        "AGG on z": OnLatent(SHARED, how="AGG"),
        "PC-X, full batch": Pcx({**SHARED, **FULL}),
    },
)
