"""CIFAR-10, 12,000 photographs: TELL, TwoStage, AE + k-means and k-means.

The paper's figures are on all 60,000 and stand beside for orientation.
"""

from benchmarks.recipe import Recipe
from benchmarks.recipes.common import side_by_side, twelve_thousand

RECIPE = Recipe(
    title="CIFAR-10, 12,000 photographs of 32 x 32",
    data=twelve_thousand("cifar10"),  # of cifar10_12k.npz that is all
    seeds=3,
    # 47 steps an epoch, and half the epochs of the other sets: two cores do 2,000 photographs a
    # second, and three seeds of all methods are to end within the hour.
    methods=side_by_side(10, pretrain=15, max_iter=20),
    paper={"TELL": (25.65, 10.41, 5.96), "AE + k-means": (19.81, 5.94, 3.01)},
    keep=("labels", "embedding"),
    note="The paper's figures are on all 60,000 photographs.",
)
