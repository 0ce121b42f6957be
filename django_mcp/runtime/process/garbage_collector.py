"""Python's garbage collector in a process that serves requests."""

from __future__ import annotations

import gc

_is_frozen = False


def freeze() -> None:
    """Exempt all that exists from later collections; only the first call does.

    A full collection looks at every object of the process, such as the code and the models of the
    site: 45 ms for a small one, without any answer meanwhile. Calls that run when the collector
    looks at new objects let it believe that there are many more of them, so that under load it
    does so several times a second, and finds nothing. Later objects are still collected.
    """
    global _is_frozen
    if not _is_frozen:
        _is_frozen = True
        gc.collect()
        gc.freeze()
