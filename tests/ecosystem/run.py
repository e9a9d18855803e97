"""Audit published packages and compare with the last accepted run.

``python -m tests.ecosystem.run [NAME ...] [--update]``: every pinned package (or the named ones, also
``package/run``) is audited from its real entry points and once with discovery. Printed per run: functions
reached, calls, unresolved share, operations by class, findings by hazard, seconds, and what differs from
``accepted.json``. ``--update`` accepts. Exit status: 0 as accepted, 1 different, 2 a run failed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import accepted
from .fetch import VARIABLE, MissingPackageError, cache_folder, provide
from .measure import Measurement, measure, runs
from .packages import PACKAGES

AS_ACCEPTED, DIFFERENT, FAILED = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for and print it."""
    options = _parse(arguments)
    cache = cache_folder()
    known = accepted.load()
    fresh: dict[str, Measurement] = {}
    status = AS_ACCEPTED
    print(f"sources: {cache}")
    for package in PACKAGES:
        wanted = {n: e for n, e in runs(package).items() if _wanted(options.names, package.name, n)}
        if not wanted:
            continue
        try:
            provide(cache, package)
        except MissingPackageError as error:
            print(f"\n{package.name}: {error}")
            status = FAILED
            continue
        print(f"\n{', '.join(f'{wheel.distribution} {wheel.version}' for wheel in package.wheels)}")
        for name, entries in wanted.items():
            key = f"{package.name}/{name}"
            fresh[key] = measurement = measure(package, entries, cache, options.limit)
            print("\n".join(_described(key, measurement, options.causes)), flush=True)
            changes = _changes(known.get(key), measurement)
            for change in changes[: options.changes]:
                print(f"    {change}")
            if len(changes) > options.changes:
                print(f"    ... and {len(changes) - options.changes} more (--changes N shows more)")
            status = max(status, FAILED if measurement.failure else DIFFERENT if changes else AS_ACCEPTED)
    if options.update:
        accepted.save(known | {key: m for key, m in fresh.items() if not m.failure})
        print(f"\naccepted: {accepted.FILE.name}")
        return FAILED if status == FAILED else AS_ACCEPTED
    return status


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.ecosystem.run",
        description="Audit pinned packages and compare with the last accepted run.",
        epilog=f"{VARIABLE} names the folder with the unpacked wheels; what it lacks is downloaded into it.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a package, or package/run; default: everything")
    parser.add_argument("--update", action="store_true", help="accept this run")
    parser.add_argument("--limit", type=float, default=300.0, metavar="SECONDS", help="stop one audit after that long")
    parser.add_argument("--changes", type=int, default=20, metavar="N", help="print at most N changes per run")
    parser.add_argument("--causes", type=int, default=3, metavar="N", help="print the N top causes of unresolved calls")
    options = parser.parse_args(arguments)
    valid = {p.name for p in PACKAGES} | {f"{p.name}/{run}" for p in PACKAGES for run in runs(p)}
    for name in options.names:
        if name not in valid:
            parser.error(f"no package or run {name!r}; there are {', '.join(sorted(valid))}")
    return options


def _wanted(names: Sequence[str], package: str, run: str) -> bool:
    return not names or package in names or f"{package}/{run}" in names


def _changes(old: Measurement | None, new: Measurement) -> list[str]:
    if old is None:
        return [f"failed: {new.failure}" if new.failure else "not accepted before"]
    return accepted.differences(old, new)


def _described(key: str, measurement: Measurement, causes: int) -> list[str]:
    if measurement.failure:
        return [f"  {key}: FAILED {measurement.failure}"]
    lines = [
        f"  {key}: {measurement.boundaries} boundaries, {measurement.functions} functions, {measurement.calls} calls, "
        f"unresolved {measurement.unresolved} ({measurement.share:.1%}), {measurement.seconds:.1f} s",
        f"    {measurement.operations} operations: {_listed(measurement.classes)}",
        f"    findings: {_listed(measurement.hazards)} ({_listed(measurement.confidence)})",
    ]
    lines.extend(f"    unresolved {count}x: {cause}" for count, cause in measurement.causes[:causes])
    return lines


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


if __name__ == "__main__":
    sys.exit(main())
