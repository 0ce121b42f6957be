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


def test_quick_class_has_the_signature_and_repr_of_the_dataclass() -> None:
    assert str(inspect.signature(Quick)) == str(inspect.signature(Plain))
    assert repr(Quick("a", 2, ["x"], owner=3)) == repr(Plain("a", 2, ["x"], owner=3)).replace(
        "Plain", "Quick"
    )


def test_omitted_fields_use_the_default_or_the_default_factory() -> None:
    first, second = Quick("a"), Quick("a")

    assert (first.size, first.parts, first.owner) == (1, [], None)
    assert first.parts is not second.parts


@pytest.mark.parametrize(
    "arguments", [((), {}), (("a",), {"colour": 1}), (("a", 1, [], 4), {})], ids=str
)
def test_unexpected_constructor_arguments_raise_type_error(arguments: tuple[Any, Any]) -> None:
    positional, named = arguments

    with pytest.raises(TypeError):
        Quick(*positional, **named)


def test_instance_is_frozen_after_construction() -> None:
    made = Quick("a")

    assert type(made) is Quick
    with pytest.raises(FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del made.name


def test_instance_supports_equality_replace_copy_and_pickle() -> None:
    made = Quick("a", owner=1)

    assert made == Quick("a", owner=1)
    assert replace(made, size=2) == Quick("a", 2, owner=1)
    assert copy.deepcopy(made) == made
    assert pickle.loads(pickle.dumps(made)) == made


def test_subclass_of_a_quick_class_is_rejected() -> None:
    with pytest.raises(TypeError, match="Quick"):

        class Derived(Quick):
            pass
