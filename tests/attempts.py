"""What was tried against a server, what happens, and the test which shows it.

``docs/reference/security.md`` contains this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt, its outcome, and the test, as pytest names it below this folder."""

    attempt: str
    outcome: str
    test: str


ISOLATION = (
    Attempt(
        "Send a request state of one server to another one",
        "-32602",
        "robustness/test_isolation.py::test_state_of_one_server_is_rejected_by_another",
    ),
    Attempt(
        "Send it to a server of the same name at another path",
        "-32602",
        "robustness/test_isolation.py::test_state_of_a_server_at_another_path_is_rejected",
    ),
    Attempt(
        "Read what a Frame was assigned from a request state",
        "The state is encrypted",
        "robustness/test_isolation.py::test_state_cannot_be_read_by_its_client",
    ),
    Attempt(
        "Send input responses without a request state",
        "They are ignored; the input is requested",
        "robustness/test_isolation.py::test_answers_without_a_state_are_not_accepted",
    ),
    Attempt(
        "Send a response to input that was not requested",
        "It is ignored; the input is requested",
        "robustness/test_isolation.py::test_answer_that_was_not_requested_is_not_accepted",
    ),
    Attempt(
        "Send the cursor of another caller",
        "-32602",
        "robustness/test_isolation.py::test_cursor_of_another_caller_is_rejected",
    ),
    Attempt(
        "Read the name of a hidden component from a cursor",
        "The cursor is encrypted",
        "robustness/test_isolation.py::test_cursor_cannot_be_read_by_its_client",
    ),
    Attempt(
        "Receive log records of another caller's request",
        "Only the client of the request receives them",
        "robustness/test_isolation.py::test_log_lines_for_a_listener_are_sent_to_nobody_else",
    ),
    Attempt(
        "Share a principal with other users whose authenticator gives no subject",
        "The primary key of the user is the subject",
        "robustness/test_isolation.py::test_users_without_a_subject_are_not_one_principal",
    ),
    Attempt(
        "Change a listed tool, in middleware or in process",
        "Others receive the unchanged one",
        "robustness/test_answers.py::test_edit_of_a_listed_tool_by_middleware_reaches_no_other_caller",
    ),
    Attempt(
        "Tell a hidden component from an unknown one by its time",
        "The same work is done for both",
        "robustness/test_isolation.py::test_hidden_component_is_looked_up_like_an_unknown_one",
    ),
    Attempt(
        "Use a component whose permission function raises",
        "It is hidden, and the exception is logged",
        "robustness/test_isolation.py::test_permission_that_raises_hides_its_component_and_is_logged",
    ),
    Attempt(
        "Keep a listen stream after the permission was lost",
        "It sends nothing more within a minute",
        "robustness/test_isolation.py::test_lost_permission_ends_the_news_of_a_listen_stream_within_a_minute",
    ),
    Attempt(
        "Keep a stream whose caller cannot be authenticated any more",
        "The stream is closed",
        "robustness/test_database_restart.py::test_stream_whose_caller_cannot_be_authenticated_ends",
    ),
    Attempt(
        "Write the path of a function into the session table",
        "It is not called",
        "robustness/test_isolation.py::test_handler_that_was_written_into_the_session_table_is_not_run",
    ),
    Attempt(
        "Send two different values of `Host`, `Origin` or `Authorization`",
        "400",
        "robustness/test_isolation.py::test_header_with_two_values_is_rejected",
    ),
    Attempt(
        "Send two session ids",
        "400",
        "robustness/test_isolation.py::test_two_session_ids_are_rejected",
    ),
    Attempt(
        "Open a stream from a page of another site, with cookies",
        "403",
        "robustness/test_isolation.py::test_stream_for_a_page_of_another_site_is_rejected",
    ),
    Attempt(
        "Leave the folder of a file template (`files://%2fetc%2fpasswd`)",
        "The URI does not match",
        "robustness/test_isolation.py::test_template_does_not_lead_outside_its_folder",
    ),
    Attempt(
        "Find tokens, cookies or the environment in `repr()` of a transport",
        "It contains names only",
        "robustness/test_answers.py::test_repr_of_the_transport_shows_no_secret",
    ),
    Attempt(
        "Forge a line of the log with a line break in a name",
        "Names are quoted, on one line",
        "robustness/test_answers.py::test_newline_in_a_tool_name_forges_no_line_of_the_call_log",
    ),
)

