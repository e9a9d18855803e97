"""What a change brought: the audit of an earlier revision, taken from git without touching the checkout.

Findings are compared and not lines: a change in one function may make a line of another a hazard, and a
moved line is no new one.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from capaudit.audit.baseline import Comparison, compare, entries_of
from capaudit.audit.engine import audit, find_boundaries
from capaudit.audit.options import AuditOptions
from capaudit.audit.selection import select
from capaudit.model import BaselineEntry, Boundary, InputError, Result, UnresolvedEntryError

_TIMEOUT = 120.0


def compare_with_revision(result: Result, options: AuditOptions, revision: str) -> Comparison:
    """Return what of the result's findings is new since ``revision`` and what was there.

    Errors: ``InputError`` where there is no git, no repository or no such revision.
    """
    with _earlier(options, revision) as before:
        if before is None:
            earlier: Result | None = None
        else:
            earlier = select(_audit_what_was_there(before), before.configuration, before.working_directory)
        folder = options.working_directory
        entries: tuple[BaselineEntry, ...] = ()
        if earlier is not None and before is not None:
            entries = entries_of(earlier, before.working_directory, before.working_directory, "there before", "")
    return compare(result, entries, folder, folder)


@contextmanager
def _earlier(options: AuditOptions, revision: str) -> Iterator[AuditOptions | None]:
    """Yield the options for the tree of ``revision``; ``None`` where it holds none of the audited paths."""
    top = _repository(options.working_directory)
    commit = _commit(top, revision)
    roots = [_inside(options.working_directory / path, top) for path in options.paths]
    with tempfile.TemporaryDirectory(prefix="capaudit-") as name:
        tree = Path(name).resolve() / top.name
        _extract(top, commit, tree)
        there = tuple(tree / root for root in roots if (tree / root).exists())
        if not there:
            yield None
            return
        folder = tree / _inside(options.working_directory, top)
        folder.mkdir(parents=True, exist_ok=True)
        configuration = options.configuration
        root = configuration.root
        if root is not None and root.resolve().is_relative_to(top):
            root = tree / _inside(root, top)
        knowledge = tuple(str(file) for file in configuration.knowledge_files())
        yield replace(
            options,
            paths=there,
            working_directory=folder,
            configuration=replace(configuration, root=root, knowledge=knowledge),
            unsaved={},
            collect_operations=False,
        )


def _audit_what_was_there(options: AuditOptions) -> Result:
    """Audit with the boundaries that existed then: one that did not has nothing to compare with."""
    try:
        return audit(options)
    except UnresolvedEntryError:
        pass
    entries = tuple(entry for entry in options.entries if _resolves(replace(options, entries=(entry,))))
    if options.entries and not entries:
        return audit(replace(options, entries=(), configuration=replace(options.configuration, boundaries=())))
    declared = tuple(item for item in options.configuration.boundaries if _resolves(_with(options, (item,))))
    return audit(replace(_with(options, declared), entries=entries))


def _with(options: AuditOptions, boundaries: tuple[Boundary, ...]) -> AuditOptions:
    return replace(options, configuration=replace(options.configuration, boundaries=boundaries))


def _resolves(options: AuditOptions) -> bool:
    try:
        find_boundaries(options)
    except (UnresolvedEntryError, InputError):
        return False
    return True


def _repository(folder: Path) -> Path:
    text = _git(folder, ["rev-parse", "--show-toplevel"], "this folder is in no git repository")
    return Path(text.decode(errors="surrogateescape").rstrip("\n")).resolve()


def _commit(top: Path, revision: str) -> str:
    words = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    remedy = "name a branch, tag or commit that `git rev-parse` knows"
    return _git(top, words, f"the repository has no revision {revision!r}", remedy).decode().strip()


def _extract(top: Path, commit: str, tree: Path) -> None:
    """Write the Python files of a commit below ``tree``; links and other repositories are left out."""
    listing = _git(top, ["ls-tree", "-r", "-z", "--full-tree", commit], "the revision cannot be read")
    wanted: list[tuple[str, bytes]] = []
    for line in listing.split(b"\0"):
        head, tab, name = line.partition(b"\t")
        if tab and head.startswith(b"100") and name.endswith(b".py"):
            wanted.append((head.split()[2].decode(), name))
    asked = "\n".join(mark for mark, _ in wanted).encode() + b"\n"
    data = _git(top, ["cat-file", "--batch"], "the revision cannot be read", stdin=asked) if wanted else b""
    position = 0
    for _, name in wanted:
        end = data.index(b"\n", position)
        size = int(data[position:end].split()[2])
        file = tree / name.decode(errors="surrogateescape")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data[end + 1 : end + 1 + size])
        position = end + 1 + size + 1


def _inside(path: Path, top: Path) -> Path:
    resolved = path.resolve()
    if not resolved.is_relative_to(top):
        raise InputError(
            "it lies outside the repository, which knows nothing of its past",
            place=str(path),
            remedy=f"audit paths below {top} with --since, or leave --since out",
        )
    return resolved.relative_to(top)


def _git(folder: Path, words: Sequence[str], problem: str, remedy: str | None = None, stdin: bytes = b"") -> bytes:
    try:
        done = subprocess.run(["git", *words], cwd=folder, input=stdin, capture_output=True, timeout=_TIMEOUT)
    except FileNotFoundError:
        raise InputError("--since needs git, and there is none", remedy="install git, or leave --since out") from None
    except ValueError:  # a null byte
        raise InputError(problem, place=str(folder), remedy=remedy) from None
    except subprocess.TimeoutExpired:
        raise InputError(f"git did not answer within {_TIMEOUT:.0f} s", place=str(folder)) from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        detail = f" (git: {said[0].removeprefix('error: ').removeprefix('fatal: ')})" if said else ""
        raise InputError(f"{problem}{detail}", place=str(folder), remedy=remedy)
    return done.stdout
