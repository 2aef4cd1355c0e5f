"""PC-X through the same setting on Reuters-21578."""

from benchmarks.data import File
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import pcx_beside

RECIPE = Recipe(
    title="Reuters-21578, the ten largest topics, 7,522 documents",
    data=File("reuters21578_top10_tfidf2000"),
    seeds=3,
    methods=pcx_beside(10, 7_522),
    note="Not the paper's Reuters10K.",
)
