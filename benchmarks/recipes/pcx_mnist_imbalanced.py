"""PC-X-IMBA on MNIST with class sizes that fall geometrically to 1 : 20; not in the paper."""

from benchmarks.data import Geometric
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import pcx_imbalanced
from pellucid import MLP, Conv

# Half of the usual steps, and no convolutions: twenty fits for two cores.
SHORT = {"autoencoder": MLP(weights="glorot"), "pretrain": 24, "max_iter": 32}

# The usual steps with convolutions. The loss prefers k-means' start (0.232) to the graph's (0.243),
# whose pieces are nearly equal.
CONV = pcx_imbalanced(10, 21_498, autoencoder=Conv(), init="k-means")

RECIPE = Recipe(
    title="MNIST, class sizes 1 : 20",
    data=Geometric("mnist", ratio=20.0),
    seeds=5,
    set_size=1,
    methods={
        **pcx_imbalanced(10, 21_498, **SHORT),
        **{f"{name}, convolutional": CONV[name] for name in ("PC-X-IMBA", "PC-X")},
    },
    compare=("PC-X-IMBA", "PC-X"),
    note="recall_small in the record is the mean recall of the five smallest classes.",
)
