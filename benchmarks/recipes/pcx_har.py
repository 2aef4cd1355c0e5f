"""PC-X through the same setting on the time-domain features of HAR."""

from benchmarks.data import File
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import pcx_beside

RECIPE = Recipe(
    title="HAR, 10,299 windows, the 265 time-domain features",
    data=File("har_time265"),
    seeds=3,
    methods=pcx_beside(6, 10_299),
    note="On all 561 features the paper has 87.1 / 80.1 / 75.1.",
)