IDENTITY = (
    Attempt(
        "Send a token for another audience",
        "401, `invalid_token`",
        "oauth/test_attacks.py::test_token_for_no_resource_a_prefix_or_another_one_is_rejected",
    ),
    Attempt(
        "Send a token for another server of the same project",
        "401, `invalid_token`",
        "oauth/test_attacks.py::test_token_for_another_server_of_the_project_is_rejected",
    ),
    Attempt(
        "Send an expired token",
        "401",
        "oauth/test_attacks.py::test_expired_token_is_rejected",
    ),
    Attempt(
        "Send a token that was revoked a moment ago",
        "401",
        "auth/test_token.py::test_revocation_takes_effect_at_the_next_call",
    ),
    Attempt(
        "Learn from a rejection whether a token is unknown, expired or revoked",
        "The responses are the same",
        "auth/test_token.py::test_every_rejection_of_a_token_is_the_same",
    ),
    Attempt(
        "Send a token without a signature (`alg: none`)",
        "401, `invalid_token`",
        "auth/test_jwt.py::test_unsigned_token_is_invalid",
    ),
    Attempt(
        "Sign a token with the public key as a shared secret",
        "401, `invalid_token`",
        "auth/test_jwt.py::test_public_key_is_no_shared_secret",
    ),
    Attempt(
        "Sign a token with a key that the token brings",
        "401, `invalid_token`",
        "auth/test_jwt.py::test_key_that_a_token_brings_is_ignored",
    ),
    Attempt(
        "Send a token of another issuer",
        "401, `invalid_token`",
        "auth/test_jwt.py::test_token_of_another_issuer_is_left_to_other_authenticators",
    ),
    Attempt(
        "Publish a huge or invalid key set",
        "503; the document is not read beyond its bound",
        "auth/test_jwt.py::test_unusable_key_set_is_503",
    ),
    Attempt(
        "Let the issuer answer slowly",
        "Only its tokens wait",
        "auth/test_jwt.py::test_slow_issuer_delays_only_its_tokens",
    ),
    Attempt(
        "Send tokens with unknown keys, so that the issuer is asked",
        "One request in 10 seconds",
        "auth/test_jwt.py::test_unknown_keys_cause_few_requests",
    ),
    Attempt(
        "Make a site send a personal access token to an introspection endpoint",
        "It is not sent",
        "auth/test_introspection.py::test_personal_access_token_is_not_sent",
    ),
    Attempt(
        "Send a token in the query",
        "It is not read",
        "auth/test_authentication.py::test_token_in_the_query_is_not_read",
    ),
    Attempt(
        "Use a refresh token twice",
        "All tokens of its family end",
        "oauth/test_attacks.py::test_reused_refresh_token_ends_all_tokens_of_its_family",
    ),
    Attempt(
        "Request a code without PKCE",
        "`invalid_request`",
        "oauth/test_attacks.py::test_code_without_pkce_is_not_issued",
    ),
    Attempt(
        "Have a code redirected to another host",
        "400, on a page without a redirect",
        "oauth/test_attacks.py::test_redirect_that_the_client_did_not_publish_is_rejected_on_a_page",
    ),
    Attempt(
        "Consent in the name of a user, by a page of another site",
        "403",
        "oauth/test_attacks.py::test_consent_posted_by_a_foreign_page_is_rejected",
    ),
    Attempt(
        "Use a consent for one client as another client",
        "The user is asked",
        "oauth/test_pages.py::test_consent_for_one_registered_client_does_not_count_for_another",
    ),
    Attempt(
        "Publish client metadata at an address within the network",
        "It is not fetched",
        "oauth/test_attacks.py::test_metadata_document_of_a_private_address_is_not_fetched",
    ),
    Attempt(
        "Call a tool with the cookie of a user, by a page of another site",
        "403",
        "auth/test_django_session.py::test_foreign_page_is_rejected",
    ),
    Attempt(
        "Find tokens in the database or in the log",
        "There are digests only",
        "oauth/test_attacks.py::test_tokens_are_stored_as_digests_alone",
    ),
    Attempt(
        "Tell a hidden component from a missing one, by any method",
        "Status, headers and body are the same",
        "dispatch/test_hidden_or_challenged.py::test_guarded_component_is_used_hidden_or_challenged",
    ),
)

