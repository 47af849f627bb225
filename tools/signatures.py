"""The public functions' source: ``jitgrad/functions/_generated.py``, made from signatures and bare functions.

Owns: what a generated function looks like, see Note [Argument parsing].
In: the tables of ``functions.tables``, the texts of ``functions.signatures``. Out: source text, written to the file.

Run it after a change to a signature, to the list of functions, or to the body of a function of one line:
``python -m tools.signatures``. ``tests/test_signatures.py`` fails while the file is out of date.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any


class _StandIn(ModuleType):
    """In the place of the module that is made here, which may be missing or out of date: the bare functions."""

    MADE = FRONTS = ()
    OTHER_NAMES = MappingProxyType({})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(sys.modules["jitgrad.functions.tables"], name)


if "jitgrad" not in sys.modules:
    sys.modules["jitgrad.functions._generated"] = _StandIn("jitgrad.functions._generated")

from jitgrad.functions import tables
from jitgrad.functions._parse import FACTORY_OPTIONS, OTHER_NAMES, Signature, SignatureParameter, read_signatures
from jitgrad.functions.old_orders import has_old_order
from jitgrad.functions.signatures import NOT_PARSED, SIGNATURES, TAKES_OUT, options_of
from jitgrad.ops.table import OPS, Op
from tools.fronts import row_of

PATH = Path(tables.__file__).with_name("_generated.py")

_HEADER = '''"""The public functions, as users call them. Made by ``tools/signatures.py``: do not edit.

