"""An authorization server on this machine, which publishes keys and signs tokens."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from django_mcp.auth.authentication import Authentication
from django_mcp.auth.challenges import AuthenticationFailed
from django_mcp.auth.resource import SCOPE_KEY, Resource
from django_mcp.core.auth.base import Authenticator, Challenge, Principal
from django_mcp.testing.asgi import http_scope

ENDPOINT = "http://testserver/mcp"

Answer = tuple[int, Mapping[str, str], bytes]


def json_answer(value: Any, status: int = 200) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


class Issuer:
    """Its paths, and the requests that it received."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[str] = []
        self.authorizations: list[str | None] = []
        self.answers: dict[str, Callable[[Mapping[str, list[str]]], Answer]] = {}
        self.delay = 0.0
        self.keys: list[dict[str, Any]] = [public_jwk("one")]
        self.publish("/.well-known/oauth-authorization-server", self.metadata)
        self.publish("/keys", lambda: {"keys": self.keys})

    def metadata(self) -> dict[str, Any]:
        return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}

    def publish(self, path: str, document: Callable[[], Any]) -> None:
        self.answers[path] = lambda _: json_answer(document())

    def claims(self, **changes: Any) -> dict[str, Any]:
        """The claims of a token; a change to None removes one."""
        now = int(time.time())
        usual = {"iss": self.url, "sub": "ada", "aud": ENDPOINT, "exp": now + 60, "iat": now}
        return {name: value for name, value in {**usual, **changes}.items() if value is not None}

    def token(self, *, header: Mapping[str, Any] | None = None, **changes: Any) -> str:
        headers = {"kid": "one", "typ": "at+jwt", **(header or {})}
        return jwt.encode(self.claims(**changes), ec_key("one"), "ES256", headers)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    issuer: Issuer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has disconnected is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._answer(parse_qs(body))

    def _answer(self, form: Mapping[str, list[str]]) -> None:
        issuer = self.server.issuer
        issuer.requests.append(self.path)
        issuer.authorizations.append(self.headers["Authorization"])
        time.sleep(issuer.delay)
        answer = issuer.answers.get(self.path)
        status, headers, body = (404, {}, b"Not found") if answer is None else answer(form)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.issuer = Issuer(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.issuer
        server.shutdown()
        thread.join()


@cache
def ec_key(name: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def rsa_key(size: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, size)


def public_jwk(name: str, **members: Any) -> dict[str, Any]:
    """The public key of ``ec_key(name)``, whose id is the name."""
    jwk = jwt.algorithms.ECAlgorithm.to_jwk(ec_key(name).public_key(), as_dict=True)
    return {**jwk, "kid": name, "use": "sig", **members}


def public_rsa_jwk(size: int = 2048) -> dict[str, Any]:
    key = rsa_key(size).public_key()
    jwk: dict[str, Any] = jwt.algorithms.RSAAlgorithm.to_jwk(key, as_dict=True)
    return {**jwk, "kid": "rsa", "use": "sig"}


def pem(key: Any) -> bytes:
    """The public key of a private one, as text."""
    public = key.public_key()
    return bytes(
        public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def addressed_scope(token: str, path: str = "/mcp") -> dict[str, Any]:
    """The scope of a request with a token, as a server passes it to its authenticators."""
    scope = http_scope(path=path, headers={"host": "testserver"})
    scope["headers"] = [*scope["headers"], (b"authorization", f"Bearer {token}".encode("latin-1"))]
    return {**scope, SCOPE_KEY: Resource(path)}


async def authenticated(
    authenticator: Authenticator,
    token: str | None = None,
    *,
    path: str = "/mcp",
    headers: Mapping[str, str] | None = None,
    **options: Any,
) -> Principal | Challenge:
    """What a server with this authenticator answers to a token or to headers."""
    given = {"host": "testserver", **(headers or {})}
    if token is not None:
        given["authorization"] = f"Bearer {token}"
    scope = http_scope(path=path, headers=given, **options)
    try:
        return await Authentication([authenticator], Resource(path)).authenticate(scope)
    except AuthenticationFailed as failed:
        return failed.challenge
