"""System checks: each finding and its message; a valid site has none."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakSet

import pytest
from django.contrib.auth.backends import ModelBackend
from django.core import checks
from django.core.management import get_commands
from django.db import OperationalError, connections
from django.utils.translation import gettext_lazy
from pytest_django import Settings

from django_mcp import ConfigurationError, Frame, Prompt, Server, Tool, registry
from django_mcp import checks as ours
from django_mcp.auth.introspection import IntrospectionAuthentication
from django_mcp.auth.jwt import JWTAuthentication
from django_mcp.auth.token import TokenAuthentication as PersonalTokenAuthentication
from django_mcp.checks import codenames
from django_mcp.checks import components as component_checks
from django_mcp.core.auth.base import BaseAuthentication
from django_mcp.core.components.base import Component
from django_mcp.core.components.tool import tool_component
from example_site import settings as example_settings
from tests.spec import spec

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = "django_mcp.auth.anonymous.AnonymousAuthentication"
SESSION = "django_mcp.auth.django_session.DjangoSessionAuthentication"
ID = re.compile(r"django_mcp\.([EW]\d{3})")


class UnconstructibleAuthentication:
    """A class which cannot be created without arguments."""

    def __init__(self, key: str) -> None:
        self.key = key


def get_findings(*, deploy: bool = False) -> dict[str, checks.CheckMessage]:
    """Return the findings by id, each of which must occur once."""
    # Without databases, as older versions of Django have it by default.
    found = checks.run_checks(tags=[ours.TAG], include_deployment_checks=deploy, databases=[])
    # Optional apps of the package have ids of their own.
    ours_only = [message for message in found if str(message.id).startswith("django_mcp.")]
    messages = [message for message in ours_only if not message.is_silenced()]
    by_id = {str(message.id).removeprefix("django_mcp."): message for message in messages}
    assert len(by_id) == len(messages)
    return by_id


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """The only server of the site, with a tool without findings."""
    server = Server("shop", authenticators=[PUBLIC])

    @server.tool(read_only=True)
    def stock(item: str) -> int:
        """Return the number in stock."""
        return len(item)

    monkeypatch.setattr(registry.registered, "servers", {"shop": server})
    monkeypatch.setattr(registry, "is_mounted", lambda server, interface: True)
    return server


@pytest.fixture(autouse=True)
def _valid_site(settings: Settings) -> None:
    settings.DEBUG = True
    settings.DJANGO_MCP = {}
    settings.ASGI_APPLICATION = "example_site.asgi.application"
    settings.WSGI_APPLICATION = None
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels_redis.core.RedisChannelLayer"}}


@pytest.fixture
def _uncached_commands() -> Iterator[None]:
    """Clears the cache of commands, since INSTALLED_APPS change."""
    cached: Any = get_commands
    cached.cache_clear()
    yield
    cached.cache_clear()


def test_valid_site_has_no_findings() -> None:
    assert get_findings(deploy=True) == {}


def test_example_site_has_no_findings(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    settings.DJANGO_MCP = example_settings.DJANGO_MCP
    # Its module is imported again, as in a process of its own.
    for module in ("example_site.asgi", "example_site.wsgi"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    assert get_findings() == {}


def test_application_that_does_not_mount_the_servers_is_reported(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ASGI_APPLICATION = "django.core.asgi.get_asgi_application"
    monkeypatch.setattr(registry, "is_mounted", lambda server, interface: False)
    finding = get_findings()["W022"]
    assert "answers 404 at '/shop'" in finding.msg
    assert "mount(get_asgi_application())" in str(finding.hint)


def test_application_that_cannot_be_imported_is_reported(settings: Settings) -> None:
    settings.ASGI_APPLICATION = "nowhere.asgi.application"
    assert "'nowhere.asgi.application', which cannot be imported" in get_findings()["W021"].msg


@pytest.mark.parametrize(
    ("command", "is_error"),
    [
        ("check", True),
        ("runserver", True),
        ("mcp_stdio", True),
        ("mcp_show", True),
        ("tests/test_checks.py", True),
        ("migrate", False),
        ("makemigrations", False),
        ("shell", False),
        ("createsuperuser", False),
    ],
)
def test_module_that_cannot_be_imported_stops_only_what_serves(
    monkeypatch: pytest.MonkeyPatch, command: str, is_error: bool
) -> None:
    broken = registry.Broken("shop.mcp", ImportError("No module named 'tea'"))
    monkeypatch.setattr(registry.registered, "broken", [broken])
    monkeypatch.setattr(sys, "argv", ["manage.py", command])
    databases = [] if is_error else ["default"]
    found = checks.run_checks(tags=[ours.TAG], databases=databases)
    message = next(each for each in found if each.id == "django_mcp." + "E021")
    assert message.msg == "shop.mcp cannot be imported: ImportError: No module named 'tea'"
    assert message.is_serious(checks.ERROR) == is_error
    assert set(get_findings()) == {"E021"}


def test_class_that_is_registered_nowhere_is_reported(
    monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    module = ModuleType("example_site.desk.mcp")
    names = ("Refund", "Base", "Derived", "Registered", "Imported", "Question")

    def declare(name: str, base: type, where: str = module.__name__, **members: Any) -> type:
        return type(name, (base,), {"__module__": where, **members})

    refund = declare("Refund", Tool, run=lambda self: None)
    base = declare("Base", Tool)
    derived = declare("Derived", base, execute=lambda self: None)
    registered = declare("Registered", Tool, execute=lambda self: None)
    imported = declare("Imported", Tool, "elsewhere")
    question = declare("Question", Prompt)
    classes = (refund, base, derived, registered, imported, question)
    vars(module).update(dict(zip(names, classes, strict=True)))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    server.tool(registered)
    expected = "django_mcp." + "W063"
    found = [each for each in checks.run_checks(tags=[ours.TAG]) if each.id == expected]
    named = {str(each.msg).split()[0].rpartition(".")[2]: str(each.hint) for each in found}
    assert sorted(named) == ["Derived", "Question", "Refund"]
    assert "@tool" in named["Refund"]
    assert "@prompt" in named["Question"]


@pytest.mark.parametrize(
    ("needed", "nearest"),
    [
        ("shop.nope", None),
        ("shop.ad_order", "shop.add_order"),
        ("shops.add_order", "shop.add_order"),
        ("shop.add_tea", "shop.add_order"),
    ],
)
def test_remedy_of_an_unknown_permission_compares_codenames(
    needed: str, nearest: str | None
) -> None:
    stored = {"shop.add_order", "auth.add_user", "auth.nopes"}
    assert codenames._nearest(needed, stored) == nearest


def test_missing_django_middleware_is_reported(settings: Settings) -> None:
    settings.DJANGO_MCP = {"DJANGO_MIDDLEWARE": ["nowhere.Middleware"]}
    assert "'nowhere.Middleware'" in get_findings()["E004"].msg


@pytest.mark.parametrize("line", ["tea", "import", "{}['tea']"])
@pytest.mark.parametrize(
    ("key", "found_as"),
    [("VIEW_MIDDLEWARE", "E004"), ("CHANNEL_LAYERS", "E008"), ("STORES", "E003")],
)
def test_module_of_a_setting_that_raises_anything_is_a_finding(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    key: str,
    found_as: str,
    line: str,
) -> None:
    (tmp_path / "faulty_module.py").write_text(f"{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    named = "faulty_module.Thing"
    if key == "CHANNEL_LAYERS":
        settings.CHANNEL_LAYERS = {"default": {"BACKEND": named}}
    else:
        stores = {"events": {"BACKEND": named}}
        settings.DJANGO_MCP = {key: stores if key == "STORES" else [named]}
    assert "cannot be imported: " in get_findings()[found_as].msg


def test_path_that_cannot_be_imported_does_not_stop_migrate(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DJANGO_MCP = {"VIEW_MIDDLEWARE": ["nowhere.Middleware"]}
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "nowhere.Layer"}}
    monkeypatch.setattr(sys, "argv", ["manage.py", "migrate"])
    found = get_findings()
    assert [found[key].is_serious(checks.ERROR) for key in ("E004", "E008")] == [False, False]


def test_components_that_cannot_be_built_are_the_only_finding(server: Server) -> None:
    def build() -> list[Component]:
        raise ConfigurationError("shop.mcp.Orders has no model")

    server.components.defer(build)
    found = get_findings(deploy=True)
    assert found["E022"].msg.endswith("cannot be built: shop.mcp.Orders has no model")
    assert set(found) == {"E022"}


def test_large_list_of_tools_is_found_before_a_deployment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.tool(name="buy", description="Buy tea.")(lambda: None)
    monkeypatch.setattr(component_checks, "MAX_TOKENS", 1)

    assert "W041" not in get_findings()
    finding = get_findings(deploy=True)["W041"]
    assert "'shop'" in finding.msg
    assert "mcp_show --describe" in str(finding.hint)


def test_tools_that_are_found_by_search_are_not_in_the_size_of_the_list(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "tool_search", True)
    server.extend()
    server.tool(name="buy", description="Buy tea.")(lambda: None)
    server.tool(name="sell", description="Sell tea. " * 1_000)(lambda: None)
    monkeypatch.setattr(component_checks, "MAX_TOKENS", 2_000)

    assert "W041" not in get_findings(deploy=True)


def test_deferred_components_are_examined_before_a_deployment_only(server: Server) -> None:
    builds = []

    def build() -> list[Component]:
        builds.append("built")
        return [tool_component(lambda: None, name="guarded", permission="shops.view_order")]

    server.components.defer(build)

    assert "W004" not in get_findings()
    assert not builds
    assert "'shops.view_order'" in get_findings(deploy=True)["W004"].msg
    assert len(builds) == 1


def test_deferred_component_with_a_taken_name_is_reported(server: Server) -> None:
    server.tool(name="taken")(lambda: None)
    server.components.defer(lambda: [tool_component(lambda: None, name="taken")])

    message = get_findings(deploy=True)["W076"].msg
    assert "lacks a tool: The tool 'taken' is registered twice" in message


def test_foreign_package_of_the_same_name_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "django_mcp-0.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: django_mcp\nVersion: 0.3\n")
    (info / "RECORD").write_text("django_mcp/__init__.py,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "'django-mcp'" in get_findings()["E001"].msg
    assert (
        get_findings()["E001"].hint
        == "Uninstall django-mcp, then install django-mcp-channels again."
    )


def test_invalid_setting_is_the_only_finding(settings: Settings) -> None:
    settings.DJANGO_MCP = {"MAX_BODY_SIZ": 3}
    assert "Did you mean 'MAX_BODY_SIZE'?" in get_findings(deploy=True)["E002"].msg
    assert set(get_findings(deploy=True)) == {"E002"}


def test_store_that_cannot_be_created_is_reported(settings: Settings) -> None:
    settings.DJANGO_MCP = {"STORES": {"events": {"BACKEND": "nowhere.Store"}}}
    assert 'DJANGO_MCP["STORES"]["events"]' in get_findings()["E003"].msg


def test_missing_task_runner_is_reported_where_a_tool_supports_tasks(
    server: Server, settings: Settings
) -> None:
    settings.DJANGO_MCP = {"TASK_RUNNER": {"BACKEND": "nowhere.Runner"}}
    before = get_findings()

    @server.tool(task_support="optional")
    def work() -> None:
        """Works."""

    assert "E003" not in before
    assert 'DJANGO_MCP["TASK_RUNNER"]' in get_findings()["E003"].msg


def test_calls_that_go_on_in_a_web_process_beside_workers_are_reported(
    server: Server, settings: Settings
) -> None:
    @server.tool(task_support="optional")
    def work() -> None:
        """Works."""

    @server.tool(task_support="optional", task_after=0)
    def work_in_worker() -> None:
        """Works."""

    @server.tool(task_support="optional", approval="auth.change_user")
    def work_after_approval() -> None:
        """Works."""

    assert "W062" not in get_findings()
    settings.DJANGO_MCP = {"TASK_RUNNER": {"BACKEND": "tests.tasks.runners.ManualRunner"}}
    message = get_findings()["W062"].msg
    assert "'work'" in message
    assert "work_in_worker" not in message
    assert "work_after_approval" not in message


def test_missing_frame_processor_is_reported(settings: Settings) -> None:
    settings.DJANGO_MCP = {"FRAME_PROCESSORS": ["example_site.nothing"]}
    assert "'example_site.nothing'" in get_findings()["E004"].msg


def test_missing_serializer_is_reported(settings: Settings) -> None:
    settings.DJANGO_MCP = {"SERIALIZERS": {"decimal.Decimal": "example_site.nothing"}}
    assert "'example_site.nothing'" in get_findings()["E004"].msg
    settings.DJANGO_MCP = {"SERIALIZERS": {"decimal.Decimal": "builtins.float"}}
    assert "E004" not in get_findings()


def test_server_without_authenticators_is_reported(server: Server) -> None:
    server.authenticators = None
    assert "'shop' names no authenticator" in get_findings()["E005"].msg


def test_server_without_authenticators_is_accepted_without_asgi(
    server: Server, settings: Settings
) -> None:
    server.authenticators = None
    settings.ASGI_APPLICATION = None
    settings.WSGI_APPLICATION = "django.core.wsgi.get_wsgi_application"
    assert "E005" not in get_findings()


def test_server_without_authenticators_is_reported_where_wsgi_mounts_it(
    server: Server, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.authenticators = None
    settings.ASGI_APPLICATION = None
    settings.WSGI_APPLICATION = "example_site.wsgi.application"
    monkeypatch.delitem(sys.modules, "example_site.wsgi", raising=False)
    assert "'shop' names no authenticator" in get_findings()["E005"].msg


@pytest.mark.parametrize(
    "path", ["nowhere.Authenticator", f"{__name__}.UnconstructibleAuthentication"]
)
def test_authenticator_that_cannot_be_created_is_reported(server: Server, path: str) -> None:
    server.authenticators = [path]
    assert "An authenticator of the MCP server 'shop'" in get_findings(deploy=True)["E006"].msg


@pytest.mark.parametrize("path", ["/shop", "/shop/"])
def test_two_servers_at_one_path_are_reported(path: str) -> None:
    registry.add(Server("other", path=path, authenticators=[PUBLIC]))
    assert "'shop' and 'other' share the path" in get_findings()["E007"].msg


def test_missing_channel_layer_is_reported(settings: Settings) -> None:
    settings.DJANGO_MCP = {"CHANNEL_LAYER": "mcp"}
    assert get_findings()["E008"].hint == "CHANNEL_LAYERS has: default."


def test_channel_layer_that_is_not_installed_is_reported(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("channels_redis", "channels_redis.core"):
        monkeypatch.setitem(sys.modules, name, None)
    backend = "channels_redis.core.RedisChannelLayer"
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": backend}}
    found = get_findings()["E008"]
    assert f"names the BACKEND {backend!r}, which cannot be imported" in found.msg
    assert found.hint == "Correct the dotted path, or install the package."


def test_misspelt_channel_layer_is_reported(settings: Settings) -> None:
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.RedisLayer"}}
    assert "RedisLayer" in get_findings()["E008"].msg


def test_channel_layer_that_is_installed_is_not_reported(settings: Settings) -> None:
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    assert "E008" not in get_findings()


@pytest.mark.parametrize(
    ("cache", "found"),
    [
        ("locmem.LocMemCache", {"E009"}),
        ("filebased.FileBasedCache", {"E009"}),
        ("dummy.DummyCache", {"E009"}),
        ("redis.RedisCache", set()),
    ],
)
def test_cache_that_cannot_hold_used_states_is_reported(
    settings: Settings, cache: str, found: set[str]
) -> None:
    settings.CACHES = {"default": {"BACKEND": f"django.core.cache.backends.{cache}"}}
    settings.DJANGO_MCP = {"REQUEST_STATE_SINGLE_USE": True}
    assert set(get_findings()) == found
    settings.DJANGO_MCP = {}
    assert get_findings() == {}


@pytest.fixture
def only_wsgi(server: Server, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site as startproject makes it, without daphne; only the WSGI application is mounted."""
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "daphne"]
    # The apps are discovered again, with the servers of the example site.
    monkeypatch.setattr(registry.registered, "servers", {"shop": server})
    settings.ASGI_APPLICATION = None
    settings.WSGI_APPLICATION = "tests.wsgi.pair.wsgi.application"
    monkeypatch.setattr(registry, "is_mounted", lambda server, interface: interface == "WSGI")


