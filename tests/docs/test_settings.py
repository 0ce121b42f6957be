"""Settings in prose: the names exist, and the defaults are those of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.conf import global_settings

from django_mcp import conf
from django_mcp.auth.introspection import IntrospectionAuthentication
from django_mcp.contrib.tokens.forms import DEFAULT_LIFETIME
from django_mcp.core.frame.client import input_requests
from django_mcp.management.commands import mcp_doctor
from tests.docs.examples import FENCE, PAGES, ROOT
from tests.rows import rows

PROSE = (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")

OF_DJANGO = {
    *(name for name in dir(global_settings) if name.isupper()),
    "ATOMIC_REQUESTS",
    "BACKEND",
    "CONN_HEALTH_CHECKS",
    "CONN_MAX_AGE",
    "LOCATION",
    "MAX_ENTRIES",
    "ROOT_URLCONF",
    "OPTIONS",
}
"""Django's settings, and keys of its dicts."""
OF_PACKAGES = {
    "ALLOWED_REDIRECT_URI_SCHEMES",
    "ASGI_APPLICATION",
    "CHANNEL_LAYERS",
    "CONFIG",
    "DJANGO_MCP",
    "DJANGO_MCP_AUTHENTICATION_CLASSES",
    "DJANGO_MCP_ENDPOINT",
    "FILTER_LISTINGS_BY_PERMISSIONS",
    "FRISIAN_MCP_ROUTES",
    "FRISIAN_MCP_TOOL_MIDDLEWARE",
    "OAUTH2_PROVIDER",
    "OIDC_ISS_ENDPOINT",
    "REST_FRAMEWORK",
}
"""Settings of this package, of others on which it builds, and of those that users come from."""
OF_THE_ENVIRONMENT = {
    "DATABASE_URL",
    "DJANGO_SETTINGS_MODULE",
    "HOST",
    "MCP_TEST_TIMEOUT",
    "MCP_TOKEN",
    "MYSQL_HOST",
    "MYSQL_URL",
    "PGHOST",
    "PORT",
    "REDIS_URL",
    "REMOTE_ADDR",
    "SERVICES_REQUIRED",
}
OF_OTHER_THINGS = {
    "ALIASES",
    "BASE_DIR",
    "CASCADE",
    "DELETE",
    "FAILURE",
    "INVALID_TOKEN",
    "LEVELS",
    "POST",
    "SECONDS",
    "SET_DEFAULT",
    "SET_NULL",
    "SIGHUP",
    "SIGINT",
    "SIGTERM",
    "STEPS",
    "TCP_INFO",
    "UPDATE",
    "UUID",
}
"""Words of HTTP, SQL, Django's models and operating systems, and constants of examples."""
FOR_CONTRIBUTORS = ("CONTRIBUTING.md", "design.md", "what-guarantees-cost.md", "benchmarks.md")
IN_PYTHON = re.compile(r"^([A-Z][A-Z_]+)\b(?:: [^=\n]+)? = ", re.MULTILINE)
"""Constants of a module, which the pages for contributors name."""

UNITS = {
    "": 1,
    "bytes": 1,
    "days": 24 * 3600,
    "hours": 3600,
    "minutes": 60,
    "ms": 0.001,
    "s": 1,
    "second": 1,
    "seconds": 1,
    "MB": 1024 * 1024,
}
AMOUNT = r"(?P<number>\d[\d,]*(?:\.\d+)?)(?: (?P<unit>[A-Za-z]+))?"
SUBJECT = r"(?:`(?:DJANGO_MCP\[\")?(?P<name>[^`\n\"]+)(?:\"\])?`|\*\*(?P<title>[^*\n]+)\*\*)"
STATEMENTS = (
    # `KEY` seconds (5 by default); `KEY`, 5 seconds by default; | `--key SECONDS` | …; 5 by default
    re.compile(SUBJECT + r"(?P<between>[^`.]*?)\b" + AMOUNT + r" by default"),
    # `KEY`, by default 20 seconds; `KEY` (default: 20)
    re.compile(SUBJECT + r"(?P<between>[^`.]*?)\b(?:by )?default:? " + AMOUNT),
    # `KEY` (20 seconds)
    re.compile(r"`(?P<name>[A-Z_]+)`(?P<between>) \(" + AMOUNT + r"\)"),
    # 9 seconds later at the latest (`KEY`)
    re.compile(AMOUNT + r"(?P<between>[^`.|()]*?)\(`(?P<name>[A-Z_]+)`\)"),
)
TABLE = re.compile(r"^\| [a-z ]+ \| default \|[^\n]*\n\|[-|]+\|\n((?:\|[^\n]+\n)+)", re.MULTILINE)
ROW = re.compile(r"^\| `(?P<name>[A-Z_]+)` \| " + AMOUNT + r" \|", re.MULTILINE)
"""A row of a table with the columns setting and default, in words."""

CONSTANTS: Mapping[str, float] = {
    "cache_seconds": IntrospectionAuthentication.cache_seconds,
    "create --days N": DEFAULT_LIFETIME * UNITS["days"],
    "Expiry": DEFAULT_LIFETIME * UNITS["days"],
    "timeout=": input_requests.RESPONSE_TIMEOUT,
    "--timeout SECONDS": mcp_doctor.Command().create_parser("", "").get_default("timeout"),
}
"""What has a default and is no setting, by the words of the pages."""
OF_OTHERS = {"HOST", "MAX_ENTRIES", "PORT", "terminationGracePeriodSeconds"}
"""Defaults of other programs."""


