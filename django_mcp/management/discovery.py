"""How MCP clients discover a server, from its URL to the page where the user would log in.

The discovery of a client is a generator. It yields probes, is sent their answers, and returns its
findings. It does no I/O: the command sends the probes, and a test answers them itself.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import urljoin

from django_mcp.auth.resource import WELL_KNOWN
from django_mcp.core.protocol import request_meta
from django_mcp.core.protocol.revisions import NEWEST, REVISIONS, Statefulness
from django_mcp.management.findings import authorization_server, endpoint, resource
from django_mcp.management.findings.base import (
    Answer,
    Finding,
    Json,
    failure,
    list_of,
    note,
    ok,
    shown,
    split,
    warning,
)

LATEST_WITH_SESSIONS = [r for r in REVISIONS if r.statefulness is Statefulness.SESSION][-1]
CLIENT_INFO = {"name": "mcp_doctor", "version": "1"}
JSON = ("content-type", "application/json")
ACCEPT = ("accept", "application/json, text/event-stream")
READS_JSON = ("accept", "application/json")
INVALID_TOKEN = "mcp-doctor-invalid-token"
OTHER_HOST = "mcp-doctor.invalid"
"""A host that no site has (RFC 2606)."""
MAX_ISSUERS = 3


@dataclass(frozen=True, slots=True)
class Probe:
    """One request of a client."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    follows_redirects: bool = False

    def __str__(self) -> str:
        return f"{self.method} {shown(self.url)}"


T = TypeVar("T")
Playing = Generator[Probe, Answer, T]
"""Yields probes, is sent answers, and returns T."""


@dataclass(frozen=True, slots=True)
class Client:
    """The known behaviour of one client."""

    title: str
    opens_with: Sequence[str] = ("initialize",)
    places: Sequence[str] = ("challenge", "inserted", "root")
    """Where it looks for the metadata of the resource, in this order; the first is used."""
    needed_places: Sequence[str] = ()
    """Where it has to be, beside the first."""
    registers_by: Sequence[str] = ("document", "dynamic")
    takes_tokens: bool = True
    """Whether a user can configure a token."""
    is_remote: bool = False
    """Whether it connects from its vendor's machines."""
    origin: str | None = None
    """The origin of its page, if it runs in a browser."""


DISCOVERS = ("server/discover", "initialize")

CLIENTS: Mapping[str, Client] = {
    "claude": Client(
        "Claude",
        opens_with=DISCOVERS,
        places=("challenge", "inserted", "root", "appended"),
        needed_places=("root",),
        takes_tokens=False,
        is_remote=True,
    ),
    "claude-code": Client("Claude Code", opens_with=DISCOVERS),
    "vscode": Client("VS Code"),
    "cursor": Client("Cursor", registers_by=("dynamic",)),
    "chatgpt": Client("ChatGPT", takes_tokens=False, is_remote=True),
    "codex": Client("Codex", registers_by=("dynamic",)),
    "opencode": Client("opencode"),
    "inspector": Client("Inspector", origin="http://localhost:6274"),
}
"""The clients by the name that ``mcp_doctor --client`` takes."""


def discover(client: Client, url: str) -> Playing[list[Finding]]:
    """Play the discovery of ``client`` at the endpoint ``url``; return the findings in order."""
    findings = [*endpoint.of_url(url, is_remote=client.is_remote)]
    if client.origin is not None:
        needed = endpoint.NEEDED_HEADERS
        findings += yield from _preflight("The endpoint", url, client.origin, needed)
    opening = yield from _open(client, url, findings)
    if opening is None:
        return findings
    metadata = yield from _find_resource(client, url, opening, findings)
    if opening.status == 401 or metadata:
        answer = yield with_invalid_token(url)
        findings += endpoint.of_invalid_token(answer)
        yield from _end_session(url, answer)
    if metadata:
        # The request reaches the site, and names another host.
        headers = (READS_JSON, ("host", OTHER_HOST))
        answer = yield Probe("GET", _place("appended", url), headers)
        findings += resource.of_host(OTHER_HOST, answer.json())
    issuers = list_of(metadata, "authorization_servers")
    for issuer in [issuer for issuer in issuers if isinstance(issuer, str)][:MAX_ISSUERS]:
        yield from _find_authorization_server(client, url, issuer, metadata, findings)
    return findings