@pytest.mark.usefixtures("_uncached_commands", "only_wsgi")
def test_site_whose_wsgi_application_is_mounted_needs_no_asgi() -> None:
    assert get_findings() == {}


@pytest.mark.usefixtures("_uncached_commands", "only_wsgi")
def test_wsgi_application_that_does_not_mount_the_servers_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "is_mounted", lambda server, interface: False)
    finding = get_findings()["W022"]
    assert "tests.wsgi.pair.wsgi.application answers 404 at '/shop'" in finding.msg
    assert "mount(get_wsgi_application())" in str(finding.hint)


@pytest.mark.usefixtures("_uncached_commands", "only_wsgi")
def test_runserver_of_the_application_that_is_not_mounted_is_reported(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ASGI_APPLICATION = "tests.wsgi.pair.asgi.application"
    monkeypatch.setattr(registry, "is_mounted", lambda server, interface: interface == "ASGI")
    finding = get_findings()["W001"]
    assert "runserver serves tests.wsgi.pair.wsgi.application" in finding.msg
    assert "only tests.wsgi.pair.asgi.application mounts the MCP servers" in finding.msg
    assert "mount(get_wsgi_application())" in str(finding.hint)


@pytest.mark.usefixtures("_uncached_commands", "only_wsgi")
def test_asgi_file_beside_the_wsgi_file_needs_no_setting(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "is_mounted", lambda server, interface: interface == "ASGI")
    assert "only tests.wsgi.pair.asgi.application" in get_findings()["W001"].msg
    settings.DEBUG = False
    assert get_findings() == {}


@pytest.mark.usefixtures("_uncached_commands", "only_wsgi")
def test_http_sse_without_asgi_is_reported(settings: Settings) -> None:
    settings.DJANGO_MCP = {"HTTP_SSE": True}
    assert "does not serve HTTP+SSE" in get_findings()["E010"].msg


@pytest.mark.usefixtures("_uncached_commands")
def test_site_without_servers_needs_no_asgi(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "daphne"]
    monkeypatch.setattr(registry.registered, "servers", {})
    assert get_findings() == {}


def test_missing_asgi_application_is_reported(settings: Settings) -> None:
    settings.ASGI_APPLICATION = None
    assert set(get_findings()) == {"W002"}
    settings.DEBUG = False
    assert get_findings() == {}


@spec("2026/TOOL-06")
def test_tool_without_description_is_reported(server: Server) -> None:
    @server.tool(read_only=True)
    def nameless() -> None: ...

    assert f"'nameless' at {__name__}" in get_findings()["W003"].msg


REJECTED_SCHEMAS: dict[str, Any] = {
    "W042": {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]},
    "W043": {"type": "object", "additionalProperties": False},
    "W044": {"type": "object", "properties": {"a": {"items": {"type": ["array", "null"]}}}},
}


