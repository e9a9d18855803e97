from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from capaudit.report.inventory_page import render_comment, render_html
from tests.report.sample import OPERATIONS, sample


def test_the_comment_opens_what_needs_a_hand_and_folds_the_rest() -> None:
    text = render_comment(sample())
    assert "| 1 | 0 | 0 | 0 | 2 |" in text
    assert "<details open><summary>1 rejected</summary>" in text
    assert "<details><summary>2 graph-eligible</summary>" in text
    assert text.index("1 rejected") < text.index("2 graph-eligible")


def test_a_comment_stays_postable_and_says_what_it_leaves_out() -> None:
    many = tuple(replace(OPERATIONS[1], owner=f"pkg.mod.Class.method_{number}") for number in range(2000))
    text = render_comment(replace(sample(), operations=(OPERATIONS[0], *many)))
    assert len(text) < 65_536
    assert "1 rejected" in text
    assert "--output markdown" in text


def test_the_page_keeps_hostile_text_as_text() -> None:
    attack = "</td><script>alert(1)</script>"
    operation = replace(OPERATIONS[0], name=attack, owner=attack, reason=attack)
    page = render_html(replace(sample(), operations=(operation,)))
    tags: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)

    Tags().feed(page)
    assert "script" not in tags
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("&lt;script&gt;") == 3


def test_nothing_audited_is_said_in_both() -> None:
    assert "No capture boundary" in render_comment(sample(boundaries=()))
    assert "No capture boundary" in render_html(sample(boundaries=()))
