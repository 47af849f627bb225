"""A function of scalars and its derivatives of any order.

Owns: ``ScalarFunction``: which components there are, and the code that computes several of them in one evaluation.
Must not know: Numba, kernels, tensors.
In: the text of a cleaned function. Out: ``Routine``s, lane code.

A component is (result, inputs): ``(0, ())`` is the first result, ``(0, (1,))`` its derivative by the second input,
``(0, (0, 1))`` the second derivative by the first two. Inputs are in ascending order: derivatives commute.
"""

from __future__ import annotations

import functools
import hashlib
import re
import weakref

from jitgrad.codegen.llvm.text import Isa
from jitgrad.codegen.scalars.clean import cleaned
from jitgrad.codegen.scalars.differentiate import differentiated
from jitgrad.codegen.scalars.lanes import PER_LANE, print_lanes
from jitgrad.codegen.scalars.loops import Loop, is_counted, nested
from jitgrad.codegen.scalars.printer import print_scalar
from jitgrad.codegen.scalars.reader import read
from jitgrad.codegen.scalars.ssa import Block, Routine

__all__ = ["Component", "ScalarFunction", "lanes_text", "scalar_function"]

Component = tuple[int, tuple[int, ...]]


class ScalarFunction:
    """A function of scalars, with its derivatives.

    Attributes:
        name: the user's function, for logs and kernels' names.
        text: its LLVM IR, as ``printer`` prints it: all that the code depends on.
        digest: of ``text``; the same in every process.
        kinds: LLVM's type of each parameter.
        results: how many there are.
        may_not_end: whether some loop has no counter that ends it.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = re.sub(r"\W", "_", name)
        self.text = text
        self.digest = hashlib.blake2b(text.encode(), digest_size=10).hexdigest()
        base = read(text)
        self.kinds = tuple(p.type for p in base.params)
        self.results = len(base.results)
        self._loops = _loops(nested(base))
        self.may_not_end = not all(map(is_counted, self._loops))
        self._per_lane = any(n.op == "call" and n.extra in PER_LANE for b in base.blocks for n in b.nodes)
        self._known: dict[tuple[Component, ...], Routine] = {}

    def __repr__(self) -> str:
        return f"ScalarFunction({self.name}, {self.digest})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScalarFunction) and other.digest == self.digest and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.digest)

    def function(self, components: tuple[Component, ...]) -> Routine:
        """The function whose results are ``components``.

        Raises:
            NotScalar: it cannot be differentiated so often.
        """
        found = self._known.get(components)
        if found is None:
            found = self._known[components] = self._make(components)
        return found

    def _make(self, components: tuple[Component, ...]) -> Routine:
        if not any(inputs for _, inputs in components):
            function = read(self.text)
            function.results = [function.results[result] for result, _ in components]
            return read(cleaned(print_scalar(function)))
        lower = [(result, inputs[:-1]) for result, inputs in components if inputs]
        needed = tuple(sorted({*lower, *(c for c in components if not c[1])}))
        wanted = sorted({inputs[-1] for _, inputs in components if inputs})
        function = differentiated(self.function(needed), wanted)
        place: dict[Component, int] = {component: n for n, component in enumerate(needed)}
        for n, (result, inputs) in enumerate(needed):
            for k, i in enumerate(wanted):
                place.setdefault((result, (*inputs, i)), len(needed) + n * len(wanted) + k)
        function.results = [function.results[place[component]] for component in components]
        return read(cleaned(print_scalar(function)))

    def lanes(self, components: tuple[Component, ...], width: int, isa: Isa) -> tuple[str, str, str]:
        """The name, the declarations and the definition of the vector code; see Note [Lanes]."""
        key = hashlib.blake2b(repr(components).encode(), digest_size=4).hexdigest()
        name = f"scalars_{self.name}_{self.digest}_{key}_{width}"
        return (name, *print_lanes(self.function(components), name, width, isa))

    def describe(self, components: tuple[Component, ...]) -> str:
        """For ``explain``: what is computed in one evaluation, and by which kind of code."""
        parts = ", ".join(_component_text(component) for component in components)
        loops = len(self._loops)
        how = "vector code" if not loops else f"vector code, {loops} loop{'s' * (loops > 1)} until all lanes are done"
        lanes = ", some functions lane by lane" if self._per_lane else ""
        return f"{self.name}: {parts} in one evaluation; {how}{lanes}"


def _component_text(component: Component) -> str:
    result, inputs = component
    return f"result {result}" + "".join(f" by input {i}" for i in inputs)


def _loops(items: list[Block | Loop]) -> list[Loop]:
    found: list[Loop] = []
    for item in items:
        if isinstance(item, Loop):
            found += [item, *_loops(item.items)]
    return found


_ALL: weakref.WeakValueDictionary[tuple[str, str], ScalarFunction] = weakref.WeakValueDictionary()


def scalar_function(name: str, text: str) -> ScalarFunction:
    """The function of this text; one object as long as somebody holds it."""
    found = _ALL.get((name, text))
    if found is None:
        found = _ALL[name, text] = ScalarFunction(name, text)
    return found


@functools.lru_cache(maxsize=256)
def lanes_text(
    function: ScalarFunction, components: tuple[Component, ...], width: int, isa: Isa
) -> tuple[str, str, str]:
    """``ScalarFunction.lanes``, remembered."""
    return function.lanes(components, width, isa)
