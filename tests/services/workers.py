"""Workers of the site behind nginx, which chooses one of them for each request at random."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.processes import ROOT, answers
from tests.services.instances import Instance, PostgreSQL, Redis, running
from tests.supervisor import descendants
from tests.wire.live import Caller

SITE = "tests.services.site"

CACHE_STORES = {
    "sessions": {"BACKEND": "django_mcp.stores.cache.CacheSessionStore"},
    "events": {"BACKEND": "django_mcp.stores.cache.CacheEventStore"},
}
NGINX = """
daemon off;
worker_processes 1;
pid nginx.pid;
error_log log warn;
{user}
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    {sites}
}}
"""
"""What a Debian package configures around the sites, with all files in the folder of nginx."""
BALANCER = """upstream workers {{
        random;
        {workers}
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://workers;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host:$server_port;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_buffering off;
            proxy_read_timeout 1h;
            client_max_body_size 4m;
        }}
    }}"""


def nginx_around(sites: str) -> str:
    """The whole configuration of nginx, with some sites in it."""
    return NGINX.format(user="user root;" if os.getuid() == 0 else "", sites=sites)


class Worker(Instance):
    """A process of uvicorn."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(folder)
        self._environment = environment

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _command(self) -> list[str]:
        listen = ["--host", "127.0.0.1", "--port", str(self.port)]
        quiet = ["--no-access-log", "--log-level", "warning"]
        return [sys.executable, "-m", "uvicorn", f"{SITE}.asgi:application", *listen, *quiet]

    def _answers(self) -> bool:
        return answers(self.port)

    def _identity(self) -> dict[str, Any]:
        return {"env": self._environment}


class Gunicorn(Worker):
    """A process of gunicorn with three workers of one thread each; the kernel chooses one."""

    threads = 1

    def kill_one(self) -> None:
        """Kill a worker, which gunicorn replaces."""
        assert self._process is not None
        with suppress(ProcessLookupError, IndexError):
            os.kill(random.choice(descendants(self._process.pid)), signal.SIGKILL)

    def reload(self) -> None:
        """Replace all workers, which finish their requests."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def _command(self) -> list[str]:
        workers = ["--workers", "3", "--threads", str(self.threads)]
        limits = ["--timeout", "60", "--graceful-timeout", "25"]
        listen = ["--bind", f"127.0.0.1:{self.port}", "--log-level", "warning"]
        return [
            sys.executable,
            "-m",
            "gunicorn",
            f"{SITE}.wsgi:application",
            *workers,
            *limits,
            *listen,
        ]


class GunicornWithThreads(Gunicorn):
    """The same with threads, some of which may have open streams."""

    threads = 8


class QueueWorker(Instance):
    """A Celery worker, with two processes that run tasks."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(folder)
        self._environment = environment
        self._log_before = 0

    @property
    def url(self) -> str:
        """It has none: its messages come from the broker."""
        return ""

    def begin(self) -> None:
        if not self.is_running:
            self._log_before = len(self.log) if (self.folder / "log").exists() else 0
        super().begin()

    def _command(self) -> list[str]:
        worker = ["worker", "--queues", "jobs", "--concurrency", "2", "--loglevel", "info"]
        name = ["--hostname", f"worker-{self.port}"]
        return [sys.executable, "-m", "celery", "-A", SITE, *worker, *name]

    def _answers(self) -> bool:
        return " ready." in self.log[self._log_before :]

    def _identity(self) -> dict[str, Any]:
        return {"env": self._environment}


