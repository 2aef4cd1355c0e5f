"""``pellucid fit | predict | transform | evaluate | report | info``: parses and calls.

Tables and ``--json`` go to stdout, progress and errors to stderr. Torch is imported when a command
runs, not for ``--help``.
"""

from __future__ import annotations

import argparse
import csv
import inspect
import json
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import or_
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    TextIO,
    TypeAlias,
    get_args,
    get_type_hints,
)
from zipfile import BadZipFile

from jsonargparse import ArgumentError, ArgumentParser, Namespace, get_loader

if TYPE_CHECKING:
    from pellucid.typing import Array

__all__ = ["main"]

Command: TypeAlias = Callable[[Namespace, list[str]], int]
Arguments: TypeAlias = Callable[[ArgumentParser, list[str]], None]

DONE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
EXIT_CODES = (
    "Exit codes: 0 done; 1 the work failed; 2 bad usage or bad input; 130 interrupted (a fit that "
    "was interrupted in training saves the best so far)."
)
DATA = "a .npy (memory-mapped), .npz, .csv or .parquet file"
# Name on the command line: class in pellucid.
ALGORITHMS = {
    "tell": "TELL",
    "deep-kmeans": "DeepKMeans",
    "kmeansnet": "KMeansNet",
    "pcx": "PCX",
    "kernelnet": "KernelNet",
}


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
        discard_stdout()
        return FAILED
    except Exception as error:
        if "--traceback" in argv:
            traceback.print_exc()
        return report(error, argv)


def discard_stdout() -> None:
    """Or the interpreter complains once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(argv: list[str], notes: list[str]) -> int:
    """Parse, and call the command."""
    parser, options = parse(argv)
    name = options.command
    code = COMMANDS[name][0](parser.instantiate(options)[name], notes)
    sys.stdout.flush()
    return code


def report(error: Exception, argv: list[str]) -> int:
    """One line about what went wrong; the exit code says whose turn it is."""
    bad_file = FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError
    refused = isinstance(error, ValueError | TypeError | ImportError | ArgumentError | bad_file)
    text = usage_message(error, argv) if isinstance(error, ArgumentError) else str(error)
    kind = "" if refused and text else f"{type(error).__name__}: "
    note(f"error: {kind}{' '.join(text.split())}")
    return REFUSED if refused else FAILED


# Commands ------------------------------------------------------------------------------------


def fit(given: Namespace, notes: list[str]) -> int:
    """Cluster DATA and save the model."""
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
    """Label new rows with a saved model."""
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
    """Embed new rows with a saved model."""
    out = output(given.out)
    est, X = load_both(given)
    z = est.transform(X)
    assert out is not None
    write(out, z, "z")
    facts = {"rows": z.shape[0], "dimensions": z.shape[1], "out": str(given.out)}
    show(given, facts, lambda: facts_table(facts))
    return DONE


def evaluate(given: Namespace, notes: list[str]) -> int:
    """Compare the clusters of rows with their known labels."""
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


def page(given: Namespace, notes: list[str]) -> int:
    """Write a saved model and its data as one HTML page."""
    from pellucid.report import writable, write_report

    out = writable(given.out)  # before the model and the data are read
    true = read_labels(given.labels, given.labels_key) if given.labels else None
    entries = {name: lines_of(given[name]) for name in ("texts", "ids", "feature_names")}
    est, X = load_both(given)
    write_report(est, X, out, title=given.title, y=true, **entries)
    facts = {"rows": X.shape[0], "clusters": est.n_clusters, "out": str(given.out)}
    show(given, facts, lambda: facts_table(facts))
    return DONE


def info(given: Namespace, notes: list[str]) -> int:
    """Show what is in a saved model."""
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
        "Deep clustering you can see through.", prog="pellucid", version=pellucid.__version__
    )
    commands = parser.add_subcommands(dest="command", metavar="COMMAND")
    for name, (command, arguments) in COMMANDS.items():
        summary = (command.__doc__ or "").rstrip(".")
        sub = new_parser(f"{summary}.")
        sub.add_argument("--json", action="store_true", help="print JSON for machines")
        sub.add_argument("--traceback", action="store_true", help="show where an error came from")
        arguments(sub, argv)
        commands.add_subcommand(name, sub, help=summary)
    return parser, parser.parse_args(spelled_out(argv))


def new_parser(description: str, **options: Any) -> ArgumentParser:
    return ArgumentParser(
        description=description,
        epilog=EXIT_CODES,
        exit_on_error=False,
        allow_abbrev=False,
        **options,
    )


def fit_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    """Data, folder, and every parameter of the algorithm's constructor."""
    parser.add_argument("data", help=f"what to cluster: {DATA}")
    parser.add_argument("--out", "-o", required=True, help="folder for the model")
    parser.add_argument("--algorithm", type=one_of(ALGORITHMS), default="tell")
    parser.add_argument("--config", action="config", help="YAML file with any of these options")
    add_key(parser)
    if next((a for a in argv if not a.startswith("-")), "") != "fit":
        return  # the options cost an import of torch
    import pellucid

    cls = getattr(pellucid, ALGORITHMS[chosen_algorithm(argv)])
    about, group = documented(cls), parser.add_argument_group(f"options of {cls.__name__}")
    for name, (hint, default) in parameters(cls).items():
        flags = ["-k", "--n_clusters"] if name == "n_clusters" else [f"--{name}"]
        default = 1 if name == "verbose" else default
        group.add_argument(*flags, type=hint, default=default, help=about.get(name, ""))


