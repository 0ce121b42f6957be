"""Which components a caller may use, and which are listed.

====================== ====== ========================================
a component is         listed a call is answered
====================== ====== ========================================
permitted              yes    with its result
challenged: a login or yes    with a challenge
more scopes would help
hidden                 no     as if the component did not exist
====================== ====== ========================================

An unknown component costs a permission check as well: its time must not tell it from a hidden one.

Permissions are asked in a thread, all that a call or a list needs in one hop to it. Those that are
named by a string may be remembered (``auth.permissions``): their answer is *at hand*. Functions are
called each time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING, NamedTuple

from django_mcp.core.auth import permissions
from django_mcp.core.components.base import Component, WhenDenied
from django_mcp.core.components.resource import ResourceComponent, TemplateComponent
from django_mcp.core.components.signature import is_async
from django_mcp.core.concurrency.loops import is_interrupted_by_user
from django_mcp.core.dispatch.list_answers import Answers, is_kept
from django_mcp.core.protocol.errors import (
    AuthenticationRequired,
    InsufficientScope,
    ResourceNotFound,
    UnknownGroup,
)
from django_mcp.core.protocol.limits import quoted
from django_mcp.core.server.component_lists import InOrder, sort_key

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.server.server import Server


ASKED_TOGETHER = 50
"""Components of a group whose permissions are asked in one hop."""


class Access(NamedTuple):
    """Whether a caller may use a component, and the answer otherwise."""

    is_permitted: bool
    challenge: AuthenticationRequired | None = None
    """None: the component is permitted or hidden."""

    def is_usable(self) -> bool:
        """Whether the caller may use it; raises the challenge, if there is one."""
        if self.challenge is not None:
            raise self.challenge
        return self.is_permitted


PERMITTED = Access(True)
HIDDEN = Access(False)


def is_listed(access: Access) -> bool:
    return access.is_permitted or access.challenge is not None


def in_order(frame: Frame, kind: str, *, loaded_only: bool = False) -> InOrder:
    """Return the components of ``kind`` that the connection selects.

    Those of the session override the server's. ``loaded_only`` leaves out the tools that a model
    finds by searching.
    """
    selection = frame.principal.selection
    declared = frame.server.components.in_order(kind, selection, loaded_only=loaded_only)
    if not frame.private.get("components"):
        return declared
    own = {item.key: item for item in frame.get_components() if item.kind == kind}
    kept = [item for item in declared.listed if item.key not in own]
    selected = [item for item in own.values() if selection is None or selection.includes(item)]
    merged = sorted([*kept, *selected], key=sort_key)
    by_key = {item.key: item for item in merged}
    return InOrder.of(by_key, merged)._replace(is_public=False)


def private_scope(frame: Frame) -> dict[str, str]:
    """The cache scope of a result that depends on its caller, in place of the server's."""
    if frame.message.method not in frame.revision.cacheable:
        return {}
    return {"cacheScope": "private"}


def components(frame: Frame, kind: str) -> Sequence[Component]:
    """Return the components of ``kind`` that the connection selects."""
    return in_order(frame, kind).listed


async def find(frame: Frame, kind: str, key: str) -> Component | None:
    """Return the component with this key, or None where it is unknown or hidden.

    Raises AuthenticationRequired or InsufficientScope for one that is challenged, and UnknownGroup
    instead of None where the connection selects such a group.
    """
    component = _find(frame, kind, key)
    if component is not None and (component.is_public or await may_use(frame, component)):
        return component
    if component is None or component.permission is None:
        await _check_any(frame, kind)
    await check_groups(frame)
    return None


async def may_see_call(frame: Frame, tool: str) -> bool:
    """Whether the caller may see an earlier call of their user: a task, or an approval.

    They may where they may make this call now: another token of the same user may have fewer
    scopes, or select other tools. Otherwise the call does not exist for them, as the tool.
    """
    try:
        return await find(frame, "tool", tool) is not None
    except (AuthenticationRequired, InsufficientScope, UnknownGroup):
        return False


