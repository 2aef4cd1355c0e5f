"""The training engine. It knows modules and data, and no algorithm."""

from pellucid.training.distributed import processes
from pellucid.training.inference import gather, stream
from pellucid.training.loop import Candidate, Diverged, Engine, Epoch
from pellucid.training.optim import Rules
from pellucid.training.progress import CallbackSupportMixin, Watch, with_callbacks
from pellucid.training.restarts import Group, Rows, Single, Stacked
from pellucid.training.schedules import Phase, Schedule, alternate, warm_up
from pellucid.training.seeds import Seeds, isolated
from pellucid.training.selection import RULES
from pellucid.training.settings import Training, one_of

__all__ = [
    "RULES",
    "CallbackSupportMixin",
    "Candidate",
    "Diverged",
    "Engine",
    "Epoch",
    "Group",
    "Phase",
    "Rows",
    "Rules",
    "Schedule",
    "Seeds",
    "Single",
    "Stacked",
    "Training",
    "Watch",
    "alternate",
    "gather",
    "isolated",
    "one_of",
    "processes",
    "stream",
    "warm_up",
    "with_callbacks",
]
