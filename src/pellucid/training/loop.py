"""The loop: a generator of epochs, and the engine that carries restarts, files and the bar.

    engine = Engine(settings, seeds, data.n)
    for group in engine.groups(make, n_init):
        for epoch in engine.epochs(group, data, schedule, rules, stop=max_iter):
            ...                                   # any step of the algorithm's own, in plain Python
            if engine.settled(group, tol): break
        engine.keep(group, judge)
    best = engine.best("loss")

What an epoch does is a pure function of the state before it and its number: shuffling and noise
are seeded by (stream, restart, epoch). A checkpoint is therefore the state and nothing else.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.data import Batches
from pellucid.training import checkpoint, distributed
from pellucid.training.optim import Rules, build_optimizer
from pellucid.training.progress import Interrupt, Watch, interruptible
from pellucid.training.restarts import Group, Rows, Single, Stacked, State, stacks
from pellucid.training.schedules import Phase, Schedule
from pellucid.training.seeds import Seeds, isolated
from pellucid.training.selection import RULES
from pellucid.training.settings import Training
from pellucid.training.steps import Replayed, Step, measured_kernels, stepper
from pellucid.typing import Array

UNSEEN = -1  # label of a row that no batch has shown yet
LAG = {"cuda": 64, "cpu": 8}  # batches between two looks at the loss: each costs, a GPU waits


@dataclass
class Epoch:
    """What happened in one epoch; arrays have one entry per restart of the group."""

    index: int
    phase: Phase
    records: list[dict[str, Any]]  # one per restart, JSON-able; what is added here is in `history_`
    labels: Array  # (r, n) as chosen while training, UNSEEN where no batch came by
    changed: Array  # (r,) share of rows whose label is not last epoch's
    whole: bool = True  # False where Ctrl-C cut it short

    def count(self, n_clusters: int) -> None:
        """Put the clusters' sizes, and which are empty, into the records."""
        for labels, record in zip(self.labels, self.records, strict=True):
            sizes = np.bincount(labels[labels != UNSEEN], minlength=n_clusters)
            record["sizes"] = sizes.tolist()
            record["empty"] = np.flatnonzero(sizes == 0).tolist()


@dataclass
class Candidate:
    """A finished restart."""

    index: int
    state: State
    history: list[dict[str, Any]]
    scores: dict[str, float]
    labels: Array


class Diverged(FloatingPointError):
    """A loss that is not a number."""

    ADVICE = (
        "Lower the learning rate (Training(lr=...)), clip (Training(clip=...)), or scale the data "
        '(scale="unit").'
    )


