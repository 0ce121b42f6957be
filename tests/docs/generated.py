"""The generated parts of the documentation.

They are enclosed in ``<!-- generated: api django_mcp.Frame -->``, for instance, and
``<!-- end -->``. ``python -m tests.docs.generated`` updates them.
"""

from __future__ import annotations

import inspect
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from enum import Enum
from pkgutil import resolve_name
from typing import Any

import django

from django_mcp.core.components.tool import ToolOptions
from django_mcp.core.protocol.revisions import REVISIONS, Feature
from tests.conversations.recorded import table
from tests.first_steps.steps import STEPS
from tests.spec import ATTEMPTS, marked_tests

PART = re.compile(r"(<!-- generated: (\w+) ([\w.\s]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def current(page: str) -> str:
    """Return a page with its generated parts updated."""

    def written(part: re.Match[str]) -> str:
        return f"{part[1]}\n{WRITE[part[2]](*part[3].split())}\n\n{part[4]}"

    return PART.sub(written, page)


# Features of the revisions.


def revisions(field: str) -> str:
    """A table of one field of the revisions, with a column for each; below it what all share."""
    versions = [each.version for each in REVISIONS]
    rows = [*ROWS.get(field, _entries)(field)]
    different = [row for row in rows if len({*row[1:]}) > 1]
    shared = [row for row in rows if len({*row[1:]}) == 1]
    lines = [["", *versions], ["---"] * (len(versions) + 1), *different]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\nAll revisions: {', '.join(map(_shared, shared))}." if shared else table


def _shared(row: Sequence[str]) -> str:
    """The name of a row, with its value if that is a number."""
    name, value, *_ = row
    return name if value == _yes(True) else f"{name} {value}"


def _rules(field: str) -> Iterator[list[str]]:
    yield ["Opened by", *(each.statefulness.name.lower() for each in REVISIONS)]
    yield ["Structured content of a tool", *(each.structured.name.lower() for each in REVISIONS)]
    # The description of a feature is the string below its name.
    written = re.findall(r'(\w+) = auto\(\)\n +"""(.*?)\.?"""', inspect.getsource(Feature), re.S)
    for name, words in written:
        yield [words, *(_yes(each.has(Feature[name])) for each in REVISIONS)]


def _entries(field: str) -> Iterator[list[str]]:
    values = [getattr(each, field) for each in REVISIONS]
    for name in sorted({name for each in values for name in each}):
        yield [f"`{name}`", *(str(value.get(name, "")) for value in values)]


def _yes(fact: bool) -> str:
    return "yes" if fact else ""


ROWS: Mapping[str, Callable[[str], Iterator[list[str]]]] = {"rules": _rules}


# The public API.


@dataclass(frozen=True)
class _Bare:
    """The source of an annotation or a default, without quotes."""

    text: str

    def __repr__(self) -> str:
        return self.text


def api(name: str, *members: str) -> str:
    """The signature and docstring of a dotted name, or its members."""
    it = resolve_name(name)
    if members:
        return "\n".join(_member(member, getattr(it, member)) for member in members)
    return f"```text\n{_call(name.rpartition('.')[2], it)}\n```\n\n{inspect.getdoc(it)}"


def _member(name: str, it: Any) -> str:
    call = _call(name, it) if callable(it) else name
    return f"* `{call}`: {' '.join((inspect.getdoc(it) or '').split())}"


def _call(name: str, it: Any) -> str:
    """A signature without types: those are in the package, for editors and type checkers.

    A class whose constructor is inherited, or takes nothing, is its name alone.
    """
    if isinstance(it, type) and "__init__" not in vars(it) and not is_dataclass(it):
        return name
    found = inspect.signature(it)
    taken = [
        each.replace(annotation=inspect.Parameter.empty, default=_named(each.default))
        for each in _with_described(it, found.parameters)
        if each.name != "self"
    ]
    if isinstance(it, type) and not taken:
        return name
    return f"{name}{found.replace(parameters=taken, return_annotation=_returned(it, found))}"


def _with_described(
    it: Any, parameters: Mapping[str, inspect.Parameter]
) -> Iterator[inspect.Parameter]:
    """The parameters, and before ``**common`` the options that the docstring gives a meaning."""
    described = re.findall(r"``(\w+)=", inspect.getdoc(it) or "")
    for each in parameters.values():
        if each.kind is each.VAR_KEYWORD:
            for name in dict.fromkeys(described):
                if name in ToolOptions.__annotations__ and name not in parameters:
                    yield inspect.Parameter(name, each.KEYWORD_ONLY, default=None)
        yield each


def _returned(it: Any, signature: inspect.Signature) -> Any:
    """The type that a call returns, where it says something."""
    returned = signature.return_annotation
    if isinstance(it, type) or returned in UNSAID:
        return inspect.Signature.empty
    return (
        _Bare(re.sub(r"\[(?:str, )?Any\]", "", returned)) if isinstance(returned, str) else returned
    )


UNSAID = {"Any", "None", "Self", "Coroutine[Any, Any, None]"}
"""Annotations of functions that return nothing, or the object itself."""


def _named(default: Any) -> Any:
    if isinstance(default, Enum):
        return _Bare(default.name)
    # The repr of an object that has none of its own contains its memory address.
    return _Bare(f"{type(default).__name__}()") if " at 0x" in repr(default) else default


# The lists of attempts.


def attempts(group: str) -> str:
    """A list of attempts, their outcomes and their tests."""
    lines = []
    for identity, it in ATTEMPTS[group].items():
        (test,) = marked_tests()[identity]
        lines.append(f"* {it['attempt']}: *{it['outcome']}*. `{test}`")
    return "\n".join(lines)


def clients(name: str) -> str:
    """The requests of clients that the tests send."""
    return table()


def steps(_: str) -> str:
    """The forgotten or wrong steps that the tests try, and the words that a developer gets."""
    lines = ["| what was done | where it shows | words |", "|---|---|---|"]
    for it in STEPS:
        # What ``manage.py check`` and clients say names the remedy.
        if it.is_shown and it.noticed not in ("`manage.py check`", "a client"):
            words = textwrap.shorten(it.words, MAX_MESSAGE, placeholder=" …")
            lines.append(f"| {it.mistake} | {it.noticed} | `{words}` |")
    return "\n".join(lines)


MAX_MESSAGE = 150
"""Characters of a message in a table: who gets it reads the rest."""


def snippets(group: str) -> str:
    """Snippets of tools, and their outcomes."""
    from tests.docs.snippets import table  # It needs Django's settings.

    return table(group)


WRITE: Mapping[str, Callable[..., str]] = {
    "revisions": revisions,
    "api": api,
    "attempts": attempts,
    "clients": clients,
    "steps": steps,
    "snippets": snippets,
}


def main() -> None:
    """Update every page that has generated parts."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_site.settings")
    django.setup()
    from tests.docs.examples import PAGES

    for page in PAGES:
        page.write_text(current(page.read_text()))


if __name__ == "__main__":
    main()