def predict_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    add_model_and_data(parser)
    parser.add_argument("--out", "-o", help="labels as .csv or .npy; without it, a CSV on stdout")


def transform_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    add_model_and_data(parser)
    parser.add_argument("--out", "-o", required=True, help="the embedding as .npy or .csv")


def evaluate_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    add_model_and_data(parser)
    add_labels(parser, required=True)


def page_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    add_model_and_data(parser)
    parser.add_argument("--out", "-o", required=True, help="the page, an .html file")
    parser.add_argument("--title", help="its heading")
    for name in ("texts", "ids", "feature_names"):
        which = "feature" if name == "feature_names" else "row"
        parser.add_argument(f"--{name}", help=f"a text file with a line per {which}")
    add_labels(parser, required=False)


def info_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    parser.add_argument("model", help="folder of a saved model")


def add_model_and_data(parser: ArgumentParser) -> None:
    parser.add_argument("model", help="folder of a saved model")
    parser.add_argument("data", help=DATA)
    add_key(parser)


def add_labels(parser: ArgumentParser, *, required: bool) -> None:
    what = "true labels: .npy, .npz, or .csv with a column called label (or one column)"
    parser.add_argument("--labels", required=required, help=what)
    parser.add_argument("--labels_key", default="y", help="name of the array in a .npz of labels")


def add_key(parser: ArgumentParser) -> None:
    parser.add_argument("--key", default="X", help="name of the array in a .npz")


COMMANDS: dict[str, tuple[Command, Arguments]] = {
    "fit": (fit, fit_arguments),
    "predict": (predict, predict_arguments),
    "transform": (transform, transform_arguments),
    "evaluate": (evaluate, evaluate_arguments),
    "report": (page, page_arguments),
    "info": (info, info_arguments),
}


def chosen_algorithm(argv: list[str]) -> str:
    """From the options or the YAML file, needed before either can be parsed in full."""
    probe = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    probe.add_argument("--algorithm")
    probe.add_argument("--config", action="append", default=[])
    known, _ = probe.parse_known_args(argv)
    name = known.algorithm
    for file in known.config if name is None else []:
        try:
            name = get_loader("yaml")(Path(file).read_text(encoding="utf-8"))["algorithm"]
        except Exception:  # whatever is wrong with it, the full parser says so
            continue
    return name if name in ALGORITHMS else "tell"


