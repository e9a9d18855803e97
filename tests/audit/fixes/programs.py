"""Small programs for the fixes: built, fixed, and run before and after on the CPU."""

from __future__ import annotations

from pathlib import Path

from capaudit.audit import AuditOptions, audit
from capaudit.audit.fixes.applying import Rewrite, rewrites
from capaudit.model import Finding

HEAD = """\
import torch
import warp as wp


class Robot:
    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.x = torch.randn(64, device="cuda")
        self.y = torch.randn(64, device="cuda")
        self.rows = torch.randn(64, 3, device="cuda")
        self.cube = torch.randn(64, 3, 2, device="cuda")
        self.count = torch.ones(64, dtype=torch.int64, device="cuda")
        self.flag = torch.zeros(64, dtype=torch.bool, device="cuda")
        self.half = torch.ones(64, dtype=torch.float16, device="cuda")
        self.level = torch.tensor(0.25, device="cuda")
        self.ids = torch.randint(0, 64, (7,), device="cuda")
        self.short = torch.randint(0, 64, (7,), dtype=torch.int32, device="cuda")
        self.log = {}
"""


def program(body: str, *, parameters: str = "") -> str:
    """Return a class whose captured ``step`` runs ``body``."""
    lines = "".join(f"        {line}\n" if line else "\n" for line in body.strip("\n").split("\n"))
    return f"{HEAD}\n    def step(self{parameters}) -> None:  # capaudit: boundary\n{lines}"


def findings(folder: Path, source: str) -> tuple[Finding, ...]:
    (folder / "robot.py").write_text(source, encoding="utf-8")
    options = AuditOptions((folder / "robot.py",), working_directory=folder, collect_fixes=True)
    return audit(options).findings


def fixed(folder: Path, source: str, *, unsafe: bool = False) -> Rewrite | None:
    """Return what the fixes of a program make of it, or ``None`` where none is proposed."""
    found = rewrites(findings(folder, source), (), folder, unsafe=unsafe)
    assert len(found) <= 1
    return found[0] if found else None


def fixed_body(folder: Path, body: str, *, unsafe: bool = False, parameters: str = "") -> str | None:
    """Return the fixed body of ``step``, without its indentation; ``None`` where nothing is proposed."""
    rewrite = fixed(folder, program(body, parameters=parameters), unsafe=unsafe)
    if rewrite is None:
        return None
    assert not rewrite.dropped
    lines = rewrite.after.decode().split("\n")
    start = next(number for number, line in enumerate(lines) if "# capaudit: boundary" in line) + 1
    return "\n".join(line[8:] for line in lines[start:]).rstrip("\n")