def _find(frame: Frame, kind: str, key: str) -> Component | None:
    """Return the component with this key, unless the connection excludes it."""
    own = frame.private.get("components")
    component: Component | None
    if own and f"{kind}:{key}" in own:
        component = next(c for c in frame.get_components() if c.kind == kind and c.key == key)
    else:
        component = frame.server.components.find(kind, key)
    # Not ``frame.principal``: this is on the path of every call.
    selection = None if frame.auth is None else frame.auth.selection
    if selection is None or component is None or selection.includes(component):
        return component
    return None


async def check_groups(frame: Frame, answers: Answers | None = None) -> None:
    """Raise UnknownGroup if the connection selects a group that is hidden from the caller.

    ``answers`` belong to the list that it is checked for.
    """
    selection = frame.principal.selection
    if selection is None or selection.groups is None:
        return
    await frame.server.components.build()
    selected = sorted(selection.groups)
    unknown = [name for name in selected if not await _has_any(frame, name, answers)]
    if not unknown:
        return
    groups = frame.server.components.groups()
    visible = [name for name in groups if await _has_any(frame, name, answers)]
    offered = f"you can select {', '.join(sorted(visible))}" if visible else "there are none"
    raise UnknownGroup(f"There is no group {quoted(unknown[0])} in the URL's groups: {offered}")


async def _has_any(frame: Frame, group: str, answers: Answers | None) -> bool:
    """Return whether a component of the group is in the caller's lists."""
    of_group = frame.server.components.of_group(group)
    selection = frame.principal.selection
    # A token may be bound to some groups: the others do not exist for its caller.
    members = of_group
    if selection is not None:
        members = [member for member in of_group if selection.is_within_bound(member)]
    # Public ones come first.
    if members and members[0].is_public:
        return True
    for start in range(0, len(members), ASKED_TOGETHER):
        batch = members[start : start + ASKED_TOGETHER]
        accesses = await find_accesses(frame, batch, answers)
        if any(is_listed(access) for access in accesses):
            return True
    return False


async def may_use(frame: Frame, component: Component) -> bool:
    """Return whether the caller may use ``component``; False if it is hidden.

    Raises AuthenticationRequired or InsufficientScope if it is challenged.
    """
    return (await find_access(frame, component)).is_usable()


async def listed(
    frame: Frame, components: Sequence[Component], most: int, answers: Answers | None = None
) -> list[Component]:
    """Return the first components, at most ``most``, that are in the caller's lists.

    ``answers`` are from the pages before; this page adds its own.
    """
    shown: list[Component] = []
    for start in range(0, len(components), most):
        batch = components[start : start + most]
        accesses = await find_accesses(frame, batch, answers)
        shown += [
            component
            for component, access in zip(batch, accesses, strict=True)
            if is_listed(access)
        ]
        if len(shown) >= most:
            break
    return shown[:most]


class TemplateMatch(NamedTuple):
    """A template that matches a URI."""

    template: TemplateComponent
    variables: dict[str, str]
    access: Access


async def matching_templates(frame: Frame, uri: str) -> list[TemplateMatch]:
    """Return the templates that match ``uri``, the most specific first, also hidden ones."""
    templates = _matching_templates(frame, uri)
    if not templates:
        await _check_any(frame, TemplateComponent.kind)
    accesses = await find_accesses(frame, [*templates])
    matches = zip(templates.items(), accesses, strict=True)
    return [TemplateMatch(template, variables, access) for (template, variables), access in matches]


def _matching_templates(frame: Frame, uri: str) -> dict[TemplateComponent, dict[str, str]]:
    """Return the variables in ``uri`` by template, the most specific first."""
    matching = {
        template: variables
        for template in components(frame, TemplateComponent.kind)
        if isinstance(template, TemplateComponent)
        and (variables := template.match(uri)) is not None
    }
    if len(matching) < 2:
        return matching
    ordered = sorted(matching, key=lambda template: (template.specificity, template.name))
    return {template: matching[template] for template in ordered}


