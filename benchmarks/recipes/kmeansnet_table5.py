"""k-meansNet, Table 5: MNIST raw, FCN and CNN, each from three starts."""

from benchmarks.data import Data
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import KMEANSNET, kmeansnet

STARTS = {"random": "random rows", "k-means++": "k-means++", "k-means": "k-means"}

RECIPE = Recipe(
    title="MNIST, three features and three starts (k-meansNet, Table 5)",
    data=Data("mnist"),
    seeds=3,
    methods={
        f"{network}, {name}": kmeansnet(network, init=start)
        for network in KMEANSNET
        for name, start in STARTS.items()
    },
    paper={
        "Raw, random": (57.31, 51.14, 38.89),
        "Raw, k-means++": (57.55, 50.31, 38.90),
        "Raw, k-means": (58.08, 51.21, 39.66),
        "FCN, random": (87.72, 78.26, 75.91),
        "FCN, k-means++": (87.76, 78.70, 76.21),
        "FCN, k-means": (87.56, 78.70, 76.06),
        "CNN, random": (93.20, 85.51, 85.66),
        "CNN, k-means++": (91.26, 83.81, 82.68),
        "CNN, k-means": (92.42, 84.70, 84.27),
    },
    set_size=1,  # the paper has no restarts: every seed counts
    note='"random" is read as k random samples of the embedding, as k-means has it.',
)
