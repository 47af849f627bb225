"""``@jitgrad.kernel``: a Python function of whole arrays as an operation on tensors.

Owns: the decorator, ``Kernel``, its parameters and rules, its errors.
Must not know: LLVM, how Numba is called (``array_source``), the derivative's rule (``kernel_gradient``).
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.codegen.routines.routine import RoutineCall, RoutineParam, run
from jitgrad.config import config
from jitgrad.door import door
from jitgrad.dtypes import float64, from_numpy_dtype
from jitgrad.elementwise.kernel_code import KernelCode, kernel_code
from jitgrad.elementwise.kernel_gradient import Derivative, no_derivative
from jitgrad.elementwise.kernel_rules import ArraySpec, given_units, result_specs
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import beside, call
from jitgrad.ops.table import Op, Vjp
from jitgrad.tensor_base import TensorBase

__all__ = ["Kernel", "kernel"]

_NUMBERS = {float: "float", "float": "float", int: "int", "int": "int", bool: "bool", "bool": "bool"}


class Kernel:
    """A function of whole arrays, applied to tensors; made by ``jitgrad.kernel``.

    Attributes:
        function: the Python function.
    """

    def __init__(
        self, function: Callable[..., Any], results: Callable[..., Any] | None, units: Callable[..., Any] | None,
        debug: bool | None,
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, function)
        self._compiled, self.function = function, getattr(function, "py_func", function)
        self.title = self.function.__name__
        self._results, self._units, self._debug = results, units, debug
        names, kinds = _parameters(self.title, self.function, units is not None)
        count = _count_of(self.title, names, results)
        self.names, self.kinds, self.result_names = names[:count], kinds[:count], names[count:]
        self._check()
        parameters = list(inspect.signature(self.function).parameters.values())[units is not None :][:count]
        self._signature = inspect.Signature(parameters)
        self._calls: dict[Any, RoutineCall] = {}
        self._codes: dict[Any, KernelCode] = {}
        self._op = self._operation(Vjp(no_derivative(self.title)))

    def _check(self) -> None:
        wrong = [n for n, kind in zip(self.result_names, self._kinds_of_results(), strict=True) if kind != "array"]
        if wrong:
            raise TypeError(f"{self.title}(): the result {wrong[0]!r} is an array, and not annotated as a number")
        if "array" not in self.kinds:
            raise TypeError(f"{self.title}(): a kernel takes at least one array")

    def _kinds_of_results(self) -> list[str]:
        parameters = inspect.signature(self.function).parameters
        return [_NUMBERS.get(parameters[n].annotation, "array") for n in self.result_names]

    def __repr__(self) -> str:
        return f"<kernel {self.title}({', '.join(self.names)}) -> {', '.join(self.result_names)}>"

    def __reduce__(self) -> str:
        """Pickled, and copied, as functions are: by name."""
        return self.__qualname__  # type: ignore[attr-defined]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the function to tensors, which arrive as row-major arrays.

        Args:
            args: tensors for arrays, of bool, an integer dtype, float32 or float64; numbers or 0-d tensors for
                ``float`` parameters; numbers for ``int`` and ``bool``.
            kwargs: the same by name.

        Returns:
            A tensor, or a tuple of them if there are several results.

        Raises:
            TypeError: an operand of another kind, or Numba cannot compile the function for these dtypes.
            Exception: what the function itself raises, and what its rules raise.
        """
        if kwargs or len(args) != len(self.names):
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        first = next((x for x, kind in zip(args, self.kinds, strict=True) if kind == "array"), None)
        tensors, numbers = [], []
        for x, kind, name in zip(args, self.kinds, self.names, strict=True):
            if kind in ("array", "float"):
                tensors.append(self._tensor(x, kind, name, first))
            else:
                numbers.append(self._number(x, kind, name))
        return door.apply(self._op, tensors, tuple(numbers))

    def _tensor(self, x: Any, kind: str, name: str, first: Any) -> Any:
        if isinstance(x, TensorBase):
            aval = x._aval
            if kind == "float":
                if aval.ndim or not aval.dtype.is_floating_point:
                    raise TypeError(
                        f"{self.title}(): parameter {name!r} is a float, got a tensor of {aval.dtype.name} with "
                        f"{aval.ndim} dimensions"
                    )
                return x if aval.dtype is float64 else call("_to_copy", x, float64)
            if aval.dtype.is_half or aval.dtype.is_complex:
                raise TypeError(
                    f"{self.title}(): parameter {name!r}: Numba has no arrays of {aval.dtype.name} here; convert the "
                    "tensor, by .float() or torch.view_as_real"
                )
            return x
        if kind == "float" and isinstance(x, int | float):
            place = beside(first._aval) if isinstance(first, TensorBase) else ()
            return call("full", float(x), (), float64, *place)
        expected = "Tensor" if kind == "array" else "a number or a 0-d tensor"
        raise TypeError(f"{self.title}(): parameter {name!r} must be {expected}, not {type(x).__name__}")

    def _number(self, x: Any, kind: str, name: str) -> int:
        try:
            if isinstance(x, TensorBase) or (kind == "bool") != isinstance(x, bool):
                raise TypeError
            return x if kind == "bool" else operator.index(x)
        except TypeError:
            article = "an int" if kind == "int" else f"a {kind}"
            raise TypeError(f"{self.title}(): parameter {name!r} is {article}, got {type(x).__name__}") from None

    # rules of the operation
    def _operation(self, vjp: Vjp) -> Op:
        def aval(avals: Sequence[Aval], numbers: tuple[int, ...]) -> Any:
            outs = tuple(make_aval(shape, dtype) for shape, dtype in self._call_for(avals, numbers).results)
            return outs if len(outs) > 1 else outs[0]

        def lower(b: Any, xs: Sequence[Any], numbers: tuple[int, ...]) -> Any:
            outs = b.routine(self._call_for(xs, numbers), xs)
            return outs if len(outs) > 1 else outs[0]

        lower.takes_short = True  # type: ignore[attr-defined]
        return Op(
            f"kernel {self.title}",
            aval,
            self._run,
            lower,
            (vjp,),
            num_inputs=-1,
            node_name=f"{self.title}Backward",
        )

    def _run(self, arrays: Sequence[Any], numbers: tuple[int, ...]) -> Any:
        found = self._call_for([ArraySpec(a.shape, from_numpy_dtype(a.dtype)) for a in arrays], numbers)
        arrays = [np.ascontiguousarray(a).reshape(a.shape) for a in arrays]
        outs = [np.empty(shape, dtype.np) for shape, dtype in found.results]
        status = run(found, arrays, outs)
        if status:
            raise next(c for c in self._codes.values() if c.routine is found.routine).exception(status)
        return outs if len(outs) > 1 else outs[0]

    def _call_for(self, operands: Sequence[Any], numbers: tuple[int, ...]) -> RoutineCall:
        """The call for operands like these, which have ``shape`` and ``dtype``; one object for equal ones."""
        key = (*[(tuple(x.shape), x.dtype) for x in operands], numbers, self._is_checked())
        found = self._calls.get(key)
        return found if found is not None else self._calls.setdefault(key, self._new_call(operands, numbers))

    def _is_checked(self) -> bool:
        return config.check_hits if self._debug is None else self._debug

    def _new_call(self, operands: Sequence[Any], numbers: tuple[int, ...]) -> RoutineCall:
        tensors, values = iter(operands), iter(numbers)
        specs = [
            ArraySpec(tuple((x := next(tensors)).shape), x.dtype) if kind in ("array", "float") else next(values)
            for kind in self.kinds
        ]
        results = result_specs(self.title, self._results, specs, self.result_names)
        units = 1 if self._units is None else given_units(self.title, self._units, specs)
        params = [RoutineParam("unit", "i64")] if self._units is not None else []
        for kind, spec in zip(self.kinds, specs, strict=True):
            params.append(_param(spec) if kind == "array" else RoutineParam(kind, ""))
        params += map(_param, results)
        code = self._code_for(tuple(params))
        arrays = [*(s for s in specs if isinstance(s, ArraySpec)), *results]
        return RoutineCall(
            code.routine, [a.shape for a in arrays], [a.dtype for a in arrays], numbers, len(operands), units
        )

    def _code_for(self, params: tuple[RoutineParam, ...]) -> KernelCode:
        key = (params, self._is_checked())
        found = self._codes.get(key)
        if found is None:
            found = self._codes[key] = kernel_code(self._compiled, params, len(self.result_names), key[1])
        return found

    def derivative(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Use ``function`` as the derivative: a decorator.

        Args:
            function: ordinary code on tensors, or another ``Kernel``. It asks by the names of its parameters for what
                it needs: ``grad`` (of the only result; ``grad_<result>`` of one of several), operands, results. It
                returns one gradient per array or ``float`` operand, None where there is none, or only those of the
                floating ones. Tensor code can be differentiated again.

        Raises:
            TypeError: a parameter that is none of these.
        """
        rule = Derivative(self.title, self.names, self.kinds, self.result_names, function)
        self._op = self._operation(Vjp(rule, rule.saves))
        return function


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    results: Callable[..., Any] | None = None,
    units: Callable[..., Any] | None = None,
    debug: bool | None = None,
) -> Any:
    """A Python function of whole arrays as an operation on tensors.

    Numba compiles the function (``pip install 'jitgrad[numba]'``), once for each combination of dtypes and numbers of
    dimensions. Compiled steps call it inside their program, with no Python between it and its neighbours.

    Args:
        function: of operands, then results. Operands are arrays, or numbers where they are annotated as ``float``
            (which may change from call to call, and may have a gradient), ``int`` or ``bool`` (each value is a graph of
            its own, and may decide shapes). Results are arrays that the function fills; what they hold at first is
            anything. Arrays are row-major. It returns nothing.
        results: takes the operands and tells the results, a list if there are several: an operand (the same shape and
            dtype), a shape (with the dtype of the first floating array), or ``(shape, dtype)``. Arrays come with
            ``shape``, ``dtype``, ``ndim`` and ``numel()``. Without it, the only result is like the first array.
        units: takes the operands and tells how many independent units of work there are. The function is called once
            for each, with its number as the first argument, by several threads. Units write different elements, so
            results are the same bits for any number of threads.
        debug: look at every index: one out of range is an IndexError that names the line. None: as ``JITGRAD_CHECK=1``.

    Returns:
        A ``Kernel``; without ``function``, a decorator.

    Raises:
        TypeError: parameters that do not fit the rules.

    Example::

        @jitgrad.kernel(units=lambda x, decay: x.shape[0])
        def smooth(row, x, decay: float, out):
            state = 0.0
            for i in range(x.shape[1]):
                state = decay * state + (1 - decay) * x[row, i]
                out[row, i] = state
    """
    if function is None:
        return functools.partial(kernel, results=results, units=units, debug=debug)
    return Kernel(function, results, units, debug)


def _parameters(title: str, function: Any, has_units: bool) -> tuple[list[str], list[str]]:
    """Names and kinds, without the number of the unit."""
    parameters = list(inspect.signature(function).parameters.values())
    for p in parameters:
        if p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            raise TypeError(f"{title}(): {p} is no parameter that a kernel can take")
    own = parameters[has_units:]
    return [p.name for p in own], [_NUMBERS.get(p.annotation, "array") for p in own]


def _count_of(title: str, names: list[str], results: Callable[..., Any] | None) -> int:
    """How many of the parameters are operands: as many as the rule of the results takes."""
    count = len(names) - 1
    if results is not None:
        parameters = inspect.signature(results).parameters.values()
        if any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
            raise TypeError(f"{title}(): results= takes the kernel's operands, one by one")
        count = len(parameters)
    if not 1 <= count < len(names):
        raise TypeError(
            f"{title}(): of its {len(names)} parameters ({', '.join(names)}) {count} are operands; at least one "
            "operand and one result are expected"
        )
    return count


def _param(spec: Any) -> RoutineParam:
    return RoutineParam("array", spec.dtype.name, len(spec.shape))