async def is_readable(frame: Frame, uri: str) -> bool:
    """Return whether ``uri`` belongs to a resource or a template which the caller may use."""
    return (await access_to(frame, uri)).is_permitted


async def access_to(frame: Frame, uri: str) -> Access:
    """Return the access to the resource or template that ``resources/read`` uses first."""
    resource = _find(frame, ResourceComponent.kind, uri)
    templates = _matching_templates(frame, uri)
    candidates = [*templates] if resource is None else [resource, *templates]
    accesses = await find_accesses(frame, candidates)
    for component, access in zip(candidates, accesses, strict=True):
        if access == HIDDEN:
            continue
        if access.challenge is not None or not isinstance(component, TemplateComponent):
            return access
        arguments = {"uri": uri, **templates[component]}
        # A template whose arguments are invalid is skipped, as reading skips it.
        with suppress(ResourceNotFound):
            component.validate_input(arguments)
            return access
    return HIDDEN


async def find_access(frame: Frame, component: Component) -> Access:
    if component.is_public:
        return PERMITTED
    has_permission = _at_hand(frame, component)
    if has_permission is None:
        has_permission = (await _ask(frame, [component]))[component]
    return _access(frame, component, has_permission)


async def find_accesses(
    frame: Frame, components: Sequence[Component], answers: Answers | None = None
) -> list[Access]:
    """Return the access to each component; all questions are asked in one hop.

    ``answers`` has earlier answers for the same list, and gets the new ones.
    """
    permissions_held = await _permissions_held(frame, components, answers)
    return [
        _access(frame, component, has_permission)
        for component, has_permission in zip(components, permissions_held, strict=True)
    ]


class Explanation(NamedTuple):
    """The rights of a caller, and the missing ones, for one component."""

    access: Access
    is_selected: bool
    """Whether the connection selects it."""
    has_permission: bool
    missing_scopes: frozenset[str]


async def explain(frame: Frame, components: Sequence[Component]) -> list[Explanation]:
    """Return why a caller may use each component, or not; for administrators."""
    permissions_held = await _permissions_held(frame, components, None)
    principal = frame.principal
    selection = principal.selection
    held_scopes = permissions.included_scopes(
        principal.scopes, frame.server.options.scope_hierarchy
    )
    return [
        Explanation(
            _access(frame, component, has_permission),
            selection is None or selection.includes(component),
            has_permission,
            component.scopes - held_scopes,
        )
        for component, has_permission in zip(components, permissions_held, strict=True)
    ]


async def _permissions_held(
    frame: Frame, components: Sequence[Component], answers: Answers | None
) -> list[bool]:
    """Return for each component whether the caller has its permission."""
    answers_before: Mapping[Component, bool] = {} if answers is None else answers
    at_hand: dict[Component, bool | None] = {}
    for component in components:
        if component in answers_before:
            at_hand[component] = answers_before[component]
        else:
            at_hand[component] = _at_hand(frame, component)
    to_ask = [component for component, answer in at_hand.items() if answer is None]
    asked = await _ask(frame, to_ask) if to_ask else {}
    if answers is not None:
        answers.update({item: answer for item, answer in asked.items() if is_kept(item)})
    return [bool(at_hand[component] or asked.get(component)) for component in components]


def _access(frame: Frame, component: Component, has_permission: bool) -> Access:
    server = frame.server
    principal = frame.principal
    hierarchy = server.options.scope_hierarchy
    has_scopes = permissions.grants_scopes(principal.scopes, component.scopes, hierarchy)
    if has_permission and has_scopes:
        return PERMITTED
    if policy_of(component, server) == "hidden":
        return HIDDEN
    needed = component.scopes | server.scopes
    if principal.is_anonymous:
        return Access(False, AuthenticationRequired(scopes=needed))
    if has_permission:
        return Access(False, InsufficientScope(scopes=needed))
    return HIDDEN  # More scopes would not help.