class Nginx(Instance):
    """A balancer for workers. One that refuses a connection is tried again for the next request."""

    def __init__(self, folder: Path, workers: Sequence[Worker]) -> None:
        super().__init__(folder)
        servers = (f"server 127.0.0.1:{each.port} max_fails=0;" for each in workers)
        balancer = BALANCER.format(workers="\n        ".join(servers), port=self.port)
        (folder / "nginx.conf").write_text(nginx_around(balancer))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _command(self) -> list[str]:
        binary = nginx_binary()
        assert binary is not None
        return [binary, "-p", str(self.folder), "-c", "nginx.conf", "-e", "log"]

    def _answers(self) -> bool:
        return answers(self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The workers, their balancer, and what they share."""

    workers: Sequence[Worker]
    queue_workers: Sequence[QueueWorker]
    nginx: Nginx
    environment: Mapping[str, str]
    redis: Redis | None = None
    postgresql: PostgreSQL | None = None
    database: str = ""
    people: Sequence[Caller] = ()

    def started(self) -> list[str]:
        """The tokens of all tasks and approved calls whose handler began, each time."""
        return started(self.environment)

    @property
    def url(self) -> str:
        """The endpoint behind the balancer."""
        return f"{self.nginx.url}/mcp"

    @property
    def log(self) -> str:
        """What all workers have logged."""
        return "".join(each.log for each in self.workers)

    def manage(self, *arguments: str) -> str:
        """The output of a management command of the site."""
        return manage(self.environment, *arguments)


@contextmanager
def cluster(
    number: int = 3,
    *,
    server: type[Worker] = Worker,
    redis: Redis | None = None,
    postgresql: PostgreSQL | None = None,
    cache: bool = False,
    database_cache: bool = False,
    apps: Sequence[str] = (),
    queue_workers: int = 0,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Iterator[Cluster]:
    """Run workers with a new database: on ``postgresql``, or else SQLite in a file.

    ``cache`` keeps sessions and events in ``redis``, which has the channel layer in any case, and
    the messages for ``queue_workers``. ``database_cache`` has Django's cache in the database, and
    ``apps`` are installed as well. Without these, tasks run in the workers, and nobody has a
    token.
    ``options`` are entries of ``DATABASES``, and ``settings`` of ``DJANGO_MCP``.
    """
    if nginx_binary() is None:
        pytest.skip("nginx is not installed")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="workers-")))
        name = "" if postgresql is None else postgresql.create_database()
        database = sqlite(folder) if postgresql is None else postgresql.settings(name)
        stores = {"STORES": CACHE_STORES} if cache else {}
        broker = broker_of(redis) if queue_workers else {}
        shared_cache = cache_of(redis if cache else None)
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": f"{SITE}.settings",
            "PYTHONPATH": str(ROOT),
            "SERVICES_SITE": json.dumps(
                {
                    "database": {**database, **(options or {})},
                    "layer": layer(redis),
                    "cache": DATABASE_CACHE if database_cache else shared_cache,
                    "settings": {**stores, **settings},
                    "apps": apps,
                    **broker,
                }
            ),
            "SERVICES_STARTED": str(folder / "started"),
        }
        manage(environment, "migrate", "--verbosity", "0")
        if database_cache:
            manage(environment, "createcachetable")
        folders = [Path(tempfile.mkdtemp(dir=folder)) for _ in range(1 + number + queue_workers)]
        # They are started at once, since each takes seconds.
        workers = [server(each, environment) for each in folders[1 : 1 + number]]
        queue = [QueueWorker(each, environment) for each in folders[1 + number :]]
        for worker in (*workers, *queue):
            stack.callback(worker.kill)
            worker.begin()
        for worker in (*workers, *queue):
            worker.start()
        nginx = stack.enter_context(running(Nginx(folders[0], workers)))
        yield Cluster(
            workers=workers,
            queue_workers=queue,
            nginx=nginx,
            environment=environment,
            redis=redis,
            postgresql=postgresql,
            database=name,
            people=create_people(environment) if queue_workers else (),
        )


STORES = ("database", "cache", "sqlite")
"""Where sessions and events are."""


def settings_of(store: str, redis: Redis, postgresql: PostgreSQL) -> dict[str, Any]:
    """The arguments of ``cluster`` for a store, or for gunicorn with the database."""
    services: dict[str, dict[str, Any]] = {
        "database": {"postgresql": postgresql},
        "cache": {"postgresql": postgresql, "cache": True},
        "sqlite": {},
        "gunicorn": {"postgresql": postgresql, "number": 1, "server": Gunicorn},
    }
    return {"redis": redis, **services[store]}


def layer(redis: Redis | None) -> dict[str, Any]:
    if redis is None:
        return {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    config = {"hosts": [redis.url], "prefix": f"layer-{uuid4().hex}"}
    return {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": config}


def cache_of(redis: Redis | None) -> dict[str, Any]:
    if redis is None:
        return {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    location = redis.url.replace("/0", "/1")
    return {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": location}


DATABASE_CACHE = {
    "BACKEND": "django.core.cache.backends.db.DatabaseCache",
    "LOCATION": "cache_entries",
}


def broker_of(redis: Redis | None) -> dict[str, str]:
    assert redis is not None
    return {"broker": redis.url.replace("/0", "/2")}


def sqlite(folder: Path) -> dict[str, Any]:
    """As the example site has it."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(folder / "db.sqlite3"),
        "OPTIONS": {
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
        },
    }


def manage(environment: Mapping[str, str], *arguments: str) -> str:
    """The output of a management command, which is raised if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "django", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stdout}")
    return done.stdout


def create_people(environment: Mapping[str, str]) -> list[Caller]:
    """The users of a new site; the last one may approve."""
    tokens = json.loads(manage(environment, "people"))
    return [Caller(name, token) for name, token in tokens.items()]


def started(environment: Mapping[str, str]) -> list[str]:
    """What ``run_once`` of the site has written."""
    path = Path(environment["SERVICES_STARTED"])
    return path.read_text().split() if path.exists() else []


def nginx_binary() -> str | None:
    aside = Path("/usr/sbin/nginx")
    return shutil.which("nginx") or (str(aside) if aside.exists() else None)
