"""scikit-learn's digits: TELL, TwoStage, AE + k-means and k-means; not in the paper."""

from benchmarks.data import Data
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import side_by_side

RECIPE = Recipe(
    title="Digits, 1,797 of 8 x 8 pixels",
    data=Data("digits"),
    seeds=3,
    methods=side_by_side(
        10,
        image_shape=(8, 8),
        scale="unit",  # pixels are 0 to 16
        batch_size=64,  # 29 steps an epoch
        pretrain=100,
        max_iter=40,
    ),
    keep=("labels", "embedding"),
)
