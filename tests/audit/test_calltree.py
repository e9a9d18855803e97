from __future__ import annotations

from pathlib import Path

from capaudit.audit import AuditOptions, audit
from capaudit.model import Hop, ReachedFunction

PROGRAM = """\
import torch


class Robot:
    @property
    def height(self) -> torch.Tensor:
        return self.position[:, 2]

    def reward(self) -> torch.Tensor:
        return self.height + self.scale()

    def scale(self) -> torch.Tensor:
        return self.height * 2.0

    def step(self) -> torch.Tensor:  # capaudit: boundary
        return self.reward()

    def unused(self) -> None: ...
"""


def functions(folder: Path) -> dict[str, ReachedFunction]:
    (folder / "robot.py").write_text(PROGRAM, encoding="utf-8")
    result = audit(AuditOptions((folder,), working_directory=folder, collect_operations=True))
    return {function.owner: function for function in result.functions}


def test_every_reached_function_names_its_call_sites_and_the_shortest_path_leads(tmp_path: Path) -> None:
    found = functions(tmp_path)
    assert list(found) == ["robot.Robot.step", "robot.Robot.reward", "robot.Robot.height", "robot.Robot.scale"]
    assert found["robot.Robot.step"].callers == ()
    assert found["robot.Robot.height"].callers == (
        Hop("robot.Robot.reward", "robot.py", 10),
        Hop("robot.Robot.scale", "robot.py", 13),
    )


def test_a_functions_span_begins_with_its_decorators(tmp_path: Path) -> None:
    place = functions(tmp_path)["robot.Robot.height"].place
    assert (place.line, place.end_line) == (5, 7)
