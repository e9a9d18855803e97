"""What a fix leaves behind is capture-safe: by the audit itself, and by idioms that a GPU has run."""

from __future__ import annotations

from pathlib import Path

import pytest

from capaudit.knowledge.idioms import load_idioms
from tests.audit.fixes.programs import findings, fixed, program
from tests.audit.fixes.test_rewrites import SAFE, UNSAFE

IDIOMS = load_idioms()

# Each rewrite with the idioms whose programs have the form of its result.
PROVEN_BY = {
    "index-fill": ["py-set-index-fill", "torch-index-fill-inplace"],
    "nonzero-put": ["torch-masked-fill-inplace"],
    "constant-operand": ["torch-where-python-number", "torch-where-python-number-first", "torch-clamp"],
    "masked-put": ["py-set-mask-full-width", "py-set-mask-rows-full-width"],
    "scoped-stream": ["wp-scoped-stream-without-sync"],
    "log-item": ["log-entry-kept-on-device"],
}


@pytest.mark.parametrize("name", PROVEN_BY)
def test_every_form_of_a_result_has_an_idiom_that_captures(name: str) -> None:
    for identifier in PROVEN_BY[name]:
        assert IDIOMS[identifier].capture in ("ok", "advances")


@pytest.mark.parametrize("body", [b for b, a in (*SAFE.items(), *UNSAFE.items()) if a and "nonzero" not in a])
def test_a_fixed_operation_is_not_rejected_any_more(tmp_path: Path, body: str) -> None:
    source = program(body)
    before = {finding.fix.edits for finding in findings(tmp_path, source) if finding.fix}
    rewrite = fixed(tmp_path, source, unsafe=True)
    assert rewrite is not None
    assert before
    # Some programs bind an attribute anew, which is a matter of its own.
    after = [f.message for f in findings(tmp_path, rewrite.after.decode()) if f.code != "CAP304"]
    assert after == []
