"""Questions and output of commands in a terminal: a choice, a tool's questions, and progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django_mcp.core.protocol.errors import Json

BAR_WIDTH = 24
CAPABILITIES: Json = {"elicitation": {"form": {}, "url": {}}}
"""The requests that ``answer_to`` can answer."""

YES = ("y", "yes")
NO = ("n", "no")


def is_interactive() -> bool:
    """Whether somebody can be asked, and sees the question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def choose(question: str, titles: Sequence[str]) -> int | None:
    """Return the index of the chosen title; None for all of them, which Enter alone means."""
    for number, title in enumerate(titles, 1):
        _write(f"{number:3}  {title}")
    try:
        while answer := _read(f"{question} (1 to {len(titles)}, or Enter for all): "):
            if answer.isdecimal() and 1 <= int(answer) <= len(titles):
                return int(answer) - 1
    except EOFError:
        _write("")
    return None


def answer_to(request: Json) -> Json:
    """Return the result of an elicitation, as its user answers it; the end of input cancels."""
    params = request["params"]
    _write(params["message"])
    try:
        if params.get("mode") == "url":
            _read(f"Open {params['url']} and press Enter when you are done. ")
            return {"action": "accept"}
        schema = params["requestedSchema"]
        required = schema.get("required", ())
        content: dict[str, Any] = {}
        for name, field in schema.get("properties", {}).items():
            value = _ask_for(name, field, name in required)
            if value is not None:
                content[name] = value
        confirmation = None
        while confirmation not in (*YES, *NO, ""):
            confirmation = _read("Send this answer? (Y/n) ").casefold()
        if confirmation in NO:
            return {"action": "decline"}
        return {"action": "accept", "content": content}
    except EOFError:
        _write("")
        return {"action": "cancel"}


def progress_bar(params: Json) -> str:
    """Return one line: a bar if the total is known, the number and the message."""
    progress = params["progress"]
    total = params.get("total")
    message = params.get("message") or ""
    if not total:
        return f"{progress:g} {message}".rstrip()
    share = min(max(progress / total, 0.0), 1.0)
    filled = round(share * BAR_WIDTH)
    bar = "#" * filled + "." * (BAR_WIDTH - filled)
    return f"[{bar}] {progress:g}/{total:g} {message}".rstrip()


def _ask_for(name: str, field: Json, is_required: bool) -> Any:
    """Return the value of one field; None if an optional one is left out."""
    default = field.get("default")
    read = READERS.get(field.get("type", "string"), _text)
    question = _question(name, field, is_required)
    while True:
        answer = _read(question)
        if answer == "" and default is not None:
            return default
        if answer == "" and not is_required:
            return None
        try:
            return read(answer, field)
        except ValueError as error:
            _write(f"  {error}")


def _question(name: str, field: Json, is_required: bool) -> str:
    title = field.get("title") or name
    details = [field.get("description", ""), ", ".join(_titles(field))]
    if field.get("default") is not None:
        details.append(f"Enter for {field['default']}")
    elif not is_required:
        details.append("optional")
    shown = "; ".join(filter(None, details))
    return f"  {title} ({shown}): " if shown else f"  {title}: "


def _titles(field: Json) -> list[str]:
    """The choices of a field, by their values."""
    items = field.get("items", field)
    constants = [option["const"] for option in items.get("oneOf") or items.get("anyOf") or ()]
    return [str(value) for value in items.get("enum") or constants]


def _text(answer: str, field: Json) -> str:
    choices = _titles(field)
    if choices and answer not in choices:
        raise ValueError("Enter one of these values.")
    if answer == "":
        raise ValueError("A value is required.")
    return answer


def _integer(answer: str, field: Json) -> int:
    try:
        return int(answer)
    except ValueError:
        raise ValueError("Enter a whole number.") from None


def _number(answer: str, field: Json) -> float:
    try:
        return float(answer)
    except ValueError:
        raise ValueError("Enter a number.") from None


def _boolean(answer: str, field: Json) -> bool:
    if answer.casefold() not in (*YES, *NO):
        raise ValueError("Enter y or n.")
    return answer.casefold() in YES


def _several(answer: str, field: Json) -> list[str]:
    values = [value.strip() for value in answer.split(",") if value.strip()]
    for value in values:
        _text(value, field)
    return values


READERS: Mapping[str, Callable[[str, Json], Any]] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "array": _several,
}
"""Functions that read an answer, by the type of its field; each raises ValueError."""


def _write(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _read(question: str) -> str:
    """Return a line without the newline; raises EOFError at the end of the input."""
    sys.stderr.write(question)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if line == "":
        raise EOFError
    return line.strip()
