"""``python -m benchmarks``: run recipes, print their tables, measure speed and memory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.recipe import HERE

PAGES = ["pictures", "table", "texts"]


def main(argv: Sequence[str] | None = None) -> int:
    """Parse and call; imports are late because torch takes seconds."""
    options = parser().parse_args(argv)
    try:
        return int(options.call(options) or 0)
    except (FileNotFoundError, ValueError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run what is missing of a recipe")
    run.add_argument("recipe", help="a name in benchmarks/recipes, or a path")
    run.add_argument("--seeds", type=seeds, help="how many (10), or which (3,4 or 5-9)")
    run.add_argument("--method", action="append", help="only this one; may be repeated")
    run.add_argument("--jobs", type=int, default=1, help="processes at a time [%(default)s]")
    run.add_argument(
        "--threads", type=int, help="of each process; the cores shared out if not given"
    )
    run.add_argument("--minutes", type=float, help="interrupt after so long; resumable")
    run.set_defaults(call=call_run)

    task = commands.add_parser("task", help="one method and seed, here (what run starts)")
    task.add_argument("recipe")
    task.add_argument("--method", required=True)
    task.add_argument("--seed", type=int, required=True)
    task.set_defaults(call=call_task)

    table = commands.add_parser("table", help="print a record beside the paper, as markdown")
    table.add_argument("recipe")
    table.set_defaults(call=call_table)

    selection = commands.add_parser("selection", help="judge rules that pick a restart")
    selection.add_argument("recipes", nargs="+", help="recorded, with labels and embeddings kept")
    selection.set_defaults(call=call_selection)

    speed = commands.add_parser("speed", help="the engine beside a plain PyTorch loop")
    speed.add_argument("--rows", type=int, default=8192, help="of MNIST [%(default)s]")
    speed.add_argument("--repeats", type=int, default=5, help="pairs of epochs [%(default)s]")
    speed.add_argument("--network", action="append", default=[], choices=["mlp", "conv"])
    speed.add_argument("--threads", type=int, help="of torch; all cores if not given")
    speed.set_defaults(call=call_speed)

    peers = commands.add_parser("peers", help="Deep k-Means' joint phase beside ClustPy's")
    peers.add_argument("--rows", type=int, default=8192, help="of MNIST [%(default)s]")
    peers.add_argument("--repeats", type=int, default=7, help="epochs of each [%(default)s]")
    peers.set_defaults(call=call_peers)

    memory = commands.add_parser("memory", help="peak memory of a fit on a large memmap")
    memory.add_argument("--gigabytes", type=float, default=2.0, help="its size [%(default)s]")
    memory.add_argument("--case", action="append", default=[], choices=["identity", "mlp"])
    memory.set_defaults(call=call_memory)

    explain = commands.add_parser("explain-memory", help="peak memory of explain on such a memmap")
    explain.add_argument("--gigabytes", type=float, default=5.0, help="its size [%(default)s]")
    explain.add_argument("--case", action="append", default=[], choices=["kmeans", "tell"])
    explain.set_defaults(call=call_explain_memory)
    report = commands.add_parser("report", help="the page of 20,000 samples, in Chromium")
    report.add_argument("--case", action="append", default=[], choices=PAGES)
    report.add_argument("--repeats", type=int, default=5, help="times to open it [%(default)s]")
    report.set_defaults(call=call_report)
    for command in (memory, explain):
        command.add_argument("--scratch", type=Path, help="a folder with room for it")

    lambdas = commands.add_parser("lambdas", help="Deep k-Means: lambda by labels and without")
    lambdas.add_argument("set", nargs="?", help="mnist, usps, 20news or searchsnippets")
    lambdas.add_argument("--way", action="append", choices=["DKM-a", "DKM-p"])
    lambdas.add_argument("--seeds", type=int, default=10, help="fits [%(default)s]")
    lambdas.add_argument(
        "--search", type=int, default=3, help="of them per lambda; 0: auto alone [%(default)s]"
    )
    lambdas.add_argument("--lambdas", type=float, nargs="+", help="10^-4 to 10^3 if not given")
    lambdas.set_defaults(call=call_lambdas)

    kernels = commands.add_parser("kernelnet", help="KernelNet's tables, and its peers")
    kernels.add_argument("sets", nargs="*", help="moon, spiral, ...; the table if none is named")
    kernels.add_argument("--method", action="append", help="only this one; may be repeated")
    kernels.add_argument("--seeds", type=int, default=10, help="[%(default)s]")
    kernels.add_argument("--picture", type=Path, help="draw the paper's Fig. 1 into this file")
    kernels.add_argument("--spectralnet", default="", help="an interpreter that has SpectralNet")
    kernels.set_defaults(call=call_kernelnet)

    measures = (selection, speed, peers, memory, explain, report, lambdas, kernels)
    for command in (run, task, table, *measures):
        command.add_argument("--records", type=Path, default=HERE / "records")
    for command in (run, task, selection, speed, peers, report, lambdas, kernels):
        command.add_argument("--data-dir", type=Path, help="folder with the .npz sets")
    for command in (run, task, selection):
        command.add_argument("--work", type=Path, default=HERE / "work")
    return top


def seeds(text: str) -> list[int]:
    """``10`` is 0 to 9; ``3,5-7`` is 3, 5, 6, 7; none would be no use, so ``0`` is the first."""
    if text.isdecimal() and int(text):
        return list(range(int(text)))
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def call_run(options: argparse.Namespace) -> int:
    """run"""
    from benchmarks.runner import Place, Plan, run

    place = Place(options.data_dir, options.records, options.work)
    plan = Plan(options.jobs, options.threads, options.minutes)
    return min(run(options.recipe, place, plan, seeds=options.seeds, methods=options.method), 1)


def call_task(options: argparse.Namespace) -> None:
    """task"""
    from benchmarks.recipe import find
    from benchmarks.runner import Task, run_task

    name, recipe = find(options.recipe)
    where = options.records, options.work
    run_task(Task(name, recipe, options.method, options.seed, *where), options.data_dir)


def call_table(options: argparse.Namespace) -> None:
    """table"""
    from benchmarks.tables import table

    print(table(options.recipe, options.records))


def call_selection(options: argparse.Namespace) -> None:
    """selection"""
    from benchmarks.runner import Place
    from benchmarks.selection import run

    print(run(options.recipes, Place(options.data_dir, options.records, options.work)))


def call_lambdas(options: argparse.Namespace) -> None:
    """lambdas: run one set, or print the table of all"""
    from benchmarks.lambdas import LAMBDAS, SETS, WAYS, Search, measure, table

    if options.set is None:
        print(table(options.records))
        return
    if options.set not in SETS or options.data_dir is None:
        raise ValueError(f"Name one of {list(SETS)} and the folder of the sets with --data-dir.")
    for way in options.way or list(WAYS):
        values = tuple(options.lambdas or LAMBDAS)
        search = Search(options.seeds, options.search, values)
        measure(options.set, way, options.data_dir, options.records, search)


def call_kernelnet(options: argparse.Namespace) -> None:
    """kernelnet: run sets, or print the table"""
    from benchmarks.kernelnet import METHODS, SETS, measure, picture, table

    if options.picture and options.data_dir:
        picture(options.data_dir, options.picture)
        return
    if not options.sets:
        print(table(options.records))
        return
    methods = options.method or [*METHODS]
    known = {*METHODS, *(["spectralnet"] if options.spectralnet else [])}
    if not {*options.sets} <= {*SETS} or not {*methods} <= known or options.data_dir is None:
        raise ValueError(f"Name sets of {[*SETS]}, methods of {[*known]}, and --data-dir.")
    where = options.data_dir, options.records, options.spectralnet
    measure(options.sets, methods, options.seeds, *where)


def call_speed(options: argparse.Namespace) -> int:
    """speed"""
    import torch

    from benchmarks.speed import measure

    if options.threads:
        torch.set_num_threads(options.threads)
    how = options.rows, options.repeats, options.network
    return measure(options.data_dir, options.records, *how)


def call_peers(options: argparse.Namespace) -> int:
    """peers"""
    from benchmarks.peers import measure

    return measure(options.data_dir, options.records, options.rows, options.repeats)


def call_memory(options: argparse.Namespace) -> int:
    """memory"""
    from benchmarks.memory import measure

    return measure(options.records, options.gigabytes, options.case, options.scratch)


def call_explain_memory(options: argparse.Namespace) -> int:
    """explain-memory"""
    from benchmarks.memory import measure_explain

    return measure_explain(options.records, options.gigabytes, options.case, options.scratch)


def call_report(options: argparse.Namespace) -> int:
    """report"""
    from benchmarks.page import measure

    return measure(options.data_dir, options.records, options.case, options.repeats)


if __name__ == "__main__":
    sys.exit(main())
