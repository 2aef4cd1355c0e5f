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
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.data import Batches
from pellucid.training import checkpoint, distributed
from pellucid.training.optim import Rules, build_optimizer, clip_gradients
from pellucid.training.progress import Interrupt, Watch, interruptible
from pellucid.training.restarts import Group, Rows, Single, Stacked, State, stacks
from pellucid.training.schedules import Phase, Schedule
from pellucid.training.selection import RULES
from pellucid.training.seeds import Seeds, isolated
from pellucid.training.settings import Training
from pellucid.typing import Array

UNSEEN = -1  # label of a row that no batch has shown yet


@dataclass
class Epoch:
    """What happened in one epoch; arrays have one entry per restart of the group."""

    index: int
    phase: Phase
    records: list[dict[str, Any]]  # one per restart, JSON-able; what is added here is in `history_`
    labels: Array  # (r, n) as chosen while training, UNSEEN where no batch came by
    changed: Array  # (r,) share of rows whose label is not last epoch's

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
        self.n = n
        self.watch = watch or Watch()
        self.identity = identity or {}
        self.candidates: list[Candidate] = []
        self.stopped = ""  # why the fit ended early, in words
        folder = settings.checkpoint_dir
        self.folder = Path(folder) if folder and distributed.rank() == 0 else None

    # Restarts ------------------------------------------------------------------------------

    def groups(self, make: Callable[[], nn.Module], n_init: int) -> Iterator[Group]:
        """The restarts as groups to train: one stack, or one by one; finished ones are skipped."""

        def module(r: int) -> nn.Module:
            with isolated(self.seeds("init", r)):
                return make()

        self.restore_candidates(n_init)
        left = range(len(self.candidates), n_init)
        if left and stacks(module(0), n_init, self.settings):
            yield self.begin(Stacked([module(r) for r in left], left, self.settings))
            return
        for r in left:
            if not self.stopped:
                yield self.begin(Single(module(r), r, self.settings))

    def begin(self, group: Group) -> Group:
        """Forget the group before."""
        r = len(group.indices)
        self.labels = np.full((r, self.n), UNSEEN, dtype=np.int32)
        self.history: list[list[dict[str, Any]]] = [[] for _ in range(r)]
        self.endings: dict[int, tuple[State, list[dict[str, Any]]]] = {}
        return group

    def keep(self, group: Group, judge: Callable[[nn.Module], tuple[dict[str, float], Array]]) -> None:
        """End a group: score every restart of it in eval mode and remember its state."""
        for r, index in enumerate(group.indices):
            state, history = self.endings.get(index) or (group.state(r), self.history[r])
            with group.member(r) as module:
                module.load_state_dict(state)
                scores, labels = judge(module)
            self.candidates.append(Candidate(index, state, history, scores, labels))
            self.save_candidate(self.candidates[-1])

    def best(self, rule: str) -> Candidate:
        """The restart that `rule` picks; the checkpoints have served and are removed."""
        chosen = self.candidates[RULES[rule](self.candidates)]
        if self.stopped:
            done = f"{len(self.candidates)} restart(s), {len(chosen.history)} epochs in the best"
            warnings.warn(f"{self.stopped}: keeping the best so far ({done}).", stacklevel=3)
        elif self.folder:
            for file in self.folder.glob("*.safetensors"):
                file.unlink()
        self.watch.close()
        return chosen

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
        )
        interrupt = Interrupt()
        for index in range(self.restore(group, optimizer), stop):
            phase = schedule(index)
            with interruptible(interrupt), self.watch.epoch(len(group.indices)) as done:
                epoch = self.run_epoch(group, data, optimizer, rules, (index, phase), interrupt)
                for history, record in zip(self.history, epoch.records, strict=True):
                    history.append(record)
                if interrupt.asked:
                    self.stopped = f"Interrupted in epoch {index + 1} of {stop}"
                elif done(epoch.records[0]):
                    self.stopped = f"A callback asked to stop after epoch {index + 1} of {stop}"
                yield epoch
            if self.stopped:
                return
            if (index + 1) % self.settings.checkpoint_every == 0:
                self.save(group, optimizer, index + 1)

    def run_epoch(
        self,
        group: Group,
        data: Batches,
        optimizer: torch.optim.Optimizer,
        rules: Rules,
        now: tuple[int, Phase],
        interrupt: Interrupt,
    ) -> Epoch:
        """One pass over the data."""
        (index, phase), started = now, time.perf_counter()
        meter, before = Meter(len(group.indices)), self.labels.copy()
        group.enter(phase)
        with isolated(self.seeds("noise", group.indices[0], index)):
            for number, (x, rows) in enumerate(self.batches(group, data, index)):
                total, terms, stats = self.forward(group, x, rows, phase)
                if not torch.isfinite(total):
                    self.give_up(index, number, terms)
                for p in group.params.values():
                    p.grad = None
                total.backward()
                self.step(group, optimizer, rules, phase)
                labels = stats.pop("labels").cpu().numpy()
                np.put_along_axis(self.labels, rows.index.cpu().numpy(), labels.astype(np.int32), axis=1)
                meter.add(x.shape[1], {**terms, **stats})
                if interrupt.asked:
                    break
        changed = (self.labels != before).mean(1)
        records = meter.records(phase)
        for r, record in enumerate(records):
            record |= {"epoch": index, "phase": phase.name, "changed": float(changed[r])}
            record["seconds"] = time.perf_counter() - started
        return Epoch(index, phase, records, self.labels, changed)

    def batches(self, group: Group, data: Batches, index: int) -> Iterator[tuple[Tensor, Rows]]:
        """Batches of all restarts side by side: x (r, b, ...), rows of (r, b)."""
        device = self.settings.torch_device()
        ranks = {"rank": distributed.rank(), "world": distributed.world()}
        orders = [
            data.epoch(index, self.seeds("shuffle", i), **ranks) for i in group.indices
        ]
        for parts in zip(*orders, strict=True):
            x = parts[0].x[None] if len(parts) == 1 else torch.stack([p.x for p in parts])
            at = torch.stack([p.index for p in parts])
            last = torch.from_numpy(np.take_along_axis(self.labels, at.numpy(), axis=1)).long()
            yield x.to(device), Rows(at.to(device), last.to(device))

    def forward(
        self, group: Group, x: Tensor, rows: Rows, phase: Phase
    ) -> tuple[Tensor, State, State]:
        """The weighted sum of the terms over all restarts, and the terms one by one."""
        with self.settings.autocast():
            terms, stats = group(x, rows, phase)
        weighted = [w * terms[n] for n, w in phase.weights.items() if w]
        total = torch.stack(weighted).sum(0)  # (r,)
        terms = {"loss": total, **terms}
        return total.sum(), terms, stats

    def step(
        self, group: Group, optimizer: torch.optim.Optimizer, rules: Rules, phase: Phase
    ) -> None:
        """Gradients to parameters."""
        grads = [p.grad for p in group.params.values() if p.grad is not None]
        distributed.average_(grads)
        if self.settings.clip is not None and grads:
            clip_gradients(grads, self.settings.clip, group.leading)
        rules.edit_grads(group.params, phase)
        optimizer.step()
        rules.after_step(group.params, phase)

    def settled(self, group: Group, tol: float, patience: int = 3) -> bool:
        """Whether every restart of the group has stopped moving.

        A restart has when, for `patience` epochs running, at most a share `tol` of the rows
        changed cluster and the loss changed by at most the share `tol`. Its state is put aside
        then, so that waiting for the others in a stack changes nothing.
        """
        for r, index in enumerate(group.indices):
            if index not in self.endings and is_still(self.history[r], tol, patience):
                self.endings[index] = (group.state(r), list(self.history[r]))
        return len(self.endings) == len(group.indices)

    def give_up(self, index: int, batch: int, terms: State) -> NoReturn:
        """Say where the loss stopped being a number."""
        values = {n: t.detach().flatten().tolist() for n, t in terms.items()}
        kept = f" The last good state is in {self.folder}." if self.folder else ""
        raise Diverged(
            f"The loss is not finite in epoch {index + 1}, batch {batch + 1}: {values}. "
            f"Lower the learning rate (Training(lr=...)), clip (Training(clip=...)), or scale "
            f'the data (scale="unit").{kept}'
        )

    # Files ---------------------------------------------------------------------------------

    def save(self, group: Group, optimizer: torch.optim.Optimizer, epoch: int) -> None:
        """The state after `epoch` epochs."""
        if self.folder is None:
            return
        tensors = {f"model.{n}": t for n, t in group.state_dict().items()}
        tensors |= checkpoint.optimizer_tensors(optimizer)
        tensors["labels"] = torch.from_numpy(self.labels)
        for i, (state, _) in self.endings.items():
            tensors |= {f"ending.{i}.{n}": t for n, t in state.items()}
        ended = {str(i): len(history) for i, (_, history) in self.endings.items()}
        meta = {"epoch": epoch, "history": self.history, "ended": ended}
        checkpoint.write(self.current(group), tensors, meta | {"identity": self.identity})

    def restore(self, group: Group, optimizer: torch.optim.Optimizer) -> int:
        """Go on from a checkpoint of this group, if there is one; the epoch to start with."""
        path = self.current(group) if self.folder else None
        if path is None or not path.exists():
            return 0
        tensors, meta = checkpoint.read(path)
        self.check_identity(path, meta)
        group.load_state_dict(subset(tensors, "model."))
        checkpoint.restore_optimizer(optimizer, tensors)
        self.labels = tensors["labels"].numpy()
        self.history = meta["history"]
        for i, length in meta["ended"].items():
            self.endings[int(i)] = (
                subset(tensors, f"ending.{i}."),
                self.history[group.indices.index(int(i))][:length],
            )
        self.watch.bar.update(meta["epoch"])
        return int(meta["epoch"])

    def current(self, group: Group) -> Path:
        assert self.folder is not None
        return self.folder / f"training-{group.indices[0]}.safetensors"

    def save_candidate(self, c: Candidate) -> None:
        if self.folder is None or self.stopped:
            return
        tensors = dict(c.state)
        tensors["candidate.labels"] = torch.from_numpy(c.labels.astype(np.int32))
        meta = {"history": c.history, "scores": c.scores, "identity": self.identity}
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
            tensors, meta = checkpoint.read(path)
            self.check_identity(path, meta)
            labels = tensors.pop("candidate.labels").numpy()
            self.candidates.append(Candidate(r, tensors, meta["history"], meta["scores"], labels))
            self.watch.bar.update(len(meta["history"]))

    def check_identity(self, path: Path, meta: dict[str, Any]) -> None:
        if meta["identity"] != self.identity:
            keys = {*meta["identity"], *self.identity}
            other = [k for k in keys if meta["identity"].get(k) != self.identity.get(k)]
            raise ValueError(
                f"{path} belongs to another fit (different: {sorted(other)}). Use another "
                f"checkpoint_dir, or remove the file to start anew."
            )


class Meter:
    """Means over an epoch, weighted by batch size, one per restart."""

    def __init__(self, r: int) -> None:
        self.rows = 0
        self.r = r
        self.sums: dict[str, Tensor] = {}

    def add(self, rows: int, values: State) -> None:
        self.rows += rows
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + rows * value.detach().double()

    def records(self, phase: Phase) -> list[dict[str, Any]]:
        rows = max(self.rows, 1)
        return [
            {name: float(value[r]) / rows for name, value in self.sums.items()}
            for r in range(self.r)
        ]


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
    steps = zip(same, same[1:], strict=False)
    return all(abs(b["loss"] - a["loss"]) <= tol * max(abs(a["loss"]), 1e-12) for a, b in steps)


def subset(tensors: dict[str, Tensor], prefix: str) -> State:
    """The tensors whose names start with `prefix`, without it."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
