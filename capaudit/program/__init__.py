"""The program as an index: modules, classes, functions and where names lead. Nothing is executed."""

from capaudit.program.index import Program, build_program
from capaudit.program.symbols import ClassInfo, FunctionInfo, Module, Unparsable

__all__ = ["ClassInfo", "FunctionInfo", "Module", "Program", "Unparsable", "build_program"]
