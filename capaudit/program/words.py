"""Which modules mention a word."""

from __future__ import annotations

import re

from capaudit.program.symbols import Module

_WORD = re.compile(r"[^\W\d]\w*")
_FEW = 48
"""Words after which an index of all of them pays: until then each module's text is searched for each."""


class Words:
    """Looks modules up by the words of their text, in the order of the modules."""

    def __init__(self, modules: list[Module]) -> None:
        self._modules = modules
        self._asked: dict[str, list[Module]] = {}
        self._index: dict[str, list[Module]] | None = None

    def modules(self, word: str) -> list[Module]:
        """Modules whose text holds an identifier, and maybe some that only hold it as part of another."""
        if self._index is not None:
            self._note(word)
            return self._index.get(word, [])
        found = self._asked.get(word)
        if found is None:
            if len(self._asked) >= _FEW:
                self._note(word)
                return self._indexed().get(word, [])
            found = self._asked[word] = [module for module in self._modules if word in module.source]
        return found

    def _note(self, word: str) -> None:
        if self._modules:
            self._modules[0].source.questions.needles[word] = None

    def _indexed(self) -> dict[str, list[Module]]:
        self._index = {}
        for module in self._modules:
            for word in words_of(module.source):
                self._index.setdefault(word, []).append(module)
        return self._index


def words_of(text: str) -> set[str]:
    """Return the identifiers of a text, keywords and what stands in comments and strings included."""
    return set(_WORD.findall(text))
