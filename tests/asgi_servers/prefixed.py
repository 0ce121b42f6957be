"""The site of ``one_server`` below a prefix: inside Starlette, as ``Mount`` passes it on."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from tests.asgi_servers.one_server import application as site


async def hello(request: object) -> PlainTextResponse:
    return PlainTextResponse("hello")


application = Starlette(routes=[Route("/", hello), Mount("/app", site)])
