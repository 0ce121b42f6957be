"""The requirements of both forms of tasks, and the tests that show each: see ``requirements``."""

# The lines are as long as the names in them.
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping

from tests.requirements import CLIENT, DUTY, MAY, MUST, NOT_OFFERED, PRACTICE, SHOULD, Requirement

SESSION_TASKS: Mapping[str, Requirement] = {
    "TASK-01": MUST(
        "basic/utilities/tasks#capabilities",
        "The server declares tasks at initialization.",
        "dispatch/methods/test_tasks.py::test_tasks_are_declared_in_the_form_of_the_revision",
    ),
    "TASK-02": MUST(
        "basic/utilities/tasks#server-capabilities",
        "The server declares tasks.list, tasks.cancel and tasks.requests.tools.call.",
        "dispatch/methods/test_tasks.py::test_tasks_are_declared_in_the_form_of_the_revision",
        "clients/test_tasks.py::test_tasks_are_declared",
    ),
    "TASK-03": MUST(
        "basic/utilities/tasks#capability-negotiation",
        "tasks/list and tasks/cancel work only if they are declared.",
        "dispatch/methods/test_tasks.py::test_undeclared_task_methods_are_not_found",
    ),
    "TASK-04": SHOULD(
        "basic/utilities/tasks#capability-negotiation",
        "The requestor augments only requests that the peer declares.",
        because="The server never sends a task-augmented request.",
    ),
    "TASK-05": SHOULD(
        "basic/utilities/tasks#capability-negotiation",
        "No tasks are created for a peer without tasks.",
        because="The server never sends a task-augmented request.",
    ),
    "TASK-06": MUST(
        "basic/utilities/tasks#task-support-and-handling",
        "The server ignores params.task if it does not declare tasks for the request.",
        "dispatch/methods/test_tasks.py::test_task_parameter_is_ignored_where_tasks_are_not_declared",
    ),
    "TASK-07": MAY(
        "basic/utilities/tasks#task-support-and-handling",
        "The server may demand augmentation of all requests of a type.",
        because=NOT_OFFERED,
    ),
    "TASK-10": CLIENT(
        "basic/utilities/tasks#tool-level-negotiation",
        "Clients never augment if the server does not declare tools/call.",
        "dispatch/methods/test_tasks.py::test_task_parameter_is_ignored_where_tasks_are_not_declared",
    ),
    "TASK-11": SHOULD(
        "basic/utilities/tasks#tool-level-negotiation",
        "A task-augmented call of a tool without task support is rejected with -32601.",
        "dispatch/methods/test_tasks.py::test_session_call_must_match_the_task_support_of_its_tool",
    ),
    "TASK-12": MAY(
        "basic/utilities/tasks#tool-level-negotiation",
        "A tool with optional task support may be called in both ways.",
        "dispatch/methods/test_tasks.py::test_call_without_task_is_plain_and_reports_progress",
        "clients/test_tasks.py::test_task_runs_and_is_polled_until_its_end",
    ),
    "TASK-13": MUST(
        "basic/utilities/tasks#tool-level-negotiation",
        "A plain call of a tool with required task support is rejected with -32601.",
        "dispatch/methods/test_tasks.py::test_session_call_must_match_the_task_support_of_its_tool",
    ),
    "TASK-20": MUST(
        "basic/utilities/tasks#result-retrieval",
        "An accepted augmented request is answered with CreateTaskResult.",
        "dispatch/methods/test_tasks.py::test_task_is_stored_when_it_is_answered",
        "dispatch/methods/test_tasks.py::test_invalid_arguments_are_an_error_result_of_the_task",
    ),
    "TASK-21": SHOULD(
        "basic/utilities/tasks#result-retrieval",
        "It is answered as soon as possible.",
        "dispatch/methods/test_tasks.py::test_task_is_stored_when_it_is_answered",
    ),
    "TASK-22": MUST(
        "basic/utilities/tasks#task-id-requirements",
        "The receiver generates the task id, a string.",
        "dispatch/methods/test_tasks.py::test_task_is_stored_when_it_is_answered",
    ),
    "TASK-23": MUST(
        "basic/utilities/tasks#task-id-requirements",
        "The id is unique among all tasks of the receiver.",
        "tasks/test_store.py::test_rows_of_tasks_follow_the_model",
    ),
    "TASK-24": MUST(
        "basic/utilities/tasks#task-status-lifecycle",
        "A task begins as working.",
        "dispatch/methods/test_tasks.py::test_task_is_stored_when_it_is_answered",
    ),
    "TASK-25": MUST(
        "basic/utilities/tasks#task-status-lifecycle",
        "Only the specified transitions occur.",
        "tasks/test_store.py::test_rows_of_tasks_follow_the_model",
    ),
    "TASK-26": MUST(
        "basic/utilities/tasks#task-status-lifecycle",
        "completed, failed and cancelled are final.",
        "protocol/test_tasks.py::test_final_status_never_changes",
    ),
    "TASK-27": MUST(
        "basic/utilities/tasks#task-execution-errors",
        "JSON-RPC errors and results with isError are failed.",
        "dispatch/methods/test_tasks.py::test_tool_error_is_a_failed_task_in_a_session_and_completed_in_the_extension",
        "dispatch/methods/test_tasks.py::test_json_rpc_error_of_a_call_is_the_error_of_its_task",
    ),
    "TASK-28": SHOULD(
        "basic/utilities/tasks#task-execution-errors",
        "A failed task has a status message that describes the failure.",
        "dispatch/methods/test_tasks.py::test_tool_error_is_a_failed_task_in_a_session_and_completed_in_the_extension",
    ),
    "TASK-29": MAY(
        "basic/utilities/tasks#creating-tasks",
        "CreateTaskResult may have a text for the model.",
        because=NOT_OFFERED,
    ),
    "TASK-30": MUST(
        "basic/utilities/tasks#ttl-and-resource-management",
        "Each task has createdAt.",
        "protocol/test_tasks.py::test_detailed_task_has_what_belongs_to_its_status",
    ),
    "TASK-31": MUST(
        "basic/utilities/tasks#ttl-and-resource-management",
        "Each task has lastUpdatedAt.",
        "protocol/test_tasks.py::test_detailed_task_has_what_belongs_to_its_status",
    ),
    "TASK-32": MAY(
        "basic/utilities/tasks#ttl-and-resource-management",
        "The receiver may override the requested ttl.",
        "dispatch/methods/test_tasks.py::test_requested_lifetime_is_bounded",
    ),
    "TASK-33": MUST(
        "basic/utilities/tasks#ttl-and-resource-management",
        "The actual ttl is reported.",
        "dispatch/methods/test_tasks.py::test_requested_lifetime_is_bounded",
    ),
    "TASK-34": MAY(
        "basic/utilities/tasks#ttl-and-resource-management",
        "The task may be deleted after its ttl.",
        "dispatch/methods/test_tasks.py::test_expired_task_is_unknown",
    ),
    "TASK-35": MAY(
        "basic/utilities/tasks#ttl-and-resource-management",
        "The receiver may suggest a polling interval.",
        "protocol/test_tasks.py::test_detailed_task_has_what_belongs_to_its_status",
    ),
    "TASK-40": MUST(
        "basic/utilities/tasks#getting-tasks",
        "tasks/get returns a flat Task.",
        "dispatch/methods/test_tasks.py::test_progress_is_the_status_message",
    ),
    "TASK-41": SHOULD(
        "basic/utilities/tasks#input-required-status",
        "tasks/get is not answered with a stream.",
        "dispatch/methods/test_tasks.py::test_input_is_requested_on_the_stream_of_the_result_in_a_session",
    ),
    "TASK-42": MUST(
        "basic/utilities/tasks#result-retrieval",
        "tasks/result returns what the request would have returned.",
        "dispatch/methods/test_tasks.py::test_result_of_a_task_is_that_of_the_call",
        "dispatch/methods/test_tasks.py::test_json_rpc_error_of_a_call_is_the_error_of_its_task",
    ),
    "TASK-43": MUST(
        "basic/utilities/tasks#result-retrieval",
        "tasks/result blocks until the task has ended.",
        "clients/test_tasks.py::test_result_is_awaited_while_the_task_runs",
        "dispatch/methods/test_tasks.py::test_result_of_a_cancelled_task_is_an_error",
    ),
    "TASK-44": MUST(
        "basic/utilities/tasks#related-task-metadata",
        "The response to tasks/result names the task in its metadata.",
        "dispatch/methods/test_tasks.py::test_result_of_a_task_is_that_of_the_call",
    ),
    "TASK-45": MAY(
        "basic/utilities/tasks#retrieving-task-results",
        "The client may close the stream of tasks/get and tasks/result.",
        because=DUTY,
    ),
    "TASK-46": MUST(
        "basic/utilities/tasks#retrieving-task-results",
        "Several tasks/result requests may wait, and tasks/get works meanwhile.",
        "dispatch/methods/test_tasks.py::test_input_is_requested_once_for_several_waiting_requests",
    ),
    "TASK-50": SHOULD(
        "basic/utilities/tasks#input-required-status",
        "A task that needs input is input_required.",
        "dispatch/methods/test_tasks.py::test_input_is_requested_on_the_stream_of_the_result_in_a_session",
    ),
    "TASK-51": MUST(
        "basic/utilities/tasks#input-required-status",
        "An input request names the task in its metadata.",
        "dispatch/methods/test_tasks.py::test_input_is_requested_on_the_stream_of_the_result_in_a_session",
    ),
    "TASK-52": SHOULD(
        "basic/utilities/tasks#input-required-status",
        "Pending input requests are sent on the stream of tasks/result.",
        "dispatch/methods/test_tasks.py::test_input_is_requested_on_the_stream_of_the_result_in_a_session",
        "clients/test_tasks.py::test_task_requests_input_on_the_stream_of_its_result",
    ),
    "TASK-53": SHOULD(
        "basic/utilities/tasks#input-required-status",
        "The task leaves input_required when all input has arrived.",
        "protocol/test_tasks.py::test_task_is_working_again_when_the_last_response_arrives",
    ),
    "TASK-54": MUST(
        "basic/utilities/tasks#associating-task-related-messages",
        "Every message that belongs to a task names it in its metadata.",
        "dispatch/methods/test_tasks.py::test_messages_of_a_task_are_sent_on_the_stream_of_its_result",
    ),
    "TASK-55": MUST(
        "basic/utilities/tasks#associating-task-related-messages",
        "tasks/get, tasks/result and tasks/cancel use params.taskId.",
        "dispatch/methods/test_tasks.py::test_unknown_task_is_rejected",
    ),
    "TASK-56": SHOULD(
        "basic/utilities/tasks#associating-task-related-messages",
        "Results of tasks/get, tasks/list and tasks/cancel, and status notifications, do not name the task in metadata.",
        "dispatch/methods/test_tasks.py::test_status_is_sent_to_the_session_when_it_changes",
    ),
    "TASK-57": CLIENT(
        "basic/utilities/tasks#input-required-status",
        "Clients expect messages of a task on any stream.",
        "dispatch/methods/test_tasks.py::test_messages_of_a_task_are_sent_on_the_stream_of_its_result",
    ),
    "TASK-60": MAY(
        "basic/utilities/tasks#task-notifications",
        "The receiver may send status notifications.",
        "dispatch/methods/test_tasks.py::test_status_is_sent_to_the_session_when_it_changes",
    ),
    "TASK-61": CLIENT(
        "basic/utilities/tasks#task-notifications",
        "Requestors do not rely on status notifications.",
        because=DUTY,
    ),
    "TASK-62": MUST(
        "basic/utilities/tasks#task-progress-notifications",
        "Progress of a task uses the original token until the task ends.",
        "dispatch/methods/test_tasks.py::test_messages_of_a_task_are_sent_on_the_stream_of_its_result",
    ),
    "TASK-70": SHOULD(
        "basic/utilities/tasks#task-listing",
        "tasks/list is paginated.",
        "dispatch/methods/test_tasks.py::test_own_tasks_are_listed_in_pages",
    ),
    "TASK-71": MUST(
        "basic/utilities/tasks#task-listing",
        "nextCursor is sent if there are more tasks.",
        "dispatch/methods/test_tasks.py::test_own_tasks_are_listed_in_pages",
    ),
    "TASK-72": MUST(
        "basic/utilities/tasks#task-listing",
        "Every task that a requestor can get is in its list.",
        "dispatch/methods/test_tasks.py::test_own_tasks_are_listed_in_pages",
        "tasks/test_store.py::test_rows_of_tasks_follow_the_model",
    ),
    "TASK-80": MUST(
        "basic/utilities/tasks#task-cancellation",
        "Cancelling a task that has ended is rejected with -32602.",
        "dispatch/methods/test_tasks.py::test_cancelled_task_stops_its_handler",
        "clients/test_tasks.py::test_task_is_cancelled",
    ),
    "TASK-81": SHOULD(
        "basic/utilities/tasks#task-cancellation",
        "Cancelling stops the execution.",
        "tasks/test_processes.py::test_cancelling_stops_a_synchronous_loop_in_the_worker",
    ),
    "TASK-82": MUST(
        "basic/utilities/tasks#task-cancellation",
        "The task is cancelled before the response.",
        "dispatch/methods/test_tasks.py::test_cancelled_task_stops_its_handler",
    ),
    "TASK-83": MUST(
        "basic/utilities/tasks#task-cancellation",
        "A cancelled task stays cancelled.",
        "protocol/test_tasks.py::test_final_status_never_changes",
    ),
    "TASK-84": MAY(
        "basic/utilities/tasks#task-cancellation",
        "A cancelled task may be deleted at any time.",
        because="It is kept until its lifetime ends, so that clients can see it.",
    ),
    "TASK-90": MUST(
        "basic/utilities/tasks#protocol-errors",
        "An unknown task id is rejected with -32602.",
        "dispatch/methods/test_tasks.py::test_unknown_task_is_rejected",
    ),
    "TASK-91": MUST(
        "basic/utilities/tasks#protocol-errors",
        "An invalid cursor is rejected with -32602.",
        "dispatch/methods/test_tasks.py::test_own_tasks_are_listed_in_pages",
    ),
    "TASK-92": MUST(
        "basic/utilities/tasks#protocol-errors",
        "An internal failure is answered with -32603.",
        "dispatch/methods/test_tasks.py::test_task_that_cannot_be_submitted_is_an_internal_error",
    ),
    "TASK-93": SHOULD(
        "basic/utilities/tasks#protocol-errors",
        "Errors have informative messages.",
        "dispatch/methods/test_tasks.py::test_result_of_a_cancelled_task_is_an_error",
    ),
    "TASK-A0": MUST(
        "basic/utilities/tasks#task-isolation-and-access-control",
        "Tasks are bound to the authorization context.",
        "dispatch/methods/test_tasks.py::test_task_of_somebody_else_is_unknown",
    ),
    "TASK-A1": MUST(
        "basic/utilities/tasks#task-isolation-and-access-control",
        "Requests for tasks of others are rejected.",
        "dispatch/methods/test_tasks.py::test_task_of_somebody_else_is_unknown",
    ),
    "TASK-A2": MUST(
        "basic/utilities/tasks#task-isolation-and-access-control",
        "tasks/list returns only tasks of the caller.",
        "dispatch/methods/test_tasks.py::test_task_of_somebody_else_is_unknown",
    ),
    "TASK-A3": MUST(
        "basic/utilities/tasks#task-isolation-and-access-control",
        "Without a context, ids are unguessable.",
        "dispatch/methods/test_tasks.py::test_task_is_stored_when_it_is_answered",
    ),
    "TASK-A4": SHOULD(
        "basic/utilities/tasks#task-isolation-and-access-control",
        "The limitation without a context is documented.",
        because="docs/how-to/tasks.md documents it.",
    ),
    "TASK-A5": SHOULD(
        "basic/utilities/tasks#task-isolation-and-access-control",
        "tasks.list is not declared if requestors cannot be identified.",
        "dispatch/methods/test_tasks.py::test_task_of_an_anonymous_session_is_unknown_in_another_one",
    ),
    "TASK-A6": SHOULD(
        "basic/utilities/tasks#task-isolation-and-access-control",
        "Task operations are rate limited.",
        "dispatch/methods/test_tasks.py::test_number_of_tasks_of_a_caller_is_limited",
    ),
    "TASK-B0": SHOULD(
        "basic/utilities/tasks#resource-management",
        "Concurrent tasks and ttl are limited, and expired tasks are deleted.",
        "dispatch/methods/test_tasks.py::test_number_of_tasks_of_a_caller_is_limited",
        "dispatch/methods/test_tasks.py::test_requested_lifetime_is_bounded",
        "tasks/test_store.py::test_rows_of_tasks_follow_the_model",
    ),
    "TASK-B1": SHOULD(
        "basic/utilities/tasks#audit-and-logging",
        "Creation and completion of tasks are logged.",
        "dispatch/methods/test_tasks.py::test_creation_and_end_of_a_task_are_in_the_call_log",
    ),
    "TASK-C0": SHOULD(
        "basic/utilities/tasks#getting-tasks",
        "Requestors respect the polling interval.",
        because="The server never sends a task-augmented request.",
    ),
}
"""Of 2025-11-25."""

