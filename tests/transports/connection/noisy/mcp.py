"""Tools that print, wait and block."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys

from django_mcp import Frame, Server

print("mcp: imported")

noisy = Server("noisy", notify_lists_on_initialize=False)


@noisy.tool
def shout() -> str:
    """Prints in each possible way."""
    print("shout: printed")
    print("shout: flushed", flush=True)
    sys.stdout.write("shout: written\n")
    sys.__stdout__.write("shout: written to the original\n")  # type: ignore[union-attr]
    os.write(1, b"shout: written to the descriptor\n")
    subprocess.run([sys.executable, "-c", "print('shout: said by a child')"], check=True)
    logging.getLogger("noisy").error("shout: logged")
    return "é€😀"


@noisy.tool
async def wait(frame: Frame) -> str:
    """Waits until it is cancelled."""
    frame.client.log("info", "waiting")
    try:
        await asyncio.Event().wait()
    finally:
        print(f"wait: ended because {frame.cancellation.reason}", file=sys.stderr, flush=True)
    return "never"


@noisy.tool
def block(frame: Frame) -> str:
    """Blocks its thread until it is cancelled."""
    frame.client.log("info", "blocking")
    frame.cancellation.wait(60)
    print(f"block: ended because {frame.cancellation.reason}", file=sys.stderr, flush=True)
    return "too late"


@noisy.tool
def environment(frame: Frame) -> str:
    """Returns the transport of the Frame."""
    transport = frame.transport
    return f"{getattr(transport, 'pid', None)} {getattr(transport, 'env', {}).get('SHOP')}"
