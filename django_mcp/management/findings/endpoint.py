"""The endpoint of a server: its URL, its answers before a user has logged in, and CORS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from django_mcp.management.findings.base import (
    Answer,
    Finding,
    connection_remedy,
    failure,
    is_local,
    note,
    ok,
    shown,
    split,
    warning,
)


def of_url(url: str, *, is_remote: bool) -> Iterator[Finding]:
    """Yield findings about the URL. A remote client runs on its vendor's machines."""
    if is_local(url):
        if is_remote:
            yield note(
                "It runs on its vendor's machines, which cannot reach this address.",
                "Publish the site at a https URL, and run mcp_doctor with that URL.",
            )
    elif split(url).scheme != "https":
        yield failure(
            "The URL is http: tokens would be sent in plain text, and clients refuse it.",
            "Serve the site over https, and give clients that URL.",
        )


def of_opening(url: str, answer: Answer) -> Iterator[Finding]:
    """Yield the meaning of the answer to a request without credentials, unless it is 200 or 401."""
    if not answer.status:
        yield failure(f"There is no answer: {shown(answer.error)}", connection_remedy(answer.error))
    elif 300 <= answer.status < 400:
        target = answer.header("location")
        yield failure(
            f"The first request is redirected to {shown(target)}: clients do not send it again "
            "there.",
            _redirect_remedy(url, target),
        )
    elif answer.status in OPENING_REMEDIES:
        yield failure(f"The first request is answered {answer}.", _opening_remedy(answer))
    elif answer.status >= 500:
        yield failure(
            f"The first request is answered {answer}.",
            "See the logs of the site, or of the proxy if the site has received no request.",
        )
    else:
        yield failure(
            f"The first request is answered {answer}, and not with a JSON-RPC response.",
            "Check that the URL is that of the MCP endpoint: manage.py mcp_show prints its path.",
        )


HOST_REMEDY = "Add the host of the URL to ALLOWED_HOSTS."
OPENING_REMEDIES = {
    400: HOST_REMEDY,
    403: (
        "Route the path to the MCP endpoint and not to a view: a proxy or Django's CSRF check has "
        "rejected the request."
    ),
    404: (
        "Correct the path, and mount the server in the file that is served: "
        "mount(get_wsgi_application()) in wsgi.py, or mount(get_asgi_application()) in asgi.py."
    ),
    405: "Correct the path: there is no MCP endpoint.",
    406: "Let the proxy pass the Accept header.",
    415: "Let the proxy pass the Content-Type header.",
}


def _opening_remedy(answer: Answer) -> str:
    if b"ALLOWED_ORIGINS" in answer.body:
        return "Add the origin to ALLOWED_ORIGINS."
    if b"ALLOWED_HOSTS" in answer.body or b"DisallowedHost" in answer.body:
        return HOST_REMEDY
    return OPENING_REMEDIES[answer.status]


def _redirect_remedy(url: str, target: str) -> str:
    if target.rstrip("/") == url.rstrip("/") or split(target).path == split(url).path + "/":
        return f"Give clients the URL {shown(target)}, or exclude the endpoint from APPEND_SLASH."
    if split(target).scheme == "https" and split(url).scheme == "http":
        return "Give clients the https URL."
    return "Answer with 401 instead: the endpoint must not redirect to a login page."


CHALLENGE = re.compile(r'\b(\w+)="((?:[^"\\]|\\.)*)"')


def challenge(answer: Answer) -> dict[str, str] | None:
    """Return the parameters of the Bearer challenge, or None without one."""
    for value in answer.all("www-authenticate"):
        scheme = re.search(r"(?:^|[\s,])bearer(?:$|[\s,])", value, re.IGNORECASE)
        if scheme:
            return dict(CHALLENGE.findall(value[scheme.end() :]))
    return None


HEADER_REMEDY = "Let the proxy pass the Authorization header on."


def of_invalid_token(answer: Answer) -> Iterator[Finding]:
    """Yield the meaning of the answer to a token that nobody issued."""
    if 200 <= answer.status < 300:
        yield failure(
            "A token that nobody issued is accepted, or does not arrive.",
            f"{HEADER_REMEDY} An authenticator has to return a Challenge for an unknown token.",
        )
    elif answer.status >= 500:
        yield failure(
            f"A token that nobody issued is answered {answer}: the site cannot look tokens up.",
            "See the logs of the site: a table is missing (manage.py migrate), or a database or an "
            "authorization server does not answer.",
        )
    elif answer.status != 401:
        yield warning(
            f"A token that nobody issued is answered {answer}: a client with an expired token does "
            "not log in again.",
            "Answer with 401 and error=invalid_token.",
        )
    elif (challenge(answer) or {}).get("error") != "invalid_token":
        yield warning(
            "A token that nobody issued is answered 401 without error=invalid_token.",
            f"{HEADER_REMEDY} If it arrives, name the error in WWW-Authenticate: some clients then "
            "ask for a new token at once.",
        )
    else:
        yield ok("A token that nobody issued: 401, invalid_token")


# Requests of web pages of other origins: whether they are allowed (CORS).

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
