"""``pellucid fit | predict | transform | evaluate | info``: parses and calls.

Tables and ``--json`` go to stdout, progress and errors to stderr. Torch is imported when a command
runs, not for ``--help``.
"""

from __future__ import annotations

import csv
import inspect
import json
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_type_hints

from jsonargparse import ArgumentError, ArgumentParser, Namespace, get_loader

if TYPE_CHECKING:
    from pellucid.typing import Array

__all__ = ["main"]

DONE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
EXIT_CODES = (
    "Exit codes: 0 done; 1 the work failed; 2 bad usage or bad input; 130 interrupted (a fit that "
    "was interrupted in training saves the best so far)."
)
DATA = "a .npy (memory-mapped), .npz, .csv or .parquet file"
ALGORITHMS = {"tell": "TELL"}  # name on the command line: class in pellucid


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        with warnings_as_notes() as notes:
            return run(argv, notes)
    except SystemExit as exit:  # --help, --version and --print_config end so
        return DONE if exit.code is None else int(exit.code)
    except KeyboardInterrupt:
        note("interrupted, nothing was saved")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of stdout, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if "--traceback" in argv:
            traceback.print_exc()
        return report(error, argv)


def run(argv: list[str], notes: list[str]) -> int:
    """Parse, and call the command."""
    parser, options = parse(argv)
    command, given = options.command, options[options.command]
    commands: dict[str, Callable[[Any, list[str]], int]] = {
        "fit": lambda given, notes: fit(parser.instantiate(options)[command], notes),
        "predict": predict,
        "transform": transform,
        "evaluate": evaluate,
        "info": info,
    }
    code = commands[command](given, notes)
    sys.stdout.flush()
    return code


def report(error: Exception, argv: list[str]) -> int:
    """One line about what went wrong; the exit code says whose turn it is."""
    bad_input = (ValueError, TypeError, ImportError, FileNotFoundError, PermissionError)
    bad_input += (IsADirectoryError, NotADirectoryError, ArgumentError)
    refused = isinstance(error, bad_input)
    text = usage_message(error, argv) if isinstance(error, ArgumentError) else str(error)
    kind = "" if refused and text else f"{type(error).__name__}: "
    note(f"error: {kind}{' '.join(text.split())}")
    return REFUSED if refused else FAILED


# Commands ------------------------------------------------------------------------------------


def fit(given: Namespace, notes: list[str]) -> int:
    """Train, save, and show the clusters."""
    import pellucid
    from pellucid.persistence import writable

    out = writable(given.out)  # before hours of work
    table = read(given.data, given.key)
    cls = getattr(pellucid, ALGORITHMS[given.algorithm])
    est = cls(**{name: given[name] for name in parameters(cls)})
    rows = "x".join(map(str, table.X.shape))
    note(f"fitting {cls.__name__} on {rows} values from {given.data}")
    started = time.perf_counter()
    est.fit(table.X)
    seconds = time.perf_counter() - started
    interrupted = any(text.startswith("Interrupted") for text in notes)
    if int(os.environ.get("RANK", "0")) > 0:  # under torchrun the first process writes
        return DONE
    if table.names:
        import numpy as np

        est.feature_names_in_ = np.array(table.names, dtype=object)
    est.save(out)
    note(f"saved {given.out}")
    facts = {"out": str(given.out), "algorithm": given.algorithm, "rows": len(est.labels_)}
    facts |= outcome(est) | {"seconds": round(seconds, 3), "interrupted": interrupted}
    show(given, facts, lambda: f"{sizes_table(facts['sizes'])}\n{facts_table(facts)}")
    return INTERRUPTED if interrupted else DONE


