"""The authorization server: its metadata (RFC 8414), its endpoints, and how clients register."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django_mcp.management.findings.base import (
    Answer,
    Finding,
    Json,
    Level,
    connection_remedy,
    difference_remedy,
    failure,
    is_local,
    is_url,
    list_of,
    ok,
    shown,
    split,
)


def of_metadata(issuer: str, metadata: Json) -> Iterator[Finding]:
    """Yield findings about the metadata of an issuer (RFC 8414, section 3.3)."""
    stated = metadata.get("issuer")
    if stated == issuer:
        yield ok(f"The issuer is {shown(issuer)}")
    else:
        yield failure(
            f"The metadata of the issuer {shown(issuer)} states the issuer {shown(stated)}: they "
            "must be equal character by character.",
            difference_remedy(issuer, stated, "name that issuer in the resource's metadata"),
        )
    for name in ("authorization_endpoint", "token_endpoint"):
        yield from of_endpoint(name, metadata.get(name))
    if "S256" not in list_of(metadata, "code_challenge_methods_supported"):
        yield failure(
            "code_challenge_methods_supported lacks S256: clients refuse a server without PKCE.",
            "Support PKCE, and state it: COMPLIANT_BCP_RFC9700_PKCE_METHOD of the toolkit.",
        )
    else:
        yield ok("PKCE with S256")


def of_endpoint(name: str, url: Any) -> Iterator[Finding]:
    if not is_url(url):
        yield failure(f"The metadata has no {name}.", f"State the {name}.")
    elif split(url).scheme != "https" and not is_local(url):
        yield failure(
            f"The {name} is {shown(url)}: clients refuse http.",
            difference_remedy(split(url)._replace(scheme="https").geturl(), url, ""),
        )


def authentication_methods(metadata: Json) -> Sequence[str]:
    """Return the methods of the token endpoint; there is a default (RFC 8414, section 2)."""
    methods = metadata.get("token_endpoint_auth_methods_supported")
    return methods if isinstance(methods, list) else ("client_secret_basic",)


def of_endpoint_answer(name: str, answer: Answer) -> Iterator[Finding]:
    """Yield findings about the answer to an invalid request to an endpoint."""
    remedies = {
        401: "Let everybody register: DCR_REGISTRATION_PERMISSION_CLASSES of the toolkit.",
        403: "Let everybody register: DCR_REGISTRATION_PERMISSION_CLASSES of the toolkit.",
        404: f"Correct the {name} of the metadata, or serve it.",
        405: f"Correct the {name} of the metadata: it does not accept the method.",
    }
    if not answer.status:
        yield failure(f"{name}: {shown(answer.error)}", connection_remedy(answer.error))
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


def of_missing_metadata(
    url: str, issuer: str, answers: Sequence[tuple[str, Answer]]
) -> Iterator[Finding]:
    """Yield why an issuer has no metadata; ``url`` is the endpoint's."""
    tried = "; ".join(f"{shown(target)}: {answer}" for target, answer in answers)
    if not any(answer.status for _, answer in answers):
        yield failure(
            f"The issuer {shown(issuer)} does not answer. {tried}",
            "Start the authorization server, or correct the issuer that the authenticator names.",
        )
    elif split(issuer).netloc == split(url).netloc:
        yield failure(
            f"The issuer {shown(issuer)} has no metadata. {tried}",
            'With django_mcp.contrib.oauth, add path("", include("django_mcp.contrib.oauth.urls")) '
            "to the ROOT_URLCONF, at the root and in place of the toolkit's own URLs. A proxy has "
            "to pass on the paths below /.well-known/.",
        )
    else:
        yield failure(
            f"The issuer {shown(issuer)} has no metadata. {tried}",
            "Serve it where the issuer says: its path follows the well-known path.",
        )


def of_login(url: str, answer: Answer) -> Iterator[Finding]:
    """Yield findings about the page that the authorization endpoint sends users to."""
    if answer.status >= 500 or answer.status in (404, 405, 410):
        yield failure(
            f"The login page {shown(url)} is answered {answer}.",
            "Set LOGIN_URL to the login page of the site: a path, or the name of a URL pattern.",
        )
    elif not answer.status:
        yield failure(
            f"The login page {shown(url)}: {shown(answer.error)}", connection_remedy(answer.error)
        )


# How a client can register: by its metadata document, or dynamically (RFC 7591).


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
        yield from of_endpoint("registration_endpoint", endpoint)
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
