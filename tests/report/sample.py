"""A small result, written by hand: one boundary, two findings, an unresolved call, a pruned branch."""

from __future__ import annotations

from pathlib import Path

from capaudit.model import (
    Boundary,
    Confidence,
    Finding,
    Hop,
    Operation,
    OwnershipClass,
    Place,
    PrunedBranch,
    Result,
    Statistics,
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
    )


def written(folder: Path) -> Path:
    """Write the source that the sample's places speak of."""
    (folder / "timers.py").write_text(SOURCE, encoding="utf-8")
    return folder