Owns: looking at the arguments as they usually are; everything else goes to ``_parse.slow``. Note [Argument parsing].
"""

from jitgrad.door import door as _door
from jitgrad.dtypes import DType as _DType
from jitgrad.functions import tables as _bare
from jitgrad.functions._parse import OTHER_SUMS as _other_sums
from jitgrad.functions._parse import LISTS as _lists
from jitgrad.functions._parse import MISSING as _M
from jitgrad.functions._parse import NUMBERS as _numbers
from jitgrad.functions._parse import OPERANDS as _operands
from jitgrad.functions._parse import ROWS as _rows
from jitgrad.functions._parse import SIZES as _sizes
from jitgrad.functions._parse import TENSORS as _tensors
from jitgrad.functions._parse import as_row as _as_row
from jitgrad.functions._parse import given as _given
from jitgrad.functions._parse import plain_options as _plain_options
from jitgrad.functions._parse import slow as _slow
from jitgrad.functions.known_makings import keep as _keep
from jitgrad.ops.table import OPS as _ops
from jitgrad.layouts import Size as _Size
from jitgrad.runtime.eager.makings import MAKINGS as _makings
from jitgrad.runtime.eager.makings import making_table as _making_table
from jitgrad.state import override_classes as _overrides
from jitgrad.tensor_base import TensorBase as _TensorBase
from jitgrad.tracer.hits.hits import MISSED as _MISSED

_no_options = {}
_py_bool, _py_int, _py_isinstance, _py_len, _py_map = bool, int, isinstance, len, map
_py_list, _py_set, _py_str, _py_sum, _py_tuple, _py_type = list, set, str, sum, tuple, type
'''

_PLAIN = "not _overrides or _py_type({0}) in _tensors"
"""A first argument that should be a tensor: what is none is found by the AttributeError that it causes."""

_ARE_INTS = "{0} in _sizes and _py_type(_py_sum({0})) not in _other_sums"
"""Of a tuple; (2.0, 3.0) equals (2, 3)."""
_USUAL = {
    "Tensor": "_py_type({0}) in _tensors",
    "Tensor|Scalar": "_py_type({0}) in _operands",
    "Tensor[]": "_py_type({0}) in _lists and _tensors.issuperset(_py_map(_py_type, {0}))",
    "Scalar": "_py_type({0}) in _numbers",
    "float": "_py_type({0}) in _numbers",
    "int": "_py_type({0}) is _py_int",
    "int[]": f"_py_type({{0}}) is _py_tuple and {_ARE_INTS.format('{0}')}",
    "int[1]": f"(_py_type({{0}}) is _py_int or _py_type({{0}}) is _py_tuple and {_ARE_INTS.format('{0}')})",
    "bool": "_py_type({0}) is _py_bool",
    "str": "_py_type({0}) is _py_str",
    "dtype": "_py_type({0}) is _DType",
    "any": "True",
}
"""What an argument of each kind usually is, as a condition; other kinds have no branch."""


@dataclass
class _Function:
    """One function to make.

    Attributes:
        name: in the generated module, and of its row in ``SIGNATURES``.
        public_name: its ``__name__``.
        place: where the bare function is found, as source text.
        bare: the bare function.
    """

    name: str
    public_name: str
    place: str
    bare: Callable[..., Any]
    signatures: list[Signature]
    own: dict[str, inspect.Parameter] = field(init=False)

    def __post_init__(self) -> None:
        self.own = dict(inspect.signature(self.bare).parameters)

    @property
    def first(self) -> SignatureParameter:
        return self.signatures[0].parameters[0]

    @property
    def every(self) -> dict[str, SignatureParameter]:
        """The parameters of all signatures, by name."""
        return {p.name: p for s in self.signatures for p in s.parameters}

    @property
    def takes_out(self) -> bool:
        return self.name in TAKES_OUT

    def default_of(self, name: str) -> str:
        """The bare function's default, as source text."""
        default = self.own[name].default if name in self.own else None
        assert default is None or isinstance(default, bool | int | float | str | tuple), (self.name, name)
        return repr(default)

    def has_default(self, name: str) -> bool:
        return name in self.own and self.own[name].default is not inspect.Parameter.empty

    def is_in_place(self, at: int, name: str) -> bool:
        """Whether the bare function takes the parameter by position: it stands there, or has another name."""
        order = [n for n, p in self.own.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        named = {n for n, p in self.own.items() if p.kind is not p.VAR_POSITIONAL}
        return order[at : at + 1] == [name] or name not in named


# --- bodies of one line, written into the function that users call ---


class _Inline(ast.NodeTransformer):
    """The bare function's expression with its parameters replaced by source text, and operations by their names."""

    def __init__(self, bare: Callable[..., Any], values: dict[str, str]) -> None:
        found = inspect.getclosurevars(bare)
        self._outer = {**found.globals, **found.nonlocals}
        self._values = values
        self.uses: dict[str, int] = {}
        self.ops: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._values:
            self.uses[node.id] = self.uses.get(node.id, 0) + 1
            return ast.parse(self._values[node.id], mode="eval").body
        value = self._outer.get(node.id)
        if node.id == "door":
            return ast.Name("_door", node.ctx)
        if isinstance(value, Op):
            return self._op(value)
        raise _NotOneLineError(node.id)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "OPS" and isinstance(node.slice, ast.Constant):
            return self._op(OPS[node.slice.value])
        return self.generic_visit(node)

    def _op(self, op: Op) -> ast.Name:
        self.ops.add(op.name)
        assert OPS[op.name] is op
        return ast.Name(f"_op_{op.name}", ast.Load())


class _NotOneLineError(Exception):
    pass


def _one_line(bare: Callable[..., Any]) -> list[ast.stmt]:
    """The statements of a function that is calls and a ``return``; empty for others."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(bare))).body[0]
    except (OSError, TypeError, SyntaxError):
        return []
    if not isinstance(tree, ast.FunctionDef):
        return []
    body = tree.body[1:] if ast.get_docstring(tree) is not None else tree.body
    is_plain = all(isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) for s in body[:-1])
    return body if body and is_plain and isinstance(body[-1], ast.Return) and body[-1].value is not None else []


def _call(f: _Function, signature: Signature, sentinels: set[str], ops: set[str]) -> list[str]:
    """``return bare(...)`` with a signature's arguments, or the bare function's own statements."""
    values: dict[str, str] = {}
    arguments = []
    for at, p in enumerate(signature.parameters):
        value = p.name
        if p.name in sentinels and not p.is_needed:
            value = f"{f.default_of(p.name)} if {p.name} is _M else {p.name}"
        values[p.name] = value
        is_by_position = not at or (f.is_in_place(at, p.name) and not p.is_keyword)
        arguments.append(value if is_by_position else f"{p.name}={value}")
    own_names = list(f.own)
    given: dict[str, str] = {name: f.default_of(name) for name in own_names if f.has_default(name)}
    for at, p in enumerate(signature.parameters):
        name = own_names[at] if (not at or f.is_in_place(at, p.name)) and not p.is_keyword else p.name
        given[name] = values[p.name]
    try:
        inline = _Inline(f.bare, given)
        lines = [ast.unparse(inline.visit(s)) for s in _one_line(f.bare)]
    except _NotOneLineError:
        lines = []
    is_simple = all(given[name].isidentifier() or n == 1 for name, n in inline.uses.items())
    if lines and is_simple and inline.uses:
        ops |= inline.ops
        return lines
    return [f"return _{f.name}({', '.join(arguments)})"]


# --- whole functions ---


def _condition(p: SignatureParameter, has_sentinel: bool) -> str:
    usual = _USUAL[p.kind].format(p.name)
    if p.takes_none:
        usual = f"({p.name} is None or {usual})"
    return f"({p.name} is _M or {usual})" if has_sentinel and not p.is_needed else usual


def _branch(f: _Function, signature: Signature, sentinels: set[str], ops: set[str]) -> list[str]:
    """``if the arguments look like this signature's: return bare(...)``."""
    own = {p.name for p in signature.parameters}
    first, *others = signature.parameters
    conditions = ["out is None"] if f.takes_out and not _takes_tensor(f) else []
    conditions += [] if _takes_tensor(f) else [_condition(first, first.name in sentinels)]
    conditions += [_condition(p, p.name in sentinels) for p in others]
    conditions += [f"{name} is _M" for name in (*(n for n in f.every if n not in own), *_other_names(f))]
    conditions += ["not _old"] if _star(f) == "*_old" else []
    test = " and ".join(c for c in conditions if c != "True")
    lines = _call(f, signature, sentinels, ops)
    return [f"if {test}:", *_indented(lines)] if test else lines


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _takes_tensor(f: _Function) -> bool:
    """Whether the first argument is a tensor in all signatures."""
    return all(s.parameters[0].kind == "Tensor" for s in f.signatures)


def _needed(f: _Function) -> list[str]:
    """Parameters that every call has: they are handed on by position."""
    keywords = {p.name for s in f.signatures for p in s.parameters if p.is_keyword}
    names: list[str] = []
    for name in f.every:
        uses = [p for s in f.signatures for p in s.parameters if p.name == name]
        if name in keywords or len(uses) < len(f.signatures) or not all(p.is_needed for p in uses):
            break
        names.append(name)
    return names


def _head(f: _Function) -> tuple[list[str], set[str], dict[str, str]]:
    """The parameters as source text, those whose default is a sentinel, and all defaults.

    With a sentinel, leaving an argument out is not giving a value.
    """
    keywords = {p.name for s in f.signatures for p in s.parameters if p.is_keyword}
    needed = _needed(f)
    sentinels, head, defaults = set(), list(needed), {}
    every = f.every
    for n in (*(n for n in every if n not in keywords), *(n for n in every if n in keywords)):
        if n in needed:
            continue
        uses = [p for s in f.signatures for p in s.parameters if p.name == n]
        if n in keywords and _star(f) not in head:
            head.append(_star(f))
        has_other_meaning = len(uses) < len(f.signatures) or n in OTHER_NAMES.values() or not f.has_default(n)
        if has_other_meaning or (f.own[n].default is None and not every[n].takes_none):
            sentinels.add(n)
        defaults[n] = "_M" if n in sentinels else f.default_of(n)
        head.append(f"{n}={defaults[n]}")
    others = _other_names(f)
    if (others or f.takes_out) and _star(f) not in head:
        head.append(_star(f))
    if f.takes_out:
        head.append("out=None")
        defaults["out"] = "None"
    defaults |= dict.fromkeys(others, "_M")
    return head + [f"{other}=_M" for other in others], sentinels, defaults


def _star(f: _Function) -> str:
    """What divides positional parameters from keywords: positions of PyTorch's old orders, more dims, or nothing."""
    return "*_old" if has_old_order(f.public_name) else "*dims" if f.name in SEVERAL_DIMS else "*"


def _other_names(f: _Function) -> list[str]:
    """NumPy's names for parameters, and options that ``slow`` looks at."""
    every = f.every
    numpys = [other for other, name in OTHER_NAMES.items() if name in every and other not in every]
    return numpys + sorted(options_of(f.name, every))


def _given(f: _Function) -> str:
    """What the caller gave, as far as it can be told: (args), {name: value}."""
    _, _, defaults = _head(f)
    needed = "".join(f"{name}, " for name in _needed(f)).rstrip() + (" *_old" if _star(f) == "*_old" else "")
    rows = ", ".join(f"({n!r}, {n}, {default})" for n, default in defaults.items())
    return f"({needed}), {f'_given({rows})' if rows else '{}'}"


def _has_second_operand(f: _Function) -> bool:
    """Whether the operation would take a number for its first operand, because it has another."""
    others = (p for s in f.signatures for p in s.parameters[1:2])
    return any(p.kind in ("Tensor", "Tensor|Scalar") and p.is_needed for p in others)


def _by_names(f: _Function, ops: set[str]) -> str:
    """Positions have one name in all signatures: parameters have names, and there is a branch per signature."""
    head, sentinels, _ = _head(f)
    usual = [s for s in f.signatures if all(p.kind in _USUAL for p in s.parameters)]
    sizes = [p.name for p in f.every.values() if p.kind == "int[]"]
    lines = [line for n in sizes for line in (f"if _py_type({n}) is _Size:", f"    {n} = _py_tuple({n})")]
    rows = [p.name for p in f.every.values() if p.kind in ("int[]", "int[1]")]
    lines += [line for n in rows for line in (f"if _py_type({n}) is _py_list:", f"    {n} = _as_row({n})")]
    lines += [line for s in usual for line in _branch(f, s, sentinels, ops)]
    if f.name in MADE_AGAIN:
        lines = _look_by_names(f, lines)
    if _takes_tensor(f):
        first = f.first.name
        plain = (_USUAL["Tensor"] if _has_second_operand(f) else _PLAIN).format(first)
        if f.takes_out:
            plain = f"out is None and ({plain})"
        lines = [
            f"if {plain}:",
            "    try:",
            *_indented(_indented(lines)),
            "    except AttributeError:",
            f"        if _py_isinstance({first}, _TensorBase):",
            "            raise",
        ]
    itself = f"_{f.name}_itself" if f.name in f.every else f.name  # ``pad`` has a parameter of this name
    lines.append(f"return _slow({itself}, {_given(f)})")
    if f.name in SEVERAL_DIMS:
        lines = ["if dims:", f"    return _slow({itself}, ({f.first.name}, (dim, *dims)), {{}})", *lines]
    lines = [f"{_table(f)}def {f.name}({', '.join(head)}):", *_indented(lines)]
    if itself is not f.name:
        lines += ["", f"{itself} = {f.name}"]
    return "\n".join(lines) + "\n"


MADE_AGAIN = frozenset(
    {"arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "zeros"}
)
"""Functions that look first for what an earlier call has left, and leave what they do, Note [Known makings]."""


SEVERAL_DIMS = frozenset({"squeeze", "squeeze_", "count_nonzero"})
"""Functions that take their dims also one by one: ``x.squeeze(1, 2)``."""


def _table(f: _Function) -> str:
    """The table of what is left."""
    return f"_made_{f.name} = _making_table()\n\n" if f.name in MADE_AGAIN else ""


def _look(f: _Function, given: str) -> str:
    """The look into it; ``given``: the arguments that are not options."""
    if f.name not in MADE_AGAIN:
        return ""
    row = "    if _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list:\n        sizes = (_py_tuple(sizes[0]),)\n"
    return (row if given == "sizes" else "") + (
        f"    made = _makings.make_again(_made_{f.name}, {given}, options)\n"
        f"    if made is not _MISSED:\n"
        f"        return made\n"
        f"    given = {given}\n"
    )


def _look_by_names(f: _Function, lines: list[str]) -> list[str]:
    """The look into it where parameters have names; other options than dtype and device are not looked up."""
    keywords = {p.name for s in f.signatures for p in s.parameters if p.is_keyword}
    defaults = _head(f)[2]
    looked_up = [n for n in defaults if (n in f.every and n not in keywords) or n in ("dtype", "device")]
    given = ", ".join([*_needed(f), *looked_up])
    is_plain = " and ".join(f"{n} is {default}" for n, default in defaults.items() if n not in looked_up)
    call = f"return _{f.name}("
    keeps = f"return _keep({f.name!r}, _made_{f.name}, given, _no_options, _{f.name}("
    kept = [line.replace(call, keeps) + ")" if call in line else line for line in lines]
    return [
        "given = None",
        f"if {is_plain}:",
        f"    given = {given},",
        f"    made = _makings.make_again(_made_{f.name}, given, _no_options)",
        "    if made is not _MISSED:",
        "        return made",
        *kept,
    ]


def _kept(f: _Function, call: str) -> str:
    """A call of the bare function, whose result is left there."""
    return f"_keep({f.name!r}, _made_{f.name}, given, options, {call})" if f.name in MADE_AGAIN else call


def _with_sizes(f: _Function) -> str:
    """For ``x.view(2, 3)`` and ``zeros((2, 3), dtype=float64)``: the sizes are looked up as they come."""
    signature = next(s for s in f.signatures if s.varargs is not None)
    names = [p.name for p in signature.parameters[: signature.varargs]]
    given = ", ".join([*names, "*sizes"])
    is_plain = f"({_PLAIN.format(names[0])}) and " if names else ""
    options = [name for name in FACTORY_OPTIONS if name in f.own]
    with_options = (
        f"    if {is_plain}is_plain and _plain_options(options, _options_of_{f.name}):\n"
        f"{_returned_for(names, _kept(f, f'_{f.name}({given}, **options)'))}"
    )
    # no sizes are told from sizes that are not given, which may stand among the options
    is_bare = f"not options{f' or _plain_options(options, _options_of_{f.name})' if options else ''}"
    head = f"_options_of_{f.name} = {', '.join(map(repr, options))},\n\n" if options else ""
    return head + (
        f"{_table(f)}"
        f"def {f.name}({given}, **options):\n"
        f"{_look(f, 'sizes')}"
        f"    try:\n"
        f"        is_plain = {_ARE_INTS.format('sizes')} and _py_len(sizes) > 0\n"
        f"    except TypeError:\n"
        f"        is_plain = False\n"
        f"    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or {is_bare})"
        f" and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:\n"
        f"        sizes, is_plain = _py_tuple(sizes[0]), True\n"
        f"    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:\n"
        f"        row = _as_row(sizes[0])\n"
        f"        if row is not sizes[0]:\n"
        f"            sizes, is_plain = row, True\n"
        f"    if {is_plain}is_plain and not options:\n"
        f"{_returned_for(names, _kept(f, f'_{f.name}({given})'))}"
        f"{with_options if options else ''}"
        f"    return _slow({f.name}, ({given},), options)\n"
    ).replace("(*sizes,)", "sizes")


def _returned_for(names: list[str], call: str) -> str:
    """``return call``; a first argument that should be a tensor and is none goes on, see ``_PLAIN``."""
    if not names:
        return f"        return {call}\n"
    return (
        f"        try:\n"
        f"            return {call}\n"
        f"        except AttributeError:\n"
        f"            if _py_isinstance({names[0]}, _TensorBase):\n"
        f"                raise\n"
    )


def _by_kinds(f: _Function) -> str:
    """Positional calls by the classes of their arguments, as soon as a call of these classes was matched."""
    options = [name for name in FACTORY_OPTIONS if name in f.own]
    with_options = (
        f"    if options and _plain_options(options, _options_of_{f.name}) and "
        f"(*_py_map(_py_type, args),) in _known_{f.name}:\n"
        f"        return {_kept(f, f'_{f.name}(*args, **options)')}\n"
    )
    head = f"_options_of_{f.name} = {', '.join(map(repr, options))},\n" if options else ""
    return head + (
        f"_known_{f.name} = _py_set()\n\n"
        f"{_table(f)}"
        f"def {f.name}(*args, **options):\n"
        f"{_look(f, 'args')}"
        f"    if not options and (*_py_map(_py_type, args),) in _known_{f.name}:\n"
        f"        return {_kept(f, f'_{f.name}(*args)')}\n"
        f"    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in "
        f"_known_{f.name}:\n"
        f"        return {_kept(f, f'_{f.name}(*args, **options)')}\n"
        f"{with_options if options else ''}"
        f"    return _slow({f.name}, args, options, _known_{f.name})\n"
    )


def _with_anything(f: _Function) -> str:
    """What has forms of its own, which the bare function tells apart; only overrides are looked for."""
    condition = '_overrides or "out" in options' if f.takes_out else "_overrides"
    call = f"_{f.name}(*args, **options) if options else _{f.name}(*args)"
    return (
        f"{_table(f)}"
        f"def {f.name}(*args, **options):\n"
        f"{_look(f, 'args')}"
        f"    if {condition}:\n"
        f"        return _slow({f.name}, args, options)\n"
        f"    return {_kept(f, call)}\n"
    )


def _front_of(f: _Function) -> str | None:
    """``(function, kind of front, row)`` as source text, see Note [Native fronts]; None for most."""
    if not f.signatures or any(s.varargs is not None for s in f.signatures):
        return None

    found = inspect.getclosurevars(f.bare)
    known = {**found.globals, **found.nonlocals}

    def op_name(node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            value = known.get(node.id)
            return value.name if isinstance(value, Op) and OPS.get(value.name) is value else None
        text = ast.unparse(node)
        is_looked_up = text.startswith("OPS[") and isinstance(node, ast.Subscript)
        return node.slice.value if is_looked_up and isinstance(node.slice, ast.Constant) else None

    names = [n for n, p in f.own.items() if p.kind is not p.VAR_POSITIONAL]
    row = row_of(f.signatures, f.bare, _one_line(f.bare), names, op_name)
    return None if row is None else f"({f.name}, {row[0]!r}, {row[1]!r})"


def _names_agree(signatures: list[Signature]) -> bool:
    """Whether a position has one name in all signatures: ``max(x, dim)`` and ``max(x, other)`` do not agree."""
    rows = [[p.name for p in s.parameters if not p.is_keyword] for s in signatures]
    longest = max(rows, key=len)
    return all(row == longest[: len(row)] for row in rows)


def _source(f: _Function, ops: set[str]) -> str:
    if not f.signatures:
        return _with_anything(f)
    if any(s.varargs is not None for s in f.signatures):
        return _with_sizes(f)
    is_named = _names_agree(f.signatures) and not any(map(keyword.iskeyword, f.every))  # ``uniform_`` has a "from"
    return _by_names(f, ops) if is_named else _by_kinds(f)


# --- the module ---


def every_function() -> Iterator[tuple[str, str, str, Callable[..., Any]]]:
    """(table, name in it, name of the row in ``SIGNATURES``, bare function)."""
    special = {
        ("METHODS", "where"): "where_method",
        ("METHODS", "split"): "split_method",
        ("METHODS", "polygamma"): "polygamma_method",
        ("LAYERS", "relu"): "functional_relu",
    }
    for table in ("PUBLIC", "METHODS", "INPLACE_METHODS", "LAYERS"):
        for name, bare in getattr(tables, table).items():
            yield table, name, special.get((table, name), name), bare


def text() -> str:
    """The source of the generated module."""
    made: dict[Any, _Function] = {}
    places: dict[str, dict[str, str]] = {}
    for table, name, row, bare in every_function():
        names = places.setdefault(table, {})
        if row in NOT_PARSED:
            names[name] = f"_bare.{table}[{name!r}]"
            continue
        alias = name
        key = (bare, SIGNATURES[row])
        if key not in made:
            own_name = bare.__name__  # ``greater`` is ``gt``
            if getattr(tables, table).get(own_name) is bare and SIGNATURES[own_name] == SIGNATURES[row]:
                row = name = own_name
            signatures = read_signatures(SIGNATURES[row])
            made[key] = _Function(row, name, f"_bare.{table}[{name!r}]", bare, signatures)
        names[alias] = made[key].name
    ops: set[str] = set()
    sources = [_source(f, ops) for f in made.values()]
    used = "\n".join(sources)
    parts = [_HEADER, _packed("", [f"_op_{name} = _ops[{name!r}]" for name in sorted(ops)], "; ")]
    parts.append(_packed("", [f"_{f.name} = {f.place}" for f in made.values() if f" _{f.name}(" in used], "; "))
    parts += sources
    for table, names in places.items():
        rows = [f"{name!r}: {value}" for name, value in names.items()]
        parts.append(f"{table} = {{\n{_packed('    ', rows, ', ')}}}\n")
    rows = [f"({f.name}, {f.place})" for f in made.values()]
    parts.append(f"MADE = (\n{_packed('    ', rows, ', ')})")
    parts.append('"""(function, the bare function). The function\'s name is that of its row in ``SIGNATURES``."""\n')
    fronts = [row for row in map(_front_of, made.values()) if row is not None]
    parts.append(f"FRONTS = (\n{_packed('    ', fronts, ', ')})")
    parts.append('"""(function, kind of its front, its row), see ``compiled/native_fronts.py``."""\n')
    parts.append(f"OTHER_NAMES = { {f.name: f.public_name for f in made.values() if f.name != f.public_name} }")
    parts.append('"""Public names that differ from that."""\n')
    return "\n".join(parts)


def _packed(indent: str, items: Iterable[str], separator: str) -> str:
    """Items in lines of at most 120 characters."""
    lines = [indent]
    for item in items:
        if len(lines[-1]) + len(item) + len(separator) > 120:
            lines.append(indent)
        lines[-1] += item + separator
    return "".join(f"{line.rstrip(' ;')}\n" for line in lines)


if __name__ == "__main__":
    PATH.write_text(text())
