"""The steps that every `fit` has in common, as functions of the estimator."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from torch import Tensor, nn

from pellucid.autoencoders import Identity, Spec
from pellucid.data import Batches
from pellucid.init import NAMED, exchange, held_epochs, start_from
from pellucid.training import (
    RULES,
    Diverged,
    Engine,
    Epoch,
    Group,
    Phase,
    Rules,
    Schedule,
    Seeds,
    Single,
    Training,
    Watch,
    isolated,
    one_of,
    processes,
    stream,
    warm_up,
)
from pellucid.training.inference import evaluating
from pellucid.typing import Array

LARGE = 2**25  # values of an embedding that are held at once: 128 MB of float32
MOVED = 20_000  # rows that say whether centres change places
WARM_STEPS, WARM_EPOCHS = 4000, 100
NUMBERS: dict[str, Callable[[Any], bool]] = {
    "a positive number": lambda value: value > 0,
    "zero or a positive number": lambda value: value >= 0,
    "a number from 0 to 1": lambda value: 0 <= value <= 1,
    "a whole number of at least 0": lambda value: isinstance(value, Integral) and int(value) >= 0,
}


def check_common(est: Any, *, least_lam: float = 1e-300, auto_lam: bool = False) -> None:
    """Parameters that all estimators share, refused before any work is done."""
    for name, least in (("n_clusters", 1), ("n_init", 1), ("max_iter", 0), ("batch_size", 1)):
        value = getattr(est, name)
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or value < least:
            raise ValueError(f"{name}={value!r}: use a whole number of at least {least}.")
    if isinstance(est.init, str):
        one_of("init", est.init, ["random", *NAMED])
    if est.pretrain != "auto" and not (isinstance(est.pretrain, int) and est.pretrain >= 0):
        raise ValueError(f'pretrain={est.pretrain!r}: use "auto" or a number of epochs.')
    lam = getattr(est, "lam", 1.0)
    if not (auto_lam and lam == "auto" if isinstance(lam, str) else lam >= least_lam):
        words = "a positive number" if least_lam else "zero or more"
        words += ', or "auto"' if auto_lam else ""
        raise ValueError(f"lam={lam!r}: use {words}.")
    if not (isinstance(est.tol, Real) and float(est.tol) >= 0):
        raise ValueError(f"tol={est.tol!r}: use a share of the rows, or 0 for no early stop.")
    if not isinstance(est.snapshots, Collection):
        raise TypeError(f"snapshots={est.snapshots!r}: pass epochs, for example (0, 9).")
    one_of("representation", getattr(est, "representation", "joint"), ["joint", "frozen"])
    one_of("select", est.select, sorted(RULES))
    one_of("empty", est.empty, ["revive", "keep"])
    settings_of(est).check()


def check_numbers(est: Any, words: str, *names: str) -> None:
    """Refuse parameters that are not what `words`, one of `NUMBERS`, says."""
    for name in names:
        if not NUMBERS[words](value := getattr(est, name)):
            raise ValueError(f"{name}={value!r}: use {words}.")


def stands_still(est: Any) -> bool:
    """Whether only the centres are trained after `pretrain`."""
    frozen = getattr(est, "representation", "joint") == "frozen"
    return frozen or isinstance(est.autoencoder_, Identity)


def settings_of(est: Any) -> Training:
    """The estimator's training settings, or the defaults."""
    if est.training is not None and not isinstance(est.training, Training):
        raise TypeError(f"training={est.training!r}: pass a pellucid.Training(...), or None.")
    return est.training or est._default_training()


def assign(est: Any, given: Mapping[str, Any]) -> None:
    """What every constructor does: ``assign(self, locals())`` keeps each argument as it came."""
    vars(est).update((name, value) for name, value in given.items() if name != "self")


