"""``capaudit explain``: the page of a rule, what is known about an operation, or a guide."""

from __future__ import annotations

import click

from capaudit.model import InputError

_SHOWN_CANDIDATES = 8


@click.command()
@click.argument("subject", metavar="CODE|NAME|OPERATION|GUIDE")
def explain(subject: str) -> int:
    """Print the page of a rule (CAP103, host-to-device-copy) or of an operation (torch.Tensor.item).

    `capaudit explain ordering` prints the guide to the ordering replay contract.
    """
    from capaudit.knowledge.guides import guide, guide_names

    text = guide(subject)
    if text is not None:
        click.echo(text, nl=False)
        return 0
    from capaudit.knowledge import load
    from capaudit.report.pages import operation_page, rule_page

    knowledge = load()
    rule = knowledge.rule(subject)
    if rule is not None:
        click.echo(rule_page(rule), nl=False)
        return 0
    operation = knowledge.operation(subject)
    if operation is None:
        raise _unknown(subject, [*knowledge.rules, *knowledge.rule_names, *knowledge.operations, *guide_names()])
    from capaudit.knowledge.idioms import load_idioms

    click.echo(operation_page(operation, subject, knowledge.rules, tuple(load_idioms().values())), nl=False)
    return 0


def _unknown(subject: str, known: list[str]) -> InputError:
    import difflib

    # "item" or "Tensor.item" is how people speak of torch.Tensor.item.
    endings = [name for name in known if name.endswith(f".{subject}")]
    near = endings or difflib.get_close_matches(subject, known, n=_SHOWN_CANDIDATES, cutoff=0.6)
    if near:
        remedy = f"did you mean {', '.join(sorted(near)[:_SHOWN_CANDIDATES])}?"
    else:
        remedy = "`capaudit rules` lists the rules; operations go by their full name, such as torch.Tensor.item"
    return InputError(f"neither a rule nor a known operation: {subject!r}", remedy=remedy)
