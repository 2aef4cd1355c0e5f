"""USPS: TELL, TwoStage, AE + k-means and k-means; not in the paper."""

from benchmarks.data import Data
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import side_by_side

RECIPE = Recipe(
    title="USPS, 9,298 digits of 16 x 16",
    data=Data("usps"),
    seeds=3,
    methods=side_by_side(10, pretrain=30, max_iter=40),  # 37 steps an epoch
    keep=("labels", "embedding"),
)
