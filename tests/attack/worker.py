"""Runs drawn calls, and says before each which it is: the process may end in its middle.

Owns: the forms in which a call runs, and what is an answer.
Must not know: which calls there are, what becomes of a process that died.

An answer is a value, or an error that somebody wrote a message for: one that a ``raise`` made, of a public class. An
IndexError out of the middle of a function, NumPy's words, or a KeyError are none. All memory lies between pages that
nobody may touch, see ``tests/guard/pages.py``.
"""

from __future__ import annotations

import dis
import faulthandler
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import jitgrad as jg
from tests.attack.draws import Attack, draw
from tests.eager_bounds import eager_kernels_from
from tests.guard.pages import AFTER, BEFORE, GuardedMemory

__all__ = ["Inside", "check_meant", "run_attack"]

PUBLIC = (RuntimeError, ValueError, IndexError, TypeError, MemoryError, ZeroDivisionError, OverflowError, BufferError)
PRIVATE = (RecursionError, UnboundLocalError)
"""Classes of those that nobody means to raise."""

BUDGET_S = 60
NOT_COMPARED = (
    # of random numbers; memory that nobody has written; undefined up to signs or an order
    "rand normal_ uniform bernoulli multinomial poisson dropout empty exponential cauchy geometric log_normal rrelu "
    "gumbel binomial new svd eig qr lobpcg pca geqrf lstsq pinv cond resize inverse .inv det cholesky solve lu rank "
    "fractional storage ldl set_ householder orgqr ormqr tensorinv matrix_power logdet sort topk mode kthvalue median"
).split()


class Inside(AssertionError):
    """No answer: what came out of the middle of the library."""


def _evaluated(attack: Attack) -> tuple[list[Any], dict[str, Any]]:
    names = {"jg": jg}
    return [eval(text, names) for text in attack.args], {key: eval(text, names) for key, text in attack.kwargs}


def _function(attack: Attack) -> Callable[..., Any]:
    found: Callable[..., Any] = eval(attack.name, {"jg": jg})
    return found


def _leaves(x: Any) -> list[Any]:
    items = x.values() if isinstance(x, dict) else x if isinstance(x, list | tuple) else None
    return [x] if items is None else [y for item in items for y in _leaves(item)]


def _tensors(x: Any) -> list[Any]:
    return [y for y in _leaves(x) if isinstance(y, jg.Tensor)]


def _step(function: Callable[..., Any]) -> Callable[..., Any]:
    def step(args: list[Any], kwargs: dict[str, Any]) -> Any:
        results = function(*args, **kwargs)
        losses = [x.abs().sum() for x in _tensors([results]) if x.requires_grad]
        if losses:
            sum(losses[1:], losses[0]).backward()
        return results

    return step


def _answer(step: Callable[..., Any], attack: Attack) -> tuple[str, list[Any]]:
    """(the class of the error or nothing, what is seen afterwards). Raises Inside."""
    jg.manual_seed(0)
    try:
        args, kwargs = _evaluated(attack)
        results = step(args, kwargs)
        seen = [*_tensors([results]), *_tensors([args, kwargs])]
        grads = [x.grad for x in _tensors([args, kwargs]) if x.is_leaf and x.grad is not None]
        plain = [x for x in _leaves(results) if isinstance(x, int | float | bool | complex | str)]
        return "", [*plain, *(_values(x) for x in (*seen, *grads))]
    except Exception as error:
        if not (attack.is_strange and isinstance(error, AttributeError | TypeError)):
            check_meant(error)
        return _kind(error), []


def _kind(error: BaseException) -> str:
    """The public class that an error is told by; Python says that an argument is of no good kind in two ways."""
    if isinstance(error, AttributeError | TypeError):
        return "TypeError"
    return next((kind for kind in PUBLIC if isinstance(error, kind)), type(error)).__name__


def _values(x: Any) -> Any:
    x = x.detach()
    if x.is_sparse:
        x = x.to_dense()
    if x.numel() > 1 << 22:
        return tuple(x.shape)
    return x.float().numpy().copy() if x.dtype == jg.bfloat16 else x.resolve_conj().numpy().copy()


def check_meant(error: BaseException, is_strict: bool = False) -> None:
    """Whether somebody wrote a message for an error, for a call that PyTorch refuses, too.

    Args:
        is_strict: PyTorch does not refuse the call: words of Python's own will not do.

    Raises:
        Inside: nobody did.
    """
    frame = error.__traceback__
    while frame and frame.tb_next:
        frame = frame.tb_next
    is_ours = frame is not None and "/jitgrad/" in frame.tb_frame.f_code.co_filename
    if (_is_pythons(error) and not (is_strict and is_ours)) or _is_raised_assertion(error):
        return
    if not isinstance(error, PUBLIC) or isinstance(error, PRIVATE) or not frame:
        raise Inside(_told(error)) from error
    code, at = frame.tb_frame.f_code, frame.tb_lasti
    if "/jitgrad/" in code.co_filename and dis.opname[code.co_code[at]] in ("RAISE_VARARGS", "RERAISE"):
        return
    if f"{os.sep}tests{os.sep}attack" in code.co_filename and isinstance(error, TypeError | RuntimeError | MemoryError):
        return  # ``f(*args)`` with arguments that the function does not have; native code's own errors
    raise Inside(_told(error)) from error


