"""PC-X-IMBA on the mouse bladder cells, 16 types of 550 to 8 cells; not in the paper."""

from benchmarks.data import File
from benchmarks.recipe import Recipe
from benchmarks.recipes.common import pcx_imbalanced
from pellucid.init import GraphStart

# Of 6, 12, 25, 50 and 100 epochs 50 rebuild three hundred cells that were left out best. With the
# usual length the labels stand still after 40 more. 16 landmarks a type: the start is k-means.
LENGTH = {"pretrain": 50, "max_iter": 40, "init": GraphStart(least=20)}

RECIPE = Recipe(
    title="Mouse bladder, 2,100 cells of 16 types, 2,000 most variable genes",
    data=File("sc_mouse_bladder_2100", counts=2000),
    seeds=5,
    set_size=1,
    methods=pcx_imbalanced(16, 2_100, **LENGTH),
    compare=("PC-X-IMBA", "PC-X"),
    note="recall_small in the record is the mean recall of the five smallest classes.",
)
