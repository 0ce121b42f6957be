"""DJANGO_MCP is validated as a whole, and each error contains its remedy."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from django_mcp import conf, stores
from django_mcp.core.protocol.revisions import REVISIONS
from django_mcp.stores.base import EventStore
from django_mcp.stores.cache import CacheEventStore
from django_mcp.stores.database import DatabaseEventStore, DatabaseSessionStore
from django_mcp.stores.memory import MemorySessionStore

DATABASE = "django_mcp.stores.database.DatabaseSessionStore"
MEMORY = "django_mcp.stores.memory.MemorySessionStore"


def test_defaults_apply_without_settings(settings: Settings) -> None:
    del settings.DJANGO_MCP
    settings.ROOT_URLCONF = "bakery.urls"
    site = conf.get()
    assert site.name == "bakery"
    assert site.protocol_versions == tuple(revision.version for revision in REVISIONS)
    assert site.authenticators is None
    assert site.path == "/mcp"


def test_site_without_urlconf_has_a_default_name(settings: Settings) -> None:
    settings.DJANGO_MCP = {}
    del settings.ROOT_URLCONF
    assert conf.get().name == "django"


def test_every_default_is_a_valid_setting(settings: Settings) -> None:
    settings.DJANGO_MCP = {}
    by_default = conf.get()
    values = {key: getattr(by_default, entry.name) for key, entry in conf.KEYS.items()}
    values["STORES"] = {
        name: {"BACKEND": backend.path} for name, backend in by_default.stores.items()
    }
    values["TASK_RUNNER"] = {"BACKEND": by_default.task_runner.path}
    settings.DJANGO_MCP = values
    assert conf.get() == by_default


def test_given_settings_are_stored_and_immutable(settings: Settings) -> None:
    settings.DJANGO_MCP = {
        "NAME": "shop",
        "AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"],
        "ALLOWED_ORIGINS": ["https://*.example.com"],
        "SESSION_IDLE_TIMEOUT": 60,
        "HANDLER_TIMEOUT": None,
    }
    site = conf.get()
    assert site.name == "shop"
    assert site.authenticators == ("django_mcp.auth.anonymous.AnonymousAuthentication",)
    assert site.allowed_origins == ("https://*.example.com",)
    assert site.session_idle_timeout == 60.0
    assert site.handler_timeout is None
    with pytest.raises(FrozenInstanceError):
        site.name = "another"  # type: ignore[misc]


def test_protocol_versions_are_sorted(settings: Settings) -> None:
    settings.DJANGO_MCP = {"PROTOCOL_VERSIONS": ["2025-11-25", "2024-11-05"]}
    assert conf.get().protocol_versions == ("2024-11-05", "2025-11-25")


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("MAXBODYSIZE", "Did you mean 'MAX_BODY_SIZE'?"),
        ("max_body_size", "Did you mean 'MAX_BODY_SIZE'?"),
        ("AUTHENTICATOR", "Did you mean 'AUTHENTICATORS'?"),
        ("XYZ", "There are: NAME, TITLE, VERSION"),
        (7, "There are: NAME, TITLE, VERSION"),
    ],
)
def test_unknown_key_is_rejected_with_the_nearest_name(
    settings: Settings, key: object, remedy: str
) -> None:
    settings.DJANGO_MCP = {key: 1}
    with pytest.raises(ImproperlyConfigured) as caught:
        conf.get()
    assert f"DJANGO_MCP has no key {key!r}. {remedy}" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("NAME", "", "None or a non-empty string"),
        ("VERSION", 1, "a non-empty string"),
        ("PATH", "mcp", 'a path that starts with a slash, such as "/mcp"'),
        (
            "AUTHENTICATORS",
            "django_mcp.auth.anonymous.AnonymousAuthentication",
            "None or a list or a tuple",
        ),
        ("AUTHENTICATORS", ["public"], "None or a list of which each is a dotted path"),
        ("FRAME_PROCESSORS", ["shop mcp.tenant"], "a list of which each is a dotted path"),
        ("FRAME_PROCESSORS", [len], "a list of which each is a dotted path"),
        ("ALLOWED_ORIGINS", ["example.com"], 'such as "https://app.example.com"'),
        ("PROTOCOL_VERSIONS", ["1999-01-01"], "some of '2024-11-05', '2025-03-26'"),
        ("PROTOCOL_VERSIONS", [["2024-11-05"]], "some of '2024-11-05', '2025-03-26'"),
        ("PROTOCOL_VERSIONS", [], "at least one of '2024-11-05'"),
        ("SERIALIZERS", ["shop.Money"], 'such as {"shop.money.Money": "shop.mcp.money_to_json"}'),
        ("SERIALIZERS", {"shop.Money": str}, "a dotted path"),
        ("SERIALIZERS", {"Money": "shop.to_json"}, "a dotted path with the module"),
        ("MAX_BODY_SIZE", 0, "a whole number of at least 1"),
        ("MAX_BODY_SIZE", True, "a whole number of at least 1"),
        ("MAX_BODY_SIZE", 2.5, "a whole number of at least 1"),
        ("SESSION_IDLE_TIMEOUT", None, "a number of seconds greater than 0"),
        ("SESSION_IDLE_TIMEOUT", float("inf"), "a number of seconds greater than 0"),
        ("HANDLER_TIMEOUT", 0, "None or a number of seconds greater than 0"),
        ("HANDLER_TIMEOUT", True, "None or a number of seconds greater than 0"),
        ("STORES", [], "a dict with some of the keys 'sessions', 'events'"),
        ("STORES", {"session": {}}, "a dict with some of the keys 'sessions', 'events'"),
        ("STORES", {"sessions": MEMORY}, '{"BACKEND": "dotted.path", "OPTIONS": {…}}'),
        ("STORES", {"sessions": {}}, '{"BACKEND": "dotted.path", "OPTIONS": {…}}'),
        ("STORES", {"events": {"BACKEND": "memory"}}, "a dotted path"),
        (
            "STORES",
            {"events": {"BACKEND": MEMORY, "OPTIONS": 1}},
            '{"BACKEND": "dotted.path", "OPTIONS": {…}}',
        ),
    ],
)
def test_invalid_value_is_rejected_with_a_description_of_valid_ones(
    settings: Settings, key: str, value: Any, remedy: str
) -> None:
    settings.DJANGO_MCP = {key: value}
    with pytest.raises(ImproperlyConfigured) as caught:
        conf.get()
    assert str(caught.value).startswith(f'DJANGO_MCP["{key}"] is {value!r}; it must be ')
    assert remedy in str(caught.value)


def test_setting_that_is_not_a_dict_is_rejected(settings: Settings) -> None:
    settings.DJANGO_MCP = ["NAME"]
    with pytest.raises(ImproperlyConfigured, match="must be a dict"):
        conf.get()


class TestStores:
    def test_default_stores_use_the_database_and_the_limits_in_their_options(
        self, settings: Settings
    ) -> None:
        settings.DJANGO_MCP = {
            "SESSION_IDLE_TIMEOUT": 11,
            "STORES": {
                "sessions": {"BACKEND": DATABASE, "OPTIONS": {"limit_per_principal": 12}},
                "events": {
                    "BACKEND": "django_mcp.stores.database.DatabaseEventStore",
                    "OPTIONS": {"limit": 13, "lifetime": 14, "streams": 15},
                },
            },
        }
        sessions, events = stores.sessions(), stores.events()
        assert isinstance(sessions, DatabaseSessionStore)
        assert isinstance(events, DatabaseEventStore)
        assert (sessions.idle_timeout, sessions.limit_per_principal) == (11, 12)
        assert (events.limit, events.lifetime, events.streams) == (13, 14, 15)

    def test_each_store_can_have_another_backend_and_options(self, settings: Settings) -> None:
        settings.DJANGO_MCP = {
            "STORES": {
                "events": {
                    "BACKEND": "django_mcp.stores.cache.CacheEventStore",
                    "OPTIONS": {"alias": "default", "limit": 3},
                },
            }
        }
        events = stores.events()
        assert isinstance(events, CacheEventStore)
        assert events.limit == 3
        assert isinstance(stores.sessions(), DatabaseSessionStore)

    def test_stores_are_reused_until_the_settings_change(self, settings: Settings) -> None:
        settings.DJANGO_MCP = {"STORES": {"sessions": {"BACKEND": MEMORY}}}
        first = stores.sessions()
        assert isinstance(first, MemorySessionStore)
        assert stores.sessions() is first
        settings.DJANGO_MCP = {**settings.DJANGO_MCP, "MAX_IN_FLIGHT": 3}
        assert stores.sessions() is not first

    @pytest.mark.parametrize(
        ("backend", "reason"),
        [
            ({"BACKEND": "nowhere.to.be.Found"}, "names a BACKEND that is missing"),
            ({"BACKEND": "django_mcp.stores.memory.Missing"}, "names a BACKEND that is missing"),
            ({"BACKEND": DATABASE, "OPTIONS": {"alias": "x"}}, "has OPTIONS that do not fit"),
            (
                {"BACKEND": "django_mcp.stores.memory.MemoryEventStore"},
                "has OPTIONS that do not fit",
            ),
            ({"BACKEND": "builtins.dict"}, "builtins.dict is no SessionStore"),
        ],
    )
    def test_invalid_backend_is_rejected(
        self, settings: Settings, backend: dict[str, Any], reason: str
    ) -> None:
        settings.DJANGO_MCP = {"STORES": {"sessions": backend}}
        with pytest.raises(ImproperlyConfigured, match=r'DJANGO_MCP\["STORES"\]\["sessions"\]'):
            stores.sessions()
        with pytest.raises(ImproperlyConfigured, match=reason):
            stores.sessions()

    def test_backend_that_is_not_a_class_is_rejected(self, settings: Settings) -> None:
        settings.DJANGO_MCP = {"STORES": {"events": {"BACKEND": "math.pi"}}}
        with pytest.raises(ImproperlyConfigured, match="OPTIONS"):
            stores.events()

    def test_abstract_store_is_rejected(self, settings: Settings) -> None:
        path = f"{EventStore.__module__}.{EventStore.__name__}"
        settings.DJANGO_MCP = {"STORES": {"events": {"BACKEND": path}}}
        with pytest.raises(ImproperlyConfigured, match="abstract"):
            stores.events()
