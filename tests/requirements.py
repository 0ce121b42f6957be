"""The requirements of the MCP specification, and the tests that show each of them.

An entry has an id, a level, the section of the specification (the page below ``specification/``
of the revision, and its heading), the requirement in a sentence, and the tests that show it, as
pytest names them below this folder, or the reason why there is none. CLIENT marks requirements
for clients; a server may rely on them and has to handle violations.

The requirements of tasks are in ``task_requirements``; other official extensions are excluded.
AUTHORIZATION has all requirements for resource servers, of all revisions; those for authorization servers are
excluded.
``tests/architecture/test_requirements.py`` checks this table.
"""

# The lines are as long as the names in them.
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement: its level, its source, its text, and its tests or why there are none."""

    level: str
    section: str
    text: str
    tests: tuple[str, ...]
    because: str = ""


class Level:
    """Create requirements of one level."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, section: str, text: str, *tests: str, because: str = "") -> Requirement:
        return Requirement(self.name, section, text, tests, because)


MUST, SHOULD, MAY, CLIENT, PRACTICE = map(Level, ("MUST", "SHOULD", "MAY", "CLIENT", "PRACTICE"))

DUTY = "The client's duty; there is nothing that a server could do about it."
AUTHORS = "The author's decision; a framework cannot make it, and the documentation names it."
NOT_OFFERED = "Not offered."
SEE = "conversations/test_conversations.py::test_server_messages_match_the_transcript"

