"""Only the folder of a feature names it: a word of a feature elsewhere is an explained exception.

Imports, identifiers, strings and the names of modules count; comments and docstrings do not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture import rules
from tests.architecture.sources import PACKAGE, sources

OPTIONS = {
    "core/components/tool.py": "options of the declaration, with their types for checkers",
    "core/components/declaration.py": "the app that a message names for an option without it",
}
TABLE = {"apps.py": "the table of the package's own extensions, and of ports"}
SETTINGS = {"conf.py": "settings that sites type"}


class Feature(NamedTuple):
    folder: str
    words: re.Pattern[str]
    """What names it: the whole of an identifier, of a string, or of an imported module."""
    elsewhere: Mapping[str, str]
    """The modules and folders that name it, and why."""


FEATURES = {
    "tasks": Feature(
        "tasks",
        re.compile(
            r"django_mcp\.(core\.protocol\.)?tasks(\..*)?|(notifications/)?tasks/\w+|has_tasks"
            r"|task_support|task_after|answer_within|call_status|TaskSupport"
        ),
        {
            **OPTIONS,
            **TABLE,
            **SETTINGS,
            "admin": "the pages of tasks, and the page that calls a tool as a client does",
            "checks/components.py": "a call that is a task at once is asked without a rollback",
            "contrib/approvals": "an approval is a task that waits for a person",
            "contrib/events": "deliveries use its runners, its clock and its copies of callers",
            "contrib/url_elicitation/questions.py": "the page is the client of a task",
            "core/protocol": "the words of the specification",
            "management/commands/mcp_prune.py": "it counts deleted tasks in its first sentence",
            "testing/results.py": "an assertion that users type",
            "tool_search/extension.py": "an option of the tool that it adds",
        },
    ),
    "approvals": Feature(
        "contrib/approvals",
        re.compile(
            r"django_mcp\.contrib\.approvals(\..*)?|django_mcp_approvals.*"
            r"|\w*(approval|approver)s?|approval_\w+",
            re.IGNORECASE,
        ),
        {
            **OPTIONS,
            **SETTINGS,
            "__init__.py": "the value of the option",
            "admin/tasks.py": "the link from a task to the page of its approval",
            "toolsets/components.py": "a resource is read at once, so that it cannot wait for one",
            "contrib/oauth": "another approval: of a program, by a setting of django-oauth-toolkit",
            "modeladmin": "the option of tools in two steps; models that only people change",
            "models.py": "the column of tasks that wait for one",
            "runtime/pages.py": "the links between the pages of users",
            "tasks/store.py": "the same column",
            "testing/results.py": "an assertion that users type",
        },
    ),
    "views": Feature(
        "ui",
        re.compile(
            r"django_mcp\.ui(\..*)?|ui|ui://.*|.*modelcontextprotocol/ui|.*mcp-app|mcp_apps"
            r"|app_only|renders_apps|(template|form|approval|table)_view|add_fragment|has_fragment"
            r"|openai/widget\w+"
        ),
        {
            **OPTIONS,
            **TABLE,
            "admin/try_it": "the page that shows the view of a tool, as a host does",
            "contrib/approvals": "a card for views, by the functions that sites use",
            "testing": "a client that shows a view, as a host does",
            "toolsets": "the option ui of a Toolset: the view of a list",
        },
    ),
    "tool search": Feature(
        "tool_search",
        re.compile(r"django_mcp\.tool_search(\..*)?|\w*tool_search\w*|find_tools|search_hint"),
        {
            **TABLE,
            "core/components/tool.py": OPTIONS["core/components/tool.py"],
            "core/server/server.py": "the option of a Server that turns it on",
        },
    ),
    "URL elicitation": Feature(
        "contrib/url_elicitation",
        re.compile(
            r"django_mcp\.contrib\.url_elicitation(\..*)?|django_mcp_elicitation.*"
            r"|a?elicit_page|question_page|PageAnswer|QuestionView",
            re.IGNORECASE,
        ),
        {},
    ),
    "call log": Feature(
        "contrib/call_log",
        re.compile(
            r"django_mcp\.contrib\.call_log(\..*)?|\w*call_?log\w*|log_arguments", re.IGNORECASE
        ),
        {
            **OPTIONS,
            **SETTINGS,
            "admin/call_numbers.py": "the numbers of calls beside each component",
        },
    ),
}


@cache
def names() -> Mapping[str, frozenset[str]]:
    """The names in each module, by its path in the package."""
    return {
        str(path.relative_to(PACKAGE)): frozenset(names_in(path))
        for path in sources()
        if "migrations" not in path.parts
    }


def names_in(path: Path) -> Iterator[str]:
    yield path.stem
    tree = ast.parse(path.read_text(encoding="utf-8"))
    yield from (text for _, text in rules.literals(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                yield node.module or ""
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            case ast.Name():
                yield node.id
            case ast.Attribute():
                yield node.attr
            case ast.arg() | ast.keyword():
                yield node.arg or ""
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name


@pytest.mark.parametrize("name", FEATURES)
def test_only_the_folder_of_a_feature_names_it(name: str) -> None:
    feature = FEATURES[name]
    unexplained: dict[str, list[str]] = {}
    used: set[str] = set()
    for path, words in names().items():
        naming = sorted(word for word in words if feature.words.fullmatch(word))
        if not naming or is_in(path, feature.folder):
            continue
        reasons = [other for other in feature.elsewhere if is_in(path, other)]
        used.update(reasons)
        if not reasons:
            unexplained[path] = naming

    assert unexplained == {}
    assert feature.elsewhere.keys() == used


def is_in(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}/")


@pytest.mark.parametrize("name", FEATURES)
def test_feature_names_itself(name: str) -> None:
    """Otherwise its words are misspelt, and the test above cannot fail."""
    feature = FEATURES[name]
    own = [words for path, words in names().items() if is_in(path, feature.folder)]

    assert any(feature.words.fullmatch(word) for words in own for word in words)
