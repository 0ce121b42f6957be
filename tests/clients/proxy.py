"""A proxy between a client and the site whose connections a test can break."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

CHUNK = 65536


@dataclass(slots=True)
class BreakableProxy:
    """Listens on its own port, and forwards bytes to another one."""

    _site: int
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _ends: list[socket.socket] = field(default_factory=list)

    @property
    def port(self) -> int:
        """The port for clients."""
        port: int = self._listener.getsockname()[1]
        return port

    def cut(self) -> None:
        """Break all connections; clients can reconnect at once."""
        while self._ends:
            with suppress(OSError):
                self._ends.pop().shutdown(socket.SHUT_RDWR)

    def serve(self) -> None:
        """Accept connections until the listener is closed."""
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._site))
                self._ends += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_pass_on, args=(one, other)).start()

    def close(self) -> None:
        """Close the listener and all connections."""
        # Shutdown wakes a thread in accept, close does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(CHUNK):
            other.sendall(data)
    for end in (one, other):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
    one.close()


@contextmanager
def breakable_proxy(site: int) -> Iterator[BreakableProxy]:
    """Run a proxy to the site on this port."""
    line = BreakableProxy(site)
    serving = threading.Thread(target=line.serve)
    serving.start()
    try:
        yield line
    finally:
        line.close()
        serving.join()