def parameters(cls: type) -> dict[str, tuple[Any, Any]]:
    """Type and default of every parameter of the constructor."""
    signature, hints = inspect.signature(cls), get_type_hints(cls.__init__)  # type: ignore[misc]
    return {n: (option_type(n, hints[n]), p.default) for n, p in signature.parameters.items()}


def option_type(name: str, hint: Any) -> Any:
    """What the command line accepts; nothing that could name a class of anybody's."""
    if name == "autoencoder":
        from pellucid.autoencoders import NAMED

        return reduce(or_, [*NAMED.values(), one_of(NAMED), None])
    if hint is Any or Any in get_args(hint):
        return int | float | str | None
    return hint


def one_of(names: Iterable[str]) -> Any:
    """The type of these words."""
    literal: Any = Literal
    return literal[tuple(names)]


def spelled_out(argv: list[str]) -> list[str]:
    """``--autoencoder mlp`` as the class MLP, which ``--autoencoder.latent 5`` can follow."""
    names = {"mlp": "MLP", "conv": "Conv", "identity": "Identity"}
    return [
        names.get(word, word) if before == "--autoencoder" else word
        for before, word in zip(["", *argv], argv, strict=False)
    ]


def documented(cls: type) -> dict[str, str]:
    """Help for every parameter, from the numpydoc section of the class."""
    _, _, section = inspect.cleandoc(cls.__doc__ or "").partition("Parameters\n----------\n")
    section = re.split(r"\n\n\w+\n-{3,}\n", section)[0]
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\w)", section):
        head, _, body = entry.partition("\n")
        name, _, kind = head.partition(" : ")
        choices = re.match(r"\{.*\}", kind)
        text = f"{choices[0]}: {body}" if choices else body
        found[name] = " ".join(text.split())
    return found


def usage_message(error: ArgumentError, argv: list[str]) -> str:
    """jsonargparse's report in one line: which option, what it got, what it takes."""
    command = next((a for a in argv if a in COMMANDS), "")
    more = f" (pellucid {command} --help)".replace("  ", " ")
    text, key = str(error), re.search(r'Parser key "([^"]+)"', str(error))
    if key is None:
        return text.replace(f" {command}.", " ") + more
    nested = re.search(r"NestedArg\(key='([^']+)', val='?(.*?)'?\)", text)
    option = f"--{key[1]}" + (f".{nested[1]}" if nested else "")
    if "is not accepted" in text:
        return f"{option}: there is no such option{more}"
    expected = re.findall(r"Subtypes: \[(.*)\]|Expected an? (.*)\. Got value", text)
    got = nested[2] if nested else re.split(r"Given value: |Got value: ", text)[-1]
    if not expected:
        return text + more
    kinds = re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", "".join(expected[-1]))
    kinds = kinds.replace("typing.", "").replace("NoneType", "null")
    hint = ", written [1,2]" if "tuple" in kinds else ""
    return f"{option}: {got!r} is not of type {kinds}{hint}{more}"


# Files ---------------------------------------------------------------------------------------


class Table(NamedTuple):
    """Data as read, and the names of its columns where the file has them."""

    X: Any
    names: list[str] | None = None

    def matching(self, fitted: Any, path: str) -> Any:
        """X with the columns that a model was fitted on, found by name where both have names."""
        if fitted is None or self.names is None:
            return self.X
        missing = [name for name in fitted if name not in self.names]
        if missing:
            raise ValueError(
                f"{path} has no column {', '.join(missing[:5])}; the model was fitted on "
                f"{len(fitted)} columns: {', '.join(fitted[:10])}."
            )
        # The names have just been compared, so scikit-learn need not miss them on the array.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return self.X[:, [self.names.index(name) for name in fitted]]