def _is_raised_assertion(error: BaseException) -> bool:
    """Whether an AssertionError is one that PyTorch's modules raise by name; an ``assert`` is never meant for users."""
    lines = [where.line or "" for where in traceback.extract_tb(error.__traceback__)[-1:]]
    return isinstance(error, AssertionError) and lines[-1:] != [] and lines[-1].startswith("raise AssertionError")


_OF_KINDS = re.compile(
    "positional argument|keyword argument|multiple values|unsupported operand|not iterable|has no len|must be a string "
    "or a real number|not supported between|cannot be interpreted as|object cannot be converted|unhashable type|"
    "is not callable"
)
"""What Python says of an argument of a wrong kind."""


def _is_pythons(error: BaseException) -> bool:
    """Whether Python has found an argument of a wrong kind, as it does in PyTorch's functions written in Python."""
    if isinstance(error, AttributeError):
        return isinstance(error.obj, int | float | complex | str | list | tuple | dict)
    return isinstance(error, TypeError) and _OF_KINDS.search(str(error)) is not None


def _told(error: BaseException) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{where.filename.partition('/jitgrad/')[2] or where.filename}:{where.lineno}"
    return f"{type(error).__name__}: {error} [{place}, {where.name}]"


def run_attack(attack: Attack, memory: GuardedMemory) -> str:
    """Run a call in all forms; the class of the error that is its answer, or nothing.

    Raises:
        Inside: no answer, or another one in another form.
    """
    step = _step(_function(attack))
    memory.side = AFTER
    with eager_kernels_from(-1):
        want, values = _answer(step, attack)
    compiled = jg.compile(step)
    for form, function, least, side in (
        ("eager kernels", step, 1, AFTER),
        ("cold", compiled, -1, AFTER),
        ("warm", compiled, -1, BEFORE),
        ("hit", compiled, -1, AFTER),
    ):
        memory.side = side
        with eager_kernels_from(least):
            got, found = _answer(function, attack)
        if got != want:
            raise Inside(f"{form}: {got or 'no error'} instead of {want or 'no error'}")
        writes = attack.name.endswith("_") or "inplace=" in str(attack)
        is_overlapping = writes and "as_strided" in str(attack)  # PyTorch leaves open what it writes
        if not is_overlapping and not any(part in str(attack) for part in NOT_COMPARED):
            _compare(form, found, values)
    if memory.spoiled:
        lines, memory.spoiled = memory.spoiled, []
        raise Inside("; ".join(lines))
    return want


def _compare(form: str, found: list[Any], values: list[Any]) -> None:
    if len(found) != len(values):
        raise Inside(f"{form}: {len(found)} results instead of {len(values)}")
    for x, y in zip(found, values, strict=True):
        if isinstance(y, np.ndarray):
            with np.errstate(all="ignore"):
                if x.shape != y.shape or x.dtype != y.dtype or not _is_close(x, y):
                    raise Inside(f"{form}: {x} instead of {y}")
        elif x != y and x == x:
            raise Inside(f"{form}: {x} instead of {y}")


def _is_close(x: Any, y: Any) -> bool:
    if y.dtype.kind not in "fc":
        return bool((x == y).all())
    tolerance = 3e-2 if y.itemsize <= 2 else 1e-3
    finite = np.abs(y[np.isfinite(y)])
    scale = min(1.0 + (float(finite.max()) if finite.size else 0.0), 1e300)
    return bool(np.allclose(x, y, rtol=tolerance, atol=tolerance * scale, equal_nan=True))


def main(seeds: list[int]) -> None:
    """Run the calls of these numbers, a line of output before and after each."""
    memory = GuardedMemory()
    warnings.simplefilter("ignore")
    with memory.for_storages(), memory.for_numpy():
        for seed in seeds:
            attack = draw(seed)
            print(f"case {seed} {attack}", flush=True)
            faulthandler.dump_traceback_later(BUDGET_S, exit=True)
            try:
                error = run_attack(attack, memory)
                print(f"refused {error}" if error else "survived", flush=True)
            except Inside as inside:
                print("inside", " ".join(str(inside).split())[:400], flush=True)
            faulthandler.cancel_dump_traceback_later()
        os._exit(0)  # arrays that are left belong to an allocator in Python


if __name__ == "__main__":
    main(list(map(int, sys.stdin.read().split())))
