"""``@jitgrad.vectorize``: a Python function of scalars as an operation on tensors.

Owns: the decorator, ``VectorizedFunction``, its errors.
Must not know: LLVM, how Numba is called (``numba_source``), tensors' insides.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.codegen.llvm.object_cache import open_cache
from jitgrad.codegen.scalars.family import ScalarFunction, scalar_function
from jitgrad.codegen.scalars.numba_abi import function_from_numba
from jitgrad.codegen.scalars.printer import print_scalar
from jitgrad.codegen.scalars.ssa import NotScalar
from jitgrad.config import config
from jitgrad.door import door
from jitgrad.elementwise import numba_source
from jitgrad.elementwise.evaluation import Family
from jitgrad.elementwise.source_key import source_key
from jitgrad.events import bump
from jitgrad.ops.pointwise.elementwise import MAX_OPERANDS, op_name
from jitgrad.ops.table import OPS
from jitgrad.tensor_base import TensorBase

__all__ = ["VectorizedFunction", "vectorize"]

_KINDS = {int: "int", "int": "int", bool: "bool", "bool": "bool"}
_BY_HAND = "If it has a derivative all the same: @jitgrad.vectorize(derivative=False), then @{name}.derivative."
_VERSION = "1"  # of what the cache keeps of a function


class VectorizedFunction:
    """A function of scalars, applied to tensors element by element; made by ``jitgrad.vectorize``.

    Attributes:
        function: the Python function.
    """

    def __init__(self, function: Callable[..., Any], is_differentiable: bool) -> None:
        functools.update_wrapper(self, function)
        self.function = getattr(function, "py_func", function)
        self._signature = inspect.signature(self.function)
        names = list(self._signature.parameters)
        title = self.function.__name__
        if not 1 <= len(names) <= MAX_OPERANDS:
            raise TypeError(
                f"{title}(): a function of 1 to {MAX_OPERANDS} scalars is expected, this takes {len(names)}"
            )
        kinds = [_kind(title, p) for p in self._signature.parameters.values()]
        code = _code(function, kinds, is_differentiable)
        self._family = Family(title, names, kinds, code)
        self._value = self._family.value()
        self._op = OPS[op_name(len(names))]

    def __repr__(self) -> str:
        return f"<vectorized function {self.__name__}{self._signature}>"  # type: ignore[attr-defined]

    def __reduce__(self) -> str:
        """Pickled, and copied, as functions are: by name."""
        return self.__qualname__  # type: ignore[attr-defined]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the function to tensors and numbers, which broadcast together.

        Returns:
            A tensor of the operands' floating dtype, or a tuple of them if the function returns one.

        Raises:
            TypeError: an operand is neither a tensor nor a number, or not of its parameter's kind.
            RuntimeError: shapes do not broadcast.
        """
        if kwargs or len(args) != len(self._family.names):
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        for x, name in zip(args, self._family.names, strict=True):
            if not isinstance(x, TensorBase | int | float):
                found = type(x).__name__
                raise TypeError(f"{self._family.title}(): parameter {name!r} must be Tensor or number, not {found}")
        return door.apply(self._op, *args, self._value)

    def derivative(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Use ``function`` as the derivative: a decorator, for what the compiler cannot differentiate.

        It takes the same parameters, and returns the derivative by each floating parameter: one number, or a tuple;
        of several results first those of the first one. It is compiled and can be differentiated as any other.

        Raises:
            TypeError: it takes other parameters, or returns another number of derivatives.
        """
        family = self._family
        title = f"the derivative of {family.title}"
        plain = getattr(function, "py_func", function)
        if len(inspect.signature(plain).parameters) != len(family.names):
            raise TypeError(f"{title} takes the same {len(family.names)} parameters as the function")
        code = _code(function, family.kinds, True)
        expected = family.function.results * family.kinds.count("float")
        if code.results != expected:
            raise TypeError(
                f"{title} returns {code.results} numbers; {expected} are expected: for each result one per floating "
                "parameter"
            )
        family.by_hand = code
        return function


def vectorize(function: Callable[..., Any] | None = None, *, derivative: bool = True) -> Any:
    """A Python function of scalars as an operation on tensors, with its derivatives.

    Numba compiles the function (``pip install 'jitgrad[numba]'``): ``if``, ``while``, ``for range``, local variables,
    ``math``, calls of functions that Numba compiled. It computes in float64, whatever the tensors' dtype, and its
    results are rounded to that. The compiler differentiates what it made of it, as often as it is asked to.

    Args:
        function: of 1 to 8 parameters: floats, unless they are annotated as ``int`` or ``bool``. It returns a number or
            a tuple of numbers.
        derivative: whether the compiler differentiates it. If False, ``@f.derivative`` gives the derivative.

    Returns:
        A ``VectorizedFunction``; without ``function``, a decorator.

    Raises:
        ImportError: Numba is not installed.
        TypeError: Numba cannot type the function, it does what has no place in a kernel, or it cannot be
            differentiated; the message names the line.

    Example::

        @jitgrad.vectorize
        def kepler(eccentricity, anomaly):
            angle = anomaly
            for _ in range(50):
                step = (angle - eccentricity * math.sin(angle) - anomaly) / (1 - eccentricity * math.cos(angle))
                angle -= step
                if abs(step) < 1e-13:
                    break
            return angle
    """
    if function is None:
        return functools.partial(vectorize, derivative=derivative)
    return VectorizedFunction(function, derivative)


def _kind(title: str, parameter: inspect.Parameter) -> str:
    if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
        raise TypeError(f"{title}(): {parameter} is no parameter that a kernel can take")
    return _KINDS.get(parameter.annotation, "float")


def _code(function: Callable[..., Any], kinds: Sequence[str], is_differentiable: bool) -> ScalarFunction:
    """The function's code: from the cache, else by Numba."""
    name = function.__name__
    key = source_key(function, [*kinds, str(is_differentiable), _VERSION])
    cache = open_cache(None if config.cache_dir is None else os.fspath(config.cache_dir), config.cache_limit_nbytes)
    stored = cache.load(key) if cache and key else None
    if stored is not None:
        bump("cache_reads")
        return scalar_function(name, stored.decode())
    code = _compile(function, kinds, is_differentiable)
    if cache and key and cache.store(key, code.text.encode()):
        bump("cache_writes")
    return code


def _compile(function: Callable[..., Any], kinds: Sequence[str], is_differentiable: bool) -> ScalarFunction:
    name, plain = function.__name__, getattr(function, "py_func", function)
    try:
        made = numba_source.compile_scalar(function, kinds)
    except numba_source.NotNumbers as error:
        raise TypeError(f"{name}() {error}{_place(function, None)}") from None
    except Exception as error:
        if isinstance(error, ImportError) or not numba_source.typing_error(error):
            raise
        why = "is recursive, or uses its own name" if name in plain.__code__.co_names else "cannot be compiled"
        raise TypeError(f"{name}() {why}{_place(function, None)}:\n{error}") from error
    try:
        code = function_from_numba(made.text, made.symbol, kinds, made.result_type, made.results, made.is_tuple)
        found = scalar_function(name, print_scalar(code))
        found.function(tuple((n, ()) for n in range(found.results)))
    except NotScalar as error:
        raise _refused(function, kinds, error, "") from None
    floats = [i for i, kind in enumerate(kinds) if kind == "float"]
    if is_differentiable and floats:
        try:
            found.function(tuple((n, (i,)) for n in range(found.results) for i in floats))
        except NotScalar as error:
            raise _refused(function, kinds, error, " " + _BY_HAND.format(name=name)) from None
    return found


def _refused(function: Callable[..., Any], kinds: Sequence[str], error: NotScalar, way_out: str) -> TypeError:
    line = numba_source.line_of(function, kinds, error.needle) if error.needle else None
    return TypeError(f"{function.__name__}() {error}{_place(function, line)}.{way_out}")


def _place(function: Callable[..., Any], line: int | None) -> str:
    code = getattr(function, "py_func", function).__code__
    return f" ({code.co_filename}:{line or code.co_firstlineno})"