@pytest.mark.parametrize("number", REJECTED_SCHEMAS)
def test_schema_that_clients_reject_is_reported_with_all_its_tools(
    server: Server, number: str, settings: Settings
) -> None:
    settings.SILENCED_SYSTEM_CHECKS = []
    for name in ("a", "b"):
        schema = REJECTED_SCHEMAS[number]
        server.tool(name=name, description="Sell.", input_schema=schema)(lambda arguments: None)
    found = get_findings()
    assert set(found) == {number}
    assert f"tool 'a' at {__name__}" in found[number].msg
    assert f"tool 'b' at {__name__}" in found[number].msg


def test_schema_that_clients_accept_is_not_reported(server: Server) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "array"}, {"type": ["string", "null"]}]}},
    }
    server.tool(name="a", description="Sell.", input_schema=schema)(lambda arguments: None)

    @server.tool
    def nothing() -> None:
        """Take no arguments."""

    assert get_findings() == {}


def test_description_that_clients_cut_is_reported(server: Server) -> None:
    server.tool(name="short", description="x" * 1024)(lambda: None)
    server.prompt(name="long", description=gettext_lazy("x" * 1025))(lambda: "")
    server.tool(name="computed", description=lambda: "x" * 2000)(lambda: None)
    message = get_findings()["W045"].msg
    assert "prompt 'long'" in message
    assert "'short'" not in message


