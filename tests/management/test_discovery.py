"""The discovery of clients: what each of them finds at a server, and the remedies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from django_mcp.management.discovery import CLIENTS, Probe
from django_mcp.management.findings.base import Answer, Finding, Level, shown
from tests.management.simulated_site import (
    APPENDED,
    AUTHORIZATION_SERVER,
    AUTHORIZE,
    FAULTS,
    INSERTED,
    ISSUER,
    ISSUER_METADATA,
    LOGIN,
    REGISTER,
    RESOURCE,
    TOKEN,
    URL,
    WELL_KNOWN,
    Site,
    document,
    findings_of,
    page,
    redirect,
    result,
)
from tests.spec import spec

EVERYBODY = [*CLIENTS]


@pytest.fixture
def site() -> Site:
    return Site()


def problems(found: list[Finding], *levels: Level) -> list[str]:
    """The texts and remedies of findings, by default of failures."""
    wanted = levels or (Level.FAILURE,)
    return [f"{each.text} {each.remedy}" for each in found if each.level in wanted]


@pytest.mark.parametrize("client", EVERYBODY)
def test_every_client_finds_nothing_wrong_at_a_good_server(site: Site, client: str) -> None:
    assert {finding.level for finding in site.play(client)} == {Level.OK}


@pytest.mark.parametrize("fault", FAULTS)
def test_common_fault_is_found_with_a_remedy(fault: str) -> None:
    wrong = [each for name in EVERYBODY for each in findings_of(name, fault)]
    assert any(each.remedy for each in wrong if each.level is not Level.OK)


@pytest.mark.parametrize("client", EVERYBODY)
def test_public_server_has_nothing_to_log_in_to(site: Site, client: str) -> None:
    site.open_to_everybody()
    found = site.play(client)
    assert problems(found, Level.FAILURE, Level.WARNING, Level.NOTE) == []
    assert "There is nothing to log in to" in [finding.text for finding in found]


def test_places_are_looked_at_in_the_order_of_the_client(site: Site) -> None:
    site.play("claude")
    gets = [probe.url for probe in site.probes if probe.method == "GET"]
    assert gets[:4] == [INSERTED, INSERTED, WELL_KNOWN, APPENDED]
    other = Site()
    other.play("codex")
    gets = [probe.url for probe in other.probes if probe.method == "GET"]
    # The last but two is sent with another Host.
    assert gets == [INSERTED, APPENDED, ISSUER_METADATA, AUTHORIZE]


def test_first_request_is_discover_or_initialize_without_credentials(site: Site) -> None:
    site.play("claude")
    other = Site()
    other.play("cursor")
    first, initialize = site.probes[0], other.probes[0]
    assert json.loads(first.body)["method"] == "server/discover"
    assert dict(first.headers)["mcp-method"] == "server/discover"
    assert json.loads(initialize.body)["method"] == "initialize"
    assert not {"authorization", "cookie"} & {*dict(first.headers), *dict(initialize.headers)}


def test_client_goes_on_with_initialize_where_discover_is_unknown(site: Site) -> None:
    def answer(probe: Probe) -> Answer:
        if b"server/discover" in probe.body:
            return document({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601}}, 404)
        return result(("mcp-session-id", "abc"))

    site.open_to_everybody()
    site.change("POST", URL, answer)
    found = site.play("claude-code")
    assert problems(found) == []
    assert "goes on with initialize" in problems(found, Level.NOTE)[0]
    ended = [dict(probe.headers) for probe in site.probes if probe.method == "DELETE"]
    assert [headers["mcp-session-id"] for headers in ended] == ["abc"]


def test_result_in_a_stream_is_read(site: Site) -> None:
    site.open_to_everybody()
    body = b'event: message\ndata: {"jsonrpc": "2.0", "id": 1, "result": {}}\n\n'
    site.change("POST", URL, Answer(200, (("content-type", "text/event-stream"),), body))
    assert problems(site.play("cursor")) == []


@pytest.mark.parametrize(
    ("answer", "text", "remedy"),
    [
        (Answer(0, error="timed out"), "timed out", "firewall"),
        (Answer(0, error="Connection refused"), "Connection refused", "Start the site"),
        (Answer(0, error="certificate verify failed"), "certificate", "intermediate"),
        (redirect(URL + "/"), "redirected to https://shop.example/mcp/", "APPEND_SLASH"),
        (redirect("/login/?next=/mcp"), "redirected to /login/", "must not redirect to a login"),
        (page(400), "400 with an HTML page", "ALLOWED_HOSTS"),
        (document({"error": {"message": "see ALLOWED_HOSTS"}}, 403), "403", "ALLOWED_HOSTS"),
        (document({"error": {"message": "see ALLOWED_ORIGINS"}}, 403), "403", "ALLOWED_ORIGINS"),
        (page(403), "403 with an HTML page", "CSRF"),
        (page(404), "404 with an HTML page", "mount"),
        (page(405), "405", "no MCP endpoint"),
        (page(502), "502", "proxy"),
        (page(200), "200 with an HTML page", "mcp_show"),
        (Answer(200, (("content-type", "application/json"),), b"[" * 9999), "200", "mcp_show"),
    ],
)
def test_first_answer_that_is_no_response_is_a_failure(
    site: Site, answer: Answer, text: str, remedy: str
) -> None:
    site.change("POST", URL, answer)
    for client in ("claude", "cursor"):
        (problem,) = problems(site.play(client))
        assert text in problem
        assert remedy in problem


@spec("AUTH-RS-33")
def test_http_url_is_a_failure_unless_it_is_local(site: Site) -> None:
    site.change("POST", "http://shop.example/mcp", redirect("https://shop.example/mcp"))
    first, second = problems(site.play("cursor", "http://shop.example/mcp"))
    assert "plain text" in first
    assert "Give clients the https URL" in second
    local = "http://localhost:8000/mcp"
    site.change("POST", local, result())
    site.change("GET", local.replace("/mcp", "/.well-known/oauth-protected-resource"), page(404))
    assert "vendor's machines" in problems(site.play("claude", local), Level.NOTE)[0]
    assert problems(site.play("cursor", local), Level.NOTE) == []


@pytest.mark.parametrize(
    ("resource", "remedy"),
    [
        (f"{URL}/", "slash at the end"),
        ("http://shop.example/mcp", "SECURE_PROXY_SSL_HEADER"),
        ("https://127.0.0.1:8000/mcp", "USE_X_FORWARDED_HOST"),
        ("https://shop.example/other", "Correct the path"),
        (None, "as a string"),
    ],
)
def test_resource_must_equal_the_url(site: Site, resource: str | None, remedy: str) -> None:
    site.change_resource(resource=resource)
    for client in EVERYBODY:
        (problem,) = problems(site.play(client))
        assert "character by character" in problem
        assert remedy in problem


def test_https_resource_of_a_local_http_url_is_explained(site: Site) -> None:
    local = "http://localhost:8000/mcp"
    site.challenge = "Bearer"
    site.change("POST", local, site._reject)
    found = document({**RESOURCE, "resource": local.replace("http:", "https:")})
    place = "http://localhost:8000/.well-known/oauth-protected-resource/mcp"
    site.change("GET", place, found)
    (problem,) = problems(site.play("vscode", local))
    assert "with the https URL" in problem


def test_metadata_without_an_issuer_is_a_failure(site: Site) -> None:
    site.change_resource(authorization_servers=[])
    assert "names no issuer" in problems(site.play("vscode"))[0]
    site.change_resource(scopes_supported=["offline_access"])
    assert "offline_access" in problems(site.play("vscode"), Level.WARNING)[0]


def test_html_404_of_a_public_server_is_a_failure(site: Site) -> None:
    site.open_to_everybody()
    for url in (INSERTED, WELL_KNOWN, APPENDED):
        site.change("GET", url, page(404))
    for client in EVERYBODY:
        (problem, *_) = problems(site.play(client))
        assert "404 with an HTML page: clients expect JSON" in problem
        assert "/.well-known/" in problem


def test_claude_needs_the_metadata_at_the_root(site: Site) -> None:
    site.change("GET", WELL_KNOWN, document({}, 404))
    (problem,) = problems(site.play("claude"))
    assert "it ends its attempt" in problem
    assert problems(site.play("claude-code")) == []


def test_challenge_without_metadata_is_a_failure_for_clients_without_tokens(site: Site) -> None:
    site.challenge = 'Bearer scope="mcp"'
    for url in (INSERTED, WELL_KNOWN, APPENDED):
        site.change("GET", url, document({}, 404))
    assert "no token can be configured" in problems(site.play("claude"))[0]
    assert problems(site.play("codex")) == []
    assert "mcp_config --token" in problems(site.play("codex"), Level.NOTE)[0]
    site.challenge = "Session"
    assert "no Bearer challenge" in problems(site.play("codex"))[0]


def test_challenge_that_names_no_metadata_is_a_warning(site: Site) -> None:
    site.challenge = "Bearer"
    found = site.play("vscode")
    assert problems(found) == []
    assert "resource_metadata" in problems(found, Level.WARNING)[0]


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        (result(), Level.FAILURE),
        (document({}, 403), Level.WARNING),
        (document({}, 401, ("www-authenticate", LOGIN)), Level.WARNING),
    ],
)
def test_answer_to_an_invalid_token_is_examined(site: Site, answer: Answer, level: Level) -> None:
    def respond(probe: Probe) -> Answer:
        has_token = "authorization" in dict(probe.headers)
        return answer if has_token else document({}, 401, ("www-authenticate", LOGIN))

    site.change("POST", URL, respond)
    assert "nobody issued" in problems(site.play("cursor"), level)[0]


@pytest.mark.parametrize(
    ("members", "text", "remedy"),
    [
        ({"issuer": "http://shop.example/o"}, "states the issuer http", "SECURE_PROXY_SSL_HEADER"),
        ({"issuer": f"{ISSUER}/"}, "states the issuer", "slash at the end"),
        ({"issuer": "https://web:8000/o"}, "states the issuer", "USE_X_FORWARDED_HOST"),
        ({"token_endpoint": None}, "no token_endpoint", "token_endpoint"),
        ({"token_endpoint": "http://shop.example/t"}, "refuse http", "SECURE_PROXY_SSL_HEADER"),
        ({"code_challenge_methods_supported": ["plain"]}, "lacks S256", "PKCE"),
    ],
)
def test_metadata_of_the_authorization_server_is_examined(
    site: Site, members: Mapping[str, Any], text: str, remedy: str
) -> None:
    site.change_issuer(**members)
    problem = problems(site.play("opencode"))[0]
    assert text in problem
    assert remedy in problem


def test_issuer_without_metadata_is_a_failure_that_lists_what_was_tried(site: Site) -> None:
    site.change("GET", ISSUER_METADATA, page(404))
    (problem,) = problems(site.play("cursor"))
    places = [probe.url for probe in site.probes if "authorization-server" in probe.url]
    openid = [probe.url for probe in site.probes if "openid" in probe.url]
    assert places == [ISSUER_METADATA]
    assert openid == [
        "https://shop.example/.well-known/openid-configuration/o",
        "https://shop.example/o/.well-known/openid-configuration",
    ]
    assert "404 with an HTML page" in problem


def test_metadata_of_openid_connect_is_found(site: Site) -> None:
    site.change("GET", ISSUER_METADATA, document({}, 404))
    place = f"{ISSUER}/.well-known/openid-configuration"
    site.change("GET", place, document(AUTHORIZATION_SERVER))
    assert problems(site.play("cursor")) == []


def test_issuer_that_is_no_url_is_a_failure(site: Site) -> None:
    site.change_resource(authorization_servers=["file:///etc/passwd"])
    assert "names no issuer" in problems(site.play("cursor"))[0]
    assert all(probe.url.startswith("https://") for probe in site.probes)


# Registration.


def test_missing_none_is_a_failure_where_only_documents_are_taken(site: Site) -> None:
    methods = {"token_endpoint_auth_methods_supported": ["client_secret_basic"]}
    site.change_issuer(**methods, registration_endpoint=None)
    (problem,) = problems(site.play("claude"))
    assert "does not list none" in problem
    assert "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED" in problem
    site.change_issuer(**methods)
    found = site.play("claude")
    assert problems(found) == []
    assert "does not list none" in problems(found, Level.WARNING)[0]


def test_client_without_a_way_to_register_cannot_log_in(site: Site) -> None:
    site.change_issuer(registration_endpoint=None)
    assert problems(site.play("claude-code")) == []
    (problem,) = problems(site.play("cursor"))
    assert "It cannot register" in problem
    assert "DCR_ENABLED" in problem
    site.change_issuer(registration_endpoint=None, client_id_metadata_document_supported=False)
    assert "CIMD_ENABLED" in problems(site.play("claude-code"))[0]


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (document({"error": "invalid_token"}, 401), "DCR_REGISTRATION_PERMISSION_CLASSES"),
        (page(403), "CSRF"),
        (page(404), "serve it"),
        (page(500), "logs"),
        (redirect(REGISTER + "/"), "as it is served"),
        (Answer(0, error="timed out"), "firewall"),
    ],
)
def test_registration_that_does_not_answer_is_a_failure(
    site: Site, answer: Answer, remedy: str
) -> None:
    site.change("POST", REGISTER, answer)
    assert remedy in problems(site.play("codex"))[0]


def test_nothing_is_registered_and_no_token_is_issued(site: Site) -> None:
    site.play("cursor")
    sent = {probe.url: probe.body for probe in site.probes if probe.method == "POST"}
    assert json.loads(sent[REGISTER]) == []
    assert sent[TOKEN] == b"grant_type=authorization_code"


# Clients in a browser.


def test_page_without_access_is_a_warning(site: Site) -> None:
    site.change("OPTIONS", URL, page(405))
    site.change("OPTIONS", TOKEN, Answer(200))
    site.change("OPTIONS", REGISTER, Answer(200, (("access-control-allow-origin", "*"),)))
    site.change_issuer(client_id_metadata_document_supported=False)
    found = site.play("inspector")
    assert problems(found) == []
    endpoint, token, register = problems(found, Level.WARNING)
    assert "405" in endpoint
    assert "Access-Control-Allow-Origin does not name it" in token
    assert "content-type are not allowed headers" in register
    assert "ALLOWED_ORIGINS" in endpoint


def test_wildcard_does_not_allow_the_authorization_header(site: Site) -> None:
    wildcard = (("access-control-allow-origin", "*"), ("access-control-allow-headers", "*"))
    site.change("OPTIONS", URL, Answer(204, wildcard))
    (warning,) = problems(site.play("inspector"), Level.WARNING)
    assert "authorization are not allowed headers" in warning


def test_metadata_that_a_page_may_not_read_is_a_warning(site: Site) -> None:
    content = (("content-type", "application/json"),)
    site.change("GET", INSERTED, Answer(200, content, json.dumps(RESOURCE).encode()))
    (warning,) = problems(site.play("inspector"), Level.WARNING)
    assert "does not name it" in warning


# What a server sends is printed with care.


def test_values_of_the_server_are_printable_and_short() -> None:
    assert shown("a\x1b[31m\n") == "a?[31m?"
    assert len(shown("x" * 1000)) == 81
    assert shown(["a", 1]) == '["a", 1]'


def test_metadata_of_other_types_raises_nothing(site: Site) -> None:
    for value in (7, "a", [1], {"a": 1}, None):
        site.change_resource(resource=value, authorization_servers=value, scopes_supported=[value])
        assert problems(site.play("claude"))
    for value in (7, "a", [1], {"a": 1}):
        site = Site()
        site.change_issuer(**dict.fromkeys(AUTHORIZATION_SERVER, value))
        for client in EVERYBODY:
            assert problems(site.play(client))
