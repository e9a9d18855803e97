"""The committed runs agree with what is declared, and the comparison sees it when one does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capaudit.evidence import Record
from capaudit.knowledge import load
from capaudit.knowledge.idioms import load_idioms
from tests.knowledge.evidence_agreement import EXPLAINED, agrees, idiom_agreement, operator_agreement, runs

IDIOMS = load_idioms()
KNOWLEDGE = load()


def test_no_idiom_contradicts_a_run() -> None:
    found = idiom_agreement(IDIOMS.values(), runs("ops"))
    assert not found.wrong
    assert len(found.right) > 0.99 * len(IDIOMS)


def test_the_operator_sweep_agrees_with_the_tables_but_for_what_is_explained() -> None:
    found = operator_agreement(KNOWLEDGE, runs("opinfo"))
    assert set(found.wrong) == set(EXPLAINED)
    assert found.share >= 0.98


def test_another_declaration_contradicts_the_run() -> None:
    idiom = replace(IDIOMS["torch-manual-seed"], capture="ok", hazard="")
    assert set(idiom_agreement([idiom], runs("ops")).wrong) == {idiom.id}


def test_a_run_of_another_text_proves_nothing() -> None:
    idiom = IDIOMS["torch-manual-seed"]
    changed = replace(idiom, body=idiom.body + "; y.add_(1.0)")
    assert idiom_agreement([changed], runs("ops")).open == (idiom.id,)


@pytest.mark.parametrize(
    ("operator", "sample", "outcome", "agreed"),
    [
        ("torch.Tensor.masked_fill", "float32: tensor[5], tensor[5], tensor[]", "fails", True),
        ("torch.Tensor.masked_fill", "float32: tensor[5], tensor[5], tensor[]", "ok", False),
        ("torch.Tensor.masked_fill", "float32: tensor[5], tensor[5], 1.0", "fails", False),
        ("torch.Tensor.masked_fill", "float32: tensor[5], tensor[5], 1.0", "advances", True),
        ("torch.nn.functional.one_hot", "int64: tensor[5], num_classes=-1", "varies", True),
        ("torch.linalg.lu_factor", "float32: tensor[3, 5], pivot=True", "fails", True),
    ],
)
def test_a_verdict_is_compared_for_the_sample_that_ran(operator: str, sample: str, outcome: str, agreed: bool) -> None:
    record = Record(operator, operator, outcome, values={"input": sample})
    assert agrees(KNOWLEDGE.operations[operator], record, "2.11.0+cu130") is agreed
