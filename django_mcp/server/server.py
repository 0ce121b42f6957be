"""Server: a name, what it offers, and how it answers.

A Django site has a default server, to which the bare decorators add, and as many further ones
as it likes; each is mounted at its own path. A Server knows nothing of Django or Channels.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from django_mcp.components.base import CacheHint, ConfigurationError
from django_mcp.components.prompt import PromptComponent
from django_mcp.components.resource import ResourceComponent, TemplateComponent
from django_mcp.components.tool import ToolComponent
from django_mcp.protocol import meta
from django_mcp.protocol.revisions import REVISIONS, Revision, Statefulness, with_statefulness
from django_mcp.server.components import ComponentCollection
from django_mcp.server.hooks import HOOKS, HookOptions, Hooks
from django_mcp.server.in_process import InProcessCalls

if TYPE_CHECKING:
    from django_mcp.auth.base import Authenticator
    from django_mcp.frame.frame import Frame
    from django_mcp.protocol.errors import Json, McpError

    Answer = tuple[dict[str, Any] | McpError, Frame]
    CallNext = Callable[[Frame], Awaitable[Answer]]
    Middleware = Callable[[Frame, CallNext], Awaitable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The bounds and switches that a site sets for its servers; see the settings reference."""

    versions: tuple[str, ...] = tuple(revision.version for revision in REVISIONS)
    page_size: int = 50
    client_response_timeout: float = 60.0
    request_state_lifetime: float = 600.0
    handler_timeout: float | None = None
    cache_ttl_ms: int = 0
    log_rate_limit: int | None = None
    subscriptions: int = 1000
    notify_lists_on_initialize: bool = True
    strict: bool = False
    """Whether what a server sends is checked against the revision."""
    debug: bool = False
    """Whether an unexpected exception may be shown to the client."""


class Signer(Protocol):
    """Signs what travels through the client, so that it comes back unchanged or not at all."""

    def sign(self, purpose: str, text: str, /) -> str:
        """``text``, signed for this purpose alone."""
        ...

    def unsign(self, purpose: str, sealed: str, /, max_age: float | None = None) -> str | None:
        """The text of what ``seal`` returned for this purpose, or None for anything else."""
        ...


@dataclass(frozen=True, slots=True)
class Keepalive:
    """The experimental ``notifications/keepalive`` of a server: how often, and how patiently."""

    interval_ms: int
    failure_threshold: int = 3
    """How many of them may fail one after the other before the session is ended."""

    def __post_init__(self) -> None:
        if self.interval_ms < 1 or self.failure_threshold < 1:
            raise ValueError("A keepalive has an interval and a threshold of at least 1")

    def to_protocol(self) -> dict[str, Any]:
        """As it is advertised."""
        return {
            "enabled": True,
            "intervalMs": self.interval_ms,
            "failureThreshold": self.failure_threshold,
        }


