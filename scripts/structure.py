"""Prints the structure of the package, and fails where it exceeds its bounds.

It counts the lines of the package, the modules of each folder, functions that are too long, import
circles (at run time, and with the imports for type checkers), and shows the modules that carry one
request, and how often it enters the dispatcher. ``scripts/lint`` runs it.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "django_mcp"

MAX_FUNCTION = 50
MAX_ROOT_MODULES = 11
MAX_MODULES = 17
"""In a folder other than the root."""
CARRYING = ("routing", "transports", "core.dispatch", "pubsub", "stores", "runtime")
"""The layers that carry a request. What they read (protocol, components, server) is not counted."""
DISPATCHER = "core.dispatch.dispatcher"

ROOFS = ("core", "contrib")
"""Folders whose folders are the parts of the package."""

Graph = dict[str, set[str]]


def main() -> None:
    sys.path.insert(0, str(ROOT))
    sources = {name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    trees = {
        module: ast.parse(path.read_text(encoding="utf-8")) for module, path in sources.items()
    }
    count_lines(sources)
    problems = [
        *count_modules(sources),
        *find_long_functions(trees),
        *find_circles(trees),
    ]
    problems += trace_requests()
    for problem in problems:
        print(f"Too much: {problem}", file=sys.stderr)
    sys.exit(bool(problems))


def name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def count_lines(sources: Mapping[str, Path]) -> None:
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in sources.values())
    print(f"{len(sources)} modules, {lines} lines")


def count_modules(sources: Mapping[str, Path]) -> Iterator[str]:
    folders: dict[str, int] = {}
    for path in sources.values():
        folder = str(path.parent.relative_to(ROOT))
        # A package's __init__ counts at the root, where users import from it.
        is_module = path.name != "__init__.py" or path.parent == PACKAGE
        folders[folder] = folders.get(folder, 0) + is_module
    print("Modules per folder:", ", ".join(f"{key} {count}" for key, count in folders.items()))
    for folder, count in folders.items():
        bound = MAX_ROOT_MODULES if folder == PACKAGE.name else MAX_MODULES
        if count > bound:
            yield f"{count} modules in {folder}, at most {bound}"


def find_long_functions(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > MAX_FUNCTION:
                    yield f"{length} lines in {module}.{node.name}, at most {MAX_FUNCTION}"


# Import circles.


def find_circles(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    at_run_time: Graph = {}
    with_types: Graph = {}
    for module, tree in trees.items():
        at_run_time[module] = set(imports(tree.body, trees, with_types=False)) - {module}
        with_types[module] = set(imports(tree.body, trees, with_types=True)) - {module}
    found = [circle for circle in circles(at_run_time) if not are_parents(circle)]
    typed = [circle for circle in circles(with_types) if not are_in_one_folder(circle)]
    print(f"Import circles: {len(found)} at run time, {len(typed)} with the imports for types")
    for circle in (*found, *typed):
        yield f"an import circle of {', '.join(sorted(circle))}"


def imports(body: list[ast.stmt], modules: Mapping[str, Any], *, with_types: bool) -> Iterator[str]:
    """The modules of the package that statements at the top level import."""
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if full in modules:
                    yield full
                elif node.module in modules:
                    yield node.module
        elif with_types and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from imports(node.body, modules, with_types=True)


def circles(graph: Graph) -> Iterator[set[str]]:
    """The strongly connected components of more than one module."""
    reached = {module: reachable(graph, module) for module in graph}
    seen: set[str] = set()
    for module in graph:
        if module not in seen:
            circle = {other for other in reached[module] if module in reached[other]}
            seen |= circle
            if len(circle) > 1:
                yield circle


def reachable(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for module in graph[waiting.pop()] - found:
            found.add(module)
            waiting.append(module)
    return found


def are_in_one_folder(circle: set[str]) -> bool:
    """Whether the modules of a circle belong to one part, whose classes name each other."""
    return len({room(module) for module in circle if "." in module}) == 1


def are_parents(circle: set[str]) -> bool:
    """Whether a circle consists of a package and what it exports."""
    shortest = min(circle, key=len)
    return all(module == shortest or module.startswith(f"{shortest}.") for module in circle)


# The path of a request.


def trace_requests() -> Iterator[str]:
    set_up()
    for kind, path in asyncio.run(paths()).items():
        modules = sorted(set(path))
        print(f"Modules on the path of {kind}: {len(modules)} ({', '.join(modules)})")
        # Once from above, and once when what it has called returns.
        entries = path.count(DISPATCHER)
        print(f"{kind.capitalize()} enters {DISPATCHER} {entries} times")
        if entries > 2:
            yield f"{kind} enters {DISPATCHER} {entries} times, at most once on each way"


def set_up() -> None:
    import django
    from django.conf import settings

    memory = "django_mcp.stores.memory.Memory{}Store"
    settings.configure(
        ALLOWED_HOSTS=["testserver"],
        INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_mcp"],
        DJANGO_MCP={
            "AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"],
            "STORES": {
                "sessions": {"BACKEND": memory.format("Session")},
                "events": {"BACKEND": memory.format("Event")},
            },
        },
        SECRET_KEY="of no worth",
    )
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)
    django.setup()


async def paths() -> dict[str, list[str]]:
    from django_mcp import Server
    from django_mcp.testing import Client

    server = Server("traced")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    found: dict[str, list[str]] = {}
    for kind, version, transport in (
        ("a stateless call", "2026-07-28", "http"),
        ("a call in a session", "2025-11-25", "http"),
        ("a call over stdio", "2026-07-28", "stdio"),
    ):
        async with Client(server, version=version, transport=transport) as client:  # type: ignore[arg-type]
            await client.call_tool("add", {"a": 1, "b": 2})
            found[kind] = await traced(lambda: client.call_tool("add", {"a": 1, "b": 2}))
    return found


async def traced(call: Callable[[], Awaitable[Any]]) -> list[str]:
    """The modules that carry a call, in the order in which it enters them, down and up.

    Those of the test client are not among them.
    """
    path: list[str] = []
    running: list[str | None] = []
    """The module of each function that runs, outermost first; None for one that carries nothing."""

    def note(frame: Any, event: str, value: Any) -> None:
        if event == "call":
            running.append(carrying_module(frame.f_code.co_filename))
        elif event == "return" and running:
            running.pop()
        else:
            return
        if event == "return" and inspect.isawaitable(value):
            return  # It goes on when this is awaited.
        module = next((each for each in reversed(running) if each), None)
        if module is not None and path[-1:] != [module]:
            path.append(module)

    sys.setprofile(note)
    try:
        await call()
    finally:
        sys.setprofile(None)
    return path


def carrying_module(path: str) -> str | None:
    if not path.startswith(str(PACKAGE) + os.sep):
        return None
    module = name(Path(path)).removeprefix("django_mcp.")
    return module if room(module) in CARRYING else None


def room(module: str) -> str:
    """The part of the package that a module belongs to, such as "core.dispatch" or "stores"."""
    parts = module.removeprefix("django_mcp.").split(".")
    return ".".join(parts[:2] if parts[0] in ROOFS else parts[:1])


if __name__ == "__main__":
    main()
