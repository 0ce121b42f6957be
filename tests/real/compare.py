"""Compares random calls of a few people with the REST API of their site, in one process of it.

It runs in the environment of a project, with its settings: python compare.py SEED

A call is compared with the same request over HTTP, by what the tool has sent to the view: with the
class of its status, and the JSON of its response. What either of them writes is rolled back.
"""

import random
import re
import sys
from collections import Counter
from contextlib import contextmanager

import django

CALLS = 300
OPTIONAL = 0.1
"""How often an argument is given that need not be."""
WRITES = 0.25
"""How often a tool that writes is chosen, if there are any."""
READ, WRITTEN, REFUSED, FAILED = "read", "written", "refused by the view", "failed in the view"
DIFFERS = re.compile(r"\d{4}-\d\d-\d\d(T| )\d\d:\d\d:\d\d[^\"]*|[a-z0-9]{16,}", re.IGNORECASE)
"""What two writes have made by themselves: times, and secrets."""


def main():
    django.setup()
    from django.test.utils import setup_test_environment
    from real import people

    from django_mcp import registry

    setup_test_environment()
    chance = random.Random(int(sys.argv[1]))
    persons = people.create()
    tools = [*registry.default.components.of_kind("tool")]
    print(f"{len(tools)} tools")
    writing = [tool for tool in tools if not tool.reads_only]
    counts, by_person, differences = Counter(), Counter(), []
    for _ in range(CALLS):
        some = writing if writing and chance.random() < WRITES else tools
        person, tool = chance.choice(persons), chance.choice(some)
        arguments = arguments_of(tool.input.schema, person, chance)
        outcome, difference = compare(person, tool.name, arguments)
        counts[outcome] += 1
        by_person[person.name, outcome] += 1
        if difference is not None:
            differences.append((tool.name, person.name, arguments, *difference))
    described = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
    print(f"{CALLS} calls: {described}; {len(differences)} differences")
    for (name, outcome), number in sorted(by_person.items()):
        print(f"  {name}: {number} {outcome}")
    for each in differences[:20]:
        print(*each, sep=" | ")
    sys.exit(bool(differences) or not counts[READ])


def compare(person, name, arguments):
    """The outcome of a call, and how the API differs from it, or None."""
    from asked import REQUESTS

    REQUESTS.clear()
    with undone(), person.mcp() as client:
        try:
            result = client.call_tool(name, arguments)
        except Exception as error:  # What a client receives for it.
            result = error
    if not REQUESTS:
        return "refused before the view", None
    asked = REQUESTS[-1]
    with undone():
        response = person.api().generic(
            asked.method, asked.path, asked.body, asked.content_type or "application/json"
        )
    outcome = outcome_of(result, asked.method)
    if outcome == outcome_of_status(response.status_code, asked.method) and (
        outcome in (REFUSED, FAILED) or has_content_of(response, result)
    ):
        return outcome, None
    given = getattr(result, "structured", None) or getattr(result, "text", None) or result
    return outcome, (
        asked.method,
        asked.path,
        response.status_code,
        getattr(response, "content", b"")[:300],
        str(given)[:300],
    )


def outcome_of(result, method):
    if not getattr(result, "is_error", True):
        return succeeded(method)
    return FAILED if "failed unexpectedly" in getattr(result, "text", "") else REFUSED


def outcome_of_status(status, method):
    if status < 300:  # Tools follow no redirects.
        return succeeded(method)
    return FAILED if status >= 500 else REFUSED


def succeeded(method):
    return READ if method == "GET" else WRITTEN


def has_content_of(response, result):
    """Whether the JSON of a response is the content of a result."""
    if not response.get("Content-Type", "").startswith("application/json"):
        return True
    if not response.content:
        return result.structured is None
    body, content = without_own(response.json()), without_own(result.structured)
    return content in (body, {"result": body})


def without_own(value):
    """The value without what two equal requests have made at different times."""
    if isinstance(value, dict):
        return {name: without_own(member) for name, member in value.items()}
    if isinstance(value, list):
        return [without_own(member) for member in value]
    return DIFFERS.sub("…", value) if isinstance(value, str) else value


@contextmanager
def undone():
    """What is written is rolled back."""
    from django.db import transaction

    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def arguments_of(schema, person, chance):
    required = schema.get("required", ())
    arguments = {}
    for name, member in schema.get("properties", {}).items():
        # A cursor is what an earlier call has returned.
        if name in required or (name != "cursor" and chance.random() < OPTIONAL):
            value = person.value_of(name, member, chance)
            arguments[name] = value_of(member, chance) if value is None else value
    return arguments


def value_of(schema, chance):
    if "enum" in schema:
        return chance.choice(schema["enum"])
    kind = schema.get("type")
    if kind in ("integer", "number") or "anyOf" in schema:
        return chance.randint(1, 7)
    if kind == "array":
        return []
    if kind == "boolean":
        return True
    if kind == "object":
        return {}
    return str(chance.randint(1, 7))


main()
