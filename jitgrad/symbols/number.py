"""Numbers that are planned with before they are settled: extents, and what is computed of them.

Owns: ``SymNumber``, ``ShapeEnv``; what code that plans must say of such numbers: ``whole``, ``lifted``, ``similar``.
Must not know: what is planned.

# Note [Symbolic extents]
# ~~~~~~~~~~~~~~~~~~~~~~~
# A program depends on extents in two ways: argument words are computed of them, and decisions (how values are grouped,
# which loop is vectorised) are taken by comparing them. A ``SymNumber`` is a number that keeps both, as PyTorch's
# SymInt does: it has a value, so planning goes its usual way, and the expression that the value comes from; whatever
# asks it a question (``if``, ``==``, ``<``) leaves a *guard* in its ``ShapeEnv``: the question, and the answer. Where
# all guards have the same answers for other extents, planning would take the same decisions, and the words are those of
# the expressions. So a segment is planned once, and serves all extents that its guards let through (``families.py``).
# Nothing is lost unnoticed: what cannot keep an expression (``range``, ``int``, NumPy) asks for the value, and that
# leaves the guard that it is this value. Three helpers are for code that would do so without need: ``whole(x)`` is
# ``int(x)``, ``lifted(f)(x)`` keeps a call of ``f`` as part of the expression, and ``similar(x)`` is the value for
# decisions that are right for all numbers, and good for those of about the same size: it is advice (Note [Advice]).
# Symbols are extents of two or more, so that many answers are known without a guard (``n != 0``).
# Example: ``x.sum(1)`` of [n, 16] has ``n`` units, a grain of ``max(1, int(n * 6000 / cost))``, and reads rows of 64
# bytes; the guards say that ``n * 16`` is at most four chunks (else the sum would be cut), and a few more.
"""

from __future__ import annotations

import functools
import math
import operator
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["TOKEN", "Guard", "ShapeEnv", "SymNumber", "current_env", "greatest", "is_certain", "is_symbolic",
           "is_tuple", "lifted", "number_key", "plain", "settled", "similar", "smallest", "value_of", "whole",
           "without_tokens"]  # fmt: skip

TOKEN = "$of:"
"""How the ``repr`` of a symbolic number begins."""


class Guard(NamedTuple):
    """A question about two numbers, one of which is symbolic at least, and its answer."""

    op: str
    x: Any
    y: Any
    answer: bool


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "/": operator.truediv, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_,
}  # fmt: skip


