"""Checks of what several processes share: channel layer, stores and cache."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import Error, Warning

from django_mcp import conf
from django_mcp.checks.base import Found, check, import_problem
from django_mcp.checks.project import level_of_command

IN_MEMORY_LAYER = "channels.layers.InMemoryChannelLayer"
LOCAL_CACHES = (
    "django.core.cache.backends.dummy.DummyCache",
    "django.core.cache.backends.locmem.LocMemCache",
)
FILE_CACHE = "django.core.cache.backends.filebased.FileBasedCache"
"""Its ``add`` may return True to two processes."""


@check()
def check_channel_layer() -> Found:
    alias = conf.get().channel_layer
    layers = _channel_layers()
    if alias not in ("default", *layers):
        yield Error(
            f'DJANGO_MCP["CHANNEL_LAYER"] is {alias!r}, which is not a key of CHANNEL_LAYERS.',
            hint=f"CHANNEL_LAYERS has: {', '.join(layers) or 'nothing'}.",
            id="django_mcp.E008",
        )
        return
    path = layers.get(alias, {}).get("BACKEND")
    if not isinstance(path, str):
        return
    if problem := import_problem(path):
        yield level_of_command()(
            f"CHANNEL_LAYERS[{alias!r}] names the BACKEND {path!r}, which cannot be imported: "
            f"{problem}",
            hint="Correct the dotted path, or install the package.",
            id="django_mcp.E008",
        )


@check(deploy=True)
def check_workers() -> Found:
    site = conf.get()
    layer = _channel_layers().get(site.channel_layer, {})
    if layer.get("BACKEND", IN_MEMORY_LAYER) == IN_MEMORY_LAYER:
        yield Warning(
            f"No channel layer {site.channel_layer!r} connects the processes, so that clients do "
            "not receive notifications from other workers.",
            hint=(
                "Configure one in CHANNEL_LAYERS, channels_redis for instance, or silence this "
                "check if the site has a single process."
            ),
            id="django_mcp.W007",
        )


@check(deploy=True)
def check_stores_in_memory() -> Found:
    site = conf.get()
    for name, backend in site.stores.items():
        is_local = backend.path.startswith("django_mcp.stores.memory.")
        if backend.path.startswith("django_mcp.stores.cache."):
            cache = settings.CACHES.get(backend.options.get("alias", "default"), {})
            is_local = cache.get("BACKEND") in LOCAL_CACHES
        if is_local:
            yield Warning(
                f'DJANGO_MCP["STORES"]["{name}"] stores {name} in the memory of one process: '
                "other workers cannot read them, and a restart clears them.",
                hint="Use the database, which is the default, or a cache that all workers share.",
                id="django_mcp.W008",
            )


@check()
def check_single_use() -> Found:
    site = conf.get()
    backend = settings.CACHES.get("default", {}).get("BACKEND")
    if site.request_state_single_use and backend in (*LOCAL_CACHES, FILE_CACHE):
        yield Error(
            f"The default cache is {backend!r}, which cannot ensure that a request state is used "
            "once by all workers.",
            hint=(
                "Use a default cache that all workers share, such as Redis, Memcached or the "
                'database, or set DJANGO_MCP["REQUEST_STATE_SINGLE_USE"] to False.'
            ),
            id="django_mcp.E009",
        )


def _channel_layers() -> dict[str, dict[str, Any]]:
    return getattr(settings, "CHANNEL_LAYERS", {})
