"""Log messages: levels, the declared capability, the rate limit, and Python's logging."""

from __future__ import annotations

import asyncio
import logging
import logging.config
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.core.frame.client.log_levels import LogRateLimiter
from django_mcp.log import ClientHandler, level_of
from django_mcp.testing import Client
from django_mcp.testing.plugin import ClientFor
from tests.spec import spec
from tests.waiting import SECONDS

SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
in_sessions = pytest.mark.parametrize("mcp_version", SESSIONS)


class TestLogRateLimit:
    @pytest.fixture(autouse=True)
    def frozen_clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Freeze the clock, so that all messages of a test are sent in the same second."""
        defaults = LogRateLimiter.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "now", lambda: 100.0)

    def test_log_rate_limiter_resets_every_second(self) -> None:
        time = [100.0]
        limiter = LogRateLimiter(2, now=lambda: time[0])

        first = [limiter.take() for _ in range(5)]
        time[0] += 0.9
        same = limiter.take()
        time[0] += 0.1
        later = [limiter.take() for _ in range(3)]

        assert first == [True, True, False, False, False]
        assert same is False
        assert later == [True, True, False]

    def server(self, **options: Any) -> Server:
        server = Server("chatty", notify_lists_on_initialize=False, **options)

        @server.tool
        def chat(frame: Frame, level: str = "error", times: int = 5) -> str:
            for number in range(times):
                frame.client.log(level, str(number))
            return "chatted"

        return server

    @spec("LOG-06")
    async def test_log_messages_above_the_rate_limit_are_dropped(
        self, client_for: ClientFor
    ) -> None:
        async with client_for(self.server(log_rate_limit=2)) as client:
            await client.call_tool("chat")

        assert [log["data"] for log in client.logs] == ["0", "1"]

    @in_sessions
    async def test_log_rate_limit_is_shared_by_all_requests_of_a_session(
        self, client_for: ClientFor
    ) -> None:
        server = self.server(log_rate_limit=3)
        async with client_for(server) as client, client_for(server) as other:
            await client.call_tool("chat", {"times": 2})
            await client.call_tool("chat", {"times": 2})
            await other.call_tool("chat", {"times": 2})

        assert [log["data"] for log in client.logs] == ["0", "1", "0"]
        assert [log["data"] for log in other.logs] == ["0", "1"]

    async def test_filtered_log_messages_do_not_count_towards_the_rate_limit(
        self, client_for: ClientFor
    ) -> None:
        async with client_for(self.server(log_rate_limit=2), log_level="warning") as client:
            await client.call_tool("chat", {"level": "info"})
            await client.call_tool("chat", {"level": "WARN", "times": 1})

        assert [log["level"] for log in client.logs] == ["warning"]

    @pytest.mark.parametrize("limit", [None, 0])
    async def test_all_messages_are_sent_without_a_limit(
        self, client_for: ClientFor, limit: int | None
    ) -> None:
        async with client_for(self.server(log_rate_limit=limit)) as client:
            await client.call_tool("chat")

        assert len(client.logs) == 5

    def test_negative_log_rate_limit_is_rejected(self) -> None:
        with pytest.raises(ValueError, match="0 or more"):
            Server("chatty").set_log_rate_limit(-1)


class TestDeclaredCapabilities:
    async def declared(self, server: Server, version: str) -> dict[str, Any]:
        async with Client(server, version=version) as client:
            welcome = client.initialize_result or await client.request("server/discover")
        found: dict[str, Any] = welcome["capabilities"]
        return found

    async def test_logging_is_declared_by_every_server(self, mcp_version: str) -> None:
        assert (await self.declared(Server("empty"), mcp_version))["logging"] == {}

    async def test_log_rate_limit_is_declared_while_it_is_set(self, mcp_version: str) -> None:
        server = Server("chatty")
        before = await self.declared(server, mcp_version)
        server.set_log_rate_limit(5)
        during = await self.declared(server, mcp_version)
        server.set_log_rate_limit(0)
        after = await self.declared(server, mcp_version)

        assert during["experimental"] == {"loggingRateLimit": {"enabled": True, "perSecond": 5}}
        assert "experimental" not in before
        assert "experimental" not in after

    async def test_log_rate_limit_is_merged_with_other_experimental_capabilities(
        self, mcp_version: str
    ) -> None:
        server = Server(
            "chatty", log_rate_limit=5, capabilities={"experimental": {"com.example/x": {}}}
        )

        declared = await self.declared(server, mcp_version)
        assert declared["experimental"].keys() == {"loggingRateLimit", "com.example/x"}

    async def test_capabilities_can_be_replaced_and_reset(self, mcp_version: str) -> None:
        server = Server("odd")
        server.register_tool("it", lambda: "done")
        computed = server.get_capabilities()

        server.capabilities.replace({"tools": {}})
        replaced = await self.declared(server, mcp_version)
        server.capabilities.replace(None)

        assert replaced == {"tools": {}}
        assert server.get_capabilities() == computed
        assert computed == {"logging": {}, "tools": {"listChanged": True}}


class TestInitialLogLevel:
    @in_sessions
    @pytest.mark.parametrize(
        ("level_option", "expected_levels"),
        [
            (None, ["info", "warning", "critical"]),
            ("WARN", ["warning", "critical"]),
            ("warning", ["warning", "critical"]),
            ("FATAL", ["critical"]),
            ("nonsense", ["debug", "info", "warning", "critical"]),
            (7, ["debug", "info", "warning", "critical"]),
        ],
    )
    async def test_log_level_in_client_capabilities_sets_the_minimum_level(
        self, client_for: ClientFor, level_option: Any, expected_levels: list[str]
    ) -> None:
        server = Server("chatty", notify_lists_on_initialize=False)

        @server.tool
        def chat(frame: Frame) -> str:
            for level in ("DEBUG", "INFO", "WARN", "FATAL"):
                frame.client.log(level, level)
            return "chatted"

        capabilities = {} if level_option is None else {"experimental": {"logLevel": level_option}}
        async with client_for(server, log_level=None, capabilities=capabilities) as client:
            await client.call_tool("chat")

        assert [log["level"] for log in client.logs] == expected_levels


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger that is forwarded to the client."""
    logger = logging.getLogger("shop.orders")
    handler = ClientHandler()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    # The root logger may be forwarded, too, by the settings of a documentation example.
    logger.propagate = False
    yield logger
    logger.propagate = True
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


