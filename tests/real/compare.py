"""Compares random calls of three users with the REST API of their site, in one process of it.

It runs in the environment of a project, with its settings: python compare.py SEED
"""

import random
import sys
from dataclasses import replace

import django

CALLS = 200


def main():
    django.setup()
    from django.test.utils import setup_test_environment
    from real import mcp, people
    from rest_framework.test import APIClient

    from django_mcp import registry
    from django_mcp.testing import SyncClient
    from django_mcp.testing import client as testing

    setup_test_environment()
    # The callers of the site's own authenticator, by whose scheme views decide.
    of_test = testing._principal
    testing._principal = lambda user, scopes: replace(
        of_test(user, scopes), scheme="django_session"
    )
    chance = random.Random(int(sys.argv[1]))
    users = people.create()
    tools = [*registry.default.components.of_kind("tool")]
    print(f"{len(tools)} tools")
    different, compared, refused = [], 0, 0
    while compared < CALLS:
        user, tool = chance.choice(users), chance.choice(tools)
        with SyncClient(user=user, raise_exceptions=False) as client:
            schema = tool.input.schema
            arguments = {
                name: value_of(member, chance)
                for name, member in schema.get("properties", {}).items()
                if name in schema.get("required", ())
            }
            mcp.PATHS.clear()
            try:
                result = client.call_tool(tool.name, arguments)
            except Exception as error:
                result = error
        if not mcp.PATHS:
            refused += 1
            compared += 1
            continue
        api = APIClient(raise_request_exception=False)
        api.force_authenticate(user)
        response = api.get(mcp.PATHS[-1])
        compared += 1
        is_error = getattr(result, "is_error", True)
        same = is_error == (response.status_code >= 400)
        if (
            same
            and not is_error
            and response.get("Content-Type", "").startswith("application/json")
        ):
            body = response.json()
            content = getattr(result, "structured", None)
            same = content is None or content == body or content == {"result": body}
        if not same:
            different.append(
                (tool.name, str(user), mcp.PATHS[-1], response.status_code, str(result)[:200])
            )
    print(
        f"{compared} calls, {refused} without a request of the view, {len(different)} differences"
    )
    for each in different[:20]:
        print(*each, sep=" | ")
    sys.exit(bool(different))


def value_of(schema, chance):
    kind = schema.get("type")
    if kind == "integer" or "anyOf" in schema:
        return chance.randint(1, 7)
    if kind == "array":
        return []
    if kind == "boolean":
        return True
    return str(chance.randint(1, 7))


main()
