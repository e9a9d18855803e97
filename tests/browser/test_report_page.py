"""What a reader meets: the page in a real browser. Skipped, and said so, where none is installed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from capaudit.audit import AuditOptions, audit
from capaudit.evidence import Environment, Event, Evidence
from capaudit.model import Result
from capaudit.report import RenderOptions
from capaudit.report.html import render_page
from capaudit.report.json import document
from tests.browser.chromium import Browser, find_browser

pytestmark = pytest.mark.skipif(
    find_browser() is None, reason="no Chromium is installed (Debian: apt install chromium)"
)

PROGRAM = '''\
import torch

MARKUP = "<img src=x onerror=document.title='broken'></script>"


class Robot:
    def __init__(self) -> None:
        self.left = torch.ones(64, device="cuda")
        self.position = torch.zeros(64, 3, device="cuda")

    def restart(self, ids: torch.Tensor) -> None:
        """Restart timers.

        One.
        Two.
        Three.
        Four.
        Five.
        Six.
        Seven.
        Eight.
        Nine.
        """
        text = "<img src=x onerror=document.title='broken'></script>"
        self.left[ids] = 0.0  # \u202e not what it seems

    def reward(self) -> torch.Tensor:
        return self.position.norm(dim=-1) + self.mystery(1)

    def log(self) -> float:
        return self.position.norm().item()

    def step(self, ids: torch.Tensor) -> None:  # capaudit: boundary
        self.restart(ids)
        self.reward()
        self.log()
'''


def audited(folder: Path) -> Result:
    (folder / "robot.py").write_text(PROGRAM, encoding="utf-8")
    return audit(AuditOptions((folder / "robot.py",), working_directory=folder, collect_operations=True))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("page")
    event = Event(folder.name, "robot.py", 28, "Robot.reward", "recorded", nodes={"kernel": 2})
    evidence = Evidence(
        "run", "2026-11-29T22:45:28+00:00", Environment("3.12", "Linux"), {}, "capture", {}, "clean", (), (event,)
    )
    result = audited(folder)
    report = document(result, RenderOptions(operations=True))
    for item in (*report["functions"], *report["findings"], *report["operations"]):
        item["file"] = f"{folder.name}/robot.py"
    (folder / "report.html").write_text(render_page(report, folder.parent, [("run.json", evidence)]), encoding="utf-8")
    opened = Browser(folder)
    opened.page = folder / "report.html"
    yield opened
    opened.close()


@pytest.fixture
def page(browser: Browser) -> Browser:
    browser.open(browser.page)
    return browser


_CONTRAST = """(() => {
  const channel = (value) => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map((value) => channel(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let up = element; up; up = up.parentElement) {
      const color = getComputedStyle(up).backgroundColor;
      if (color !== 'rgba(0, 0, 0, 0)') return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const texts = [...document.querySelectorAll('body *')].filter((element) => element.checkVisibility()
    && !element.matches('.glyph') && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return texts.map((element) => {
    const [a, b] = [light(getComputedStyle(element).color), light(ground(element))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), element.className + ": " + element.textContent.slice(0, 40)];
  }).filter(([ratio]) => ratio < 4.5);  // WCAG 2 AA for normal text
})()"""


def rows(page: Browser) -> list[str]:
    return list(page.run("[...document.querySelectorAll('.row .name')].map((e) => e.textContent)"))


def test_the_tree_starts_at_the_boundary_with_its_calls_in_order(page: Browser) -> None:
    assert rows(page) == ["step", "restart", "reward", "log"]
    assert page.text(".head h2") == "Robot.step"


def test_nothing_in_source_runs_or_steers_and_nothing_is_fetched(page: Browser) -> None:
    page.run("document.querySelectorAll('.row')[1].click()")
    assert "<img src=x onerror" in page.text("#code")
    assert "\u202e" not in page.text("#code")
    assert page.run("document.querySelectorAll('img').length") == 0
    assert "broken" not in page.run("document.title")
    assert page.errors == []
    assert {url.partition(":")[0] for url in page.requests} == {"file"}


def test_the_next_finding_shows_its_line_path_and_remedy(page: Browser) -> None:
    page.key("n")
    assert page.text("#detail h3") == "CAP101 host-scalar-read"
    assert page.text(".cl.target .no") == "31"
    page.key("n")
    assert page.text("#detail h3") == "CAP103 host-to-device-copy"
    assert "index_fill_" in page.text("#detail .remedy")
    assert "called at" in page.text("#detail")
    page.key("p")
    assert page.text("#detail h3") == "CAP101 host-scalar-read"


def test_a_hazard_filter_leaves_the_way_to_its_functions_alone(page: Browser) -> None:
    page.click('[data-hazard="host-scalar-read"]')
    assert rows(page) == ["step", "log"]
    page.key("Escape")
    assert rows(page) == ["step", "restart", "reward", "log"]


def test_a_class_can_be_hidden_by_its_number(page: Browser) -> None:
    page.key("1", "Digit1")
    assert page.run("document.querySelectorAll('.flag, .op.c-rejected').length") == 0
    assert page.run("document.querySelector('[data-class=rejected]').getAttribute('aria-pressed')") == "false"
    page.key("1", "Digit1")


def test_typing_an_owner_filters_tree_and_findings(page: Browser) -> None:
    page.key("/", "Slash")
    page.type("robot.restart")
    assert rows(page) == ["step", "restart"]
    page.click("#tab-findings")
    assert page.run("document.querySelectorAll('.item').length") == 1


def test_the_tree_obeys_the_arrow_keys(page: Browser) -> None:
    page.run("document.getElementById('tree').focus()")
    page.key("ArrowDown")
    assert page.text(".head h2") == "Robot.restart"
    page.key("ArrowUp")
    page.key("ArrowLeft")
    assert rows(page) == ["step"]
    page.key("ArrowRight")
    assert rows(page) == ["step", "restart", "reward", "log"]
    assert page.run("document.activeElement.id") == "tree"


def test_graph_nodes_stand_beside_their_line(page: Browser) -> None:
    page.run("document.querySelectorAll('.row')[2].click()")
    assert page.text('.cl[data-line="28"] .nodes') == "2"


def test_unresolved_calls_name_what_would_settle_them(page: Browser) -> None:
    page.click("#tab-unresolved")
    assert "self.mystery" in page.text("#list")


def test_a_long_text_is_folded_and_opens(page: Browser) -> None:
    page.run("document.querySelectorAll('.row')[1].click()")
    assert "Seven." not in page.text("#code")
    page.click(".fold")
    assert "Seven." in page.text("#code")


def test_both_themes_keep_text_readable(page: Browser) -> None:
    page.key("n")
    for _ in range(2):
        assert page.run(_CONTRAST) == []
        page.key("t")


def test_a_link_leads_to_its_finding(browser: Browser) -> None:
    browser.open(browser.page, "#finding=0")
    first = browser.text("#detail h3")
    browser.run("location.hash = ''")
    assert first.startswith("CAP")


def test_a_narrow_window_hides_nothing_sideways(page: Browser) -> None:
    page.command("Emulation.setDeviceMetricsOverride", width=600, height=900, deviceScaleFactor=1, mobile=False)
    try:
        assert page.run("document.documentElement.scrollWidth") <= 600
    finally:
        page.command("Emulation.setDeviceMetricsOverride", width=1500, height=950, deviceScaleFactor=1, mobile=False)


def test_a_result_without_boundaries_says_so(browser: Browser, tmp_path: Path) -> None:
    empty = replace(audited(tmp_path), boundaries=(), findings=(), operations=(), functions=(), unresolved=())
    file = tmp_path / "empty.html"
    file.write_text(render_page(document(empty, RenderOptions(operations=True)), tmp_path), encoding="utf-8")
    browser.open(file)
    assert "No boundary was audited" in browser.text("body")
