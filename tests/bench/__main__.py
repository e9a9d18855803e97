"""Time the audit and its peers over the pinned packages; print a table and write figures and a plot.

    python -m tests.bench                     # what lies in the ecosystem's cache (see tests.ecosystem.fetch)
    python -m tests.bench --tools VENV        # and the other programs that are installed there
    python -m tests.bench --extra torch=DIR   # one more tree, audited by discovery

Processor seconds are of the whole process tree; compare ratios within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from ..ecosystem.fetch import cache_folder, missing
from ..ecosystem.packages import PACKAGES, Package
from . import commands
from .commands import Corpus
from .plot import svg
from .timing import Cost, measure

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def main() -> None:
    """Measure, print a Markdown table, and write ``results.json`` and ``cost.svg`` beside this file."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="runs per figure, of which the median counts")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of wall time after which a run is cut off")
    parser.add_argument("--tools", type=Path, help="virtual environment with mypy, flake8, semgrep, torchfix, fixit")
    parser.add_argument("--peers-on", default="mjlab", help="corpus that the other programs read as well")
    parser.add_argument(
        "--workers-on", nargs="*", default=["rsl-rl", "skrl", "torch"], help="corpora for --jobs 1, 2, 8"
    )
    parser.add_argument("--extra", action="append", default=[], metavar="NAME=FOLDER", help="one more corpus")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only these; other figures stay")
    parser.add_argument("--output", type=Path, default=HERE, help="folder for results.json and cost.svg")
    arguments = parser.parse_args()
    corpora = [c for c in _corpora(arguments.extra) if not arguments.only or c.name in arguments.only]
    rows = _others(arguments.output, {corpus.name for corpus in corpora}) if arguments.only else []
    with tempfile.TemporaryDirectory() as folder:
        for corpus, what, cost in _all(corpora, Path(folder), arguments):
            lines, files = corpus.lines, len(corpus.files)
            rows.append({"corpus": corpus.name, "lines": lines, "files": files, "what": what, **asdict(cost)})
            print(f"{corpus.name:12} {what:32} {_shown(cost)}", flush=True)
            _save(rows, arguments.output)  # a run of hours that is stopped has still measured something
    print()
    print(table(rows))


def _all(corpora: list[Corpus], folder: Path, arguments: argparse.Namespace) -> Iterator[tuple[Corpus, str, Cost]]:
    for corpus in corpora:
        for what, cost in _figures(corpus, folder, arguments):
            yield corpus, what, cost
        for what, cost in _workers(corpus, folder, arguments):
            yield corpus, what, cost
    for corpus in corpora:
        if arguments.tools is not None and corpus.name == arguments.peers_on:
            for name, peer in commands.peers(arguments.tools, folder).items():
                yield corpus, name, measure(peer(corpus), corpus.base, {}, arguments.runs, arguments.limit)


def _others(folder: Path, names: set[str]) -> list[dict[str, object]]:
    """Figures of an earlier run about corpora that this one leaves alone."""
    file = folder / "results.json"
    earlier = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
    return [row for row in earlier if row["corpus"] not in names]