class Engine:
    """Trains groups of restarts one after another and remembers how each ended.

    Parameters
    ----------
    settings : Training
    seeds : Seeds
    n : int
        Rows in the data.
    watch : Watch, optional
        Bar and callbacks.
    identity : dict, optional
        What makes this fit this fit; a checkpoint of another one is refused.
    """

    def __init__(
        self,
        settings: Training,
        seeds: Seeds,
        n: int,
        *,
        watch: Watch | None = None,
        identity: dict[str, Any] | None = None,
    ) -> None:
        self.settings = settings
        self.seeds = seeds
        self.seeds.root = distributed.largest(seeds.root)  # one for all, even from no random_state
        self.n = n
        self.watch = watch or Watch()
        self.identity = identity or {}
        self.candidates: list[Candidate] = []
        self.stopped = ""  # why the fit ended early, in words
        self.interrupt = Interrupt()
        # Every process reads the checkpoints, the first one writes them.
        self.folder = Path(settings.checkpoint_dir) if settings.checkpoint_dir else None
        self.writes = self.folder is not None and distributed.rank() == 0

    # Restarts ------------------------------------------------------------------------------

    def groups(self, make: Callable[[], nn.Module], n_init: int) -> Iterator[Group]:
        """The restarts as groups to train: one stack, or one by one; finished ones are skipped."""

        def module(r: int) -> nn.Module:
            with isolated(self.seeds("init", r)):
                return make()

        self.restore_candidates(n_init)
        left = range(len(self.candidates), n_init)
        with interruptible(self.interrupt):
            if left and stacks(module(0), n_init, self.settings):
                yield self.begin(Stacked([module(r) for r in left], left, self.settings))
                return
            for r in left:
                if self.candidates and self.halts(f"before restart {r + 1} of {n_init}"):
                    return
                yield self.begin(Single(module(r), r, self.settings))

    def begin(self, group: Group) -> Group:
        """Forget the group before."""
        r = len(group.indices)
        self.labels = np.full((r, self.n), UNSEEN, dtype=np.int32)
        self.history: list[list[dict[str, Any]]] = [[] for _ in range(r)]
        self.marks: list[dict[str, float]] = [{} for _ in range(r)]  # scores known before the end
        self.endings: dict[int, tuple[State, list[dict[str, Any]]]] = {}
        return group

    def keep(self, group: Group, judge: Callable[[Any], tuple[dict[str, float], Array]]) -> None:
        """End a group: score every restart of it in eval mode and remember its state."""
        if self.stopped and self.candidates:
            return  # half trained: its loss says nothing beside those of finished restarts
        for r, index in enumerate(group.indices):
            state, history = self.endings.get(index) or (group.state(r), self.history[r])
            with group.member(r) as module:
                module.load_state_dict(state)
                scores, labels = judge(module)
            scores = self.marks[r] | scores
            self.candidates.append(Candidate(index, state, history, scores, labels))
            self.save_candidate(self.candidates[-1])

    def best(self, rule: str) -> Candidate:
        """The restart that `rule` picks; the checkpoints have served and are removed."""
        chosen = self.candidates[RULES[rule](self.candidates)]
        if self.stopped:
            done = f"{len(self.candidates)} restart(s), {len(chosen.history)} epochs in the best"
            warnings.warn(f"{self.stopped}: keeping the best so far ({done}).", stacklevel=3)
        elif self.writes:
            self.clear()
        self.watch.close()
        return chosen

    def halts(self, where: str, wish: bool = False) -> bool:
        """Whether Ctrl-C or a callback's `wish` ends the fit; all processes say the same."""
        flags = torch.tensor([self.interrupt.asked, wish], dtype=torch.int32)
        asked, wish = distributed.largest_(flags).tolist()
        if not self.stopped and (asked or wish):
            who = "Interrupted" if asked else "A callback asked to stop"
            self.stopped = f"{who} {where}"
        return bool(self.stopped)

    # Epochs --------------------------------------------------------------------------------

    def epochs(
        self, group: Group, data: Batches, schedule: Schedule, rules: Rules, *, stop: int
    ) -> Iterator[Epoch]:
        """Train `group` epoch by epoch; the body of the caller's ``for`` runs in between."""
        optimizer = build_optimizer(
            self.settings.optimizer,
            {n: p for n, p in group.params.items() if n not in rules.own},
            lr=self.settings.lr,
            units=rules.units or {},
            # On a CPU, fused Adam rounds the last few entries of a tensor otherwise than the rest:
            # a restart in a stack would not be the restart alone.
            fused=group.leading == 0 or self.settings.torch_device().type == "cuda",
        )
        start = self.restore(group, optimizer)
        self.meet(group, start)
        data.settle(self.settings.torch_device())
        step = stepper(Step(group, optimizer, rules, self.settings))
        with interruptible(self.interrupt), group.training(), measured_kernels():
            for index in range(start, stop):
                phase, where = schedule(index), f"in epoch {index + 1} of {stop}"
                with self.watch.epoch(len(group.indices)) as done:
                    epoch = self.run_epoch(group, data, step, (index, phase))
                    for history, record in zip(self.history, epoch.records, strict=True):
                        history.append(record)
                    self.halts(where, done(epoch.records[0]))
                    yield epoch
                if epoch.whole and (index + 1) % self.settings.checkpoint_every == 0:
                    self.save(group, optimizer, index + 1)
                if self.halts(where):
                    return

    def meet(self, group: Group, start: int) -> None:
        """All processes go on from one epoch and one state."""
        if distributed.largest(start) != start:
            raise ValueError(
                f"The processes see different checkpoints in {self.folder}: it must be a folder "
                f"that all of them share."
            )
        distributed.same_(group.state_dict().values())

    def run_epoch(
        self, group: Group, data: Batches, step: Step | Replayed, now: tuple[int, Phase]
    ) -> Epoch:
        """One pass over the data."""
        (index, phase), started, whole = now, time.perf_counter(), True
        device = self.settings.torch_device()
        before = torch.from_numpy(self.labels).to(device)
        meter, seen = Meter(lag=LAG.get(device.type, 1)), torch.full_like(before, UNSEEN)
        group.enter(phase)
        with isolated(self.seeds("noise", group.indices[0], index)):
            for at in self.rows(group, data, index):
                rows = Rows(at, before.gather(1, at).long())
                terms, stats = step(data.fetch(at), rows, phase)
                seen.scatter_(1, at, stats["labels"].to(seen.dtype))
                meter.add(at.shape[1], {**terms, **stats})
                if not meter.finite:
                    self.give_up(group, index, meter)
                # Several processes stop together, after the epoch.
                whole = not self.interrupt.asked or distributed.world() > 1
                if not whole:
                    break
        records = meter.records()
        if not meter.finite:
            self.give_up(group, index, meter)
        if distributed.world() > 1:  # each rank has its own batch statistics
            distributed.same_(group.state_dict().values())
        changed = self.relabel(seen.cpu())
        for r, record in enumerate(records):
            record |= {"epoch": index, "phase": phase.name, "changed": float(changed[r])}
            record["seconds"] = time.perf_counter() - started
        return Epoch(index, phase, records, self.labels, changed, whole)

    def relabel(self, seen: Tensor) -> Array:
        """Take over what any process has `seen`; the share of labels that differ, (r,)."""
        new, before = distributed.largest_(seen).numpy(), self.labels
        self.labels = np.where(new == UNSEEN, before, new)
        return (self.labels != before).mean(1)

    def rows(self, group: Group, data: Batches, index: int) -> Iterator[Tensor]:
        """The rows (r, b) of each batch, for all restarts of the group side by side."""
        device = self.settings.torch_device()
        # Batch statistics of a single row are an error in torch: such a row waits an epoch.
        rank, world = distributed.rank(), distributed.world()
        alone = group.normalizes and data.n % data.batch_size // world == 1
        orders = [
            list(
                data.order(index, self.seeds("shuffle", i), rank=rank, world=world, drop_last=alone)
            )
            for i in group.indices
        ]
        # In one piece: a copy to a GPU waits until it has done all that it was given before.
        whole = torch.from_numpy(np.stack([np.concatenate(order) for order in orders]))
        yield from whole.to(device).split([len(rows) for rows in orders[0]], dim=1)

    def settled(self, group: Group, tol: float, patience: int = 3) -> bool:
        """Whether every restart of the group has stopped moving.

        A restart has when, for `patience` epochs running, at most a share `tol` of the rows
        changed cluster and the loss changed by at most the share `tol`. Its state is put aside
        then, so that waiting for the others in a stack changes nothing.
        """
        for r, index in enumerate(group.indices):
            if index not in self.endings and is_still(self.history[r], tol, patience):
                self.end(group, r)
        return len(self.endings) == len(group.indices)

    def end(self, group: Group, r: int) -> None:
        """Put aside how restart `r` of the group is now."""
        self.endings[group.indices[r]] = (group.state(r), list(self.history[r]))

    def give_up(self, group: Group, index: int, meter: Meter) -> NoReturn:
        """Say where the loss stopped being a number."""
        batch, terms = meter.first_bad()
        path = self.current(group)
        bad = [i for i, v in zip(group.indices, terms["loss"], strict=True) if not np.isfinite(v)]
        kept = f" The last good state is in {path}." if path and path.exists() else ""
        raise Diverged(
            f"The loss is not finite in epoch {index + 1}, batch {batch + 1} of restart {bad}: "
            f"{terms}. {Diverged.ADVICE}{kept}"
        )

    # Files ---------------------------------------------------------------------------------

    def save(self, group: Group, optimizer: torch.optim.Optimizer, epoch: int) -> None:
        """The state after `epoch` epochs, unless the last step has spoilt it."""
        path = self.current(group)
        tensors = {f"model.{n}": t for n, t in group.state_dict().items()}
        if path is None or not self.writes or not all(t.isfinite().all() for t in tensors.values()):
            return
        tensors |= checkpoint.optimizer_tensors(optimizer)
        tensors["labels"] = torch.from_numpy(self.labels)
        for i, (state, _) in self.endings.items():
            tensors |= {f"ending.{i}.{n}": t for n, t in state.items()}
        ended = {str(i): len(history) for i, (_, history) in self.endings.items()}
        meta = {"epoch": epoch, "history": self.history, "marks": self.marks, "ended": ended}
        checkpoint.write(path, tensors, meta | self.signature())

    def restore(self, group: Group, optimizer: torch.optim.Optimizer) -> int:
        """Go on from a checkpoint of this group, if there is one; the epoch to start with."""
        path = self.current(group)
        if path is None or not path.exists():
            return 0
        tensors, meta = self.open(path)
        group.load_state_dict(subset(tensors, "model."))
        checkpoint.restore_optimizer(optimizer, tensors)
        self.labels = tensors["labels"].numpy()
        self.history, self.marks = meta["history"], meta.get("marks", self.marks)
        for i, length in meta["ended"].items():
            self.endings[int(i)] = (
                subset(tensors, f"ending.{i}."),
                self.history[group.indices.index(int(i))][:length],
            )
        self.watch.bar.update(meta["epoch"] * len(group.indices))
        return int(meta["epoch"])

    def current(self, group: Group) -> Path | None:
        return self.folder and self.folder / f"training-{group.indices[0]}.safetensors"

    def save_candidate(self, c: Candidate) -> None:
        if self.folder is None or not self.writes or self.stopped:
            return
        tensors = dict(c.state)
        tensors["candidate.labels"] = torch.from_numpy(c.labels.astype(np.int32))
        meta = {"history": c.history, "scores": c.scores} | self.signature()
        checkpoint.write(self.folder / f"restart-{c.index}.safetensors", tensors, meta)
        (self.folder / f"training-{c.index}.safetensors").unlink(missing_ok=True)

    def restore_candidates(self, n_init: int) -> None:
        """Restarts that an earlier, interrupted fit has finished."""
        if self.folder is None:
            return
        for r in range(n_init):
            path = self.folder / f"restart-{r}.safetensors"
            if not path.exists():
                return
            tensors, meta = self.open(path)
            labels = tensors.pop("candidate.labels").numpy()
            self.candidates.append(Candidate(r, tensors, meta["history"], meta["scores"], labels))
            self.watch.bar.update(len(meta["history"]))

    def clear(self) -> None:
        """Remove this fit's files, and no others: the folder may be the user's."""
        assert self.folder is not None
        for kind, r in product(("training", "restart"), range(len(self.candidates))):
            for end in ("", checkpoint.PART):
                (self.folder / f"{kind}-{r}.safetensors{end}").unlink(missing_ok=True)

    def signature(self) -> dict[str, Any]:
        """Whose checkpoint this is; the seed too, which no random_state may have named."""
        return {"identity": self.identity, "seed": self.seeds.root}

    def open(self, path: Path) -> tuple[State, dict[str, Any]]:
        """A checkpoint of this fit; its seed is taken over."""
        tensors, meta = checkpoint.read(path)
        if meta["identity"] != self.identity:
            keys = {*meta["identity"], *self.identity}
            other = [k for k in keys if meta["identity"].get(k) != self.identity.get(k)]
            raise ValueError(
                f"{path} belongs to another fit (different: {sorted(other)}). Use another "
                f"checkpoint_dir, or remove the file to start anew."
            )
        self.seeds.root = meta["seed"]
        return tensors, meta


