"""Host state that every tick starts anew: bound before it is read, so that no tick hears of another.

A counter that a tick sets to zero and then counts up takes the same values in every tick; what a
capture unrolls of it is what eager ticks do. Order matters for that alone, so the contexts that read
such state are evaluated once more, watching it, when there are findings about it.
"""

from __future__ import annotations

from capaudit.audit.contexts import Cell, Context
from capaudit.audit.machine import Machine
from capaudit.audit.values import Host, Instance
from capaudit.audit.verdicts import RESTARTED, reachable


def note_restarts(machine: Machine, root: Context) -> None:
    """Remember at the root which of the host state in question no tick reads before it binds it."""
    contexts = reachable(root)
    suspects = {
        record.cell: None
        for context in contexts
        for record in context.records.values()
        if record.cell is not None and _is_own(record.cell)
    }
    if not suspects:
        return
    start = root.items.get("host", root)
    again: dict[Context, None] = {start: None}
    queue = [reader for cell in suspects for reader in cell.readers if reader in contexts]
    for context in queue:
        if context not in again:
            again[context] = None
            queue.extend(caller for caller in context.callers if caller in contexts)
    machine.watched = suspects
    for context in again:
        context.dirty = True
        machine.dirty[context] = None
    machine.run(start)
    machine.settle()
    machine.watched = {}
    carried = root.items.get("host-reads", {})
    root.items[RESTARTED] = {cell: None for cell in suspects if cell not in carried}


def _is_own(cell: Cell) -> bool:
    """Whether an attribute holds numbers of its own alone, none that other host state or a branch on it decides."""
    if cell.steered or not isinstance(cell.owner, Instance):
        return False
    taints = [atom.taint for atom in cell.value if isinstance(atom, Host) and atom.taint is not None]
    return all(taint[2] is cell for taint in taints)
