"""The rules of the syntax tree report what they are for, and nothing else."""

from __future__ import annotations

import ast

import pytest

from tests.architecture import rules

PADDING = "    pass\n" * rules.LONG

SAMPLES: dict[rules.Rule, tuple[list[str], list[str]]] = {
    rules.tuple_assignment: (
        [
            "a, b = x, y",
            "self.a, b = [], None",
            "[a, b] = x, y",
            "a, b = b2, a2",
            "x, self.x = self.x, []",
        ],
        ["a, b = b, a", "a, b = b, a + b", "a, b = f()", "a = x, y"],
    ),
    rules.lambda_with_logic: (
        ["lambda a: f(g(a))", "lambda a: a or b", "lambda a: b if a else c"],
        ["lambda a: f(a)", "lambda: None", "lambda a: a.b + 1"],
    ),
    rules.nested_condition: (
        [
            "a if b else c if d else e",
            "a if (b if c else d) else e",
            "f(a if b else g(c if d else e))",
        ],
        ["a if b else c", "[a if b else c, d if e else f]"],
    ),
    rules.nameless_result: (
        [
            "def f():\n    found = 1\n",
            f"def f():\n    known = 1\n{PADDING}",
            f"async def f(each):\n{PADDING}",
            f"def f():\n    for each in x:\n        pass\n{PADDING}",
        ],
        [
            "def f():\n    known = 1\n",
            f"def f():\n    x = [each for each in y]\n{PADDING}",
            f"def f():\n    def g(each): return each\n{PADDING}",
            f"def f():\n    value = found\n{PADDING}",
        ],
    ),
    rules.undocumented_dataclass: (
        ["@dataclass\nclass A:\n    a: int", "@dataclass(slots=True)\nclass A:\n    a: int"],
        ['@dataclass\nclass A:\n    """A."""\n    a: int', "class A:\n    a: int"],
    ),
}


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_rule_reports_what_it_is_for(rule: rules.Rule) -> None:
    wrong, right = SAMPLES[rule]

    assert [code for code in wrong if not list(rule(ast.parse(code)))] == []
    assert [code for code in right if list(rule(ast.parse(code)))] == []
