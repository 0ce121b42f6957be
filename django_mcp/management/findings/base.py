"""A finding, the answer that it is about, and common parts of all findings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django_mcp.core.protocol import sse

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
    """One line of ``mcp_doctor``, with what to do about it."""

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
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}…"


def is_local(url: str) -> bool:
    return split(url).hostname in LOCAL_HOSTS or (split(url).hostname or "").endswith(".localhost")


def split(url: str) -> SplitResult:
    """Return the parts of a URL; for an invalid one, they are empty."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return SplitResult("", "", "", "", "")
    return parts


def list_of(metadata: Json, name: str) -> list[Any]:
    """Return a member that is a list; [] for any other."""
    value = metadata.get(name)
    return value if isinstance(value, list) else []


def is_url(value: Any) -> bool:
    """Whether a server's value is a http or https URL."""
    return isinstance(value, str) and split(value).scheme in ("http", "https")


def difference_remedy(expected: str, stated_url: Any, otherwise: str) -> str:
    """How to mend a URL that a server states and that is not the expected one."""
    if not isinstance(stated_url, str):
        return "State it as a string."
    if stated_url.rstrip("/") == expected.rstrip("/"):
        return f"Remove or add the slash at the end, or {otherwise}."
    wanted = split(expected)
    stated = split(stated_url)
    if wanted._replace(scheme="") == stated._replace(scheme=""):
        if stated.scheme == "https":
            return "Run mcp_doctor with the https URL, and give clients that one."
        return "The site does not know that its proxy serves https: set SECURE_PROXY_SSL_HEADER."
    if wanted.path == stated.path:
        return (
            "The site does not know its public host: let the proxy pass on the Host header, or set "
            "USE_X_FORWARDED_HOST."
        )
    is_end = stated.path.strip("/") and wanted.path.endswith(stated.path)
    if wanted.netloc == stated.netloc and is_end:
        return prefix_remedy(wanted.path.removesuffix(stated.path))
    return f"Correct the path, or {otherwise}."


def prefix_remedy(prefix: str) -> str:
    """How to mend a site that does not know the path in front of all its paths."""
    return (
        f"The proxy removes {prefix}, and the site does not know: set FORCE_SCRIPT_NAME to "
        f'{prefix!r}. If DJANGO_MCP["BASE_URL"] is set, it contains the prefix, too.'
    )


def connection_remedy(error: str) -> str:
    """Return what to do about a request without a response."""
    lower = error.lower()
    if "certificate" in lower or "ssl" in lower:
        return "Use a certificate of a public authority, with its intermediate certificates."
    if "timed out" in lower:
        return "Check the firewall and the proxy, and that no middleware waits for the body."
    return "Start the site, and check the host and the port of the URL."