def with_invalid_token(url: str) -> Probe:
    """Return the request of a client with a token that nobody issued."""
    return _initialize(url, ("authorization", f"Bearer {INVALID_TOKEN}"))


def _end_session(url: str, answer: Answer) -> Playing[None]:
    if session := answer.header("mcp-session-id"):
        yield Probe("DELETE", url, (("mcp-session-id", session), _version(LATEST_WITH_SESSIONS)))


# The first request.


def _open(client: Client, url: str, findings: list[Finding]) -> Playing[Answer | None]:
    """Send the first requests without credentials; return the answer, or None after a failure."""
    answer = Answer(0)
    for method in client.opens_with:
        answer = yield _discover(url) if method == "server/discover" else _initialize(url)
        is_last = method == client.opens_with[-1]
        if answer.status == 401 or "result" in answer.json():
            break
        if not is_last and answer.status and answer.json().get("jsonrpc"):
            findings.append(
                note(f"{method} is answered {answer.status}: it goes on with initialize.")
            )
        else:
            findings += endpoint.of_opening(url, answer)
            return None
    if answer.status == 401:
        findings.append(ok("Without credentials: 401"))
        return answer
    findings.append(ok("Without credentials: everybody may connect"))
    yield from _end_session(url, answer)
    return answer


def _discover(url: str) -> Probe:
    meta = {
        request_meta.VERSION: NEWEST.version,
        request_meta.CLIENT_INFO: CLIENT_INFO,
        request_meta.CAPABILITIES: {},
    }
    headers = (ACCEPT, JSON, _version(NEWEST), ("mcp-method", "server/discover"))
    return Probe("POST", url, headers, _message("server/discover", {"_meta": meta}))


def _initialize(url: str, *headers: tuple[str, str]) -> Probe:
    params = {
        "protocolVersion": LATEST_WITH_SESSIONS.version,
        "capabilities": {},
        "clientInfo": CLIENT_INFO,
    }
    return Probe("POST", url, (ACCEPT, JSON, *headers), _message("initialize", params))


