"""LLVM IR text to ``ssa.Routine``.

Owns: the subset of LLVM's language that a cleaned function consists of; refusals of everything else.
Must not know: where the text came from, what becomes of the function.
In: the text of a module with one function ``@jitgrad_scalar`` that ends in ``call void @jitgrad_result(...)``.
Out: a ``Routine``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator

from jitgrad.codegen.scalars.ssa import CASTS, INTRINSICS, MATHS, Block, NotScalar, Routine, Term

__all__ = ["ENTRY", "RESULT", "read"]

ENTRY, RESULT = "jitgrad_scalar", "jitgrad_result"

_NAME = r'%(?:"[^"]*"|[-\w.$]+)'
_BINARY = frozenset("fadd fsub fmul fdiv frem add sub mul sdiv srem udiv urem shl lshr ashr and or xor".split())
_FLAGS = re.compile(
    r"\b(nuw|nsw|exact|disjoint|nneg|samesign|fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|inbounds|noundef"
    r"|tail|musttail|notail)\b ?"
)
_OTHER_NAMES = {"numba_gamma": "tgamma", "nearbyint": "rint", "roundeven": "rint", "fmin": "minnum", "fmax": "maxnum",
                "gamma": "lgamma"}  # fmt: skip
_ALLOCATES = re.compile(r"NRT_|meminfo")
_TYPES = frozenset({"double", "float", "i1", "i8", "i16", "i32", "i64", "i128"})


def read(text: str) -> Routine:
    """The function ``@jitgrad_scalar`` of a module.

    Raises:
        NotScalar: it is not a function of scalars without effects.
    """
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        head = re.search(rf"^define [^\n]*@{ENTRY}\(([^\n]*?)\)[^\n]*\{{\n(.*?)^\}}", text, re.M | re.S)
        assert head is not None, text
        self.params, self.body = head[1], head[2]
        self.values: dict[str, Term] = {}
        self.blocks: dict[str, Block] = {}
        self.later: list[Callable[[], None]] = []
        self.results: list[Term] = []

    def read(self) -> Routine:
        params = []
        for number, param in enumerate(filter(None, self.params.split(", "))):
            kind, name = param.split()[0], param.split()[-1]
            params.append(Term("param", kind, (), number))
            self.values[name] = params[-1]
        ordered = []
        for label, lines in self._split():
            block = self._block(label)
            ordered.append(block)
            for line in lines:
                self._line(block, line)
        for fill in self.later:
            fill()
        function = Routine(params, ordered, self.results)
        function.blocks = function.reverse_postorder()
        return function

    def _split(self) -> Iterator[tuple[str, list[str]]]:
        label, lines = "%entry", list[str]()
        for raw in self.body.splitlines():
            line = raw.split(";")[0].rstrip() if '"' not in raw else raw.rstrip()
            named = re.match(r'^("[^"]*"|[-\w.$]+):', line)
            if named:
                if lines:
                    yield label, lines
                label, lines = "%" + named[1], []
            elif line.strip():
                lines.append(re.sub(r", ?![\w.]+ ![\w]+", "", line.strip()))
        yield label, lines

    def _block(self, name: str) -> Block:
        return self.blocks.setdefault(name, Block(name))

    # operands
    def _value(self, kind: str, word: str) -> Term:
        """A register that is defined by now, or a literal."""
        word = word.strip()
        if word.startswith("%"):
            return self.values[word]
        if kind not in _TYPES:
            raise NotScalar(f"uses a value of LLVM's type {kind}", word)
        return Term("const", kind, (), _number(kind, word))

    def _operands(self, node: Term, typed: list[tuple[str, str]]) -> Term:
        """Fill a node's operands at the end: a block may use values of a block that is printed after it."""
        self.later.append(lambda: node.args.extend(self._value(kind, word) for kind, word in typed))
        return node

    # lines
    def _line(self, block: Block, line: str) -> None:
        line = _FLAGS.sub("", line)
        if " = " in line and line.startswith("%"):
            name, text = line.split(" = ", 1)
            node = self._instruction(text.strip())
            self.values[name] = node
            if node.op not in ("const", "param"):
                block.nodes.append(node)
        elif line.startswith("br "):
            self._branch(block, line)
        elif line.startswith("call ") and f"@{RESULT}(" in line:
            pairs = _typed(line[line.index(f"@{RESULT}(") + len(RESULT) + 2 : line.rindex(")")])
            self.later.append(lambda: self._finish(pairs))
        elif line.startswith("ret void") or "@llvm.assume" in line or "@llvm.lifetime" in line:
            return
        elif line == "unreachable":
            raise NotScalar("may end without a result")
        else:
            self._refuse(line)

    def _finish(self, pairs: list[tuple[str, str]]) -> None:
        status, *results = (self._value(kind, word) for kind, word in pairs)
        if status.op != "const" or status.extra != 0:
            reason = "may raise an exception, which a kernel cannot do"
            raise self._culprit() or NotScalar(reason, "ptr @.const.picklebuf")
        self.results = results

    def _branch(self, block: Block, line: str) -> None:
        found = re.match(rf"br i1 (\S+), label ({_NAME}), label ({_NAME})", line)
        if found is None:
            block.targets = [self._block(line.removeprefix("br label ").strip())]
            return
        block.targets = [self._block(found[2]), self._block(found[3])]
        word = found[1]
        self.later.append(lambda: setattr(block, "condition", self._value("i1", word)))

    def _instruction(self, text: str) -> Term:
        op, _, rest = text.partition(" ")
        if op in _BINARY:
            kind, operands = rest.split(" ", 1)
            x, y = _commas(operands)
            return self._operands(Term(op, _known(kind, text), ()), [(kind, x), (kind, y)])
        if op in ("fcmp", "icmp"):
            predicate, kind, operands = rest.split(" ", 2)
            x, y = _commas(operands)
            _known(kind, text)
            return self._operands(Term(op, "i1", (), predicate), [(kind, x), (kind, y)])
        if op in CASTS or op == "bitcast":
            source, target = rest.rsplit(" to ", 1)
            kind, word = source.split(" ", 1)
            return self._operands(Term(op, _known(target, text)), [(_known(kind, text), word)])
        if op in ("fneg", "freeze"):
            kind, word = rest.split(" ", 1)
            return self._operands(Term(op, _known(kind, text)), [(kind, word)])
        if op == "select":
            chosen = _typed(rest)
            return self._operands(Term(op, _known(chosen[1][0], text)), chosen)
        if op == "phi":
            return self._phi(rest, text)
        if op == "call":
            return self._call(text)
        return self._refuse(text)

    def _culprit(self) -> NotScalar | None:
        """What a call says about the function is more than what its memory or its exceptions say."""
        for symbol in _symbols(self.body):
            if not symbol.startswith("llvm.") and _plain_name(symbol) not in MATHS and symbol != RESULT:
                return NotScalar(_why_no_call(symbol), symbol)
        return None

    def _phi(self, rest: str, text: str) -> Term:
        kind, _, incoming = rest.partition(" ")
        pairs = re.findall(rf"\[ ([^\]]+?), ({_NAME}) \]", incoming)
        node = Term("phi", _known(kind, text), (), [self._block(label) for _, label in pairs])
        return self._operands(node, [(kind, word) for word, _ in pairs])

    def _call(self, text: str) -> Term:
        found = re.match(r'call (?:[a-z]+ )*?(\S+) @("?[^"(]+"?)\((.*)\)', text)
        if found is None:
            return self._refuse(text)
        kind, symbol, operands = found[1], found[2].strip('"'), _typed(found[3])
        name = _plain_name(symbol)
        if kind == "float" and name.endswith("f") and name[:-1] in MATHS:
            name = name[:-1]
        if name == "abs" and kind.startswith("i"):
            operands = operands[:1]
        if name not in MATHS and name not in INTRINSICS:
            raise NotScalar(_why_no_call(symbol), symbol)
        return self._operands(Term("call", _known(kind, text), (), name), operands)

    def _refuse(self, text: str) -> Term:
        if text.startswith(("call", "invoke")):
            symbol = re.search(r'@"?([^"(]+)', text)
            raise NotScalar(_why_no_call(symbol[1] if symbol else "?"), symbol[1] if symbol else "")
        if re.match(r"(%\S+ = )?(load|store|getelementptr|alloca|extractvalue|insertvalue|ptrtoint|inttoptr)", text):
            raise self._culprit() or NotScalar(
                "uses memory: arrays and other objects cannot live in a kernel", "alloca"
            )
        raise NotScalar(f"does what has no place in a function of scalars ({text.split(' ')[0]})")