class ShapeEnv:
    """One planning with symbolic extents: the expressions that were met, and the guards.

    Attributes:
        guards: in the order in which they were asked.
        advice: questions about time alone, likewise; Note [Advice].
        symbols: the extents.
        avals: layouts that were made of symbolic numbers.
        by_size: how arenas are planned, Note [Arenas for all extents]; None: that is not decided yet.
    """

    def __init__(self) -> None:
        self.guards: list[Guard] = []
        self.advice: list[Guard] = []
        self.symbols: list[SymNumber] = []
        self.avals: dict[Any, Any] = {}
        self.by_size: bool | None = None
        self._numbers: list[SymNumber] = []
        self._constants: list[Any] = []
        self._interned: dict[Any, SymNumber] = {}
        self._computed: dict[Any, Any] = {}
        self._certain: set[Any] = set()
        self._asked: dict[Any, None] = {}
        self._suggested: dict[Any, None] = {}
        self._takes_advice = False

    def __enter__(self) -> ShapeEnv:
        _active.env = self
        return self

    def __exit__(self, *_: object) -> None:
        _active.env = None

    def symbol(self, value: int) -> SymNumber:
        """A new extent, of two or more."""
        made = self._make("symbol", (len(self.symbols),), value, 2)
        self.symbols.append(made)
        return made

    def is_pinned(self) -> bool:
        """Whether the guards let one set of extents through."""
        pinned = {id(g.x) for g in self.guards if g.op == "==" and g.answer and type(g.y) is int}
        return all([id(symbol) in pinned for symbol in self.symbols])

    def number(self, token: str) -> SymNumber:
        """The number whose ``repr`` is ``token``."""
        return self._numbers[int(token[len(TOKEN) :].partition("=")[0])]

    def constant(self, x: Any) -> Any:
        """The number, plain or symbolic, that stands for all that are equal to it: equal constants are one."""
        value = value_of(x)
        for known in self._constants:
            if type(value_of(known)) is not type(value):
                continue
            is_same = repr(value_of(known)) == repr(value)
            if is_symbolic(x) or is_symbolic(known):
                is_same = self.ask("==", known, x) and is_same  # -0.0 is not 0.0
            if is_same:
                return known
        self._constants.append(x)
        return x

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """``function(*args)``, which depends on nothing else, as an expression."""
        lows = [_lowest(x) for x in args] if function in (max, min) else [None]
        known = [low for low in lows if low is not None]
        low = max(known, default=None) if function is max else min(known) if len(known) == len(lows) else None
        return self._make("call", (function, *args), function(*[value_of(x) for x in args]), low)

    def ask(self, op: str, x: Any, y: Any) -> bool:
        """Whether a comparison holds; a guard, or advice, unless it does for all extents."""
        answer = bool(_COMPARE[op](value_of(x), value_of(y)))
        key = (op, number_key(x), number_key(y))
        if key in self._certain or key in self._asked or (self._takes_advice and key in self._suggested):
            return answer
        if is_certain(op, x, y):
            self._certain.add(key)
            return answer
        if self._takes_advice:
            self._suggested[key] = None
            self.advice.append(Guard(op, x, y, answer))
        else:
            self._asked[key] = None
            self.guards.append(Guard(op, x, y, answer))
        return answer

    def differ(self, x: Any, y: Any) -> None:
        """Let it be advice that two numbers differ, also where they are equal here."""
        key = "differ", number_key(x), number_key(y)
        if key not in self._suggested:
            self._suggested[key] = None
            self.advice.append(Guard("==", x, y, False))

    def asking(self, takes_advice: bool, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """``function(*args, **named)``; what it asks is advice, or makes guards."""
        before, self._takes_advice = self._takes_advice, takes_advice
        try:
            return function(*args, **named)
        finally:
            self._takes_advice = before

    def _make(self, op: str, args: tuple[Any, ...], value: Any, low: int | None) -> SymNumber:
        key = (op, *map(number_key, args))
        found = self._interned.get(key)
        if found is None:
            found = self._interned[key] = SymNumber(self, op, args, value, low, len(self._numbers))
            self._numbers.append(found)
        return found

    def product(self, factor: int, bases: Sequence[SymNumber]) -> Any:
        """``factor`` times other integers; products of the same numbers are the same expression."""
        if factor == 0 or not bases:
            return factor
        bases = sorted(bases, key=_place)
        if factor == 1 and len(bases) == 1:
            return bases[0]
        value, low = factor, factor if factor > 0 else None
        for x in bases:
            value *= x.value
            low = None if low is None or x.low is None or x.low < 0 else low * x.low
        return self._make("product", (factor, *bases), value, low)

    def sum(self, constant: int, terms: Sequence[SymNumber]) -> Any:
        """A constant and products of different numbers, in the order of these."""
        if not terms:
            return constant
        value, low = constant, constant
        for x in terms:
            value += x.value
            low = None if low is None or x.low is None else low + x.low  # type: ignore[assignment]
        return self._make("sum", (constant, *terms), value, low)

    def compute(self, op: str, x: Any, y: Any) -> Any:
        """An arithmetic operation."""
        key = op, number_key(x), number_key(y)
        found = self._computed.get(key)
        if found is None:
            found = _SIMPLER[op](self, x, y) if op in _SIMPLER and _is_whole(x) and _is_whole(y) else None
            if found is None:
                found = self._make(op, (x, y), _COMPUTE[op](value_of(x), value_of(y)), _low_of(op, x, y))
            self._computed[key] = found
        return found


class _Active(threading.local):
    env: ShapeEnv | None = None


_active = _Active()


def current_env() -> ShapeEnv | None:
    """Of the planning that this thread does with symbolic extents; None: with plain ones."""
    return _active.env


def number_key(x: Any) -> Any:
    """What tells numbers apart without a question."""
    if type(x) is SymNumber:
        return "number", x.place
    return (float, x.hex()) if type(x) is float else (type(x), x)  # -0.0 is not 0.0


def _place(x: SymNumber) -> int:
    return x.place


def _is_whole(x: Any) -> bool:
    return type(value_of(x)) is int


def value_of(x: Any) -> Any:
    """The number itself, without a guard: for what is no decision."""
    return x.value if type(x) is SymNumber else x


def is_symbolic(x: Any) -> bool:
    """Whether it is a symbolic number."""
    return type(x) is SymNumber


def _lowest(x: Any) -> int | None:
    """What an integer is at least."""
    return x.low if type(x) is SymNumber else x if type(x) is int else None


def is_certain(op: str, x: Any, y: Any) -> bool:
    """Whether the answer is the same for all extents."""
    if x is y:
        return True
    if _is_whole(x) and _is_whole(y):
        env = x.env if type(x) is SymNumber else y.env
        distance = env.compute("-", x, y)
        low, high = _lowest(distance), _highest(distance)
        return (low is not None and _is_settled(op, low)) or (high is not None and _is_settled(_TURNED[op], -high))
    if type(x) is not SymNumber:
        return is_certain(_TURNED[op], y, x)
    return x.low is not None and type(y) is float and _is_settled(op, x.low - y)


def _is_settled(op: str, low: float) -> bool:
    """Whether it is known how a number that is ``low`` at least compares with 0."""
    return low > 0 or (low == 0 and op in ("<", ">="))


def _highest(x: Any) -> int | None:
    """What an integer is at most."""
    if type(x) is not SymNumber:
        return x if type(x) is int else None
    opposite = x.env.compute("*", x, -1)
    low = _lowest(opposite)
    return None if low is None else -low


_TURNED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _factors(x: Any) -> tuple[int, tuple[SymNumber, ...]]:
    """(constant factor, the others)."""
    if type(x) is not SymNumber:
        return x, ()
    return (x.args[0], x.args[1:]) if x.op == "product" else (1, (x,))


def _are_same(xs: Sequence[SymNumber], ys: Sequence[SymNumber]) -> bool:
    """Whether they are the same objects: to compare numbers is a question."""
    return len(xs) == len(ys) and all([x is y for x, y in zip(xs, ys, strict=True)])


def _low_of(op: str, x: Any, y: Any) -> int | None:
    low, other = _lowest(x), _lowest(y)
    if low is None or other is None:
        return None
    if op == "//" and type(y) is int and y > 0:
        return low // y
    return 0 if op == "%" and low >= 0 and other > 0 else None


# Simpler forms of integers' operations; None: there is none. Equal numbers then often are the same expression.
def _simple_product(env: ShapeEnv, x: Any, y: Any) -> Any:
    if type(x) is int:
        x, y = y, x
    if type(y) is int and type(x) is SymNumber and x.op == "sum":
        constant, terms = x.args[0], x.args[1:]
        return env.sum(constant * y, [env.compute("*", term, y) for term in terms]) if y else 0
    (a, mine), (c, other) = _factors(x), _factors(y)
    return env.product(a * c, (*mine, *other))


def _terms(x: Any) -> tuple[int, dict[tuple[int, ...], Any]]:
    """(The constant, bases' places -> product) of a sum."""
    if type(x) is not SymNumber:
        return x, {}
    terms = x.args[1:] if x.op == "sum" else (x,)
    return x.args[0] if x.op == "sum" else 0, {tuple([z.place for z in _factors(t)[1]]): t for t in terms}


def _simple_sum(env: ShapeEnv, x: Any, y: Any) -> Any:
    """Equal sums are the same expression."""
    (constant, terms), (more, others) = _terms(x), _terms(y)
    constant += more
    for bases, term in others.items():
        known = terms.get(bases)
        if known is None:
            terms[bases] = term
            continue
        (a, mine), (c, _) = _factors(known), _factors(term)
        made = env.product(a + c, mine)
        if type(made) is int:
            del terms[bases]
        else:
            terms[bases] = made
    if not constant and len(terms) == 1:
        return next(iter(terms.values()))
    return env.sum(constant, [terms[bases] for bases in sorted(terms)])


def _simple_difference(env: ShapeEnv, x: Any, y: Any) -> Any:
    return env.compute("+", x, -y if type(y) is int else env.compute("*", y, -1))


def _divided(x: Any, y: Any) -> tuple[int, list[SymNumber]] | None:
    """The factors of ``x / y``, where it is an integer for all extents."""
    if type(x) is int and not x and type(y) is SymNumber and y.low is not None and y.low > 0:
        return 0, []
    (a, mine), (c, other) = _factors(x), _factors(y)
    rest = list(mine)
    for base in other:
        at = next((n for n, z in enumerate(rest) if z is base), None)
        if at is None:
            return None
        del rest[at]
    return None if not c or a % c or (other and any(z.low is None or z.low < 1 for z in other)) else (a // c, rest)


def _simple_quotient(env: ShapeEnv, x: Any, y: Any) -> Any:
    found = _divided(x, y)
    return None if found is None else env.product(*found)


def _simple_rest(env: ShapeEnv, x: Any, y: Any) -> Any:
    return 0 if _divided(x, y) is not None else None


_SIMPLER = {"*": _simple_product, "+": _simple_sum, "-": _simple_difference, "//": _simple_quotient, "%": _simple_rest}


class SymNumber:
    """See Note [Symbolic extents].

    Attributes:
        env: whose it is.
        op, args: the expression: "symbol", "call" (a function, its arguments), "product" (a constant, other factors),
            "sum" (a constant, products of different numbers), or a Python operator.
        value: an int or a float.
        low: what an integer is at least, for all extents; None: not known.
        place: its number in ``env``.
        needs: how many of the symbols must be known to know it.
    """

    __slots__ = ("args", "env", "low", "needs", "op", "place", "value")

    def __init__(
        self, env: ShapeEnv, op: str, args: tuple[Any, ...], value: Any, low: int | None, place: int
    ) -> None:
        self.env, self.op, self.args, self.value, self.low, self.place = env, op, args, value, low, place
        self.needs: int = args[0] + 1 if op == "symbol" else max([x.needs for x in args if type(x) is SymNumber])

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """``isinstance`` says what the value is."""
        return type(self.value)

    def __repr__(self) -> str:
        return f"{TOKEN}{self.place}={self.value}"

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __hash__(self) -> int:
        """Of the expression: tables do not find that numbers are equal by chance, which would be a guard."""
        return hash((self.place, id(self.env)))

    def computed(self, args: Sequence[Any]) -> Any:
        """What the expression, which is no symbol, is for other values of its parts."""
        if self.op in ("product", "sum"):
            return math.prod(args) if self.op == "product" else sum(args)
        return args[0](*args[1:]) if self.op == "call" else _COMPUTE[self.op](*args)

    # what asks for the value
    def settled(self) -> Any:
        """The value; from now on it is this one alone."""
        self.env.asking(False, self.env.ask, "==", self, self.value)
        return self.value

    def __index__(self) -> int:
        return operator.index(self.settled())

    def __int__(self) -> int:
        return int(self.settled())

    def __float__(self) -> float:
        return float(self.settled())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """NumPy would make arrays of objects of it, and their memory is no numbers."""
        return np.array(self.settled(), dtype)

    def __bool__(self) -> bool:
        return not self.env.ask("==", self, 0)

    # what keeps the expression
    def __neg__(self) -> Any:
        return self.env.compute("*", self, -1)

    def __pos__(self) -> SymNumber:
        return self

    def __abs__(self) -> Any:
        return self if self.low is not None and self.low >= 0 else self.env.call(abs, self)

    def __ceil__(self) -> Any:
        if _is_whole(self):
            return self
        if self.op == "/" and all(map(_is_whole, self.args)) and (found := _divided(*self.args)) is not None:
            return self.env.product(*found)  # ``arange(n)``
        return self.env.call(math.ceil, self)

    def __floor__(self) -> Any:
        return self if _is_whole(self) else self.env.call(math.floor, self)

    def __trunc__(self) -> Any:
        return self if _is_whole(self) else self.env.call(math.trunc, self)

    def __round__(self, digits: int | None = None) -> Any:
        return self.env.call(round, self) if digits is None else self.env.call(round, self, digits)

    def bit_length(self) -> Any:
        return self.env.call(int.bit_length, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    # questions
    def __eq__(self, other: object) -> bool:
        if type(other) is SymNumber and other.env is not self.env:
            return False  # of a planning that has ended; a cache may have it
        return self.env.ask("==", self, other) if isinstance(other, (int, float)) else NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal


def _operators(op: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """``x op y`` and ``y op x``."""

    def forward(self: SymNumber, other: Any) -> Any:
        return self.env.compute(op, self, other) if isinstance(other, (int, float)) else NotImplemented

    def backward(self: SymNumber, other: Any) -> Any:
        return self.env.compute(op, other, self) if isinstance(other, (int, float)) else NotImplemented

    return forward, backward


def _comparison(op: str) -> Callable[..., Any]:
    def compare(self: SymNumber, other: Any) -> Any:
        return self.env.ask(op, self, other) if isinstance(other, (int, float)) else NotImplemented

    return compare


for _name, _op in {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "truediv": "/", "pow": "**",
                   "lshift": "<<", "rshift": ">>", "and": "&", "or": "|"}.items():  # fmt: skip
    _forward, _backward = _operators(_op)
    setattr(SymNumber, f"__{_name}__", _forward)
    setattr(SymNumber, f"__r{_name}__", _backward)
for _name, _op in {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(SymNumber, f"__{_name}__", _comparison(_op))


# ---- what code that plans says of numbers ----


def whole(x: Any) -> Any:
    """``int(x)``."""
    return x.env.call(int, x) if type(x) is SymNumber else int(x)


def lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, of numbers alone, as a function of symbolic numbers, too; also of tuples of numbers."""

    def call(*args: Any) -> Any:
        numbers = _flat(args)
        env = next((x.env for x in numbers if type(x) is SymNumber), None)
        if env is None:
            return function(*args)
        is_flat = not any(map(is_tuple, args))
        return env.call(function if is_flat else _of_flat(function, _form(args)), *numbers)

    return call


def is_tuple(x: Any) -> bool:
    """Whether it is a tuple, and no number whose value is one: what a kept call gives."""
    return issubclass(type(x), tuple)


def _flat(x: Any) -> list[Any]:
    """What nested tuples hold, in order."""
    return [z for y in x for z in _flat(y)] if is_tuple(x) else [x]


def _form(x: Any) -> Any:
    """Nested tuples without what they hold."""
    return tuple(map(_form, x)) if is_tuple(x) else None


@functools.lru_cache(maxsize=4096)
def _of_flat(function: Callable[..., Any], form: Any) -> Callable[..., Any]:
    """``function`` of arguments that are handed over as ``_flat`` makes them."""

    def nested(form: Any, numbers: Iterator[Any]) -> Any:
        return next(numbers) if form is None else tuple([nested(x, numbers) for x in form])

    return lambda *numbers: function(*nested(form, iter(numbers)))


def plain(x: Any) -> Any:
    """Nested tuples with the values of symbolic numbers, without a guard: for what is no decision."""
    return tuple(map(plain, x)) if is_tuple(x) else value_of(x)


def settled(x: Any) -> Any:
    """The value, also of a symbolic number; from now on it is this one alone."""
    return x.settled() if type(x) is SymNumber else x


def without_tokens(text: str) -> str:
    """What is said of symbolic numbers, for people: each is called ``n``."""
    return re.sub(re.escape(TOKEN) + r"\d+=[\w.+-]+", "n", text) if TOKEN in text else text


greatest, smallest = lifted(max), lifted(min)
"""``max`` and ``min`` that ask nothing."""


def similar(x: Any) -> Any:
    """The integer; of a symbolic one, what its value is now, for all that lie between the same powers of two."""
    if type(x) is SymNumber:
        x.env.asking(True, x.env.ask, "==", x.bit_length(), x.value.bit_length())
        return x.value
    return x
