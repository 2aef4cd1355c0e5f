"""PC-X through the same setting on 20 Newsgroups."""

from benchmarks.data import File
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import pcx_beside

RECIPE = Recipe(
    title="20 Newsgroups, 18,846 documents, 2,000 tf-idf features",
    data=File("news20_tfidf2000"),
    seeds=3,
    methods=pcx_beside(20, 18_846),
    note="Not in the paper.",
)
