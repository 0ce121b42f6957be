"""Values which are made quickly are what their dataclass says: frozen, compared, copied."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any

import pytest

from django_mcp.frozen import quickly_made


@dataclass(frozen=True, slots=True)
class Plain:
    name: str
    size: int = 1
    parts: list[str] = field(default_factory=list)
    owner: Any = field(default=None, kw_only=True)


@quickly_made
@dataclass(frozen=True, slots=True)
class Quick:
    name: str
    size: int = 1
    parts: list[str] = field(default_factory=list)
    owner: Any = field(default=None, kw_only=True)


def test_it_takes_what_the_dataclass_takes() -> None:
    assert str(inspect.signature(Quick)) == str(inspect.signature(Plain))
    assert repr(Quick("a", 2, ["x"], owner=3)) == repr(Plain("a", 2, ["x"], owner=3)).replace(
        "Plain", "Quick"
    )


def test_what_is_absent_is_the_default_or_made_anew() -> None:
    first, second = Quick("a"), Quick("a")

    assert (first.size, first.parts, first.owner) == (1, [], None)
    assert first.parts is not second.parts


@pytest.mark.parametrize(
    "arguments", [((), {}), (("a",), {"colour": 1}), (("a", 1, [], 4), {})], ids=str
)
def test_what_it_does_not_take_is_refused(arguments: tuple[Any, Any]) -> None:
    positional, named = arguments

    with pytest.raises(TypeError):
        Quick(*positional, **named)


def test_it_is_frozen_once_it_is_made() -> None:
    made = Quick("a")

    assert type(made) is Quick
    with pytest.raises(FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del made.name


def test_it_is_compared_replaced_copied_and_pickled() -> None:
    made = Quick("a", owner=1)

    assert made == Quick("a", owner=1)
    assert replace(made, size=2) == Quick("a", 2, owner=1)
    assert copy.deepcopy(made) == made
    assert pickle.loads(pickle.dumps(made)) == made


def test_nothing_is_derived_from_it_for_it_would_become_the_class_itself() -> None:
    with pytest.raises(TypeError, match="Quick"):

        class Derived(Quick):
            pass