def policy_of(component: Component, server: Server) -> WhenDenied:
    """Return its own policy, else the server's, else "challenged" for a component with scopes."""
    default: WhenDenied = "challenged" if component.scopes else "hidden"
    return component.when_denied or server.when_denied or default


async def _check_any(frame: Frame, kind: str) -> None:
    """Check a permission so that an unknown component takes as long as a hidden one.

    It is a permission that is named by a string, if there is any: those all take the same time.
    """
    guarded = frame.server.components.guarded(kind)
    if guarded:
        named_permissions = (item for item in guarded if isinstance(item.permission, str))
        component = next(named_permissions, guarded[0])
        await find_access(frame, component)


def _at_hand(frame: Frame, component: Component) -> bool | None:
    """Return whether the caller has the permission, or None if it has to be asked."""
    permission = component.permission
    if permission is None:
        return True
    if isinstance(permission, str):
        return permissions.at_hand(frame.user, permission)
    return None


failures_of_permissions: ContextVar[list[Exception] | None] = ContextVar(
    "django_mcp.failures_of_permissions", default=None
)
"""Receives what permissions raise, for callers that have to tell it from a refusal."""

Answer = bool | Awaitable[bool] | Exception
"""The answer of a permission: an awaitable that a function returned, or its exception."""


async def _ask(frame: Frame, components: Sequence[Component]) -> Mapping[Component, bool]:
    """Ask for the permissions of ``components``, each once; one that raises is refused."""
    answers: dict[int, Answer] = {}
    # By identity, because a site's callable may not be hashable.
    by_permission = {id(component.permission): component for component in components}
    in_thread = [
        item
        for item in by_permission.values()
        if not (callable(item.permission) and is_async(item.permission))
    ]
    if in_thread:
        answers = await frame.exchange.run_hook(_ask_in_thread, frame, in_thread)
    for key, component in by_permission.items():
        answers[key] = await _settled(frame, component, answers.get(key))
    return {component: bool(answers[id(component.permission)]) for component in components}


def _ask_in_thread(frame: Frame, components: Iterable[Component]) -> dict[int, Answer]:
    answers = {id(item.permission): _answer(frame, item) for item in components}
    if permissions.is_remembered(frame.user):
        # If some answers were at hand and others not, the time of a call would tell which
        # permission it needs, and that its component exists.
        for name in _names_of(frame.server):
            with suppress(Exception):  # It is reported where it is needed.
                permissions.has(frame.user, name)
    return answers


def _answer(frame: Frame, component: Component) -> Answer:
    """Ask for the permission of a component; return its exception, except Ctrl-C of a user."""
    permission = component.permission
    try:
        if isinstance(permission, str):
            return permissions.has(frame.user, permission)
        return permission(frame) if permission is not None else True
    except Exception as error:
        return error
    except (KeyboardInterrupt, SystemExit) as error:
        if is_interrupted_by_user(error):
            raise
        return RuntimeError(f"It raised {error!r}")


def _names_of(server: Server) -> Iterator[str]:
    """Yield the permissions that the components of a server name."""
    components = server.components
    guarded = (item for kind in components.kinds() for item in components.guarded(kind))
    yield from {item.permission for item in guarded if isinstance(item.permission, str)}


async def _settled(frame: Frame, component: Component, answer: Answer | None) -> bool:
    """Return an answer as bool; None stands for the answer of an asynchronous function."""
    try:
        if answer is None:
            answer = component.permission(frame)  # type: ignore[operator, misc]
        if isinstance(answer, Exception):
            raise answer
        return bool(await answer if isawaitable(answer) else answer)
    except Exception as error:
        kind = component.kind.replace("_", " ")
        described = f"The permission of the {kind} {component.name!r} failed: it is hidden"
        frame.server.report(described, error)
        failures = failures_of_permissions.get()
        if failures is not None:
            failures.append(error)
        return False