SESSION: Mapping[str, Requirement] = {
    # 1. Lifecycle and version negotiation
    "LIFE-01": CLIENT(
        "basic/lifecycle#initialization",
        "The client sends initialize before any other request.",
        "dispatch/methods/test_lifecycle.py::test_request_before_initialize_is_rejected",
    ),
    "LIFE-02": CLIENT(
        "basic/lifecycle#initialization",
        "The client sends protocolVersion, capabilities, and clientInfo with name and version in initialize.",
        "dispatch/methods/test_lifecycle.py::test_invalid_initialize_is_rejected_and_can_be_repeated",
    ),
    "LIFE-03": MUST(
        "basic/lifecycle#initialization",
        "The server answers initialize with protocolVersion, capabilities, and serverInfo.",
        "dispatch/methods/test_lifecycle.py::test_server_info_has_exactly_the_fields_of_the_revision",
        "dispatch/methods/test_lifecycle.py::test_server_declares_capabilities_of_its_components",
    ),
    "LIFE-04": MUST(
        "basic/lifecycle#version-negotiation",
        "The server answers initialize with the requested protocol version if it supports that version.",
        "dispatch/methods/test_lifecycle.py::test_requested_protocol_version_is_negotiated",
    ),
    "LIFE-05": MUST(
        "basic/lifecycle#version-negotiation",
        "The server answers with another version that it supports if it does not support the requested one.",
        "dispatch/methods/test_lifecycle.py::test_unsupported_protocol_version_is_answered_with_the_latest",
    ),
    "LIFE-06": SHOULD(
        "basic/lifecycle#version-negotiation",
        "The server answers with its newest version if it does not support the requested one.",
        "dispatch/methods/test_lifecycle.py::test_negotiation_is_limited_to_configured_protocol_versions",
    ),
    "LIFE-07": MAY(
        "basic/lifecycle#error-handling",
        "The server may reject an unsupported version with -32602 and a list of its versions.",
        because="The response to an unsupported version contains a supported one, as LIFE-05 requires.",
    ),
    "LIFE-08": CLIENT(
        "basic/lifecycle#version-negotiation",
        "The client disconnects if it cannot use the version in the initialize result.",
        "stores/test_memory.py::TestMemorySessions::test_idle_session_expires",
    ),
    "LIFE-09": CLIENT(
        "basic/lifecycle#initialization",
        "The client sends notifications/initialized after the initialize result.",
        "dispatch/methods/test_lifecycle.py::test_requests_are_answered_before_the_initialized_notification",
    ),
    "LIFE-10": SHOULD(
        "basic/lifecycle#initialization",
        "The server sends only ping requests and log messages before notifications/initialized.",
        "transports/http/session/test_get_stream.py::test_nothing_is_sent_before_the_initialized_notification",
    ),
    "LIFE-11": CLIENT(
        "basic/lifecycle#initialization",
        "The client sends only ping before the initialize result, so ping works without a session.",
        "dispatch/methods/test_lifecycle.py::test_ping_before_initialize_returns_empty_result",
    ),
    "LIFE-12": SHOULD(
        "basic/lifecycle#operation",
        "Both sides use the negotiated protocol version during the session (to 2025-03-26).",
        "transports/http/test_consumer.py::test_session_keeps_its_version_if_the_header_names_another_one",
        SEE,
    ),
    "LIFE-13": MUST(
        "basic/lifecycle#operation",
        "Both sides use the negotiated protocol version during the session (from 2025-06-18).",
        "transports/http/test_consumer.py::test_session_keeps_its_version_if_the_header_names_another_one",
        SEE,
    ),
    "LIFE-14": SHOULD(
        "basic/lifecycle#operation",
        "Both sides use only the negotiated capabilities (to 2025-03-26).",
        "frame/client/test_input_requests.py::test_elicitation_is_rejected_without_client_capability",
    ),
    "LIFE-15": MUST(
        "basic/lifecycle#operation",
        "Both sides use only the negotiated capabilities (from 2025-06-18).",
        "frame/client/test_input_requests.py::test_elicitation_is_rejected_without_client_capability",
        "frame/client/test_late_messages.py::test_log_messages_are_dropped_without_logging_capability",
    ),
    "LIFE-16": CLIENT(
        "basic/lifecycle#initialization",
        "The client does not send initialize inside a JSON-RPC batch (2025-03-26).",
        "transports/http/session/test_get_stream.py::test_batch_is_answered_by_an_array",
    ),
    "LIFE-17": MAY(
        "schema.ts#InitializeResult",
        "The server may return instructions in the initialize result.",
        "dispatch/methods/test_lifecycle.py::test_requested_protocol_version_is_negotiated",
    ),
    "LIFE-18": MUST(
        "schema.ts#Implementation",
        "serverInfo has name and version, and only those optional fields that the revision defines.",
        "dispatch/methods/test_lifecycle.py::test_server_info_has_exactly_the_fields_of_the_revision",
    ),
    "LIFE-19": MUST(
        "schema.ts#ServerCapabilities",
        "The server declares only the capability keys that the negotiated revision defines.",
        "dispatch/methods/test_lifecycle.py::test_server_declares_capabilities_of_its_components",
        "dispatch/methods/test_completion.py::test_completions_capability_is_declared_since_2025_03_26",
    ),
    "LIFE-20": MUST(
        "architecture/index#capability-negotiation",
        "The server declares every feature that it implements and uses no undeclared feature.",
        "dispatch/test_pagination.py::test_empty_server_declares_only_logging_and_rejects_list_methods",
        "transports/http/session/test_get_stream.py::test_initial_list_changed_is_sent_only_for_lists_with_components",
    ),
    "LIFE-21": MUST(
        "schema.ts#ClientCapabilities",
        "The server reads the client capabilities of the revision and accepts unknown capability keys.",
        "dispatch/test_messages.py::test_unknown_client_capabilities_are_accepted",
        "frame/client/test_input_requests.py::test_empty_elicitation_capability_allows_only_forms",
    ),
    "LIFE-22": MUST(
        "learn/versioning#negotiation",
        "Client and server use one protocol version for the whole session.",
        "dispatch/methods/test_lifecycle.py::test_second_initialize_in_a_session_is_rejected",
    ),
    "LIFE-23": SHOULD(
        "basic/lifecycle#timeouts",
        "The server sets a timeout for every request that it sends to the client.",
        "transports/http/session/test_input_requests.py::test_response_after_the_timeout_is_ignored",
    ),
    "LIFE-24": SHOULD(
        "basic/lifecycle#timeouts",
        "The server sends notifications/cancelled when its request times out, and stops waiting (from 2025-03-26).",
        "frame/client/test_input_requests.py::test_input_request_timeout_raises_and_cancels_the_request",
    ),
    "LIFE-25": SHOULD(
        "basic/lifecycle#timeouts",
        "Callers can set the timeout of each request (from 2025-03-26).",
        "frame/client/test_input_requests.py::test_input_request_timeout_raises_and_cancels_the_request",
    ),
    "LIFE-26": MAY(
        "basic/lifecycle#timeouts",
        "The server may restart the timeout of a request when progress arrives for it (from 2025-03-26).",
        because="The timeout of a request to the client is not restarted: the server requests no progress.",
    ),
    "LIFE-27": SHOULD(
        "basic/lifecycle#timeouts",
        "The server enforces a maximum timeout even if progress continues to arrive (from 2025-03-26).",
        "dispatch/test_cancellation.py::test_call_exceeding_the_handler_timeout_is_cancelled",
    ),
    "LIFE-28": SHOULD(
        "basic/lifecycle#error-handling",
        "The server handles version mismatch, missing capabilities, and request timeouts.",
        "dispatch/methods/test_lifecycle.py::test_unsupported_protocol_version_is_answered_with_the_latest",
        "transports/http/session/test_input_requests.py::test_response_after_the_timeout_is_ignored",
    ),
    "LIFE-29": MAY(
        "basic/lifecycle#shutdown",
        "A stdio server may end the session: it closes stdout and exits.",
        "transports/connection/test_stdio.py::test_sigterm_stops_the_process",
    ),
    "LIFE-30": CLIENT(
        "basic/lifecycle#shutdown",
        "A stdio client closes stdin, then sends SIGTERM, then SIGKILL; the server exits on end of input.",
        "transports/connection/test_stdio.py::test_stateless_and_session_requests_are_answered_until_stdin_closes",
        "transports/connection/test_stdio.py::test_sigterm_stops_the_process",
    ),
    "LIFE-31": MUST(
        "basic/lifecycle#shutdown",
        "Over HTTP, closed connections end the session; no shutdown message exists.",
        "transports/http/session/test_get_stream.py::test_delete_closes_streams_and_cancels_calls",
    ),
    "LIFE-32": MUST(
        "basic/index",
        "Every implementation supports the base protocol and the lifecycle.",
        SEE,
    ),
    # 2. JSON-RPC base protocol
    "RPC-01": MUST(
        "basic/index#messages",
        'All messages are valid JSON-RPC 2.0 with jsonrpc set to "2.0".',
        "dispatch/test_bad_input.py::test_invalid_jsonrpc_message_returns_invalid_request",
    ),
    "RPC-02": MUST(
        "basic/index#requests",
        "Every request has an id that is a string or an integer.",
        "dispatch/test_messages.py::test_response_repeats_the_request_id_with_its_type",
        "dispatch/test_bad_input.py::test_invalid_jsonrpc_message_returns_invalid_request",
        "frame/client/test_input_requests.py::test_input_request_ids_are_unique_in_a_session",
    ),
    "RPC-03": MUST(
        "basic/index#requests",
        "A request id is never null.",
        "dispatch/test_bad_input.py::test_invalid_jsonrpc_message_returns_invalid_request",
        "frame/client/test_input_requests.py::test_input_request_ids_are_unique_in_a_session",
    ),
    "RPC-04": MUST(
        "basic/index#requests",
        "A sender never uses a request id twice in one session.",
        "frame/client/test_input_requests.py::test_input_request_ids_are_unique_in_a_session",
        "dispatch/test_cancellation.py::test_request_with_id_of_running_request_is_rejected",
    ),
    "RPC-05": MUST(
        "basic/index#responses",
        "A response repeats the id of its request with the same JSON type.",
        "dispatch/test_messages.py::test_response_repeats_the_request_id_with_its_type",
        "dispatch/test_content.py::test_middleware_result_without_its_members_returns_internal_error",
    ),
    "RPC-06": MUST(
        "basic/index#responses",
        "A response has either result or error, never both.",
        "dispatch/test_messages.py::test_response_repeats_the_request_id_with_its_type",
    ),
    "RPC-07": MUST(
        "basic/index#error-responses",
        "A result response has result; an error response has error with code and message (2025-11-25).",
        "dispatch/test_messages.py::test_response_repeats_the_request_id_with_its_type",
        "testing/test_client.py::test_result_that_violates_the_official_schema_fails_the_test",
    ),
    "RPC-08": MAY(
        "basic/index#error-responses",
        "An error response may omit id only if the id of the request cannot be read (2025-11-25).",
        "dispatch/test_bad_input.py::test_invalid_json_returns_parse_error",
    ),
    "RPC-09": MUST(
        "basic/index#responses",
        "The error code is an integer.",
        "protocol/test_errors.py::test_every_revision_has_a_code_for_every_named_error",
    ),
    "RPC-10": MUST(
        "basic/index#responses",
        "Every error has at least code and message.",
        "protocol/test_errors.py::TestJsonRpc::test_error_serializes_to_a_response_with_the_request_id",
    ),
    "RPC-11": SHOULD(
        "schema.ts#Error",
        "The error message is one short sentence; details go into data.",
        SEE,
    ),
    "RPC-12": MUST(
        "basic/index#notifications",
        "A notification has no id.",
        SEE,
    ),
    "RPC-13": MUST(
        "basic/index#notifications",
        "The receiver never answers a notification, not even with an error (from 2025-03-26).",
        "transports/http/test_consumer.py::test_unknown_notification_is_accepted",
        "dispatch/test_cancellation.py::test_cancellation_of_unknown_request_is_ignored",
    ),
    "RPC-14": MUST(
        "schema.ts#Request",
        "params and result are JSON objects; params is optional.",
        "dispatch/test_bad_input.py::test_error_for_invalid_message_repeats_readable_request_id",
    ),
    "RPC-15": MUST(
        "JSON-RPC 2.0 §5.1",
        "The server uses the standard codes -32700 and -32600 to -32603 for protocol errors.",
        "dispatch/test_bad_input.py::test_invalid_json_returns_parse_error",
        "dispatch/test_bad_input.py::test_invalid_jsonrpc_message_returns_invalid_request",
        "dispatch/test_bad_input.py::test_unknown_method_returns_method_not_found",
        "dispatch/test_bad_input.py::test_tool_call_with_invalid_name_or_arguments_returns_invalid_params",
        "dispatch/test_bad_input.py::test_result_violating_the_output_schema_returns_internal_error",
    ),
    "RPC-16": MUST(
        "basic/transports",
        "Messages are encoded in UTF-8 (from 2025-03-26).",
        "dispatch/test_messages.py::test_unicode_and_control_characters_are_preserved",
        "dispatch/test_bad_input.py::test_invalid_json_returns_parse_error",
    ),
    "RPC-17": MUST(
        "schema.ts#Result",
        "The server accepts unknown members in messages, because no schema type is closed.",
        "dispatch/test_messages.py::test_unknown_members_and_notifications_are_ignored",
    ),
    "RPC-18": MUST(
        "basic/index#schema",
        "schema.ts defines all messages; schema.json is generated from it.",
        "testing/test_client.py::test_result_that_violates_the_official_schema_fails_the_test",
    ),
    "RPC-B1": MUST(
        "basic/index#batching",
        "The server accepts JSON-RPC batches on stdio and on HTTP (2025-03-26).",
        "transports/http/session/test_get_stream.py::test_batch_is_answered_by_an_array",
        "transports/connection/test_connection.py::test_batch_is_answered_by_an_array",
    ),
    "RPC-B2": MAY(
        "basic/index#batching",
        "The server may send batches (2025-03-26).",
        because="The responses to a batch are sent as one array; nothing else is sent as a batch.",
    ),
    "RPC-B3": MUST(
        "basic/transports#sending-messages-to-the-server",
        "A POST batch contains either requests and notifications or responses, never both (2025-03-26).",
        "transports/http/session/test_get_stream.py::test_invalid_batch_is_rejected_as_a_whole",
    ),
    "RPC-B4": MUST(
        "JSON-RPC 2.0 §6",
        "The server answers an empty batch with one -32600 error object (2025-03-26).",
        "transports/http/session/test_get_stream.py::test_invalid_batch_is_rejected_as_a_whole",
        SEE,
    ),
    "RPC-B5": MUST(
        "JSON-RPC 2.0 §6",
        "The server answers a batch with one response per request, and with nothing if there are none (2025-03-26).",
        "transports/http/session/test_get_stream.py::test_batch_is_answered_by_an_array",
        "transports/http/session/test_get_stream.py::test_batch_of_notifications_is_accepted",
    ),
    "RPC-B6": MUST(
        "JSON-RPC 2.0 §6",
        "An invalid batch element gets its own -32600 error; the other elements are processed (2025-03-26).",
        "transports/http/session/test_get_stream.py::test_batch_is_answered_by_an_array",
    ),
    "RPC-B7": MUST(
        "basic/transports#sending-messages-to-the-server",
        "A POST body or a stdio line contains exactly one message; arrays are invalid (from 2025-06-18).",
        "transports/test_conformance_scenarios.py::test_batch_is_rejected_as_a_whole",
        "transports/connection/test_connection.py::test_batch_is_rejected_by_revisions_without_batches",
    ),
    "RPC-B8": MUST(
        "schema.ts#JSONRPCMessage",
        "The schema defines no batches; the server rejects arrays with -32600 (2024-11-05).",
        "transports/test_conformance_scenarios.py::test_batch_is_rejected_as_a_whole",
        "transports/connection/test_connection.py::test_batch_is_rejected_by_revisions_without_batches",
    ),
    "META-01": MUST(
        "basic/index#meta",
        "Implementations assume no meaning of values at reserved _meta keys (from 2025-06-18).",
        "dispatch/test_meta.py::test_unknown_request_meta_is_passed_to_the_handler",
    ),
    "META-02": MUST(
        "basic/index#meta",
        "A _meta key has an optional prefix of dotted labels with a slash, and a name (from 2025-06-18).",
        "protocol/test_meta.py::test_meta_key_with_or_without_a_prefix_is_accepted",
        "dispatch/test_meta.py::test_invalid_or_reserved_meta_key_is_rejected",
    ),
    "META-03": MUST(
        "basic/index#meta",
        "Every prefix label starts with a letter and ends with a letter or digit (from 2025-06-18).",
        "protocol/test_meta.py::test_malformed_meta_key_is_rejected",
    ),
    "META-04": SHOULD(
        "basic/index#meta",
        "A _meta prefix uses reverse DNS notation (2025-11-25).",
        because="The author's choice; an invalid key raises an error with this remedy.",
    ),
    "META-05": MUST(
        "basic/index#meta",
        "A prefix with mcp or modelcontextprotocol before one final label is reserved (2025-06-18).",
        "protocol/test_meta.py::test_meta_key_with_a_reserved_prefix_is_rejected",
    ),
    "META-06": MUST(
        "basic/index#meta",
        "A prefix whose second label is mcp or modelcontextprotocol is reserved (2025-11-25).",
        "protocol/test_meta.py::test_meta_key_with_a_reserved_prefix_is_rejected",
    ),
    "META-07": MUST(
        "basic/index#meta",
        "A nonempty _meta name starts and ends with a letter or digit (from 2025-06-18).",
        "protocol/test_meta.py::test_malformed_meta_key_is_rejected",
    ),
    "META-08": MUST(
        "schema.ts#Result",
        "_meta occurs only in the params, results, and types that the revision defines.",
        "dispatch/test_meta.py::test_meta_of_tools_and_blocks_is_omitted_before_2025_06_18",
        "dispatch/test_content.py::test_block_meta_is_omitted_before_2025_06_18",
    ),
    "JSCH-01": MUST(
        "basic/index#json-schema-usage",
        "The server supports JSON Schema 2020-12 and uses it for schemas without $schema (2025-11-25).",
        "protocol/schema/test_compiler.py::test_default_dialect_is_2020_12_and_format_is_not_enforced",
    ),
    "JSCH-02": MAY(
        "basic/index#schema-dialect",
        "A schema may name another dialect in $schema (2025-11-25).",
        "protocol/schema/test_compiler.py::test_schema_is_compiled_in_its_declared_dialect",
    ),
    "JSCH-03": SHOULD(
        "basic/index#schema-dialect",
        "The documentation lists the supported dialects (2025-11-25).",
        "docs/test_pages.py::test_api_reference_lists_exactly_the_supported_json_schema_dialects",
    ),
    "JSCH-04": MUST(
        "basic/index#implementation-requirements",
        "The server validates each schema by its declared or default dialect (2025-11-25).",
        "protocol/schema/test_compiler.py::test_prefix_items_is_ignored_in_dialects_that_do_not_define_it",
    ),
    "JSCH-05": MUST(
        "basic/index#implementation-requirements",
        "The server reports an unsupported dialect with a clear error (2025-11-25).",
        "protocol/schema/test_compiler.py::test_unusable_schema_is_rejected_at_compile_time",
    ),
    "JSCH-06": MUST(
        "basic/index#schema-validation",
        "Published schemas are valid in their dialect (2025-11-25).",
        "protocol/schema/test_compiler.py::test_unusable_schema_is_rejected_at_compile_time",
        "components/test_tools.py::TestHandWrittenSchema::test_hand_written_schema_that_is_not_an_object_is_rejected",
    ),
    "JSCH-07": SHOULD(
        "basic/index#schema-dialect",
        "Schemas use JSON Schema 2020-12; the server sends their keywords unchanged (2025-11-25).",
        "protocol/schema/test_compiler.py::test_compiled_schema_keeps_all_keywords_and_ignores_later_changes",
    ),
    "ICON-01": MUST(
        "basic/index#icons",
        "An icon has src (http, https, or data URI) and optional mimeType, sizes, and theme (2025-11-25).",
        "protocol/test_content.py::test_icon_accepts_a_uri_a_mapping_or_an_icon",
        "protocol/test_content.py::test_icon_from_another_source_than_http_or_data_is_rejected",
    ),
    "ICON-02": MUST(
        "basic/index#icons",
        "Server info, tools, prompts, resources, and resource templates can have icons (2025-11-25).",
        "dispatch/test_pagination.py::test_listed_tool_has_exactly_the_fields_of_the_revision",
        "dispatch/test_pagination.py::test_listed_prompt_has_exactly_the_fields_of_the_revision",
        "dispatch/methods/test_lifecycle.py::test_server_info_has_exactly_the_fields_of_the_revision",
    ),
    "ICON-03": CLIENT(
        "basic/index#icons",
        "Clients that show icons support PNG and JPEG (2025-11-25).",
        because=DUTY,
    ),
    "ICON-04": MUST(
        "basic/index#icons",
        "A consumer of icons treats them as untrusted input (2025-11-25).",
        because="Icons of clients are neither fetched nor shown.",
    ),
    # 3. Transport: stdio
    "T-STDIO-01": MUST(
        "basic/transports#stdio",
        "The server reads messages from stdin and writes messages to stdout, one per line.",
        "transports/connection/test_stdio.py::test_stateless_and_session_requests_are_answered_until_stdin_closes",
    ),
    "T-STDIO-02": MUST(
        "basic/transports#stdio",
        "A message contains no newline.",
        "dispatch/test_messages.py::test_encoded_message_contains_no_line_breaks",
    ),
    "T-STDIO-03": MUST(
        "basic/transports#stdio",
        "The server writes only MCP messages to stdout.",
        "transports/connection/test_stdio.py::test_printed_output_goes_to_stderr",
    ),
    "T-STDIO-04": MAY(
        "basic/transports#stdio",
        "The server may write UTF-8 logs to stderr.",
        "transports/connection/test_stdio.py::test_printed_output_goes_to_stderr",
    ),
    "T-STDIO-05": CLIENT(
        "basic/transports#stdio",
        "The client writes only MCP messages to stdin; the server tolerates invalid input.",
        "transports/connection/test_stdio.py::test_malformed_lines_are_rejected_and_the_next_line_is_read",
    ),
    "T-STDIO-06": MUST(
        "basic/transports",
        "stdin and stdout use UTF-8 in every locale (from 2025-03-26).",
        "transports/connection/test_stdio.py::test_printed_output_goes_to_stderr",
    ),
    "T-STDIO-07": MUST(
        "basic/transports#stdio",
        "A line may contain a batch (2025-03-26).",
        "transports/connection/test_connection.py::test_batch_is_answered_by_an_array",
    ),
    "T-STDIO-08": MUST(
        "basic/transports#stdio",
        "A line contains one request, notification, or response (from 2025-06-18).",
        "transports/connection/test_connection.py::test_batch_is_rejected_by_revisions_without_batches",
    ),
    "T-STDIO-09": SHOULD(
        "basic/authorization#protocol-requirements",
        "A stdio server takes credentials from the environment and runs no HTTP authorization flow (from 2025-03-26).",
        "transports/connection/test_stdio.py::test_process_id_and_environment_are_available_to_handlers",
    ),
    "T-STDIO-10": CLIENT(
        "basic/transports#stdio",
        "The client does not treat output on stderr as an error (2025-11-25).",
        because=DUTY,
    ),
    "T-STDIO-11": CLIENT(
        "basic/transports",
        "Clients support stdio where possible, so the server can run over stdio.",
        "transports/connection/test_stdio.py::test_stateless_and_session_requests_are_answered_until_stdin_closes",
    ),
    # 4.1 Streamable HTTP: endpoint and security
    "T-HTTP-01": MUST(
        "basic/transports#streamable-http",
        "One endpoint path serves both POST and GET.",
        "transports/http/session/test_get_stream.py::test_get_opens_an_event_stream",
    ),
    "T-HTTP-02": MUST(
        "basic/transports#security-warning",
        "The server validates the Origin header of every connection.",
        "transports/http/test_consumer.py::test_foreign_origin_is_rejected",
        "transports/http/test_consumer.py::test_unknown_host_is_rejected",
    ),
    "T-HTTP-03": MUST(
        "basic/transports#security-warning",
        "The server answers 403 if Origin is present and not allowed (2025-11-25).",
        "transports/http/test_consumer.py::test_foreign_origin_is_rejected",
    ),
    "T-HTTP-04": MAY(
        "basic/transports#security-warning",
        "The 403 response may contain a JSON-RPC error without an id (2025-11-25).",
        "transports/http/test_consumer.py::test_foreign_origin_is_rejected",
    ),
    "T-HTTP-05": SHOULD(
        "basic/transports#security-warning",
        "A local server binds only to localhost.",
        "example_site/test_example_site.py::test_serve_binds_only_to_this_machine_by_default",
        because="The ASGI server binds the address; scripts/serve binds 127.0.0.1.",
    ),
    "T-HTTP-06": SHOULD(
        "basic/transports#security-warning",
        "The server authenticates all connections.",
        "transports/http/test_consumer.py::test_endpoint_without_authenticators_raises_improperly_configured",
    ),
    # 4.2 Streamable HTTP: POST
    "T-HTTP-10": CLIENT(
        "basic/transports#sending-messages-to-the-server",
        "The client sends every message in its own POST request.",
        because=DUTY,
    ),
    "T-HTTP-11": CLIENT(
        "basic/transports#sending-messages-to-the-server",
        "The client lists application/json and text/event-stream in Accept on POST.",
        "transports/http/test_consumer.py::test_accept_header_without_json_gets_406",
        "transports/http/test_consumer.py::test_client_that_accepts_only_json_receives_no_notifications",
    ),
    "T-HTTP-12": MUST(
        "basic/transports#sending-messages-to-the-server",
        "The POST body is one request, one notification, or one response (from 2025-06-18).",
        "transports/test_conformance_scenarios.py::test_batch_is_rejected_as_a_whole",
    ),
    "T-HTTP-13": MUST(
        "basic/transports#sending-messages-to-the-server",
        "The POST body is one message or a batch of messages (2025-03-26).",
        "transports/http/session/test_get_stream.py::test_batch_is_answered_by_an_array",
        "transports/http/session/test_get_stream.py::test_invalid_batch_is_rejected_as_a_whole",
    ),
    "T-HTTP-14": MUST(
        "basic/transports#sending-messages-to-the-server",
        "The server answers accepted notifications and responses with 202 and no body.",
        "transports/http/test_consumer.py::test_notification_is_accepted_with_an_empty_body",
        "transports/http/session/test_input_requests.py::test_input_request_is_sent_on_the_stream_of_its_call",
    ),
    "T-HTTP-15": MUST(
        "basic/transports#sending-messages-to-the-server",
        "The server rejects notifications and responses that it cannot accept with an HTTP error status.",
        "transports/http/session/test_input_requests.py::test_response_with_an_unknown_id_is_rejected",
        "transports/http/test_consumer.py::test_messages_that_need_a_session_are_rejected_without_one",
    ),
    "T-HTTP-16": MAY(
        "basic/transports#sending-messages-to-the-server",
        "That HTTP error may contain a JSON-RPC error without an id.",
        "transports/http/session/test_input_requests.py::test_response_with_an_unknown_id_is_rejected",
    ),
    "T-HTTP-17": MUST(
        "basic/transports#sending-messages-to-the-server",
        "The server answers a request with application/json or text/event-stream.",
        "transports/http/test_consumer.py::test_call_without_notifications_is_answered_as_json",
        "transports/http/test_consumer.py::test_stream_is_opened_by_the_first_notification",
    ),
    "T-HTTP-18": SHOULD(
        "basic/transports#sending-messages-to-the-server",
        "The server sends an event with an id and empty data when it opens an SSE stream (2025-11-25).",
        "transports/http/session/test_get_stream.py::test_post_stream_begins_with_a_priming_event",
    ),
    "T-HTTP-19": MAY(
        "basic/transports#sending-messages-to-the-server",
        "The server may close the connection but keep the stream after it has sent an event id (2025-11-25).",
        "transports/http/session/test_get_stream.py::test_stream_closed_by_the_handler_can_be_resumed",
    ),
    "T-HTTP-20": SHOULD(
        "basic/transports#sending-messages-to-the-server",
        "The server sends an SSE retry field before it closes such a connection (2025-11-25).",
        "transports/http/session/test_get_stream.py::test_stream_closed_by_the_handler_can_be_resumed",
    ),
    "T-HTTP-21": CLIENT(
        "basic/transports#sending-messages-to-the-server",
        "The client waits for the retry time before it reconnects (2025-11-25).",
        because=DUTY,
    ),
    "T-HTTP-22": SHOULD(
        "basic/transports#sending-messages-to-the-server",
        "The SSE stream finally contains the response to the request.",
        "transports/http/test_consumer.py::test_stream_is_opened_by_the_first_notification",
    ),
    "T-HTTP-23": MAY(
        "basic/transports#sending-messages-to-the-server",
        "The server may send requests and notifications on the stream before the response.",
        "transports/http/session/test_input_requests.py::test_input_request_is_sent_on_the_stream_of_its_call",
    ),
    "T-HTTP-24": SHOULD(
        "basic/transports#sending-messages-to-the-server",
        "Messages on the stream of a request relate to that request.",
        "transports/http/session/test_stream_choice.py::test_notifications_of_a_call_are_sent_only_on_its_own_stream",
    ),
    "T-HTTP-25": SHOULD(
        "basic/transports#sending-messages-to-the-server",
        "The server keeps the stream open until all responses are sent or the session expires (2025-03-26 to 2025-06-18).",
        "transports/http/session/test_get_stream.py::test_close_stream_is_ignored_where_streams_cannot_be_resumed",
    ),
    "T-HTTP-26": MAY(
        "basic/transports#sending-messages-to-the-server",
        "The server may end the stream when the session expires (2025-11-25).",
        "transports/http/session/test_get_stream.py::test_get_stream_is_closed_when_its_session_is_deleted",
    ),
    "T-HTTP-27": SHOULD(
        "basic/transports#sending-messages-to-the-server",
        "The server ends the stream after the response.",
        "transports/http/session/test_stream_choice.py::test_notifications_of_a_call_are_sent_only_on_its_own_stream",
    ),
    "T-HTTP-28": SHOULD(
        "basic/transports#sending-messages-to-the-server",
        "The server does not treat a lost connection as a cancellation.",
        "transports/http/test_consumer.py::test_session_call_continues_after_a_disconnect",
        "transports/http/session/test_get_stream.py::test_disconnect_neither_cancels_the_call_nor_loses_the_response",
    ),
    "T-HTTP-29": CLIENT(
        "basic/transports#sending-messages-to-the-server",
        "The client cancels a request only with notifications/cancelled.",
        "transports/http/session/test_input_requests.py::test_cancelled_call_is_stopped_and_answered_with_an_error",
    ),
    "T-HTTP-30": MAY(
        "basic/transports#sending-messages-to-the-server",
        "The server may make streams resumable.",
        "transports/http/session/test_get_stream.py::test_completed_response_can_be_replayed",
        "transports/http/session/test_get_stream.py::test_get_stream_resumes_after_the_last_event_id",
    ),
    # 4.3 Streamable HTTP: GET
    "T-HTTP-40": CLIENT(
        "basic/transports#listening-for-messages-from-the-server",
        "The client lists text/event-stream in Accept on GET.",
        "transports/http/session/test_get_stream.py::test_get_without_event_stream_in_accept_header_gets_406",
    ),
    "T-HTTP-41": MUST(
        "basic/transports#listening-for-messages-from-the-server",
        "The server answers GET with an SSE stream, or with 405 if it offers none.",
        "transports/http/session/test_get_stream.py::test_get_opens_an_event_stream",
    ),
    "T-HTTP-42": MAY(
        "basic/transports#listening-for-messages-from-the-server",
        "The server may send requests and notifications on the GET stream.",
        "transports/http/session/test_get_stream.py::test_initial_list_changed_notifications_are_sent_once_per_session",
        "transports/http/session/test_input_requests.py::test_server_can_ping_a_session_by_its_id",
    ),
    "T-HTTP-43": SHOULD(
        "basic/transports#listening-for-messages-from-the-server",
        "Messages on the GET stream are unrelated to running client requests.",
        "transports/http/session/test_stream_choice.py::test_notifications_of_a_call_are_sent_only_on_its_own_stream",
    ),
    "T-HTTP-44": MUST(
        "basic/transports#listening-for-messages-from-the-server",
        "The server sends responses on a GET stream only if it resumes the stream of a request.",
        "transports/http/session/test_stream_choice.py::test_notifications_of_a_call_are_sent_only_on_its_own_stream",
        "transports/http/session/test_stream_choice.py::test_resumed_stream_of_a_call_receives_no_message_for_the_session",
    ),
    "T-HTTP-45": MAY(
        "basic/transports#listening-for-messages-from-the-server",
        "Client and server may close the GET stream at any time.",
        "transports/http/session/test_get_stream.py::test_get_stream_is_closed_when_its_session_is_deleted",
    ),
    "T-HTTP-46": SHOULD(
        "basic/transports#listening-for-messages-from-the-server",
        "The server sends retry on the GET stream before it closes only the connection (2025-11-25).",
        "transports/http/session/test_get_stream.py::test_get_stream_begins_with_a_priming_event",
    ),
    # 4.4 Streamable HTTP: multiple streams and resumability
    "T-HTTP-50": CLIENT(
        "basic/transports#multiple-connections",
        "The client may keep several SSE streams open.",
        "transports/http/session/test_get_stream.py::test_notification_is_sent_only_on_the_newest_stream",
    ),
    "T-HTTP-51": MUST(
        "basic/transports#multiple-connections",
        "The server sends each message on exactly one stream.",
        "transports/http/session/test_get_stream.py::test_notification_is_sent_only_on_the_newest_stream",
        "transports/http/session/test_stream_choice.py::test_notifications_of_a_call_are_sent_only_on_its_own_stream",
        "transports/test_two_workers.py::test_newest_stream_is_active_on_any_worker",
        "transports/http/session/test_stream_choice.py::test_resumed_stream_of_a_call_receives_no_message_for_the_session",
    ),
    "T-HTTP-52": MUST(
        "basic/transports#multiple-connections",
        "The server never sends the same message on several streams of a client.",
        "transports/http/session/test_get_stream.py::test_notification_is_sent_only_on_the_newest_stream",
        "transports/http/session/test_get_stream.py::test_resumed_stream_closes_the_previous_connection",
    ),
    "T-HTTP-53": MAY(
        "basic/transports#resumability-and-redelivery",
        "The server may attach an id to SSE events.",
        "transports/http/session/test_get_stream.py::test_post_stream_begins_with_a_priming_event",
    ),
    "T-HTTP-54": MUST(
        "basic/transports#resumability-and-redelivery",
        "Event ids are unique across all streams of the session.",
        "transports/http/session/test_get_stream.py::test_event_ids_are_unique_across_streams",
    ),
    "T-HTTP-55": SHOULD(
        "basic/transports#resumability-and-redelivery",
        "An event id identifies its stream (2025-11-25).",
        "protocol/test_sse.py::test_event_id_contains_stream_and_sequence_number",
    ),
    "T-HTTP-56": MAY(
        "basic/transports#resumability-and-redelivery",
        "The server may replay missed messages of a stream after Last-Event-ID and then continue the stream.",
        "transports/http/session/test_get_stream.py::test_get_stream_resumes_after_the_last_event_id",
    ),
    "T-HTTP-57": MUST(
        "basic/transports#resumability-and-redelivery",
        "The server does not replay messages of another stream.",
        "transports/http/session/test_stream_choice.py::test_resumed_stream_replays_only_its_own_messages",
        "transports/http/session/test_get_stream.py::test_event_id_of_another_session_replays_nothing",
    ),
    "T-HTTP-58": MUST(
        "basic/transports#resumability-and-redelivery",
        "The client resumes every stream with GET and Last-Event-ID (2025-11-25).",
        "transports/http/session/test_get_stream.py::test_disconnect_neither_cancels_the_call_nor_loses_the_response",
        "transports/http/session/test_get_stream.py::test_stream_closed_by_the_handler_can_be_resumed",
        "transports/http/session/test_get_stream.py::test_get_stream_resumes_after_the_last_event_id",
    ),
    "T-HTTP-59": MUST(
        "basic/transports#resumability-and-redelivery",
        "An event id is a cursor within its own stream.",
        "transports/http/session/test_get_stream.py::test_replayed_events_are_not_replayed_again",
    ),
    "T-HTTP-5A": MUST(
        "WHATWG HTML §9.2.5",
        "SSE frames are well formed: a data prefix on every line, and no NUL or newline in an event id.",
        "protocol/test_sse.py::test_events_are_serialized_as_the_sse_standard_defines",
        "protocol/test_sse.py::test_event_field_with_a_line_break_or_nul_is_rejected",
    ),
    # 4.5 Streamable HTTP: sessions
    "T-HTTP-60": MAY(
        "basic/transports#session-management",
        "The server may assign a session id in the response to initialize.",
        "transports/http/test_consumer.py::test_initialize_response_carries_a_unique_session_id",
    ),
    "T-HTTP-61": SHOULD(
        "basic/transports#session-management",
        "The session id is globally unique and cryptographically secure.",
        "transports/http/test_consumer.py::test_initialize_response_carries_a_unique_session_id",
    ),
    "T-HTTP-62": MUST(
        "basic/transports#session-management",
        "The session id contains only visible ASCII characters.",
        "transports/http/test_consumer.py::test_initialize_response_carries_a_unique_session_id",
    ),
    "T-HTTP-63": CLIENT(
        "basic/transports#session-management",
        "The client sends the session id with every later HTTP request.",
        "transports/http/test_consumer.py::test_messages_that_need_a_session_are_rejected_without_one",
    ),
    "T-HTTP-64": SHOULD(
        "basic/transports#session-management",
        "The server answers 400 if a request other than initialize lacks a required session id.",
        "transports/http/test_consumer.py::test_messages_that_need_a_session_are_rejected_without_one",
    ),
    "T-HTTP-65": MAY(
        "basic/transports#session-management",
        "The server may end a session at any time.",
        "test_admin.py::test_selected_sessions_are_deleted_after_confirmation",
    ),
    "T-HTTP-66": MUST(
        "basic/transports#session-management",
        "The server answers 404 if the session of a request has ended.",
        "transports/http/test_consumer.py::test_deleted_session_is_not_found",
        "transports/http/test_consumer.py::test_unknown_session_is_not_found",
    ),
    "T-HTTP-67": CLIENT(
        "basic/transports#session-management",
        "The client initializes a new session after such a 404.",
        because=DUTY,
    ),
    "T-HTTP-68": CLIENT(
        "basic/transports#session-management",
        "The client sends DELETE when it no longer needs the session.",
        "transports/http/session/test_get_stream.py::test_delete_closes_streams_and_cancels_calls",
    ),
    "T-HTTP-69": MAY(
        "basic/transports#session-management",
        "The server may reject DELETE with 405.",
        because="DELETE is never rejected: every client may end its own session.",
    ),
    "T-HTTP-6A": MUST(
        "RFC 9110 §5.1",
        "The server compares header names without regard to case.",
        "frame/test_frame.py::TestTransport::test_header_lookup_ignores_case",
        "clients/test_results.py::test_assigns_are_kept_in_a_session_but_not_between_stateless_requests",
    ),
    "T-HTTP-6B": CLIENT(
        "basic/transports#session-management",
        "The client protects the session id as a secret (2025-11-25).",
        because=DUTY,
    ),
    # 4.6 Streamable HTTP: protocol version header and compatibility
    "T-HTTP-70": CLIENT(
        "basic/transports#protocol-version-header",
        "The client sends MCP-Protocol-Version with every request after initialize (from 2025-06-18).",
        "transports/http/test_consumer.py::test_version_header_is_optional_in_a_session",
    ),
    "T-HTTP-71": CLIENT(
        "basic/transports#protocol-version-header",
        "MCP-Protocol-Version names the negotiated version (from 2025-06-18).",
        "transports/http/test_consumer.py::test_session_keeps_its_version_if_the_header_names_another_one",
    ),
    "T-HTTP-72": SHOULD(
        "basic/transports#protocol-version-header",
        "The server assumes 2025-03-26 if the header is missing and the version is not known otherwise (from 2025-06-18).",
        "transports/http/test_consumer.py::test_messages_that_need_a_session_are_rejected_without_one",
        because="Every request of these revisions names a session, whose version is known.",
    ),
    "T-HTTP-73": MUST(
        "basic/transports#protocol-version-header",
        "The server answers 400 if MCP-Protocol-Version is invalid or unsupported (from 2025-06-18).",
        "transports/test_conformance_scenarios.py::test_unknown_version_header_in_a_session_is_rejected",
        "transports/test_conformance_scenarios.py::test_unknown_version_header_is_rejected_for_every_http_method",
    ),
    "T-HTTP-74": MUST(
        "basic/transports#streamable-http",
        "The server does not require MCP-Protocol-Version, which these revisions do not define (to 2025-03-26).",
        "transports/http/test_consumer.py::test_version_header_is_optional_in_a_session",
    ),
    "T-HTTP-80": SHOULD(
        "basic/transports#backwards-compatibility",
        "A server for old clients keeps the SSE and POST endpoints of 2024-11-05.",
        "transports/http/test_http_sse.py::test_first_event_names_the_message_endpoint",
    ),
    "T-HTTP-81": MAY(
        "basic/transports#backwards-compatibility",
        "The server may combine the old POST endpoint with the MCP endpoint.",
        because="The endpoints of both transports are separate.",
    ),
    "T-HTTP-82": CLIENT(
        "basic/transports#backwards-compatibility",
        "The client falls back to HTTP+SSE if its initialize POST gets any 4xx status (2025-03-26 to 2025-06-18).",
        "transports/http/test_http_sse.py::test_wrong_http_method_gets_405_with_an_allow_header",
    ),
    "T-HTTP-83": CLIENT(
        "basic/transports#backwards-compatibility",
        "The client falls back to HTTP+SSE if its initialize POST gets 400, 404, or 405 (2025-11-25).",
        "transports/http/test_http_sse.py::test_wrong_http_method_gets_405_with_an_allow_header",
    ),
    "T-CUST-01": MAY(
        "basic/transports#custom-transports",
        "Implementations may provide custom transports.",
        "transports/connection/test_connection.py::test_input_request_is_answered_over_stdio",
    ),
    "T-CUST-02": MUST(
        "basic/transports#custom-transports",
        "A custom transport keeps the JSON-RPC format and the lifecycle.",
        "transports/connection/test_connection.py::test_input_request_is_answered_over_stdio",
    ),
    "T-CUST-03": SHOULD(
        "basic/transports#custom-transports",
        "A custom transport documents how connections are opened and messages are exchanged.",
        because="Documentation: docs/writing/transport.md.",
    ),
    "T-CUST-04": MUST(
        "basic/authorization#protocol-requirements",
        "Other transports follow the security practice of their protocol (from 2025-03-26).",
        "transports/http/test_http_sse.py::test_foreign_origin_is_rejected_by_both_endpoints",
        "transports/connection/test_stdio.py::test_process_id_and_environment_are_available_to_handlers",
    ),
    # 5. Transport: old HTTP+SSE
    "T-SSE-01": MUST(
        "basic/transports#http-with-sse",
        "The server has one SSE endpoint for GET and one endpoint for POST.",
        "transports/http/test_http_sse.py::test_first_event_names_the_message_endpoint",
    ),
    "T-SSE-02": MUST(
        "basic/transports#http-with-sse",
        "The server first sends an endpoint event with the URI for POST requests.",
        "transports/http/test_http_sse.py::test_first_event_names_the_message_endpoint",
    ),
    "T-SSE-03": CLIENT(
        "basic/transports#http-with-sse",
        "The client sends all its messages as POST requests to that URI.",
        "transports/http/test_http_sse.py::test_wrong_http_method_gets_405_with_an_allow_header",
    ),
    "T-SSE-04": MUST(
        "basic/transports#http-with-sse",
        "The server sends all its messages as SSE message events with JSON data.",
        "transports/http/test_http_sse.py::test_notifications_and_server_requests_are_sent_on_the_stream",
    ),
    "T-SSE-05": MUST(
        "basic/transports#security-warning",
        "The server validates the Origin header on both endpoints.",
        "transports/http/test_http_sse.py::test_foreign_origin_is_rejected_by_both_endpoints",
    ),
    "T-SSE-06": SHOULD(
        "basic/transports#security-warning",
        "A local server binds to localhost; the server authenticates all connections.",
        "transports/http/test_http_sse.py::test_post_by_another_principal_is_not_found",
        "example_site/test_example_site.py::test_serve_binds_only_to_this_machine_by_default",
        because="The ASGI server binds the address; scripts/serve binds 127.0.0.1.",
    ),
    "T-SSE-07": MUST(
        "basic/transports#http-with-sse",
        "The SSE connection is the session; the POST URI identifies it with an unguessable key.",
        "transports/http/test_http_sse.py::test_each_connection_has_its_own_endpoint_uri",
        "transports/http/test_http_sse.py::test_invalid_endpoint_key_is_rejected",
        "transports/http/test_http_sse.py::test_post_by_another_principal_is_not_found",
    ),
    "T-SSE-08": MUST(
        "basic/lifecycle#shutdown",
        "The end of the SSE connection ends the session.",
        "transports/http/test_http_sse.py::test_disconnect_ends_the_session_and_cancels_its_calls",
    ),
    # 6. Cancellation
    "CANC-01": MUST(
        "basic/utilities/cancellation#behavior-requirements",
        "The server cancels only its own requests that are still pending.",
        "transports/http/session/test_input_requests.py::test_response_after_the_timeout_is_ignored",
        "transports/http/session/test_input_requests.py::test_cancelled_call_cancels_its_input_request",
    ),
    "CANC-02": CLIENT(
        "basic/utilities/cancellation#behavior-requirements",
        "The client never cancels initialize.",
        "dispatch/test_messages.py::test_initialize_request_cannot_be_cancelled",
    ),
    "CANC-03": MUST(
        "basic/utilities/cancellation#behavior-requirements",
        "A task is cancelled with tasks/cancel, not with notifications/cancelled (2025-11-25).",
        "dispatch/methods/test_tasks.py::test_cancelled_task_stops_its_handler",
    ),
    "CANC-04": SHOULD(
        "basic/utilities/cancellation#behavior-requirements",
        "The server stops processing a cancelled request.",
        "dispatch/test_cancellation.py::test_cancelled_request_stops_its_handler_and_discards_its_frame",
    ),
    "CANC-05": SHOULD(
        "basic/utilities/cancellation#behavior-requirements",
        "The server frees the resources of a cancelled request.",
        "dispatch/test_cancellation.py::test_cancelled_request_stops_its_handler_and_discards_its_frame",
    ),
    "CANC-06": SHOULD(
        "basic/utilities/cancellation#behavior-requirements",
        "The server sends no response to a cancelled request.",
        "dispatch/test_cancellation.py::test_cancelled_request_over_stdio_receives_no_response",
        "transports/http/session/test_input_requests.py::test_cancelled_call_cancels_its_input_request",
        because="An HTTP response that is no stream yet returns the error Cancelled.",
    ),
    "CANC-07": MAY(
        "basic/utilities/cancellation#behavior-requirements",
        "The server may ignore a cancellation of an unknown, finished, or uncancellable request.",
        "dispatch/test_cancellation.py::test_cancellation_of_unknown_request_is_ignored",
    ),
    "CANC-08": SHOULD(
        "basic/utilities/cancellation#behavior-requirements",
        "The server discards a late response to a request that it has cancelled.",
        "transports/http/session/test_input_requests.py::test_response_after_the_timeout_is_ignored",
    ),
    "CANC-09": MUST(
        "basic/utilities/cancellation#timing-considerations",
        "Both sides handle races between cancellation and response.",
        "transports/http/session/test_input_requests.py::test_cancellation_before_its_request_prevents_the_call",
        "transports/http/session/test_input_requests.py::test_cancellation_with_an_unknown_request_id_is_ignored",
        "transports/http/session/test_input_requests.py::test_response_after_the_timeout_is_ignored",
    ),
    "CANC-10": SHOULD(
        "basic/utilities/cancellation#implementation-notes",
        "The server logs the reason of a cancellation.",
        "dispatch/test_cancellation.py::test_cancellation_reason_is_logged",
    ),
    "CANC-11": SHOULD(
        "basic/utilities/cancellation#error-handling",
        "The server ignores invalid cancellations.",
        "dispatch/test_cancellation.py::test_cancellation_of_unknown_request_is_ignored",
    ),
    "CANC-12": MUST(
        "schema.ts#CancelledNotificationParams",
        "requestId is present in a cancellation and names no task (2025-11-25).",
        "dispatch/test_cancellation.py::test_cancellation_of_unknown_request_is_ignored",
        "transports/http/session/test_input_requests.py::test_response_after_the_timeout_is_ignored",
    ),
    "CANC-13": MUST(
        "basic/utilities/cancellation#behavior-requirements",
        "A cancellation by the client refers only to requests of the client.",
        "dispatch/test_messages.py::test_cancellation_of_unknown_ids_does_not_affect_a_running_request",
        "dispatch/test_cancellation.py::test_cancellation_with_request_id_of_another_type_is_ignored",
    ),
    # 7. Progress
    "PROG-01": MUST(
        "basic/utilities/progress#progress-flow",
        "A progress token is a string or an integer; the server repeats it unchanged.",
        "frame/client/test_progress_and_logs.py::test_progress_notification_repeats_the_token_with_its_type",
    ),
    "PROG-02": MUST(
        "basic/utilities/progress#progress-flow",
        "Progress tokens of the server are unique across its active requests.",
        because="The server requests no progress from clients, so it issues no tokens.",
    ),
    "PROG-03": MAY(
        "basic/utilities/progress#progress-flow",
        "The server may send progress with progressToken, progress, and optional total and message.",
        "frame/client/test_progress_and_logs.py::test_notifications_are_delivered_in_order_before_the_response",
    ),
    "PROG-04": MUST(
        "basic/utilities/progress#progress-flow",
        "progress increases with every notification.",
        "frame/client/test_progress_and_logs.py::test_progress_that_does_not_increase_is_dropped",
        "frame/client/test_late_messages.py::test_copies_of_a_frame_share_one_increasing_progress",
    ),
    "PROG-05": MAY(
        "basic/utilities/progress#progress-flow",
        "progress and total may be floating-point numbers.",
        "frame/client/test_late_messages.py::test_copies_of_a_frame_share_one_increasing_progress",
    ),
    "PROG-06": SHOULD(
        "basic/utilities/progress#progress-flow",
        "message describes the progress in readable text (from 2025-03-26).",
        SEE,
        because=AUTHORS,
    ),
    "PROG-07": MUST(
        "basic/utilities/progress#behavior-requirements",
        "The server sends progress only for a token of an active request.",
        "frame/client/test_progress_and_logs.py::test_progress_is_not_sent_without_a_progress_token",
        "frame/client/test_late_messages.py::test_notifications_after_the_response_are_dropped",
    ),
    "PROG-08": MAY(
        "basic/utilities/progress#behavior-requirements",
        "The server may send no progress, choose the frequency, and omit total.",
        "frame/client/test_progress_and_logs.py::test_progress_is_not_sent_without_a_progress_token",
    ),
    "PROG-09": MUST(
        "basic/utilities/progress#implementation-notes",
        "The server sends no progress after the response.",
        "frame/client/test_late_messages.py::test_notifications_after_the_response_are_dropped",
        "frame/client/test_late_messages.py::test_notifications_of_a_cancelled_request_are_dropped",
    ),
    "PROG-10": SHOULD(
        "basic/utilities/progress#implementation-notes",
        "The server tracks active progress tokens.",
        "frame/client/test_late_messages.py::test_notifications_after_the_response_are_dropped",
    ),
    "PROG-11": SHOULD(
        "basic/utilities/progress#implementation-notes",
        "The server limits the rate of progress notifications.",
        "transports/http/test_consumer.py::test_async_handler_waits_for_a_slow_client",
        "transports/http/test_consumer.py::test_sync_handler_waits_for_a_slow_client",
    ),
    "PROG-12": MUST(
        "basic/utilities/progress#behavior-requirements",
        "A task uses the progress token of its original request until it ends (2025-11-25).",
        "dispatch/methods/test_tasks.py::test_messages_of_a_task_are_sent_on_the_stream_of_its_result",
    ),
    "PROG-13": MUST(
        "basic/utilities/progress#behavior-requirements",
        "The server sends no progress for a task that has ended (2025-11-25).",
        "dispatch/methods/test_tasks.py::test_messages_of_a_task_are_sent_on_the_stream_of_its_result",
    ),
    # 8. Ping
    "PING-01": MUST(
        "basic/utilities/ping#behavior-requirements",
        "The server answers ping promptly with an empty result.",
        "dispatch/methods/test_lifecycle.py::test_ping_in_a_session_returns_empty_result",
        "dispatch/methods/test_lifecycle.py::test_ping_before_initialize_returns_empty_result",
        "transports/connection/test_stdio.py::test_calls_run_concurrently",
    ),
    "PING-02": MAY(
        "basic/utilities/ping#behavior-requirements",
        "The server may close a connection if a ping is not answered in time.",
        "transports/http/session/test_input_requests.py::test_server_can_ping_a_session_by_its_id",
    ),
    "PING-03": SHOULD(
        "basic/utilities/ping#implementation-considerations",
        "The server pings periodically to detect lost connections.",
        "transports/http/session/test_get_stream.py::test_open_streams_send_keepalive_comments",
        because="Keepalive comments detect closed streams; Server.aping sends a ping with a response.",
    ),
    "PING-04": SHOULD(
        "basic/utilities/ping#implementation-considerations",
        "The ping interval is configurable and not excessive; the timeout suits the network.",
        "transports/http/session/test_get_stream.py::test_open_streams_send_keepalive_comments",
    ),
    "PING-05": SHOULD(
        "basic/utilities/ping#error-handling",
        "The server treats a ping timeout as a lost connection and logs it.",
        "transports/http/session/test_input_requests.py::test_server_can_ping_a_session_by_its_id",
    ),
    "PING-06": MAY(
        "basic/utilities/ping#error-handling",
        "The server may reset the connection after several failed pings.",
        because="The caller of aping decides what follows from a missing response.",
    ),
    # 9. Tools
    "TOOL-01": MUST(
        "server/tools#capabilities",
        "A server with tools declares the tools capability, with listChanged if it sends that notification.",
        "dispatch/methods/test_lifecycle.py::test_server_declares_capabilities_of_its_components",
        "dispatch/test_pagination.py::test_empty_server_declares_only_logging_and_rejects_list_methods",
        "dispatch/methods/test_lifecycle.py::test_server_declares_that_it_sends_list_changes",
    ),
    "TOOL-02": MUST(
        "server/tools#listing-tools",
        "tools/list returns the tools and supports pagination.",
        "dispatch/test_pagination.py::test_list_is_sorted_by_order_and_then_by_name",
        "dispatch/test_pagination.py::test_every_page_but_the_last_has_a_next_cursor",
    ),
    "TOOL-03": SHOULD(
        "server/tools#list-changed-notification",
        "A server that declares listChanged sends notifications/tools/list_changed.",
        "pubsub/test_publisher.py::test_changes_at_run_time_send_one_notification_per_list",
        "transports/connection/test_connection.py::test_list_changes_are_sent_to_the_session",
    ),
    "TOOL-04": MUST(
        "schema.ts#Tool",
        "Every tool has a name and an inputSchema whose root type is object.",
        "dispatch/test_pagination.py::test_listed_tool_has_exactly_the_fields_of_the_revision",
        "dispatch/test_pagination.py::test_boolean_property_schemas_are_listed_only_in_2026_07_28",
    ),
    "TOOL-05": MUST(
        "server/tools#tool",
        "inputSchema is a JSON Schema object, never null (2025-11-25).",
        "components/test_tools.py::TestHandWrittenSchema::test_hand_written_schema_that_is_not_an_object_is_rejected",
    ),
    "TOOL-06": SHOULD(
        "server/tools#tool",
        "The inputSchema of a tool without arguments sets additionalProperties to false (2025-11-25).",
        "components/test_signatures.py::TestInputSchema::test_input_schema_without_parameters_allows_no_properties",
    ),
    "TOOL-07": SHOULD(
        "server/tools#tool-names",
        "A tool name has 1 to 128 characters (2025-11-25).",
        "dispatch/test_pagination.py::test_component_name_with_valid_characters_is_accepted",
        "dispatch/test_pagination.py::test_component_name_with_invalid_characters_or_length_is_rejected",
    ),
    "TOOL-08": SHOULD(
        "server/tools#tool-names",
        "Tool names are case-sensitive (2025-11-25).",
        "dispatch/test_pagination.py::test_component_names_are_case_sensitive",
    ),
    "TOOL-09": SHOULD(
        "server/tools#tool-names",
        "A tool name contains only ASCII letters, digits, underscore, hyphen, and dot (2025-11-25).",
        "dispatch/test_pagination.py::test_component_name_with_invalid_characters_or_length_is_rejected",
    ),
    "TOOL-10": SHOULD(
        "server/tools#tool-names",
        "A tool name contains no spaces, commas, or other special characters (2025-11-25).",
        "dispatch/test_pagination.py::test_component_name_with_invalid_characters_or_length_is_rejected",
    ),
    "TOOL-11": SHOULD(
        "server/tools#tool-names",
        "Tool names are unique within a server (2025-11-25).",
        "dispatch/test_pagination.py::test_duplicate_name_is_rejected_with_both_source_locations",
    ),
    "TOOL-12": MAY(
        "schema.ts#Tool",
        "A tool may have a title for display (from 2025-06-18).",
        "components/test_tools.py::TestTitle::test_display_title_is_annotation_title_then_title_then_name",
    ),
    "TOOL-13": MAY(
        "schema.ts#ToolAnnotations",
        "A tool may have annotations, which are hints about its behavior (from 2025-03-26).",
        "dispatch/test_pagination.py::test_listed_tool_has_exactly_the_fields_of_the_revision",
    ),
    "TOOL-14": MAY(
        "server/tools#output-schema",
        "A tool may have an outputSchema whose root type is object (from 2025-06-18).",
        "dispatch/test_structured_output.py::test_pydantic_model_is_sent_as_structured_content_and_text",
    ),
    "TOOL-15": MUST(
        "server/tools#output-schema",
        "Structured results conform to the outputSchema of the tool (from 2025-06-18).",
        "dispatch/test_bad_input.py::test_result_violating_the_output_schema_returns_internal_error",
        "dispatch/test_structured_output.py::test_response_violating_the_output_schema_returns_internal_error",
    ),
    "TOOL-16": MUST(
        "server/tools#structured-content",
        "structuredContent is a JSON object (from 2025-06-18).",
        "dispatch/test_structured_output.py::test_list_result_is_wrapped_in_an_object_before_2026_07_28",
    ),
    "TOOL-17": SHOULD(
        "server/tools#structured-content",
        "The server also returns structured content as JSON in a text block (from 2025-06-18).",
        "dispatch/test_structured_output.py::test_pydantic_model_is_sent_as_structured_content_and_text",
    ),
    "TOOL-18": MUST(
        "schema.ts#CallToolResult",
        "A tool result always has a content array.",
        "dispatch/methods/test_tools.py::test_none_result_is_sent_as_empty_content",
        SEE,
    ),
    "TOOL-19": MUST(
        "server/tools#tool-result",
        "A tool result contains only block types of the negotiated revision.",
        "dispatch/test_content.py::test_audio_is_sent_as_embedded_resource_in_2024_11_05",
        "dispatch/test_content.py::test_resource_link_is_sent_as_text_before_2025_06_18",
    ),
    "TOOL-20": MUST(
        "server/tools#tool-result",
        "Image and audio blocks have base64 data and a MIME type.",
        "protocol/test_content.py::test_bytes_are_encoded_in_standard_base64",
        "dispatch/test_content.py::test_text_and_image_blocks_are_sent_in_every_revision",
    ),
    "TOOL-21": MAY(
        "server/tools#resource-links",
        "A tool may return resource links that are not in resources/list (from 2025-06-18).",
        "protocol/test_content.py::test_resource_link_omits_missing_fields",
    ),
    "TOOL-22": MAY(
        "server/tools#embedded-resources",
        "A tool may embed resources in its result.",
        "dispatch/test_content.py::test_embedded_resources_are_sent_in_every_revision",
    ),
    "TOOL-23": SHOULD(
        "server/tools#embedded-resources",
        "A server that embeds resources declares the resources capability (from 2025-06-18).",
        because="Embedding resources without the capability is allowed, because nobody could read them.",
    ),
    "TOOL-24": MAY(
        "schema.ts#TextContent",
        "Content blocks may have annotations: audience, priority, and lastModified from 2025-06-18.",
        "dispatch/test_content.py::test_last_modified_annotation_is_omitted_before_2025_06_18",
        "protocol/test_content.py::test_priority_that_is_no_number_from_0_to_1_is_rejected",
    ),
    "TOOL-25": MUST(
        "server/tools#error-handling",
        "The server answers an unknown tool with a JSON-RPC error.",
        "dispatch/test_bad_input.py::test_tool_call_with_invalid_name_or_arguments_returns_invalid_params",
    ),
    "TOOL-26": MUST(
        "server/tools#error-handling",
        "The server answers a malformed tools/call request with a JSON-RPC error (2025-11-25).",
        "dispatch/test_bad_input.py::test_tool_call_with_invalid_name_or_arguments_returns_invalid_params",
    ),
    "TOOL-27": MUST(
        "server/tools#error-handling",
        "The server reports invalid arguments in a tool result with isError set to true (2025-11-25).",
        "dispatch/test_bad_input.py::test_arguments_violating_the_schema_return_an_error_result",
    ),
    "TOOL-28": MUST(
        "server/tools#error-handling",
        "The server may report invalid arguments in a tool result with isError set to true (to 2025-06-18).",
        "dispatch/test_bad_input.py::test_arguments_violating_the_schema_return_an_error_result",
    ),
    "TOOL-29": SHOULD(
        "schema.ts#CallToolResult",
        "The server reports errors of the tool itself in a result with isError set to true.",
        "dispatch/methods/test_tools.py::test_tool_error_is_returned_as_an_error_result",
        "dispatch/methods/test_tools.py::test_exception_is_logged_and_its_message_is_not_sent_to_the_client",
    ),
    "TOOL-30": MUST(
        "server/tools#security-considerations",
        "The server validates all tool inputs.",
        "dispatch/test_bad_input.py::test_arguments_violating_the_schema_return_an_error_result",
        "dispatch/methods/test_tools.py::test_explicit_input_schema_is_enforced",
    ),
    "TOOL-31": MUST(
        "server/tools#security-considerations",
        "The server implements access control for tools.",
        "dispatch/test_visibility.py::test_forbidden_component_returns_the_same_error_as_a_missing_one",
    ),
    "TOOL-32": MUST(
        "server/tools#security-considerations",
        "The server limits the rate of tool calls.",
        "test_middleware.py::test_calls_and_completions_share_one_rate_limit",
        "transports/http/session/test_input_requests.py::test_request_beyond_the_in_flight_limit_is_rejected",
    ),
    "TOOL-33": MUST(
        "server/tools#security-considerations",
        "The server sanitizes tool outputs.",
        "dispatch/test_bad_input.py::test_result_violating_the_output_schema_returns_internal_error",
        "dispatch/methods/test_tools.py::test_exception_is_logged_and_its_message_is_not_sent_to_the_client",
        because="The author decides on the content; output is validated against the schema, and errors reveal no details.",
    ),
    "TOOL-34": MAY(
        "server/tools#tool",
        "A tool may declare its task support in execution.taskSupport (2025-11-25).",
        "dispatch/methods/test_tasks.py::test_task_support_of_tools_is_listed_in_sessions_alone",
    ),
    "TOOL-35": MAY(
        "server/tools#tool",
        "A tool may have icons (2025-11-25).",
        "dispatch/test_pagination.py::test_listed_tool_has_exactly_the_fields_of_the_revision",
    ),
    "TOOL-36": MAY(
        "schema.ts#Tool",
        "Tools and content blocks may have _meta (from 2025-06-18).",
        "dispatch/test_meta.py::test_meta_of_tools_and_blocks_is_omitted_before_2025_06_18",
    ),
    "TOOL-37": MUST(
        "schema.ts#CallToolRequest",
        "arguments of tools/call is an optional object; the default is an empty object.",
        "dispatch/methods/test_tools.py::test_call_without_arguments_uses_defaults",
    ),
    # 10. Resources
    "RES-01": MUST(
        "server/resources#capabilities",
        "A server with resources declares the capability; subscribe and listChanged are optional.",
        "dispatch/methods/test_lifecycle.py::test_server_declares_capabilities_of_its_components",
        "dispatch/methods/test_lifecycle.py::test_server_declares_that_it_sends_list_changes",
    ),
    "RES-02": MUST(
        "server/resources#listing-resources",
        "resources/list returns the resources and supports pagination.",
        "dispatch/test_pagination.py::test_every_page_but_the_last_has_a_next_cursor",
    ),
    "RES-03": MUST(
        "server/resources#reading-resources",
        "resources/read returns contents, each with a uri and either text or blob.",
        "dispatch/methods/test_resources.py::test_string_is_read_as_text_contents",
        "dispatch/methods/test_resources.py::test_bytes_are_read_as_a_blob",
        "dispatch/methods/test_resources.py::test_resource_response_returns_several_contents",
    ),
    "RES-04": MUST(
        "server/resources#resource-templates",
        "resources/templates/list returns templates with RFC 6570 URI templates.",
        "dispatch/methods/test_resources.py::test_template_variables_are_decoded_and_converted_to_annotated_types",
        "protocol/test_uri_templates.py::test_template_expands_as_rfc_6570_defines",
    ),
    "RES-05": SHOULD(
        "server/resources#list-changed-notification",
        "A server that declares listChanged sends notifications/resources/list_changed.",
        "pubsub/test_publisher.py::test_changes_at_run_time_send_one_notification_per_list",
    ),
    "RES-06": MUST(
        "server/resources#subscriptions",
        "A server that declares subscribe serves resources/subscribe and resources/unsubscribe.",
        SEE,
        "clients/test_changes.py::test_session_receives_no_updates_after_unsubscribe",
    ),
    "RES-07": MUST(
        "schema.ts#ResourceUpdatedNotification",
        "The server sends notifications/resources/updated only to sessions that subscribed to the URI.",
        "pubsub/test_publisher.py::test_resource_updates_are_sent_only_while_subscribed",
        "transports/connection/test_connection.py::test_resource_updates_are_sent_only_while_subscribed",
    ),
    "RES-08": MUST(
        "schema.ts#Resource",
        "Every resource has uri and name; the revision defines the optional fields.",
        "dispatch/test_pagination.py::test_listed_resource_has_exactly_the_fields_of_the_revision",
        "dispatch/test_pagination.py::test_descriptions_are_listed_in_every_revision",
    ),
    "RES-09": MAY(
        "schema.ts#Resource",
        "A resource may have the annotations audience, priority, and lastModified.",
        "protocol/test_content.py::test_annotations_accept_snake_case_and_camel_case_keys",
        "protocol/test_content.py::test_priority_that_is_no_number_from_0_to_1_is_rejected",
    ),
    "RES-10": SHOULD(
        "server/resources#common-uri-schemes",
        "A resource uses an https URI only if the client can fetch it directly.",
        because=AUTHORS,
    ),
    "RES-11": SHOULD(
        "server/resources#common-uri-schemes",
        "Other resources use another URI scheme or a custom one.",
        because=AUTHORS,
    ),
    "RES-12": MAY(
        "server/resources#common-uri-schemes",
        "A file URI of a directory may have the MIME type inode/directory.",
        because="The author's MIME type is sent unchanged, also one of these.",
    ),
    "RES-13": MUST(
        "server/resources#custom-uri-schemes",
        "Custom URI schemes conform to RFC 3986 (from 2025-06-18).",
        "components/test_resources.py::TestConfigurationErrors::test_uri_without_a_scheme_is_rejected",
        "components/test_resources.py::TestConfigurationErrors::test_invalid_uri_is_rejected",
        "components/test_resources.py::TestConfigurationErrors::test_template_that_expands_to_no_uri_is_rejected",
    ),
    "RES-14": SHOULD(
        "server/resources#error-handling",
        "The server answers an unknown resource with -32002 and an internal error with -32603.",
        "dispatch/methods/test_resources.py::test_unknown_uri_is_rejected_with_the_uri_as_error_data",
        "dispatch/methods/test_resources.py::test_exception_in_resource_is_logged_and_returns_internal_error",
    ),
    "RES-15": MUST(
        "server/resources#security-considerations",
        "The server validates every resource URI.",
        "dispatch/methods/test_resources.py::test_invalid_or_path_traversal_uri_is_rejected",
        "dispatch/methods/test_resources.py::test_unconvertible_template_variable_returns_resource_not_found",
    ),
    "RES-16": SHOULD(
        "server/resources#security-considerations",
        "The server controls access to sensitive resources.",
        "dispatch/test_visibility.py::test_forbidden_component_returns_the_same_error_as_a_missing_one",
    ),
    "RES-17": MUST(
        "server/resources#security-considerations",
        "Binary data is base64-encoded in blob.",
        "dispatch/methods/test_resources.py::test_bytes_are_read_as_a_blob",
    ),
    "RES-18": SHOULD(
        "server/resources#security-considerations",
        "The server checks permissions before every operation on a resource.",
        "pubsub/test_publisher.py::test_resource_update_is_not_sent_after_read_permission_is_revoked",
        "pubsub/test_publisher.py::test_subscription_to_an_unknown_resource_is_rejected",
    ),
    "RES-19": MUST(
        "schema.ts#TextResourceContents",
        "text is used only if the content is text.",
        "dispatch/methods/test_resources.py::test_bytes_are_read_as_a_blob",
    ),
    # 11. Prompts
    "PROMPT-01": MUST(
        "server/prompts#capabilities",
        "A server with prompts declares the prompts capability, with listChanged if it sends that notification.",
        "dispatch/methods/test_lifecycle.py::test_server_declares_capabilities_of_its_components",
        "dispatch/methods/test_lifecycle.py::test_server_declares_that_it_sends_list_changes",
    ),
    "PROMPT-02": MUST(
        "server/prompts#listing-prompts",
        "prompts/list returns the prompts, each with a name, and supports pagination.",
        "dispatch/test_pagination.py::test_listed_prompt_has_exactly_the_fields_of_the_revision",
        "dispatch/test_pagination.py::test_every_page_but_the_last_has_a_next_cursor",
        "dispatch/test_pagination.py::test_descriptions_are_listed_in_every_revision",
    ),
    "PROMPT-03": SHOULD(
        "server/prompts#list-changed-notification",
        "A server that declares listChanged sends notifications/prompts/list_changed.",
        "transports/http/session/test_get_stream.py::test_initial_list_changed_notifications_are_sent_once_per_session",
        SEE,
    ),
    "PROMPT-04": MUST(
        "schema.ts#PromptMessage",
        "prompts/get returns messages, each with a role and one content block.",
        "dispatch/methods/test_prompts.py::test_returned_list_becomes_several_messages",
        "dispatch/test_content.py::test_prompt_message_that_is_no_content_returns_internal_error",
    ),
    "PROMPT-05": MUST(
        "server/prompts#image-content",
        "Image data is base64-encoded and has a valid MIME type.",
        "dispatch/test_content.py::test_prompt_messages_are_converted_to_the_negotiated_revision",
        "protocol/test_content.py::test_invalid_content_raises_value_error_at_construction",
    ),
    "PROMPT-06": MUST(
        "server/prompts#audio-content",
        "Audio data is base64-encoded and has a valid MIME type (from 2025-03-26).",
        "dispatch/test_content.py::test_prompt_messages_are_converted_to_the_negotiated_revision",
        "protocol/test_content.py::test_invalid_content_raises_value_error_at_construction",
    ),
    "PROMPT-07": MUST(
        "server/prompts#embedded-resources",
        "An embedded resource has a valid URI, its MIME type, and text or base64 data.",
        "protocol/test_content.py::test_embedded_resource_contains_text_or_blob",
    ),
    "PROMPT-08": MAY(
        "schema.ts#PromptMessage",
        "A prompt message may contain a resource link (from 2025-06-18).",
        "dispatch/test_content.py::test_prompt_messages_are_converted_to_the_negotiated_revision",
    ),
    "PROMPT-09": SHOULD(
        "server/prompts#error-handling",
        "The server answers an unknown prompt or a missing argument with -32602.",
        "dispatch/methods/test_prompts.py::test_invalid_prompt_name_or_arguments_are_rejected",
        "dispatch/methods/test_prompts.py::test_exception_in_prompt_is_logged_and_returns_internal_error",
        SEE,
    ),
    "PROMPT-10": SHOULD(
        "server/prompts#implementation-considerations",
        "The server validates prompt arguments.",
        "dispatch/methods/test_prompts.py::test_invalid_prompt_name_or_arguments_are_rejected",
    ),
    "PROMPT-11": SHOULD(
        "server/prompts#implementation-considerations",
        "The server respects the negotiated capabilities.",
        "dispatch/test_pagination.py::test_empty_server_declares_only_logging_and_rejects_list_methods",
    ),
    "PROMPT-12": MUST(
        "server/prompts#security",
        "The server validates prompt inputs and outputs against injection and unauthorized access.",
        "dispatch/methods/test_prompts.py::test_invalid_prompt_name_or_arguments_are_rejected",
        "dispatch/methods/test_prompts.py::test_invalid_prompt_message_returns_internal_error",
        "dispatch/test_visibility.py::test_forbidden_component_returns_the_same_error_as_a_missing_one",
    ),
    "PROMPT-13": MUST(
        "schema.ts#GetPromptRequest",
        "Prompt arguments map names to strings.",
        "components/test_prompts.py::TestArgumentValidation::test_argument_strings_are_converted_to_parameter_types",
    ),
    # 12. Completion
    "COMP-01": MUST(
        "server/utilities/completion#capabilities",
        "A server with completion declares the completions capability (from 2025-03-26).",
        "dispatch/methods/test_completion.py::test_completions_capability_is_declared_since_2025_03_26",
    ),
    "COMP-02": MUST(
        "server/utilities/completion#requesting-completions",
        "The server may serve completion/complete although no capability for it exists (2024-11-05).",
        "dispatch/methods/test_completion.py::test_completions_capability_is_declared_since_2025_03_26",
        "dispatch/methods/test_completion.py::test_prompt_argument_is_completed",
    ),
    "COMP-03": MUST(
        "server/utilities/completion#reference-types",
        "completion/complete accepts ref/prompt and ref/resource with one argument.",
        "dispatch/methods/test_completion.py::test_resource_template_is_completed_by_template_or_by_matching_uri",
        "dispatch/methods/test_completion.py::test_prompt_argument_is_completed",
    ),
    "COMP-04": MUST(
        "server/utilities/completion#requesting-completions",
        "The server uses the resolved arguments in context.arguments (from 2025-06-18).",
        "dispatch/methods/test_completion.py::test_completer_receives_context_arguments_since_2025_06_18",
    ),
    "COMP-05": MUST(
        "server/utilities/completion#completion-results",
        "A completion has at most 100 values, and optional total and hasMore.",
        "dispatch/methods/test_completion.py::test_completion_is_truncated_to_100_values",
    ),
    "COMP-06": SHOULD(
        "server/utilities/completion#error-handling",
        "The server answers an invalid reference or a missing argument with -32602 (from 2025-03-26).",
        "dispatch/methods/test_completion.py::test_invalid_completion_params_are_rejected",
        "dispatch/methods/test_completion.py::test_completion_returns_method_not_found_without_completers",
        "dispatch/methods/test_completion.py::test_exception_in_completer_returns_internal_error",
    ),
    "COMP-07": SHOULD(
        "server/utilities/completion#implementation-considerations",
        "The server sorts values by relevance, limits the rate, and validates inputs.",
        "dispatch/methods/test_completion.py::test_literal_type_is_completed_from_its_choices",
        "test_middleware.py::test_calls_and_completions_share_one_rate_limit",
        because="The author decides on the order of completions.",
    ),
    "COMP-08": MUST(
        "server/utilities/completion#security",
        "The server validates all completion inputs.",
        "dispatch/methods/test_completion.py::test_invalid_completion_params_are_rejected",
    ),
    "COMP-09": MUST(
        "server/utilities/completion#security",
        "The server limits the rate of completions.",
        "test_middleware.py::test_calls_and_completions_share_one_rate_limit",
    ),
    "COMP-10": MUST(
        "server/utilities/completion#security",
        "The server restricts access to sensitive suggestions.",
        "dispatch/test_visibility.py::test_completion_of_a_forbidden_prompt_returns_the_error_of_a_missing_one",
    ),
    # 13. Logging
    "LOG-01": MUST(
        "server/utilities/logging#capabilities",
        "A server that sends log messages declares the logging capability.",
        "frame/client/test_late_messages.py::test_log_messages_are_dropped_without_logging_capability",
    ),
    "LOG-02": MUST(
        "server/utilities/logging#log-levels",
        "Log levels are the eight syslog severities.",
        "frame/client/test_progress_and_logs.py::test_log_messages_below_the_level_are_not_sent",
    ),
    "LOG-03": MUST(
        "server/utilities/logging#setting-log-level",
        "After logging/setLevel, the server sends only messages at that level or above.",
        "frame/client/test_progress_and_logs.py::test_set_level_changes_the_log_level_of_the_session",
        "frame/client/test_progress_and_logs.py::test_log_messages_below_the_level_are_not_sent",
    ),
    "LOG-04": MAY(
        "schema.ts#LoggingMessageNotification",
        "The server may choose which messages it sends before logging/setLevel.",
        "frame/client/test_progress_and_logs.py::test_default_log_level_depends_on_the_revision",
    ),
    "LOG-05": SHOULD(
        "server/utilities/logging#error-handling",
        "The server answers an unknown log level with -32602.",
        "frame/client/test_progress_and_logs.py::test_set_level_with_unknown_level_is_rejected",
    ),
    "LOG-06": SHOULD(
        "server/utilities/logging#implementation-considerations",
        "The server limits the rate of log messages and uses consistent logger names.",
        "dispatch/methods/test_log_level.py::TestLogRateLimit::test_log_messages_above_the_rate_limit_are_dropped",
        "frame/client/test_progress_and_logs.py::test_log_message_contains_level_logger_and_data",
    ),
    "LOG-07": MUST(
        "server/utilities/logging#security",
        "Log messages contain no credentials or secrets.",
        "dispatch/methods/test_log_level.py::TestClientHandler::test_records_of_the_django_mcp_logger_are_not_sent_to_the_client",
        because="The author decides on log messages; the framework sends none of its own.",
    ),
    "LOG-08": MUST(
        "server/utilities/logging#security",
        "Log messages contain no personal data.",
        "dispatch/methods/test_log_level.py::TestClientHandler::test_records_of_the_django_mcp_logger_are_not_sent_to_the_client",
        because="The author decides on log messages; the framework sends none of its own.",
    ),
    "LOG-09": MUST(
        "server/utilities/logging#security",
        "Log messages contain no internal details that help an attacker.",
        "dispatch/methods/test_log_level.py::TestClientHandler::test_traceback_is_not_sent_to_the_client",
        "dispatch/methods/test_tools.py::test_exception_is_logged_and_its_message_is_not_sent_to_the_client",
    ),
    "LOG-10": SHOULD(
        "server/utilities/logging#security",
        "The server validates log fields and controls access to logs.",
        "frame/client/test_progress_and_logs.py::test_log_message_contains_level_logger_and_data",
        "dispatch/methods/test_log_level.py::TestClientHandler::test_log_records_of_concurrent_calls_are_sent_to_their_own_clients",
    ),
    "LOG-11": MUST(
        "schema.ts#LoggingMessageNotification",
        "A log message has level and data, and an optional logger.",
        "frame/client/test_progress_and_logs.py::test_log_message_contains_level_logger_and_data",
    ),
    # 14. Pagination
    "PAGE-01": MUST(
        "server/utilities/pagination#pagination-model",
        "A cursor is an opaque string; the server chooses the page size.",
        "dispatch/test_pagination.py::test_every_page_but_the_last_has_a_next_cursor",
        "protocol/test_cursors.py::test_cursor_decodes_to_the_sort_key_of_the_last_item",
    ),
    "PAGE-02": MUST(
        "server/utilities/pagination#response-format",
        "The server omits nextCursor on the last page.",
        "dispatch/test_pagination.py::test_full_last_page_has_no_next_cursor",
    ),
    "PAGE-03": MUST(
        "server/utilities/pagination#operations-supporting-pagination",
        "The list methods for tools, prompts, resources, and templates support pagination.",
        "dispatch/test_pagination.py::test_every_page_but_the_last_has_a_next_cursor",
    ),
    "PAGE-04": SHOULD(
        "server/utilities/pagination#implementation-guidelines",
        "Cursors are stable.",
        "dispatch/test_pagination.py::test_cursor_remains_valid_after_components_change",
    ),
    "PAGE-05": SHOULD(
        "server/utilities/pagination#error-handling",
        "The server answers an invalid cursor with -32602.",
        "dispatch/test_pagination.py::test_forged_or_malformed_cursor_is_rejected",
    ),
    "PAGE-06": CLIENT(
        "server/utilities/pagination#implementation-guidelines",
        "The client treats cursors as opaque and does not keep them across sessions.",
        "dispatch/test_pagination.py::test_cursor_of_another_list_is_rejected",
    ),
    # 15. Sampling
    "SAMP-01": MUST(
        "client/sampling#capabilities",
        "The server requests sampling only if the client declared it.",
        "frame/client/test_input_requests.py::test_sampling_with_tools_requires_the_sampling_tools_capability",
        "frame/client/test_input_requests.py::test_elicitation_is_rejected_without_client_capability",
        "frame/client/test_input_requests.py::test_sampling_is_rejected_without_client_capability",
    ),
    "SAMP-02": MUST(
        "schema.ts#CreateMessageRequest",
        "A sampling request has messages and maxTokens; priorities are between 0 and 1.",
        "frame/client/test_input_requests.py::test_sampling_request_contains_its_options_in_every_revision",
    ),
    "SAMP-03": MUST(
        "schema.ts#SamplingMessage",
        "A sampling message contains only content types of the negotiated revision.",
        "frame/client/test_input_requests.py::test_multi_block_sampling_message_is_split_before_2025_11_25",
        "frame/client/test_input_requests.py::test_sampling_with_audio_is_rejected_in_2024_11_05",
        "frame/client/test_input_requests.py::test_sampling_with_content_that_no_revision_has_is_rejected",
    ),
    "SAMP-04": MUST(
        "client/sampling#tools-in-sampling",
        "The server sends tools only if the client declared sampling.tools (2025-11-25).",
        "frame/client/test_input_requests.py::test_sampling_with_tools_requires_the_sampling_tools_capability",
    ),
    "SAMP-05": SHOULD(
        "client/sampling#capabilities",
        "The server avoids the includeContext values thisServer and allServers (2025-11-25).",
        "frame/client/test_input_requests.py::test_include_context_is_sent_without_capability_before_2025_11_25",
    ),
    "SAMP-06": SHOULD(
        "client/sampling#capabilities",
        "The server does not use these includeContext values unless the client declared sampling.context (2025-11-25).",
        "frame/client/test_input_requests.py::test_include_context_is_sent_without_capability_before_2025_11_25",
        "frame/client/test_input_requests.py::test_include_context_is_sent_when_the_client_declares_it",
    ),
    "SAMP-07": MUST(
        "client/sampling#tool-result-messages",
        "A user message with tool results contains nothing else (2025-11-25).",
        "frame/client/test_input_requests.py::test_sampling_messages_with_unmatched_tool_use_are_rejected",
    ),
    "SAMP-08": MUST(
        "client/sampling#tool-use-and-result-balance",
        "A user message with results for all tool uses directly follows an assistant message with tool uses (2025-11-25).",
        "frame/client/test_input_requests.py::test_sampling_messages_with_unmatched_tool_use_are_rejected",
    ),
    "SAMP-09": MUST(
        "client/sampling#security-considerations",
        "The server returns a matching tool result for every tool use (2025-11-25).",
        "frame/client/test_input_requests.py::test_sampling_messages_with_unmatched_tool_use_are_rejected",
    ),
    "SAMP-10": SHOULD(
        "client/sampling#security-considerations",
        "The server limits the iterations of a tool loop (2025-11-25).",
        because="The author writes and limits the tool use loop; HANDLER_TIMEOUT limits the call.",
    ),
    "SAMP-11": SHOULD(
        "schema.ts#ToolResultContent",
        "structuredContent of a tool result conforms to the outputSchema of the tool (2025-11-25).",
        because="The author validates the results of tools in a sampling request.",
    ),
    "SAMP-12": SHOULD(
        "client/sampling#security-considerations",
        "Both sides validate message content.",
        "frame/client/test_input_requests.py::test_sampling_is_repeated_after_an_invalid_response",
        "frame/client/test_input_requests.py::test_sampling_messages_with_unmatched_tool_use_are_rejected",
    ),
    "SAMP-13": MUST(
        "client/sampling#security-considerations",
        "Both sides handle sensitive data appropriately.",
        because="Requests and responses are neither logged nor stored; the author decides on their content.",
    ),
    "SAMP-14": CLIENT(
        "client/sampling#error-handling",
        "The client reports a rejection by the user as error -1; the server reports the error to the handler.",
        "frame/client/test_input_requests.py::test_error_response_of_the_client_is_raised_in_the_handler",
        "frame/client/test_input_requests.py::test_uncaught_client_error_code_is_not_returned_to_the_client",
    ),
    "SAMP-15": CLIENT(
        "schema.ts#CreateMessageRequest",
        "The client may change the system prompt, the context, and the model preferences.",
        because=DUTY,
    ),
    # 16. Roots
    "ROOT-01": SHOULD(
        "client/roots#implementation-guidelines",
        "The server checks the roots capability before it sends roots/list.",
        "clients/test_input_requests.py::test_tool_receives_the_roots_of_the_client",
        "frame/client/test_multi_round_trip.py::TestInputRequest::test_missing_client_capability_can_be_caught_by_the_handler",
    ),
    "ROOT-02": CLIENT(
        "client/roots#root",
        "Root URIs are file URIs.",
        "frame/client/test_input_requests.py::test_roots_request_is_repeated_when_a_root_is_not_a_file_uri",
    ),
    "ROOT-03": SHOULD(
        "client/roots#implementation-guidelines",
        "The server handles notifications/roots/list_changed.",
        "server/test_hooks.py::TestHandleNotification::test_handle_notification_receives_unhandled_notifications",
    ),
    "ROOT-04": SHOULD(
        "client/roots#security-considerations",
        "The server handles roots that become unavailable.",
        "frame/client/test_input_requests.py::test_error_response_of_the_client_is_raised_in_the_handler",
    ),
    "ROOT-05": SHOULD(
        "client/roots#security-considerations",
        "The server respects root boundaries and validates paths against the roots.",
        because="The author decides how roots are used: the framework opens no file.",
    ),
    "ROOT-06": SHOULD(
        "client/roots#implementation-guidelines",
        "The server caches root information appropriately.",
        because="Roots are requested when they are needed and never stored, so they cannot be stale.",
    ),
    "ROOT-07": CLIENT(
        "client/roots#error-handling",
        "The client reports errors of roots/list with -32601 or -32603.",
        "frame/client/test_input_requests.py::test_error_response_of_the_client_is_raised_in_the_handler",
    ),
    # 17. Elicitation
    "ELIC-01": MUST(
        "client/elicitation#capabilities",
        "The server requests elicitation only if the client declared it (from 2025-06-18).",
        "frame/client/test_input_requests.py::test_elicitation_is_rejected_without_client_capability",
    ),
    "ELIC-02": MUST(
        "client/elicitation#user-interaction-model",
        "The server does not request sensitive information (2025-06-18).",
        "protocol/test_elicitation.py::TestFormSchema::test_secret_field_is_rejected",
        "runtime/test_django_forms.py::TestFormSchema::test_password_field_raises_configuration_error",
        because="The author decides on the content; fields that are marked as secret are rejected.",
    ),
    "ELIC-03": MUST(
        "client/elicitation#user-interaction-model",
        "The server does not request passwords, keys, tokens, or payment data in form mode (2025-11-25).",
        "protocol/test_elicitation.py::TestFormSchema::test_secret_field_is_rejected",
        "runtime/test_django_forms.py::TestFormSchema::test_password_field_raises_configuration_error",
    ),
    "ELIC-04": MUST(
        "client/elicitation#user-interaction-model",
        "The server uses URL mode for sensitive information (2025-11-25).",
        "protocol/test_elicitation.py::TestFormSchema::test_secret_field_is_rejected",
        "frame/client/test_input_requests.py::test_url_elicitation_has_a_unique_id_only_in_2025_11_25",
    ),
    "ELIC-05": MUST(
        "client/elicitation#capabilities",
        "The server uses only modes that the client declared; an empty object declares form mode (2025-11-25).",
        "frame/client/test_input_requests.py::test_empty_elicitation_capability_allows_only_forms",
        "frame/client/test_input_requests.py::test_form_elicitation_is_rejected_for_clients_with_only_url_mode",
    ),
    "ELIC-06": MUST(
        "client/elicitation#protocol-messages",
        "A form request has a message and a requestedSchema whose root type is object (from 2025-06-18).",
        "frame/client/test_input_requests.py::test_elicitation_schema_is_flat_and_limited_to_the_revision",
    ),
    "ELIC-07": MAY(
        "client/elicitation#elicitation-requests",
        "The server may omit mode in form mode (2025-11-25).",
        "frame/client/test_input_requests.py::test_elicitation_schema_is_flat_and_limited_to_the_revision",
    ),
    "ELIC-08": MUST(
        "schema.ts#StringSchema",
        "requestedSchema is a flat object with primitive properties (from 2025-06-18).",
        "protocol/test_elicitation.py::TestFormSchema::test_form_schema_resolves_references_of_the_model",
        "protocol/test_elicitation.py::TestFormSchema::test_field_type_not_allowed_in_a_form_is_rejected",
    ),
    "ELIC-09": MUST(
        "schema.ts#EnumSchema",
        "An enum is a string with enum and optional enumNames; only booleans have defaults (2025-06-18).",
        "frame/client/test_input_requests.py::test_choice_titles_are_encoded_for_the_revision",
        "frame/client/test_input_requests.py::test_multiple_choice_elicitation_is_rejected_before_2025_11_25",
    ),
    "ELIC-10": MUST(
        "client/elicitation#requested-schema",
        "An enum is single-select or multi-select, with or without titles (2025-11-25).",
        "frame/client/test_input_requests.py::test_choice_titles_are_encoded_for_the_revision",
        "frame/client/test_input_requests.py::test_multiple_choice_elicitation_is_rejected_before_2025_11_25",
    ),
    "ELIC-11": MAY(
        "client/elicitation#requested-schema",
        "Every primitive type may have a default (2025-11-25).",
        "frame/client/test_input_requests.py::test_elicitation_schema_is_flat_and_limited_to_the_revision",
    ),
    "ELIC-12": MUST(
        "client/elicitation#url-mode-elicitation-requests",
        "A URL request has mode, message, url, and elicitationId (2025-11-25).",
        "frame/client/test_input_requests.py::test_url_elicitation_has_a_unique_id_only_in_2025_11_25",
    ),
    "ELIC-13": MUST(
        "client/elicitation#url-mode-elicitation-requests",
        "url is a valid URL; elicitationId is unique within the server (2025-11-25).",
        "protocol/test_elicitation.py::TestUrlElicitation::test_url_elicitation_rejects_a_relative_url",
        "protocol/test_elicitation.py::TestUrlElicitation::test_url_elicitation_without_an_id_has_a_unique_one",
    ),
    "ELIC-14": MUST(
        "client/elicitation#response-actions",
        "The server distinguishes accept, decline, and cancel (from 2025-06-18).",
        "frame/client/test_input_requests.py::test_declined_or_cancelled_elicitation_is_returned_to_the_handler",
    ),
    "ELIC-15": MUST(
        "client/elicitation#url-mode-elicitation-requests",
        "accept in URL mode means consent to open the URL, not completion (2025-11-25).",
        "frame/client/test_input_requests.py::test_url_elicitation_has_a_unique_id_only_in_2025_11_25",
    ),
    "ELIC-16": SHOULD(
        "client/elicitation#security-considerations",
        "The server validates the received content against requestedSchema (from 2025-06-18).",
        "frame/client/test_input_requests.py::test_elicitation_is_repeated_after_an_invalid_response",
    ),
    "ELIC-17": MAY(
        "client/elicitation#completion-notifications-for-url-mode-elicitation",
        "The server may send notifications/elicitation/complete after the user has completed the URL step (2025-11-25).",
        "transports/http/session/test_stream_choice.py::test_elicitation_complete_is_sent_only_to_its_session",
        "elicitation/test_pages.py::test_completion_is_sent_to_the_client_with_the_id_of_the_elicitation",
    ),
    "ELIC-18": MUST(
        "client/elicitation#completion-notifications-for-url-mode-elicitation",
        "The server sends that notification only to the client of the elicitation, with its id (2025-11-25).",
        "transports/http/session/test_stream_choice.py::test_elicitation_complete_is_sent_only_to_its_session",
    ),
    "ELIC-19": MAY(
        "client/elicitation#url-elicitation-required-error",
        "The server may reject a request with -32042 if a URL elicitation is needed first (2025-11-25).",
        "frame/client/test_input_requests.py::test_url_elicitation_required_is_converted_to_the_revision",
    ),
    "ELIC-20": MUST(
        "client/elicitation#url-elicitation-required-error",
        "The server uses -32042 for no other purpose (2025-11-25).",
        "frame/client/test_input_requests.py::test_url_elicitation_required_is_rejected_without_url_capability",
        "protocol/test_errors.py::test_custom_code_reserved_by_the_specification_is_replaced",
    ),
    "ELIC-21": MUST(
        "client/elicitation#url-elicitation-required-error",
        "The -32042 error lists the needed URL elicitations with their ids (2025-11-25).",
        "frame/client/test_input_requests.py::test_url_elicitation_required_is_converted_to_the_revision",
    ),
    "ELIC-22": MUST(
        "client/elicitation#security-considerations",
        "The server binds every elicitation to the client and the user (2025-11-25).",
        "transports/http/session/test_input_requests.py::test_response_from_another_session_is_rejected",
        "transports/http/session/test_input_requests.py::test_response_from_another_principal_is_not_found",
    ),
    "ELIC-23": MUST(
        "client/elicitation#statefulness",
        "The server associates stored state securely with its user (2025-11-25).",
        "transports/http/session/test_input_requests.py::test_response_from_another_principal_is_not_found",
        "transports/http/test_consumer.py::test_session_of_another_principal_is_not_found",
    ),
    "ELIC-24": MUST(
        "client/elicitation#statefulness",
        "The server does not associate stored state with the session id alone (2025-11-25).",
        "transports/http/session/test_input_requests.py::test_response_from_another_principal_is_not_found",
    ),
    "ELIC-25": MUST(
        "client/elicitation#statefulness",
        "Stored state is protected against unauthorized access (2025-11-25).",
        "transports/http/test_consumer.py::test_session_of_another_principal_is_not_found",
        "stores/test_database.py::test_tables_do_not_contain_the_session_id",
        "elicitation/test_pages.py::test_answer_is_read_by_its_user_only",
    ),
    "ELIC-26": MUST(
        "client/elicitation#statefulness",
        "A remote server identifies the user by MCP authorization where possible (2025-11-25).",
        "frame/test_frame_of_request.py::test_frame_exposes_the_authenticated_user_and_scopes",
    ),
    "ELIC-27": MUST(
        "client/elicitation#identifying-the-user",
        "The server does not trust a user identity from the client without verification (2025-11-25).",
        "frame/test_frame_of_request.py::test_user_is_anonymous_without_authentication",
    ),
    "ELIC-28": MUST(
        "client/elicitation#url-mode-elicitation-for-oauth-flows",
        "The server does not use URL mode to authorize access to itself (2025-11-25).",
        because="The page belongs to the author; authenticators identify callers, never a page.",
    ),
    "ELIC-29": MUST(
        "client/elicitation#understanding-the-distinction",
        "Third-party credentials never pass through the MCP client (2025-11-25).",
        "elicitation/test_pages.py::test_handler_receives_what_the_user_entered",
        because="What the user enters on a page of django_mcp.elicitation is sent to the site only.",
    ),
    "ELIC-30": MUST(
        "client/elicitation#understanding-the-distinction",
        "The server never uses credentials of the client for third-party services (2025-11-25).",
        because="The page belongs to the author; the framework calls no third party and forwards no credentials.",
    ),
    "ELIC-31": MUST(
        "client/elicitation#understanding-the-distinction",
        "The user authorizes the server directly, and the server stores the third-party tokens (2025-11-25).",
        because="The page belongs to the author; the framework calls no third party.",
    ),
    "ELIC-32": MUST(
        "client/elicitation#safe-url-handling",
        "The URL contains no sensitive information about the user (2025-11-25).",
        "elicitation/test_pages.py::test_link_contains_nothing_readable",
        because="The author chooses any other URL; the framework adds nothing to it.",
    ),
    "ELIC-33": MUST(
        "client/elicitation#safe-url-handling",
        "The URL gives no pre-authenticated access (2025-11-25).",
        "elicitation/test_pages.py::test_page_needs_a_login",
        "approvals/test_pages.py::test_pages_need_a_login",
    ),
    "ELIC-34": SHOULD(
        "client/elicitation#safe-url-handling",
        "Form fields contain no clickable URLs (2025-11-25).",
        because=AUTHORS,
    ),
    "ELIC-35": SHOULD(
        "client/elicitation#safe-url-handling",
        "The URL uses HTTPS outside development (2025-11-25).",
        because=AUTHORS,
    ),
    "ELIC-36": MUST(
        "client/elicitation#phishing",
        "The server verifies who opens the URL before it accepts any data (2025-11-25).",
        "elicitation/test_pages.py::test_page_needs_a_login",
        "elicitation/test_pages.py::test_link_is_not_valid_for_a_deactivated_user",
        "approvals/test_pages.py::test_pages_need_a_login",
    ),
    "ELIC-37": MUST(
        "client/elicitation#phishing",
        "The user who opens the URL is the user who started the elicitation (2025-11-25).",
        "elicitation/test_pages.py::test_link_is_not_valid_for_another_user",
        "approvals/test_pages.py::test_page_of_a_client_is_for_its_own_user_only",
    ),
    "ELIC-38": MUST(
        "client/elicitation#phishing",
        "The identity check resists changes to the URL (2025-11-25).",
        "elicitation/test_pages.py::test_changed_link_is_not_valid",
        "elicitation/test_pages.py::test_link_of_one_page_is_not_valid_for_another",
    ),
    "ELIC-39": CLIENT(
        "client/elicitation#error-handling",
        "The client answers an undeclared mode with -32602 (2025-11-25).",
        "frame/client/test_input_requests.py::test_error_response_of_the_client_is_raised_in_the_handler",
    ),
    "ELIC-40": MUST(
        "client/elicitation#error-handling",
        "The server reports a needed URL elicitation as a standard JSON-RPC error (2025-11-25).",
        "frame/client/test_input_requests.py::test_url_elicitation_required_is_converted_to_the_revision",
    ),
    # 21. Security best practices that bind a server
    "SEC-01": MUST(
        "tutorials/security/security_best_practices#token-passthrough",
        "The server accepts only tokens that were issued for it.",
        because="No authenticator reads tokens yet: authorization has an issue of its own.",
    ),
    "SEC-02": MUST(
        "tutorials/security/security_best_practices#session-hijacking",
        "A server with authorization verifies every incoming request.",
        "transports/http/test_consumer.py::test_session_of_another_principal_is_not_found",
        "transports/http/session/test_get_stream.py::test_get_in_the_session_of_another_principal_is_not_found",
    ),
    "SEC-03": MUST(
        "tutorials/security/security_best_practices#session-hijacking",
        "The server does not use sessions for authentication.",
        "transports/http/test_consumer.py::test_session_of_another_principal_is_not_found",
    ),
    "SEC-04": MUST(
        "tutorials/security/security_best_practices#session-hijacking",
        "Session ids are secure and not predictable.",
        "transports/http/test_consumer.py::test_initialize_response_carries_a_unique_session_id",
    ),
    "SEC-05": SHOULD(
        "tutorials/security/security_best_practices#session-hijacking",
        "Session ids come from a secure random generator and expire.",
        "transports/http/test_consumer.py::test_initialize_response_carries_a_unique_session_id",
        "stores/test_memory.py::TestMemorySessions::test_idle_session_expires",
    ),
    "SEC-06": SHOULD(
        "tutorials/security/security_best_practices#session-hijacking",
        "The server binds sessions and shared queues to the user.",
        "transports/http/test_consumer.py::test_session_of_another_principal_is_not_found",
        "transports/http/session/test_input_requests.py::test_response_from_another_principal_is_not_found",
        "transports/http/session/test_get_stream.py::test_event_id_of_another_session_replays_nothing",
    ),
    "SEC-07": SHOULD(
        "tutorials/security/security_best_practices#local-mcp-server-compromise",
        "A local server prefers stdio, and restricts access if it uses HTTP.",
        "transports/connection/test_stdio.py::test_stateless_and_session_requests_are_answered_until_stdin_closes",
    ),
    "SEC-08": SHOULD(
        "tutorials/security/security_best_practices#scope-minimization",
        "Token scopes follow least privilege.",
        "dispatch/test_visibility.py::test_component_requires_all_of_its_scopes",
        "dispatch/test_visibility.py::test_component_requires_both_scopes_and_permission",
    ),
    "SEC-09": MUST(
        "tutorials/security/security_best_practices#confused-deputy-problem",
        "An OAuth proxy records for each user which client ids the user has approved.",
        because="The package contains no OAuth proxy.",
    ),
    "SEC-10": MUST(
        "tutorials/security/security_best_practices#confused-deputy-problem",
        "The consent page of an OAuth proxy names client, scopes, and redirect URI, and prevents CSRF.",
        because="The package contains no OAuth proxy.",
    ),
    "SEC-11": MUST(
        "tutorials/security/security_best_practices#confused-deputy-problem",
        "Consent cookies of an OAuth proxy are secure, signed, and bound to the client id.",
        because="The package contains no OAuth proxy.",
    ),
    "SEC-12": MUST(
        "tutorials/security/security_best_practices#confused-deputy-problem",
        "An OAuth proxy accepts only an exact match of the redirect URI.",
        because="The package contains no OAuth proxy.",
    ),
    "SEC-13": MUST(
        "tutorials/security/security_best_practices#confused-deputy-problem",
        "The state of an OAuth proxy is random, single-use, short-lived, and validated.",
        because="The package contains no OAuth proxy.",
    ),
    "SEC-14": MUST(
        "tutorials/security/security_best_practices#confused-deputy-problem",
        "An OAuth proxy stores the state only after consent.",
        because="The package contains no OAuth proxy.",
    ),
    "SEC-15": MUST(
        "tutorials/security/security_best_practices#server-side-request-forgery-ssrf",
        "Code that fetches OAuth URLs prevents server-side request forgery.",
        "protocol/schema/test_compiler.py::test_unusable_schema_is_rejected_at_compile_time",
        because="The server fetches neither metadata nor schemas.",
    ),
    "SEC-16": SHOULD(
        "index#implementation-guidelines",
        "Implementations provide consent flows, access control, and documented security.",
        because=AUTHORS,
    ),
}