def test_name_that_is_too_long_with_its_prefix_is_reported(server: Server) -> None:
    room = 64 - len("mcp__shop__")
    server.tool(name="a" * room, description="Sell.")(lambda: None)
    assert get_findings() == {}
    server.tool(name="b" * (room + 1), description="Sell.")(lambda: None)
    found = get_findings()
    assert set(found) == {"W046"}
    assert "'aaa" not in found["W046"].msg


@pytest.mark.parametrize(
    ("first", "second"), [("stock.all", "stock_all"), ("a" * 53 + "1", "a" * 53 + "2")]
)
def test_names_that_are_the_same_for_clients_are_reported(
    server: Server, first: str, second: str
) -> None:
    for name in (first, second):
        server.tool(name=name, description="Sell.")(lambda: None)
    message = get_findings()["W047"].msg
    assert f"tool {first!r}" in message
    assert f"tool {second!r}" in message
    assert "'stock'" not in message


def test_icon_that_is_no_static_file_is_reported(server: Server, settings: Settings) -> None:
    settings.STATIC_URL = "https://static.example.org/"
    for name, path in {
        "there": "django_mcp/calls.css",
        "hashed": "django_mcp/calls.0123456789ab.css",
        "missing": "django_mcp/nothing.png",
    }.items():
        icon = f"https://static.example.org/{path}"
        server.tool(name=name, description="Sell.", icons=[icon])(lambda: None)
    elsewhere = ["https://other.example.org/icon.png", "data:image/png;base64,AAAA"]
    server.tool(name="elsewhere", description="Sell.", icons=elsewhere)(lambda: None)
    message = get_findings()["W048"].msg
    assert "tool 'missing'" in message
    assert "'there'" not in message
    assert "'hashed'" not in message
    assert "'elsewhere'" not in message
    settings.STATIC_URL = "/static/"
    settings.DJANGO_MCP = {"BASE_URL": "https://shop.example.org"}
    assert "W048" not in get_findings()


