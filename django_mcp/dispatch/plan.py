"""The plan of a tool: which steps its calls take, decided once for each revision.

A plan is made at the first call of the tool, and dropped with ``Server.plans`` when anything of
which it is made has changed: a component, a hook, the settings, the description of the server.

================== ========================== ===============================================
list               step                       is there for
================== ========================== ===============================================
BEFORE_ARGUMENTS   permission                 a tool with a permission or scopes
                   not for models             a tool that hosts offer to their views only
                   arguments in headers       a tool with ``x-mcp-header`` in its schema
                   task                       a tool that may run as one, where clients may ask
BEFORE_HANDLER     approval                   a tool with ``approval``
AFTER_RESULT       fragment of the view       a tool with a view that renders one
================== ========================== ===============================================

A step before the handler returns the answer to the call, or None where the call goes on; one after
the result returns the result. They are functions of ``methods.tools``. What surrounds the handler
itself, such as ``around_call`` and transactions, is added in ``invocation.run``, and what
surrounds every request in ``handle.answer``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from django_mcp.components.tool import ToolComponent
    from django_mcp.dispatch.invocation import Answer, Handler, Read
    from django_mcp.frame.frame import Frame
    from django_mcp.protocol.revisions import Revision

Arguments = dict[str, Any]
BeforeArguments = Callable[["Frame", "ToolComponent", Arguments], Awaitable["Answer | None"]]
BeforeHandler = Callable[["Frame", "ToolComponent", Arguments, Any], Awaitable["Answer | None"]]
"""It is given the arguments as they were sent, and the valid ones."""
AfterResult = Callable[["Frame", "ToolComponent", Any, dict[str, Any]], dict[str, Any]]
"""It is given what the handler returned, on the handler's thread."""


class Plan(NamedTuple):
    tool: ToolComponent
    validate: Callable[[Arguments], Any]
    before_arguments: Sequence[BeforeArguments]
    before_handler: Sequence[BeforeHandler]
    handler: Handler
    read: Read
    """Makes the result of what the handler returned, with the steps AFTER_RESULT."""
    failed: Callable[[Frame, Exception], dict[str, Any]]
    """Makes the result of an exception, or raises."""


class Steps(NamedTuple):
    """A list of steps, each with the tools and revisions for which it is there."""

    steps: Sequence[tuple[Callable[[ToolComponent, Revision], bool], Callable[..., Any]]]

    def of(self, tool: ToolComponent, revision: Revision) -> tuple[Callable[..., Any], ...]:
        return tuple(step for is_there, step in self.steps if is_there(tool, revision))
