from __future__ import annotations

import pytest

from capaudit.knowledge import parse_range, version_key


@pytest.mark.parametrize(
    ("text", "version", "inside"),
    [
        ("", "0.1", True),
        (">=2.0", "2.0.0", True),
        (">=2.0,<2.14", "2.13.1", True),
        (">=2.0,<2.14", "2.14", False),
        ("<2.14", "2.14.0rc1", True),
        ("==1.19.0", "1.19", True),
        ("!=1.19", "1.19.0", False),
        ("<=2.13", "2.13.0+cu130", True),
        (">1.9", "1.10", True),
    ],
)
def test_a_range_admits_the_versions_between_its_bounds(text: str, version: str, inside: bool) -> None:
    assert parse_range(text).contains(version) is inside


def test_a_local_part_does_not_order_versions() -> None:
    assert version_key("2.11.0+cu130") == version_key("2.11")


def test_a_bound_that_is_not_understood_is_named() -> None:
    with pytest.raises(ValueError, match="~=2"):
        parse_range(">=2.0,~=2.1")