def test_permission_of_an_unknown_app_is_reported(server: Server) -> None:
    @server.resource("shop://till", permission="shopp.view_till")
    def till() -> str:
        return ""

    @server.resource("shop://guarded", permission="auth.view_user")
    def guarded() -> str:
        return ""

    assert "The resource 'till'" in get_findings()["W004"].msg
    assert "'shopp.view_till'" in get_findings()["W004"].msg


@pytest.mark.django_db
class TestCodenames:
    def found(self, monkeypatch: pytest.MonkeyPatch, command: str = "check") -> list[str]:
        monkeypatch.setattr(sys, "argv", ["manage.py", command])
        return [
            f"{message.id} {message.msg} {message.hint}"
            for message in codenames.check_codenames(None, databases=["default"])
        ]

    def test_codename_that_does_not_exist_is_reported_with_the_near_one(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.tool(name="a", permission="auth.view_usr")(lambda: "")
        server.tool(name="b", permission="auth.view_user", approval="auth.chnge_user")(lambda: "")
        server.tool(name="c", permission="login_required")(lambda: "")
        first, second = self.found(monkeypatch)
        assert "E026" in first
        assert "The tool 'a'" in first
        assert "Did you mean 'auth.view_user'?" in first
        assert "'auth.chnge_user', which the database 'default' does not have" in second
        assert self.found(monkeypatch, "migrate") == []

    def test_database_that_is_away_hides_no_finding_of_another_one(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.tool(name="a", permission="auth.view_usr")(lambda: "")
        missing = codenames._missing

        def of_present(alias: str) -> Any:
            if alias == "away":
                raise OperationalError("The server does not answer")
            return missing(alias)

        monkeypatch.setattr(codenames, "_missing", of_present)
        monkeypatch.setattr(sys, "argv", ["manage.py", "check"])
        for databases in (["default", "away"], ["away", "default"]):
            (message,) = codenames.check_codenames(None, databases=databases)
            assert message.id == "django_mcp." + "E026"

    def test_codename_is_not_looked_for_where_a_backend_decides(
        self, server: Server, monkeypatch: pytest.MonkeyPatch, settings: Settings
    ) -> None:
        server.tool(name="a", permission="auth.view_usr")(lambda: "")
        settings.AUTHENTICATION_BACKENDS = [f"{__name__}.RoleBackend"]
        assert self.found(monkeypatch) == []


class RoleBackend(ModelBackend):
    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return perm == "auth.view_usr"


def tree_schema() -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": "#"}}


def test_output_schema_unsupported_by_older_revisions_is_reported(server: Server) -> None:
    @server.tool(read_only=True, output_schema=tree_schema())
    def tree() -> Any:
        """A list of lists of lists."""

    @server.tool(read_only=True, output_schema={"type": "array"})
    def flat() -> Any:
        """A list, which older clients receive in an object."""

    assert "The output schema of the tool 'tree'" in get_findings()["W005"].msg


def test_output_schema_is_not_checked_for_revisions_not_served(
    server: Server, settings: Settings
) -> None:
    @server.tool(read_only=True, output_schema=tree_schema())
    def tree() -> Any:
        """A list of lists of lists."""

    settings.DJANGO_MCP = {"PROTOCOL_VERSIONS": ["2026-07-28"]}
    assert get_findings() == {}


def elicit(frame: Frame) -> str:
    return str(frame.client.elicit("Sure?", {}))


async def elicit_in_nested_function(frame: Frame) -> str:
    async def inner() -> str:
        return (await frame.client.acreate_message("Hi", 10)).text

    return await inner()


def elicit_through_helper(frame: Frame) -> str:
    return elicit(frame)


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


class Confirm(Tool):
    """Requests input in a method of its own."""

    def execute(self, frame: Frame) -> str:
        return self._roots(frame)

    def _roots(self, frame: Frame) -> str:
        return str(frame.client.list_roots())


def only_log(frame: Frame) -> None:
    frame.client.log("info", "No input is requested here")


def recursive(frame: Frame) -> None:
    recursive(frame)


@pytest.mark.parametrize(
    "handler",
    [
        elicit,
        elicit_in_nested_function,
        elicit_through_helper,
        decorated(elicit),
        functools.partial(elicit),
        Confirm,
    ],
    ids=["call", "nested function", "helper", "decorator", "partial", "method"],
)
def test_undeclared_input_request_is_reported(server: Server, handler: Any) -> None:
    server.register_tool("confirm", handler, description="Confirm.", read_only=True)
    assert "The tool 'confirm'" in get_findings()["W009"].msg


@pytest.mark.parametrize("handler", [only_log, recursive])
def test_handler_without_input_request_is_not_reported(server: Server, handler: Any) -> None:
    server.register_tool("quiet", handler, description="Log.", read_only=True)
    assert get_findings() == {}


def test_declared_input_request_is_not_reported(server: Server) -> None:
    server.register_tool("confirm", elicit, description="Confirm.", requests_input=True)
    assert get_findings() == {}


def test_writing_tools_open_to_anonymous_clients_are_reported(server: Server) -> None:
    @server.tool
    def sell() -> None:
        """Sell."""

    @server.tool(permission="auth.change_user")
    def buy() -> None:
        """Buy."""

    @server.tool(scopes={"till"})
    def count() -> None:
        """Count."""

    assert get_findings(deploy=True)["W006"].msg.endswith("read-only: sell.")
    assert "W006" not in get_findings()
    server.authenticators = [SESSION]
    assert "W006" not in get_findings(deploy=True)


@pytest.mark.parametrize(
    "layers", [{}, {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}]
)
def test_missing_shared_channel_layer_is_reported(
    settings: Settings, layers: dict[str, Any]
) -> None:
    settings.CHANNEL_LAYERS = layers
    assert set(get_findings(deploy=True)) == {"W007"}
    assert get_findings() == {}


@pytest.mark.parametrize("module", ["memory.Memory", "cache.Cache"])
def test_store_local_to_one_process_is_reported(settings: Settings, module: str) -> None:
    backend = {"BACKEND": f"django_mcp.stores.{module}SessionStore"}
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    settings.DJANGO_MCP = {"STORES": {"sessions": backend}}
    assert set(get_findings(deploy=True)) == {"W008"}
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache"}}
    assert set(get_findings(deploy=True)) == ({"W008"} if module == "memory.Memory" else set())


def test_wildcard_in_allowed_hosts_is_reported(settings: Settings, server: Server) -> None:
    settings.ALLOWED_HOSTS = ["www.example.com"]
    assert get_findings(deploy=True) == {}
    settings.ALLOWED_HOSTS = ["*"]
    assert set(get_findings(deploy=True)) == {"W010"}
    assert get_findings() == {}


@pytest.mark.parametrize(
    ("hosts", "site", "expected"),
    [
        (["*"], {}, {"E025"}),
        (["*", "www.example.com"], {}, {"E025"}),
        (["www.example.com"], {}, set()),
        (["*"], {"BASE_URL": "https://www.example.com"}, set()),
        (["*"], {"AUDIENCES": ["https://www.example.com"]}, set()),
    ],
)
def test_audience_that_no_setting_names_is_reported(
    settings: Settings, server: Server, hosts: list[str], site: Any, expected: set[str]
) -> None:
    server.authenticators = [JWTAuthentication("https://login.example.org")]
    settings.ALLOWED_HOSTS = hosts
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, **site}
    assert set(get_findings()) == expected

    server.authenticators = [JWTAuthentication("https://login.example.org", audience="shop")]
    assert get_findings() == {}


class TokenAuthentication(BaseAuthentication):
    """Accepts nobody."""

    scheme = "Bearer"

    async def authenticate(self, scope: Any, /) -> None:
        """Find no token."""


@pytest.mark.parametrize(
    ("options", "authenticators", "reason"),
    [
        ({"scopes": {"till"}}, [PUBLIC], "nobody can log in"),
        ({"scopes": {"till"}}, [SESSION, PUBLIC], "no authenticator gives scopes"),
        ({"scopes": {"till"}}, [TokenAuthentication(), PUBLIC], None),
        ({"scopes": {"till"}, "when_denied": "hidden"}, [PUBLIC], None),
        ({"permission": "auth.view_user"}, [PUBLIC], None),
        ({"permission": "auth.view_user", "when_denied": "challenged"}, [PUBLIC], "nobody can"),
        ({"permission": "auth.view_user", "when_denied": "challenged"}, [SESSION], None),
        ({"when_denied": "challenged"}, [PUBLIC], None),
    ],
)
def test_challenge_that_no_login_satisfies_is_reported(
    server: Server, options: dict[str, Any], authenticators: list[Any], reason: str | None
) -> None:
    server.authenticators = authenticators
    server.register_tool("sell", only_log, description="Sell.", **options)
    found = get_findings().get("W012")
    assert (reason or "") in (found.msg if found else "")
    assert (found is None) == (reason is None)


class SendingAuthentication(BaseAuthentication):
    """Asks another service about every token."""

    scheme = "Bearer"
    sends_tokens = True


COMPANY = IntrospectionAuthentication("https://login.example.org/introspect", "shop", "secret")


@pytest.mark.parametrize(
    ("authenticators", "is_reported"),
    [
        ([COMPANY, TokenAuthentication()], True),
        ([SendingAuthentication(), TokenAuthentication(), TokenAuthentication()], True),
        ([TokenAuthentication(), COMPANY], False),
        ([COMPANY, PersonalTokenAuthentication()], False),
        ([COMPANY, SESSION, PUBLIC], False),
        ([COMPANY, SendingAuthentication()], False),
        ([TokenAuthentication(), PUBLIC], False),
    ],
)
def test_tokens_that_are_sent_to_another_service_are_reported(
    server: Server, authenticators: Any, is_reported: bool
) -> None:
    server.authenticators = authenticators
    found = get_findings().get("W014")
    assert (found is not None) == is_reported
    if found is not None:
        assert "is listed before TokenAuthentication" in found.msg
        assert found.hint == f"List {type(authenticators[0]).__name__} last."


@spec("AUTH-RS-33", "AUTH-12")
@pytest.mark.parametrize(
    ("authenticators", "is_reported"),
    [
        ([PUBLIC, SESSION], True),
        ([TokenAuthentication(), PUBLIC, SESSION], True),
        ([PUBLIC, TokenAuthentication()], False),
        ([SESSION, TokenAuthentication(), PUBLIC], False),
        ([PUBLIC], False),
        ([SESSION], False),
    ],
)
def test_authenticator_that_is_never_asked_is_reported(
    server: Server, authenticators: Any, is_reported: bool
) -> None:
    server.authenticators = authenticators
    finding = get_findings().get("W040")
    assert (finding is not None) == is_reported
    if finding is not None:
        assert finding.hint == "List AnonymousAuthentication last."


@pytest.mark.parametrize(
    ("name", "value", "is_reported"),
    [
        ("DJANGO_MCP", {}, True),
        ("DJANGO_MCP", {"BASE_URL": "http://shop.example"}, True),
        ("DJANGO_MCP", {"BASE_URL": "https://shop.example"}, False),
        ("SECURE_SSL_REDIRECT", True, False),
        ("SECURE_PROXY_SSL_HEADER", ("HTTP_X_FORWARDED_PROTO", "https"), False),
    ],
)
def test_tokens_over_http_are_reported(
    server: Server, settings: Settings, name: str, value: Any, is_reported: bool
) -> None:
    setattr(settings, name, value)
    assert "W011" not in get_findings(deploy=True)
    server.authenticators = [TokenAuthentication()]
    assert ("W011" in get_findings(deploy=True)) == is_reported
    assert get_findings() == {}


def test_approval_without_its_app_is_reported(server: Server, settings: Settings) -> None:
    server.tool(name="refund", description="Refund.", approval="auth.change_user")(lambda: None)
    assert get_findings() == {}
    apps = [name for name in settings.INSTALLED_APPS if name != "django_mcp.contrib.approvals"]
    settings.INSTALLED_APPS = apps
    assert set(get_findings()) == {"E022"}
    assert 'add "django_mcp.contrib.approvals" to INSTALLED_APPS' in get_findings()["E022"].msg


def test_https_url_without_the_header_of_a_proxy_is_reported(settings: Settings) -> None:
    settings.DJANGO_MCP = {"BASE_URL": "https://shop.example"}
    assert set(get_findings(deploy=True)) == {"W013"}
    assert get_findings() == {}
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert get_findings(deploy=True) == {}


def test_checks_do_not_query_the_database(server: Server) -> None:
    # Without the ``db`` fixture, pytest-django rejects every query.
    @server.tool(permission=lambda frame: isinstance(frame, Frame))
    def guarded() -> None:
        """Guarded by a function, which is not asked either."""

    assert get_findings(deploy=True) == {}


MODULES = [
    *(ROOT / "django_mcp" / "checks").glob("*.py"),
    *(ROOT / "django_mcp" / module for module in ("tasks/extension.py", "ui/checks.py")),
]


def test_every_finding_is_documented_in_the_reference() -> None:
    # What is about toolsets is checked beside them.
    modules = [*MODULES, ROOT / "django_mcp" / "toolsets" / "checks.py"]
    code = "".join(module.read_text(encoding="utf-8") for module in modules)
    page = (ROOT / "docs" / "reference" / "checks.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `django_mcp\.([EW]\d{3})` ", page, re.MULTILINE)
    assert rows == sorted(set(ID.findall(code)))


def test_every_finding_has_a_test() -> None:
    code = "".join(module.read_text(encoding="utf-8") for module in MODULES)
    files = (Path(__file__), ROOT / "tests" / "ui" / "test_checks.py")
    tests = "".join(file.read_text(encoding="utf-8") for file in files)
    assert set(ID.findall(code)) == set(re.findall(r'"([EW]\d{3})"', tests))


POSTGRESQL = {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}


@pytest.mark.parametrize(
    ("database", "expected"),
    [
        ({"OPTIONS": {"pool": {"max_size": 4}}}, set()),
        ({"OPTIONS": {"pool": True}, "CONN_MAX_AGE": 0}, set()),
        ({"OPTIONS": {}, "CONN_MAX_AGE": 60}, set()),
        ({"OPTIONS": {"pool": {"max_size": 1}}}, {"W015"}),
        ({"OPTIONS": {"pool": {"min_size": 1}}}, {"W015"}),
        ({"OPTIONS": {"pool": {"min_size": 2}}}, set()),
    ],
)
def test_connection_pool_that_cannot_work_is_reported(
    monkeypatch: pytest.MonkeyPatch, database: dict[str, Any], expected: set[str]
) -> None:
    monkeypatch.setitem(connections.settings, "pooled", {**POSTGRESQL, **database})
    assert set(get_findings()) == expected


@pytest.mark.parametrize(
    ("authenticators", "options", "is_reported"),
    [
        ([TokenAuthentication(), PUBLIC], {"permission": "login_required"}, True),
        ([TokenAuthentication(), PUBLIC], {"permission": "shop.view_ticket"}, True),
        ([TokenAuthentication(), PUBLIC], {}, False),
        ([TokenAuthentication()], {"permission": "login_required"}, False),
        ([SESSION, PUBLIC], {"permission": "login_required"}, False),
        (
            [TokenAuthentication(), PUBLIC],
            {"permission": "login_required", "when_denied": "challenged"},
            False,
        ),
        ([TokenAuthentication(), PUBLIC], {"scopes": ["sell"]}, False),
    ],
)
def test_server_where_nobody_is_asked_to_log_in_is_reported(
    server: Server, authenticators: Any, options: Any, is_reported: bool
) -> None:
    server.authenticators = authenticators
    server.register_tool("sell", only_log, description="Sell.", **options)
    found = get_findings().get("W068")
    assert (found is not None) == is_reported
    if found is not None:
        assert "'sell'" in found.msg
        assert 'when_denied="challenged"' in str(found.hint)


class OfRestFramework:
    """What an authentication class of REST framework has."""

    def authenticate(self, request: Any) -> Any:
        return None

    def authenticate_header(self, request: Any) -> str:
        return "Token"


class Synchronous:
    """An authenticator that was written without async."""

    scheme = "Bearer"

    def authenticate(self, scope: Any) -> Any:
        return None


@pytest.mark.parametrize(("kind", "check"), [(OfRestFramework, "E069"), (Synchronous, "E070")])
def test_class_that_is_no_authenticator_is_reported(server: Server, kind: Any, check: str) -> None:
    server.authenticators = [kind()]
    found = get_findings()[check]
    assert kind.__name__ in found.msg
    if check == "E069":
        assert f'RESTFrameworkAuthentication("{__name__}.OfRestFramework")' in str(found.hint)


@pytest.mark.parametrize(
    ("entry", "is_reported"),
    [
        ({"CONN_MAX_AGE": 60}, True),
        ({"CONN_MAX_AGE": None}, True),
        ({"CONN_MAX_AGE": 0}, False),
        ({}, False),
        ({"CONN_MAX_AGE": 60, "ENGINE": "django.db.backends.sqlite3"}, False),
    ],
)
def test_connections_that_pile_up_are_reported(
    settings: Settings, entry: Any, is_reported: bool
) -> None:
    database = {"ENGINE": "django.db.backends.postgresql", **entry}
    connections.settings["other"] = {**connections.settings["default"], **database}
    if "CONN_MAX_AGE" not in entry:
        connections.settings["other"]["CONN_MAX_AGE"] = 0
    try:
        assert ("W069" in get_findings(deploy=True)) == is_reported
        settings.ASGI_APPLICATION = None
        assert "W069" not in get_findings(deploy=True)
    finally:
        del connections.settings["other"]


def test_server_of_an_imported_module_that_is_no_attribute_of_mcp_is_reported(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten, empty = Server("forgotten", authenticators=[PUBLIC]), Server("empty")

    @forgotten.tool
    def look() -> str:
        """Looks at something."""
        return "seen"

    monkeypatch.setattr(registry.registered, "forgotten", {server, forgotten, empty})
    assert set(get_findings()) == {"W073"}
    assert "'forgotten'" in get_findings()["W073"].msg

    monkeypatch.setitem(registry.registered.servers, "forgotten", forgotten)
    assert "W073" not in get_findings()


def test_published_server_without_valid_card_is_reported(
    server: Server, settings: Settings
) -> None:
    assert get_findings() == {}  # It has no description, so that nothing is published.

    server.describe(description="Stock of the shop.", version="^1.2")
    finding = get_findings()["W074"]
    assert "'shop' has no server card: its version is '^1.2': write one version" in finding.msg
    assert "SERVER_CARDS" in str(finding.hint)

    settings.DJANGO_MCP = {"SERVER_CARDS": []}
    assert get_findings() == {}


def test_unknown_server_in_server_cards_is_reported(settings: Settings) -> None:
    settings.DJANGO_MCP = {"SERVER_CARDS": ["shopp"]}
    assert "There is no MCP server 'shopp'; there are: shop" in get_findings()["E028"].msg


def test_discovery_knows_the_servers_that_its_modules_have_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    earlier = Server("earlier")
    made: list[Server] = []

    def import_module(name: str) -> ModuleType:
        made.append(Server("made"))
        return ModuleType(name)

    monkeypatch.setattr(registry, "import_module", import_module)
    monkeypatch.setattr(registry.registered, "forgotten", WeakSet())
    registry.discover()
    assert made
    assert set(made) == set(registry.registered.forgotten)
    assert earlier not in registry.registered.forgotten


@pytest.mark.parametrize(
    ("use_tz", "zone", "is_reported"),
    [
        (False, "America/New_York", True),
        (False, "Australia/Sydney", True),
        (False, "UTC", False),
        (False, "Asia/Tokyo", False),
        (True, "America/New_York", False),
    ],
)
def test_local_times_in_a_zone_with_clock_changes_are_reported(
    settings: Settings, use_tz: bool, zone: str, is_reported: bool
) -> None:
    settings.USE_TZ = use_tz
    settings.TIME_ZONE = zone
    assert ("W075" in get_findings(deploy=True)) == is_reported
    assert "W075" not in get_findings()