STATELESS: Mapping[str, Requirement] = {
    # 2.1 Versions and eras
    "VER-01": MUST(
        "basic/versioning#protocol-version-negotiation",
        "The server reads the protocol version from _meta of every request.",
        "dispatch/methods/test_lifecycle.py::test_session_and_stateless_requests_share_one_stdio_connection",
        "transports/test_conformance_scenarios.py::test_stateless_request_data_is_not_visible_in_the_next_request",
    ),
    "VER-02": MUST(
        "basic/versioning#protocol-version-negotiation",
        "The server answers an unsupported version with -32022 and lists its versions in data.supported.",
        "dispatch/methods/test_lifecycle.py::test_unsupported_stateless_version_is_rejected_with_supported_versions",
        "dispatch/methods/test_lifecycle.py::test_stateless_request_is_rejected_when_its_version_is_not_configured",
    ),
    "VER-03": MUST(
        "basic/transports/streamable-http#protocol-version-header",
        "Over HTTP, the server answers an unsupported version with status 400.",
        "transports/test_conformance_scenarios.py::test_unsupported_version_in_a_stateless_request_is_rejected",
    ),
    "VER-04": MUST(
        "basic/versioning#protocol-version-negotiation",
        "The server implements server/discover.",
        "dispatch/methods/test_lifecycle.py::test_server_discover_returns_versions_and_instructions",
    ),
    "VER-05": MUST(
        "basic/versioning#extension-negotiation",
        "Extension ids have a prefix and follow the naming rules of _meta keys.",
        "dispatch/test_meta.py::test_invalid_extension_identifier_is_rejected",
        "dispatch/test_meta.py::test_extensions_are_declared_from_2025_11_25",
    ),
    "VER-06": MUST(
        "basic/versioning#extension-negotiation",
        "The server uses core behavior or rejects the request if the client lacks an extension.",
        "dispatch/test_messages.py::test_unknown_members_and_notifications_are_ignored",
        because="No extension is supported yet, so every client gets the behavior of the core.",
    ),
    "VER-07": SHOULD(
        "basic/versioning#extension-negotiation",
        "Every extension documents its fallback behavior.",
        because="No extension is supported yet.",
    ),
    "VER-08": SHOULD(
        "basic/versioning#backward-compatibility-with-initialization-based-versions",
        "A server without session revisions names its versions in every error to initialize.",
        "dispatch/methods/test_lifecycle.py::test_initialize_is_rejected_with_supported_versions_on_a_stateless_site",
    ),
    "VER-09": MAY(
        "basic/versioning#compatibility-matrix",
        "The server may serve stateless and session revisions on one endpoint or in one process.",
        "dispatch/methods/test_lifecycle.py::test_session_and_stateless_requests_share_one_stdio_connection",
        SEE,
    ),
    "VER-10": MUST(
        "basic/versioning#compatibility-matrix",
        "The rules of this revision do not apply to session revisions, and the reverse.",
        SEE,
        "dispatch/methods/test_resources.py::test_unknown_uri_is_rejected_with_the_uri_as_error_data",
    ),
    "DSC-01": MUST(
        "server/discover#discoverresult",
        "The discover result has resultType, supportedVersions, capabilities, ttlMs, and cacheScope.",
        "dispatch/methods/test_lifecycle.py::test_server_discover_returns_versions_and_instructions",
    ),
    "DSC-02": SHOULD(
        "server/discover#discoverresult",
        "The discover result has serverInfo in _meta, not in its body.",
        "dispatch/methods/test_lifecycle.py::test_stateless_results_contain_server_info_in_meta",
        "dispatch/methods/test_lifecycle.py::test_server_discover_returns_versions_and_instructions",
    ),
    "DSC-03": MUST(
        "server/discover#discoverresult",
        "The declared capabilities match the implemented features.",
        "dispatch/test_pagination.py::test_empty_server_declares_only_logging_and_rejects_list_methods",
        "dispatch/methods/test_lifecycle.py::test_server_declares_capabilities_of_its_components",
    ),
    "DSC-04": MAY(
        "server/discover#discoverresult",
        "The discover result may have instructions.",
        "dispatch/methods/test_lifecycle.py::test_instructions_are_computed_per_request_or_omitted",
    ),
    "DSC-05": MUST(
        "server/discover#request",
        "server/discover requires the same _meta fields as every other request.",
        SEE,
        "dispatch/methods/test_lifecycle.py::test_stateless_request_with_invalid_meta_is_rejected",
    ),
    # 2.2 JSON-RPC base
    "JR-01": MUST(
        "basic/index#messages",
        "All messages are JSON-RPC 2.0 in UTF-8.",
        "dispatch/test_bad_input.py::test_invalid_jsonrpc_message_returns_invalid_request",
        "dispatch/test_bad_input.py::test_invalid_json_returns_parse_error",
    ),
    "JR-02": MUST(
        "basic/index#requests",
        "A request id is a string or an integer, never null.",
        "dispatch/test_bad_input.py::test_invalid_jsonrpc_message_returns_invalid_request",
        "dispatch/test_messages.py::test_response_repeats_the_request_id_with_its_type",
    ),
    "JR-03": MUST(
        "basic/index#requests",
        "The id of a request differs from the ids of all pending requests of its sender.",
        "dispatch/test_cancellation.py::test_request_with_id_of_running_request_is_rejected",
        "dispatch/test_messages.py::test_two_clients_can_use_the_same_request_id_concurrently",
    ),
    "JR-04": MUST(
        "basic/index#result-responses",
        "A response repeats the id of its request with the same JSON type.",
        "dispatch/test_messages.py::test_response_repeats_the_request_id_with_its_type",
    ),
    "JR-05": MUST(
        "basic/index#result-responses",
        "A response has result or error; every result has resultType.",
        "dispatch/methods/test_lifecycle.py::test_stateless_results_contain_server_info_in_meta",
        "dispatch/test_messages.py::test_response_repeats_the_request_id_with_its_type",
    ),
    "JR-06": MUST(
        "basic/index#error-responses",
        "An error has an integer code and a message; data is optional.",
        "protocol/test_errors.py::TestJsonRpc::test_error_serializes_to_a_response_with_the_request_id",
    ),
    "JR-07": MUST(
        "basic/index#error-responses",
        "An error response omits id only if the id of the request cannot be read.",
        "dispatch/test_bad_input.py::test_error_for_invalid_message_repeats_readable_request_id",
        "protocol/test_errors.py::TestJsonRpc::test_error_response_without_a_known_id_has_no_id",
    ),
    "JR-08": MUST(
        "basic/index#notifications",
        "The receiver never answers a notification.",
        "transports/http/test_consumer.py::test_unknown_notification_is_accepted",
        "dispatch/test_cancellation.py::test_cancellation_of_unknown_request_is_ignored",
    ),
    "JR-09": MUST(
        "basic/index#resulttype",
        "resultType is a core value or a value of an extension that both sides support.",
        "dispatch/methods/test_lifecycle.py::test_stateless_results_contain_server_info_in_meta",
        "frame/client/test_request_state.py::test_input_required_result_contains_input_requests_but_no_content",
    ),
    "JR-10": MUST(
        "basic/transports/index#messages",
        "The server never sends JSON-RPC requests to the client.",
        "frame/client/test_request_state.py::test_input_required_result_contains_input_requests_but_no_content",
        "testing/test_client.py::test_notification_that_violates_the_official_schema_fails_the_test",
    ),
    "JR-11": MUST(
        "basic/transports/streamable-http#sending-messages",
        "The server rejects batches and responses of the client.",
        "transports/test_conformance_scenarios.py::test_batch_is_rejected_as_a_whole",
        "transports/http/session/test_stream_choice.py::test_stateless_stream_is_not_resumable_and_responses_are_rejected",
    ),
    # 2.3 Error codes
    "ERR-01": MUST(
        "basic/index#error-codes",
        "No new error codes are allocated between -32019 and -32000.",
        "protocol/test_errors.py::test_custom_code_reserved_by_the_specification_is_replaced",
        "protocol/test_errors.py::test_named_error_has_the_code_of_each_revision",
    ),
    "ERR-02": MUST(
        "basic/index#error-codes",
        "The server uses codes between -32099 and -32020 only as the specification defines them.",
        "protocol/test_errors.py::test_custom_code_reserved_by_the_specification_is_replaced",
    ),
    "ERR-03": MUST(
        "basic/index#error-codes",
        "The server never sends -32002 or -32042.",
        "protocol/test_errors.py::test_custom_code_reserved_by_the_specification_is_replaced",
        "dispatch/methods/test_resources.py::test_unknown_uri_is_rejected_with_the_uri_as_error_data",
    ),
    "ERR-04": SHOULD(
        "basic/index#error-codes",
        "Application error codes are outside -32768 to -32000.",
        "protocol/test_errors.py::test_custom_error_code_is_kept",
        because=AUTHORS,
    ),
    "ERR-05": MUST(
        "basic/index#meta",
        "The -32021 error lists the missing capabilities in data.requiredCapabilities.",
        "frame/client/test_input_requests.py::test_elicitation_is_rejected_without_client_capability",
        "transports/http/test_consumer.py::test_stateless_error_has_its_own_http_status",
    ),
    "ERR-06": MUST(
        "basic/transports/streamable-http#protocol-version-header",
        "The server answers an unknown method with -32601 and HTTP status 404.",
        "transports/http/test_consumer.py::test_stateless_error_has_its_own_http_status",
    ),
    "ERR-07": MUST(
        "changelog#major-changes",
        "Methods that this revision removed are unknown methods.",
        "dispatch/test_bad_input.py::test_removed_method_returns_method_not_found",
        SEE,
    ),
    "ERR-08": SHOULD(
        "server/resources#error-handling",
        "The server answers an internal error with -32603 and no internal details.",
        "dispatch/methods/test_resources.py::test_exception_in_resource_is_logged_and_returns_internal_error",
        "dispatch/methods/test_completion.py::test_exception_in_completer_returns_internal_error",
    ),
    # 2.4 _meta
    "META-01": MUST(
        "basic/index#meta",
        "The server rejects a request without the required _meta fields with -32602 and HTTP status 400.",
        "dispatch/methods/test_lifecycle.py::test_stateless_request_with_invalid_meta_is_rejected",
        "transports/http/test_consumer.py::test_errors_are_reported_in_order_of_precedence",
    ),
    "META-02": MUST(
        "basic/index#meta",
        "The server does not require clientInfo.",
        "dispatch/methods/test_lifecycle.py::test_client_info_is_optional_in_stateless_requests",
    ),
    "META-03": MUST(
        "basic/index#meta",
        "The server relies only on client capabilities that the request declares.",
        "frame/client/test_input_requests.py::test_elicitation_is_rejected_without_client_capability",
        "frame/client/test_request_state.py::test_retry_is_rejected_when_it_declares_no_matching_capability",
    ),
    "META-04": SHOULD(
        "basic/index#meta",
        "Every result has serverInfo in _meta.",
        "dispatch/methods/test_lifecycle.py::test_stateless_results_contain_server_info_in_meta",
        SEE,
    ),
    "META-05": SHOULD(
        "basic/index#meta",
        "The server does not use clientInfo for behavior or security decisions.",
        "frame/test_frame_of_request.py::test_user_is_anonymous_without_authentication",
    ),
    "META-06": MUST(
        "basic/index#meta",
        "Every notification of a listen stream has subscriptionId in _meta.",
        "transports/http/test_listen_stream.py::test_every_message_carries_the_subscription_id",
    ),
    "META-07": MUST(
        "basic/index#meta",
        "The server's own _meta keys follow the naming rules and use no reserved prefix.",
        "protocol/test_meta.py::test_malformed_meta_key_is_rejected",
        "protocol/test_meta.py::test_meta_key_with_a_reserved_prefix_is_rejected",
        "dispatch/test_meta.py::test_invalid_or_reserved_meta_key_is_rejected",
    ),
    "META-08": MUST(
        "basic/index#meta",
        "The server assumes no meaning of unknown reserved _meta keys.",
        "dispatch/test_meta.py::test_unknown_request_meta_is_passed_to_the_handler",
    ),
    "META-09": MUST(
        "basic/index#meta",
        "traceparent, tracestate, and baggage have the W3C formats.",
        "dispatch/test_meta.py::test_frame_trace_contains_the_trace_context_of_the_request",
        "protocol/test_meta.py::test_trace_context_is_returned_unchanged_and_invalid_parts_are_dropped",
    ),
    "META-10": MAY(
        "basic/patterns/progress#progress-flow",
        "The client may send a progressToken that is a string or an integer.",
        "frame/client/test_progress_and_logs.py::test_progress_notification_repeats_the_token_with_its_type",
    ),
    # 2.5 Statelessness
    "ST-01": MUST(
        "basic/index#statelessness",
        "The server derives no capabilities, version, or identity from earlier requests.",
        "transports/test_conformance_scenarios.py::test_stateless_request_data_is_not_visible_in_the_next_request",
        "frame/test_frame_of_request.py::test_assigns_are_discarded_without_a_session",
    ),
    "ST-02": SHOULD(
        "basic/index#statelessness",
        "The server handles interleaved requests of several conversations.",
        "dispatch/test_messages.py::test_two_clients_can_use_the_same_request_id_concurrently",
        "transports/connection/test_stdio.py::test_calls_run_concurrently",
    ),
    "ST-03": SHOULD(
        "basic/index#statelessness",
        "The server does not require that related requests use the same connection or process.",
        "frame/client/test_request_state.py::test_request_state_is_valid_on_another_worker_and_after_key_rotation",
    ),
    "ST-04": MUST(
        "basic/index#statelessness",
        "State across requests has an explicit identifier, which the client passes.",
        "frame/client/test_request_state.py::test_request_state_is_rejected_for_another_caller_or_request",
    ),
    "ST-05": PRACTICE(
        "server/tools#stateful-tools",
        "Handles of a tool are opaque, expire, and are authorized on every call.",
        "frame/client/test_request_state.py::test_expired_request_state_is_rejected",
        because="The author decides on the handles of a tool.",
    ),
    # 2.6 JSON Schema
    "SCH-01": MUST(
        "basic/index#implementation-requirements",
        "JSON Schema 2020-12 is the default dialect, and the server supports it.",
        "protocol/schema/test_compiler.py::test_default_dialect_is_2020_12_and_format_is_not_enforced",
    ),
    "SCH-02": MUST(
        "basic/index#implementation-requirements",
        "The server validates schemas by their dialect and reports unsupported dialects.",
        "protocol/schema/test_compiler.py::test_prefix_items_is_ignored_in_dialects_that_do_not_define_it",
        "protocol/schema/test_compiler.py::test_unusable_schema_is_rejected_at_compile_time",
    ),
    "SCH-03": SHOULD(
        "basic/index#implementation-requirements",
        "The documentation lists the supported dialects.",
        "docs/test_pages.py::test_api_reference_lists_exactly_the_supported_json_schema_dialects",
    ),
    "SCH-04": MUST(
        "basic/index#schema-validation",
        "Published schemas are valid in their dialect.",
        "protocol/schema/test_compiler.py::test_unusable_schema_is_rejected_at_compile_time",
    ),
    "SCH-05": MUST(
        "basic/index#ref-resolution",
        "The server does not fetch a $ref from the network.",
        "protocol/schema/test_compiler.py::test_unusable_schema_is_rejected_at_compile_time",
    ),
    "SCH-06": MUST(
        "basic/index#ref-resolution",
        "An option to fetch a $ref is disabled by default and limited.",
        "protocol/schema/test_compiler.py::test_unusable_schema_is_rejected_at_compile_time",
        because="References are never fetched, and there is no setting for it.",
    ),
    "SCH-07": SHOULD(
        "basic/index#ref-resolution",
        "The server rejects schemas with an unresolved external $ref.",
        "protocol/schema/test_compiler.py::test_unusable_schema_is_rejected_at_compile_time",
    ),
    "SCH-08": SHOULD(
        "basic/index#composition-keyword-resource-use",
        "The server limits the depth, the size, and the validation time of schemas.",
        "protocol/schema/test_compiler.py::test_unusable_schema_is_rejected_at_compile_time",
        "protocol/schema/test_keywords.py::test_adversarial_instance_is_validated_in_bounded_time",
    ),
    "SCH-09": MUST(
        "server/tools#tool",
        "tools/list returns all keywords of a schema unchanged.",
        "protocol/schema/test_compiler.py::test_compiled_schema_keeps_all_keywords_and_ignores_later_changes",
        "components/test_tools.py::TestHandWrittenSchema::test_hand_written_schema_is_listed_unchanged",
    ),
    "ICO-01": SHOULD(
        "basic/index#icons",
        "Icons have https or data URIs.",
        "protocol/test_content.py::test_icon_accepts_a_uri_a_mapping_or_an_icon",
        "protocol/test_content.py::test_icon_from_another_source_than_http_or_data_is_rejected",
    ),
    # 2.7 Transports in general, and stdio
    "TR-01": MUST(
        "basic/transports/index#messages",
        "A transport carries client requests and notifications, and server responses and notifications.",
        "transports/http/session/test_stream_choice.py::test_stateless_stream_is_not_resumable_and_responses_are_rejected",
        SEE,
    ),
    "TR-02": MUST(
        "basic/transports/index#custom-transports",
        "A custom transport keeps message format, message patterns, and request metadata.",
        "transports/connection/test_connection.py::test_listen_request_receives_notifications_and_is_answered_on_close",
    ),
    "STD-01": MUST(
        "basic/transports/stdio",
        "Every message is one line without embedded newlines.",
        "dispatch/test_messages.py::test_encoded_message_contains_no_line_breaks",
    ),
    "STD-02": MUST(
        "basic/transports/stdio",
        "The server writes only MCP messages to stdout.",
        "transports/connection/test_stdio.py::test_printed_output_goes_to_stderr",
    ),
    "STD-03": MAY(
        "basic/transports/stdio",
        "The server may write UTF-8 logs to stderr.",
        "transports/connection/test_stdio.py::test_printed_output_goes_to_stderr",
    ),
    "STD-04": MUST(
        "basic/transports/stdio#receiving-messages",
        "The server writes no JSON-RPC requests to stdout.",
        "frame/client/test_request_state.py::test_input_required_result_contains_input_requests_but_no_content",
    ),
    "STD-05": MUST(
        "basic/transports/stdio#cancellation",
        "The server stops work on a cancelled request and sends no more messages for it.",
        "dispatch/test_cancellation.py::test_cancelled_request_over_stdio_receives_no_response",
        "transports/connection/test_stdio.py::test_cancelled_request_is_not_answered",
    ),
    "STD-06": SHOULD(
        "basic/transports/stdio#shutdown",
        "The server exits promptly when stdin is closed.",
        "transports/connection/test_stdio.py::test_stateless_and_session_requests_are_answered_until_stdin_closes",
        "transports/connection/test_stdio.py::test_running_calls_are_cancelled_when_the_client_disconnects",
    ),
    "STD-07": MAY(
        "basic/transports/stdio#shutdown",
        "The server may shut down: it closes stdout and exits.",
        "transports/connection/test_stdio.py::test_sigterm_stops_the_process",
    ),
    "STD-08": PRACTICE(
        "basic/transports/stdio#receiving-messages",
        "Several requests and subscriptions share one stdout at the same time.",
        "transports/connection/test_stdio.py::test_calls_run_concurrently",
        SEE,
    ),
    "STD-09": PRACTICE(
        "basic/transports/stdio#backward-compatibility",
        "The server answers server/discover before any initialize.",
        "dispatch/methods/test_lifecycle.py::test_server_discover_is_answered_before_initialize",
    ),
    # 2.8 Streamable HTTP
    "HTTP-01": MUST(
        "basic/transports/streamable-http",
        "One endpoint path serves POST.",
        "transports/http/test_consumer.py::test_other_paths_are_passed_to_django",
    ),
    "HTTP-02": MUST(
        "basic/transports/streamable-http#security-endpoint",
        "The server validates Origin on every connection and answers an invalid one with 403.",
        "transports/http/test_consumer.py::test_foreign_origin_is_rejected",
        "transports/http/test_consumer.py::test_unknown_host_is_rejected",
    ),
    "HTTP-03": SHOULD(
        "basic/transports/streamable-http#security-endpoint",
        "A local server binds only to localhost.",
        "transports/http/test_consumer.py::test_own_or_missing_origin_is_accepted",
        "example_site/test_example_site.py::test_serve_binds_only_to_this_machine_by_default",
        because="The ASGI server binds the address; scripts/serve binds 127.0.0.1.",
    ),
    "HTTP-04": SHOULD(
        "basic/transports/streamable-http#security-endpoint",
        "The server authenticates all connections.",
        "transports/http/test_consumer.py::test_endpoint_without_authenticators_raises_improperly_configured",
    ),
    "HTTP-05": MUST(
        "basic/transports/streamable-http#sending-messages",
        "The server answers an accepted notification with 202 and no body, and others with an error status.",
        "transports/http/test_consumer.py::test_notification_is_accepted_with_an_empty_body",
        "transports/http/session/test_stream_choice.py::test_stateless_stream_is_not_resumable_and_responses_are_rejected",
    ),
    "HTTP-06": MUST(
        "basic/transports/streamable-http#sending-messages",
        "The server answers a request with application/json or text/event-stream.",
        "transports/http/test_consumer.py::test_call_without_notifications_is_answered_as_json",
        "transports/http/test_consumer.py::test_stream_is_opened_by_the_first_notification",
    ),
    "HTTP-07": MUST(
        "basic/transports/streamable-http#receiving-messages",
        "Notifications on a response stream relate to the request of that stream.",
        "transports/test_conformance_scenarios.py::test_concurrent_requests_have_independent_log_levels",
    ),
    "HTTP-08": MUST(
        "basic/transports/streamable-http#receiving-messages",
        "The server sends no JSON-RPC requests on the stream.",
        "frame/client/test_request_state.py::test_input_required_result_contains_input_requests_but_no_content",
    ),
    "HTTP-09": SHOULD(
        "basic/transports/streamable-http#receiving-messages",
        "The response ends the stream.",
        "transports/http/test_consumer.py::test_stream_is_opened_by_the_first_notification",
    ),
    "HTTP-10": SHOULD(
        "basic/transports/streamable-http#receiving-messages",
        "SSE responses have X-Accel-Buffering: no, and long streams carry keepalive comments.",
        "transports/http/test_consumer.py::test_stream_is_opened_by_the_first_notification",
        "transports/http/test_listen_stream.py::test_listen_stream_sends_keepalive_comments",
    ),
    "HTTP-11": MUST(
        "basic/transports/streamable-http#cancellation",
        "The server treats a closed response stream as cancellation of its request.",
        "transports/test_conformance_scenarios.py::test_closed_stream_cancels_only_its_own_call",
        "transports/http/test_consumer.py::test_stateless_stream_is_cancelled_when_the_client_disconnects",
    ),
    "HTTP-12": MUST(
        "basic/transports/streamable-http#protocol-version-header",
        "The server rejects a request without MCP-Protocol-Version unless it serves older revisions.",
        "transports/http/test_consumer.py::test_headers_that_do_not_match_the_body_are_rejected",
    ),
    "HTTP-13": MUST(
        "basic/transports/streamable-http#protocol-version-header",
        "The server answers 400 and -32020 if the version header differs from _meta.",
        "transports/http/test_consumer.py::test_headers_that_do_not_match_the_body_are_rejected",
        "transports/http/test_consumer.py::test_errors_are_reported_in_order_of_precedence",
    ),
    "HTTP-14": MUST(
        "basic/transports/streamable-http#protocol-version-header",
        "The server answers an unknown method with status 404 and a JSON-RPC error.",
        "transports/http/test_consumer.py::test_stateless_error_has_its_own_http_status",
    ),
    "HTTP-15": SHOULD(
        "basic/transports/streamable-http#earlier-streamable-http-revisions",
        "A server without session revisions answers GET and DELETE with 405.",
        "transports/http/session/test_get_stream.py::test_get_and_delete_in_the_stateless_revision_get_405",
    ),
    "HTTP-16": SHOULD(
        "basic/transports/streamable-http#earlier-streamable-http-revisions",
        "The server ignores Mcp-Session-Id and sends no session id.",
        "transports/http/test_consumer.py::test_stateless_request_ignores_a_session_id_and_creates_none",
    ),
    "HTTP-17": SHOULD(
        "basic/transports/streamable-http#earlier-streamable-http-revisions",
        "The server ignores Last-Event-ID and sends no event ids.",
        "transports/http/session/test_stream_choice.py::test_stateless_stream_is_not_resumable_and_responses_are_rejected",
        "transports/http/test_consumer.py::test_stateless_events_have_no_ids",
    ),
    "HTTP-18": SHOULD(
        "deprecated#deprecated",
        "New implementations do not adopt the HTTP+SSE transport of 2024-11-05.",
        "transports/http/test_http_sse.py::test_http_sse_endpoints_are_off_by_default",
    ),
    "HTTP-19": PRACTICE(
        "JSON-RPC 2.0 §5.1",
        "The server answers invalid JSON with -32700 and invalid requests with -32600, both with status 400.",
        "transports/http/test_consumer.py::test_malformed_message_is_a_bad_request",
    ),
    # 2.9 Mirrored headers
    "HDR-01": MUST(
        "basic/transports/streamable-http#server-validation",
        "The server rejects a request without a required Mcp-Method or Mcp-Name with 400 and -32020.",
        "transports/http/test_consumer.py::test_headers_that_do_not_match_the_body_are_rejected",
        "protocol/test_headers.py::test_name_header_sources_are_defined_for_the_methods_of_the_specification",
    ),
    "HDR-02": MUST(
        "basic/transports/streamable-http#server-validation",
        "The server rejects a request whose headers differ from its body.",
        "transports/http/test_consumer.py::test_headers_that_do_not_match_the_body_are_rejected",
    ),
    "HDR-03": MUST(
        "basic/transports/streamable-http#server-validation",
        "The server rejects invalid characters in a known header.",
        "protocol/test_headers.py::test_headers_that_differ_from_the_body_are_rejected",
        "protocol/test_headers.py::test_malformed_header_value_raises_mismatch_with_the_header_name",
    ),
    "HDR-04": MUST(
        "basic/transports/streamable-http#case-sensitivity",
        "Header names are case-insensitive; header values are case-sensitive.",
        "protocol/test_headers.py::test_headers_that_differ_from_the_body_are_rejected",
    ),
    "HDR-05": MUST(
        "RFC 9110 §5.5",
        "The server strips optional whitespace around header values.",
        "transports/http/test_consumer.py::test_padded_or_encoded_name_header_is_accepted",
        "protocol/test_headers.py::test_header_value_is_stripped_and_decoded",
    ),
    "HDR-06": MUST(
        "basic/transports/streamable-http#value-encoding",
        "The server decodes base64 values of Mcp-Name and Mcp-Param headers before it compares them.",
        "transports/http/test_consumer.py::test_padded_or_encoded_name_header_is_accepted",
        "protocol/test_headers.py::test_header_value_is_stripped_and_decoded",
    ),
    "HDR-07": PRACTICE(
        "basic/transports/streamable-http#value-encoding",
        "A value without both base64 markers is literal; invalid base64 between them is a mismatch.",
        "protocol/test_headers.py::test_header_value_is_stripped_and_decoded",
        "protocol/test_headers.py::test_malformed_header_value_raises_mismatch_with_the_header_name",
    ),
    "HDR-08": PRACTICE(
        "basic/transports/streamable-http#value-encoding",
        "The server does not decode Mcp-Method and MCP-Protocol-Version.",
        "protocol/test_headers.py::test_headers_that_differ_from_the_body_are_rejected",
    ),
    "HDR-09": PRACTICE(
        "basic/transports/streamable-http#server-validation",
        "The server rejects a repeated routing header.",
        "transports/http/test_consumer.py::test_duplicate_header_is_rejected",
    ),
    "XH-01": MUST(
        "basic/transports/streamable-http#schema-extension",
        "An x-mcp-header value is a nonempty header token that is unique within the schema.",
        "protocol/test_headers.py::test_invalid_header_annotation_is_rejected_with_a_remedy",
    ),
    "XH-02": MUST(
        "basic/transports/streamable-http#schema-extension",
        "x-mcp-header marks only integer, string, and boolean properties.",
        "protocol/test_headers.py::test_invalid_header_annotation_is_rejected_with_a_remedy",
        "protocol/test_headers.py::test_parameter_headers_that_differ_from_the_arguments_are_rejected",
    ),
    "XH-03": MUST(
        "basic/transports/streamable-http#schema-extension",
        "x-mcp-header marks only properties that a chain of properties keywords reaches.",
        "protocol/test_headers.py::test_invalid_header_annotation_is_rejected_with_a_remedy",
        "protocol/test_headers.py::test_parameter_headers_are_collected_from_the_schema",
    ),
    "XH-04": PRACTICE(
        "server/tools#x-mcp-header",
        "The server validates x-mcp-header when a tool is registered, because clients drop invalid tools.",
        "components/test_tools.py::TestHandWrittenSchema::test_hand_written_schema_with_an_invalid_header_name_is_rejected",
    ),
    "XH-05": MUST(
        "basic/transports/streamable-http#server-behavior-for-custom-headers",
        "The server rejects a call whose marked argument lacks a matching Mcp-Param header.",
        "dispatch/methods/test_tools.py::test_argument_sent_in_a_header_is_passed_to_the_handler",
        "protocol/test_headers.py::test_parameter_headers_that_differ_from_the_arguments_are_rejected",
    ),
    "XH-06": MUST(
        "basic/transports/streamable-http#server-behavior-for-custom-headers",
        "The server expects no Mcp-Param header for a null or absent argument.",
        "protocol/test_headers.py::test_parameter_headers_that_match_the_arguments_are_accepted",
    ),
    "XH-07": SHOULD(
        "basic/transports/streamable-http#server-validation",
        "The server compares integers by numeric value.",
        "protocol/test_headers.py::test_parameter_headers_that_match_the_arguments_are_accepted",
        "protocol/test_headers.py::test_any_scalar_argument_matches_its_encoded_header",
    ),
    "XH-08": SHOULD(
        "server/tools#x-mcp-header",
        "x-mcp-header does not mark secrets or personal data.",
        because=AUTHORS,
    ),
    "XH-09": MUST(
        "basic/transports/streamable-http#server-behavior-for-custom-headers",
        "The server ignores unknown Mcp-Param headers.",
        "protocol/test_headers.py::test_headers_that_match_the_body_are_accepted",
        "protocol/test_headers.py::test_parameter_headers_that_match_the_arguments_are_accepted",
    ),
    # 2.10 Patterns: multi-round-trip requests
    "MRTR-01": MUST(
        "basic/patterns/mrtr#supported-requests",
        "Only tools/call, prompts/get, and resources/read return an InputRequiredResult.",
        "frame/client/test_request_state.py::test_input_required_result_contains_input_requests_but_no_content",
        "frame/client/test_input_requests.py::test_input_request_in_a_completion_returns_internal_error",
    ),
    "MRTR-02": MUST(
        "basic/patterns/mrtr#server-requirements-basic-workflow",
        "An InputRequiredResult has inputRequests, requestState, or both.",
        "frame/client/test_request_state.py::test_input_required_result_contains_input_requests_but_no_content",
    ),
    "MRTR-03": MUST(
        "basic/patterns/mrtr#server-requirements-basic-workflow",
        "Input requests are elicitation, sampling, or roots requests with unique keys.",
        "frame/client/test_request_state.py::test_input_required_result_contains_input_requests_but_no_content",
        "frame/client/test_multi_round_trip.py::TestSeveralInputRequests::test_aask_sends_several_input_requests_together",
    ),
    "MRTR-04": MUST(
        "basic/patterns/mrtr#server-requirements-basic-workflow",
        "The server sends only input requests that the client declared support for.",
        "frame/client/test_input_requests.py::test_elicitation_is_rejected_without_client_capability",
        "frame/client/test_input_requests.py::test_empty_elicitation_capability_allows_only_forms",
        "frame/client/test_input_requests.py::test_sampling_with_tools_requires_the_sampling_tools_capability",
    ),
    "MRTR-05": MUST(
        "basic/patterns/mrtr#server-requirements-basic-workflow",
        "The server treats requestState as untrusted input.",
        "frame/client/test_multi_round_trip.py::TestRequestState::test_forged_request_state_is_rejected",
    ),
    "MRTR-06": MUST(
        "basic/patterns/mrtr#server-requirements-basic-workflow",
        "The server protects the integrity of requestState and rejects a state that fails verification.",
        "frame/client/test_multi_round_trip.py::TestRequestState::test_forged_request_state_is_rejected",
    ),
    "MRTR-07": SHOULD(
        "basic/patterns/mrtr#server-requirements-basic-workflow",
        "requestState contains the user, an expiry, and a digest of the request; the server checks them.",
        "frame/client/test_request_state.py::test_request_state_is_rejected_for_another_caller_or_request",
        "frame/client/test_request_state.py::test_expired_request_state_is_rejected",
    ),
    "MRTR-08": MUST(
        "basic/patterns/mrtr#server-requirements-basic-workflow",
        "The server itself ensures that a one-time state is used only once.",
        "frame/client/test_multi_round_trip.py::TestSingleUseRequestState::test_reused_single_use_request_state_is_rejected",
    ),
    "MRTR-09": MUST(
        "basic/patterns/mrtr#server-requirements-basic-workflow",
        "The server does not assume that the client fulfills input requests or retries.",
        "frame/client/test_multi_round_trip.py::TestDeclaredHandler::test_writes_before_an_input_request_are_rolled_back",
    ),
    "MRTR-10": MAY(
        "basic/patterns/mrtr#server-requirements-basic-workflow",
        "The server may return an InputRequiredResult several times for one request.",
        "frame/client/test_multi_round_trip.py::TestSeveralInputRequests::test_sequential_input_requests_take_one_retry_each",
    ),
    "MRTR-11": SHOULD(
        "basic/patterns/mrtr#error-handling",
        "The server validates inputResponses and answers malformed ones with an error.",
        "frame/client/test_multi_round_trip.py::TestRequestState::test_malformed_input_responses_are_rejected",
    ),
    "MRTR-12": SHOULD(
        "basic/patterns/mrtr#error-handling",
        "The server ignores unknown keys in inputResponses.",
        "frame/client/test_multi_round_trip.py::TestRequestState::test_unknown_input_responses_are_ignored",
    ),
    "MRTR-13": SHOULD(
        "basic/patterns/mrtr#error-handling",
        "The server requests missing required input again instead of returning an error.",
        "frame/client/test_input_requests.py::test_elicitation_is_repeated_after_an_invalid_response",
        SEE,
    ),
    "MRTR-14": MUST(
        "server/utilities/caching#cacheable-results",
        "An InputRequiredResult has no ttlMs and no cacheScope.",
        "frame/client/test_request_state.py::test_input_required_result_contains_input_requests_but_no_content",
    ),
    "MRTR-15": PRACTICE(
        "basic/patterns/mrtr#client-requirements-basic-workflow",
        "A retry is an independent request with a new id and full _meta.",
        "frame/client/test_request_state.py::test_retry_is_rejected_when_it_declares_no_matching_capability",
    ),
    "MRTR-16": PRACTICE(
        "basic/patterns/mrtr#client-requirements-basic-workflow",
        "A result with requestState alone lets the client retry immediately.",
        because="A handler without input requests returns its result; a long call reports progress.",
    ),
    # 2.11 Patterns: subscriptions
    "SUB-01": MUST(
        "basic/patterns/subscriptions#acknowledgment",
        "The acknowledgment is the first message of a subscription.",
        "transports/http/test_listen_stream.py::test_every_message_carries_the_subscription_id",
        SEE,
    ),
    "SUB-02": MUST(
        "basic/patterns/subscriptions#acknowledgment",
        "The acknowledgment lists only the notification types that the server sends.",
        "transports/http/test_listen_stream.py::test_unknown_and_hidden_resources_are_left_out_of_the_acknowledgement",
        "transports/http/test_listen_stream.py::test_disabled_capabilities_are_left_out_of_the_acknowledgement",
    ),
    "SUB-03": MUST(
        "basic/patterns/subscriptions#opening-a-stream",
        "The server sends only notification types that the client requested.",
        "transports/http/test_listen_stream.py::test_only_requested_notifications_are_sent",
    ),
    "SUB-04": MUST(
        "basic/patterns/subscriptions#receiving-notifications",
        "subscriptionId equals the id of the listen request, with the same JSON type.",
        "transports/http/test_listen_stream.py::test_every_message_carries_the_subscription_id",
    ),
    "SUB-05": MUST(
        "basic/patterns/subscriptions#multiple-concurrent-subscriptions",
        "A client may have several independent subscriptions.",
        "transports/http/test_listen_stream.py::test_concurrent_subscriptions_are_independent",
    ),
    "SUB-06": SHOULD(
        "basic/patterns/subscriptions#graceful-closure",
        "The server ends a subscription with a result and then closes the stream.",
        "transports/http/test_listen_stream.py::test_stream_closed_by_the_server_ends_with_the_response",
    ),
    "SUB-07": MUST(
        "basic/patterns/subscriptions#graceful-closure",
        "The server keeps no subscription state across connections.",
        "transports/http/test_listen_stream.py::test_disconnect_releases_subscriptions_and_streams",
    ),
    "SUB-08": MUST(
        "basic/transports/streamable-http#receiving-messages",
        "The server sends no progress and no log messages on a listen stream.",
        "transports/http/test_listen_stream.py::test_only_requested_notifications_are_sent",
    ),
    "SUB-09": SHOULD(
        "server/tools#list-changed-notification",
        "A server that declares listChanged sends list_changed to matching subscriptions.",
        "transports/http/test_listen_stream.py::test_every_message_carries_the_subscription_id",
        "transports/test_two_workers.py::test_list_change_reaches_listen_streams_on_both_workers",
    ),
    "SUB-10": PRACTICE(
        "server/resources#subscriptions",
        "The server sends notifications/resources/updated only for subscribed URIs.",
        "transports/http/test_listen_stream.py::test_only_requested_notifications_are_sent",
    ),
    "SUB-11": PRACTICE(
        "server/resources#security-considerations",
        "The server checks read permission when a subscription opens and before each notification.",
        "transports/http/test_listen_stream.py::test_resource_update_is_not_sent_after_read_permission_is_revoked",
        "transports/http/test_listen_stream.py::test_unknown_and_hidden_resources_are_left_out_of_the_acknowledgement",
    ),
    "SUB-12": PRACTICE(
        "basic/patterns/subscriptions#notification-filter",
        "The server accepts an empty filter and keeps the stream open.",
        "transports/http/test_listen_stream.py::test_empty_filter_is_accepted_and_sends_nothing",
    ),
    # 2.12 Patterns: cancellation, progress
    "CAN-01": MUST(
        "basic/patterns/cancellation#transport-specific-cancellation",
        "Over HTTP, a disconnect cancels exactly the request of that stream.",
        "transports/test_conformance_scenarios.py::test_closed_stream_cancels_only_its_own_call",
        "frame/client/test_late_messages.py::test_notifications_of_a_cancelled_request_are_dropped",
    ),
    "CAN-02": SHOULD(
        "basic/patterns/cancellation#behavior-requirements",
        "The server stops a cancelled request, frees its resources, and sends no response.",
        "dispatch/test_cancellation.py::test_cancelled_request_over_stdio_receives_no_response",
    ),
    "CAN-03": MAY(
        "basic/patterns/cancellation#behavior-requirements",
        "The server may ignore a cancellation of an unknown, finished, or uncancellable request.",
        "dispatch/test_cancellation.py::test_cancellation_of_unknown_request_is_ignored",
    ),
    "CAN-04": MUST(
        "basic/patterns/cancellation#timing-considerations",
        "The server handles races between cancellation and response.",
        "dispatch/test_cancellation.py::test_cancellation_of_unknown_request_is_ignored",
        "transports/connection/test_connection.py::test_cancellation_before_its_request_is_ignored",
    ),
    "CAN-05": MUST(
        "basic/patterns/cancellation#behavior-requirements",
        "The server sends notifications/cancelled only to end a subscription.",
        "transports/connection/test_connection.py::test_listen_request_receives_notifications_and_is_answered_on_close",
        "transports/http/test_listen_stream.py::test_stream_closed_by_the_server_ends_with_the_response",
        SEE,
    ),
    "CAN-06": SHOULD(
        "basic/patterns/cancellation#timeouts",
        "Timeouts are configurable, and a maximum applies despite progress.",
        "dispatch/test_cancellation.py::test_call_exceeding_the_handler_timeout_is_cancelled",
    ),
    "CAN-07": SHOULD(
        "basic/patterns/cancellation#implementation-notes",
        "The server logs the reason of a cancellation.",
        "dispatch/test_cancellation.py::test_cancellation_reason_is_logged",
    ),
    "CAN-08": PRACTICE(
        "basic/patterns/cancellation#transport-specific-cancellation",
        "Over HTTP, the server ignores a posted notifications/cancelled.",
        "transports/test_conformance_scenarios.py::test_stateless_cancellation_notification_is_accepted_and_ignored",
    ),
    "PRG-01": MUST(
        "basic/patterns/progress#behavior-requirements",
        "The server sends progress only for a token of an active request and repeats it unchanged.",
        "frame/client/test_progress_and_logs.py::test_progress_notification_repeats_the_token_with_its_type",
        "frame/client/test_progress_and_logs.py::test_progress_is_not_sent_without_a_progress_token",
    ),
    "PRG-02": MUST(
        "basic/patterns/progress#progress-flow",
        "progress increases with every notification; progress and total may be floating-point numbers.",
        "frame/client/test_progress_and_logs.py::test_progress_that_does_not_increase_is_dropped",
        "frame/client/test_late_messages.py::test_copies_of_a_frame_share_one_increasing_progress",
        "frame/client/test_late_messages.py::test_progress_that_is_not_finite_is_dropped",
    ),
    "PRG-03": MUST(
        "basic/patterns/progress#implementation-notes",
        "The server sends no progress after the response.",
        "frame/client/test_late_messages.py::test_notifications_after_the_response_are_dropped",
    ),
    "PRG-04": SHOULD(
        "basic/patterns/progress#implementation-notes",
        "The server limits the rate of progress; message is readable text.",
        "transports/http/test_consumer.py::test_async_handler_waits_for_a_slow_client",
        because="The author decides on the messages; a handler that sends many waits for the client.",
    ),
    "PRG-05": MAY(
        "basic/patterns/progress#behavior-requirements",
        "The server may send no progress.",
        "frame/client/test_progress_and_logs.py::test_progress_is_not_sent_without_a_progress_token",
    ),
    "PRG-06": SHOULD(
        "basic/patterns/progress#implementation-notes",
        "The server tracks active progress tokens.",
        "frame/client/test_late_messages.py::test_notifications_after_the_response_are_dropped",
    ),
    # 2.13 Utilities
    "CCH-01": MUST(
        "server/utilities/caching#cacheable-results",
        "Results of discover, list methods, and resources/read have ttlMs and cacheScope.",
        "dispatch/test_pagination.py::test_lists_contain_cache_hints_only_in_2026_07_28",
        "dispatch/methods/test_resources.py::test_cache_hint_of_the_resource_overrides_the_server_default",
        "dispatch/methods/test_lifecycle.py::test_server_discover_returns_versions_and_instructions",
    ),
    "CCH-02": MUST(
        "server/utilities/caching#time-to-live-ttl-field",
        "ttlMs is an integer that is not negative.",
        "components/test_tools.py::TestConfigurationErrors::test_invalid_option_is_rejected_with_a_remedy",
        "dispatch/test_pagination.py::test_list_cache_hint_defaults_to_private_and_zero_ttl",
    ),
    "CCH-03": MUST(
        "server/utilities/caching#interaction-with-pagination",
        "cacheScope is public or private, and equal on all pages of a list.",
        "components/test_tools.py::TestConfigurationErrors::test_invalid_option_is_rejected_with_a_remedy",
        "dispatch/test_pagination.py::test_all_pages_of_a_list_have_the_same_cache_hint",
    ),
    "CCH-04": MUST(
        "server/utilities/caching#security-considerations",
        "Results that depend on the user have cacheScope private.",
        "dispatch/test_pagination.py::test_list_cache_hint_defaults_to_private_and_zero_ttl",
    ),
    "CCH-05": MUST(
        "server/utilities/caching#security-considerations",
        "The server controls access to every primitive and does not rely on cacheScope.",
        "dispatch/test_visibility.py::test_forbidden_component_returns_the_same_error_as_a_missing_one",
    ),
    "CCH-06": MAY(
        "server/utilities/caching#interaction-with-pagination",
        "ttlMs may differ between pages and does not depend on listChanged.",
        "dispatch/methods/test_resources.py::test_cache_hint_of_the_resource_overrides_the_server_default",
    ),
    "PAG-01": SHOULD(
        "server/utilities/pagination#implementation-guidelines",
        "Cursors are stable; the server answers an invalid cursor with -32602.",
        "dispatch/test_pagination.py::test_forged_or_malformed_cursor_is_rejected",
        "dispatch/test_pagination.py::test_cursor_remains_valid_after_components_change",
    ),
    "PAG-02": MUST(
        "server/utilities/pagination#implementation-guidelines",
        "The server omits nextCursor on the last page, because an empty string is a cursor.",
        "dispatch/test_pagination.py::test_full_last_page_has_no_next_cursor",
        "dispatch/test_pagination.py::test_forged_or_malformed_cursor_is_rejected",
    ),
    "PAG-03": PRACTICE(
        "basic/index#statelessness",
        "A cursor is valid in every worker and is signed.",
        "dispatch/test_pagination.py::test_cursor_of_another_server_is_rejected",
        "dispatch/test_visibility.py::test_pages_are_filled_with_permitted_components",
        because="A cursor identifies a position and no principal: permissions are checked for each page.",
    ),
    "LOG-01": MUST(
        "server/utilities/logging#capabilities",
        "A server that sends log messages declares the logging capability.",
        "frame/client/test_late_messages.py::test_log_messages_are_dropped_without_logging_capability",
    ),
    "LOG-02": MUST(
        "server/utilities/logging#per-request-log-level",
        "The server sends no log messages for a request without logLevel.",
        "frame/client/test_progress_and_logs.py::test_default_log_level_depends_on_the_revision",
        "transports/test_conformance_scenarios.py::test_concurrent_requests_have_independent_log_levels",
    ),
    "LOG-03": MUST(
        "server/utilities/logging#per-request-log-level",
        "The server sends log messages at or above the level, on the stream of the request, before the response.",
        "transports/test_conformance_scenarios.py::test_log_messages_below_the_level_of_the_request_are_not_sent",
        "frame/client/test_late_messages.py::test_notifications_after_the_response_are_dropped",
    ),
    "LOG-04": SHOULD(
        "server/utilities/logging#error-handling",
        "The server answers an unknown log level with -32602.",
        "transports/test_conformance_scenarios.py::test_unknown_log_level_is_rejected",
    ),
    "LOG-05": MUST(
        "server/utilities/logging#security",
        "Log messages contain no credentials, personal data, or internal details.",
        "dispatch/methods/test_log_level.py::TestClientHandler::test_records_of_the_django_mcp_logger_are_not_sent_to_the_client",
        "dispatch/methods/test_log_level.py::TestClientHandler::test_traceback_is_not_sent_to_the_client",
        because="The author decides on log messages; the framework sends none of its own.",
    ),
    "LOG-06": SHOULD(
        "deprecated#deprecated",
        "New implementations use stderr or OpenTelemetry instead of log messages.",
        "dispatch/methods/test_log_level.py::TestClientHandler::test_log_record_emitted_in_a_call_is_sent_to_its_client",
        because="Supported for existing clients; authors are warned once that it is deprecated.",
    ),
    "CMP-01": MUST(
        "server/utilities/completion#capabilities",
        "A server with completion declares the completions capability.",
        "dispatch/methods/test_completion.py::test_completions_capability_is_declared_since_2025_03_26",
    ),
    "CMP-02": MUST(
        "server/utilities/completion#completion-results",
        "A completion has at most 100 values, and optional total and hasMore.",
        "dispatch/methods/test_completion.py::test_completion_is_truncated_to_100_values",
    ),
    "CMP-03": SHOULD(
        "server/utilities/completion#error-handling",
        "The server answers an unknown reference or a missing argument with -32602.",
        "dispatch/methods/test_completion.py::test_invalid_completion_params_are_rejected",
        "dispatch/methods/test_completion.py::test_completion_returns_method_not_found_without_completers",
        "dispatch/methods/test_completion.py::test_exception_in_completer_returns_internal_error",
    ),
    "CMP-04": MUST(
        "server/utilities/completion#security",
        "The server validates inputs, limits the rate, and restricts sensitive suggestions.",
        "dispatch/methods/test_completion.py::test_invalid_completion_params_are_rejected",
        "test_middleware.py::test_calls_and_completions_share_one_rate_limit",
        "dispatch/test_visibility.py::test_completion_of_a_forbidden_prompt_returns_the_error_of_a_missing_one",
    ),
    "CMP-05": SHOULD(
        "server/utilities/completion#implementation-considerations",
        "The server sorts values by relevance and uses context.arguments.",
        "dispatch/methods/test_completion.py::test_completer_receives_context_arguments_since_2025_06_18",
        because="The author decides on the order of completions.",
    ),
    # 2.14 Tools
    "TOOL-01": MUST(
        "server/tools#capabilities",
        "A server with tools declares the tools capability.",
        "dispatch/methods/test_lifecycle.py::test_server_declares_capabilities_of_its_components",
    ),
    "TOOL-02": MUST(
        "server/tools#capabilities",
        "tools/list depends on the authorization of the request, never on the connection.",
        "dispatch/test_pagination.py::test_declared_capability_without_components_returns_an_empty_list",
        "frame/test_runtime_components.py::TestSessionComponents::test_components_registered_in_a_stateless_call_are_discarded",
        "dispatch/test_visibility.py::test_components_are_not_listed_without_permission",
    ),
    "TOOL-03": SHOULD(
        "server/tools#capabilities",
        "tools/list returns the tools in a deterministic order.",
        "dispatch/test_pagination.py::test_list_is_sorted_by_order_and_then_by_name",
    ),
    "TOOL-04": SHOULD(
        "server/tools#tool-names",
        "A tool name is unique and has 1 to 128 ASCII letters, digits, underscores, hyphens, or dots.",
        "dispatch/test_pagination.py::test_component_name_with_valid_characters_is_accepted",
        "dispatch/test_pagination.py::test_component_name_with_invalid_characters_or_length_is_rejected",
        "dispatch/test_pagination.py::test_duplicate_name_is_rejected_with_both_source_locations",
    ),
    "TOOL-05": MUST(
        "server/tools#tool",
        "inputSchema is a JSON Schema object whose root type is object.",
        "components/test_tools.py::TestHandWrittenSchema::test_hand_written_schema_that_is_not_an_object_is_rejected",
        "components/test_signatures.py::TestInputSchema::test_input_schema_without_parameters_allows_no_properties",
    ),
    "TOOL-06": PRACTICE(
        "server/tools#tool",
        "Every tool has a description.",
        "test_checks.py::test_tool_without_description_is_reported",
        "dispatch/test_pagination.py::test_descriptions_are_listed_in_every_revision",
    ),
    "TOOL-07": MUST(
        "server/tools#output-schema",
        "structuredContent conforms to the outputSchema of the tool.",
        "dispatch/test_structured_output.py::test_explicit_output_schema_is_listed_unchanged",
        "dispatch/test_structured_output.py::test_union_result_is_wrapped_in_an_object_before_2026_07_28",
        "dispatch/test_structured_output.py::test_response_violating_the_output_schema_returns_internal_error",
    ),
    "TOOL-08": SHOULD(
        "server/tools#structured-content",
        "The server also returns structured content as JSON in a text block.",
        "dispatch/test_structured_output.py::test_pydantic_model_is_sent_as_structured_content_and_text",
    ),
    "TOOL-09": MUST(
        "server/tools#error-handling",
        "The server answers an unknown tool or a malformed tools/call with -32602.",
        "dispatch/test_bad_input.py::test_tool_call_with_invalid_name_or_arguments_returns_invalid_params",
    ),
    "TOOL-10": MUST(
        "server/tools#error-handling",
        "The server reports invalid arguments and tool errors in a result with isError set to true.",
        "dispatch/test_bad_input.py::test_arguments_violating_the_schema_return_an_error_result",
        "dispatch/methods/test_tools.py::test_tool_error_is_returned_as_an_error_result",
    ),
    "TOOL-11": MUST(
        "server/tools#security-considerations",
        "The server validates inputs, controls access, limits the rate, and sanitizes outputs.",
        "dispatch/test_bad_input.py::test_arguments_violating_the_schema_return_an_error_result",
        "dispatch/test_visibility.py::test_forbidden_component_returns_the_same_error_as_a_missing_one",
        "test_middleware.py::test_calls_and_completions_share_one_rate_limit",
        "dispatch/test_bad_input.py::test_result_violating_the_output_schema_returns_internal_error",
    ),
    "TOOL-12": SHOULD(
        "server/tools#embedded-resources",
        "A server that embeds resources declares the resources capability.",
        "protocol/test_content.py::test_bytes_are_encoded_in_standard_base64",
        "dispatch/test_content.py::test_embedded_resources_are_sent_in_every_revision",
    ),
    "TOOL-13": MAY(
        "server/tools#input-required-tool-results",
        "tools/call may return an InputRequiredResult.",
        "frame/client/test_request_state.py::test_input_required_result_contains_input_requests_but_no_content",
    ),
    "TOOL-14": PRACTICE(
        "schema.ts#ToolAnnotations",
        "Tool annotations are hints, which clients do not trust.",
        "components/test_tools.py::TestToolFunction::test_tool_descriptor_contains_declared_options",
    ),
    "TOOL-15": SHOULD(
        "server/tools#tool-names",
        "A server that combines other servers makes colliding tool names unique.",
        because="The package contains no server that aggregates others.",
    ),
    # 2.15 Resources
    "RES-01": MUST(
        "server/resources#capabilities",
        "A server with resources declares the capability, with subscribe and listChanged if it supports them.",
        "dispatch/methods/test_lifecycle.py::test_server_declares_capabilities_of_its_components",
        "transports/http/test_listen_stream.py::test_disabled_capabilities_are_left_out_of_the_acknowledgement",
        "dispatch/methods/test_lifecycle.py::test_server_declares_that_it_sends_list_changes",
    ),
    "RES-02": MUST(
        "server/resources#capabilities",
        "resources/list depends on the authorization of the request, never on the connection.",
        "dispatch/test_pagination.py::test_declared_capability_without_components_returns_an_empty_list",
        "dispatch/test_visibility.py::test_components_are_not_listed_without_permission",
    ),
    "RES-03": MUST(
        "server/resources#error-handling",
        "The server answers an unknown resource with -32602, never with empty contents.",
        "dispatch/methods/test_resources.py::test_unknown_uri_is_rejected_with_the_uri_as_error_data",
        "dispatch/methods/test_resources.py::test_none_is_read_as_empty_text",
    ),
    "RES-04": SHOULD(
        "server/resources#error-handling",
        "The server answers an internal error with -32603.",
        "dispatch/methods/test_resources.py::test_exception_in_resource_is_logged_and_returns_internal_error",
    ),
    "RES-05": MUST(
        "server/resources#security-considerations",
        "The server validates URIs, sanitizes paths, and encodes binary data.",
        "dispatch/methods/test_resources.py::test_invalid_or_path_traversal_uri_is_rejected",
        "dispatch/methods/test_resources.py::test_bytes_are_read_as_a_blob",
    ),
    "RES-06": SHOULD(
        "server/resources#security-considerations",
        "The server checks permissions before every operation on a resource.",
        "dispatch/test_visibility.py::test_forbidden_component_returns_the_same_error_as_a_missing_one",
        "transports/http/test_listen_stream.py::test_resource_update_is_not_sent_after_read_permission_is_revoked",
    ),
    "RES-07": MAY(
        "server/resources#reading-resources",
        "resources/read may return several contents or an InputRequiredResult.",
        "dispatch/methods/test_resources.py::test_resource_response_returns_several_contents",
        "frame/client/test_request_state.py::test_input_required_result_contains_input_requests_but_no_content",
    ),
    "RES-08": SHOULD(
        "server/resources#common-uri-schemes",
        "Resources use https URIs only if the client can fetch them; custom schemes follow RFC 3986.",
        "components/test_resources.py::TestConfigurationErrors::test_uri_without_a_scheme_is_rejected",
        because=AUTHORS,
    ),
    "RES-09": PRACTICE(
        "server/resources#resource-templates",
        "The server lists RFC 6570 templates and reads every URI that matches one.",
        "dispatch/methods/test_resources.py::test_template_variables_are_decoded_and_converted_to_annotated_types",
    ),
    "RES-10": PRACTICE(
        "server/resources#annotations",
        "size is in bytes; annotations are audience, priority, and lastModified.",
        "dispatch/test_pagination.py::test_listed_resource_has_exactly_the_fields_of_the_revision",
        "protocol/test_content.py::test_annotations_accept_snake_case_and_camel_case_keys",
        "protocol/test_content.py::test_priority_that_is_no_number_from_0_to_1_is_rejected",
    ),
    "RES-11": MAY(
        "server/resources#file",
        "A file URI of a directory may have the MIME type inode/directory.",
        because="The author's MIME type is sent unchanged, also this one.",
    ),
    # 2.16 Prompts
    "PRM-01": MUST(
        "server/prompts#capabilities",
        "A server with prompts declares the prompts capability.",
        "dispatch/methods/test_lifecycle.py::test_server_declares_capabilities_of_its_components",
    ),
    "PRM-02": MUST(
        "server/prompts#capabilities",
        "prompts/list depends on the authorization of the request, never on the connection.",
        "dispatch/test_pagination.py::test_declared_capability_without_components_returns_an_empty_list",
        "dispatch/test_visibility.py::test_components_are_not_listed_without_permission",
    ),
    "PRM-03": SHOULD(
        "server/prompts#error-handling",
        "The server answers an unknown prompt or a missing argument with -32602.",
        "dispatch/methods/test_prompts.py::test_invalid_prompt_name_or_arguments_are_rejected",
        "dispatch/methods/test_prompts.py::test_exception_in_prompt_is_logged_and_returns_internal_error",
        SEE,
    ),
    "PRM-04": MUST(
        "server/prompts#promptmessage",
        "Image and audio data are base64-encoded with a MIME type; embedded resources have a URI.",
        "dispatch/test_content.py::test_prompt_messages_are_converted_to_the_negotiated_revision",
        "protocol/test_content.py::test_embedded_resource_contains_text_or_blob",
    ),
    "PRM-05": MUST(
        "server/prompts#security",
        "The server validates prompt inputs and outputs against injection and unauthorized access.",
        "dispatch/methods/test_prompts.py::test_invalid_prompt_name_or_arguments_are_rejected",
        "dispatch/methods/test_prompts.py::test_invalid_prompt_message_returns_internal_error",
        "dispatch/test_visibility.py::test_forbidden_component_returns_the_same_error_as_a_missing_one",
    ),
    "PRM-06": MAY(
        "server/prompts#getting-a-prompt",
        "prompts/get may return an InputRequiredResult.",
        "frame/client/test_request_state.py::test_input_required_result_contains_input_requests_but_no_content",
    ),
    # 2.17 What the server asks of the client
    "ELI-01": MUST(
        "client/elicitation#user-interaction-model",
        "The server requests sensitive information only in URL mode.",
        "protocol/test_elicitation.py::TestFormSchema::test_secret_field_is_rejected",
        "runtime/test_django_forms.py::TestFormSchema::test_password_field_raises_configuration_error",
        because="The author decides on the content; fields that are marked as secret are rejected.",
    ),
    "ELI-02": MUST(
        "client/elicitation#capabilities",
        "The server uses only modes that the client declared; an empty object declares form mode.",
        "frame/client/test_input_requests.py::test_empty_elicitation_capability_allows_only_forms",
        "frame/client/test_input_requests.py::test_form_elicitation_is_rejected_for_clients_with_only_url_mode",
    ),
    "ELI-03": MUST(
        "client/elicitation#requested-schema",
        "A form request has a message and a flat requestedSchema with primitive properties.",
        "frame/client/test_input_requests.py::test_elicitation_schema_is_flat_and_limited_to_the_revision",
        "frame/client/test_input_requests.py::test_choice_titles_are_encoded_for_the_revision",
        "frame/client/test_input_requests.py::test_multiple_choice_elicitation_is_rejected_before_2025_11_25",
    ),
    "ELI-04": MUST(
        "client/elicitation#url-mode-elicitation-requests",
        "A URL request has mode, message, and a valid url.",
        "frame/client/test_input_requests.py::test_url_elicitation_has_a_unique_id_only_in_2025_11_25",
        "protocol/test_elicitation.py::TestUrlElicitation::test_url_elicitation_rejects_a_relative_url",
    ),
    "ELI-05": MUST(
        "client/elicitation#error-handling",
        "The server handles accept, decline, cancel, and a missing response.",
        "frame/client/test_input_requests.py::test_declined_or_cancelled_elicitation_is_returned_to_the_handler",
        "frame/client/test_multi_round_trip.py::TestDeclaredHandler::test_writes_before_an_input_request_are_rolled_back",
    ),
    "ELI-06": MUST(
        "client/elicitation#security-considerations",
        "The server binds every elicitation to the client and the verified user.",
        "frame/client/test_request_state.py::test_request_state_is_rejected_for_another_caller_or_request",
        "frame/test_frame_of_request.py::test_user_is_anonymous_without_authentication",
    ),
    "ELI-07": MUST(
        "client/elicitation#safe-url-handling",
        "The URL contains no sensitive data and gives no pre-authenticated access.",
        "elicitation/test_pages.py::test_link_contains_nothing_readable",
        "elicitation/test_pages.py::test_page_needs_a_login",
        because="The author chooses any other URL; the framework adds nothing to it.",
    ),
    "ELI-08": MUST(
        "client/elicitation#phishing",
        "The server verifies that the user who opens the URL started the elicitation.",
        "elicitation/test_pages.py::test_link_is_not_valid_for_another_user",
        "elicitation/test_pages.py::test_changed_link_is_not_valid",
        "approvals/test_pages.py::test_page_of_a_client_is_for_its_own_user_only",
    ),
    "ELI-09": MUST(
        "client/elicitation#url-mode-elicitation-for-oauth-flows",
        "URL mode does not authorize access to the server; credentials do not pass through the client.",
        because="The page belongs to the author; the framework calls no third party and forwards no credentials.",
    ),
    "ELI-10": SHOULD(
        "client/elicitation#form-mode-security",
        "The server validates the received content against requestedSchema.",
        "frame/client/test_input_requests.py::test_elicitation_is_repeated_after_an_invalid_response",
    ),
    "ELI-11": MUST(
        "client/elicitation#statefulness",
        "Stored elicitation state is protected and belongs to one user.",
        "frame/client/test_request_state.py::test_request_state_is_rejected_for_another_caller_or_request",
        "elicitation/test_pages.py::test_answer_is_read_by_its_user_only",
    ),
    "SMP-01": MUST(
        "client/sampling#tools-in-sampling",
        "The server sends tools only if the client declared sampling.tools.",
        "frame/client/test_input_requests.py::test_sampling_with_tools_requires_the_sampling_tools_capability",
        "frame/client/test_input_requests.py::test_include_context_is_sent_without_capability_before_2025_11_25",
    ),
    "SMP-02": MUST(
        "client/sampling#message-content-constraints",
        "A message with tool results contains nothing else and has one result for every tool use.",
        "frame/client/test_input_requests.py::test_sampling_messages_with_unmatched_tool_use_are_rejected",
    ),
    "SMP-03": SHOULD(
        "client/sampling#security-considerations",
        "The server limits tool loops and treats sampled content as untrusted.",
        "frame/client/test_input_requests.py::test_sampling_is_repeated_after_an_invalid_response",
        because="The author writes and limits the tool use loop; authors are warned once that sampling is deprecated.",
    ),
    "ROO-01": SHOULD(
        "client/roots#implementation-guidelines",
        "The server checks the roots capability and validates paths against the roots.",
        "frame/client/test_input_requests.py::test_roots_request_is_repeated_when_a_root_is_not_a_file_uri",
        "frame/client/test_multi_round_trip.py::TestInputRequest::test_missing_client_capability_can_be_caught_by_the_handler",
        because="The author decides how roots are used; authors are warned once that roots are deprecated.",
    ),
    "DEP-01": PRACTICE(
        "community SDK tiers, and deprecated#deprecated",
        "A DeprecationWarning says that roots, sampling and log messages are deprecated.",
        "frame/client/test_deprecations.py::test_handler_that_uses_a_deprecated_feature_is_warned_of_once",
    ),
}

