"""Full text over tools, for ``find_tools``: BM25 over names, titles, descriptions and parameters.

A word counts more in a name than in a description. Each word adds its *share* to the rank of a
tool. All shares are computed when the index is built; a search adds the shares of its words.

The index refers to a tool by its number: its position in the list of tools.

How rare a word is, and how long texts are, is counted over the tools that a caller may use: ranks
that counted all would tell of hidden ones. So there are several indexes, which callers with the
same tools share.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence, Set
from heapq import merge, nlargest
from itertools import pairwise
from math import log
from operator import itemgetter
from threading import Lock
from typing import NamedTuple

from django.utils import translation

from django_mcp.core.components.base import Component
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.protocol.texts import singular

K1 = 1.2
"""A parameter of BM25, with its usual value: how soon further occurrences of a word add less."""
B = 0.4
"""A parameter of BM25: how much lower longer texts rank. It is usually 0.75, but good descriptions
are long."""
WEIGHTS = {"name": 4.0, "title": 2.0, "hint": 3.0, "description": 1.5, "names": 1.0, "about": 0.5}
"""Of a word in the name, the title, the search hint, the description, and in the names and the
descriptions of parameters."""
OF_PARAMETERS = ("names", "about")
"""A list may have hundreds of filters, and is to be found by its own name: a word counts once in
all parameters, and they make no text longer."""
CANDIDATES = 40
"""Tools that are ranked first: those with the largest shares. The others are ranked only if a model
does not find enough of these."""
MAX_INDEXED = 20_000
"""Tools of all indexes of a server together, above which those that were used least recently are
dropped: some tens of megabytes."""
MAX_WORDS = 32
"""Words of a query that count."""

UNSPACED = (
    r"\u1100-\u11ff\u3005\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\u3130-\u318f\u3400-\u4dbf"
    r"\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Han, Kana and Hangul, in which words stand together without spaces, or with their particles."""
WORD = rf"[{UNSPACED}]+|[^\W\d_{UNSPACED}]+|\d+"
"""An expression for ``re``, which compiles it at the first use: that takes some milliseconds."""
OF_UNSPACED = f"[{UNSPACED}]"
"""The same, of a first character."""
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
"""Words of people, by the word that names and descriptions have for it: most tools do one of the
first five. The others are frequent verbs with forms that have no common ending."""


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
"""The stems of ``SAME``, by the stem that is replaced."""

DELETING = stem("delete")
UNASKED = 0.6
"""The rank of a tool that deletes is multiplied by it, unless the query has a word for deleting."""


def words_of(text: str) -> list[str]:
    """Return the words of a text or a name, in the form for comparisons.

    Where no spaces tell words apart, each pair of characters is a word.
    """
    words = re.findall(WORD, CAMEL.sub(" ", text))
    if not text.isascii():
        words = [part for word in words for part in _parts(word)]
    stems = [stem(word) for word in map(str.lower, words) if word not in STOP_WORDS]
    return [CANONICAL.get(word, word) for word in stems]


def _parts(word: str) -> Sequence[str]:
    if len(word) < 3 or re.match(OF_UNSPACED, word) is None:
        return (word,)
    return ["".join(pair) for pair in pairwise(word)]


class Texts(NamedTuple):
    """The texts of a tool for an index."""

    weights: Mapping[str, float]
    """The words, each with the sum of the weights of its places."""
    length: float
    deletes: bool

    @classmethod
    def of(cls, tool: Component) -> Texts:
        words = _words(tool)
        counted = [place for place in words if place not in OF_PARAMETERS]
        length = sum(WEIGHTS[place] * len(words[place]) for place in counted)
        return cls(_weighted(words), length, DELETING in words_of(tool.name))