COST = (
    Attempt(
        "Send integers of one hash for a set",
        "The event loop is held for less than 0.1 s",
        "robustness/test_bounded_cost.py::test_integers_of_one_hash_in_a_set_do_not_hold_the_loop",
    ),
    Attempt(
        "Send integers of one hash that have to be unique",
        "As above",
        "robustness/test_bounded_cost.py::test_integers_of_one_hash_that_must_be_unique_do_not_hold_the_loop",
    ),
    Attempt(
        "Send many invalid items",
        "As above",
        "robustness/test_bounded_cost.py::test_many_wrong_items_do_not_hold_the_loop",
    ),
    Attempt(
        "Use the memory of their errors",
        "At most 20 times the size of the request",
        "robustness/test_bounded_cost.py::test_many_wrong_items_take_little_memory",
    ),
    Attempt(
        "Send deep values for a recursive schema",
        "The event loop is held for less than 0.1 s",
        "robustness/test_bounded_cost.py::test_recursive_schema_does_not_hold_the_loop",
    ),
    Attempt(
        "Send a text for which a pattern with look-around takes minutes",
        "Such patterns are rejected at startup",
        "robustness/test_bounded_cost.py::test_pattern_with_look_around_does_not_hold_the_loop",
    ),
    Attempt(
        "Send more than `MAX_JSON_VALUES` values",
        "-32600",
        "robustness/test_bounded_cost.py::test_more_json_values_than_a_message_may_have_are_rejected",
    ),
    Attempt(
        "Send an integer beyond 64 bits",
        "-32600",
        "robustness/test_bounded_cost.py::test_integer_beyond_64_bits_is_rejected",
    ),
    Attempt(
        "Send a batch of more than 500 messages",
        "One error, -32600",
        "robustness/test_bounded_cost.py::test_batch_of_more_than_500_messages_is_rejected_as_a_whole",
    ),
    Attempt(
        "Send thousands of cancellations",
        "One write to the session store",
        "robustness/test_bounded_cost.py::test_many_cancellations_with_several_workers_write_little",
    ),
    Attempt(
        "Send enormous ids, progress tokens, names or URIs",
        "An error that names the limit",
        "robustness/test_bounded_cost.py::test_what_is_longer_than_it_may_be_is_rejected",
    ),
    Attempt(
        "Send an enormous `clientInfo`",
        "An error that names the limit",
        "robustness/test_bounded_cost.py::test_client_info_that_is_too_large_is_rejected",
    ),
    Attempt(
        "Open listen streams with large requests",
        "The request is not kept",
        "robustness/test_bounded_cost.py::test_listen_stream_keeps_nothing_of_its_request_but_what_it_needs",
    ),
    Attempt(
        "Run hundreds of calls at once",
        "429 above `MAX_IN_FLIGHT`",
        "robustness/test_bounded_cost.py::test_stateless_calls_in_flight_of_one_caller_are_bounded",
    ),
    Attempt(
        "Occupy all threads with slow synchronous tools",
        "Lists and permission checks go on",
        "robustness/test_bounded_cost.py::test_slow_sync_handlers_hold_up_no_permission_function",
    ),
    Attempt(
        "Let calls wait for a thread",
        "503 and `Retry-After` after `SYNC_START_TIMEOUT`",
        "robustness/test_bounded_cost.py::test_handler_that_waits_too_long_for_a_thread_is_rejected",
    ),
    Attempt(
        "Use up the sessions of all anonymous clients",
        "They are counted by address",
        "robustness/test_bounded_cost.py::test_sessions_of_one_anonymous_client_shut_nobody_else_out",
    ),
    Attempt(
        "Use up their listen streams",
        "They are counted by address",
        "robustness/test_bounded_cost.py::test_listen_streams_of_one_anonymous_client_shut_nobody_else_out",
    ),
    Attempt(
        "Send a body slowly",
        "408 after 30 s",
        "robustness/test_bounded_cost.py::test_body_that_takes_too_long_is_answered_408",
    ),
    Attempt(
        "Open a stream and do not read it",
        "At most 1 MB waits for the client",
        "robustness/test_bounded_cost.py::test_silent_reader_costs_a_bounded_amount_of_memory",
    ),
    Attempt(
        "Call synchronous tools that report much, and do not read it",
        "No thread waits for the client",
        "transports/http/test_silent_readers.py::test_silent_clients_of_sync_handlers_hold_up_nobody",
    ),
    Attempt(
        "Occupy all threads of the async ORM with long calls",
        "Others are authenticated",
        "transports/http/test_database_connections.py::test_long_calls_hold_up_no_authentication_of_others",
    ),
    Attempt(
        "Send mutated messages of all revisions",
        "No fault of the server, and the next request works",
        "fuzz/test_corpus.py::test_input_of_the_corpus_causes_no_fault",
    ),
)

