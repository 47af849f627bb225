"""What native fronts must know of the generated functions: their rows, see Note [Native fronts].

Owns: reading a bare function of one line as "this operation on these arguments".
In: a function of ``tools.signatures`` and its signatures. Out: source text of its row, for ``_generated.FRONTS``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from jitgrad.functions._parse import Signature, SignatureParameter
from jitgrad.ops.table import OPS

__all__ = ["row_of"]

Values = dict[str, Any]


def row_of(signatures: list[Signature], bare: Callable[..., Any], body: list[ast.stmt], names: list[str],
           op_name: Callable[[ast.expr], str | None]) -> tuple[str, tuple[Any, ...]] | None:  # fmt: skip
    """(kind of front, per number of arguments what is done with them), or None if no front fits.

    Arguments are the first so many of the parameters; those behind the positional ones are given by their names.

    Args:
        signatures: of the function.
        bare: the function without its parser.
        body: its statements, if it is calls and a ``return``.
        names: of its parameters.
        op_name: the operation's name that an expression of the body means.
    """
    kinds = set()
    rows: dict[int, Any] = {}
    for signature in signatures:
        # where there are several signatures, a place behind the positional ones has no name of its own
        most = len(signature.parameters) if len(signatures) == 1 else signature.num_positional
        for count in range(1, most + 1):
            if any(p.is_needed for p in signature.parameters[count:]):
                continue
            found = _form(signature.parameters[:count], bare, body, names, op_name)
            if found is not None:
                if rows.setdefault(count, found[1]) != found[1]:
                    return None  # two signatures differ
                kinds.add(found[0])
            elif count in rows:
                return None
    if len(kinds) != 1:
        return None
    return kinds.pop(), tuple(rows.get(n) for n in range(max(rows) + 1))


def _form(given: Iterable[SignatureParameter], bare: Callable[..., Any], body: list[ast.stmt], names: list[str],
          op_name: Callable[[ast.expr], str | None]) -> tuple[str, Any] | None:  # fmt: skip
    """(kind of front, (operation, how many operands must be tensors, further params)) of a call with some arguments."""
    parameters = list(given)
    own = dict(zip(names, (p.name for p in parameters), strict=False))
    if len(own) < len(parameters) or not parameters[0].kind.startswith("Tensor"):
        return None
    defaults = _defaults(bare)
    if any(name not in own and name not in defaults for name in names):
        return None
    unknown = {name: defaults[name] for name in names if name not in own}
    given_defaults = {name: defaults[name] for name in own if name in defaults}
    statements = [_reduced(s, unknown, given_defaults) for s in body]
    if not statements:
        return None
    write = _write(statements, op_name)
    call = write or _apply(statements, op_name)
    if call is None:
        return None
    op, arguments = call
    operation = OPS[op]
    extras = [_constant(a) for a in arguments[len(own) :]]
    passed = [a.id if isinstance(a, ast.Name) else None for a in arguments[: len(own)]]
    if passed != list(own) or any(e is None for e in extras):
        return None
    count = operation.num_inputs
    kinds = [p.kind for p in parameters[:count]]
    if count < 1 or count > len(parameters) or any(k not in ("Tensor", "Tensor|Scalar", "Scalar") for k in kinds):
        return None
    if any(p.takes_none for p in parameters[:count]) or any(k == "any" for k in (p.kind for p in parameters[count:])):
        return None
    tensors = max(1, next((i for i, kind in enumerate(kinds) if kind != "Tensor"), count))
    if any(kind == "Tensor" for kind in kinds[tensors:]):
        return None
    if write:
        return ("write", op) if len(own) == len(arguments) == count <= 3 and (count == 1 or tensors == 1) else None
    return "call", (op, tensors, tuple(e[0] for e in extras if e is not None))


def _defaults(bare: Callable[..., Any]) -> Values:
    code, defaults = bare.__code__, bare.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    found = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return found | (bare.__kwdefaults__ or {})


class _Reduce(ast.NodeTransformer):
    """Defaults in the place of arguments that are left out; ``a if True else b`` is ``a``.

    Of an argument that is given, ``a if alpha == 1 else b`` is ``b`` where 1 is the default: a call with 1 makes no
    such event, or one that says the same.
    """

    def __init__(self, values: Values, defaults: Values) -> None:
        self._values, self._defaults = values, defaults

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(self._values[node.id]) if node.id in self._values else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if self._is_default(node.test):
            return self.visit(node.orelse)
        test = self.visit(node.test)
        if any(isinstance(part, ast.Name) for part in ast.walk(test)):
            return self.generic_visit(node)
        chosen = eval(compile(ast.Expression(ast.fix_missing_locations(test)), "", "eval"), {"__builtins__": {}})
        return self.visit(node.body if chosen else node.orelse)

    def _is_default(self, test: ast.expr) -> bool:
        """``alpha == 1``, 1 being the default of an argument that is given."""
        if not (isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and isinstance(test.ops[0], ast.Eq)):
            return False
        default = _constant(test.comparators[0])
        return default is not None and test.left.id in self._defaults and self._defaults[test.left.id] == default[0]


def _reduced(statement: ast.stmt, values: Values, defaults: Values) -> ast.stmt:
    copied = ast.parse(ast.unparse(statement)).body[0] if not isinstance(statement, ast.Return) else None
    if copied is None:
        assert isinstance(statement, ast.Return)
        copied = ast.Return(ast.parse(ast.unparse(statement.value), mode="eval").body if statement.value else None)
    reduced = _Reduce(values, defaults).visit(copied)
    assert isinstance(reduced, ast.stmt)
    return reduced


def _constant(node: ast.expr) -> tuple[Any] | None:
    """(The value,) of a constant expression."""
    try:
        return (ast.literal_eval(node),)
    except ValueError:
        return None


def _is_door(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and not node.keywords and ast.unparse(node.func) == f"door.{name}"


def _apply(body: list[ast.stmt], op_name: Callable[[ast.expr], str | None]) -> tuple[str, list[ast.expr]] | None:
    """``return door.apply(op, ...)``."""
    if len(body) != 1 or not isinstance(body[0], ast.Return):
        return None
    call = body[0].value
    if call is None or not _is_door(call, "apply"):
        return None
    assert isinstance(call, ast.Call)
    op = op_name(call.args[0])
    return None if op is None else (op, call.args[1:])


def _write(body: list[ast.stmt], op_name: Callable[[ast.expr], str | None]) -> tuple[str, list[ast.expr]] | None:
    """``door.apply_inplace(op, (x,), x, ...); return x``, or ``return _write(op, x, ...)``, which does that."""
    if len(body) == 1 and isinstance(body[0], ast.Return) and isinstance(body[0].value, ast.Call):
        call = body[0].value
        if ast.unparse(call.func) != "_write" or call.keywords:
            return None
        op = op_name(call.args[0])
        return None if op is None else (op, call.args[1:])
    if len(body) != 2 or not isinstance(body[0], ast.Expr) or not _is_door(body[0].value, "apply_inplace"):
        return None
    call, end = body[0].value, body[1]
    assert isinstance(call, ast.Call)
    targets, first = ast.unparse(call.args[1]), ast.unparse(call.args[2])
    if targets != f"({first},)" or not isinstance(end, ast.Return) or ast.unparse(end.value or end) != first:
        return None
    op = op_name(call.args[0])
    return None if op is None else (op, call.args[2:])
