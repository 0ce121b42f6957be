"""The life cycle of tasks, and their shapes."""

from __future__ import annotations

import pytest

from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.tasks import Status, Task, TaskEnded
from tests.rows import rows
from tests.spec import spec

FORM = {"method": "elicitation/create", "params": {"message": "Name?"}}
RESULT = {"content": [{"type": "text", "text": "Done"}]}
ERROR = {"code": -32603, "message": "It broke"}


@spec("TASK-26", "TASK-83")
@rows("status", sorted(tasks.FINAL))
def test_final_status_never_changes(status: Status) -> None:
    task = Task(id="t", status=status)
    for change in (
        lambda: tasks.complete(task, RESULT),
        lambda: tasks.fail(task, ERROR),
        lambda: tasks.cancel(task),
        lambda: tasks.ask(task, {"name": FORM}),
        lambda: tasks.report(task, "1 of 2", 1, 2),
    ):
        with pytest.raises(TaskEnded, match=status):
            change()


def test_response_to_a_final_task_is_ignored() -> None:
    task = tasks.cancel(tasks.ask(Task(id="t"), {"name": FORM})[0])

    assert tasks.answer(task, {"name": {"action": "accept"}}) is task


@spec("TASK-53")
def test_task_is_working_again_when_the_last_response_arrives() -> None:
    task, _ = tasks.ask(Task(id="t"), {"name": FORM, "colour": FORM})

    once = tasks.answer(task, {"name": {"action": "decline"}, "unknown": {}})
    twice = tasks.answer(once, {"colour": {"action": "decline"}})

    assert (once.status, [*once.outstanding]) == (Status.INPUT_REQUIRED, ["colour"])
    assert (twice.status, twice.outstanding) == (Status.WORKING, {})


@spec("2026/TASK-12")
def test_key_of_an_input_request_is_never_issued_twice() -> None:
    task, first = tasks.ask(Task(id="t"), {"name": FORM})
    task = tasks.take_responses(tasks.answer(task, {"name": {}}), ["name"])
    task, second = tasks.ask(task, {"name": FORM})

    assert (first, second) == ({"name": "name"}, {"name": "name-2"})
    assert tasks.answer(task, {"name": {}}) is task


def test_number_of_input_requests_is_limited() -> None:
    task = Task(id="t", inputs={str(number): {} for number in range(tasks.MAX_INPUT_REQUESTS)})

    with pytest.raises(ValueError, match="at most 1000"):
        tasks.ask(task, {"name": FORM})


def test_only_the_receiver_releases_a_task() -> None:
    task = tasks.receive(tasks.receive(Task(id="t"), "older"), "newest")

    assert tasks.release(task, "older").receiver == "newest"
    assert tasks.release(task, "newest").receiver == ""


def test_oldest_messages_are_dropped_above_the_limit() -> None:
    task = Task(id="t")
    for number in range(tasks.MAX_MESSAGES + 1):
        task = tasks.report(task, notifications=[{"number": number}])

    assert len(task.messages) == tasks.MAX_MESSAGES
    assert task.messages[0] == {"number": 1}


def test_status_message_of_an_error_has_only_characters_that_databases_store() -> None:
    failed = tasks.fail(Task(id="1"), {"code": -32603, "message": "no \udce4\0.txt"})

    assert failed.message == "no ?\ufffd.txt"


@spec("2026/TASK-09")
def test_error_result_is_completed_in_the_extension_and_failed_in_a_session() -> None:
    content = [{"type": "text", "text": "No such ticket"}]
    task = tasks.complete(Task(id="t"), {"content": content, "isError": True})

    assert tasks.detailed(task)["status"] == "completed"
    described = tasks.in_session(task)
    assert (described["status"], described["statusMessage"]) == ("failed", "No such ticket")


@spec("TASK-30", "TASK-31", "TASK-35", "2026/TASK-08", "2026/TASK-23")
@pytest.mark.parametrize(
    ("task", "members"),
    [
        (Task(id="t"), set()),
        (tasks.ask(Task(id="t"), {"name": FORM})[0], {"inputRequests"}),
        (tasks.complete(Task(id="t"), RESULT), {"result"}),
        (tasks.fail(Task(id="t"), ERROR), {"error", "statusMessage"}),
        (tasks.cancel(Task(id="t")), {"statusMessage"}),
    ],
    ids=lambda value: value.status if isinstance(value, Task) else "",
)
def test_detailed_task_has_what_belongs_to_its_status(task: Task, members: set[str]) -> None:
    plain = {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"}

    assert set(tasks.detailed(task)) == plain | members
    assert set(tasks.created_in_extension(task)) - {"statusMessage"} == plain | {"resultType"}
