"""Change notifications with real clients: by subscription or by a listen stream."""

from tests.clients.conftest import KINDS, Kind, connected, stateless, with_sessions
from tests.clients.real_client import RealClient
from tests.running_site import RunningSite
from tests.spec import spec


@with_sessions
def test_session_begins_without_list_changed_notifications(kind: Kind, site: RunningSite) -> None:
    with connected(kind, site) as client:
        client.request("resources/subscribe", uri="ticket://20")
        client.call("add_comment", number=20, text="Something new.")

        assert updated(client) == "ticket://20"
        assert client.received_notifications() == []


@with_sessions
def test_session_receives_updates_of_a_subscribed_resource(client: RealClient) -> None:
    client.request("resources/subscribe", uri="ticket://20")

    client.call("add_comment", number=19, text="Nobody wants to hear of this.")
    client.call("add_comment", number=20, text="Something new.")

    assert updated(client) == "ticket://20"
    ticket = client.request("resources/read", uri="ticket://20")
    assert "Something new." in ticket["contents"][0]["text"]
    client.request("resources/unsubscribe", uri="ticket://20")


@spec("RES-06")
@with_sessions
def test_session_receives_no_updates_after_unsubscribe(client: RealClient) -> None:
    client.request("resources/subscribe", uri="ticket://21")
    client.request("resources/subscribe", uri="ticket://22")
    client.request("resources/unsubscribe", uri="ticket://21")

    client.call("add_comment", number=21, text="Not notified.")
    client.call("add_comment", number=22, text="Heard.")

    assert updated(client) == "ticket://22"
    client.request("resources/unsubscribe", uri="ticket://22")


@stateless
def test_listen_stream_receives_resource_updates_until_cancelled(client: RealClient) -> None:
    listener = client.start("subscriptions/listen", resource_subscriptions=["ticket://23"])
    agreed = client.next_notification("acknowledged")["params"]

    client.call("add_comment", number=19, text="Nobody wants to hear of this.")
    client.call("add_comment", number=23, text="Something new.")

    assert agreed == {"resourceSubscriptions": ["ticket://23"]}
    assert client.next_notification("ResourceUpdated")["params"] == {"uri": "ticket://23"}
    client.cancel(listener)
    assert client.call("calculator", operation="add", a=1, b=1)["content"][0]["text"] == "2"


@stateless
def test_listen_stream_receives_only_requested_list_changes(suite_client: RealClient) -> None:
    listener = suite_client.start("subscriptions/listen", tools_list_changed=True)
    agreed = suite_client.next_notification("acknowledged")["params"]

    suite_client.call("test_trigger_prompt_change")
    suite_client.call("test_trigger_tool_change")

    assert agreed == {"toolsListChanged": True}
    suite_client.next_notification("ToolsListChanged")
    suite_client.cancel(listener)


def test_resource_updates_reach_other_clients(site: RunningSite) -> None:
    newest, older = KINDS["python_2_http"], KINDS["typescript_http"]
    with connected(newest, site) as listener, connected(older, site) as in_session:
        listener.start("subscriptions/listen", resource_subscriptions=["ticket://24"])
        listener.next_notification("acknowledged")
        in_session.request("resources/subscribe", uri="ticket://25")

        in_session.call("add_comment", number=24, text="From the one to the other.")
        listener.call("add_comment", number=25, text="And back.")

        assert listener.next_notification("ResourceUpdated")["params"] == {"uri": "ticket://24"}
        assert updated(in_session) == "ticket://25"


def updated(client: RealClient) -> str:
    uri: str = client.next_notification("notifications/resources/updated")["params"]["uri"]
    return uri
