"""Django's cache API for Redis, on a client that is kept.

Django makes a client for each operation, which takes twice as long as the operation. Entries and
options of its ``RedisCache`` are used, except that all operations use the first server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.core.cache.backends.redis import RedisSerializer
from django.utils.module_loading import import_string


class RedisConnection(BaseCache):
    """The operations of the stores; the timeouts are positive numbers of seconds."""

    def __init__(self, server: str | Sequence[str], params: dict[str, Any]) -> None:
        super().__init__(params)
        servers = re.split("[;,]", server) if isinstance(server, str) else server
        self.client = _client(servers[0], params.get("OPTIONS", {}))
        serializer = _imported(params.get("OPTIONS", {}).get("serializer")) or RedisSerializer
        self._serializer = serializer() if callable(serializer) else serializer

    def add(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None
    ) -> bool:
        name = self.make_key(key, version)
        text = self._serializer.dumps(value)
        return bool(self.client.set(name, text, ex=self._seconds(timeout), nx=True))

    def get(self, key: Any, default: Any = None, version: Any = None) -> Any:
        text = self.client.get(self.make_key(key, version))
        return default if text is None else self._serializer.loads(text)

    def set(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None
    ) -> None:
        text = self._serializer.dumps(value)
        self.client.set(self.make_key(key, version), text, ex=self._seconds(timeout))

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> bool:
        return bool(self.client.expire(self.make_key(key, version), self._seconds(timeout)))

    def delete(self, key: Any, version: Any = None) -> bool:
        return bool(self.client.delete(self.make_key(key, version)))

    def get_many(self, keys: Iterable[Any], version: Any = None) -> dict[Any, Any]:
        wanted = list(keys)
        if not wanted:
            return {}
        texts = self.client.mget([self.make_key(key, version) for key in wanted])
        loads = self._serializer.loads
        return {
            key: loads(text) for key, text in zip(wanted, texts, strict=True) if text is not None
        }

    def set_many(
        self, data: Mapping[Any, Any], timeout: Any = DEFAULT_TIMEOUT, version: Any = None
    ) -> list[Any]:
        pipeline = self.client.pipeline(transaction=False)
        seconds = self._seconds(timeout)
        for key, value in data.items():
            pipeline.set(self.make_key(key, version), self._serializer.dumps(value), ex=seconds)
        pipeline.execute()
        return []

    def delete_many(self, keys: Iterable[Any], version: Any = None) -> None:
        if names := [self.make_key(key, version) for key in keys]:
            self.client.delete(*names)

    def clear(self) -> None:
        self.client.flushdb()

    def _seconds(self, timeout: Any) -> int | None:
        if timeout is DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        return None if timeout is None else int(timeout)


def _client(url: str, options: Mapping[str, Any]) -> Any:
    import redis  # Not at the top, because only sites with Redis have it.

    given = {name: option for name, option in options.items() if name not in OWN_OPTIONS}
    if parser := _imported(options.get("parser_class")):
        given["parser_class"] = parser
    pool = _imported(options.get("pool_class")) or redis.ConnectionPool
    return redis.Redis(connection_pool=pool.from_url(url, **given))


OWN_OPTIONS = frozenset({"serializer", "pool_class", "parser_class"})
"""The options that do not belong to the connections."""


def _imported(given: Any) -> Any:
    return import_string(given) if isinstance(given, str) else given
