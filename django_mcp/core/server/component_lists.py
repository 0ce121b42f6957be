"""The components of one kind, in the order of lists, and the JSON of lists.

A change replaces a container instead of modifying it, so that one thread may iterate over a list
while another one adds to it. What is kept of a list is kept until a component changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

from django_mcp.core.auth.selection import Selection
from django_mcp.core.components.base import ORDER_BOUND, Component

MAX_SELECTIONS = 128
"""Selections of connections that are kept, of each kind of components."""
MAX_LISTS = 4 * 1024 * 1024
"""Bytes of encoded lists that a server keeps: one for each set of components that callers see."""

_CHANGING = Lock()
"""Held while components of a kind are declared or switched."""


def sort_key(component: Component) -> tuple[str, ...]:
    """Its place in a list: by ``order``, then by name. The cursor of a page is the last one.

    A cursor has strings only. ``order`` becomes one of ten digits that sorts as the number does:
    the shift makes it positive.
    """
    return (f"{component.order + ORDER_BOUND:010d}", component.name, component.key)


class InOrder(NamedTuple):
    """The components of one kind at one moment."""

    by_key: Mapping[str, Component]
    listed: Sequence[Component] = ()
    """In the order of lists."""
    guarded: Sequence[Component] = ()
    """Those with a permission."""
    is_public: bool = True
    """Whether everybody may use all of them."""

    @classmethod
    def of(cls, by_key: Mapping[str, Component], listed: Sequence[Component]) -> InOrder:
        guarded = [item for item in listed if item.permission is not None]
        return cls(by_key, listed, guarded, all(item.is_public for item in listed))


class ComponentsOfKind:
    """The components of one kind: by key, and in the order of lists.

    Switched-off components are declared, and are nowhere else: no call asks whether they are.
    """

    def __init__(self) -> None:
        self.is_used = False
        """Whether there ever was a component: clients may know the capability."""
        self.declared: Mapping[str, Component] = {}
        """All components, with those that are switched off."""
        self.switched_off: frozenset[str] = frozenset()
        """Keys, also of components that are not declared yet."""
        self.by_key: Mapping[str, Component] = {}
        """The components that clients may use."""
        self._sorted = InOrder(self.by_key)
        self._selected: dict[tuple[Selection | None, bool], InOrder] = {}

    def declare(self, change: Callable[[Mapping[str, Component]], Mapping[str, Component]]) -> None:
        """Replace the declared components by what ``change`` makes of them.

        No other thread changes them meanwhile.
        """
        with _CHANGING:
            self.declared = change(self.declared)
            self.by_key = self._switched_on()

    def switch_off(self, keys: frozenset[str]) -> bool:
        """Switch off the components with these keys, and all others on; whether any changed."""
        with _CHANGING:
            before = self.by_key
            self.switched_off = keys
            self.by_key = self._switched_on()
            return before.keys() != self.by_key.keys()

    def _switched_on(self) -> Mapping[str, Component]:
        if not self.switched_off:
            return self.declared
        return {key: item for key, item in self.declared.items() if key not in self.switched_off}

    def declared_in_order(self) -> Sequence[Component]:
        """Return the declared components in the order of lists."""
        if not self.switched_off:
            return self.in_order().listed
        return sorted(self.declared.values(), key=sort_key)

    def in_order(self) -> InOrder:
        """Return the components that clients may use, in the order of lists."""
        # Sorted when first read, since a starting site adds one after the other. The order is
        # stored with its mapping: a thread which sorted before a change and finishes after
        # another one cannot store an outdated order.
        current = self._sorted
        if current.by_key is not self.by_key:
            by_key = self.by_key
            ordered = sorted(by_key.values(), key=sort_key)
            current = InOrder.of(by_key, ordered)
            self._sorted = current
        return current

    def selected(self, selection: Selection | None, *, loaded_only: bool) -> InOrder:
        """Return the components that a connection selects.

        A selection is kept until a component changes.
        """
        everything = self.in_order()
        key = selection, loaded_only
        selected = self._selected.get(key)
        if selected is None or selected.by_key is not everything.by_key:
            listed = everything.listed
            if loaded_only:
                listed = [item for item in listed if item.always_load]
            if selection is not None:
                listed = [item for item in listed if selection.includes(item)]
            selected = InOrder.of(everything.by_key, listed)
            # Clients choose the groups, so that there may be many combinations.
            kept = self._selected if len(self._selected) < MAX_SELECTIONS else {}
            self._selected = {**kept, key: selected}
        return selected


class EncodedLists:
    """The JSON of entries and lists, by revision and components, until a component changes."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, Component], bytes] = {}
        self.lists: dict[tuple[object, ...], bytes] = {}
        self._size = 0

    def add(self, key: tuple[object, ...], json: bytes) -> None:
        """Keep a list; all others are dropped where there are too many."""
        self._size += len(json)
        if self._size > MAX_LISTS:
            self.lists = {}
            self._size = len(json)
        if self._size <= MAX_LISTS:
            self.lists[key] = json
