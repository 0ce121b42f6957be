"""A server with a guarded component of each kind, its callers, and what they are answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from django.contrib.auth.models import AnonymousUser
from hypothesis import strategies as st

from django_mcp import Header, Server
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.core.auth.base import BaseAuthentication, Principal
from django_mcp.core.components.base import WhenDenied

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

    def has_perm(self, perm: str, obj: Any = None) -> bool:
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
Use = tuple[str, dict[str, Any]]
"""A method and its parameters."""

USES: list[Use] = [
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
"""Requests for the guarded components."""

OTHERS: list[Use] = [
    ("resources/unsubscribe", {"uri": URI}),
    ("logging/setLevel", {"level": "info"}),
    ("ping", {}),
    ("server/discover", {}),
]
"""Requests that are answered alike, whatever components there are."""
OF_TASKS = frozenset({"tasks/get", "tasks/result", "tasks/update", "tasks/cancel", "tasks/list"})
"""Methods that address no component, but a task of the caller: see ``tests/tasks/test_methods``."""


SCOPES = st.frozensets(st.sampled_from(["a", "b", "mcp"]))
POLICIES = st.sampled_from([None, "hidden", "challenged"])
GUARDS = st.builds(Guard, SCOPES, st.booleans(), POLICIES, SCOPES, POLICIES)
CALLERS = st.builds(Caller, st.booleans(), st.booleans(), SCOPES).map(
    lambda caller: replace(caller, scopes=frozenset()) if caller.is_anonymous else caller
)
