"""k-meansNet, Table 4: four optimizers, MNIST, the convolutional autoencoder."""

from benchmarks.data import Data
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import kmeansnet
from pellucid import Training

# (alpha, learning rate): alpha as in Section 4.4; PyTorch's default rate except for RMSprop, whose
# 0.01 there is ten times what other libraries take.
OPTIMIZERS: dict[str, tuple[float, float | None]] = {
    "adadelta": (1e-2, None),
    "adagrad": (1e-3, None),
    "adam": (1e-2, None),
    "rmsprop": (1e-3, 1e-3),
}

RECIPE = Recipe(
    title="MNIST, four optimizers (k-meansNet, Table 4)",
    data=Data("mnist"),
    seeds=3,
    methods={
        name: kmeansnet("CNN", alpha=alpha, training=Training(name, lr=lr, checkpoint_every=20))
        for name, (alpha, lr) in OPTIMIZERS.items()
    },
    paper={
        "adadelta": (93.11, 85.52, 85.54),
        "adagrad": (61.09, 71.55, 56.11),
        "adam": (92.13, 84.23, 83.72),
        "rmsprop": (80.08, 79.69, 73.38),
    },
    set_size=1,
)
