"""PC-X through the same setting on USPS."""

from benchmarks.data import Data
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import pcx_beside

RECIPE = Recipe(
    title="USPS, 9,298 digits of 16 x 16",
    data=Data("usps"),
    seeds=3,
    methods=pcx_beside(10),
    note="Not in the paper.",
)