def read(name: str, key: str) -> Table:
    """The data in a file, by its suffix."""
    path = Path(name)
    readers: dict[str, Callable[[], Table]] = {
        ".npy": lambda: Table(numpy_array(path)),
        ".npz": lambda: Table(archived(path, key)),
        ".csv": lambda: read_csv(path),
        ".parquet": lambda: read_parquet(path),
    }
    if path.suffix.lower() not in readers:
        raise ValueError(f"{name}: data has to be {DATA}.")
    if not path.is_file():
        raise FileNotFoundError(f"{name} does not exist.")
    return readers[path.suffix.lower()]()


def numpy_array(path: Path) -> Array:
    """A .npy file, mapped into memory rather than read."""
    import numpy as np

    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a whole .npy file of numbers ({error}).") from error


def archived(path: Path, key: str) -> Any:
    """One array of a .npz file, or the sparse matrix that scipy.sparse.save_npz wrote there."""
    import numpy as np
    from scipy import sparse

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if {"format", "data", "shape"} <= set(archive.files):
                return sparse.load_npz(path)
            if key in archive.files:
                return archive[key]
            names = ", ".join(archive.files)
    except (ValueError, EOFError, BadZipFile) as error:
        raise ValueError(f"{path} is not a whole .npz file of numbers ({error}).") from error
    raise ValueError(f"{path} has no array {key!r}, it has: {names}. Choose one with --key.")


def read_csv(path: Path) -> Table:
    """The columns whose first entry is a number; a first row with other things is the header."""
    import numpy as np

    with path.open(newline="", encoding="utf-8-sig") as file:
        separator = max(",;\t", key=file.readline().count)
        file.seek(0)
        rows = csv.reader(file, delimiter=separator)
        first: list[str] = next(rows, [])
        header = first if not all(map(is_number, first)) else None
        sample = next(rows, []) if header else first
    columns = [i for i, cell in enumerate(sample) if is_number(cell)]
    if not columns:
        raise ValueError(f"{path} has no rows with numbers.")
    how: dict[str, Any] = {"delimiter": separator, "skiprows": 1 if header else 0, "ndmin": 2}
    how |= {"usecols": columns, "quotechar": '"', "comments": None, "encoding": "utf-8-sig"}
    try:
        X = np.loadtxt(path, **how)
    except ValueError as error:
        raise ValueError(f"{path}: {error} Fill the cell or drop the row.") from error
    if header is None:
        return Table(X)
    left_out([name for i, name in enumerate(header) if i not in columns])
    return Table(X, [header[i].strip() for i in columns])


def is_number(cell: str) -> bool:
    """An empty cell is a missing number."""
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def read_parquet(path: Path) -> Table:
    """The numeric columns, through whichever of the frame libraries is installed."""
    import narwhals as nw
    from narwhals import selectors

    for backend in ("pyarrow", "polars", "pandas"):
        try:
            frame = nw.read_parquet(str(path), backend=backend)
            break
        except ImportError:
            continue
        except Exception as error:  # each library has exceptions of its own
            raise ValueError(f"{path} is not a whole .parquet file ({error}).") from error
    else:
        raise ImportError(f"{path} needs pyarrow to be read: pip install 'pellucid[arrow]'")
    numbers = frame.select(selectors.numeric() | selectors.boolean())
    if not numbers.columns:
        raise ValueError(f"{path} has no numeric columns, it has: {', '.join(frame.columns)}.")
    left_out([name for name in frame.columns if name not in numbers.columns])
    return Table(numbers.to_numpy(), list(numbers.columns))


def left_out(names: list[str]) -> None:
    if names:
        note(f"left out the columns that are not numbers: {', '.join(names)}")


def read_labels(name: str, key: str) -> Array:
    """One label per row."""
    import numpy as np

    path = Path(name)
    if not path.is_file():
        raise FileNotFoundError(f"{name} does not exist.")
    if path.suffix.lower() in (".npy", ".npz"):
        labels = numpy_array(path) if path.suffix.lower() == ".npy" else archived(path, key)
    elif path.suffix.lower() == ".csv":
        labels = np.array(label_column(path))
    else:
        raise ValueError(f"{name}: labels have to be a .npy, .npz or .csv file.")
    if labels.ndim != 1:
        raise ValueError(f"{name} has shape {labels.shape}: labels have one entry per row.")
    return labels


