"""``module:factory`` and ``path/file.py:make``: anything that gives a step."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from capaudit.model import InputError
from capaudit.probe.targets.base import Target, TargetOptions


def build_factory(module_name: str, factory_name: str) -> Callable[[TargetOptions], Target]:
    """Return the builder. The factory is called with those of ``device``, ``worlds``, ``seed`` that it takes.

    It returns a callable without arguments or an object with ``step()``. A module-level ``poke(fn, i)`` is
    called before step ``i`` and may change host state. Raises InputError where there is no such factory.
    """

    def build(options: TargetOptions) -> Target:
        module = _load_file(module_name) if module_name.endswith(".py") else _load_module(module_name)
        if "warp" in sys.modules:
            # Warp's conversions from torch do not initialise it, its other calls do.
            sys.modules["warp"].init()
        factory = getattr(module, factory_name, None)
        if not callable(factory):
            raise InputError(f"{module_name} has no callable {factory_name!r}", place=module_name)
        step = factory(**_accepted(factory, options))
        if not callable(step):
            step = getattr(step, "step", None)
        if not callable(step):
            raise InputError(
                f"{factory_name} returned neither a callable nor an object with step()",
                place=f"{module_name}:{factory_name}",
            )
        poke = getattr(module, "poke", None)
        uses_warp = "warp" in sys.modules
        return Target(
            name=f"{module_name}:{factory_name}",
            step=step,
            owner=step,
            roots=tuple((Path(root), Path(root).name) for root in options.roots) or (_own_root(module),),
            capture=options.capture or ("shared" if uses_warp else "torch"),
            before_step=None if poke is None else lambda index: poke(step, index),
            uses_warp=uses_warp,
            warmup=3 if options.warmup is None else options.warmup,
        )

    return build


def _load_module(name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InputError(f"there is no module {name!r}", remedy="name it as in an import statement") from None
        raise


def _load_file(name: str) -> ModuleType:
    path = Path(name).resolve()
    if not path.is_file():
        raise InputError("there is no such file", place=name)
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    # Warp and dataclasses look a kernel's or a class's module up by name.
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    specification.loader.exec_module(module)
    return module


def _accepted(factory: Callable[..., Any], options: TargetOptions) -> dict[str, Any]:
    offered = {
        "device": options.device,
        "worlds": options.worlds,
        "num_envs": options.worlds,
        "seed": options.seed,
    }
    parameters = inspect.signature(factory).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return {name: offered[name] for name in ("device", "worlds", "seed")}
    return {name: value for name, value in offered.items() if name in parameters}


def _own_root(module: ModuleType) -> tuple[Path, str]:
    path = Path(str(module.__file__)).resolve()
    top = path.parent
    while (top / "__init__.py").exists():
        top = top.parent
    # A module inside a package: the folder of the outermost package; a single file: its own folder.
    package = path.parent if top == path.parent else next(p for p in path.parents if p.parent == top)
    return package, package.name
