"""Random edits of a program's files: some that no audit can notice, some that it has to."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

Edit = Callable[[list[str], random.Random], list[str]]

TELLING = (
    *("# capaudit: ignore[CAP103] -- measured", "# capaudit: ignore[CAP2]", "# capaudit: boundary", "# capaudit"),
    *("# capaudit: cold-path -- set-up", "# capaudit: completion-owned -- log", "# with torch.cuda.graph(graph):"),
    *("# wp.ScopedCapture()", "# set_default_device('cuda')", "# torch.distributions set_default_validate_args(False)"),
    *("# graph.register_generator_state(rng)", "# torch.Generator(device='cuda')", "# def step(self): reset()"),
    *("# self.left[ids] = 0", "# self.buffer = other", "# setattr(self, name, value)", "# buffer.resize_(3)"),
    *("# zip(joint_names, actuator_names)", "# find_joints(names, preserve_order=True)", "# checkpoints nn"),
    *("# except Exception: graph.replay()", "# partial(compute", "# joints.index(name) if name in joints else 0"),
)


def edits(words: list[str]) -> list[Edit]:
    """Return every kind of edit; ``words`` are identifiers of the program."""

    def comment(rng: random.Random) -> str:
        return rng.choice([*TELLING, f"# {' '.join(rng.sample(words, 3))}", "# a note", "#"])

    def at(lines: list[str], rng: random.Random) -> int:
        return rng.randrange(len(lines) + 1)

    def one(lines: list[str], rng: random.Random) -> int:
        return rng.randrange(max(len(lines), 1))

    def insert_comment(lines: list[str], rng: random.Random) -> list[str]:
        place = at(lines, rng)
        indent = re.match(r"\s*", lines[place])[0] if place < len(lines) else ""  # type: ignore[index]
        return [*lines[:place], rng.choice(["", indent]) + comment(rng), *lines[place:]]

    def insert_blank(lines: list[str], rng: random.Random) -> list[str]:
        place = at(lines, rng)
        return [*lines[:place], *[""] * rng.randrange(1, 4), *lines[place:]]

    def trailing_comment(lines: list[str], rng: random.Random) -> list[str]:
        place = one(lines, rng)
        return [*lines[:place], *[f"{line}  {comment(rng)}" for line in lines[place : place + 1]], *lines[place + 1 :]]

    def remove(lines: list[str], rng: random.Random) -> list[str]:
        idle = [i for i, line in enumerate(lines) if not line.strip() or line.lstrip().startswith("#")]
        place = rng.choice(idle) if idle else one(lines, rng)
        return [*lines[:place], *lines[place + 1 :]]

    def repeat(lines: list[str], rng: random.Random) -> list[str]:
        place = one(lines, rng)
        return [*lines[: place + 1], *lines[place:]]

    def rename(lines: list[str], rng: random.Random) -> list[str]:
        place = one(lines, rng)
        changed = re.sub(r"\b[a-z_]{3,}\b", lambda m: rng.choice([m[0], m[0], rng.choice(words)]), lines[place])
        return [*lines[:place], changed, *lines[place + 1 :]]

    def document(lines: list[str], rng: random.Random) -> list[str]:
        return [
            line.replace('"""', f'"""{comment(rng)[2:]} ', 1) if '"""' in line and rng.random() < 0.3 else line
            for line in lines
        ]

    def widen(lines: list[str], rng: random.Random) -> list[str]:
        place = one(lines, rng)
        return [*lines[:place], lines[place].replace(" = ", "  =  ").replace(", ", ",  "), *lines[place + 1 :]]

    def append(lines: list[str], rng: random.Random) -> list[str]:
        name = rng.choice(words)
        return [
            *lines,
            "",
            "",
            f"def extra_{rng.randrange(99)}(value):",
            f"    return value.{name}({rng.choice(words)})",
        ]

    def join(lines: list[str], rng: random.Random) -> list[str]:
        place = one(lines, rng)
        return [*lines[:place], f"{lines[place]};", *lines[place + 1 :]]

    idle: list[Edit] = [insert_comment, insert_blank, trailing_comment, remove, document]
    return [*idle, *idle, repeat, rename, widen, append, join]


def apply(folder: Path, rng: random.Random) -> Path:
    """Edit one file at random and return it."""
    files = sorted(folder.rglob("*.py"))
    words = sorted({word for file in files for word in re.findall(r"[a-z_]{3,}", file.read_text(encoding="utf-8"))})
    file = rng.choice(files)
    lines = file.read_text(encoding="utf-8").split("\n")
    for _ in range(rng.randrange(1, 3)):
        lines = rng.choice(edits(words))(lines, rng) or [""]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file