def _message(method: str, params: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def _version(revision: Any) -> tuple[str, str]:
    return ("mcp-protocol-version", revision.version)


# The metadata of the resource.


def _find_resource(
    client: Client, url: str, opening: Answer, findings: list[Finding]
) -> Playing[Json]:
    """Look for the metadata where the client does; return the first."""
    stated = (endpoint.challenge(opening) or {}).get("resource_metadata")
    used: Json = {}
    missing: list[Finding] = []
    findings += resource.of_prefix(url, stated or "")
    for place in client.places:
        target = stated if place == "challenge" else _place(place, url)
        if target is None:
            continue
        title = "The metadata of the challenge" if place == "challenge" else target
        answer = yield _get(target, client)
        document = answer.json() if answer.status == 200 else {}
        if document and not used:
            used = document
            findings += resource.of_metadata(url, title, document)
            findings += _of_origin(client, title, answer)
        if not document and used and place in client.needed_places:
            text = f"{title} is answered {answer}: it ends its attempt."
            missing.append(failure(text, resource.ROUTING_REMEDY))
        elif not document:
            missing += resource.of_missing(title, answer)
        if used and not client.needed_places:
            break
    findings += missing
    if used or not missing:
        findings += _of_absence(client, opening, used, stated)
    return used


def _of_absence(
    client: Client, opening: Answer, metadata: Json, stated: str | None
) -> Iterator[Finding]:
    if opening.status != 401:
        yield (
            note("Some tools may need a login.")
            if metadata
            else ok("There is nothing to log in to")
        )
    elif metadata:
        if stated is None:
            yield warning(
                "The 401 names no resource_metadata: some clients look nowhere else.",
                'Add WWW-Authenticate: Bearer resource_metadata="…" to the response.',
            )
    elif client.takes_tokens and endpoint.challenge(opening) is not None:
        yield note(
            "There is no authorization server: users configure a token by hand.",
            "manage.py mcp_config --token prints how.",
        )
    else:
        yield failure(
            "The 401 leads to no authorization server, and no token can be configured."
            if not client.takes_tokens
            else "The 401 has no Bearer challenge and leads to no authorization server.",
            "Use an authenticator for access tokens, whose authorization_servers names an issuer.",
        )


def _place(place: str, url: str) -> str:
    parts = split(url)
    path = parts.path.rstrip("/")
    paths = {
        "inserted": WELL_KNOWN + parts.path if path else WELL_KNOWN,
        "root": WELL_KNOWN,
        "appended": path + WELL_KNOWN,
    }
    return parts._replace(path=paths[place], fragment="").geturl()


def _get(url: str, client: Client) -> Probe:
    headers = [READS_JSON, _version(LATEST_WITH_SESSIONS)]
    if client.origin is not None:
        headers.append(("origin", client.origin))
    return Probe("GET", url, tuple(headers), follows_redirects=True)


def _of_origin(client: Client, place: str, answer: Answer) -> Iterator[Finding]:
    if client.origin is not None:
        yield from endpoint.of_readable(place, client.origin, answer)


# The authorization server.


def _find_authorization_server(
    client: Client, url: str, issuer: str, of_resource: Json, findings: list[Finding]
) -> Playing[None]:
    """Look for the metadata of the issuer in the order of the specification, and try it."""
    answers = []
    for target in _authorization_places(issuer):
        answer = yield _get(target, client)
        answers.append((target, answer))
        document = answer.json() if answer.status == 200 else {}
        if document:
            findings += _of_origin(client, shown(target), answer)
            findings += authorization_server.of_metadata(issuer, document)
            findings += authorization_server.of_registration(document, client.registers_by)
            findings += resource.of_scopes(of_resource, document)
            yield from _try_endpoints(client, document, findings)
            return
    findings += authorization_server.of_missing_metadata(url, issuer, answers)


def _authorization_places(issuer: str) -> list[str]:
    """RFC 8414, section 3.1, and OpenID Connect Discovery 1.0, section 4."""
    parts = split(issuer)
    if parts.scheme not in ("http", "https"):
        return []
    path = parts.path.rstrip("/")
    oauth = "/.well-known/oauth-authorization-server"
    openid = "/.well-known/openid-configuration"
    paths = (oauth + path, openid + path, path + openid) if path else (oauth, openid)
    return [parts._replace(path=path, query="", fragment="").geturl() for path in paths]


def _try_endpoints(client: Client, metadata: Json, findings: list[Finding]) -> Playing[None]:
    """Send requests which are invalid, so that they register nothing and issue no token."""
    form = ("content-type", "application/x-www-form-urlencoded")
    probes = {
        "authorization_endpoint": Probe("GET", "", (("accept", "text/html"),)),
        "token_endpoint": Probe("POST", "", (READS_JSON, form), b"grant_type=authorization_code"),
        "registration_endpoint": Probe("POST", "", (READS_JSON, JSON), b"[]"),
    }
    registers_by_document = (
        "document" in client.registers_by
        and authorization_server.takes_documents(metadata)
        and "none" in authorization_server.authentication_methods(metadata)
    )
    for name, probe in probes.items():
        url = metadata.get(name)
        if not isinstance(url, str) or split(url).scheme not in ("http", "https"):
            continue
        if name == "registration_endpoint" and registers_by_document:
            continue
        answer = yield replace(probe, url=url)
        findings += authorization_server.of_endpoint_answer(name, answer)
        if name == "authorization_endpoint" and 300 <= answer.status < 400:
            login = urljoin(url, answer.header("location"))
            page = Probe("GET", login, (("accept", "text/html"),), follows_redirects=True)
            findings += authorization_server.of_login(login, (yield page))
        if client.origin is not None and name != "authorization_endpoint":
            findings += yield from _preflight(f"The {name}", url, client.origin, ("content-type",))


def _preflight(place: str, url: str, origin: str, needed: Sequence[str]) -> Playing[list[Finding]]:
    headers = (
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", ",".join(needed)),
    )
    answer = yield Probe("OPTIONS", url, headers)
    return [*endpoint.of_preflight(place, origin, needed, answer)]
