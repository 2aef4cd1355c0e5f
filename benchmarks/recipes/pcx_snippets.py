"""PC-X through the same setting on SearchSnippets."""

from benchmarks.data import File
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import pcx_beside

RECIPE = Recipe(
    title="SearchSnippets, 12,340 snippets, 2,000 tf-idf features",
    data=File("searchsnippets_tfidf2000"),
    seeds=3,
    methods=pcx_beside(8, 12_340),
    note="Not in the paper.",
)