class Server(ComponentCollection, Hooks, InProcessCalls):
    """One MCP server: its name, its components, and how it answers.

    ``name`` identifies it in settings, commands and the admin, and gives its path unless
    ``path`` does. ``authenticators`` are instances or dotted paths; a server without any uses
    the site's, and a site without any refuses to mount it. ``notify_lists_on_initialize``
    sends each new session one list-changed notification per list that it may read.
    ``serialize_requests`` answers the requests of one session one after the other.
    ``keepalive_ms`` and ``log_rate_limit`` are those of ``set_keepalive`` and
    ``set_log_rate_limit``. The hooks are those of ``Hooks``.
    """

    def __init__(
        self,
        name: str,
        *,
        title: str | None = None,
        version: str | None = None,
        path: str | None = None,
        instructions: str | Callable[[], str] | None = None,
        description: str | None = None,
        icons: Sequence[Json] = (),
        website_url: str | None = None,
        authenticators: Sequence[Authenticator | str] | None = None,
        middleware: Sequence[Middleware] = (),
        capabilities: Json | None = None,
        cache: CacheHint | None = None,
        page_size: int | None = None,
        notify_lists_on_initialize: bool | None = None,
        serialize_requests: bool = False,
        keepalive_ms: int | None = None,
        log_rate_limit: int | None = None,
        **hooks: Unpack[HookOptions],
    ) -> None:
        super().__init__()
        self.name = name
        self.info: dict[str, Any] = {"name": name, "version": version or "1.0"}
        self._told: dict[str, dict[str, Any]] = {}
        self.describe(
            title=title,
            description=description,
            icons=[*icons] or None,
            websiteUrl=website_url,
        )
        self.path = f"/{name}" if path is None else path
        self.instructions = instructions
        self.authenticators = authenticators
        self.middleware = tuple(middleware)
        self.cache = cache
        self.page_size = page_size
        self._notify_lists_on_initialize = notify_lists_on_initialize
        self.serialize_requests = serialize_requests
        self.is_running = False
        """Whether ``start`` has been called in this process, and ``stop`` has not."""
        self.limits = ServerOptions()
        self.signer: Signer | None = None
        self._amended = _checked(capabilities)
        self._replaced: Json | None = None
        self.set_keepalive(keepalive_ms)
        self.set_log_rate_limit(log_rate_limit)
        if unknown := sorted(hooks.keys() - {*HOOKS}):
            raise TypeError(f"A Server has no option and no hook {unknown[0]!r}")
        for hook, function in hooks.items():
            self._hook(hook, function)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"<Server {self.name!r}>"

    def describe(self, **members: Any) -> None:
        """Set members of what the server says of itself; those which are None stay out."""
        self.info |= {name: value for name, value in members.items() if value is not None}
        self._told.clear()

    # What a site makes of it.

    def configure(self, limits: ServerOptions, signer: Signer) -> None:
        """Take on the site's bounds and its signing; done once, when the site has started."""
        self.limits = limits
        self.signer = signer
        self._is_open = True
        for name in ("cache_members", "stateless"):
            self.__dict__.pop(name, None)

    def sign(self, text: str) -> str:
        """``text``, signed as a cursor of this server."""
        assert self.signer is not None
        return self.signer.sign(f"cursor:{self.name}", text)

    def unsign(self, sealed: str) -> str | None:
        """What ``seal`` signed, or None for a forgery."""
        assert self.signer is not None
        return self.signer.unsign(f"cursor:{self.name}", sealed)

    @cached_property
    def cache_members(self) -> Mapping[str, Any]:
        """How long, and by whom, results may be kept unless their component says otherwise."""
        hint = self.cache or CacheHint(ttl_ms=self.limits.cache_ttl_ms)
        return hint.to_protocol()

    @property
    def notify_lists_on_initialize(self) -> bool:
        """Whether a session that opens is told to read the lists."""
        own = self._notify_lists_on_initialize
        return self.limits.notify_lists_on_initialize if own is None else own

    # What it says of itself.

    def get_server_info(self, revision: Revision) -> dict[str, Any]:
        """The server's name and version, with what else the revision has room for."""
        told = self._told.get(revision.version)
        if told is None:
            told = self._told[revision.version] = revision.known_fields("implementation", self.info)
        return told

    def get_instructions(self) -> str | None:
        """Advice for the model on how to use this server."""
        return self.instructions() if callable(self.instructions) else self.instructions

    def get_capabilities(self) -> dict[str, Any]:
        """What the server can do, as the next client is told.

        Computed from what is registered, or may be by a hook, then amended by ``capabilities``
        of the constructor, where None takes one away; or as ``set_capabilities`` has it.
        """
        if self._replaced is not None:
            return dict(self._replaced)
        amended = {**self._offered(), **(self._amended or {})}
        experimental = {**self._experimental(), **(amended.pop("experimental", None) or {})}
        if experimental:
            amended["experimental"] = experimental
        return {name: flags for name, flags in amended.items() if flags is not None}

    def set_capabilities(self, capabilities: Json | None) -> None:
        """Declare exactly these to the clients that come from now on; None computes them again."""
        self._replaced = _checked(capabilities)
        self._described.clear()

    def serves_tasks(self, revision: Revision) -> bool:
        """Whether clients of ``revision`` are told that they may call tools as tasks."""
        declared = revision.describe_capabilities(self.get_capabilities())
        requests = declared.get("tasks", {}).get("requests", {})
        return "call" in requests.get("tools", {})

    def serves(self, capability: str) -> bool:
        """Whether the capability of this name is among ``get_capabilities``."""
        if self._replaced is not None:
            return capability in self._replaced
        if self._amended is not None and capability in self._amended:
            return self._amended[capability] is not None
        has = HAS.get(capability)
        return has is not None and has(self)

    def _offered(self) -> dict[str, dict[str, Any]]:
        """Each capability of which there is, or may be, what it is about, with its flags."""
        return {name: dict(FLAGS.get(name, {})) for name, has in HAS.items() if has(self)}

    def _completes(self) -> bool:
        return any(item.complete for item in self.all_components())

    def _may_register(self, hook: str) -> bool:
        """Whether sessions may get components of their own, which nothing declared yet shows."""
        return self.has_hook(hook) or self.has_hook("init")

    def _experimental(self) -> dict[str, Any]:
        advertised: dict[str, Any] = {}
        if self.keepalive is not None:
            advertised["keepalive"] = self.keepalive.to_protocol()
        if self.effective_log_rate_limit is not None:
            per_second = self.effective_log_rate_limit
            advertised["loggingRateLimit"] = {"enabled": True, "perSecond": per_second}
        return advertised

    # What it does besides answering.

    def set_keepalive(self, interval_ms: int | None, failure_threshold: int = 3) -> None:
        """Send sessions ``notifications/keepalive`` this often; None or 0 stops it.

        It is an experiment of the seeds and advertised as such. When so many in a row cannot be
        sent, the session is ended and ``handle_error`` is told.
        """
        is_on = interval_ms is not None and interval_ms > 0
        self.keepalive = Keepalive(interval_ms, failure_threshold) if is_on else None  # type: ignore[arg-type]

    def set_log_rate_limit(self, per_second: int | None) -> None:
        """Send each client at most so many log messages a second, and drop the rest.

        0 sends all of them; None leaves it to the site's LOG_RATE_LIMIT. Each worker counts for
        itself.
        """
        if per_second is not None and per_second < 0:
            raise ValueError("A rate limit is a number of messages, 0 or more")
        self._log_rate_limit = per_second

    @property
    def effective_log_rate_limit(self) -> int | None:
        """How many log messages a client is sent in a second; None for all of them."""
        own = self._log_rate_limit
        return (self.limits.log_rate_limit if own is None else own) or None

    # Which revisions it serves.

    def revisions(self, opening: Statefulness) -> tuple[Revision, ...]:
        """The revisions served which open in this way, oldest first."""
        return with_statefulness(opening, self.limits.versions)

    @cached_property
    def stateless(self) -> Mapping[str, Revision]:
        """The revisions served which need no handshake, by version."""
        return {item.version: item for item in self.revisions(Statefulness.STATELESS)}


def _checked(capabilities: Json | None) -> Json | None:
    """Capabilities as an author gave them; raises ConfigurationError for what clients refuse."""
    try:
        meta.check_extensions((capabilities or {}).get("extensions") or {})
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    return capabilities


HAS: Mapping[str, Callable[[Server], bool]] = {
    "logging": lambda _: True,
    "tools": lambda server: (
        server.has_offered(ToolComponent.kind) or server._may_register("handle_tool_call")
    ),
    "resources": lambda server: (
        server.has_offered(ResourceComponent.kind)
        or server.has_offered(TemplateComponent.kind)
        or server._may_register("handle_resource_read")
    ),
    "prompts": lambda server: (
        server.has_offered(PromptComponent.kind) or server._may_register("handle_prompt_get")
    ),
    "completions": lambda server: server.has_hook("handle_completion") or server._completes(),
}
"""The capabilities, and whether a server has, or may get, what each is about."""

FLAGS: Mapping[str, Json] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
}
