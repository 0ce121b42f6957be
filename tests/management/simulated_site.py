"""What servers answer to the probes of mcp_doctor, and what commonly goes wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from django_mcp.management import discovery
from django_mcp.management.discovery import CLIENTS, Client, Probe
from django_mcp.management.findings.base import Answer, Finding

URL = "https://shop.example/mcp"
ISSUER = "https://shop.example/o"
WELL_KNOWN = "https://shop.example/.well-known/oauth-protected-resource"
INSERTED, APPENDED = f"{WELL_KNOWN}/mcp", f"{URL}/.well-known/oauth-protected-resource"
ISSUER_METADATA = "https://shop.example/.well-known/oauth-authorization-server/o"
REGISTER, TOKEN, AUTHORIZE = f"{ISSUER}/register", f"{ISSUER}/token", f"{ISSUER}/authorize"
ORIGIN = "http://localhost:6274"
CORS = (
    ("access-control-allow-origin", ORIGIN),
    ("access-control-allow-headers", "authorization, content-type, mcp-protocol-version"),
)
RESOURCE = {"resource": URL, "authorization_servers": [ISSUER], "scopes_supported": ["mcp"]}
AUTHORIZATION_SERVER = {
    "issuer": ISSUER,
    "authorization_endpoint": AUTHORIZE,
    "token_endpoint": TOKEN,
    "registration_endpoint": REGISTER,
    "code_challenge_methods_supported": ["S256"],
    "token_endpoint_auth_methods_supported": ["none"],
    "client_id_metadata_document_supported": True,
}
LOGIN = f'Bearer resource_metadata="{INSERTED}", scope="mcp"'

Respond = Callable[[Probe], Answer]


def document(value: Any, status: int = 200, *headers: tuple[str, str]) -> Answer:
    content = ("content-type", "application/json")
    return Answer(status, (content, *CORS, *headers), json.dumps(value).encode())


def page(status: int) -> Answer:
    return Answer(status, (("content-type", "text/html; charset=utf-8"),), b"<!doctype html>")


def redirect(target: str) -> Answer:
    return Answer(301, (("location", target),))


def result(*headers: tuple[str, str]) -> Answer:
    return document({"jsonrpc": "2.0", "id": 1, "result": {}}, 200, *headers)


class Site:
    """The answers of a server by method and URL; at first, of one where every client can log in."""

    def __init__(self) -> None:
        self.probes: list[Probe] = []
        self.challenge = LOGIN
        self.answers: dict[tuple[str, str], Answer | Respond] = {
            ("POST", URL): self._reject,
            ("GET", INSERTED): document(RESOURCE),
            ("GET", WELL_KNOWN): document(RESOURCE),
            ("GET", APPENDED): document(RESOURCE),
            ("GET", ISSUER_METADATA): document(AUTHORIZATION_SERVER),
            ("GET", AUTHORIZE): page(400),
            ("POST", TOKEN): document({"error": "invalid_request"}, 400),
            ("POST", REGISTER): document({"error": "invalid_client_metadata"}, 400),
        }

    def _reject(self, probe: Probe) -> Answer:
        error = ', error="invalid_token"' if "authorization" in dict(probe.headers) else ""
        return document({}, 401, ("www-authenticate", self.challenge + error))

    def change(self, method: str, url: str, answer: Answer | Respond) -> None:
        self.answers[method, url] = answer

    def change_resource(self, **members: Any) -> None:
        for url in (INSERTED, WELL_KNOWN, APPENDED):
            self.change("GET", url, document({**RESOURCE, **members}))

    def change_issuer(self, **members: Any) -> None:
        found = {**AUTHORIZATION_SERVER, **members}
        kept = {name: value for name, value in found.items() if value is not None}
        self.change("GET", ISSUER_METADATA, document(kept))

    def open_to_everybody(self) -> None:
        self.change("POST", URL, result())
        for url in (INSERTED, WELL_KNOWN, APPENDED):
            self.change("GET", url, document({"error": "not_found"}, 404))

    def answer(self, probe: Probe) -> Answer:
        self.probes.append(probe)
        if probe.method == "OPTIONS":
            found = self.answers.get((probe.method, probe.url), Answer(204, CORS))
        else:
            found = self.answers.get((probe.method, probe.url), page(404))
        return found if isinstance(found, Answer) else found(probe)

    def play(self, client: Client | str, url: str = URL) -> list[Finding]:
        """Return what the client finds."""
        playing = discovery.discover(CLIENTS[client] if isinstance(client, str) else client, url)
        try:
            probe = next(playing)
            while True:
                probe = playing.send(self.answer(probe))
        except StopIteration as stopped:
            found: list[Finding] = stopped.value
            return found


# What commonly goes wrong.


def _serve_no_metadata(site: Site) -> None:
    for url in (INSERTED, WELL_KNOWN, APPENDED):
        site.change("GET", url, page(404))


def _serve_no_metadata_at_the_root(site: Site) -> None:
    site.change("GET", WELL_KNOWN, document({}, 404))


def _accept_tokens_alone(site: Site) -> None:
    site.challenge = "Bearer"
    for url in (INSERTED, WELL_KNOWN, APPENDED):
        site.change("GET", url, document({}, 404))


def _state_http(site: Site) -> None:
    site.change_resource(resource=URL.replace("https:", "http:"))


def _state_an_http_issuer(site: Site) -> None:
    site.change_issuer(issuer=ISSUER.replace("https:", "http:"))


def _add_a_slash(site: Site) -> None:
    site.change_resource(resource=f"{URL}/")


def _demand_secrets(site: Site) -> None:
    methods = ["client_secret_basic", "client_secret_post"]
    site.change_issuer(token_endpoint_auth_methods_supported=methods, registration_endpoint=None)


def _turn_registration_off(site: Site) -> None:
    site.change_issuer(registration_endpoint=None)


def _turn_documents_off_as_well(site: Site) -> None:
    site.change_issuer(registration_endpoint=None, client_id_metadata_document_supported=False)


FAULTS: Mapping[str, Callable[[Site], None]] = {
    "The server is not mounted, or has another path": (
        lambda site: site.change("POST", URL, page(404))
    ),
    "The host is missing in `ALLOWED_HOSTS`": lambda site: site.change("POST", URL, page(400)),
    "A middleware redirects to the login page": (
        lambda site: site.change("POST", URL, redirect("/accounts/login/?next=/mcp"))
    ),
    "There is no endpoint at the path": lambda site: site.change("POST", URL, page(405)),
    "The site does not know that its proxy serves https": _state_http,
    "The same, for the authorization server": _state_an_http_issuer,
    "The client was given a URL without the slash at its end, or with one": _add_a_slash,
    "The proxy does not pass on the paths below `/.well-known/`": _serve_no_metadata,
    "The proxy passes on the path of one server only": _serve_no_metadata_at_the_root,
    "Nobody but owners of tokens is accepted": _accept_tokens_alone,
    "Dynamic registration is turned off": _turn_registration_off,
    "Metadata documents are turned off as well": _turn_documents_off_as_well,
    "The authorization server expects a secret from every client": _demand_secrets,
}
"""What is wrong in words, and how it changes the answers of a site at which everything is right."""


def findings_of(client: str, fault: str) -> list[Finding]:
    """What a client finds at a site with one fault."""
    site = Site()
    FAULTS[fault](site)
    return site.play(client)
