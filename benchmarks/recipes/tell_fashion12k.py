"""Fashion-MNIST, 12,000 images: TELL, TwoStage, AE + k-means and k-means; not in the paper."""

from benchmarks.recipe import Recipe
from benchmarks.recipes.common import side_by_side, twelve_thousand

RECIPE = Recipe(
    title="Fashion-MNIST, 12,000 images of 28 x 28",
    data=twelve_thousand("fashion_mnist"),
    seeds=3,
    methods=side_by_side(10, pretrain=30, max_iter=40),  # 47 steps an epoch
    keep=("labels", "embedding"),
)
