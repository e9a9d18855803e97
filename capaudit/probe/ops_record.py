"""Outcomes of the measuring process as records of evidence, and what contradicts a declaration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

from capaudit.evidence import JsonObject, JsonScalar, Record, Verdict
from capaudit.knowledge.idioms import Idiom
from capaudit.probe.ops_idioms import digest, library

_NOTE_LENGTH = 400


def disagrees(record: Record) -> bool:
    """Whether the run contradicts the declaration. What was not run contradicts nothing.

    ``ok`` and ``advances`` are one verdict here: both say that the capture holds, and whether state moves
    on between two replays depends on what the idiom keeps.
    """
    if record.expected is None or record.outcome == "not-run":
        return False
    return _captured(record.outcome) != _captured(record.expected)


def verdict_of(records: Iterable[Record]) -> Verdict:
    """The verdict of a run over idioms."""
    return "disagrees" if any(map(disagrees, records)) else "agrees"


def declare(record: Record, idiom: Idiom) -> Record:
    """Return the record with the idiom's declaration of today beside what was measured."""
    return replace(record, subject=idiom.op, expected=idiom.capture, hazard=idiom.hazard or None)


def idiom_record(idiom: Idiom, outcome: JsonObject | None, fits: bool) -> Record:
    """The record of one idiom; without an outcome it was not run, for its version range or for an early end."""
    record = declare(Record(idiom.id, "", "not-run", values={"program": digest(idiom)}), idiom)
    if outcome is None:
        reason = "the run ended before this idiom" if fits else f"declared for {library(idiom)} {idiom.versions}"
        return replace(record, note=reason)
    return _measured(record, outcome)


def operator_record(name: str, outcomes: Sequence[JsonObject]) -> Record:
    """Join the samples of one operator: their common outcome, or ``varies`` with the samples that failed."""
    ordered = sorted(outcomes, key=lambda outcome: cast("int", outcome["sample"]))
    # A sample that the device refuses eagerly says nothing about capture.
    refused = [outcome for outcome in ordered if outcome["outcome"] == "broken" and not outcome.get("note")]
    told = [outcome for outcome in ordered if outcome not in refused]
    if not told:
        record = _measured(Record(name, str(ordered[0]["subject"]), ""), ordered[0])
        return replace(record, outcome="not-run", note="the device refuses it eagerly")
    bad = [outcome for outcome in told if outcome["outcome"] not in ("ok", "advances")]
    advancing = [outcome for outcome in told if outcome["outcome"] == "advances"]
    shown = (bad or advancing or told)[0]
    record = _measured(Record(name, str(shown["subject"]), ""), shown)
    if len({_captured(str(outcome["outcome"])) for outcome in told}) > 1:
        failing = ", ".join(f"{outcome['outcome']} on {outcome['input']}" for outcome in bad)
        note = "; ".join(filter(None, (f"{len(bad)} of {len(told)} samples: {failing}", record.note)))
        record = replace(record, outcome="varies", note=note[:_NOTE_LENGTH])
    watched = [outcome.get("sync") for outcome in told]
    sync = True if True in watched else record.sync
    values: dict[str, JsonScalar] = {"samples": len(told), "input": str(shown["input"])}
    return replace(record, sync=sync, values=values)


def _captured(outcome: str) -> str:
    return "ok" if outcome == "advances" else outcome


def _measured(record: Record, outcome: JsonObject) -> Record:
    return replace(
        record,
        outcome=str(outcome["outcome"]),
        error=str(outcome.get("error", "")),
        sync=cast("bool | None", outcome.get("sync")),
        note=str(outcome.get("note", "")),
    )