class Meter:
    """Means over an epoch, weighted by batch size, one per restart.

    A look at a number waits for the device, so `lag` batches are looked at together.
    """

    def __init__(self, lag: int = 1) -> None:
        self.lag = lag
        self.rows, self.batches = 0, 0
        self.waiting: list[tuple[int, Tensor]] = []  # rows, and values (m, r)
        self.names: list[str] = []
        self.sums: Tensor | None = None  # (m, r)
        self.latest = torch.empty(0)  # (batches, m, r): what was looked at last
        self.finite = True

    def add(self, rows: int, values: State) -> None:
        self.names = [name for name in values if name != "labels"]
        kept = torch.stack([values[name].detach().float() for name in self.names])
        self.waiting.append((rows, kept))
        if len(self.waiting) >= self.lag:
            self.look()

    def look(self) -> None:
        """Add up what waits, and see whether it is finite."""
        if not self.waiting or not self.finite:
            return
        self.latest = torch.stack([values for _, values in self.waiting]).cpu().double()
        rows = torch.tensor([rows for rows, _ in self.waiting], dtype=torch.float64)
        part = torch.einsum("b,bmr->mr", rows, self.latest)
        self.sums = part if self.sums is None else self.sums + part
        self.rows += int(rows.sum())
        self.batches += len(self.waiting)
        self.waiting = []
        self.finite = bool(self.latest[:, self.names.index("loss")].isfinite().all())

    def first_bad(self) -> tuple[int, dict[str, list[float]]]:
        """The first batch with a loss that is not finite, and the terms there."""
        losses = self.latest[:, self.names.index("loss")]
        at = int((~losses.isfinite()).any(1).nonzero()[0])
        terms = dict(zip(self.names, self.latest[at].tolist(), strict=True))
        return self.batches - len(self.latest) + at, terms

    def records(self) -> list[dict[str, Any]]:
        self.look()
        rows = distributed.total_(torch.tensor(self.rows, dtype=torch.float64))
        assert self.sums is not None  # an epoch has a batch
        means = distributed.total_(self.sums) / rows
        return [dict(zip(self.names, column.tolist(), strict=True)) for column in means.mT]


def is_still(history: list[dict[str, Any]], tol: float, patience: int) -> bool:
    """At most `tol` of the labels and `tol` of the loss moved in the last `patience` epochs.

    The loss is compared within a phase: alternating phases weigh their terms differently.
    """
    if tol <= 0:
        return False
    last = history[-1]
    same = [h for h in history if h["phase"] == last["phase"]][-patience - 1 :]
    if len(same) <= patience or any(h["changed"] > tol for h in history[-patience:]):
        return False
    return all(
        abs(b["loss"] - a["loss"]) <= tol * max(abs(a["loss"]), 1e-12) for a, b in pairwise(same)
    )


def subset(tensors: dict[str, Tensor], prefix: str) -> State:
    """The tensors whose names start with `prefix`, without it."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
