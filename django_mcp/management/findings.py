"""What the answers of a server mean to MCP clients: each function is from facts to findings.

Requirements are those of the specification and of RFC 8414, RFC 9728 and RFC 7591, and what clients
are known to demand. Remedies name Django's settings; the servers may be of other frameworks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django_mcp.protocol import sse

Json = Mapping[str, Any]
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
EXCERPT = 80
"""Characters of a server's text in a finding."""


class Level(Enum):
    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    """Something that only some sites need."""
    FAILURE = "FAILURE"
    """The client cannot connect, or not log in."""


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, with the names of headers in lower case; or, with status 0, why there is none."""

    status: int
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    error: str = ""

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def header(self, name: str) -> str:
        return ", ".join(self.all(name))

    @property
    def media_type(self) -> str:
        return self.header("content-type").partition(";")[0].strip().lower()

    @property
    def is_page(self) -> bool:
        return self.media_type == "text/html"

    def json(self) -> Json:
        """Return the object in the body, or in the first event of a stream; {} for none."""
        texts: Iterable[bytes | str] = [self.body]
        if self.media_type == "text/event-stream":
            texts = [event.data for event in sse.Parser().feed(self.body) if event.data]
        for text in texts:
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                continue
            return value if isinstance(value, dict) else {}
        return {}

    def __str__(self) -> str:
        if not self.status:
            return self.error
        kind = "an HTML page" if self.is_page else self.media_type or "no content"
        return f"{self.status} with {kind}"


def ok(text: str) -> Finding:
    return Finding(Level.OK, text)


def note(text: str, remedy: str = "") -> Finding:
    return Finding(Level.NOTE, text, remedy)


def warning(text: str, remedy: str) -> Finding:
    return Finding(Level.WARNING, text, remedy)


def failure(text: str, remedy: str) -> Finding:
    return Finding(Level.FAILURE, text, remedy)


def shown(value: Any) -> str:
    """Return a server's value for a finding: printable, and not longer than an excerpt."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = "".join(each if each.isprintable() else "?" for each in text)
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}…"


def is_local(url: str) -> bool:
    return split(url).hostname in LOCAL_HOSTS or (split(url).hostname or "").endswith(".localhost")


def split(url: str) -> SplitResult:
    """Return the parts of a URL; those of an invalid one are empty."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return SplitResult("", "", "", "", "")
    return parts


# The URL.


def of_url(url: str, *, is_remote: bool) -> Iterator[Finding]:
    """Yield what is wrong with the URL. A remote client runs on its vendor's machines."""
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


# The first request.


def of_opening(url: str, answer: Answer, method: str) -> Iterator[Finding]:
    """Yield what the answer to a request without credentials means, unless it is 200 or 401."""
    if not answer.status:
        yield failure(f"{method}: {shown(answer.error)}", _connection_remedy(answer.error))
    elif 300 <= answer.status < 400:
        target = answer.header("location")
        yield failure(
            f"{method} is redirected to {shown(target)}: clients do not send it again there.",
            _redirect_remedy(url, target),
        )
    elif answer.status in OPENING_REMEDIES:
        yield failure(f"{method} is answered {answer}.", _opening_remedy(answer))
    elif answer.status >= 500:
        yield failure(
            f"{method} is answered {answer}.",
            "See the logs of the site, or of the proxy if the site has received no request.",
        )
    else:
        yield failure(
            f"{method} is answered {answer}, and not with a JSON-RPC response.",
            "Check that the URL is that of the MCP endpoint: manage.py mcp_show prints its path.",
        )


HOST_REMEDY = "Add the host of the URL to ALLOWED_HOSTS."
OPENING_REMEDIES = {
    400: HOST_REMEDY,
    403: (
        "Route the path to the MCP endpoint and not to a view: a proxy or Django's CSRF check has "
        "rejected the request."
    ),
    404: "Correct the path, and mount the server in asgi.py: mount(get_asgi_application()).",
    405: "Correct the path: there is no MCP endpoint, or a WSGI server answers.",
    406: "Let the proxy pass the Accept header.",
    415: "Let the proxy pass the Content-Type header.",
}


def _opening_remedy(answer: Answer) -> str:
    if b"ALLOWED_ORIGINS" in answer.body:
        return "Add the origin to ALLOWED_ORIGINS."
    if b"ALLOWED_HOSTS" in answer.body or b"DisallowedHost" in answer.body:
        return HOST_REMEDY
    return OPENING_REMEDIES[answer.status]


