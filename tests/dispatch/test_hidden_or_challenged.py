"""A hidden component is answered like a missing one; a challenge says exactly what suffices.

Whatever guards a component, whoever calls it, with every method and in every revision.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from django.contrib.auth.models import AnonymousUser
from hypothesis import given, settings
from hypothesis import strategies as st

from django_mcp import Header, Server
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.auth.base import BaseAuthentication, Principal
from django_mcp.components.base import WhenDenied
from django_mcp.protocol.revisions import BY_VERSION
from django_mcp.testing.asgi import Reply
from tests.transports.wire import SESSIONS, STATELESS, Wire

PERMISSION = "desk.use"
CAPABILITIES = {
    "tools": {},
    "prompts": {},
    "completions": {},
    "resources": {"subscribe": True},
}


class Member(AnonymousUser):
    """A logged-in user, without a database."""

    is_authenticated = True  # type: ignore[assignment]
    pk = 1  # type: ignore[assignment]

    def __init__(self, *, is_permitted: bool) -> None:
        super().__init__()
        self.is_permitted = is_permitted

    async def ahas_perm(self, perm: str, obj: Any = None) -> bool:
        return self.is_permitted


@dataclass(frozen=True)
class Caller:
    """A caller, with an access token unless it is anonymous."""

    is_anonymous: bool = False
    is_permitted: bool = True
    """Whether the user has the permission."""
    scopes: frozenset[str] = frozenset()

    @property
    def headers(self) -> dict[str, str]:
        if self.is_anonymous:
            return {}
        words = ["member" if self.is_permitted else "stranger", *sorted(self.scopes)]
        return {"authorization": f"Bearer {'+'.join(words)}"}


class Tokens(BaseAuthentication):
    scheme = "Bearer"

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal | None:
        header = dict(scope["headers"]).get(b"authorization", b"").decode()
        if not header:
            return None
        who, *scopes = header.removeprefix("Bearer ").split("+")
        user = Member(is_permitted=who == "member")
        return Principal(scheme="token", user=user, scopes=frozenset(scopes))


@dataclass(frozen=True)
class Guard:
    """What a component needs, and what is answered without it."""

    scopes: frozenset[str] = frozenset()
    needs_permission: bool = False
    when_denied: WhenDenied | None = None
    of_server: frozenset[str] = field(default_factory=frozenset)
    """The scopes of the server."""
    default: WhenDenied | None = None
    """The policy of the server."""

    def answer(self, caller: Caller) -> Literal["result", "hidden", "challenged", "rejected"]:
        """What a caller is to be answered, as the documentation describes it."""
        if not caller.is_anonymous and not self.of_server <= caller.scopes:
            return "rejected"
        has_permission = caller.is_permitted and not caller.is_anonymous
        is_stopped_by_permission = self.needs_permission and not has_permission
        if not is_stopped_by_permission and self.scopes <= caller.scopes:
            return "result"
        policy = self.when_denied or self.default or ("challenged" if self.scopes else "hidden")
        if policy == "hidden" or (is_stopped_by_permission and not caller.is_anonymous):
            return "hidden"
        return "challenged"

    @property
    def suffices(self) -> frozenset[str]:
        return self.scopes | self.of_server


def desk(guard: Guard, *, has_guarded: bool) -> Server:
    """A server with a public component of each kind, and a guarded one of each kind or none."""
    server = Server(
        "desk",
        authenticators=[Tokens(), AnonymousAuthentication()],
        scopes=sorted(guard.of_server),
        when_denied=guard.default,
        capabilities=CAPABILITIES,
    )
    permission = PERMISSION if guard.needs_permission else None
    options: Any = {
        "permission": permission,
        "scopes": sorted(guard.scopes),
        "when_denied": guard.when_denied,
    }
    for name, opts in [("open", {}), *([("guarded", options)] if has_guarded else [])]:

        def use(region: Annotated[str, Header("Region")] = "") -> str:
            return "used"

        server.tool(name=name, **opts)(use)
        server.resource(f"desk://{name}", name=name, **opts)(lambda: "read")
        server.resource(f"desk://{name}/{{n}}", name=f"{name}-each", **opts)(lambda n: n)
        completed: Any = {"complete": {"n": lambda value: ["7"]}, **opts}
        server.prompt(name=name, **completed)(lambda n: n)
    return server


URI = "desk://guarded"
LISTS = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]
ARGUMENT = {"name": "n", "value": ""}
USES: list[tuple[str, dict[str, Any]]] = [
    ("tools/call", {"name": "guarded", "arguments": {"region": "eu"}}),
    ("resources/read", {"uri": URI}),
    ("resources/read", {"uri": f"{URI}/7"}),
    ("prompts/get", {"name": "guarded", "arguments": {"n": "7"}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "guarded"}, "argument": ARGUMENT},
    ),
    ("completion/complete", {"ref": {"type": "ref/resource", "uri": URI}, "argument": ARGUMENT}),
    (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": f"{URI}/{{n}}"}, "argument": ARGUMENT},
    ),
    ("resources/subscribe", {"uri": URI}),
    ("resources/subscribe", {"uri": f"{URI}/7"}),
]


async def connect(server: Server, version: str, caller: Caller) -> Wire:
    wire = Wire(server, version, always=caller.headers)
    if version != STATELESS:
        await wire.open()
    return wire


async def post(wire: Wire, message: Any, like: Wire) -> Reply:
    """Return the response of one server to the request that is sent to another."""
    sent = like.headers(message)
    same = {name: value for name, value in sent.items() if name != "mcp-session-id"}
    return await wire.post(message, same)


def challenged_scopes(reply: Reply) -> frozenset[str]:
    found = re.search(r'scope="([^"]*)"', reply.headers["www-authenticate"])
    return frozenset(found[1].split() if found else ())


SCOPES = st.frozensets(st.sampled_from(["a", "b", "mcp"]))
POLICIES = st.sampled_from([None, "hidden", "challenged"])
GUARDS = st.builds(Guard, SCOPES, st.booleans(), POLICIES, SCOPES, POLICIES)
CALLERS = st.builds(Caller, st.booleans(), st.booleans(), SCOPES).map(
    lambda caller: replace(caller, scopes=frozenset()) if caller.is_anonymous else caller
)
VERSIONS = st.sampled_from([*SESSIONS, STATELESS])


@settings(max_examples=150, deadline=None)
@given(guard=GUARDS, caller=CALLERS, version=VERSIONS, use=st.sampled_from(USES))
async def test_guarded_component_is_used_hidden_or_challenged(
    guard: Guard, caller: Caller, version: str, use: tuple[str, dict[str, Any]]
) -> None:
    method, params = use
    expected = guard.answer(caller)
    if method not in BY_VERSION[version].requests or expected == "rejected":
        return
    there, missing = desk(guard, has_guarded=True), desk(guard, has_guarded=False)
    wire, other = await connect(there, version, caller), await connect(missing, version, caller)
    message = wire.message(method, params)

    reply = await wire.post(message)

    if expected == "result":
        assert reply.status == 200
        assert "result" in reply.json()
    elif expected == "hidden":
        await check_hidden(wire, other, message, reply)
    else:
        assert reply.status == (401 if caller.is_anonymous else 403)
        assert challenged_scopes(reply) == guard.suffices
        await check_suffices(there, version, use, guard)
    await check_lists(wire, other, guard, caller)


async def check_hidden(wire: Wire, other: Wire, message: Any, reply: Reply) -> None:
    """Check that the response is the one to a request for a component that does not exist."""
    assert "error" in reply.json()
    assert await post(other, message, wire) == reply
    if wire.version == "2025-03-26":
        assert await post(other, [message], wire) == await wire.post([message])


async def check_suffices(
    server: Server, version: str, use: tuple[str, dict[str, Any]], guard: Guard
) -> None:
    """Check that the scopes suffice, and that none of them can be left out."""
    for left_out in [None, *guard.suffices]:
        caller = Caller(scopes=guard.suffices - {left_out})
        if left_out in guard.of_server:
            assert guard.answer(caller) == "rejected"
            reply = await Wire(server, version, always=caller.headers).request("POST")
        else:
            wire = await connect(server, version, caller)
            reply = await wire.post(wire.message(*use))
        assert reply.status == (200 if left_out is None else 403)


async def check_lists(wire: Wire, other: Wire, guard: Guard, caller: Caller) -> None:
    """Check that a hidden component is in no list, and that any other one is."""
    for method in LISTS:
        message = wire.message(method)
        reply, without = await wire.post(message), await post(other, message, wire)
        assert reply.status == 200
        assert (reply == without) is (guard.answer(caller) == "hidden")


@settings(max_examples=40, deadline=None)
@given(guard=GUARDS, caller=CALLERS, version=VERSIONS)
async def test_token_without_the_scopes_of_the_server_is_rejected_before_the_message_is_read(
    guard: Guard, caller: Caller, version: str
) -> None:
    if guard.answer(caller) != "rejected":
        return
    wire = Wire(desk(guard, has_guarded=True), version, always=caller.headers)

    reply = await wire.post(b"{")

    assert (reply.status, challenged_scopes(reply)) == (403, guard.of_server)


@settings(max_examples=60, deadline=None)
@given(guard=GUARDS, caller=CALLERS, uri=st.sampled_from([URI, f"{URI}/7"]))
async def test_listening_to_a_guarded_resource_is_acknowledged_ignored_or_challenged(
    guard: Guard, caller: Caller, uri: str
) -> None:
    expected = guard.answer(caller)
    if expected == "rejected":
        return
    acknowledged = []
    for has_guarded in (True, False):
        wire = await connect(desk(guard, has_guarded=has_guarded), STATELESS, caller)
        wanted = {"notifications": {"resourceSubscriptions": [uri]}}
        async with wire.exchange(wire.message("subscriptions/listen", wanted)) as stream:
            status, headers = await stream.status(), await stream.headers()
            event = await stream.event() if status == 200 else None
        acknowledged.append((status, headers, event))
    (status, headers, event), without = acknowledged
    if expected == "challenged":
        assert status == (401 if caller.is_anonymous else 403)
        assert challenged_scopes(Reply(status=status, headers=headers, body=b"")) == guard.suffices
    else:
        assert status == 200
        assert event is not None
        assert (uri in event.data) is (expected == "result")
        assert (acknowledged[0] == without) is (expected == "hidden")