ANSWERS = (
    Attempt(
        "Raise `SystemExit` in a handler",
        "An error; the process goes on",
        "robustness/test_answers.py::test_system_exit_in_an_async_handler_is_a_failed_handler_over_http",
    ),
    Attempt(
        "Await a task in a handler that somebody else cancels",
        "An error",
        "robustness/test_answers.py::test_handler_that_awaits_a_cancelled_task_fails_over_http",
    ),
    Attempt(
        "Leave while the server starts",
        "Other clients are answered",
        "robustness/test_answers.py::test_first_client_that_leaves_during_start_cancels_no_other_request",
    ),
    Attempt(
        "Resume a call whose worker died",
        "-32603 within ten seconds",
        "robustness/test_answers.py::test_resumed_stream_of_a_dead_worker_ends_with_an_error",
    ),
    Attempt(
        "Respond to an input request at a worker that cannot pass it on",
        "202, and the call receives it from the store",
        "robustness/test_answers.py::"
        "test_answer_reaches_the_call_on_another_worker_without_a_channel_layer",
    ),
    Attempt(
        "Respond when the channel of the other worker is full",
        "202, and the call receives it from the store",
        "robustness/test_bounded_cost.py::test_answer_is_stored_for_a_call_whose_channel_is_full",
    ),
    Attempt(
        "Read the client's messages from a program that a handler starts (stdio)",
        "Its standard input is empty",
        "robustness/test_answers.py::test_child_process_cannot_read_the_messages_of_the_client",
    ),
    Attempt(
        "Do not read standard output (stdio)",
        "Other work goes on",
        "robustness/test_answers.py::test_client_that_does_not_read_holds_up_nothing",
    ),
    Attempt(
        "Stop the process while a handler blocks",
        "It ends within a bound",
        "robustness/test_answers.py::test_stdio_process_ends_while_a_sync_handler_runs",
    ),
    Attempt(
        "Cancel a request before another one uses its id",
        "The other one is answered",
        "robustness/test_wire.py::test_cancellation_after_the_answer_swallows_no_request_over_http",
    ),
    Attempt(
        "Fail the commit of one of two databases",
        "The other one stays usable",
        "robustness/test_answers.py::test_failed_commit_of_one_database_leaves_the_other_usable",
    ),
    Attempt(
        "Restart the database",
        "The next request works",
        "robustness/test_database_restart.py::test_authenticated_request_after_a_restart_is_answered",
    ),
    Attempt(
        "Leave database connections open after many calls",
        "Their number is the same",
        "robustness/test_database_restart.py::test_number_of_connections_is_the_same_after_many_calls",
    ),
    Attempt(
        "Block authentication with a slow query of another caller",
        "It does not wait",
        "robustness/test_database_restart.py::test_authentication_does_not_wait_for_the_query_of_another_caller",
    ),
)

VIEWS = (
    Attempt(
        "Pass a path, a query or an encoded slash as an argument of a URL",
        "*Not found.*; no other URL is requested",
        "rest/test_rest_tools.py::test_argument_of_the_path_leads_to_no_other_url",
    ),
    Attempt(
        "Read a row that the queryset of the view hides",
        "The answer for an unknown row",
        "rest/test_rest_tools.py::test_hidden_row_is_answered_as_an_unknown_one",
    ),
    Attempt(
        "Read a field that the serializer does not have, by filter, search or ordering",
        "It is in no answer, and does not change one",
        "rest/test_rest_tools.py::test_response_has_no_field_outside_the_serializer",
    ),
    Attempt(
        "Become another user by an authenticator of the view",
        "It is not called",
        "rest/test_rest_tools.py::test_cookie_of_a_request_does_not_choose_the_user",
    ),
    Attempt(
        "Send credentials or other headers to the view",
        "They do not reach it",
        "rest/test_rest_tool.py::test_credentials_of_an_http_request_do_not_reach_the_view",
    ),
    Attempt(
        "Exceed the throttle of a view by calling its tool",
        "Calls and requests are counted together",
        "rest/test_rest_tools.py::test_throttle_counts_calls_and_requests_together",
    ),
    Attempt(
        "Break the ordinary endpoint by making it a tool",
        "It answers as before",
        "rest/test_rest_tools.py::test_published_view_still_answers_over_http",
    ),
    Attempt(
        "Read the traceback or the response of a view that fails",
        "The error of any failed tool",
        "rest/test_rest_tool.py::test_failure_of_the_view_is_not_described",
    ),
    Attempt(
        "Choose an object that a form does not offer this user",
        "An error of the field",
        "forms/test_form_tool.py::test_form_kwargs_restrict_choices_by_user",
    ),
    Attempt(
        "Upload a file to another directory by its name",
        "The name has no directory",
        "forms/test_form_tool.py::test_file_is_uploaded_without_its_directory",
    ),
)

ATTEMPTS: Mapping[str, tuple[Attempt, ...]] = {
    "isolation": ISOLATION,
    "identity": IDENTITY,
    "cost": COST,
    "answers": ANSWERS,
    "views": VIEWS,
}