def predict(given: Namespace, notes: list[str]) -> int:
    """Label new rows: a CSV of row and label, or .npy."""
    out = output(given.out)
    est, X = load_both(given)
    labels = est.predict(X)
    sizes = sizes_of(labels, est)
    if out is None and not given.json:
        write_csv(sys.stdout, labels, "label")
        return DONE
    facts: dict[str, Any] = {"rows": len(labels), "sizes": sizes}
    if out is None:
        facts["labels"] = labels.tolist()
    else:
        write(out, labels, "label")
        facts["out"] = str(given.out)
    show(given, facts, lambda: sizes_table(sizes))
    return DONE


def transform(given: Namespace, notes: list[str]) -> int:
    """Embed new rows: .npy, or a CSV."""
    out = output(given.out)
    est, X = load_both(given)
    z = est.transform(X)
    assert out is not None
    write(out, z, "z")
    facts = {"rows": z.shape[0], "dimensions": z.shape[1], "out": str(given.out)}
    show(given, facts, lambda: facts_table(facts))
    return DONE


def evaluate(given: Namespace, notes: list[str]) -> int:
    """Compare the clusters of DATA with known labels."""
    from pellucid import metrics

    true = read_labels(given.labels, given.labels_key)
    est, X = load_both(given)
    if len(true) != len(X):
        raise ValueError(
            f"{given.labels} has {len(true)} labels, {given.data} has {len(X)} rows: pass the "
            f"labels of these rows, in their order."
        )
    scores = metrics.evaluate(true, est.predict(X))
    rounded = {name: f"{value:.4f}" for name, value in scores.items()}
    show(given, {"rows": len(true), **scores}, lambda: facts_table(rounded))
    return DONE


def info(given: Namespace, notes: list[str]) -> int:
    """What is in a saved model."""
    from pellucid.persistence import peek, read_config, read_weights

    config, est = read_config(given.model), peek(given.model)
    tensors = read_weights(Path(given.model))
    weights = sum(t.numel() for n, t in tensors.items() if n.startswith("module_."))
    facts = {"class": config["class"], "pellucid": config["pellucid"], "schema": config["schema"]}
    facts |= {"sample_shape": list(est.sample_shape_), "scale": est.scaler_.kind}
    facts |= {"weights": weights, **outcome(est)}
    shown = {**facts, "settings": " ".join(repr(est).split())}
    text = f"{sizes_table(facts['sizes'])}\n"
    show(given, {**facts, "params": config["params"]}, lambda: text + facts_table(shown))
    return DONE


def load_both(given: Namespace) -> tuple[Any, Any]:
    """The model, and the data with the columns that it knows."""
    import pellucid

    est = pellucid.load(given.model)
    table = read(given.data, given.key)
    return est, table.matching(getattr(est, "feature_names_in_", None), given.data)


def outcome(est: Any) -> dict[str, Any]:
    """How a fit went, JSON-able."""
    names = ("loss_", "inertia_", "n_iter_", "best_restart_", "restart_losses_")
    found = {n.rstrip("_"): getattr(est, n) for n in names if hasattr(est, n)}
    if "restart_losses" in found:
        found["restart_losses"] = found["restart_losses"].tolist()
    return {"n_clusters": est.n_clusters, "sizes": sizes_of(est.labels_, est), **found}


def sizes_of(labels: Array, est: Any) -> list[int]:
    """Rows per cluster."""
    return [int((labels == j).sum()) for j in range(est.n_clusters)]


# The command line ----------------------------------------------------------------------------


def parse(argv: list[str]) -> tuple[ArgumentParser, Namespace]:
    """The parser and what it made of `argv`."""
    import pellucid

    parser = new_parser(
        prog="pellucid",
        description="Deep clustering you can see through.",
        version=getattr(pellucid, "__version__", "?"),
    )
    commands = parser.add_subcommands(dest="command", metavar="COMMAND")
    for name, (make, summary) in COMMANDS.items():
        commands.add_subcommand(name, make(argv), help=summary, description=f"{summary}.")
    return parser, parser.parse_args(argv)


def new_parser(**options: Any) -> ArgumentParser:
    return ArgumentParser(
        exit_on_error=False, allow_abbrev=False, epilog=EXIT_CODES, default_meta=False, **options
    )
