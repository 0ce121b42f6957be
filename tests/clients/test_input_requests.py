"""Input requests with real clients: elicitation, sampling and roots.

The same handlers serve both kinds of revisions: with a session the request is sent on the stream
of the call; without one the result lists the input requests, and the client calls again.
"""

import pytest

from tests.clients.real_client import Json, RealClient
from tests.spec import spec

SCHOOLS = ["Bluewater Sailing School", "Greenfield Primary School"]


@pytest.fixture
def ticket() -> Json:
    return {"customer": "School", "subject": "No heating", "description": "It is cold."}


def test_tool_continues_with_the_elicited_answer(client: RealClient, ticket: Json) -> None:
    call = client.start("tools/call", name="open_ticket", arguments=ticket)
    request = client.next_request()
    client.answer(request, {"action": "accept", "content": {"customer": SCHOOLS[1]}})
    result = client.until_done(call)[-1]["result"]

    assert request["method"] == "elicitation/create"
    assert request["params"]["message"] == "Which 'School' do you mean?"
    assert request["params"]["requestedSchema"]["properties"]["customer"]["enum"] == SCHOOLS
    assert result["structuredContent"]["customer"] == SCHOOLS[1]


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_declined_or_cancelled_elicitation_opens_no_ticket(
    client: RealClient, ticket: Json, action: str
) -> None:
    call = client.start("tools/call", name="open_ticket", arguments=ticket)
    client.answer(client.next_request(), {"action": action})
    result = client.until_done(call)[-1]["result"]

    assert result["isError"] is True
    assert result["content"][0]["text"].startswith("No ticket was opened")


def test_invalid_elicitation_answer_repeats_the_input_request(
    client: RealClient, ticket: Json
) -> None:
    call = client.start("tools/call", name="open_ticket", arguments=ticket)
    first = client.next_request()
    client.answer(first, {"action": "accept", "content": {"customer": "Somebody else"}})
    again = client.next_request()
    client.answer(again, {"action": "accept", "content": {"customer": SCHOOLS[0]}})
    result = client.until_done(call)[-1]["result"]

    question, _, problems = again["params"]["message"].partition("\n\n")
    assert question == first["params"]["message"]
    assert problems.startswith("customer: ")
    assert result["structuredContent"]["customer"] == SCHOOLS[0]


def test_tool_receives_the_sampling_result(suite_client: RealClient) -> None:
    call = suite_client.start("tools/call", name="test_sampling", arguments={"prompt": "Say hi"})
    request = suite_client.next_request()
    suite_client.answer(request, sampling_result("Hi!"))
    result = suite_client.until_done(call)[-1]["result"]

    assert request["method"] == "sampling/createMessage"
    assert request["params"]["maxTokens"] == 100
    assert request["params"]["messages"][0]["content"]["text"] == "Say hi"
    assert result["content"][0]["text"] == "LLM response: Hi!"


@spec("ROOT-01")
def test_tool_receives_the_roots_of_the_client(suite_client: RealClient) -> None:
    call = suite_client.start(
        "tools/call", name="test_input_required_result_list_roots", arguments={}
    )
    roots = {"roots": [{"uri": "file:///home/ada", "name": "Home"}]}
    suite_client.answer(suite_client.next_request(), roots)
    result = suite_client.until_done(call)[-1]["result"]

    assert result["content"][0]["text"] == "Roots: file:///home/ada"


def test_tool_receives_several_inputs_requested_together(suite_client: RealClient) -> None:
    answers = {
        "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
        "sampling/createMessage": sampling_result("Good morning"),
        "roots/list": {"roots": []},
    }
    call = suite_client.start(
        "tools/call", name="test_input_required_result_multiple_inputs", arguments={}
    )
    # In any order; the Python SDK 1.x handles requests one after the other.
    while answers:
        request = suite_client.next_request()
        suite_client.answer(request, answers.pop(request["method"]))
    result = suite_client.until_done(call)[-1]["result"]

    assert result["content"][0]["text"].startswith("Good morning")
    assert "'name': 'Ada'" in result["content"][0]["text"]


def test_tool_receives_inputs_requested_one_after_the_other(suite_client: RealClient) -> None:
    call = suite_client.start(
        "tools/call", name="test_input_required_result_multi_round", arguments={}
    )
    for content in ({"name": "Ada"}, {"color": "green"}):
        request = suite_client.next_request()
        suite_client.answer(request, {"action": "accept", "content": content})
    result = suite_client.until_done(call)[-1]["result"]

    text = result["content"][0]["text"]
    assert "'name': 'Ada'" in text
    assert "'color': 'green'" in text


def test_prompt_receives_the_elicited_answer(suite_client: RealClient) -> None:
    call = suite_client.start("prompts/get", name="test_input_required_result_prompt", arguments={})
    request = suite_client.next_request()
    suite_client.answer(request, {"action": "accept", "content": {"context": "tea"}})
    result = suite_client.until_done(call)[-1]["result"]

    assert result["messages"][0]["content"]["text"] == "Please write about this: tea"


def sampling_result(text: str) -> Json:
    content = {"type": "text", "text": text}
    return {"role": "assistant", "content": content, "model": "a-model", "stopReason": "endTurn"}
