"""Tools of the conformance suite that run as tasks."""

import asyncio

from pydantic import BaseModel

from django_mcp import Frame, McpError, ToolError
from django_mcp.core.frame.client import input_requests
from example_site.conformance.server import conformance


class Confirmed(BaseModel):
    """Whether the user agrees to a deletion."""

    confirm: bool


class Named(BaseModel):
    """The name of the user; the suite confirms every form besides."""

    name: str = ""
    confirm: bool = False


@conformance.tool
def greet(name: str = "World") -> str:
    """Greets somebody; never a task."""
    return f"Hello, {name}!"


@conformance.tool(task_support="optional", task_after=0.1)
async def slow_compute(seconds: float, label: str = "computation", *, frame: Frame) -> str:
    """Computes for some seconds."""
    steps = max(1, round(seconds))
    for step in range(steps):
        await frame.client.aprogress(step, steps, f"{label}: step {step + 1} of {steps}")
        await asyncio.sleep(seconds / steps)
    return f"{label}: done after {seconds:g} s"


@conformance.tool(task_support="required")
async def failing_job() -> str:
    """Fails as a tool does: with a result."""
    await asyncio.sleep(1)
    raise ToolError("The job has failed, as it always does.")


@conformance.tool(task_support="required")
async def protocol_error_job() -> str:
    """Fails with a JSON-RPC error."""
    await asyncio.sleep(0.2)
    raise McpError.internal_error("The job broke")


@conformance.tool(task_support="required")
async def confirm_delete(filename: str, frame: Frame) -> str:
    """Asks before it deletes a file, which it does not."""
    answer = await frame.client.aelicit(f"Delete {filename}?", Confirmed, key="confirm")
    if not answer.accepted or not answer.content.confirm:
        return f"{filename} was kept."
    return f"{filename} was deleted."


@conformance.tool(task_support="required")
async def multi_input(frame: Frame) -> str:
    """Asks two questions at once."""
    answers = await frame.client.aask(
        name=input_requests.form("What is your name?", Named),
        confirm=input_requests.form("Do you agree?", Named),
    )
    accepted = [name for name, answer in answers.items() if answer.accepted]
    return f"Accepted: {', '.join(accepted)}"


@conformance.tool(task_support="required", task_after=0.1, requests_input=True)
async def test_tool_with_task(frame: Frame) -> str:
    """Asks for a name before it becomes a task."""
    answer = await frame.client.aelicit("What is your name?", Named, key="user_name")
    await asyncio.sleep(0.5)
    return f"Hello, {answer.content.name}!" if answer.accepted else "Hello!"
