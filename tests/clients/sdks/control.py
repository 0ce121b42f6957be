"""The control protocol of a client process: JSON lines in, JSON lines out.

It runs in the environment of an SDK, so it depends neither on the tests nor on Django. The lines:

    in    {"id": 1, "method": "tools/call", "params": {…}}      start a request; several may run
          {"answer": 1, "result": {…}}                          answer a request of the server
          {"cancel": 1}                                         cancel a request
    out   {"connected": "2025-11-25", "server": {…}, …}
          {"id": 1, "notification": "notifications/progress", "params": {…}}
          {"notification": "notifications/message", "params": {…}}
          {"request": 1, "method": "elicitation/create", "params": {…}}
          {"id": 1, "result": {…}}  or  {"id": 1, "error": {"code": …, "message": …}}
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

Json = dict[str, Any]
ProgressCallback = Callable[..., Awaitable[None]]
"""Return a callback that writes the progress of one request."""

_numbers = count(1)
_answers: dict[int, asyncio.Future[Json]] = {}


def write_line(**line: Any) -> None:
    """Write one line."""
    print(json.dumps(line), flush=True)


def as_json(value: Any) -> Json:
    """Return a message that an SDK has decoded in its wire format."""
    dumped: Json = value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped


async def ask(method: str, params: Any) -> Json:
    """Write a request of the server, and wait for the answer."""
    number = next(_numbers)
    _answers[number] = asyncio.get_running_loop().create_future()
    write_line(request=number, method=method, params=_plain(params))
    return await _answers[number]


def _plain(params: Any) -> Any:
    return as_json(params) if hasattr(params, "model_dump") else params or {}


async def run_commands(methods: Mapping[str, Callable[..., Awaitable[Any]]]) -> None:
    """Execute lines until the input ends; requests that still run are cancelled."""
    running: dict[int, asyncio.Task[None]] = {}
    async for line in _lines():
        if "answer" in line:
            _answers.pop(line["answer"]).set_result(line["result"])
        elif "cancel" in line:
            running[line["cancel"]].cancel()
        else:
            running[line["id"]] = asyncio.create_task(_do(methods[line["method"]], line))
    for task in running.values():
        task.cancel()
    await asyncio.gather(*running.values(), return_exceptions=True)


async def _do(method: Callable[..., Awaitable[Any]], command: Json) -> None:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        params = {"progress": progress, "total": total, "message": message}
        write_line(id=command["id"], notification="notifications/progress", params=params)

    try:
        result = await method(on_progress, **command["params"])
    except Exception as raised:
        write_line(id=command["id"], error=_described(raised))
    else:
        write_line(id=command["id"], result=_plain(result))


def _described(raised: Exception) -> Json:
    # An error of the server is in a field of the SDK's exception; other errors are the SDK's own.
    error = getattr(raised, "error", None)
    return {"raised": repr(raised)} if error is None else as_json(error)


async def _lines() -> AsyncIterator[Json]:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    with suppress(asyncio.IncompleteReadError):
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while True:
            yield json.loads(await reader.readuntil(b"\n"))
