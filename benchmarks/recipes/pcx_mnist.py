"""PC-X, Table 4 and 6, MNIST: PC-X, its ablation, its start, k-means and a Gaussian mixture."""

from benchmarks.data import Data
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import pcx_ablation

RECIPE = Recipe(
    title="MNIST (PC-X, Table 4 and 6)",
    data=Data("mnist"),
    seeds=9,
    set_size=3,  # of three restarts the smallest loss
    methods=pcx_ablation(10, 70_000),
    paper={
        "PC-X": (97.5, 93.5, 94.7),
        "PC-X, 500-500-2000-10": (97.5, 93.5, 94.7),
        "AE + k-means": (86.2, 77.4, 77.4),
        "k-means": (53.5, 50.0, 36.6),
        "GMM": (43.4, 37.1, 23.7),
    },
    note="Table 6 (ACC, NMI): PC-X-no CI 94.1, 87.8; PC-X-Fix 57.6, 76.8; IDEC 89.8, 84.3.",
)