def _plain_name(symbol: str) -> str:
    """``sin`` for ``llvm.sin.f64``."""
    name = symbol.removeprefix("jg.").removeprefix("llvm.")
    name = re.sub(r"(\.(f64|f32|i64|i32|i8|i1))+$", "", name) if symbol != name else name
    return _OTHER_NAMES.get(name, name)


def _symbols(body: str) -> list[str]:
    return [found.strip('"') for found in re.findall(r'call [^@\n]*@("[^"]+"|[^\s("]+)\(', body)]


def _known(kind: str, text: str) -> str:
    if kind not in _TYPES:
        raise NotScalar(f"uses a value of LLVM's type {kind}, as in: {text}")
    return kind


def _why_no_call(symbol: str) -> str:
    if _ALLOCATES.search(symbol):
        return "allocates memory, which a kernel cannot do: lists, arrays and strings are out"
    if symbol.startswith(("Py", "numba_unpickle", "numba_gil", "_Py")):
        return "uses Python objects, which a kernel cannot do"
    if symbol.startswith(("_Z", ".numba.unresolved")):
        return "is recursive: a kernel has no stack for that; write a loop"
    return f"calls {symbol}, of which neither vector code nor the derivative is known"


def _commas(text: str) -> list[str]:
    """Operands of one type, as in ``%x, 1.0``."""
    return [part.strip() for part in text.split(", ")[:2]]


def _typed(text: str) -> list[tuple[str, str]]:
    """``double %x, i64 3`` as (type, operand) pairs; attributes of the operands are dropped."""
    pairs = []
    for part in filter(None, text.split(", ")):
        words = part.split()
        pairs.append((words[0], words[-1]))
    return pairs


def _number(kind: str, word: str) -> float | int:
    if word in ("undef", "poison", "zeroinitializer"):
        return 0.0 if kind in ("double", "float") else 0
    if word in ("true", "false"):
        return int(word == "true")
    if kind not in ("double", "float"):
        return int(word)
    if word.startswith("0x"):
        return float(struct.unpack("<d", struct.pack("<Q", int(word, 16)))[0])
    return float(word)
