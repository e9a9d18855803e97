"""The boundary's call graph as DOT or Mermaid: who calls whom, coloured by the worst class below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from capaudit.model import OwnershipClass, ReachedFunction, Result
from capaudit.report.source import printable
from capaudit.report.words import NO_BOUNDARY

FORMATS: Final = ("dot", "mermaid")

_WORST: Final = ("rejected", "unresolved", "completion-owned", "cold-path", "graph-eligible")
_FILL: Final = {
    "rejected": ("#fdecec", "#c4232e"),
    "unresolved": ("#fdf3dd", "#96600a"),
    "completion-owned": ("#e6effc", "#1f62c4"),
    "cold-path": ("#eceef1", "#66707f"),
    "graph-eligible": ("#e5f4ea", "#1c7c45"),
    "": ("#ffffff", "#9aa3ad"),
}
_MOST_FUNCTIONS: Final = 150
"""Beyond it only functions with something to act on at or below them are drawn: nobody reads more."""


@dataclass(frozen=True, slots=True)
class Node:
    """A function in the drawing: its own operations by class, and how many functions that it calls are left out."""

    number: int
    name: str
    counts: tuple[tuple[str, int], ...]
    worst: str
    hidden: int


@dataclass(frozen=True, slots=True)
class Graph:
    """One boundary's drawing; an edge holds two node numbers and how many calls it stands for."""

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int, int], ...]
    left_out: int


def render_graph(result: Result, form: str) -> str:
    """Return the drawing of every boundary, the same text for the same result. ``form`` is one of ``FORMATS``."""
    if not result.boundaries:
        return f"{'%%' if form == 'mermaid' else '//'} {NO_BOUNDARY.splitlines()[0]}\n"
    draw = _mermaid if form == "mermaid" else _dot
    return draw([build(result, boundary.name) for boundary in result.boundaries])


def build(result: Result, boundary: str) -> Graph:
    """Return the graph of one boundary, functions in the order in which they are reached."""
    functions = [function for function in result.functions if function.boundary == boundary]
    counts: dict[str, Counter[str]] = {function.owner: Counter() for function in functions}
    for operation in result.operations:
        if operation.boundary == boundary and operation.owner in counts:
            counts[operation.owner][operation.ownership.value] += 1
    shown = {function.owner for function in functions}
    if len(functions) > _MOST_FUNCTIONS:
        shown = _to_act_on(functions, counts)
    numbers = {f.owner: number for number, f in enumerate(f for f in functions if f.owner in shown)}
    hidden: Counter[str] = Counter()
    edges: Counter[tuple[int, int]] = Counter()
    for function in functions:
        for caller in dict.fromkeys(hop.function for hop in function.callers):
            if caller in numbers and function.owner not in numbers:
                hidden[caller] += 1
        for hop in function.callers:
            if function.owner in numbers and hop.function in numbers:
                edges[numbers[hop.function], numbers[function.owner]] += 1
    nodes = []
    for owner, number in numbers.items():
        own = counts[owner]
        worst = next((name for name in _WORST if own[name]), "")
        nodes.append(Node(number, owner, tuple((n, own[n]) for n in _WORST if own[n]), worst, hidden[owner]))
    drawn = tuple((caller, callee, times) for (caller, callee), times in edges.items())
    return Graph(boundary, tuple(nodes), drawn, len(functions) - len(nodes))


def _to_act_on(functions: list[ReachedFunction], counts: dict[str, Counter[str]]) -> set[str]:
    """Functions with something rejected or unresolved, and the shortest ways to them."""
    first = {f.owner: f.callers[0].function if f.callers else None for f in functions}
    shown: set[str] = {functions[0].owner}
    for owner, own in counts.items():
        if not (own[OwnershipClass.REJECTED.value] or own[OwnershipClass.UNRESOLVED.value]):
            continue
        current: str | None = owner
        while current is not None and current not in shown:
            shown.add(current)
            current = first.get(current)
    return shown


def _label(node: Node, newline: str, escape: Callable[[str], str]) -> str:
    parts = node.name.split(".")
    lines = [escape(".".join(parts[-2:]))]
    counted = ", ".join(f"{number} {name}" for name, number in node.counts)
    lines += [counted] if counted else []
    lines += [f"+ {node.hidden} not drawn"] if node.hidden else []
    return newline.join(lines)


def _dot(graphs: list[Graph]) -> str:
    out = ["digraph capaudit {", "  rankdir=LR;", '  node [shape=box, style="filled,rounded", fontname="sans-serif"];']
    for index, graph in enumerate(graphs):
        title = _quoted(
            f"boundary {graph.title}" + (f" ({graph.left_out} functions not drawn)" if graph.left_out else "")
        )
        out += [f"  subgraph cluster_{index} {{", f"    label={title};"]
        for node in graph.nodes:
            fill, line = _FILL[node.worst]
            label = _label(node, "\\n", lambda text: _escaped(printable(text)))
            tooltip = _quoted(node.name)
            out.append(
                f'    b{index}n{node.number} [label="{label}", tooltip={tooltip}, fillcolor="{fill}", color="{line}"];'
            )
        for caller, callee, times in graph.edges:
            label = f' [label="{times}"]' if times > 1 else ""
            out.append(f"    b{index}n{caller} -> b{index}n{callee}{label};")
        out.append("  }")
    return "\n".join([*out, "}"]) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _quoted(text: str) -> str:
    return f'"{_escaped(printable(text))}"'


def _mermaid(graphs: list[Graph]) -> str:
    out = ["flowchart LR"]
    for index, graph in enumerate(graphs):
        left = f" ({graph.left_out} functions not drawn)" if graph.left_out else ""
        out.append(f'  subgraph b{index}["boundary {_entities(graph.title)}{left}"]')
        for node in graph.nodes:
            label = _label(node, "<br/>", _entities)
            out.append(f'    b{index}n{node.number}["{label}"]:::{node.worst.replace("-", "") or "none"}')
        for caller, callee, times in graph.edges:
            arrow = f"-->|{times}|" if times > 1 else "-->"
            out.append(f"    b{index}n{caller} {arrow} b{index}n{callee}")
        out.append("  end")
    for name, (fill, line) in _FILL.items():
        out.append(f"  classDef {name.replace('-', '') or 'none'} fill:{fill},stroke:{line},color:#1b2129")
    return "\n".join(out) + "\n"


def _entities(text: str) -> str:
    """Mermaid reads quotes, brackets and markup inside labels; entity codes are text to it."""
    return "".join(c if c.isalnum() or c in " ._-/:," else f"#{ord(c)};" for c in printable(text))
