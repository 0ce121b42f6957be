"""Requests of web pages of other origins: whether they are allowed (CORS)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django_mcp.management.findings.base import Answer, Finding, ok, warning

NEEDED_HEADERS = ("authorization", "content-type", "mcp-protocol-version")


def of_preflight(
    place: str, origin: str, needed: Sequence[str], answer: Answer
) -> Iterator[Finding]:
    """Yield whether a page of ``origin`` may send a request with these headers."""
    listed = answer.header("access-control-allow-headers").lower().split(",")
    allowed = {name.strip() for name in listed}
    # A wildcard does not cover Authorization (Fetch standard, section 3.3.4).
    covered = allowed if "*" not in allowed else {*needed} - {"authorization"} | allowed
    missing = [name for name in needed if name not in covered]
    if not 200 <= answer.status < 300:
        yield _no_access(place, origin, f"its preflight is answered {answer}")
    elif not _allows(origin, answer):
        yield _no_access(place, origin, "Access-Control-Allow-Origin does not name it")
    elif missing:
        yield _no_access(place, origin, f"{', '.join(missing)} are not allowed headers")
    else:
        yield ok(f"{place}: a page of {origin} may send requests")


def of_readable(place: str, origin: str, answer: Answer) -> Iterator[Finding]:
    """Yield whether a page of ``origin`` may read the answer."""
    if not _allows(origin, answer):
        yield _no_access(place, origin, "Access-Control-Allow-Origin does not name it")


def _allows(origin: str, answer: Answer) -> bool:
    return answer.header("access-control-allow-origin") in (origin, "*")


def _no_access(place: str, origin: str, why: str) -> Finding:
    return warning(
        f"{place}: a page of {origin} has no access: {why}.",
        f'Only if programs in a browser should connect: add "{origin}" to '
        'DJANGO_MCP["ALLOWED_ORIGINS"], and allow it at the authorization server.',
    )