def _connection_remedy(error: str) -> str:
    lower = error.lower()
    if "certificate" in lower or "ssl" in lower:
        return "Use a certificate of a public authority, with its intermediate certificates."
    if "timed out" in lower:
        return "Check the firewall and the proxy, and that no middleware waits for the body."
    return "Start the site, and check the host and the port of the URL."


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
        found = re.search(r"(?:^|[\s,])bearer(?:$|[\s,])", value, re.IGNORECASE)
        if found:
            return dict(CHALLENGE.findall(value[found.end() :]))
    return None


def of_invalid_token(answer: Answer) -> Iterator[Finding]:
    """Yield what the answer to a token that nobody issued means."""
    if 200 <= answer.status < 300:
        yield failure(
            "A token that nobody issued is accepted.",
            "Let an authenticator return a Challenge for a token that it does not know.",
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
            "Name the error in WWW-Authenticate: some clients then ask for a new token at once.",
        )
    else:
        yield ok("A token that nobody issued: 401, invalid_token")


# The metadata of the protected resource.


def of_resource(url: str, place: str, metadata: Json) -> Iterator[Finding]:
    """Yield what is wrong with the metadata found at ``place`` (RFC 9728, section 3.3)."""
    resource = metadata.get("resource")
    if resource == url:
        yield ok(f"{place}: the resource is {shown(url)}")
    else:
        yield failure(
            f"{place}: the resource is {shown(resource)}, and not {shown(url)}: they must be equal "
            "character by character.",
            _difference_remedy(url, resource, "give clients that URL"),
        )
    issuers = metadata.get("authorization_servers")
    if not issuers or not isinstance(issuers, list) or not all(map(_is_url, issuers)):
        yield failure(
            f"{place}: authorization_servers names no issuer.",
            "Use an authenticator whose authorization_servers returns one.",
        )
    if "offline_access" in _list(metadata, "scopes_supported"):
        yield warning(
            f"{place}: scopes_supported contains offline_access.",
            "Remove it: refresh tokens are no matter of the resource.",
        )


def _list(metadata: Json, name: str) -> list[Any]:
    value = metadata.get(name)
    return value if isinstance(value, list) else []


def _is_url(value: Any) -> bool:
    return isinstance(value, str) and split(value).scheme in ("http", "https")


def _difference_remedy(expected: str, found: Any, otherwise: str) -> str:
    """How to mend a URL that a server states and that is not the expected one."""
    if not isinstance(found, str):
        return "State it as a string."
    if found.rstrip("/") == expected.rstrip("/"):
        return f"Remove or add the slash at the end, or {otherwise}."
    wanted, stated = split(expected), split(found)
    if wanted._replace(scheme="") == stated._replace(scheme=""):
        if stated.scheme == "https":
            return "Run mcp_doctor with the https URL, and give clients that one."
        return (
            "The site does not know that its proxy serves https: set SECURE_PROXY_SSL_HEADER, or "
            'DJANGO_MCP["BASE_URL"] and, for the issuer, OIDC_ISS_ENDPOINT.'
        )
    if wanted.path == stated.path:
        return (
            "The site does not know its public host: set USE_X_FORWARDED_HOST, or "
            'DJANGO_MCP["BASE_URL"] and, for the issuer, OIDC_ISS_ENDPOINT.'
        )
    return f"Correct the path, or {otherwise}."


ROUTING_REMEDY = (
    "Pass the paths below /.well-known/ to the MCP server, in the proxy and in asgi.py: mount() "
    "serves them, and so does urlpatterns() of django_mcp.routing."
)


def of_missing(place: str, answer: Answer) -> Iterator[Finding]:
    """Yield what is wrong with an answer that is no metadata."""
    if not answer.status:
        yield failure(f"{place}: {shown(answer.error)}", _connection_remedy(answer.error))
    elif answer.is_page or 300 <= answer.status < 400:
        yield failure(
            f"{place} is answered {answer}: clients expect JSON, and some fail.", ROUTING_REMEDY
        )
    elif answer.status not in (401, 403, 404, 405):
        yield failure(f"{place} is answered {answer}.", ROUTING_REMEDY)


# The metadata of the authorization server.


