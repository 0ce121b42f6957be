"""The machine: one core for servers, another one for load generators."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_CORES = sorted(os.sched_getaffinity(0))

SERVER_CORE = _CORES[0]
"""The core of all measured processes."""
LOAD_CORE = _CORES[-1]
"""The core of all other processes; the same one if the machine has no other."""


def pinned(core: int, *command: str | Path) -> list[str]:
    """Return the command, bound to a core."""
    return ["taskset", "--cpu-list", str(core), *map(str, command)]


def leave_server_core() -> None:
    """Move this process off the core of the servers."""
    os.sched_setaffinity(0, {LOAD_CORE})


def memory_kb(pid: int) -> int:
    """The resident memory of a process in kB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def processor_seconds(pid: int) -> float:
    """The CPU seconds of a process and its running children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    mine = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return mine + sum(processor_seconds(int(child)) for child in children)


def describe() -> dict[str, str]:
    """Describe the machine for the report."""
    info = Path("/proc/cpuinfo").read_text()
    model = info.partition("model name")[2].partition("\n")[0].lstrip("\t: ")
    return {
        "processor": model or platform.machine(),
        "cores": str(len(_CORES)),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
