"""The selection of a connection among its caller's components: ``?groups=…&read_only=1``.

It is a part of the endpoint's URL, which is the same for all requests of a client. An access token
may be bound to a selection as well; a URL can only narrow it. A selection only removes: permissions
and scopes apply as without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from django_mcp.core.components.base import Component

MAX_GROUPS = 64
"""Groups of one selection: each is looked up."""
FLAGS = {"1": True, "true": True, "0": False, "false": False}
MISSPELT = {
    "group": "groups",
    "readonly": "read_only",
    "read-only": "read_only",
}
"""Ignoring one of these would offer components that the user meant to exclude."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The components of some groups, those that only read, or both."""

    groups: frozenset[str] | None = None
    """None: the components of all groups, and without a group."""
    read_only: bool = False
    all_tools: bool = False
    """Whether all tools are listed where a server with ``tool_search`` lists few of them."""
    bound: Selection | None = None
    """The selection of the caller's token, whatever the connection selects."""

    def includes(self, component: Component) -> bool:
        if component.is_in_every_selection:
            return True
        if self.read_only and not component.reads_only:
            return False
        if self.groups is not None and component.group not in self.groups:
            return False
        return self.is_within_bound(component)

    def is_within_bound(self, component: Component) -> bool:
        """Whether the token of the caller is for this component."""
        return self.bound is None or self.bound.includes(component)

    def to_json(self) -> dict[str, Any]:
        return {
            "groups": None if self.groups is None else sorted(self.groups),
            "read_only": self.read_only,
            "all_tools": self.all_tools,
            "bound": None if self.bound is None else self.bound.to_json(),
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Selection:
        groups = stored["groups"]
        bound = stored["bound"]
        return cls(
            groups=None if groups is None else frozenset(groups),
            read_only=stored["read_only"],
            all_tools=stored["all_tools"],
            bound=None if bound is None else cls.from_json(bound),
        )


def of_token(groups: Iterable[str], *, read_only: bool) -> Selection | None:
    """Return the selection that a token is bound to; None for one that is bound to nothing."""
    named = frozenset(groups) or None
    if named is None and not read_only:
        return None
    return Selection(bound=Selection(groups=named, read_only=read_only))


def of_names(
    names: Iterable[str], *, read_only: bool = False, all_tools: bool = False
) -> Selection | None:
    """Return the selection of these groups, or None for one that selects everything.

    Raises ValueError for too many groups. Whether they exist depends on the caller.
    """
    groups = frozenset(names)
    if len(groups) > MAX_GROUPS:
        raise ValueError(f"A connection can select at most {MAX_GROUPS} groups")
    if not groups and not read_only and not all_tools:
        return None
    return Selection(groups=groups or None, read_only=read_only, all_tools=all_tools)


@lru_cache(maxsize=256)
def of_query(query: bytes) -> Selection | None:
    """Return the selection of a URL's query; raises ValueError with a message for the user.

    Other parameters belong to the site.
    """
    given: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        remedy = MISSPELT.get(name.lower())
        if remedy is not None:
            raise ValueError(f"{name} in the URL selects nothing: write {remedy}")
        if name in given and name in READERS:
            raise ValueError(f"{name} is in the URL twice: write one of them")
        given[name] = value
    read = {name: reader(given[name]) for name, reader in READERS.items() if name in given}
    return of_names(
        read.get("groups", ()),
        read_only=read.get("read_only", False),
        all_tools=read.get("tools", False),
    )


def narrowed(selection: Selection | None, query: bytes) -> Selection | None:
    """Return the selection of a caller at the URL with this query; raises ValueError.

    ``selection`` is the one that the caller's token has.
    """
    selected = of_query(query)
    if selected is None:
        return selection
    return selected if selection is None else replace(selected, bound=selection.bound)


def read_groups(text: str) -> list[str]:
    """Return the names of groups from a list with commas; raises ValueError without a name."""
    names = [name.strip() for name in text.split(",")]
    present = [name for name in names if name]
    if not present:
        raise ValueError("groups names no group: write groups=tickets,billing")
    return present


def _read_flag(text: str) -> bool:
    if text.lower() not in FLAGS:
        raise ValueError(f"read_only is {text[:64]!r}: write read_only=1")
    return FLAGS[text.lower()]


def _read_tools(text: str) -> bool:
    if text != "all":
        raise ValueError(f"tools is {text[:64]!r}: write tools=all, or nothing")
    return True


READERS: dict[str, Any] = {"groups": read_groups, "read_only": _read_flag, "tools": _read_tools}
"""The function that reads a parameter of the URL, by the name of the parameter."""
