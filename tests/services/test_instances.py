"""The private servers themselves: they stop, hang and come back as the other tests need it."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from tests.services.instances import PostgreSQL, Redis, postgresql_server, redis_server
from tests.waiting import SECONDS

pytestmark = pytest.mark.nightly


def test_redis_forgets_on_restart_and_on_flush(redis: Redis) -> None:
    redis.command("SET", "a", "1")
    before = redis.has("a")
    redis.restart()
    after_restart = redis.has("a")
    redis.command("SET", "a", "1")
    redis.flush()

    assert (before, after_restart, redis.has("a")) == (True, False, False)


def test_stopped_redis_refuses_connections(redis: Redis) -> None:
    redis.stop()

    with pytest.raises(ConnectionRefusedError):
        redis.command("PING")


def test_hanging_redis_accepts_and_does_not_answer(redis: Redis) -> None:
    redis.hang()
    with socket.create_connection(("127.0.0.1", redis.port), timeout=0.3) as connection:
        connection.sendall(b"PING\r\n")
        with pytest.raises(TimeoutError):
            connection.recv(10)
        redis.resume()
        connection.settimeout(10)

        assert connection.recv(10) == b"+PONG\r\n"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_postgresql_keeps_its_rows(postgresql: PostgreSQL, end: str) -> None:
    name = postgresql.create_database()
    postgresql.execute("CREATE TABLE kept (number int)", name)
    postgresql.execute("CHECKPOINT")
    getattr(postgresql, end)()
    assert not postgresql.is_running
    postgresql.start()

    assert postgresql.execute("SELECT count(*) FROM kept", name) == [(0,)]


def test_hanging_postgresql_does_not_answer_open_connections(postgresql: PostgreSQL) -> None:
    import psycopg

    with psycopg.connect(postgresql.url) as connection, ThreadPoolExecutor() as threads:
        postgresql.hang()
        query = threads.submit(connection.execute, "SELECT 1")
        answered, _ = wait([query], timeout=0.3)
        postgresql.resume()

        assert not answered
        assert query.result(timeout=SECONDS).fetchall() == [(1,)]


def test_servers_are_gone_after_their_block() -> None:
    with redis_server() as redis, postgresql_server(max_connections=20) as postgresql:
        redis.hang()
        postgresql.hang()

    for port in (redis.port, postgresql.port):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