class ToolIndex:
    """An index of some tools; a change of one needs another index."""

    def __init__(self, tools: Sequence[Component], earlier: Mapping[Component, Texts]) -> None:
        """``earlier`` are texts that need not be read again."""
        self.tools = tools
        self.texts = {tool: earlier.get(tool) or Texts.of(tool) for tool in tools}
        texts = [*self.texts.values()]
        self._shares: dict[str, dict[int, float]] = {}
        """The shares of each word by the number of the tool, the largest first."""
        for word, by_tool in _shares(texts).items():
            # A word that few tools have counts more.
            rarity = log(1 + (len(tools) - len(by_tool) + 0.5) / (len(by_tool) + 0.5))
            ordered = sorted(by_tool.items(), key=lambda item: (-item[1], item[0]))
            self._shares[word] = {number: share * rarity for number, share in ordered}
        self._deleting = {number for number, each in enumerate(texts) if each.deletes}

    def ranked(self, query: str) -> Iterator[Sequence[Component]]:
        """Yield the tools that have a word of the query, the best first, in at most two parts.

        The first part is bounded, however many tools there are.
        """
        different_words = [*dict.fromkeys(words_of(query))]
        words = different_words[:MAX_WORDS]
        shares = [self._shares[word] for word in words if word in self._shares]
        unasked = self._deleting if DELETING not in words else frozenset()
        first = candidates(shares)
        yield self._ordered(first, shares, unasked)
        with_a_word = {number for share in shares for number in share}
        rest = with_a_word.difference(first)
        if rest:
            yield self._ordered(sorted(rest), shares, unasked)

    def _ordered(
        self,
        numbers: Sequence[int],
        shares: Sequence[Mapping[int, float]],
        unasked: Set[int],
    ) -> Sequence[Component]:
        """Return the tools with these numbers, the best first; ``unasked`` rank lower."""
        ranks = scores(numbers, shares)
        for number in ranks.keys() & unasked:
            ranks[number] *= UNASKED
        # Tools of equal rank stay in the order of lists.
        best = nlargest(len(numbers), numbers, key=ranks.__getitem__)
        return [self.tools[number] for number in best]


class ToolIndexes:
    """The indexes of a server: one for each list of tools that some callers may use, and each
    language, in which texts may be translated."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._indexes: OrderedDict[tuple[str | None, Sequence[Component]], ToolIndex]
        self._indexes = OrderedDict()
        """By their language and tools, the one that was used least recently first."""

    def of(self, tools: Sequence[Component]) -> ToolIndex:
        """Return the index of these tools in the current language, which is built once."""
        language = translation.get_language()
        in_order = (*tools,)
        key = language, in_order
        with self._lock:
            index = self._indexes.get(key)
            if index is not None:
                self._indexes.move_to_end(key)
                return index
            alike = [index for key, index in self._indexes.items() if key[0] == language]
        texts_read = {tool: texts for index in alike for tool, texts in index.texts.items()}
        index = ToolIndex(in_order, texts_read)
        with self._lock:
            self._indexes[key] = index
            size = sum(len(kept.tools) for kept in self._indexes.values())
            while len(self._indexes) > 1 and size > MAX_INDEXED:
                _, oldest = self._indexes.popitem(last=False)
                size -= len(oldest.tools)
        return index


def _shares(tools: Sequence[Texts]) -> dict[str, dict[int, float]]:
    """Return the shares of each word by tool, as BM25 has them before the rarity of the word."""
    average = sum(texts.length for texts in tools) / len(tools) if tools else 1.0
    shares: dict[str, dict[int, float]] = {}
    for number, texts in enumerate(tools):
        norm = K1 * (1 - B + B * texts.length / average)
        for word, count in texts.weights.items():
            share = count * (K1 + 1) / (count + norm)
            shares.setdefault(word, {})[number] = share
    return shares


def candidates(shares: Sequence[Mapping[int, float]]) -> Sequence[int]:
    """Return the tools with the largest shares of any word, in the order of lists."""
    # The shares of each word are sorted.
    postings = (share.items() for share in shares)
    largest_first = merge(*postings, key=itemgetter(1), reverse=True)
    chosen: set[int] = set()
    for number, _ in largest_first:
        chosen.add(number)
        if len(chosen) == CANDIDATES:
            break
    return sorted(chosen)


def scores(numbers: Sequence[int], shares: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return the ranks of tools for the words of a query."""
    ranks = dict.fromkeys(numbers, 0.0)
    for share in shares:
        for number in ranks.keys() & share.keys():
            ranks[number] += share[number]
    return ranks


def _words(tool: Component) -> dict[str, list[str]]:
    """The words of a tool by their place, words of parameters once."""
    words: dict[str, list[str]] = {}
    for place, text in _texts(tool):
        words.setdefault(place, []).extend(words_of(text))
    return {
        place: [*dict.fromkeys(in_place)] if place in OF_PARAMETERS else in_place
        for place, in_place in words.items()
    }


def _weighted(words: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return each word with the sum of the weights of its places."""
    counts: dict[str, float] = {}
    for place, in_place in words.items():
        for word in in_place:
            counts[word] = counts.get(word, 0.0) + WEIGHTS[place]
    return counts


def _texts(tool: Component) -> Iterator[tuple[str, str]]:
    """Yield the texts of a tool, each with its place: a key of ``WEIGHTS``."""
    yield "name", tool.name
    yield "title", tool.listed_title or ""
    yield "description", tool.listed_description
    if isinstance(tool, ToolComponent):
        yield "hint", tool.search_hint or ""
        for name, described in tool.input_schema.get("properties", {}).items():
            yield "names", name
            if isinstance(described, Mapping):
                yield "about", str(described.get("description") or "")
