"""Ends what a program has started, however the program ends.

``supervise`` divides the process: the child goes on with the program, and the parent waits for it.
The kernel makes the parent adopt every process of the program whose own parent has ended, also one
in a session of its own, such as a server. So the parent knows all of them when the program is over:
at its end, at a crash, or after a signal, which the parent passes on as an interrupt.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

ENDING = 30.0
"""Seconds that an interrupted program has for its orderly end."""
STOPPING = 3.0
"""Seconds that what it leaves has between a request to stop and the kill."""
PAUSE = 0.02
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SI_KERNEL = 0x80
"""The origin of a signal that a terminal sends: the program has it too."""


def supervise() -> None:
    """Go on as a child of a process that ends all that is started from now on.

    It is called before there are threads. Without Linux nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    program = os.fork()
    if program:
        os._exit(_wait_and_end(program))
    # A shell lets programs in its background ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _prctl(PR_SET_PDEATHSIG, signal.SIGINT)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGINT)


def descendants(pid: int) -> list[int]:
    """The ids of the children of a process, and of theirs."""
    found = []
    for path in Path("/proc").glob(f"{pid}/task/*/children"):
        with suppress(OSError):
            for child in path.read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def _wait_and_end(program: int) -> int:
    """The exit status of the program, after whose end nothing of it is left."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    ignored = {number for number in INTERRUPTS[1:] if signal.getsignal(number) == signal.SIG_IGN}
    signals = {signal.SIGCHLD, *INTERRUPTS} - ignored
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    status = _wait(program, signals)
    _end_the_rest()
    return status


def _wait(program: int, signals: Collection[int]) -> int:
    """Wait for the program, which an interrupt gives a limit of time."""
    deadline = None
    while (status := _reap().get(program)) is None:
        left = 3600.0 if deadline is None else deadline - time.monotonic()
        if left <= 0:
            _signal([program], signal.SIGKILL)
            left = STOPPING
        received = signal.sigtimedwait(signals, left)
        if received is None or received.si_signo == signal.SIGCHLD or deadline is not None:
            continue
        deadline = time.monotonic() + ENDING
        if received.si_code != SI_KERNEL:
            _signal([program], signal.SIGINT)
    return status


def _end_the_rest() -> None:
    """Ask what is left to stop, and kill it if it does not."""
    _signal(descendants(os.getpid()), signal.SIGTERM)
    _signal(descendants(os.getpid()), signal.SIGCONT)
    deadline = time.monotonic() + STOPPING
    while left := descendants(os.getpid()):
        if time.monotonic() > deadline:
            _signal(left, signal.SIGKILL)
        if time.monotonic() > deadline + STOPPING:
            return
        time.sleep(PAUSE)
        _reap()


def _reap() -> dict[int, int]:
    """The exit statuses of the children that have ended, as a shell has them."""
    ended = {}
    with suppress(ChildProcessError):
        while (result := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            status = os.waitstatus_to_exitcode(result[1])
            ended[result[0]] = 128 - status if status < 0 else status
    return ended


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
