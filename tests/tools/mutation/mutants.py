"""Small mistakes to make in Python code, one at a time, each as the new text of a file.

A mutant changes one expression or statement and leaves the rest of the file as it is. Imports,
docstrings, annotations, logging, `__repr__` and what only type checkers read are not changed.
"""

from __future__ import annotations

import ast
import copy
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_SWAPPED_NAMES = {"any": "all", "all": "any", "min": "max", "max": "min"}
_LOGGERS = {"log", "_log", "logger", "_logger", "logging"}
_UNCHANGED_FIELDS = {"annotation", "returns", "type_comment"}


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes [start, end) of a file's text are replaced."""

    line: int
    column: int
    kind: str
    start: int
    end: int
    replacement: str
    # Of the statement around it, without the body of a compound one: the lines that run with it.
    statement: tuple[int, int]
    # The qualified name of the function or class around it; empty at the top of the module.
    function: str = ""

    def apply(self, text: str) -> str:
        code = text.encode()
        return (code[: self.start] + self.replacement.encode() + code[self.end :]).decode()

    def replaced(self, text: str) -> str:
        """Return what is replaced."""
        return text.encode()[self.start : self.end].decode()

    def compiles(self, text: str) -> bool:
        """Return whether the changed text is still Python: not every change fits everywhere."""
        try:
            compile(self.apply(text), "mutant", "exec", dont_inherit=True)
        except SyntaxError:
            return False
        return True


def mutants(text: str) -> dict[int, list[Mutant]]:
    """Return the mutants of a file by the line on which the changed part begins."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: dict[int, list[Mutant]] = defaultdict(list)
    for statement, function, node in _nodes(ast.parse(text), (0, 0), ""):
        for kind, target, replacement in _changes(node):
            mutant = Mutant(
                target.lineno,
                target.col_offset,
                kind,
                starts[target.lineno - 1] + target.col_offset,
                starts[(target.end_lineno or 0) - 1] + (target.end_col_offset or 0),
                replacement,
                statement,
                function,
            )
            found[mutant.line].append(mutant)
    return found


def _nodes(
    node: ast.AST, statement: tuple[int, int], function: str
) -> Iterator[tuple[tuple[int, int], str, ast.AST]]:
    """Yield each node that may be changed, with the lines of its statement and its function."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    for field, value in ast.iter_fields(node):
        if field in _UNCHANGED_FIELDS:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_unchanged(child):
                continue
            lines = _lines(child) if isinstance(child, ast.stmt) else statement
            yield lines, function, child
            # Before Python 3.12 the positions within an f-string are not those in the file.
            if not isinstance(child, ast.JoinedStr):
                yield from _nodes(child, lines, function)


def _lines(statement: ast.stmt) -> tuple[int, int]:
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return statement.lineno, max(statement.lineno, last)


def _is_unchanged(node: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant() | ast.JoinedStr()):
            return True
        case ast.FunctionDef(name="__repr__") | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in _LOGGERS
    return False


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Yield what may become of a node: the kind of change, the replaced part, its new text."""
    yield from _operators(node)
    yield from _values(node)
    yield from _statements(node)
    yield from _conditions(node)
    if isinstance(node, ast.Call):
        yield from _calls(node)


def _operators(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    match node:
        case ast.Compare(ops=ops):
            for index, operator in enumerate(ops):
                changed = copy.deepcopy(node)
                changed.ops[index] = _swapped(operator)
                yield "comparison swapped", node, f"({ast.unparse(changed)})"
        case ast.BoolOp(op=operator) | ast.BinOp(op=operator) if type(operator) in _SWAPPED:
            changed = copy.copy(node)
            changed.op = _swapped(operator)
            yield "operator swapped", node, f"({ast.unparse(changed)})"
        case ast.AugAssign(op=operator) if type(operator) in _SWAPPED:
            changed = copy.copy(node)
            changed.op = _swapped(operator)
            yield "operator swapped", node, ast.unparse(changed)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not removed", node, f"({ast.unparse(operand)})"


def _values(node: ast.AST) -> Iterator[tuple[str, ast.expr, str]]:
    match node:
        case ast.Constant(value=bool() as value):
            yield "constant changed", node, repr(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant changed", node, repr(value + 1)
            yield "constant changed", node, f"({value - 1!r})"
        case ast.Constant(value=str() as value):
            yield "string changed", node, repr(f"{value}X")
        case ast.Constant(value=bytes() as value):
            yield "string changed", node, repr(value + b"X")
        case ast.JoinedStr(values=values):
            changed = ast.JoinedStr([*values, ast.Constant("X")])
            yield "string changed", node, ast.unparse(changed)
        case ast.Name(id=name, ctx=ast.Load()) if name in _SWAPPED_NAMES:
            yield "function swapped", node, _SWAPPED_NAMES[name]
        case ast.Slice(lower=lower, upper=upper):
            for bound in (lower, upper):
                if bound is not None and not isinstance(bound, ast.Constant):
                    yield "slice moved", bound, f"({ast.unparse(bound)}) + 1"


def _statements(node: ast.AST) -> Iterator[tuple[str, ast.stmt, str]]:
    match node:
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield "None returned", node, "return None"
        case (
            ast.Expr() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete() | ast.AugAssign()
        ):
            yield "statement deleted", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement deleted", node, "pass"


def _conditions(node: ast.AST) -> Iterator[tuple[str, ast.expr, str]]:
    match node:
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "condition forced", test, "True"
            yield "condition forced", test, "False"
        case ast.While(test=test):
            yield "condition forced", test, "False"
        case ast.comprehension(ifs=tests):
            for test in tests:
                yield "condition forced", test, "True"


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.expr, str]]:
    for keyword in node.keywords:
        if keyword.arg is not None:
            others = [other for other in node.keywords if other is not keyword]
            changed = ast.Call(node.func, node.args, others)
            yield "argument dropped", node, ast.unparse(changed)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "get" and len(node.args) == 2:
        yield "default dropped", node, ast.unparse(ast.Call(node.func, node.args[:1], []))


def _swapped(operator: ast.AST) -> ast.AST:
    return _SWAPPED[type(operator)]()


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
