"""The tenant of a request: the setting TENANT names a function of the site that knows it.

It is read once for each HTTP request, after FIRST_MIDDLEWARE and before the authenticators, so
that they find the users of the right schema. The principal has it, and so has everything that is
bound to a principal.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from asgiref.sync import sync_to_async
from django.core.signals import setting_changed
from django.http import HttpRequest
from django.utils.module_loading import import_string

from django_mcp import conf
from django_mcp.core.auth import base


@cache
def function() -> Any:
    """Return the function that TENANT names; None where a site has no tenants."""
    path = conf.get().tenant
    return None if path is None else import_string(path)


def of_request(request: HttpRequest) -> str:
    """Return the tenant of a request of the site, such as a page; empty without one.

    Raises TypeError if the function returns something else than a string or None.
    """
    find = function()
    return "" if find is None else _checked(find(request))


async def aof_request(request: HttpRequest) -> str:
    """Like ``of_request``, on the thread of the request, with its connections."""
    find = function()
    if find is None:
        return ""
    return _checked(await sync_to_async(find)(request))


def is_of(request: HttpRequest, principal_key: str) -> bool:
    """Whether an object that is bound to a principal belongs to the tenant of a request."""
    if function() is None:
        return True
    return base.tenant_of_key(principal_key) == of_request(request)


def _checked(tenant: Any) -> str:
    if tenant is None:
        return ""
    if not isinstance(tenant, str):
        path = conf.get().tenant
        raise TypeError(f"{path} returned {tenant!r}; a tenant is a string or None")
    return tenant


def _clear_cache(*, setting: str, **_: Any) -> None:
    if setting == "DJANGO_MCP":
        function.cache_clear()


setting_changed.connect(_clear_cache, dispatch_uid="django_mcp.tenants")