class TestClientHandler:
    @spec("2026/LOG-06")
    async def test_log_record_emitted_in_a_call_is_sent_to_its_client(
        self, client_for: ClientFor, logger: logging.Logger
    ) -> None:
        server = Server("shop", notify_lists_on_initialize=False)

        @server.tool
        def order(count: int) -> str:
            logger.info("%d ordered", count)
            return "ordered"

        @server.tool
        async def aorder(count: int) -> str:
            logger.warning("%d ordered", count)
            return "ordered"

        async with client_for(server) as client:
            await client.call_tool("order", {"count": 1})
            await client.call_tool("aorder", {"count": 2})

        assert client.logs == [
            {"level": "info", "logger": "shop.orders", "data": "1 ordered"},
            {"level": "warning", "logger": "shop.orders", "data": "2 ordered"},
        ]

    @spec("LOG-10")
    async def test_log_records_of_concurrent_calls_are_sent_to_their_own_clients(
        self, client_for: ClientFor, logger: logging.Logger
    ) -> None:
        server, both = Server("shop", notify_lists_on_initialize=False), asyncio.Barrier(2)

        @server.tool
        async def order(what: str) -> str:
            async with asyncio.timeout(SECONDS):
                await both.wait()
            logger.info(what)
            return what

        async with client_for(server) as one, client_for(server) as other:
            await asyncio.gather(
                one.call_tool("order", {"what": "tea"}), other.call_tool("order", {"what": "milk"})
            )

        assert [log["data"] for log in one.logs] == ["tea"]
        assert [log["data"] for log in other.logs] == ["milk"]

    @spec("LOG-09", "2026/LOG-05")
    async def test_traceback_is_not_sent_to_the_client(
        self, client_for: ClientFor, logger: logging.Logger
    ) -> None:
        server = Server("shop", notify_lists_on_initialize=False)

        @server.tool
        def order() -> str:
            try:
                raise LookupError("secret=hunter2")
            except LookupError:
                logger.exception("No such thing")
            return "not ordered"

        async with client_for(server) as client:
            await client.call_tool("order")

        assert [(log["level"], log["data"]) for log in client.logs] == [("error", "No such thing")]

    async def test_custom_formatter_formats_the_log_data(
        self, client_for: ClientFor, logger: logging.Logger
    ) -> None:
        logger.handlers[0].setFormatter(logging.Formatter("[%(levelname)s] %(message)s"))
        server = Server("shop", notify_lists_on_initialize=False)

        @server.tool
        def order() -> str:
            logger.error("gone")
            return "not ordered"

        async with client_for(server) as client:
            await client.call_tool("order")

        assert client.logs[0]["data"] == "[ERROR] gone"

    @spec("LOG-07", "LOG-08", "2026/LOG-05")
    async def test_records_of_the_django_mcp_logger_are_not_sent_to_the_client(
        self, client_for: ClientFor, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = Server("shop", notify_lists_on_initialize=False)

        @server.tool
        def fail() -> str:
            raise LookupError("inside")

        own, handler = logging.getLogger("django_mcp"), ClientHandler()
        own.addHandler(handler)
        async with client_for(server) as client:
            await client.call_tool("fail")
        own.removeHandler(handler)

        assert client.logs == []

    @pytest.mark.parametrize("name", ["django_mcp", "django_mcp.calls", "django_mcp.any.other"])
    async def test_records_of_the_call_log_are_not_sent_to_the_client(
        self, client_for: ClientFor, logger: logging.Logger, name: str
    ) -> None:
        server = Server("shop", notify_lists_on_initialize=False)

        @server.tool
        def order() -> str:
            """As a call within this call is logged."""
            logging.getLogger(name).error("tools/call 'secret': ok")
            logging.getLogger("django_mcp_shop").error("of the site")
            return "ordered"

        handler = ClientHandler()
        loggers = [logging.getLogger(name), logging.getLogger("django_mcp_shop")]
        for each in loggers:
            each.addHandler(handler)
        try:
            async with client_for(server) as client:
                await client.call_tool("order")
        finally:
            for each in loggers:
                each.removeHandler(handler)

        assert [log["data"] for log in client.logs] == ["of the site"]

    def test_log_record_outside_a_call_is_ignored(self, logger: logging.Logger) -> None:
        logger.error("Nobody hears")

    async def test_log_record_of_a_new_thread_is_not_sent_to_the_client(
        self, client_for: ClientFor, logger: logging.Logger
    ) -> None:
        server = Server("shop", notify_lists_on_initialize=False)

        @server.tool
        def order() -> str:
            thread = threading.Thread(target=logger.error, args=["from nowhere"])
            thread.start()
            thread.join()
            return "ordered"

        async with client_for(server) as client:
            await client.call_tool("order")

        assert client.logs == []

    async def test_notifications_of_a_task_outliving_its_call_are_dropped(
        self, client_for: ClientFor, logger: logging.Logger
    ) -> None:
        server, proceed, tasks = (
            Server("shop", notify_lists_on_initialize=False),
            asyncio.Event(),
            [],
        )

        @server.tool
        async def order(frame: Frame) -> str:
            async def later() -> None:
                await proceed.wait()
                frame.client.progress(1)
                logger.info("too late")

            tasks.append(asyncio.ensure_future(later()))
            return "ordered"

        async with client_for(server) as client:
            await client.call_tool("order")
            proceed.set()
            await asyncio.gather(*tasks)
            await client.list_tools()

        assert client.progress == []

    def test_client_handler_can_be_configured_by_dict_config(self) -> None:
        logging.config.dictConfig(
            {
                "version": 1,
                "disable_existing_loggers": False,
                "handlers": {"client": {"class": "django_mcp.log.ClientHandler", "level": "INFO"}},
                "loggers": {"shop.configured": {"handlers": ["client"]}},
            }
        )
        logger = logging.getLogger("shop.configured")

        assert isinstance(logger.handlers[0], ClientHandler)
        logger.handlers.clear()

    @pytest.mark.parametrize(
        ("number", "level"),
        [
            (5, "debug"),
            (logging.DEBUG, "debug"),
            (logging.INFO, "info"),
            (25, "notice"),
            (logging.WARNING, "warning"),
            (logging.ERROR, "error"),
            (logging.CRITICAL, "critical"),
            (99, "critical"),
        ],
    )
    def test_python_log_levels_are_mapped_to_protocol_levels(self, number: int, level: str) -> None:
        assert level_of(number) == level
