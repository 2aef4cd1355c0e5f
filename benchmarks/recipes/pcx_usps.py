"""PC-X through the same setting on USPS."""

from benchmarks.data import Data
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import pcx_beside
from pellucid import Conv

RECIPE = Recipe(
    title="USPS, 9,298 digits of 16 x 16",
    data=Data("usps"),
    seeds=3,
    methods=pcx_beside(10, 9_298, autoencoder=Conv()),
    note="Not in the paper.",
)