AUTHORIZATION: Mapping[str, Requirement] = {
    "AUTH-RS-01": MAY(
        "basic/authorization#protocol-requirements",
        "Authorization is optional; 2024-11-05 defines none.",
        "transports/http/test_challenge_responses.py::test_public_tool_is_called_without_a_token",
        "transports/http/test_well_known.py::test_site_without_access_tokens_has_no_metadata",
    ),
    "AUTH-RS-02": SHOULD(
        "basic/authorization#protocol-requirements",
        "HTTP servers that authorize follow this specification.",
        "transports/http/test_challenge_responses.py::test_anonymous_call_of_a_challenged_tool_gets_401",
        "transports/http/test_well_known.py::test_metadata_is_at_all_three_places",
    ),
    "AUTH-RS-03": MAY(
        "basic/index#auth",
        "Custom authentication strategies are possible.",
        "auth/test_authentication.py::test_each_scheme_has_a_challenge_of_its_own",
    ),
    "AUTH-RS-04": MUST(
        "basic/authorization#error-handling",
        "Access that is needed and not proven is answered with HTTP 401.",
        "transports/http/test_challenge_responses.py::test_anonymous_call_of_a_challenged_tool_gets_401",
        "transports/http/test_challenge_responses.py::test_every_request_of_a_session_needs_the_token",
    ),
    "AUTH-RS-05": MUST(
        "basic/authorization#authorization-server-location",
        "The server implements protected-resource metadata (RFC 9728).",
        "transports/http/test_well_known.py::test_metadata_is_at_all_three_places",
        "auth/test_resource.py::test_metadata_has_only_what_is_known",
    ),
    "AUTH-RS-06": MUST(
        "basic/authorization#authorization-server-location",
        "The document has authorization_servers with at least one entry.",
        "auth/test_resource.py::test_metadata_has_only_what_is_known",
        "transports/http/test_well_known.py::test_site_without_access_tokens_has_no_metadata",
    ),
    "AUTH-RS-07": MUST(
        "basic/authorization#authorization-server-location",
        "A 401 carries WWW-Authenticate with resource_metadata.",
        "transports/http/test_challenge_responses.py::test_anonymous_call_of_a_challenged_tool_gets_401",
        "transports/http/test_challenge_responses.py::test_every_request_of_a_session_needs_the_token",
    ),
    "AUTH-RS-08": MUST(
        "basic/authorization#protected-resource-metadata-discovery-requirements",
        "The metadata is found by that header or by the well-known URI.",
        "transports/http/test_challenge_responses.py::test_anonymous_call_of_a_challenged_tool_gets_401",
        "transports/http/test_well_known.py::test_metadata_is_at_all_three_places",
    ),
    "AUTH-RS-09": MUST(
        "basic/authorization#protected-resource-metadata-discovery-requirements",
        "The well-known URI has the path of the endpoint at its end, or is at the root.",
        "transports/http/test_well_known.py::test_metadata_is_at_all_three_places",
        "transports/http/test_well_known.py::test_endpoint_at_the_root_has_its_metadata_at_the_well_known_path",
    ),
    "AUTH-RS-10": SHOULD(
        "basic/authorization#protected-resource-metadata-discovery-requirements",
        "The challenge of a 401 has the scopes of the request.",
        "transports/http/test_challenge_responses.py::test_anonymous_call_of_a_challenged_tool_gets_401",
        "dispatch/test_hidden_or_challenged.py::test_guarded_component_is_used_hidden_or_challenged",
    ),
    "AUTH-RS-11": MAY(
        "basic/authorization#protected-resource-metadata-discovery-requirements",
        "The scopes of a challenge need not be among scopes_supported.",
        "transports/http/test_challenge_responses.py::test_anonymous_call_of_a_challenged_tool_gets_401",
    ),
    "AUTH-RS-12": SHOULD(
        "basic/authorization#protected-resource-metadata-discovery-requirements",
        "The scopes of challenges are determined consistently.",
        "dispatch/test_hidden_or_challenged.py::test_guarded_component_is_used_hidden_or_challenged",
    ),
    "AUTH-RS-13": MUST(
        "basic/authorization#token-handling",
        "Access tokens are validated as OAuth 2.1, section 5.2 says: signature or introspection, expiry, issuer.",
        "auth/test_jwt.py::test_signature_of_another_key_is_invalid",
        "auth/test_jwt.py::test_claims_that_do_not_fit_are_invalid",
        "auth/test_introspection.py::test_active_token_that_does_not_fit_is_invalid",
        "auth/test_token.py::test_every_rejection_of_a_token_is_the_same",
        "oauth/test_attacks.py::test_expired_token_is_rejected",
        "oauth/test_attacks.py::test_unknown_token_is_rejected",
    ),
    "AUTH-RS-14": MUST(
        "basic/authorization#token-handling",
        "An invalid or expired token is answered with 401.",
        "auth/test_authentication.py::test_challenge_has_the_parameters_that_are_needed_and_no_others",
        "transports/http/test_challenge_responses.py::test_every_request_of_a_session_needs_the_token",
    ),
    "AUTH-RS-15": MUST(
        "basic/authorization#token-handling",
        "A token was issued for this server (RFC 8707).",
        "auth/test_resource.py::test_token_is_accepted_if_its_audience_is_the_url_of_the_endpoint",
        "auth/test_resource.py::test_host_which_the_client_chooses_is_no_audience",
    ),
    "AUTH-RS-16": MUST(
        "basic/authorization#access-token-privilege-restriction",
        "Tokens that do not name the server as their audience are rejected.",
        "auth/test_resource.py::test_token_is_accepted_if_its_audience_is_the_url_of_the_endpoint",
        "auth/test_resource.py::test_one_of_several_audiences_suffices",
    ),
    "AUTH-RS-17": MUST(
        "basic/authorization#access-token-privilege-restriction",
        "A token is validated before anything is processed, and unauthorized parties receive no data.",
        "dispatch/test_hidden_or_challenged.py::test_token_without_the_scopes_of_the_server_is_rejected_before_the_message_is_read",
        "dispatch/test_hidden_or_challenged.py::test_guarded_component_is_used_hidden_or_challenged",
    ),
    "AUTH-RS-18": MUST(
        "basic/authorization#token-handling",
        "Only tokens that are valid for the own resources are accepted.",
        "auth/test_resource.py::test_token_is_accepted_if_its_audience_is_the_url_of_the_endpoint",
    ),
    "AUTH-RS-19": MUST(
        "basic/authorization#token-handling",
        "Other tokens are not accepted.",
        "auth/test_authentication.py::test_unknown_token_is_invalid_beside_anonymous_access",
        "auth/test_resource.py::test_token_is_accepted_if_its_audience_is_the_url_of_the_endpoint",
    ),
    "AUTH-RS-1A": MUST(
        "basic/authorization#access-token-privilege-restriction",
        "The token of a client is never forwarded.",
        "auth/test_jwt.py::test_token_is_sent_to_nobody_not_even_its_issuer",
        "auth/test_introspection.py::test_jwt_of_another_issuer_is_not_sent",
        "auth/test_introspection.py::test_personal_access_token_is_not_sent",
        because="What a handler sends is the author's decision.",
    ),
    "AUTH-RS-20": MUST(
        "basic/authorization#token-requirements",
        "Tokens in the query are not read.",
        "auth/test_authentication.py::test_token_in_the_query_is_not_read",
    ),
    "AUTH-RS-21": CLIENT(
        "basic/authorization#token-requirements",
        "The client sends the token with every HTTP request, also in a session.",
        "transports/http/test_challenge_responses.py::test_every_request_of_a_session_needs_the_token",
    ),
    "AUTH-RS-22": MUST(
        "basic/authorization#error-handling",
        "The status is 401 for invalid credentials, 403 for insufficient scopes, and 400 for a malformed request.",
        "transports/http/test_challenge_responses.py::test_call_with_a_token_without_the_scopes_gets_403_with_all_of_them",
        "transports/http/test_challenge_responses.py::test_two_different_authorization_headers_get_400",
        "transports/http/test_challenge_responses.py::test_every_request_of_a_session_needs_the_token",
    ),
    "AUTH-RS-23": SHOULD(
        "basic/authorization#runtime-insufficient-scope-errors",
        "Insufficient scopes are answered with 403 and a challenge that has error, scope and resource_metadata.",
        "transports/http/test_challenge_responses.py::test_call_with_a_token_without_the_scopes_gets_403_with_all_of_them",
    ),
    "AUTH-RS-24": SHOULD(
        "basic/authorization#runtime-insufficient-scope-errors",
        "The challenge names the scopes that the request needs.",
        "dispatch/test_hidden_or_challenged.py::test_guarded_component_is_used_hidden_or_challenged",
        "transports/http/test_challenge_responses.py::test_batch_of_challenged_requests_is_challenged_with_the_scopes_of_all",
    ),
    "AUTH-RS-25": SHOULD(
        "basic/authorization#runtime-insufficient-scope-errors",
        "The strategy for scopes is consistent.",
        "dispatch/test_hidden_or_challenged.py::test_guarded_component_is_used_hidden_or_challenged",
    ),
    "AUTH-RS-26": MUST(
        "basic/authorization#scope-selection-strategy",
        "scopes_supported has the scopes that are always needed, not all.",
        "transports/http/test_well_known.py::test_metadata_is_at_all_three_places",
        "auth/test_resource.py::test_metadata_names_the_scopes_of_every_call_and_the_title",
    ),
    "AUTH-RS-27": MUST(
        "basic/authorization#token-theft",
        "Tokens are stored securely, also in caches and logs.",
        "auth/test_token.py::test_only_the_digest_is_stored_and_queried",
        "auth/test_token.py::test_token_is_in_no_session_and_no_event",
        "auth/test_token.py::test_token_is_in_no_log_and_in_no_text_of_the_principal",
        "auth/test_cache.py::test_digests_and_principals_are_not_in_its_text",
        "auth/test_introspection.py::test_kept_answers_do_not_contain_their_tokens",
        "auth/test_jwt.py::test_tokens_are_not_logged",
        "oauth/test_attacks.py::test_tokens_are_stored_as_digests_alone",
        "oauth/test_attacks.py::test_tokens_are_not_logged",
    ),
    "AUTH-RS-28": SHOULD(
        "basic/authorization#canonical-server-uri",
        "The case of scheme and host is ignored, and no slash is added to the URI.",
        "auth/test_resource.py::test_token_is_accepted_if_its_audience_is_the_url_of_the_endpoint",
        "auth/test_resource.py::test_url_is_that_of_the_request",
    ),
    "AUTH-RS-29": SHOULD(
        "basic/authorization#security-considerations",
        "Tokens expire, and refresh tokens are rotated.",
        "auth/test_token.py::test_cached_token_costs_no_query_and_expires_on_time",
        "oauth/test_attacks.py::test_expired_token_is_rejected",
        "oauth/test_attacks.py::test_reused_refresh_token_ends_all_tokens_of_its_family",
        "oauth/test_clients.py::test_published_client_goes_through_the_whole_flow",
    ),
    "AUTH-RS-30": MUST(
        "basic/authorization#security-considerations",
        "The security best practice of OAuth 2.1 is followed.",
        "oauth/test_attacks.py::test_redirect_that_the_client_did_not_publish_is_rejected_on_a_page",
        "oauth/test_attacks.py::test_code_without_pkce_is_not_issued",
        "oauth/test_attacks.py::test_code_is_redeemed_once",
        "oauth/test_attacks.py::test_reused_refresh_token_ends_all_tokens_of_its_family",
        "oauth/test_attacks.py::test_consent_posted_by_a_foreign_page_is_rejected",
        "oauth/test_endpoints.py::test_check_warns_of_protection_that_is_off",
    ),
    "AUTH-RS-31": MUST(
        "basic/authorization#canonical-server-uri",
        "The resource in the metadata is the URL of the endpoint, and the document is public JSON.",
        "transports/http/test_well_known.py::test_resource_is_the_url_that_a_client_has_behind_a_proxy",
        "transports/http/test_well_known.py::test_site_below_a_path_is_served_whether_the_asgi_server_keeps_it_or_not",
        "transports/http/test_well_known.py::test_base_url_with_a_path_is_found_at_the_root_of_its_host",
    ),
    "AUTH-RS-32": MUST(
        "basic/authorization#token-handling",
        "Every 401 has WWW-Authenticate, without error if no token was sent (RFC 6750).",
        "auth/test_authentication.py::test_challenge_has_the_parameters_that_are_needed_and_no_others",
        "transports/http/test_challenge_responses.py::test_every_request_of_a_session_needs_the_token",
        "auth/test_authentication.py::test_challenge_is_well_formed_with_any_message_and_scope",
    ),
    "AUTH-RS-33": MUST(
        "basic/authorization#communication-security",
        "Communication is encrypted, except on one machine (OAuth 2.1, section 1.5).",
        "test_checks.py::test_tokens_over_http_are_reported",
        "auth/test_issuers.py::test_only_encrypted_or_local_urls_are_secure",
        "auth/test_issuers.py::test_certificates_are_verified",
        "auth/test_jwt.py::test_insecure_configuration_is_rejected",
        "auth/test_introspection.py::test_insecure_configuration_is_rejected",
        "oauth/test_attacks.py::test_client_with_an_unsafe_redirect_alone_is_not_registered",
        "management/test_discovery.py::test_http_url_is_a_failure_unless_it_is_local",
        because="The web server encrypts; the package sends credentials to https URLs only, and reports a site that may be served without.",
    ),
    "AUTH-01": SHOULD(
        "basic/authorization/index",
        "HTTP servers follow these pages; stdio takes credentials from its environment.",
        "transports/http/test_challenge_responses.py::test_anonymous_call_of_a_challenged_tool_gets_401",
        "management/test_mcp_stdio.py::test_named_user_is_the_caller_and_has_their_permissions",
        "management/test_mcp_stdio.py::test_scopes_of_the_option_are_those_of_the_caller",
        "transports/connection/test_stdio.py::test_process_id_and_environment_are_available_to_handlers",
    ),
    "AUTH-02": MUST(
        "basic/authorization/authorization-server-discovery",
        "The server has RFC 9728 metadata with at least one authorization server.",
        "transports/http/test_well_known.py::test_metadata_is_at_all_three_places",
        "transports/http/test_well_known.py::test_site_without_access_tokens_has_no_metadata",
    ),
    "AUTH-03": MUST(
        "basic/authorization/authorization-server-discovery",
        "The challenge of a 401 and the well-known URI lead to the metadata.",
        "transports/http/test_challenge_responses.py::test_anonymous_call_of_a_challenged_tool_gets_401",
        "transports/http/test_well_known.py::test_metadata_is_at_all_three_places",
    ),
    "AUTH-04": MUST(
        "basic/authorization/index",
        "Token and audience are validated before the message is processed.",
        "dispatch/test_hidden_or_challenged.py::test_token_without_the_scopes_of_the_server_is_rejected_before_the_message_is_read",
        "auth/test_resource.py::test_token_is_accepted_if_its_audience_is_the_url_of_the_endpoint",
    ),
    "AUTH-05": MUST(
        "basic/authorization/index",
        "The status is 401, 403 or 400.",
        "transports/http/test_challenge_responses.py::test_every_request_of_a_session_needs_the_token",
        "transports/http/test_challenge_responses.py::test_call_with_a_token_without_the_scopes_gets_403_with_all_of_them",
        "transports/http/test_challenge_responses.py::test_two_different_authorization_headers_get_400",
    ),
    "AUTH-06": SHOULD(
        "basic/authorization/index",
        "Challenges have the scopes of the operation, all in one.",
        "dispatch/test_hidden_or_challenged.py::test_guarded_component_is_used_hidden_or_challenged",
        "transports/http/test_challenge_responses.py::test_listening_to_a_challenged_resource_is_challenged_before_the_first_byte",
        "dispatch/test_challenges.py::test_listening_to_challenged_resources_is_challenged_with_the_scopes_of_all",
    ),
    "AUTH-07": MUST(
        "basic/authorization/index",
        "Scopes that include others are honored.",
        "dispatch/test_challenges.py::test_scope_that_includes_the_needed_one_suffices",
        "auth/test_authentication.py::test_scope_may_include_those_of_the_server",
        "auth/test_scopes.py::test_scopes_grant_themselves_and_all_that_they_include",
    ),
    "AUTH-08": SHOULD(
        "basic/authorization/index",
        "Challenges and scopes_supported do not have offline_access.",
        "dispatch/test_challenges.py::test_scope_that_no_challenge_can_contain_is_rejected",
    ),
    "AUTH-09": MUST(
        "basic/authorization/index",
        "The token is in the header of every HTTP request, never in the query.",
        "transports/http/test_challenge_responses.py::test_every_request_of_a_session_needs_the_token",
        "auth/test_authentication.py::test_token_in_the_query_is_not_read",
    ),
    "AUTH-10": SHOULD(
        "basic/authorization/index",
        "The URI of the resource has no slash at its end; scheme and host may be in upper case.",
        "auth/test_resource.py::test_token_is_accepted_if_its_audience_is_the_url_of_the_endpoint",
        "auth/test_resource.py::test_url_is_that_of_the_request",
    ),
    "AUTH-11": MUST(
        "basic/authorization/security-considerations",
        "A proxy with one static client id asks the user to consent to each client that registered dynamically.",
        "oauth/test_pages.py::test_consent_for_one_registered_client_does_not_count_for_another",
        because="There is no proxy to the authorization servers of others. The own one asks for each client.",
    ),
    "AUTH-12": MUST(
        "basic/authorization/security-considerations",
        "The endpoints are served over HTTPS, tokens are stored securely, and the best practice of OAuth 2.1 is followed.",
        "test_checks.py::test_tokens_over_http_are_reported",
        "auth/test_token.py::test_only_the_digest_is_stored_and_queried",
        "oauth/test_attacks.py::test_tokens_are_stored_as_digests_alone",
        "oauth/test_attacks.py::test_tokens_are_not_logged",
        "oauth/test_attacks.py::test_reused_refresh_token_ends_all_tokens_of_its_family",
        "oauth/test_attacks.py::test_code_is_worth_nothing_without_its_verifier",
        "oauth/test_endpoints.py::test_check_warns_of_protection_that_is_off",
        because="The web server encrypts.",
    ),
    "AUTH-13": MAY(
        "basic/index",
        "Custom authentication schemes are possible; the protection of Origin applies to them too.",
        "auth/test_authentication.py::test_each_scheme_has_a_challenge_of_its_own",
        "transports/http/test_cors.py::test_request_of_another_origin_is_rejected_and_unreadable",
    ),
}
"""Requirements for resource servers, of all revisions."""