def label_column(path: Path) -> list[str]:
    """The column called label, or the only one."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file) if row]
    header = rows[0] if rows else []
    if "label" in header:
        return [row[header.index("label")] for row in rows[1:]]
    if len(header) != 1:
        raise ValueError(f"{path} has no column called label among its {len(header)} columns.")
    return [row[0] for row in rows[0 if is_number(header[0]) else 1 :]]


def lines_of(name: str | None) -> list[str] | None:
    """The lines of a text file."""
    if name is None:
        return None
    if not Path(name).is_file():
        raise FileNotFoundError(f"{name} does not exist.")
    return Path(name).read_text(encoding="utf-8-sig").splitlines()


def output(name: str | None) -> Path | None:
    """Where a result goes, if that is possible; asked before the work."""
    if name is None:
        return None
    path = Path(name)
    if path.suffix.lower() not in (".csv", ".npy"):
        raise ValueError(f"{name}: a result is written as .csv or .npy.")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(f"{name} cannot be written: its folder does not exist.")
    if not os.access(path.absolute().parent, os.W_OK):
        raise ValueError(f"{name} cannot be written: its folder does not allow it.")
    return path


def write(path: Path, values: Array, name: str) -> None:
    """The whole file or nothing."""
    import numpy as np

    fresh = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.suffix.lower() == ".npy":
            with fresh.open("wb") as binary:
                np.save(binary, values)
        else:
            with fresh.open("w", encoding="utf-8") as text:
                write_csv(text, values, name)
        os.replace(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def write_csv(file: TextIO, values: Array, name: str) -> None:
    """``row,label`` or ``row,z0,z1,...``."""
    import numpy as np

    names = [name] if values.ndim == 1 else [f"{name}{j}" for j in range(values.shape[1])]
    columns = values[:, None] if values.ndim == 1 else values
    file.write(",".join(["row", *names]) + "\n")
    form = ["%d"] + ["%d" if values.dtype.kind in "iu" else "%.9g"] * len(names)
    for start in range(0, len(columns), 4096):
        part = columns[start : start + 4096]
        rows = np.arange(start, start + len(part))
        np.savetxt(file, np.column_stack([rows, part.astype(np.float64)]), form, delimiter=",")


# What a person sees --------------------------------------------------------------------------


def note(text: str) -> None:
    """One line on stderr."""
    print(f"pellucid: {text}", file=sys.stderr, flush=True)


@contextmanager
def warnings_as_notes() -> Iterator[list[str]]:
    """Warnings as lines on stderr instead of source excerpts; the list collects them."""
    notes: list[str] = []

    def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
        notes.append(" ".join(str(message).split()))
        note(f"warning: {notes[-1]}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show_warning
        yield notes


def show(given: Namespace, facts: dict[str, Any], text: Callable[[], str]) -> None:
    """The result on stdout, for machines or for people."""
    print(json.dumps(facts) if given.json else text())


def sizes_table(sizes: list[int]) -> str:
    """Rows of every cluster."""
    n = max(sum(sizes), 1)
    lines = [f"{j:>7}   {size:>8,}   {size / n:>6.1%}" for j, size in enumerate(sizes)]
    return "\n".join(["cluster       rows    share", *lines])


def facts_table(facts: dict[str, Any]) -> str:
    """Name and value, line by line."""
    shown = {n: v for n, v in facts.items() if n != "sizes"}
    width = max(map(len, shown)) + 2
    return "\n".join(f"{name:<{width}}{brief(value)}" for name, value in shown.items())


def brief(value: Any) -> str:
    """A number, or several, as a person wants to read it."""
    if isinstance(value, list):
        return ", ".join(map(brief, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if type(value) is int else str(value)
