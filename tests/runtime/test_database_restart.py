"""After a restart of the database, which ends every connection to PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from django_mcp import Server
from django_mcp.core.auth.base import Principal
from tests.by_hand.processes import Worker, environment, request, worker
from tests.databases import SERVERS, skip, why_not_database
from tests.memory_stores import Configure, configure
from tests.spec import spec
from tests.waiting import SECONDS, happens
from tests.wire.asgi import AsgiClient, Reply
from tests.wire.messages import META, NEWEST_SESSION, STATELESS, Message, messages_of, text_of

__all__ = ["configure"]

reason = why_not_database("postgresql")
needs_postgresql = pytest.mark.skipif(reason is not None, reason=str(reason))

MAKE = """
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from django.contrib.auth import get_user_model, BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.auth.models import Permission
for name in ("ann", "bob"):
    user = get_user_model().objects.create_user(name)
    user.user_permissions.add(Permission.objects.get(codename="add_user"))
session = SessionStore()
session[SESSION_KEY] = str(user.pk)
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.create()
print(session.session_key)
"""


class Database:
    """A database of this test run, as an administrator sees it."""

    def __init__(self, name: str) -> None:
        import psycopg

        self.name = name
        facts = SERVERS["postgresql"]
        self._facts = {
            "host": facts["HOST"],
            "port": facts["PORT"],
            "user": facts["USER"],
            "password": facts["PASSWORD"],
        }
        self.administrator = psycopg.connect(**self._facts, dbname="postgres", autocommit=True)
        self.cookie = ""

    def settings(self, **options: Any) -> dict[str, Any]:
        """As DATABASES describes it."""
        return {
            "ENGINE": "django.db.backends.postgresql",
            **SERVERS["postgresql"],
            "NAME": self.name,
            **options,
        }

    def restart(self) -> None:
        """End every connection, as a restart does."""
        self.administrator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
            [self.name],
        )

    def connections(self) -> int:
        """How many there are."""
        found = self.administrator.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [self.name]
        ).fetchone()
        assert found is not None
        return int(found[0])

    def connections_in_transaction(self) -> int:
        """How many of them are left in a transaction."""
        found = self.administrator.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = %s AND state LIKE 'idle in transaction%%'",
            [self.name],
        ).fetchone()
        assert found is not None
        return int(found[0])

    @contextmanager
    def locked(self, table: str) -> Iterator[None]:
        """Within it, whoever reads the table waits."""
        import psycopg

        with psycopg.connect(**self._facts, dbname=self.name) as connection:
            connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            yield
            connection.rollback()


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """A migrated database, with two users."""
    import subprocess
    import sys

    from psycopg import OperationalError

    from tests.processes import ROOT

    try:
        database = Database(f"django_mcp_robustness_{os.getpid()}")
    except OperationalError as error:
        skip(f"The server does not let us in: {error}")
    database.administrator.execute(f"CREATE DATABASE {database.name}")
    try:
        done = subprocess.run(
            [sys.executable, "-c", MAKE],
            cwd=ROOT,
            env=environment(database=database.settings()),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=SECONDS,
        )
        database.cookie = done.stdout.strip()
        yield database
    finally:
        database.administrator.execute(f"DROP DATABASE {database.name} WITH (FORCE)")
        database.administrator.close()


@asynccontextmanager
async def site(folder: Path, database: Database, **options: Any) -> AsyncIterator[Worker]:
    """A worker whose server asks the database for nearly everything."""
    age = options.pop("CONN_MAX_AGE", 0)
    settings = {
        "AUTHENTICATORS": [
            "tests.by_hand.site.auth.UserName",
            "django_mcp.auth.django_session.DjangoSessionAuthentication",
            "django_mcp.auth.anonymous.AnonymousAuthentication",
        ],
        **options,
    }
    described = database.settings(CONN_MAX_AGE=age)
    async with worker(database=described, **settings) as site:
        site.url = site.url.replace("/mcp", "/guarded")
        yield site


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


async def ask(site: Worker, method: str, params: Message | None = None, **headers: str) -> Reply:
    message = request(1, method, params, version=STATELESS)
    named = {} if params is None or "name" not in params else {"mcp-name": params["name"]}
    return await site.post(
        message, **{"mcp-protocol-version": STATELESS, "mcp-method": method, **named, **headers}
    )


async def tool(site: Worker, name: str, **headers: str) -> Reply:
    return await ask(site, "tools/call", {"name": name, "arguments": {}}, **headers)


async def restarted(database: Database) -> None:
    database.restart()
    await asyncio.sleep(0.1)


@spec("answers-12")
@needs_postgresql
@pytest.mark.parametrize("age", [0, 60])
@pytest.mark.parametrize("by", ["token", "cookie"])
async def test_authenticated_request_after_a_restart_is_answered(
    tmp_path: Path, database: Database, age: int, by: str
) -> None:
    headers = bearer("ann") if by == "token" else {"cookie": f"sessionid={database.cookie}"}
    async with site(tmp_path, database, CONN_MAX_AGE=age) as server:
        assert text_of((await tool(server, "public", **headers)).result) == "done"
        await restarted(database)
        after = [await tool(server, "public", **headers) for _ in range(2)]

    assert [response.status for response in after] == [200, 200]


@needs_postgresql
@pytest.mark.parametrize(
    ("door", "headers"),
    [
        ("by_string", bearer("ann")),
        ("by_function", {}),
        ("by_middleware", {}),
    ],
)
async def test_permission_or_middleware_after_a_restart_works(
    tmp_path: Path, database: Database, door: str, headers: dict[str, str]
) -> None:
    async with site(tmp_path, database) as server:
        assert text_of((await tool(server, door, **headers)).result) == "done"
        await restarted(database)
        response = await tool(server, door, **headers)

    assert response.status == 200, response.body
    assert text_of(response.result) == "done"


@needs_postgresql
async def test_frame_processor_after_a_restart_works(tmp_path: Path, database: Database) -> None:
    processors = ["tests.by_hand.site.database.count_users"]
    async with site(tmp_path, database, FRAME_PROCESSORS=processors) as server:
        assert text_of((await tool(server, "public")).result) == "done"
        await restarted(database)
        response = await tool(server, "public")

    assert "result" in response.answer, response.answer


@needs_postgresql
async def test_hooks_after_a_restart_work(tmp_path: Path, database: Database) -> None:
    async with site(tmp_path, database) as server:
        await server.initialize()
        await restarted(database)
        session = await server.initialize()
        await restarted(database)
        note = {"jsonrpc": "2.0", "method": "x/note", "params": {"number": 1}}
        assert (await server.post(note, session)).status == 202
        await happens(lambda: "failed" in server.log, 0.5)

        assert "handle_notification failed" not in server.log


@spec("answers-13")
@needs_postgresql
async def test_number_of_connections_is_the_same_after_many_calls(
    tmp_path: Path, database: Database
) -> None:
    async with site(tmp_path, database, CONN_MAX_AGE=0) as server:
        assert await happens(lambda: database.connections() == 0)
        for number in range(5):
            names = ("public", "by_string", "by_function", "by_middleware")
            calls = (tool(server, name, **bearer("ann")) for name in names)
            assert {response.status for response in await asyncio.gather(*calls)} == {200}, number
        found = await happens(lambda: database.connections() == 0, 1)

        assert database.connections_in_transaction() == 0
        assert found, f"{database.connections()} connections are left open"


@spec("answers-14")
@needs_postgresql
async def test_authentication_does_not_wait_for_the_query_of_another_caller(
    tmp_path: Path, database: Database
) -> None:
    async with site(tmp_path, database) as server:
        assert (await tool(server, "public", **bearer("ann"))).status == 200
        assert (await tool(server, "by_string", **bearer("bob"))).status == 200
        with database.locked("auth_permission"):
            slow = asyncio.ensure_future(tool(server, "by_string", **bearer("bob")))
            await asyncio.sleep(0.3)
            began = time.monotonic()
            quick = asyncio.ensure_future(tool(server, "public", **bearer("ann")))
            await asyncio.wait([quick], timeout=2)
            waited = time.monotonic() - began
        await asyncio.gather(quick, slow)

    assert waited < 1, "A call waited for the permission query of another caller"


# Streams whose caller cannot be recognised.


class Unsteady:
    """Recognises everybody, until something is away."""

    fails = False

    def __init__(self) -> None:
        self.is_called, self.goes_on = asyncio.Event(), asyncio.Event()
        self.goes_on.set()

    async def authenticate(self, scope: Any, /) -> Principal:
        self.is_called.set()
        await self.goes_on.wait()
        if self.fails:
            raise RuntimeError("The connection is closed")
        return Principal(scheme="test", subject="ann")


@pytest.fixture
def quick_checks(configure: Configure) -> None:
    """Streams are looked at every 0.2 s, since their sessions must not expire meanwhile."""
    configure(SESSION_IDLE_TIMEOUT=0.6, SSE_PING_INTERVAL=0.1)


@spec("isolation-14")
@pytest.mark.usefixtures("quick_checks")
@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_stream_whose_caller_cannot_be_authenticated_ends(version: str) -> None:
    unsteady = Unsteady()
    server = Server("shop", authenticators=[unsteady])
    peer = AsgiClient(server, version)
    if version == STATELESS:
        message = peer.listen(toolsListChanged=True)
        message["params"]["_meta"][META + "clientCapabilities"] = {}
        opened = peer.open_post(message)
    else:
        await peer.initialize()
        opened = peer.open_get()
    async with opened as stream:
        assert await stream.status() == 200
        unsteady.fails = True
        has_ended = await happens(lambda: stream.is_complete, 2)

    assert has_ended, "The stream is still open"


@pytest.mark.usefixtures("quick_checks")
@pytest.mark.parametrize("fails", [True, False])
async def test_nothing_is_sent_while_the_caller_of_a_stream_is_authenticated(fails: bool) -> None:
    unsteady = Unsteady()
    server = Server("shop", authenticators=[unsteady])
    server.tool(name="nothing")(lambda: "")
    peer = AsgiClient(server, STATELESS)
    async with peer.open_post(peer.listen(toolsListChanged=True)) as stream:
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
        unsteady.is_called.clear()
        unsteady.goes_on.clear()
        await unsteady.is_called.wait()
        unsteady.fails = fails
        await server.anotify_tools_list_changed()
        await asyncio.sleep(0.2)
        before = str(messages_of(stream.sent_body))
        unsteady.goes_on.set()
        if fails:
            assert await happens(lambda: stream.is_complete, 2)
            sent = str(messages_of(stream.sent_body))
        else:
            sent = str([await stream.message()])

    assert "list_changed" not in before
    assert ("list_changed" in sent) is not fails