def of_authorization_server(issuer: str, metadata: Json) -> Iterator[Finding]:
    """Yield what is wrong with the metadata of an issuer (RFC 8414, section 3.3)."""
    stated = metadata.get("issuer")
    if stated == issuer:
        yield ok(f"The issuer is {shown(issuer)}")
    else:
        yield failure(
            f"The metadata of the issuer {shown(issuer)} states the issuer {shown(stated)}: they "
            "must be equal character by character.",
            _difference_remedy(issuer, stated, "name that issuer in the resource's metadata"),
        )
    for name in ("authorization_endpoint", "token_endpoint"):
        yield from _of_endpoint(name, metadata.get(name))
    if "S256" not in _list(metadata, "code_challenge_methods_supported"):
        yield failure(
            "code_challenge_methods_supported lacks S256: clients refuse a server without PKCE.",
            "Support PKCE, and state it: COMPLIANT_BCP_RFC9700_PKCE_METHOD of the toolkit.",
        )
    else:
        yield ok("PKCE with S256")


def _of_endpoint(name: str, url: Any) -> Iterator[Finding]:
    if not _is_url(url):
        yield failure(f"The metadata has no {name}.", f"State the {name}.")
    elif split(url).scheme != "https" and not is_local(url):
        yield failure(
            f"The {name} is {shown(url)}: clients refuse http.",
            _difference_remedy(split(url)._replace(scheme="https").geturl(), url, ""),
        )


def authentication_methods(metadata: Json) -> Sequence[str]:
    """Return the methods of the token endpoint; there is a default (RFC 8414, section 2)."""
    found = metadata.get("token_endpoint_auth_methods_supported")
    return found if isinstance(found, list) else ("client_secret_basic",)


def takes_documents(metadata: Json) -> bool:
    return metadata.get("client_id_metadata_document_supported") is True


NONE_REMEDY = (
    'Add "none": in the toolkit, OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED = ["none", …]. '
    "Clients that users install have no secret."
)


def of_registration(metadata: Json, ways: Sequence[str]) -> Iterator[Finding]:
    """Yield how a client registers which knows these ``ways``: "document" and "dynamic"."""
    has_none = "none" in authentication_methods(metadata)
    endpoint = metadata.get("registration_endpoint")
    may_send = "document" in ways and takes_documents(metadata)
    if may_send and has_none:
        yield ok("It registers by its metadata document")
        return
    if not has_none:
        level = Level.FAILURE if may_send and not endpoint else Level.WARNING
        text = "token_endpoint_auth_methods_supported does not list none."
        yield Finding(level, text, NONE_REMEDY)
    if endpoint is not None:
        yield from _of_endpoint("registration_endpoint", endpoint)
        yield ok(f"It registers at {shown(endpoint)}")
    elif not may_send:
        stated = " and no ".join(STATED[way] for way in ways)
        yield failure(
            f"It cannot register: the metadata has no {stated}.",
            f"Turn on {' or '.join(SWITCHES[way] for way in ways)} in the toolkit.",
        )


STATED: Mapping[str, str] = {
    "document": "client_id_metadata_document_supported",
    "dynamic": "registration_endpoint",
}
SWITCHES: Mapping[str, str] = {"document": "CIMD_ENABLED", "dynamic": "DCR_ENABLED"}


def of_endpoint_answer(name: str, answer: Answer) -> Iterator[Finding]:
    """Yield what is wrong with the answer to an invalid request to an endpoint."""
    remedies = {
        401: "Let everybody register: DCR_REGISTRATION_PERMISSION_CLASSES of the toolkit.",
        403: "Let everybody register: DCR_REGISTRATION_PERMISSION_CLASSES of the toolkit.",
        404: f"Correct the {name} of the metadata, or serve it.",
        405: f"Correct the {name} of the metadata: it does not accept the method.",
    }
    if not answer.status:
        yield failure(f"{name}: {shown(answer.error)}", _connection_remedy(answer.error))
    elif answer.status == 403 and answer.is_page:
        yield failure(
            f"The {name} is answered {answer}.", "Exempt it from the CSRF check, or from the proxy."
        )
    elif answer.status >= 500:
        yield failure(f"The {name} is answered {answer}.", "See the logs of the site.")
    elif answer.status in ((401, 403, 404, 405) if "registration" in name else (404, 405)):
        yield failure(f"The {name} is answered {answer}.", remedies[answer.status])
    elif 300 <= answer.status < 400 and name != "authorization_endpoint":
        yield failure(
            f"The {name} is redirected to {shown(answer.header('location'))}.",
            f"State the URL of the {name} as it is served: clients do not send a request again.",
        )


# Requests of web pages.

NEEDED_HEADERS = ("authorization", "content-type", "mcp-protocol-version")


def of_preflight(
    place: str, origin: str, needed: Sequence[str], answer: Answer
) -> Iterator[Finding]:
    """Yield whether a page of ``origin`` may send a request with these headers."""
    listed = answer.header("access-control-allow-headers").lower().split(",")
    allowed = {each.strip() for each in listed}
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
