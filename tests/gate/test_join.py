"""Findings beside runs: what confirms, what refutes, what says nothing, and what nobody predicted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from capaudit.audit import AuditOptions, audit
from capaudit.audit.configuration import Configuration
from capaudit.evidence import Evidence
from capaudit.model import EvidenceVerdict, Result
from tests.gate.evidence import event, ran, run

ENV = """\
import torch


class Env:
    def __init__(self) -> None:
        self.x = torch.zeros(8, device="cuda")
        self.total = 0.0

    def norm(self) -> float:
        return self.x.norm().item()

    def reset(self, ids: torch.Tensor) -> None:
        self.x[ids] = 0.0

    def count(self) -> None:
        self.ticks = 0
        self.x.add_(1.0)

    def helper(self) -> torch.Tensor:
        return self.x.cumsum(0)

    def step(self, ids: torch.Tensor) -> float:  # capaudit: boundary
        self.reset(ids)
        done = torch.nonzero(self.x)
        flag = ids.shape[0] > 3 and bool(self.x[0] > 0)
        self.helper()
        self.count()
        return self.norm()
"""
STEP = "return self.norm()"


def audited(folder: Path, *documents: Evidence, source: str = ENV, **settings: object) -> Result:
    package = folder / "robots"
    package.mkdir(exist_ok=True)
    (package / "env.py").write_text(source, encoding="utf-8")
    named = tuple((f"run-{index}.json", document) for index, document in enumerate(documents))
    options = AuditOptions((package,), working_directory=folder, evidence=named)
    return audit(replace(options, **settings))  # type: ignore[arg-type]


def verdicts(result: Result) -> dict[str, str]:
    return {finding.text: finding.evidence.value for finding in result.findings if finding.hazard is not None}


def test_without_evidence_nothing_is_probed(tmp_path: Path) -> None:
    result = audited(tmp_path)
    assert set(verdicts(result).values()) == {"not-probed"}
    assert result.evidence is None


def test_an_event_at_the_statement_confirms_and_the_rest_was_not_exercised(tmp_path: Path) -> None:
    result = audited(tmp_path, run(event(ENV, "norm().item()", STEP)))
    found = verdicts(result)
    assert found["self.x.norm().item()"] == "confirmed"
    assert found["torch.nonzero(self.x)"] == "not-exercised"
    (finding,) = (finding for finding in result.findings if finding.evidence is EvidenceVerdict.CONFIRMED)
    assert finding.observation is not None
    assert (finding.observation.document, finding.observation.count, finding.observation.stale) == (
        "run-0.json",
        3,
        False,
    )


def test_moved_lines_comments_and_layout_change_nothing(tmp_path: Path) -> None:
    moved = ENV.replace("import torch\n", "import torch\n\nWIDTH = 8\n\n", 1)
    moved = moved.replace(
        "        return self.x.norm().item()", "        # The norm.\n\n        return self.x.norm().item()"
    )
    document = run(event(ENV, "norm().item()", STEP), sources=ran(ENV))
    result = audited(tmp_path, document, source=moved)
    (finding,) = (finding for finding in result.findings if finding.text == "self.x.norm().item()")
    assert finding.evidence is EvidenceVerdict.CONFIRMED
    assert finding.observation is not None
    assert not finding.observation.stale


def test_evidence_of_an_edited_function_is_stale(tmp_path: Path) -> None:
    edited = ENV.replace(
        "        return self.x.norm().item()", "        self.x.mul_(2.0)\n        return self.x.norm().item()"
    )
    edited = edited.replace("        self.reset(ids)\n", "        self.reset(ids)\n        self.x.neg_()\n")
    document = run(event(ENV, "norm().item()", STEP), sources=ran(ENV))
    result = audited(tmp_path, document, source=edited)
    found = {finding.text: finding for finding in result.findings}
    confirmed, silent = found["self.x.norm().item()"], found["torch.nonzero(self.x)"]
    assert (confirmed.evidence.value, confirmed.observation.stale) == ("confirmed", True)  # type: ignore[union-attr]
    assert (silent.evidence.value, silent.observation.stale) == ("not-exercised", True)  # type: ignore[union-attr]
    assert result.evidence is not None
    assert result.evidence.stale >= 2
    assert result.evidence.unexercised == ("env:Env.step",)


def test_a_fixed_statement_makes_its_event_stale_and_not_missed(tmp_path: Path) -> None:
    fixed = ENV.replace("return self.x.norm().item()", "return 0.0")
    result = audited(tmp_path, run(event(ENV, "norm().item()", STEP), sources=ran(ENV)), source=fixed)
    assert [finding.code for finding in result.findings if finding.code == "CAP907"] == []
    assert result.evidence is not None
    assert result.evidence.stale >= 1


def test_a_line_that_ran_in_silence_is_refuted_and_reported(tmp_path: Path) -> None:
    result = audited(tmp_path, run(sources=ran(ENV), verdict="clean"))
    found = verdicts(result)
    assert found["torch.nonzero(self.x)"] == "refuted"
    assert found["self.x.norm().item()"] == "refuted"
    contradicted = [finding for finding in result.findings if finding.code == "CAP906"]
    assert {finding.text for finding in contradicted} == {text for text, said in found.items() if said == "refuted"}
    assert all("run-0.json" in finding.message for finding in contradicted)


def test_a_line_that_did_not_run_is_not_refuted(tmp_path: Path) -> None:
    result = audited(tmp_path, run(sources=ran(ENV, without=["nonzero"]), verdict="clean"))
    assert verdicts(result)["torch.nonzero(self.x)"] == "not-exercised"


def test_an_operation_that_may_have_been_skipped_is_not_refuted(tmp_path: Path) -> None:
    result = audited(tmp_path, run(sources=ran(ENV), verdict="clean"))
    (text,) = (text for text in verdicts(result) if text.startswith("bool("))
    assert verdicts(result)[text] == "not-exercised"


@pytest.mark.parametrize(
    "document",
    [
        run(sources=ran(ENV), verdict="inconclusive"),
        run(sources=ran(ENV), verdict="failed"),
        run(sources=ran(ENV), device="cpu"),
        run(sources=ran(ENV), mode="escape"),
        run(sources=ran(ENV), mode="replay"),
        run(sources=ran(ENV), mode="capture", error_mode="relaxed"),
        run(sources=ran(ENV), mode="capture", capture="warp"),
        run(sources=tuple(item for item in ran(ENV) if item.function != "Env.step")),
        run(),
    ],
    ids=["inconclusive", "failed", "cpu", "escape", "replay", "relaxed", "other capture", "other entry", "no count"],
)
def test_silence_of_a_run_that_would_not_have_spoken_refutes_nothing(tmp_path: Path, document: Evidence) -> None:
    assert set(verdicts(audited(tmp_path, document)).values()) == {"not-exercised"}


def test_a_run_of_other_libraries_than_the_audit_judges_by_refutes_nothing(tmp_path: Path) -> None:
    document = run(sources=ran(ENV), verdict="clean")  # torch 2.11.0
    for version, said in (
        ("2.11", "refuted"),
        ("2.11.0", "refuted"),
        ("2.1", "not-exercised"),
        ("2.14", "not-exercised"),
    ):
        configuration = Configuration(versions={"torch": version})
        found = verdicts(audited(tmp_path, document, configuration=configuration))
        assert found["torch.nonzero(self.x)"] == said, version


def test_evidence_of_another_project_is_called_foreign(tmp_path: Path) -> None:
    other = run(sources=ran(ENV, root="elsewhere", file="another.py"))
    result = audited(tmp_path, other, run(sources=ran(ENV)))
    assert result.evidence is not None
    assert result.evidence.foreign == ("run-0.json",)
    assert result.evidence.unexercised == ()


def test_a_trace_does_not_speak_of_frozen_host_state(tmp_path: Path) -> None:
    source = ENV.replace("        self.ticks = 0\n", "        self.total += 1.0\n").replace(
        "add_(1.0)", "add_(self.total)"
    )
    result = audited(tmp_path, run(sources=ran(source), verdict="clean"), source=source)
    frozen = [finding for finding in result.findings if finding.code == "CAP501"]
    assert frozen
    assert {finding.evidence.value for finding in frozen} == {"not-exercised"}
    assert all("does not see" in finding.observation.detail for finding in frozen)  # type: ignore[union-attr]


def test_a_capture_that_went_on_refutes_what_would_have_ended_it(tmp_path: Path) -> None:
    result = audited(tmp_path, run(sources=ran(ENV, without=["norm()"]), mode="capture"))
    assert verdicts(result)["torch.nonzero(self.x)"] == "refuted"
    assert verdicts(result)["self.x.norm().item()"] == "not-exercised"


def test_what_one_run_confirms_no_other_refutes(tmp_path: Path) -> None:
    silent, loud = run(sources=ran(ENV), verdict="clean"), run(event(ENV, "norm().item()", STEP))
    for documents in ((silent, loud), (loud, silent)):
        assert verdicts(audited(tmp_path, *documents))["self.x.norm().item()"] == "confirmed"


def test_an_event_that_nobody_predicted_is_a_finding_with_its_path(tmp_path: Path) -> None:
    document = run(event(ENV, "cumsum", "self.helper()"), sources=ran(ENV))
    result = audited(tmp_path, document)
    (missed,) = (finding for finding in result.findings if finding.code == "CAP907")
    assert (missed.place.file, missed.text) == ("robots/env.py", "return self.x.cumsum(0)")
    assert [hop.function for hop in missed.call_path] == ["Env.step", "Env.helper"]
    assert "CAP101 host-scalar-read" in missed.message
    assert result.evidence is not None
    assert sum(row.missed for row in result.evidence.rows) == 1


def test_an_event_outside_the_boundary_is_no_miss(tmp_path: Path) -> None:
    result = audited(tmp_path, run(event(ENV, "cumsum"), sources=ran(ENV)))
    assert [finding.code for finding in result.findings if finding.code == "CAP907"] == []


def test_an_event_in_a_function_that_is_declared_completion_owned_is_no_miss(tmp_path: Path) -> None:
    owned = ENV.replace(
        "def helper(self) -> torch.Tensor:", "def helper(self) -> None:  # capaudit: completion-owned -- log"
    )
    document = run(event(owned, "cumsum", "self.helper()"), sources=ran(owned))
    assert "CAP907" not in {finding.code for finding in audited(tmp_path, document, source=owned).findings}


def test_the_mechanism_confirms_where_no_finding_has_its_very_code(tmp_path: Path) -> None:
    blocked = event(ENV, "nonzero", hazard="CAP105", kind="synchronization")
    assert verdicts(audited(tmp_path, run(blocked)))["torch.nonzero(self.x)"] == "confirmed"


def test_an_event_without_text_finds_its_finding_by_line_or_by_function(tmp_path: Path) -> None:
    plain = event(ENV, "norm().item()", STEP)
    bare = replace(plain, text="", stack=tuple(replace(item, text="") for item in plain.stack))
    assert verdicts(audited(tmp_path, run(bare)))["self.x.norm().item()"] == "confirmed"
    moved = "# One line more.\n\n\n" + ENV
    result = audited(tmp_path, run(bare), source=moved)
    (finding,) = (finding for finding in result.findings if finding.text == "self.x.norm().item()")
    assert (finding.evidence.value, finding.observation.stale) == ("confirmed", True)  # type: ignore[union-attr]
    assert "CAP907" not in {finding.code for finding in result.findings}


def test_an_event_below_a_call_that_is_itself_the_finding_confirms_it(tmp_path: Path) -> None:
    # The callee's file is no part of the audited program, so only the call can be found.
    inner = event(ENV, "self.reset(ids)", hazard="CAP103", kind="host-to-device-copy")
    callee = replace(inner.stack[0], root="elsewhere", file="library.py", function="nonzero", text="return read(x)")
    outer = event(ENV, "nonzero").stack[0]
    below = replace(
        inner,
        root="elsewhere",
        file="library.py",
        function="nonzero",
        text="return read(x)",
        hazard="CAP201",
        line=callee.line,
        stack=(callee, outer),
    )
    assert verdicts(audited(tmp_path, run(below)))["torch.nonzero(self.x)"] == "confirmed"


def test_a_cpu_run_confirms_with_its_reservation_and_misses_nothing(tmp_path: Path) -> None:
    document = run(event(ENV, "norm().item()", STEP), event(ENV, "cumsum", "self.helper()"), device="cpu")
    result = audited(tmp_path, document)
    (finding,) = (finding for finding in result.findings if finding.evidence is EvidenceVerdict.CONFIRMED)
    assert "CPU" in finding.observation.detail  # type: ignore[union-attr]
    assert "CAP907" not in {finding.code for finding in result.findings}


def test_the_table_counts_every_finding_once(tmp_path: Path) -> None:
    result = audited(tmp_path, run(event(ENV, "norm().item()", STEP), sources=ran(ENV)))
    assert result.evidence is not None
    counted = sum(row.confirmed + row.refuted + row.not_exercised for row in result.evidence.rows)
    assert counted == len(verdicts(result))


def test_the_order_of_documents_and_events_changes_nothing(tmp_path: Path) -> None:
    one, other = event(ENV, "norm().item()", STEP), event(ENV, "cumsum", "self.helper()")
    first = audited(tmp_path, run(one, other, sources=ran(ENV)))
    second = audited(tmp_path, run(other, one, sources=tuple(reversed(ran(ENV)))))
    assert first.findings == second.findings
