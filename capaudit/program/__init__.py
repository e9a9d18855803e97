"""The program as an index: modules, classes, functions and where names lead. Nothing is executed."""

from capaudit.program.index import Program, build_program
from capaudit.program.symbols import ClassInfo, FunctionInfo, Module, Unparsable
from capaudit.program.walking import BodyFacts, body_facts, walk

__all__ = [
    "BodyFacts",
    "ClassInfo",
    "FunctionInfo",
    "Module",
    "Program",
    "Unparsable",
    "body_facts",
    "build_program",
    "walk",
]
