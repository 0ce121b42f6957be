"""Servers for a whole test run: python -m tests.services.shared COMMAND ...

Runs the command with REDIS_URL, DATABASE_URL (PostgreSQL) and MYSQL_URL, the last one only if its
driver is installed. For a variable that is not set, a private server is started, which is stopped
when the command has ended, or when this program has.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from importlib.util import find_spec

from tests.services.instances import (
    Instance,
    mariadb_server,
    postgresql_server,
    redis_server,
)
from tests.supervisor import supervise

SERVERS: dict[str, Callable[[], AbstractContextManager[Instance]]] = {
    "REDIS_URL": redis_server,
    "DATABASE_URL": postgresql_server,
}
if find_spec("MySQLdb"):
    SERVERS["MYSQL_URL"] = mariadb_server


def main() -> None:
    supervise()
    with ExitStack() as stack:
        for variable, server in SERVERS.items():
            if variable not in os.environ:
                os.environ[variable] = stack.enter_context(server()).url
        done = subprocess.run(sys.argv[1:])
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
