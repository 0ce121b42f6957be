"""Descriptions of parameters in docstrings: in the styles of Google, NumPy and reST."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import docstring_parser

_MENTIONS_PARAMETERS = re.compile(
    r"^[ \t]*(?:Args|Arguments|Params|Parameters|Keyword Args|Other Parameters)\b"
    r"|^[ \t]*[:@](?:param|parameter|arg|argument|key|keyword)\b",
    re.MULTILINE,
)


class Docstring(NamedTuple):
    text: str
    """The docstring without its section about parameters."""
    parameters: Mapping[str, str]
    """The description of each parameter that has one."""


def read(docstring: str, names: Collection[str]) -> Docstring:
    """Read a docstring without indentation; one that describes none of ``names`` stays as it is."""
    if not _MENTIONS_PARAMETERS.search(docstring):
        return Docstring(docstring, {})
    # The import takes 37 ms, and few sites need it at their start.
    parser: Any = import_module("docstring_parser")
    try:
        parsed = parser.parse(docstring)
    except parser.ParseError:
        return Docstring(docstring, {})
    described = {
        each.arg_name: " ".join(each.description.split())
        for each in parsed.params
        if each.description
    }
    if not described.keys() & set(names):
        return Docstring(docstring, {})
    # A model needs neither: parameters are in the schema, and errors have messages of their own.
    dropped = (parser.common.DocstringParam, parser.common.DocstringRaises)
    parsed.meta = [each for each in parsed.meta if not isinstance(each, dropped)]
    text = _composed(parsed, parser.compose)
    return Docstring(text, {name: each for name, each in described.items() if name in names})


def _composed(
    parsed: docstring_parser.Docstring, compose: Callable[[docstring_parser.Docstring], str]
) -> str:
    """The rest of a docstring: its text, the section about returns, and other sections."""
    returns = parsed.returns
    parsed.meta = [each for each in parsed.meta if each is not returns]
    text = compose(parsed).strip()
    if returns is not None and returns.description:
        text = f"{text}\n\nReturns: {' '.join(returns.description.split())}"
    return re.sub(r"\n{3,}", "\n\n", text)
