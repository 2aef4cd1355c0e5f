"""PC-X, Fig. 3: other clusterings of the latent space it ends with, and the full batch."""

from benchmarks.data import Data
from benchmarks.methods import OnLatent, Pcx, PcxWhole
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import pcx_setting
from pellucid import MLP

ROWS = 5_000
SHARED = pcx_setting(10, ROWS, autoencoder=MLP(weights="glorot"))

RECIPE = Recipe(
    title="MNIST, 5,000 images (PC-X, Fig. 3)",
    data=Data("mnist", rows=ROWS),
    seeds=3,
    set_size=1,
    methods={
        "PC-X": Pcx(SHARED),
        "k-means on z": OnLatent(SHARED, how="k-means"),
        "GMM on z": OnLatent(SHARED, how="GMM"),
        "AGG on z": OnLatent(SHARED, how="AGG"),
        "PC-X, full batch": PcxWhole(SHARED),  # as many joint steps, 2,000
    },
    keep=("labels", "embedding"),
    note="Run PC-X first: the clusterings on z take the embedding that its fit has left.",
)