def _save(rows: list[dict[str, object]], folder: Path) -> None:
    result = {"date": time.strftime("%Y-%m-%d"), "processors": os.cpu_count(), "rows": rows}
    rows = sorted(rows, key=lambda row: int(str(row["lines"])))
    (folder / "results.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (folder / "cost.svg").write_text(_plot(rows), encoding="utf-8")


def _corpora(extra: list[str]) -> list[Corpus]:
    cache = cache_folder()
    found = []
    for package in PACKAGES:
        if not missing(cache, package):
            entries = next(iter(package.entries.values()), ())
            roots = tuple(cache / root for root in package.roots)
            found.append(Corpus(package.name, cache / package.base, roots, entries))
    for text in extra:
        name, _, folder = text.partition("=")
        place = Path(folder).resolve()
        found.append(Corpus(name, place.parent, (place,), ()))
    return sorted(found, key=lambda corpus: corpus.lines)


def _figures(corpus: Corpus, folder: Path, arguments: argparse.Namespace) -> Iterator[tuple[str, Cost]]:
    cache = folder / f"cache-{corpus.name}"
    environment = {"PYTHONPATH": str(ROOT), "CAPAUDIT_CACHE_DIR": str(cache), "PYTHONHASHSEED": "0"}

    def cost(command: list[str], before: Callable[[], None] = lambda: None) -> Cost:
        return measure(command, corpus.base, environment, arguments.runs, arguments.limit, before)

    yield "bare ast.parse", cost(commands.parse(corpus))
    command = commands.check(corpus, "--output", "json")
    cold = cost(command, lambda: shutil.rmtree(cache, ignore_errors=True))
    yield "check, empty cache", cold
    if cold.ended:
        yield "check, nothing changed", cost(command)
        yield "check, another comment", cost(*_changed(corpus, folder, "# {}"))
        if corpus.name == arguments.peers_on:
            yield "check, another function", cost(*_changed(corpus, folder, "def added_{}(): return 1"))


def _workers(corpus: Corpus, folder: Path, arguments: argparse.Namespace) -> Iterator[tuple[str, Cost]]:
    """One check of several boundaries with 1, 2 and 8 processes, whose outputs have to be the same."""
    entries = tuple(dict.fromkeys(entry for package in PACKAGES for entry in _entries(package, corpus)))
    if corpus.name not in arguments.workers_on or len(entries) == 1:
        return
    several = Corpus(corpus.name, corpus.base, corpus.roots, entries)
    said: set[bytes] = set()
    for jobs in (1, 2, 8):
        with open(folder / "out", "w+b") as output:
            command = commands.check(several, "--output", "json", "--no-cache", "--jobs", str(jobs))
            environment = {"PYTHONPATH": str(ROOT)}
            cost = measure(command, corpus.base, environment, 1, arguments.limit, output=output.fileno())
            output.seek(0)
            said.add(output.read())
        yield f"check, {len(entries) or 'found'} boundaries, --jobs {jobs}", cost
        if len(said) > 1:
            raise RuntimeError(f"{corpus.name}: the output with --jobs {jobs} is another one")


def _entries(package: Package, corpus: Corpus) -> list[str]:
    return [entry for run in package.entries.values() for entry in run] if package.name == corpus.name else []


def _changed(corpus: Corpus, folder: Path, line: str) -> tuple[list[str], Callable[[], None]]:
    """A check of a copy, one file of which gets another last line before each run; the first run is not counted."""
    copy = folder / f"copy-{corpus.name}-{len(line)}"
    roots = []
    for root in corpus.roots:
        shutil.copytree(root, copy / root.name)
        roots.append(copy / root.name)
    copied = Corpus(corpus.name, copy, tuple(roots), corpus.entries)
    file = max(copied.files, key=lambda file: (file.stat().st_size < 20_000, file.stat().st_size))

    def edit() -> None:
        text = file.read_text(encoding="utf-8")
        file.write_text(f"{text}\n{line.format(time.time_ns())}\n", encoding="utf-8")

    command = commands.check(copied, "--output", "json")
    environment = {"PYTHONPATH": str(ROOT), "CAPAUDIT_CACHE_DIR": str(folder / f"cache-{corpus.name}")}
    measure(command, corpus.base, environment, 1, 3600)
    return command, edit


def _shown(cost: Cost) -> str:
    return f"{cost.cpu:8.2f} s cpu {cost.wall:8.2f} s wall" if cost.ended else f"cut off after {cost.wall:.0f} s"


def table(rows: list[dict[str, object]]) -> str:
    """Return the figures as a Markdown table: a row per corpus or program, processor seconds."""
    lines = ["| corpus | lines | program | CPU seconds | against ast.parse |", "|---|--:|---|--:|--:|"]
    bare: dict[object, float] = {}
    for row in rows:
        cpu = float(str(row["cpu"]))
        if row["what"] == "bare ast.parse":
            bare[row["corpus"]] = cpu
        shown = f"{cpu:.2f}" if row["ended"] else f"> {cpu:.0f}"
        ratio = f"{cpu / bare[row['corpus']]:.1f}" if row["corpus"] in bare else ""
        lines.append(f"| {row['corpus']} | {row['lines']:,} | {row['what']} | {shown} | {ratio} |")
    return "\n".join(lines)


def _plot(rows: list[dict[str, object]]) -> str:
    series: dict[str, list[tuple[float, float, str]]] = {}
    for row in rows:
        if str(row["what"]).startswith(("bare", "check")) and row["ended"]:
            point = (float(str(row["lines"])), max(float(str(row["cpu"])), 0.01), str(row["corpus"]))
            series.setdefault(str(row["what"]), []).append(point)
    return svg(series, "Processor seconds against lines of Python")


if __name__ == "__main__":
    main()