EXTENSION_TASKS: Mapping[str, Requirement] = {
    "TASK-01": MUST(
        "ext-tasks/tasks#capability-negotiation",
        "The server advertises the extension, and no legacy capability with it.",
        "dispatch/methods/test_tasks.py::test_tasks_are_declared_in_the_form_of_the_revision",
    ),
    "TASK-02": MUST(
        "ext-tasks/tasks#capability-negotiation",
        "No CreateTaskResult is returned for a request that does not declare the extension.",
        "dispatch/methods/test_tasks.py::test_extension_is_required_before_a_task_is_looked_up",
    ),
    "TASK-03": MUST(
        "ext-tasks/tasks#capability-negotiation",
        "A tool that needs a task is rejected with -32021 for a client without the extension.",
        "dispatch/methods/test_tasks.py::test_extension_is_required_before_a_task_is_looked_up",
    ),
    "TASK-04": MAY(
        "ext-tasks/tasks#capability-negotiation",
        "The server alone decides for each call.",
        "dispatch/methods/test_tasks.py::test_call_that_ends_early_is_no_task",
        "dispatch/methods/test_tasks.py::test_call_that_takes_long_is_continued_as_a_task",
    ),
    "TASK-05": MUST(
        "ext-tasks/tasks#polymorphic-results",
        "CreateTaskResult, and nothing else, has the result type task.",
        "dispatch/methods/test_tasks.py::test_call_that_takes_long_is_continued_as_a_task",
    ),
    "TASK-06": MUST(
        "ext-tasks/tasks#task-creation",
        "The task is readable when it is answered.",
        "dispatch/methods/test_tasks.py::test_task_is_stored_when_it_is_answered",
    ),
    "TASK-07": SHOULD(
        "ext-tasks/tasks#task-creation",
        "Round trips are completed before the task is created.",
        "dispatch/methods/test_tasks.py::test_input_is_requested_by_round_trips_before_a_call_becomes_a_task",
    ),
    "TASK-08": MUST(
        "ext-tasks/tasks#task-polling",
        "tasks/get returns what belongs to the status.",
        "protocol/test_tasks.py::test_detailed_task_has_what_belongs_to_its_status",
    ),
    "TASK-09": MUST(
        "ext-tasks/tasks#task-status",
        "failed is only for JSON-RPC errors.",
        "protocol/test_tasks.py::test_error_result_is_completed_in_the_extension_and_failed_in_a_session",
        "dispatch/methods/test_tasks.py::test_tool_error_is_a_failed_task_in_a_session_and_completed_in_the_extension",
    ),
    "TASK-10": MUST(
        "ext-tasks/tasks#task-update-requests",
        "tasks/update is acknowledged with an empty result.",
        "dispatch/methods/test_tasks.py::test_input_request_is_answered_with_tasks_update",
    ),
    "TASK-11": SHOULD(
        "ext-tasks/tasks#task-update-requests",
        "Unknown and answered keys are ignored; partial responses are accepted.",
        "dispatch/methods/test_tasks.py::test_input_request_is_answered_with_tasks_update",
        "dispatch/methods/test_tasks.py::test_several_input_requests_of_a_sync_handler_are_answered_one_by_one",
    ),
    "TASK-12": MUST(
        "ext-tasks/tasks#task-update-requests",
        "A key of an input request is never reused.",
        "protocol/test_tasks.py::test_key_of_an_input_request_is_never_issued_twice",
        "dispatch/methods/test_tasks.py::test_invalid_response_is_requested_again_under_another_key",
    ),
    "TASK-13": MUST(
        "ext-tasks/tasks#task-cancellation",
        "tasks/cancel is acknowledged, also for a task that has ended.",
        "dispatch/methods/test_tasks.py::test_cancelled_task_stops_its_handler",
    ),
    "TASK-14": MUST(
        "ext-tasks/tasks#task-cancellation",
        "notifications/cancelled and a disconnect do not cancel a task.",
        "dispatch/methods/test_tasks.py::test_call_that_takes_long_is_continued_as_a_task",
    ),
    "TASK-15": MUST(
        "ext-tasks/tasks#task-polling",
        "An unknown task id is rejected with -32602.",
        "dispatch/methods/test_tasks.py::test_unknown_task_is_rejected",
    ),
    "TASK-16": MUST(
        "ext-tasks/tasks#capability-negotiation",
        "Task methods without the extension are rejected before the id is looked up.",
        "dispatch/methods/test_tasks.py::test_extension_is_required_before_a_task_is_looked_up",
        "dispatch/methods/test_tasks.py::test_listening_for_tasks_requires_the_extension",
    ),
    "TASK-17": MUST(
        "ext-tasks/tasks#supported-methods",
        "Removed methods are not found; the legacy parameter is ignored.",
        "dispatch/methods/test_tasks.py::test_methods_of_sessions_are_not_found_in_the_extension",
    ),
    "TASK-18": MUST(
        "ext-tasks/tasks#streamable-http-routing-headers",
        "Mcp-Name is compared with the task id.",
        "protocol/test_headers.py::test_name_header_sources_are_defined_for_the_methods_of_the_specification",
    ),
    "TASK-19": MAY(
        "ext-tasks/tasks#task-status-notifications",
        "notifications/tasks is sent on listen streams for acknowledged ids.",
        "dispatch/methods/test_tasks.py::test_listen_stream_receives_the_states_of_a_task",
        "dispatch/methods/test_tasks.py::test_task_of_somebody_else_is_left_out_of_a_listen_stream",
    ),
    "TASK-20": MUST(
        "ext-tasks/tasks#task-status-notifications",
        "No progress and no log messages are sent for tasks.",
        "dispatch/methods/test_tasks.py::test_no_progress_and_no_log_is_sent_for_tasks_of_the_extension",
    ),
    "TASK-21": MUST(
        "ext-tasks/tasks#security",
        "Ids are unguessable, and each request is checked against the owner.",
        "dispatch/methods/test_tasks.py::test_task_of_somebody_else_is_unknown",
    ),
    "TASK-22": MAY(
        "ext-tasks/tasks#task-polling",
        "A task is readable until its ttl, and deleted afterwards.",
        "dispatch/methods/test_tasks.py::test_expired_task_is_unknown",
    ),
    "TASK-23": MUST(
        "ext-tasks/tasks#tasks",
        "Times are integer milliseconds, in ttlMs and pollIntervalMs.",
        "protocol/test_tasks.py::test_detailed_task_has_what_belongs_to_its_status",
    ),
    "TASK-24": PRACTICE(
        "ext-tasks/tasks#task-update-requests",
        "Input requests obey the capabilities of the request that created the task.",
        "dispatch/methods/test_tasks.py::test_input_request_without_the_capability_fails_the_call",
    ),
    "TASK-25": PRACTICE(
        "ext-tasks/tasks#task-polling",
        "The normative text is followed where examples differ.",
        "dispatch/methods/test_tasks.py::test_extension_is_required_before_a_task_is_looked_up",
    ),
}
"""Of the extension; sections of its specification."""
