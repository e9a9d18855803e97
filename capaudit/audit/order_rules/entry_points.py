"""Programs that replay a policy, and files that land where checkpoints are looked for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from capaudit.audit.order_rules.support import Hit, SourceFile, keyword_of, last_part, words
from capaudit.model import Confidence
from capaudit.program import Program
from capaudit.program.symbols import dotted_text

_REPLAYS = frozenset({"play", "eval", "evaluate", "evaluation", "export", "deploy", "inference", "rollout", "enjoy"})
_TRAINS = frozenset({"train", "learn", "fit", "resume"})
_SPEAKS_OF_ORDER = re.compile(
    r"joint_ordering|body_ordering|ordering_source_path|from_checkpoint|capaudit|ordering\.yaml|joint_names"
)
_FOLDER = re.compile(r"(?:^|[/\\])(?:checkpoints|nn)(?:[/\\]|$)")
_SIDE = re.compile(r"\.(?:ya?ml|json|jsonl|txt|csv|md|toml|ini|log|npz|npy|html|xml|png|mp4)$")
_WRITERS = frozenset(
    {"open", "write_text", "write_bytes", "savez", "save", "dump_yaml", "dump_pickle", "to_csv", "savetxt"}
)


# -- ORD013 -------------------------------------------------------------------------------------------------------


def replay_without_record(file: SourceFile, program: Program) -> Iterator[Hit]:
    """A play, evaluate or export entry point that loads a checkpoint and never looks at an order."""
    stem = file.module.name.rpartition(".")[2]
    if file.module.source.search(_SPEAKS_OF_ORDER):
        return
    is_script = '__main__"' in file.module.source or "__main__'" in file.module.source
    for call in file.all(ast.Call):
        if not _loads_checkpoint(call):
            continue
        function = file.function_of(call)
        named = words(getattr(function, "name", "")) & _REPLAYS
        trains = words(getattr(function, "name", "")) & _TRAINS
        if not trains and (named or (words(stem) & _REPLAYS and (is_script or function is not None))):
            yield Hit(
                call,
                "a policy is loaded for replay and nothing here knows the joint order that it was trained against",
            )
            return


def _loads_checkpoint(call: ast.Call) -> bool:
    name = last_part(call.func)
    if name in ("load_checkpoint", "load_from_checkpoint", "InferenceSession", "load_policy", "restore"):
        return True
    if name != "load" or not isinstance(call.func, ast.Attribute):
        return False
    owner = last_part(call.func.value)
    if owner == "torch":
        return True
    return bool({"runner", "agent", "policy", "model", "ppo", "sac", "jit"} & words(owner)) or owner in (
        "PPO",
        "SAC",
        "TD3",
    )


# -- ORD019 -------------------------------------------------------------------------------------------------------


def sidecar(file: SourceFile, program: Program) -> Iterator[Hit]:
    """A file that is no checkpoint is written into a folder where every file is taken for one."""
    for call in file.all(ast.Call):
        place = _written_place(call)
        path = _path_text(file, call, place) if place is not None else None
        if path is not None and _FOLDER.search(path.rpartition("/")[0]) and _SIDE.search(path):
            yield Hit(
                call,
                f"{path.rpartition('/')[2]} is written into a folder of checkpoints, where 'latest' takes any file "
                "for one",
                Confidence.CERTAIN if "{}" not in path else Confidence.LIKELY,
            )


def _written_place(call: ast.Call) -> ast.expr | None:
    """The path that a call writes to, else ``None``."""
    name = last_part(call.func)
    if name not in _WRITERS:
        return None
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    first, second = (*call.args, None, None)[:2]
    if name in ("write_text", "write_bytes"):
        return owner
    if name == "save":
        return second  # torch.save(value, path)
    if name != "open":
        return first
    # open(path, mode), io.open(path, mode), or path.open(mode)
    of_path = owner is not None and not (isinstance(owner, ast.Name) and owner.id in ("io", "os", "gzip", "codecs"))
    mode = keyword_of(call, "mode") or (first if of_path else second)
    writes = isinstance(mode, ast.Constant) and isinstance(mode.value, str) and set(mode.value) & set("wax")
    return (owner if of_path else first) if writes else None


def _path_text(file: SourceFile, call: ast.Call, node: ast.expr, depth: int = 0) -> str | None:
    """A path expression with ``{}`` for what is not known, else ``None``."""
    if depth > 6:
        return None
    if isinstance(node, ast.Constant):
        return str(node.value) if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Add)):
        left = _path_text(file, call, node.left, depth + 1) or "{}"
        right = _path_text(file, call, node.right, depth + 1) or "{}"
        return f"{left}/{right}" if isinstance(node.op, ast.Div) else left + right
    if isinstance(node, ast.Call):
        name = last_part(node.func)
        if name in ("join", "Path", "joinpath", "str", "PurePath", "fspath", "abspath"):
            parts = [_path_text(file, call, argument, depth + 1) or "{}" for argument in node.args]
            if name == "joinpath" and isinstance(node.func, ast.Attribute):
                parts.insert(0, _path_text(file, call, node.func.value, depth + 1) or "{}")
            return "/".join(parts)
        return None
    name = last_part(node)
    if not name:
        return None
    function = file.function_of(call)
    values = file.bound_values(dotted_text(node), function or file.module.tree)
    return _path_text(file, call, values[0], depth + 1) if len(values) == 1 else "{}"
