"""The whole life of a gate in one repository, as a team would see it from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import Outcome
from tests.gate.evidence import event, ran, saved
from tests.gate.evidence import run as run_of
from tests.gate.robot import commit, edit, project

Run = Callable[..., Outcome]


def report(run_command: Run, *arguments: str) -> tuple[int, Any]:
    outcome = run_command("check", "--output", "json", *arguments)
    assert outcome.status in (0, 1), outcome.err
    return outcome.status, json.loads(outcome.out)


def codes(document: Any, key: str = "findings") -> list[str]:
    return sorted(finding["code"] for finding in document[key])


def test_a_repository_goes_through_its_whole_life(folder: Path, run: Run) -> None:
    command = run
    file = project(folder)
    commit(folder, "start")

    status, first = report(command)
    assert (status, codes(first)) == (1, ["CAP101", "CAP101", "CAP201"])

    assert command("baseline", "write", "--reason", "at adoption").status == 0
    status, accepted = report(command)
    assert (status, codes(accepted), codes(accepted, "baselined")) == (0, [], ["CAP101", "CAP101", "CAP201"])

    # Moved code: lines, then another function, then another file.
    edit(file, "import torch\n", "import torch\n\n# Carriers live on the device.\n\n")
    edit(file, "        return self.norm()\n", "        return self.length()\n")
    edit(file, "def norm(", "def length(")
    assert report(command)[0] == 0
    moved = file.rename(file.with_name("environment.py"))
    status, after_move = report(command)
    assert (status, len(after_move["absent"])) == (0, 0)

    # A fixed finding shrinks the file, and cannot come back.
    edit(moved, "        done = torch.nonzero(self.x)\n", "")
    status, fixed = report(command)
    assert (status, [entry["code"] for entry in fixed["absent"]]) == (0, ["CAP201"])
    assert command("baseline", "update").status == 0
    assert len(json.loads((folder / "capaudit-baseline.json").read_text())["entries"]) == 2
    edit(moved, "        if self.x.any():\n", "        done = torch.nonzero(self.x)\n        if self.x.any():\n")
    status, back = report(command)
    assert (status, codes(back)) == (1, ["CAP201"])
    assert back["findings"][0]["baseline_state"] == "new"

    # A suppression without a reason does not count, one with a reason does.
    edit(moved, "nonzero(self.x)\n", "nonzero(self.x)  # capaudit: ignore[CAP201]\n")
    assert codes(report(command)[1]) == ["CAP201", "CAP903"]
    edit(moved, "ignore[CAP201]\n", "ignore[CAP201] -- replaced before capture\n")
    status, silenced = report(command)
    assert (status, codes(silenced), codes(silenced, "suppressed")) == (0, [], ["CAP201"])
    assert silenced["suppressed"][0]["suppression"]["reason"] == "replaced before capture"

    # Evidence: what the device confirms stays as it is, what it refutes is told, kept or suppressed.
    source = moved.read_text()
    document = run_document(source)
    evidence = saved(document, folder / "evidence" / "trace.json")
    status, observed = report(command, "--evidence", str(evidence))
    said = {finding["text"]: finding["evidence"] for finding in texts(observed)}
    assert said == {"self.x.norm().item()": "confirmed", "self.x.any()": "refuted", "torch.nonzero(self.x)": "refuted"}
    assert (status, codes(observed)) == (1, ["CAP906", "CAP906"])

    # A new finding fails, and only the new one is told of since the last commit.
    commit(folder, "settled")
    edit(moved, "            self.x.add_(1.0)\n", "            self.x.add_(1.0)\n            self.x.cpu()\n")
    status, since = report(command, "--since", "HEAD", "--no-baseline")
    assert (status, codes(since)) == (1, ["CAP102"])

    sarif = command("check", "--output", "sarif", "--evidence", str(evidence))
    results = json.loads(sarif.out)["runs"][0]["results"]
    assert {result["ruleId"] for result in results} >= {"CAP101", "CAP102", "CAP201"}


def run_document(source: str) -> Any:
    seen = event(source, "norm().item()", "return self.length()", file="environment.py")
    return run_of(seen, sources=ran(source, file="environment.py"))


def texts(document: Any) -> list[Any]:
    """Every finding about an operation, with the operation's text from its fingerprint's place."""
    lines = Path("robots/environment.py").read_text().splitlines()
    found = []
    for key in ("findings", "suppressed", "baselined"):
        for finding in document[key]:
            if finding["hazard"] is not None:
                line = lines[finding["line"] - 1]
                found.append({**finding, "text": line[finding["column"] - 1 : finding["end_column"] - 1]})
    return found