def check_init(est: Any, group: Group) -> None:
    """Refuse an array of centres of a wrong shape before hours of pretraining."""
    if isinstance(est.init, str | BaseEstimator):
        return
    with group.member(0) as module:
        wanted, given = tuple(module.centers.shape), np.shape(est.init)
    if given != wanted:
        raise ValueError(
            f"init has shape {given}; {wanted[0]} centres in an embedding of dimension "
            f"{wanted[1]} need shape {wanted}."
        )


def pretrain_epochs(est: Any, data: Batches) -> int:
    """Epochs of reconstruction: as asked for, or as many as make about `WARM_STEPS` steps."""
    if isinstance(est.autoencoder_, Identity):
        return 0
    if est.pretrain != "auto":
        return int(est.pretrain)
    return min(WARM_EPOCHS, -(-WARM_STEPS // len(data)))


def build_autoencoder(est: Any) -> Any:
    """The representation for the data that `est` has opened; a user's own module is copied."""
    made: Spec | nn.Module = est.autoencoder_
    if not isinstance(made, nn.Module):
        return made.build(est.sample_shape_, est.bounded_)
    network = copy.deepcopy(made)
    if not isinstance(getattr(network, "latent_dim", None), int):
        with torch.no_grad(), isolated(0):
            z = network.eval().encode(torch.zeros(2, *est.sample_shape_))  # type: ignore[operator]
        network.latent_dim = int(z.shape[1])
    return network


@contextmanager
def engine_for(
    est: Any, data: Batches, stop: int, settings: Training | None = None
) -> Iterator[Engine]:
    """An engine with the estimator's settings, seeds, bar and identity."""
    settings = settings or settings_of(est)
    watch = Watch(est, total=stop * est.n_init, verbose=est.verbose)
    identity = {"parameters": fingerprint(est), "data": data.fingerprint()}
    try:
        with processes():
            yield Engine(settings, Seeds(est.random_state), data.n, watch=watch, identity=identity)
    finally:
        watch.close()


def fingerprint(est: BaseEstimator) -> str:
    """The parameters that decide what a fit computes; arrays and networks by their contents."""
    free = {"verbose", "random_state", "training__checkpoint_dir", "training__checkpoint_every"}
    parts = est.get_params(deep=True)
    kept = {n: v for n, v in parts.items() if n not in free and not isinstance(v, BaseEstimator)}
    seed = est.random_state if isinstance(est.random_state, Integral) else None
    words = ", ".join(f"{n}={in_words(v)}" for n, v in sorted(kept.items()))
    return f"{type(est).__name__}({words}, random_state={seed})"


def in_words(value: object) -> str:
    """repr, or a hash of the numbers where repr would leave them out."""
    if isinstance(value, nn.Module):
        arrays = [t.detach().cpu().numpy() for t in value.state_dict().values()]
    elif isinstance(value, np.ndarray | torch.Tensor):
        arrays = [np.asarray(value)]
    else:
        return repr(value)
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    return f"{type(value).__name__} {digest.hexdigest()[:16]}"


def after_reconstruction(epochs: int, then: Schedule) -> Schedule:
    """Reconstruction alone first, which every algorithm's `pretrain` means."""
    return warm_up(epochs, Phase({"reconstruction": 1.0}, name="pretrain"), then)


def hold_start(est: Any, then: Schedule) -> Schedule:
    """`then`, with the knob "hold" for as long as the start of the centres keeps its labels."""
    epochs = held_epochs(est.init)

    def plan(epoch: int) -> Phase:
        phase = then(epoch)
        return phase if epoch >= epochs else replace(phase, knobs={**phase.knobs, "hold": 1.0})

    return plan


def train(est: Any, data: Batches, then: Schedule, rules: Rules, *, moves: int = 0) -> Any:
    """Reconstruction, centres, and `then` the algorithm's own epochs; the best of all restarts.

    After so many `moves` of its own epochs, if any, centres may change places.
    """
    warm = pretrain_epochs(est, data)
    plan, stop = after_reconstruction(warm, then), warm + est.max_iter
    with engine_for(est, data, stop) as engine:
        for group in engine.groups(est._build_module, est.n_init):
            check_init(est, group)
            if warm == 0:
                place_centers(est, group, data, engine)
            for epoch in engine.epochs(group, data, plan, rules, stop=stop):
                if epoch.index == warm - 1:
                    place_centers(est, group, data, engine)
                if moves and epoch.index == warm + moves - 1:
                    move_centers(group, data, engine)
                tend(est, group, data, epoch, engine)
                if epoch.index >= warm and engine.settled(group, est.tol):
                    break
            engine.keep(group, lambda module: judge(module, data))
        return adopt_best(est, engine, data)


def open_piece(est: Any, X: Any) -> Batches:
    """One more piece of a stream, or, where nothing is fitted yet, the first of all."""
    fresh = not hasattr(est, "module_")
    data: Batches = est._open(X, reset=fresh)
    if fresh:
        est.online_, est.n_steps_, est.history_ = True, 0, []
    return data


def learn_piece(est: Any, data: Batches, phase: Phase, rules: Rules) -> Any:
    """One pass over a piece from `open_piece`; the first of all builds and starts."""
    fresh = not hasattr(est, "module_")
    settings = clone(settings_of(est)).set_params(checkpoint_dir=None)
    with engine_for(est, data, 1, settings) as engine:
        if fresh:
            with isolated(engine.seeds("init", 0)):
                est.module_ = est._build_module()
        group = engine.begin(Single(est.module_, 0, engine.settings))
        if fresh:
            place_centers(est, group, data, engine)
        for epoch in engine.epochs(group, data, lambda _: phase, rules, stop=1):
            est.n_steps_ += len(data)
            est.history_ = [*est.history_, *epoch.records]
        return est._adopt(est.module_, data)


def tend(est: Any, group: Group, data: Batches, epoch: Epoch, engine: Engine) -> None:
    """Sizes, dead centres and snapshots, after every epoch."""
    epoch.count(est.n_clusters)
    for r, (index, record) in enumerate(zip(group.indices, epoch.records, strict=True)):
        dead = record["empty"] if epoch.phase.name != "pretrain" else []
        if dead and est.empty == "revive":
            with group.member(r) as module:
                z = embed_sample(module, data, engine.seeds("revive", index, epoch.index), 4096)
                module.revive_(dead, z)
        if epoch.index in est.snapshots:
            with group.member(r) as module:
                record["snapshot"] = snapshot(module, data, engine.seeds("snapshot"))


def judge(module: Any, data: Batches) -> tuple[dict[str, float], Array]:
    """The method's own objective over all of the data in eval mode, and the labels."""
    pairs = [(float(loss.double().sum()), labels) for loss, labels in each(module, data)]
    labels = torch.cat([labels for _, labels in pairs])
    loss = sum(loss for loss, _ in pairs) / data.n
    return {"loss": loss, "scatter": scatter(module, data, labels)}, labels.numpy()


def scatter(module: Any, data: Batches, labels: Tensor) -> float:
    """Squares within the clusters over all squares about the mean, of the embedding."""
    k, start, squares = len(module.centers), 0, 0.0
    sums = torch.zeros(k, module.centers.shape[1], dtype=torch.float64)
    for z in stream(module, module.encode, data):
        sums.index_add_(0, labels[start : start + len(z)], z.double())
        squares += float(z.double().square().sum())
        start += len(z)
    sizes = torch.bincount(labels, minlength=k).clamp_min(1)
    within = squares - float((sums.square().sum(1) / sizes).sum())
    return within / max(squares - float(sums.sum(0).square().sum()) / data.n, 1e-12)


def each(module: Any, data: Batches) -> Iterator[tuple[Tensor, Tensor]]:
    """Loss and label of every row, batch by batch."""
    with evaluating(module) as device:
        for batch in data.sequential(2048):
            loss, labels = module.judge(batch.x.to(device))
            yield loss.cpu(), labels.cpu()


def place_centers(est: Any, group: Group, data: Batches, engine: Engine) -> None:
    """Start the centres of every restart of the group, and its labels, on its embedding.

    "random" is how modules are built. A module may then set numbers of its own on a sample.
    """
    random = isinstance(est.init, str) and est.init == "random"
    for r, index in enumerate(group.indices):
        with group.member(r) as module:
            seed = engine.seeds("centers", index)
            if not random:
                z = embed_sample(module, data, seed)
                check_finite(z, index)
                start = start_from(est.init, z, est.n_clusters, seed=seed, sphere=module.sphere)
                module.set_centers_(start.centers)
                parts = [start.labels(z) for z in stream(module, module.encode, data)]
                engine.labels[r] = torch.cat(parts).numpy()
                engine.marks[r] |= start.scores
            if hasattr(module, "calibrate_"):
                with evaluating(module) as device:
                    engine.marks[r] |= module.calibrate_(data.sample(1024, seed).to(device))


def move_centers(group: Group, data: Batches, engine: Engine) -> None:
    """Let centres of every restart change places where that lowers the inertia of its embedding."""
    for r, index in enumerate(group.indices):
        with group.member(r) as module:
            seed = engine.seeds("centers", index)
            z, omega = embed_sample(module, data, seed, MOVED), module.centers.detach()
            found = exchange(z, omega.to(z), seed=seed, sphere=module.sphere)
            if found is not None:
                module.set_centers_(found.centers.to(omega))


def check_finite(z: Tensor, restart: int) -> None:
    """Refuse to start centres in an embedding that the last step of `pretrain` has spoilt."""
    if not z.isfinite().all():
        raise Diverged(
            f"The embedding of restart {restart} is not finite when its centres are to be placed: "
            f"reconstruction diverged. {Diverged.ADVICE}"
        )


def embed_sample(module: Any, data: Batches, seed: int, rows: int | None = None) -> Tensor:
    """The embedding of the data, or of a sample where all of it would be too much to hold."""
    with evaluating(module) as device:
        first = module.encode(data.take([0]).to(device))
        m = min(rows or data.n, max(LARGE // first.shape[1], 1), data.n)
        order = np.random.default_rng(seed).permutation(data.n)[:m] if m < data.n else None
        z, step = first.new_empty(m, first.shape[1]), max(1, 2**21 // data.n_features)
        for start in range(0, m, step):
            piece = np.arange(start, min(start + step, m))
            x = data.take(piece if order is None else order[piece])
            z[start : start + step] = module.encode(x.to(device))
    return z


def snapshot(module: Any, data: Batches, seed: int) -> dict[str, Any]:
    """Centres, decoded centres and 1,000 embedded rows now, for the papers' figures."""
    z = embed_sample(module, data, seed, 1000)
    with evaluating(module):
        decoded = module.decode(module.centers)
    arrays = {"centers": module.centers, "prototypes": decoded, "embedding": z}
    return {name: t.detach().cpu().numpy().round(5).tolist() for name, t in arrays.items()}


def adopt_best(est: Any, engine: Engine, data: Batches) -> Any:
    """Set the fitted attributes from the restart that ``select`` picks."""
    best = engine.best(est.select)
    with isolated(0):
        module = est._build_module()
    module.load_state_dict(best.state)
    est.history_ = best.history
    est.loss_curve_ = [record["loss"] for record in best.history]
    est.n_iter_ = len(best.history)
    est.loss_ = best.scores["loss"]
    est.restart_losses_ = np.array([c.scores["loss"] for c in engine.candidates])
    est.restart_scores_ = [dict(c.scores) for c in engine.candidates]
    est.restart_labels_ = np.stack([c.labels.astype(np.int32) for c in engine.candidates])
    est.best_restart_ = best.index
    est.online_, est.n_steps_ = False, 0
    return est._adopt(module.to(engine.settings.torch_device()), data)
