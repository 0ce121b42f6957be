"""The suite's tools and prompts which ask the client something.

Every handler is written once, for both eras: with some clients it waits on an open stream for
the answer, with others it is called again when the answer is there.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from django_mcp import Frame, Response
from django_mcp.frame.client import input_requests
from django_mcp.frame.client.input_requests import ElicitResult, InputRequest
from example_site.conformance.server import conformance


class UserName(BaseModel):
    """Who the user is."""

    name: str


class Confirmation(BaseModel):
    """Whether the user agrees."""

    ok: bool


class Color(BaseModel):
    """What the user likes."""

    color: str


class Context(BaseModel):
    """What a prompt should be about."""

    context: str


class Account(BaseModel):
    """How the user can be reached."""

    username: str
    email: str


DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
    "required": [],
}

TITLED = [
    {"const": "value1", "title": "First Option"},
    {"const": "value2", "title": "Second Option"},
    {"const": "value3", "title": "Third Option"},
]

ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    },
    "required": [],
}


def told(answer: ElicitResult[Any]) -> str:
    """An answer, as a text."""
    content = answer.content
    plain = content.model_dump() if isinstance(content, BaseModel) else content
    return f"action={answer.action}, content={plain}"


# In sessions.


@conformance.tool(requests_input=True)
async def test_sampling(prompt: str, frame: Frame) -> str:
    """Asks the client's model, and repeats what it said."""
    said = await frame.client.acreate_message(prompt, max_tokens=100)
    return f"LLM response: {said.text}"


@conformance.tool(requests_input=True)
async def test_elicitation(message: str, frame: Frame) -> str:
    """Asks the user for a name and an address."""
    answer = await frame.client.aelicit(message, Account)
    return f"User response: {told(answer)}"


@conformance.tool(requests_input=True)
async def test_elicitation_sep1034_defaults(frame: Frame) -> str:
    """Asks the user with a default for every type."""
    answer = await frame.client.aelicit("Please review these values", DEFAULTS)
    return f"Elicitation completed: {told(answer)}"


@conformance.tool(requests_input=True)
async def test_elicitation_sep1330_enums(frame: Frame) -> str:
    """Asks the user with every way to offer a choice."""
    answer = await frame.client.aelicit("Please choose", ENUMS)
    return f"Elicitation completed: {told(answer)}"


# Without sessions.


@conformance.tool(requests_input=True)
async def test_missing_capability(frame: Frame) -> str:
    """Cannot be called by a client which offers no sampling."""
    said = await frame.client.acreate_message("Say anything.", max_tokens=10)
    return said.text


@conformance.tool(requests_input=True)
async def test_streaming_elicitation(frame: Frame) -> str:
    """Says something, and then asks the user."""
    await frame.client.aprogress(0, 1, "About to ask")
    answer = await frame.client.aelicit("Please confirm", Confirmation, key="confirm")
    return f"Elicitation completed: {told(answer)}"


@conformance.tool(requests_input=True)
async def test_input_required_result_elicitation(frame: Frame) -> str:
    """Asks the user for a name, and greets."""
    answer = await frame.client.aelicit("What is your name?", UserName, key="user_name")
    return f"Hello, {answer.content.name}!" if answer.accepted else f"Not greeted: {answer.action}"


@conformance.tool(requests_input=True)
async def test_input_required_result_sampling(frame: Frame) -> str:
    """Asks the client's model something that everybody knows."""
    said = await frame.client.acreate_message(
        "What is the capital of France?", max_tokens=100, key="capital_question"
    )
    return said.text


@conformance.tool(requests_input=True)
async def test_input_required_result_list_roots(frame: Frame) -> str:
    """Asks for the client's roots, and lists them."""
    roots = await frame.client.alist_roots(key="client_roots")
    return "Roots: " + ", ".join(root.uri for root in roots)


@conformance.tool(requests_input=True)
async def test_input_required_result_request_state(frame: Frame) -> str:
    """Asks for a confirmation; what must be remembered travels with the client."""
    answer = await frame.client.aelicit("Please confirm", Confirmation, key="confirm")
    return f"state-ok, {told(answer)}"


@conformance.tool(requests_input=True)
async def test_input_required_result_multiple_inputs(frame: Frame) -> str:
    """Asks three questions at once."""
    answers = await frame.client.aask(
        user_name=input_requests.form("What is your name?", UserName),
        greeting=input_requests.sample("Generate a greeting", max_tokens=50),
        client_roots=input_requests.roots(),
    )
    name, greeting, roots = answers["user_name"], answers["greeting"], answers["client_roots"]
    return f"{greeting.text} ({told(name)}; {len(roots)} roots)"


@conformance.tool(requests_input=True)
async def test_input_required_result_multi_round(frame: Frame) -> str:
    """Asks a second question when the first one is answered."""
    name = await frame.client.aelicit("Step 1: What is your name?", UserName, key="step1")
    color = await frame.client.aelicit("Step 2: What is your favorite color?", Color, key="step2")
    return f"Step 1: {told(name)}. Step 2: {told(color)}."


@conformance.tool(requests_input=True)
async def test_input_required_result_tampered_state(frame: Frame) -> str:
    """Asks for a confirmation, and refuses a state which is not its own."""
    answer = await frame.client.aelicit("Please confirm", Confirmation, key="confirm")
    return f"The state was untouched, {told(answer)}"


@conformance.tool(requests_input=True)
async def test_input_required_result_capabilities(frame: Frame) -> str:
    """Asks what this client can be asked, and nothing else."""
    possible: Mapping[str, InputRequest] = {
        "user_name": input_requests.form("What is your name?", UserName),
        "greeting": input_requests.sample("Generate a greeting", max_tokens=50),
    }
    asked = {
        name: question
        for name, question in possible.items()
        if not input_requests.missing(question, frame.client.capabilities)
    }
    answers: Mapping[str, Any] = await frame.client.aask(**asked)
    return f"Answered: {', '.join(answers) or 'nothing, for this client cannot be asked'}"


@conformance.prompt(requests_input=True)
async def test_input_required_result_prompt(frame: Frame) -> Response:
    """Asks the user what the prompt should be about."""
    answer = await frame.client.aelicit(
        "What context should the prompt use?", Context, key="user_context"
    )
    about = answer.content.context if answer.accepted else "anything"
    return Response.prompt().user(f"Please write about this: {about}")
