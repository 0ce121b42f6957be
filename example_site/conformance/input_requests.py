"""Tools and prompts of the conformance suite that send input requests.

Each handler supports both kinds of clients: with a session it waits for the response on an open
stream; without one, the client retries the call with the response.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from pydantic import BaseModel

from django_mcp import Frame, Response, UrlElicitationRequired, input_requests
from example_site.conformance.server import conformance


class UserName(BaseModel):
    """The name of the user."""

    name: str


class Confirmation(BaseModel):
    """Whether the user agrees."""

    ok: bool


class Color(BaseModel):
    """The preferences of the user."""

    color: str


class Context(BaseModel):
    """The subject of a prompt."""

    context: str


class Account(BaseModel):
    """The contact data of the user."""

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


def to_text(answer: input_requests.ElicitResult[Any]) -> str:
    """The text of a response."""
    content = answer.content
    plain = content.model_dump() if isinstance(content, BaseModel) else content
    return f"action={answer.action}, content={plain}"


# With sessions.


@conformance.tool(requests_input=True)
async def test_sampling(prompt: str, frame: Frame) -> str:
    """Requests sampling, and returns the text of the model."""
    sampled = await frame.client.acreate_message(prompt, max_tokens=100)
    return f"LLM response: {sampled.text}"


@conformance.tool(requests_input=True)
async def test_elicitation(message: str, frame: Frame) -> str:
    """Requests a user name and an email address from the user."""
    answer = await frame.client.aelicit(message, Account)
    return f"User response: {to_text(answer)}"


@conformance.tool(requests_input=True)
async def test_elicitation_sep1034_defaults(frame: Frame) -> str:
    """Requests a form with a default for each type."""
    answer = await frame.client.aelicit("Please review these values", DEFAULTS)
    return f"Elicitation completed: {to_text(answer)}"


@conformance.tool(requests_input=True)
async def test_elicitation_sep1330_enums(frame: Frame) -> str:
    """Requests a form with each kind of choice."""
    answer = await frame.client.aelicit("Please choose", ENUMS)
    return f"Elicitation completed: {to_text(answer)}"


PAGE = "https://mcp.example.com/test"


@conformance.tool(requests_input=True)
async def test_elicitation_sep1036_url(frame: Frame) -> str:
    """Requests that the user visits a page."""
    answer = await frame.client.aelicit_url("Please complete the authorization", PAGE)
    return f"User response: {answer.action}"


@conformance.tool
def test_elicitation_sep1036_error() -> str:
    """Fails, because the user has to visit a page first."""
    raise UrlElicitationRequired.at(PAGE, "Please complete the authorization")


@conformance.tool(requests_input=True)
async def test_elicitation_sep1036_complete(frame: Frame) -> str:
    """Requests that the user visits a page, and notifies the client that this was completed."""
    id = uuid4().hex
    answer = await frame.client.aelicit_url("Please authorize", PAGE, elicitation_id=id)
    if answer.accepted:
        await frame.client.anotify("notifications/elicitation/complete", {"elicitationId": id})
    return f"User response: {answer.action}"


# Without sessions.


@conformance.tool(requests_input=True)
async def test_missing_capability(frame: Frame) -> str:
    """Cannot be called by a client that does not support sampling."""
    sampled = await frame.client.acreate_message("Say anything.", max_tokens=10)
    return sampled.text


@conformance.tool(requests_input=True)
async def test_streaming_elicitation(frame: Frame) -> str:
    """Sends a log message before it sends an elicitation request."""
    await frame.client.aprogress(0, 1, "About to ask")
    answer = await frame.client.aelicit("Please confirm", Confirmation, key="confirm")
    return f"Elicitation completed: {to_text(answer)}"


@conformance.tool(requests_input=True)
async def test_input_required_result_elicitation(frame: Frame) -> str:
    """Requests the name of the user, and returns a greeting."""
    answer = await frame.client.aelicit("What is your name?", UserName, key="user_name")
    return f"Hello, {answer.content.name}!" if answer.accepted else f"Not greeted: {answer.action}"


@conformance.tool(requests_input=True)
async def test_input_required_result_sampling(frame: Frame) -> str:
    """Requests a completion of the client's model."""
    sampled = await frame.client.acreate_message(
        "What is the capital of France?", max_tokens=100, key="capital_question"
    )
    return sampled.text


@conformance.tool(requests_input=True)
async def test_input_required_result_list_roots(frame: Frame) -> str:
    """Requests the roots of the client, and lists them."""
    roots = await frame.client.alist_roots(key="client_roots")
    return "Roots: " + ", ".join(root.uri for root in roots)


@conformance.tool(requests_input=True)
async def test_input_required_result_request_state(frame: Frame) -> str:
    """Requests a confirmation; the state is sent to the client and returned by it."""
    answer = await frame.client.aelicit("Please confirm", Confirmation, key="confirm")
    return f"state-ok, {to_text(answer)}"


@conformance.tool(requests_input=True)
async def test_input_required_result_multiple_inputs(frame: Frame) -> str:
    """Sends three input requests at once."""
    answers = await frame.client.aask(
        user_name=input_requests.form("What is your name?", UserName),
        greeting=input_requests.sample("Generate a greeting", max_tokens=50),
        client_roots=input_requests.roots(),
    )
    name, greeting, roots = answers["user_name"], answers["greeting"], answers["client_roots"]
    return f"{greeting.text} ({to_text(name)}; {len(roots)} roots)"


@conformance.tool(requests_input=True)
async def test_input_required_result_multi_round(frame: Frame) -> str:
    """Sends a second input request after the response to the first one."""
    name = await frame.client.aelicit("Step 1: What is your name?", UserName, key="step1")
    color = await frame.client.aelicit("Step 2: What is your favorite color?", Color, key="step2")
    return f"Step 1: {to_text(name)}. Step 2: {to_text(color)}."


@conformance.tool(requests_input=True)
async def test_input_required_result_tampered_state(frame: Frame) -> str:
    """Requests a confirmation, and rejects a state that was modified."""
    answer = await frame.client.aelicit("Please confirm", Confirmation, key="confirm")
    return f"The state was untouched, {to_text(answer)}"


@conformance.tool(requests_input=True)
async def test_input_required_result_capabilities(frame: Frame) -> str:
    """Sends only the input requests that the client supports."""
    possible: Mapping[str, input_requests.InputRequest[Any]] = {
        "user_name": input_requests.form("What is your name?", UserName),
        "greeting": input_requests.sample("Generate a greeting", max_tokens=50),
    }
    supported = {
        name: request
        for name, request in possible.items()
        if not input_requests.missing(request, frame.client.capabilities)
    }
    answers: Mapping[str, Any] = await frame.client.aask(**supported)
    return f"Answered: {', '.join(answers) or 'nothing, no input request is supported'}"


@conformance.prompt(requests_input=True)
async def test_input_required_result_prompt(frame: Frame) -> Response:
    """Requests the subject of the prompt from the user."""
    answer = await frame.client.aelicit(
        "What context should the prompt use?", Context, key="user_context"
    )
    about = answer.content.context if answer.accepted else "anything"
    return Response.prompt().user(f"Please write about this: {about}")
