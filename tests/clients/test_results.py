"""Results with real clients: tools, resources, prompts and completions."""

import json

from tests.clients.conftest import Kind, stateless, with_sessions
from tests.clients.real_client import Json, RealClient
from tests.spec import spec

CONCURRENT_CALLS = 50


# Tools.


def test_tool_result_contains_text(client: RealClient) -> None:
    result = client.call("calculator", operation="multiply", a=6, b=7)

    assert result["content"] == [{"type": "text", "text": "42"}]
    assert not result.get("isError")


def test_structured_content_matches_the_output_schema(client: RealClient) -> None:
    result = client.call("convert_units", amount=2, source="mile", target="kilometre")

    assert result["structuredContent"] == {
        "amount": 3.218688,
        "unit": "kilometre",
        "quantity": "length",
    }
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


def test_tool_returns_rows_of_the_database(client: RealClient, kind: Kind) -> None:
    found = client.call("search_tickets", text="printer", status="open", limit=2)

    # With sessions, structured content must be an object.
    structured = found["structuredContent"]
    tickets = structured["result"] if kind.sessions else structured
    assert [ticket["subject"] for ticket in tickets] == ["Printer prints blank pages"] * 2


def test_comment_written_by_a_tool_is_read_as_a_resource(client: RealClient) -> None:
    result = client.call("add_comment", number=7, text="Zażółć gęślą jaźń 🐍")

    assert result["content"][0]["text"].startswith("Added to #7 ")
    ticket = client.request("resources/read", uri="ticket://7")
    assert "Zażółć gęślą jaźń 🐍" in ticket["contents"][0]["text"]


@spec("T-HTTP-6A")
def test_assigns_are_kept_in_a_session_but_not_between_stateless_requests(
    client: RealClient, kind: Kind
) -> None:
    client.call("calculator", operation="add", a=40, b=2)

    last = client.call("last_calculation")

    assert last.get("isError", False) is not kind.sessions
    assert (last["content"][0]["text"] == "42") is kind.sessions


def test_tool_returns_every_content_type(suite_client: RealClient) -> None:
    image = suite_client.call("test_image_content")["content"]
    sound = suite_client.call("test_audio_content")["content"]
    mixed = suite_client.call("test_multiple_content_types")["content"]

    assert [(item["type"], item["mimeType"]) for item in image] == [("image", "image/png")]
    assert [(item["type"], item["mimeType"]) for item in sound] == [("audio", "audio/wav")]
    assert [item["type"] for item in mixed] == ["text", "image", "resource"]


def test_concurrent_calls_are_all_answered(client: RealClient) -> None:
    wanted = {
        client.start("tools/call", name="calculator", arguments=sum_of(number, 1)): str(number + 1)
        for number in range(CONCURRENT_CALLS)
    }

    lines = client.until_done(*wanted)

    results = {line["id"]: line["result"] for line in lines if "result" in line}
    assert {id: result["content"][0]["text"] for id, result in results.items()} == wanted


def sum_of(a: int, b: int) -> Json:
    return {"operation": "add", "a": a, "b": b}


# Notifications before the result.


def test_progress_arrives_before_the_result(client: RealClient) -> None:
    lines = client.conversation("tools/call", name="check_answer_times", arguments={})

    progress = [
        line["params"] for line in lines if line.get("notification") == "notifications/progress"
    ]
    checked = lines[-1]["result"]["structuredContent"]["checked"]
    assert [params["progress"] for params in progress] == [*range(10, checked, 10), checked]
    assert {params["total"] for params in progress} == {checked}
    assert progress[-1]["message"].endswith("late answers so far")


def test_log_messages_arrive_before_the_result(client: RealClient) -> None:
    lines = client.conversation("tools/call", name="check_answer_times", arguments={})

    logged = [
        line["params"] for line in lines if line.get("notification") == "notifications/message"
    ]
    late = lines[-1]["result"]["structuredContent"]["late"]
    assert [params["level"] for params in logged] == ["warning"] * len(late)
    assert logged[0]["data"].endswith("was answered late")


@stateless
def test_progress_arrives_during_the_call_and_other_requests_are_answered(
    client: RealClient,
) -> None:
    timer = client.start("tools/call", name="timer", arguments={"seconds": 1})
    first = client.next_notification("notifications/progress")

    client.call("calculator", operation="add", a=1, b=1)
    rest = client.until_done(timer)

    assert first["id"] == timer
    assert first["params"] == {"progress": 0, "total": 1, "message": "1 s to go"}
    assert rest[-1]["result"]["content"][0]["text"] == "1 s are over."


@with_sessions
def test_progress_arrives_before_an_input_request_is_answered(suite_client: RealClient) -> None:
    call = suite_client.start("tools/call", name="test_streaming_elicitation", arguments={})
    reported = suite_client.next_notification("notifications/progress")
    # The tool continues only after this.
    suite_client.answer(suite_client.next_request(), {"action": "accept", "content": {"ok": True}})
    result = suite_client.until_done(call)[-1]["result"]

    assert reported["params"]["message"] == "About to ask"
    assert "'ok': True" in result["content"][0]["text"]


# Resources.


def test_a_resource_is_read(client: RealClient) -> None:
    (content,) = client.request("resources/read", uri="units://all")["contents"]

    assert content["uri"] == "units://all"
    assert content["mimeType"] == "application/json"
    assert "kilometre" in json.loads(content["text"])["length"]


def test_a_resource_of_a_template_is_read(client: RealClient) -> None:
    (content,) = client.request("resources/read", uri="ticket://12")["contents"]

    assert content["mimeType"] == "text/markdown"
    assert "Telephone rings twice" in content["text"]


def test_binary_contents_are_read(suite_client: RealClient) -> None:
    (content,) = suite_client.request("resources/read", uri="test://static-binary")["contents"]

    assert content["mimeType"] == "image/png"
    assert content["blob"].startswith("iVBORw0KGgo")


# Prompts and completion.


def test_prompt_messages_are_returned(client: RealClient) -> None:
    prompt = client.request(
        "prompts/get", name="explain_unit", arguments={"quantity": "mass", "unit": "stone"}
    )

    assert prompt["description"] == "What a stone is"
    assert [message["role"] for message in prompt["messages"]] == ["user", "assistant", "user"]
    assert prompt["messages"][2]["content"]["text"].startswith("Explain the stone")


def test_prompt_completion_uses_the_other_arguments(client: RealClient) -> None:
    result = client.request(
        "completion/complete",
        ref={"type": "ref/prompt", "name": "explain_unit"},
        argument={"name": "unit", "value": "p"},
        context={"arguments": {"quantity": "volume"}},
    )

    assert result["completion"]["values"] == ["pint"]


def test_template_variables_are_completed(client: RealClient) -> None:
    result = client.request(
        "completion/complete",
        ref={"type": "ref/resource", "uri": "units://{quantity}"},
        argument={"name": "quantity", "value": "m"},
    )

    assert result["completion"]["values"] == ["mass"]
