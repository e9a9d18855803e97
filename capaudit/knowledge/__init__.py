"""What capture allows, as data: rule pages, operation tables and idioms under ``rules/``."""

from capaudit.knowledge.loader import Knowledge, load, rules_folder, shipped_rules
from capaudit.knowledge.operation import Case, Operation, ResultSpec, Word
from capaudit.knowledge.rule import Example, Rule
from capaudit.knowledge.versions import VersionRange, parse_range, version_key

__all__ = [
    "Case",
    "Example",
    "Knowledge",
    "Operation",
    "ResultSpec",
    "Rule",
    "VersionRange",
    "Word",
    "load",
    "parse_range",
    "rules_folder",
    "shipped_rules",
    "version_key",
]
