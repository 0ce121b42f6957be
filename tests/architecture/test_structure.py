"""The counts of scripts/structure.py that need more than a look at the code."""

from __future__ import annotations

import ast

from scripts import structure

MACHINES = """
from weakref import WeakSet
from package import states
from package.states import Machine, Record, shared

counter = 0
queue: list[int] = []
table = {}
CONSTANT = {"a": []}
shadowed = []
servers: WeakSet[object] = WeakSet()
here = PerLoop(dict).of
machine = Machine()
record = Record()
other_record = Record()
port: Port[int] = Port("counts")

def count():
    global counter
    counter += 1
    queue.append(counter)
    table["a"]["b"] = CONSTANT["a"]
    record.add(counter)
    other_record.items.append(counter)
    shared.update({})
    del states.seen["a"]

def shade(shadowed):
    shadowed.append(1)
"""
STATES = """
shared = dict()
seen = {"a": 1}

class Base:
    def __init__(self):
        self.items = []

class Machine(Base):
    def move(self, item):
        self.items.append(item)

class Derived(Machine):
    pass

class Record(Base):
    def add(self, number):
        return number

derived = Derived()
"""


def test_names_that_change_are_counted_by_kind() -> None:
    texts = {"package.machines": MACHINES, "package.states": STATES}

    names = structure.State({name: ast.parse(text) for name, text in texts.items()}).by_kind()

    assert {kind: {name.removeprefix("package.") for name in names[kind]} for kind in names} == {
        structure.REASSIGNED: {"machines.counter"},
        structure.PER_LOOP: {"machines.here"},
        structure.REFERENCES: {"machines.servers"},
        structure.COLLECTION: {"machines.queue", "machines.table", "states.shared", "states.seen"},
        structure.OBJECT: {"machines.machine", "machines.other_record", "states.derived"},
        structure.PORT: {"machines.port"},
    }
