"""Rules of style over the syntax tree of a module: each returns the lines that break it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

Problems = Iterator[tuple[int, str]]
Rule = Callable[[ast.Module], Problems]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Sequence = ast.Tuple | ast.List

LONG = 10
"""Lines of a function above which a name must say what it is."""
NAMELESS = frozenset({"each", "known", "named"})
NAMELESS_EVERYWHERE = frozenset({"found"})


def tuple_assignment(tree: ast.Module) -> Problems:
    """Assign unrelated values in a statement each; to swap values is one assignment."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, Sequence):
            targets = [target for target in node.targets if isinstance(target, Sequence)]
            if any(not is_swap(target, node.value) for target in targets):
                yield node.lineno, ast.unparse(node)


def is_swap(target: Sequence, value: Sequence) -> bool:
    """Whether the values contain all targets, as those of ``a, b = b, a`` do."""
    assigned = {ast.unparse(item) for item in target.elts}
    parts = [item for item in ast.walk(value) if isinstance(item, ast.expr)]
    return assigned <= {ast.unparse(item) for item in parts}


def lambda_with_logic(tree: ast.Module) -> Problems:
    """Write a function where a lambda has two calls, a condition or a boolean operator."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            parts = list(ast.walk(node.body))
            calls = sum(isinstance(part, ast.Call) for part in parts)
            if calls > 1 or any(isinstance(part, ast.BoolOp | ast.IfExp) for part in parts):
                yield node.lineno, ast.unparse(node)


def nested_condition(tree: ast.Module) -> Problems:
    """Write no conditional expression inside another one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp):
            inner = [part for part in ast.walk(node) if isinstance(part, ast.IfExp)]
            if len(inner) > 1:
                yield node.lineno, ast.unparse(node)


def nameless_result(tree: ast.Module) -> Problems:
    """Name a result for what it is; some words are enough in functions of up to ten lines.

    The variable of a comprehension, or of a function inside, is in scope for its lines only.
    """
    for node in ast.walk(tree):
        if isinstance(node, Function):
            is_long = (node.end_lineno or 0) - node.lineno >= LONG
            words = NAMELESS_EVERYWHERE | NAMELESS if is_long else NAMELESS_EVERYWHERE
            for name, line in own_names(node):
                if name in words:
                    yield line, f"{name} in {node.name}"


def own_names(function: Function) -> Iterator[tuple[str, int]]:
    """The arguments of a function, and the names that it assigns itself, with their lines."""
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            yield argument.arg, argument.lineno
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        if not isinstance(node, Function | ast.ClassDef | ast.Lambda | ast.comprehension):
            waiting.extend(ast.iter_child_nodes(node))


def undocumented_dataclass(tree: ast.Module) -> Problems:
    """Write a docstring: else one is made of the signature at import, for a millisecond."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            is_dataclass = any("dataclass" in ast.unparse(each) for each in node.decorator_list)
            if is_dataclass and ast.get_docstring(node) is None:
                yield node.lineno, node.name


RULES: tuple[Rule, ...] = (
    tuple_assignment,
    lambda_with_logic,
    nested_condition,
    nameless_result,
    undocumented_dataclass,
)


def literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The string and bytes literals of a module with their lines, without docstrings."""
    spared = {id(node) for node in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in spared:
            value = node.value
            if isinstance(value, bytes):
                yield node.lineno, value.decode("latin-1")
            elif isinstance(value, str):
                yield node.lineno, value


def docstrings(tree: ast.Module) -> Iterator[ast.AST]:
    """The docstrings of a module, including those of fields and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    yield statement.value
