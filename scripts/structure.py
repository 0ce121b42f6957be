"""Prints the structure of the package, and fails where it exceeds its bounds.

It counts the lines of the package and of its rooms, which may grow by a tenth before a commit has
to change their row in docs/design.md and to say why; the modules of each folder, functions that
are too long, import circles (at run time, and with the imports for type checkers). It shows the
modules that carry one request, how often it enters the module that answers it, how fine the
pieces are, and how many names of modules change; with ``--verbose``, which they are.
``scripts/lint`` runs it.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import sys
from collections import Counter
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
ANSWERING = "core.dispatch.handle"
"""The module that answers every request."""

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
        *compare_rooms(sources),
        *find_long_functions(trees),
        *find_circles(trees),
    ]
    problems += find_private_attributes(trees)
    describe_grain(trees, sources)
    describe_state(trees, verbose="--verbose" in sys.argv)
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


def compare_rooms(sources: Mapping[str, Path]) -> Iterator[str]:
    """Compare the lines of each room with those in its row of docs/design.md."""
    lines: Counter[str] = Counter()
    for module, path in sources.items():
        lines[room(module)] += len(path.read_text(encoding="utf-8").splitlines())
    stated = {
        name: int(count.replace(",", ""))
        for name, count in ROW.findall((ROOT / "docs" / "design.md").read_text(encoding="utf-8"))
    }
    print("Lines of rooms, and those of docs/design.md:")
    for each in sorted(lines):
        print(f"  {each} {lines[each]} ({stated.get(each, 'no row')})")
        if each not in stated:
            yield f"the room {each} has no row in docs/design.md"
        elif lines[each] > MAX_GROWTH * stated[each]:
            yield (
                f"{lines[each]} lines in {each}, {stated[each]} in docs/design.md: change it, "
                "and say in the commit what came in, why, and what went out"
            )
    yield from (f"no room {each}, which docs/design.md names" for each in stated.keys() - lines)


ROW = re.compile(r"^\| `([a-z_.]+)` \| ([\d,]+) \|", re.MULTILINE)
"""A row of the table of rooms: the room and its lines."""
MAX_GROWTH = 1.1


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
    typed = [circle for circle in circles(with_types) if not may_name_each_other(circle)]
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


def may_name_each_other(circle: set[str]) -> bool:
    """Whether the modules of a circle belong to one part of the package, or all to its core."""
    rooms = {room(module) for module in circle if "." in module}
    return len(rooms) == 1 or all(name.startswith("core.") for name in rooms)


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
        # Once from above, once with the call of the plan, and once with its result.
        entries = path.count(ANSWERING)
        print(f"{kind.capitalize()} enters {ANSWERING} {entries} times")
        if entries > 3:
            yield f"{kind} enters {ANSWERING} {entries} times, more than three"


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
    parts = module.removeprefix("django_mcp").removeprefix(".").split(".")
    if len(parts) == 1 and (not parts[0] or not (PACKAGE / parts[0]).is_dir()):
        return "root"
    return ".".join(parts[:2] if parts[0] in ROOFS else parts[:1])


# Grain: what is printed to see how it changes.

SMALL_MODULE = 70
SMALL_HELPER = 4


def describe_grain(trees: Mapping[str, ast.Module], sources: Mapping[str, Path]) -> None:
    """Print counts that show how many pieces a reader has to put together."""
    lines = {
        module: len(path.read_text(encoding="utf-8").splitlines())
        for module, path in sources.items()
        if path.name != "__init__.py" and "migrations" not in module
    }
    classes = [node for tree in trees.values() for node in find(tree, ast.ClassDef)]
    exchanges = [each.name for each in classes if each.name.endswith("Exchange")]
    print(f"Classes of Exchange: {len(exchanges)} ({', '.join(sorted(exchanges))})")
    print(f"Protocols with one class or none: {len(lonely_protocols(classes))}")
    small = sum(count < SMALL_MODULE for count in lines.values())
    print(f"Modules below {SMALL_MODULE} lines: {small}")
    print(f"Helpers of at most {SMALL_HELPER} lines, used once: {len(helpers_used_once(trees))}")
    functions = sum(len(find(tree, *FUNCTIONS)) for tree in trees.values())
    code = sum(lines_of_code(path) for path in sources.values())
    print(f"Functions for each 1,000 lines of code: {1000 * functions / code:.0f}")


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def find(tree: ast.AST, *types: type[Any]) -> list[Any]:
    return [node for node in ast.walk(tree) if isinstance(node, types)]


def lines_of_code(path: Path) -> int:
    """The lines that are neither empty nor a comment nor a docstring."""
    text = path.read_text(encoding="utf-8")
    documented = {
        number
        for node in find(ast.parse(text), ast.Expr)
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for number in range(node.lineno, node.end_lineno + 1)
    }
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in documented
        for number, line in enumerate(text.splitlines(), 1)
    )


def members(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> set[str]:
    """The methods and attributes of a class, with those of its bases in the package."""
    found = {each.name for each in node.body if isinstance(each, FUNCTIONS)}
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign | ast.Assign):
            found |= {
                each.id for each in find(statement, ast.Name) if isinstance(each.ctx, ast.Store)
            }
    for attribute in find(node, ast.Attribute):
        if isinstance(attribute.ctx, ast.Store) and ast.unparse(attribute.value) == "self":
            found.add(attribute.attr)
    for base in node.bases:
        name = ast.unparse(base).partition("[")[0]
        if name in classes and classes[name] is not node:
            found |= members(classes[name], classes)
    return found


def lonely_protocols(classes: list[ast.ClassDef]) -> list[str]:
    """The protocols whose members at most one class of the package has, with functions aside."""
    protocols = [each for each in classes if "Protocol" in {ast.unparse(b) for b in each.bases}]
    others = [each for each in classes if each not in protocols]
    by_name = {each.name: each for each in others}
    lonely = []
    for protocol in protocols:
        wanted = members(protocol, {}) - {"__init__"}
        named = [each for each in others if protocol.name in {ast.unparse(b) for b in each.bases}]
        fitting = [each for each in others if wanted and wanted <= members(each, by_name)]
        if len({id(each) for each in named + fitting}) <= 1 and wanted != {"__call__"}:
            lonely.append(protocol.name)
    return lonely


def helpers_used_once(trees: Mapping[str, ast.Module]) -> list[str]:
    """The private functions of a module that are short, and that it names once: to call them."""
    found = []
    for module, tree in trees.items():
        used = Counter(node.id for node in find(tree, ast.Name))
        used.update(node.attr for node in find(tree, ast.Attribute))
        called = {
            getattr(node.func, "id", getattr(node.func, "attr", ""))
            for node in find(tree, ast.Call)
        }
        for node in find(tree, *FUNCTIONS):
            length = node.body[-1].end_lineno - body_of(node)[0].lineno + 1
            is_private = node.name.startswith("_") and not node.name.startswith("__")
            is_called_once = node.name in called and used[node.name] == 1
            if is_private and length <= SMALL_HELPER and is_called_once and not node.decorator_list:
                found.append(f"{module}.{node.name}")
    return found


def body_of(node: Any) -> list[ast.stmt]:
    """The statements of a function without its docstring."""
    has_docstring = ast.get_docstring(node) is not None
    body: list[ast.stmt] = node.body[1:] if has_docstring else node.body
    return body or node.body


# State: the names of modules whose objects change after the import.

CHANGING = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem"),
    *("popleft", "remove", "setdefault", "sort", "update"),
}
"""Methods that change a collection."""
OF_LOOPS = "PerLoop"
WEAK = ("WeakKeyDictionary", "WeakSet", "WeakValueDictionary")
FILLED_ONCE = "Port"
BEFORE_USE = ("__init__", "__new__", "__post_init__")
"""Methods whose assignments make an object, and do not change it."""


def describe_state(trees: Mapping[str, ast.Module], *, verbose: bool = False) -> None:
    """Print how many names of modules change, by kind."""
    names = State(trees).by_kind()
    counted = sum(len(names[kind]) for kind in KINDS)
    kinds = ", ".join(f"{len(names[kind])} {kind}" for kind in KINDS)
    print(f"Names of modules that change: {counted} ({kinds})")
    print(f"Objects of classes that change: {len(names[OBJECT])}; ports: {len(names[PORT])}")
    if verbose:
        for kind, listed in names.items():
            print(f"  {kind}: {', '.join(sorted(listed)) or 'none'}")


REASSIGNED = "assigned again"
PER_LOOP = "per event loop"
REFERENCES = "weak references"
COLLECTION = "collections"
OBJECT = "objects"
PORT = "ports"
KINDS = (REASSIGNED, PER_LOOP, REFERENCES, COLLECTION)


class State:
    """The names of modules that change, and why.

    A name is *assigned again* by a function with ``global``. A *collection* is changed by a
    function of any module. An *object* is of a class of the package, and a method or a function
    changes it: its class says what its states are. A *port* is filled once, when the site starts.
    """

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self.trees = trees
        self.values = {module: top_level(tree) for module, tree in trees.items()}
        self.classes: dict[str, list[ast.ClassDef]] = {}
        for node in (node for tree in trees.values() for node in find(tree, ast.ClassDef)):
            self.classes.setdefault(node.name, []).append(node)

    def by_kind(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {kind: [] for kind in (*KINDS, OBJECT, PORT)}
        again = {each for module in self.trees for each in self.assigned_again(module)}
        changed = {each for module in self.trees for each in self.changed_by(module)}
        changed_in_part = {each.removesuffix(".*") for each in changed if each.endswith(".*")}
        for module, values in self.values.items():
            for name, value in values.items():
                full = f"{module}.{name}"
                kind = self.kind(value)
                if full in again:
                    names[REASSIGNED].append(full)
                elif kind is not None:
                    names[kind].append(full)
                elif class_of(value) not in self.classes:
                    names[COLLECTION] += [full] * (full in changed)
                elif full in changed_in_part:
                    names[OBJECT].append(full)
        return names

    def kind(self, value: ast.expr) -> str | None:
        """What a value is by the classes that are called for it."""
        called = {last_name(call.func) for call in find(value, ast.Call)}
        if FILLED_ONCE in called:
            return PORT
        if OF_LOOPS in called:
            return PER_LOOP
        if called & {*WEAK}:
            return REFERENCES
        return OBJECT if self.changes_itself(class_of(value)) else None

    def changes_itself(self, name: str) -> bool:
        """Whether a class of the package, or a base of it, has a method that changes its object.

        Classes of one name are taken for one.
        """
        classes = self.classes.get(name, [])
        methods = [each for node in classes for each in node.body if isinstance(each, FUNCTIONS)]
        if any(changes_self(each) for each in methods if each.name not in BEFORE_USE):
            return True
        bases = {last_name(base) for node in classes for base in node.bases}
        return any(self.changes_itself(base) for base in bases - {name})

    def assigned_again(self, module: str) -> Iterator[str]:
        for node in find(self.trees[module], ast.Global):
            yield from (f"{module}.{name}" for name in node.names)

    def changed_by(self, module: str) -> Iterator[str]:
        """The names, of any module, whose collections a function of ``module`` changes.

        A name ends with ".*" if it is an attribute of its object that changes.
        """
        imported = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in find(self.trees[module], ast.ImportFrom)
            for alias in node.names
        }
        for function in find(self.trees[module], *FUNCTIONS, ast.Lambda):
            own = local_names(function)
            for changed in changed_in(function):
                part = ""
                if isinstance(changed, ast.Attribute):
                    yield f"{imported.get(last_name(changed.value))}.{changed.attr}"
                    changed = without_subscripts(changed.value)
                    part = ".*"
                if isinstance(changed, ast.Name) and changed.id not in own:
                    yield imported.get(changed.id, f"{module}.{changed.id}") + part


def top_level(tree: ast.Module) -> dict[str, ast.expr]:
    """The names that a module assigns at its top level, with their values."""
    values = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            for target in find(statement, ast.Name):
                if isinstance(target.ctx, ast.Store):
                    values[target.id] = statement.value
    return values


def local_names(function: Any) -> set[str]:
    """The names that are those of a function, and not of its module."""
    declared = {name for node in find(function, ast.Global) for name in node.names}
    assigned = {each.id for each in find(function, ast.Name) if isinstance(each.ctx, ast.Store)}
    return (assigned | {each.arg for each in find(function.args, ast.arg)}) - declared


def changed_in(function: ast.AST) -> Iterator[ast.expr]:
    """What a function changes: ``x``, in ``x[1] = 2``, ``del x[1]`` or ``x[1].append(2)``."""
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield without_subscripts(node)
        elif isinstance(node, ast.Attribute) and node.attr in CHANGING:
            yield without_subscripts(node.value)


def changes_self(method: ast.AST) -> bool:
    assigned = [each for each in find(method, ast.Attribute) if not isinstance(each.ctx, ast.Load)]
    return any(
        isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self"
        for each in (*assigned, *changed_in(method))
    )


def without_subscripts(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def class_of(value: ast.expr) -> str:
    """The class that a value is an instance of, if it is a call."""
    return last_name(value.func) if isinstance(value, ast.Call) else ""


def last_name(node: ast.expr) -> str:
    """``c``, for ``c``, ``a.c`` and ``c[T]``; "" for what has no name."""
    node = without_subscripts(node)
    return str(getattr(node, "id", getattr(node, "attr", "")))


PRIVATE = ("django_mcp.core.private", "django_mcp.runtime.private")
"""The modules that may use what other packages do not document."""
DOCUMENTED = {"_asdict", "_base_manager", "_db", "_field_defaults"}
"""Attributes that are documented in spite of their names."""
OF_BASE_CLASSES = {"_read_document"}
"""A method of a class of django-oauth-toolkit, whose versions below 4 the extra names."""


def find_private_attributes(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield private attributes of other packages, unless the modules for them use them."""
    foreign = private_attributes_of_others(trees) - DOCUMENTED - OF_BASE_CLASSES
    for module, tree in trees.items():
        used = {node.attr for node in find(tree, ast.Attribute)} & foreign
        imported = {
            name.name
            for node in find(tree, ast.ImportFrom)
            if node.module and not node.module.startswith(("django_mcp", "__future__"))
            for name in node.names
            if name.name.startswith("_")
        }
        if module not in PRIVATE and (used or imported):
            names = ", ".join(sorted(used | imported))
            yield f"{module} uses {names}, which other packages do not document"


def private_attributes_of_others(trees: Mapping[str, ast.Module]) -> set[str]:
    """The private attributes that are used, and that no module of the package defines."""
    used: set[str] = set()
    defined: set[str] = set()
    for tree in trees.values():
        for node in find(tree, ast.Attribute):
            (used if isinstance(node.ctx, ast.Load) else defined).add(node.attr)
        defined |= {node.id for node in find(tree, ast.Name) if isinstance(node.ctx, ast.Store)}
        defined |= {node.name for node in find(tree, *FUNCTIONS, ast.ClassDef)}
        defined |= {
            constant.value
            for constant in find(tree, ast.Constant)
            if isinstance(constant.value, str)
        }
    return {
        attribute
        for attribute in used - defined
        if attribute.startswith("_") and not attribute.startswith("__")
    }


if __name__ == "__main__":
    main()