def settings_of(text: str) -> Iterator[str]:
    """What looks like a setting: capitals in backticks, and keys of DJANGO_MCP."""
    prose = FENCE.sub("", text)
    yield from re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[A-Z]{4,})`", prose)
    yield from re.findall(r"DJANGO_MCP\[\"(\w+)\"\]", text)


def false_defaults(text: str) -> Iterator[str]:
    """The statements about a default that differ from the code, or name nothing that has one."""
    prose = FENCE.sub("", text).replace("\n", " ")
    found = [match for pattern in STATEMENTS for match in pattern.finditer(prose)]
    found += [row for table in TABLE.finditer(text) for row in ROW.finditer(table[1])]
    for match in found:
        parts = match.groupdict()
        name = parts["name"] or parts["title"]
        expected = default_of(name)
        if expected != amount(parts["number"], parts["unit"]) and name not in OF_OTHERS:
            yield f"{match[0]!r}: the default is {expected}"


def amount(number: str, unit: str | None) -> float | None:
    """The amount in seconds or bytes; a word after a bare number is no unit."""
    return float(number.replace(",", "")) * UNITS.get(unit or "", 1)


def default_of(name: str) -> Any:
    """The default of a setting or of what else the pages describe, or None."""
    if name in conf.KEYS:
        return getattr(conf.Settings(name=""), name.lower())
    return CONSTANTS.get(name)


def constants_of_the_package() -> set[str]:
    files = [*(ROOT / "django_mcp").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    return {name for file in files for name in IN_PYTHON.findall(file.read_text())}


def test_settings_reference_lists_every_setting_with_its_default() -> None:
    reference = (ROOT / "docs" / "reference" / "settings.md").read_text()
    rows = re.findall(r"^\| `([A-Z_]+)` \| `([^|]+)` \|", reference, re.MULTILINE)
    assert dict(rows) == {key: shown_default(key) for key in conf.KEYS}, (
        "docs/reference/settings.md has a row | `KEY` | `default` | … for each key of conf.KEYS"
    )


def shown_default(key: str) -> str:
    """The default of a setting in the format of the reference."""
    return COMPUTED_DEFAULTS.get(key) or repr(default_of(key))


COMPUTED_DEFAULTS = {
    "NAME": "the package of ROOT_URLCONF",
    "PROTOCOL_VERSIONS": "all of them",
    "STORES": "the database",
    "TASK_RUNNER": "in the process",
    "SCOPE_HIERARCHY": "{}",
    "SERIALIZERS": "{}",
    "SYNC_THREAD_POOL_SIZE": "processors + 4, at most 32",
}
"""Defaults that are computed or too long to be shown."""


def test_every_setting_that_a_page_names_exists() -> None:
    known = {*conf.KEYS, *OF_DJANGO, *OF_PACKAGES, *OF_THE_ENVIRONMENT, *OF_OTHER_THINGS}
    for_contributors = known | constants_of_the_package()
    unknown = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in PROSE
        for name in settings_of(page.read_text())
        if name not in (for_contributors if is_for_contributors(page) else known)
    ]
    assert not unknown, f"No setting has these names: {unknown}"


def is_for_contributors(page: Path) -> bool:
    return page.name in FOR_CONTRIBUTORS or page.parent.name in {"writing", "design"}


def test_every_default_that_a_page_states_is_that_of_the_code() -> None:
    false = [
        f"{page.relative_to(ROOT)}: {statement}"
        for page in PROSE
        for statement in false_defaults(page.read_text())
    ]
    assert not false, "\n".join(false)


@rows(
    "sentence",
    [
        "the task has failed after `TASK_LEASE` seconds (30 by default).",
        "receives an error 45 seconds later at the latest (`TASK_LEASE`).",
        "A request waits for `STORE_TIMEOUT`, 7 seconds by default.",
        "Calls may go on for `SHUTDOWN_TIMEOUT`, by default 20 minutes.",
        "It gives its tasks `SHUTDOWN_TIMEOUT` (1 second), and then fails them.",
        '`DJANGO_MCP["TASK_AFTER"]` seconds (6 by default)',
        "An answer is kept for `cache_seconds`, 300 by default",
        "`NO_SUCH_SETTING` (30 by default)",
        "| setting | default |\n|---|---|\n| `HANDLER_TIMEOUT` | 5 minutes |\n",
    ],
)
def test_false_default_is_found(sentence: str) -> None:
    assert [*false_defaults(sentence)]


@rows(
    "sentence",
    [
        "a worker accepts the token for `TOKEN_CACHE_TTL` seconds (5 by default).",
        "A session that nobody uses expires after `SESSION_IDLE_TIMEOUT` (30 minutes).",
        "Set `CONN_MAX_AGE` to `60`. By default, 4 workers run.",
        "| setting | default |\n|---|---|\n| `HANDLER_TIMEOUT` | 15 minutes |\n",
    ],
)
def test_true_default_is_accepted(sentence: str) -> None:
    assert [*false_defaults(sentence)] == []
