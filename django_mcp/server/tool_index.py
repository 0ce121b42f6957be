"""Full text over tools, for ``find_tools``: BM25 over names, titles, descriptions and parameters.

A word counts more in a name than in a description. What a word adds to the rank of a tool is
computed once, when the index is built: a search adds up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import islice
from math import log
from typing import Any

from django_mcp.components.base import Component
from django_mcp.components.nouns import singular
from django_mcp.components.tool import ToolComponent

K1 = 1.2
"""How soon further occurrences of a word add less, and below how much longer texts rank lower:
the usual values of BM25, with less weight of the length, since good descriptions are long."""
B = 0.4
WEIGHTS = {"name": 4.0, "title": 2.0, "hint": 3.0, "description": 1.5, "names": 1.0, "about": 0.5}
"""Of a word in the name, the title, the search hint, the description, and in the names and the
descriptions of parameters."""
CANDIDATES = 100
"""Tools that are ranked for one word first: so many have the largest share of it. The others follow
where the caller may not use enough of these."""
MAX_WORDS = 32
"""Words of a query that count."""

WORD = re.compile(r"[^\W\d_]+|\d+")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_STOP = (
    "a about am an and any anyone are as at be been but by can could did do does for from had has "
    "have he her him his how i if in into is it its just like may me might more my need needs no "
    "not now of off on or our out over please she should so some somebody someone still than that "
    "the their them then there these they this those to too up us use uses want was we were "
    "when whether whom whose why will with would you your one two three"
)
STOP_WORDS = frozenset(_STOP.split())
SAME = {
    "create": "add new make insert enter",
    "delete": "remove erase drop destroy",
    "update": "change edit modify set adjust correct",
    "list": "show find search which all browse every who where",
    "get": "retrieve read fetch detail look view what",
    "buy": "bought",
    "sell": "sold",
    "pay": "paid",
    "send": "sent",
    "write": "wrote written",
}
"""What people say, by what it is called in names and descriptions: most tools do one of the first
five. The others are frequent verbs whose forms have no common ending."""


def stem(word: str) -> str:
    """Return a word without common endings of English; it need not be a word itself."""
    if len(word) <= 3 or not word.isascii():
        return word
    word = singular(word)
    for ending in ("ing", "ed", "ment", "ion", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            is_doubled = word[-1] == word[-2] and word[-1] not in "lsaeiou"
            return word[:-1] if is_doubled else word
    return word


CANONICAL = {stem(word): stem(name) for name, words in SAME.items() for word in words.split()}


def words_of(text: str) -> list[str]:
    """Return the words of a text or a name, in the form in which they are compared."""
    found = WORD.findall(CAMEL.sub(" ", text))
    stems = [stem(word) for word in map(str.lower, found) if word not in STOP_WORDS]
    return [CANONICAL.get(word, word) for word in stems]


class ToolIndex:
    """An index of some tools; a change of one needs another index."""

    def __init__(self, tools: Sequence[Component]) -> None:
        self.tools = tools
        counted = [_weighted(tool) for tool in tools]
        lengths = [sum(counts.values()) for counts in counted]
        average = sum(lengths) / len(tools) if tools else 1.0
        shares: dict[str, dict[int, float]] = {}
        for number, counts in enumerate(counted):
            norm = K1 * (1 - B + B * lengths[number] / average)
            for word, count in counts.items():
                shares.setdefault(word, {})[number] = count * (K1 + 1) / (count + norm)
        self._shares = {word: self._ranked(by_tool) for word, by_tool in shares.items()}

    def _ranked(self, by_tool: Mapping[int, float]) -> dict[int, float]:
        """The shares of a word, the largest first; a word that few tools have counts more."""
        rarity = log(1 + (len(self.tools) - len(by_tool) + 0.5) / (len(by_tool) + 0.5))
        ordered = sorted(by_tool.items(), key=lambda item: (-item[1], item[0]))
        return {number: share * rarity for number, share in ordered}

    def ranked(self, query: str) -> Iterator[Sequence[Component]]:
        """Yield the tools that have a word of the query, the best first, in at most two parts.

        The first part is bounded, however many tools there are.
        """
        words = [*dict.fromkeys(words_of(query))][:MAX_WORDS]
        shares = [self._shares[word] for word in words if word in self._shares]
        first = {number for share in shares for number in islice(share, CANDIDATES)}
        yield self._ordered(first, shares)
        rest = {number for share in shares for number in share} - first
        if rest:
            yield self._ordered(rest, shares)

    def _ordered(
        self, numbers: set[int], shares: Sequence[Mapping[int, float]]
    ) -> Sequence[Component]:
        # Equal ones in the order of lists.
        ranks = {number: score(number, shares) for number in sorted(numbers)}
        best = nlargest(len(ranks), ranks, key=lambda number: ranks[number])
        return [self.tools[number] for number in best]


def score(number: int, shares: Sequence[Mapping[int, float]]) -> float:
    """Return the rank of a tool for the words of a query."""
    return sum(share.get(number, 0.0) for share in shares)


def _weighted(tool: Component) -> dict[str, float]:
    """The words of a tool, each with the sum of the weights of its places."""
    counts: dict[str, float] = {}
    for place, text in _texts(tool):
        for word in words_of(text):
            counts[word] = counts.get(word, 0.0) + WEIGHTS[place]
    return counts


def _texts(tool: Component) -> Iterator[tuple[str, str]]:
    yield "name", tool.name
    yield "title", tool.listed_title or ""
    yield "description", tool.listed_description
    if isinstance(tool, ToolComponent):
        yield "hint", tool.search_hint or ""
        yield from _parameters(tool.input_schema)


def _parameters(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, described in schema.get("properties", {}).items():
        yield "names", name
        if isinstance(described, Mapping):
            yield "about", str(described.get("description") or "")
