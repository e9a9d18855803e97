"""A small result, written by hand: one boundary, two findings, an unresolved call, a pruned branch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from capaudit.model import (
    BaselineEntry,
    BaselineState,
    Boundary,
    Confidence,
    EvidenceRow,
    EvidenceSummary,
    EvidenceVerdict,
    Finding,
    Hop,
    Observation,
    Operation,
    OwnershipClass,
    Place,
    PrunedBranch,
    ReachedFunction,
    Result,
    Statistics,
    Suppression,
    UnresolvedCall,
)

SOURCE = """\
class Timers:
    def restart(self, ids):
        self.left[ids] = 0.0

    def tick(self, ids):
        self.restart(ids)
"""

SCALAR_PUT = Place("timers.py", 3, 9, 3, 29)

UPLOAD = Finding(
    code="CAP103",
    name="host-to-device-copy",
    ownership=OwnershipClass.REJECTED,
    hazard="host-to-device-copy",
    place=SCALAR_PUT,
    statement=SCALAR_PUT,
    message="the number is uploaded first",
    confidence=Confidence.CERTAIN,
    boundary="tick",
    call_path=(Hop("Timers.tick", "timers.py", 5), Hop("Timers.restart", "timers.py", 6)),
    why=("left is a device tensor", "ids holds integers"),
    remedy="Use index_fill_.",
    fingerprint="f00d",
)

BROKEN_FILE = Finding(
    code="CAP905",
    name="unparsable-file",
    ownership=OwnershipClass.UNRESOLVED,
    hazard=None,
    place=Place("broken.py", 1, 1, 1, 1),
    statement=Place("broken.py", 1, 1, 1, 1),
    message="the file could not be parsed",
    confidence=Confidence.CERTAIN,
    boundary="",
    call_path=(),
    why=(),
    remedy="Repair the syntax error.",
    fingerprint="beef",
)

SILENCED = replace(
    UPLOAD,
    fingerprint="cafe",
    evidence=EvidenceVerdict.CONFIRMED,
    observation=Observation("trace.json", "trace", 4, "aten::index_put_, blocks the host", stale=True),
    suppression=Suppression(Place("timers.py", 3, 31, 3, 70), ("CAP103",), "debug build only", "2027-01-31"),
)

ACCEPTED = replace(UPLOAD, fingerprint="feed", baseline_state=BaselineState.UNCHANGED)

GONE = BaselineEntry("dead", "CAP101", "timers.py", "Timers.tick", "n = self.left.sum().item()", "legacy", "2026-11-30")

OBSERVED = EvidenceSummary(("trace.json",), (EvidenceRow("CAP103", "host-to-device-copy", confirmed=1, missed=2),), 1)

OPERATIONS = (
    Operation(
        "index-set",
        "self.left[ids] = 0.0",
        OwnershipClass.REJECTED,
        "host-to-device-copy",
        SCALAR_PUT,
        "timers.Timers.restart",
        "tick",
        "the number is uploaded",
    ),
    Operation(
        "torch.Tensor.add_",
        "a.add_(b)",
        OwnershipClass.GRAPH_ELIGIBLE,
        None,
        Place("timers.py", 6, 9, 6, 18),
        "timers.Timers.tick",
        "tick",
        "device work | fixed shape",
    ),
    Operation(
        "torch.Tensor.add_",
        "c.add_(d)",
        OwnershipClass.GRAPH_ELIGIBLE,
        None,
        Place("timers.py", 6, 29, 6, 38),
        "timers.Timers.tick",
        "tick",
        "device work | fixed shape",
    ),
)


FUNCTIONS = (
    ReachedFunction("timers.Timers.tick", Place("timers.py", 5, 5, 6, 26), "tick", ()),
    ReachedFunction(
        "timers.Timers.restart",
        Place("timers.py", 2, 5, 3, 29),
        "tick",
        (Hop("timers.Timers.tick", "timers.py", 6),),
    ),
)


def sample(
    *,
    findings: tuple[Finding, ...] = (UPLOAD, BROKEN_FILE),
    boundaries: tuple[Boundary, ...] = (
        Boundary("tick", "timers:Timers.tick", "torch", "comment", file="timers.py", line=5),
    ),
    unresolved: int = 1,
    seconds: float = 1.5,
) -> Result:
    """Return the result; ``unresolved`` is the count in its statistics."""
    return Result(
        boundaries=boundaries,
        findings=findings,
        operations=OPERATIONS,
        unresolved=(
            UnresolvedCall(
                Place("timers.py", 6, 9, 6, 20), "self.helper()", "self.helper", "annotate self.helper", "o", "tick"
            ),
        ),
        pruned=(PrunedBranch(Place("timers.py", 4, 1, 4, 2), "the device is a CPU there"),),
        statistics=Statistics(
            files=2,
            functions_reachable=2,
            operations=3,
            calls=4,
            by_class={"rejected": 1, "graph-eligible": 2, "unresolved": unresolved},
            unresolved=unresolved,
            seconds=seconds,
        ),
        functions=FUNCTIONS,
    )


def full_sample() -> Result:
    """Return the sample with a suppressed and a baselined finding, an absent entry and joined evidence."""
    return replace(sample(), suppressed=(SILENCED,), baselined=(ACCEPTED,), absent=(GONE,), evidence=OBSERVED)


def written(folder: Path) -> Path:
    """Write the source that the sample's places speak of."""
    (folder / "timers.py").write_text(SOURCE, encoding="utf-8")
    return folder
