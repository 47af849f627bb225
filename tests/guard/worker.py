"""Runs cases on guarded memory, and says before each which it is: the process may end in its middle.

Owns: the forms in which an operation runs, and what must be the same in all of them.
Must not know: which cases there are, what becomes of a process that died.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import jitgrad
from jitgrad.door import door
from jitgrad.ops.table import OPS
from tests.eager_bounds import eager_kernels_from
from tests.guard.cases import Case, all_cases
from tests.guard.pages import AFTER, BEFORE, GuardedMemory
from tests.ops.op_specs import SPECS

__all__ = ["AS_IT_IS", "Differs", "run_case"]

CRASH = "JITGRAD_GUARD_CRASH"
"""The environment variable that holds the number of a case in which the worker ends itself, for a test of the tool."""

RULES, KERNELS = -1, 1
"""``config.eager_kernels``: operations run by NumPy's rules, or by kernels however few elements there are."""

PUBLIC = (RuntimeError, ValueError, IndexError, TypeError, MemoryError)
"""What operations raise for arguments that they refuse."""

NOT_COMPARED = frozenset(
    # undefined up to signs or an order, ill-conditioned for what the case makes of the sample, or of random numbers
    "_linalg_svd _linalg_eigh linalg_eig linalg_qr linalg_cholesky_ex linalg_cholesky_info linalg_inv_ex linalg_pinv "
    "linalg_solve_ex linalg_cofactors linalg_lu_factor_ex linalg_solve_triangular _linalg_det _linalg_slogdet "
    "linalg_lu_solve linalg_ldl_factor_ex linalg_ldl_solve cholesky_solve cholesky_inverse geqrf linalg_pinv_rank "
    "linalg_householder_product ormqr".split()
)


AS_IT_IS = frozenset({"unsafe_view", "contiguous", "masked_select", "_fft_c2r"})
"""Operations whose params are made for the operand's extents, by a caller that knows them: their samples alone run."""


class Differs(AssertionError):
    """A form gave another result than NumPy's rules."""


def _tensor(memory: GuardedMemory, x: Any, case: Case) -> Any:
    """A tensor over guarded memory in the case's layout; lists and numbers as they are."""
    if isinstance(x, list):
        return [_tensor(memory, y, case) for y in x]
    if not isinstance(x, np.ndarray):
        return x
    dims, layout = tuple(range(x.ndim)), case.layout if x.ndim else "plain"
    steps = [1] * x.ndim
    if layout == "gaps":
        steps[-1] = 2
    elif layout == "rows apart":
        steps[0] = 3
    elif layout == "repeated":
        steps[0] = 0
    axes = dims[::-1] if layout == "turned" else dims
    if layout == "offset":
        found = jitgrad.from_numpy(memory.array(np.concatenate([x[:1], x])))[len(x[:1]) :]
    else:
        found = jitgrad.from_numpy(memory.array(x, axes, tuple(steps), layout == "misaligned"))
    return found.to(jitgrad.bfloat16) if case.dtype == "bfloat16" and x.dtype == np.float32 else found


def _values(x: Any) -> Any:
    """A tensor's values, copied; NumPy has no bfloat16."""
    return None if x is None else x.float().numpy() if x.dtype == jitgrad.bfloat16 else x.numpy().copy()


def _flat(items: Any) -> list[Any]:
    return [y for x in items for y in (x if isinstance(x, list | tuple) else [x])]


def _run(case: Case, memory: GuardedMemory, wrap: Callable[[Any], Any], write: bool) -> Iterator[Any]:
    """Twice, with operands that have nothing to spare behind them, then before them: results and gradients."""
    op = OPS[case.op]

    def step(*tensors: Any) -> Any:
        results = _flat([door.apply(op, *tensors, *case.params)])
        losses = [x.float().sum() for x in results if x.requires_grad and not x.is_complex()]
        if losses:
            sum(losses[1:], losses[0]).backward()
        return [x.detach() for x in results]

    def write_step(targets: Any, *tensors: Any) -> Any:
        with jitgrad.no_grad():
            door.apply_inplace(op, targets, *tensors, *case.params)

    function = wrap(write_step if write else step)
    for side in (AFTER, BEFORE):
        memory.side = side
        jitgrad.manual_seed(0)
        tensors = [_tensor(memory, x, case) for x in case.inputs()]
        leaves = [x for x in _flat(tensors) if isinstance(x, jitgrad.Tensor)]
        if write:
            made = _flat([door.apply(op, *tensors, *case.params)])
            targets = tuple(_tensor(memory, np.zeros_like(_values(x)), case) for x in made)
            function(targets, *tensors)
            yield [_values(x) for x in targets]
            continue
        for x in leaves:
            if x.dtype.is_floating_point:
                x.requires_grad_()
        results = function(*tensors)
        yield [_values(x) for x in (*results, *(x.grad for x in leaves))]


def _outcome(*args: Any) -> tuple[list[Any], str]:
    """(arrays of each run, the error: one run's error is every run's)."""
    try:
        return list(_run(*args)), ""
    except PUBLIC as error:
        return [], f"{type(error).__name__}: {error}"
    except Exception as error:
        raise Differs(f"an internal error: {error!r}") from error


def run_case(case: Case, memory: GuardedMemory) -> str:
    """Run a case in all forms.

    Returns:
        Empty, or what NumPy's rule refuses it with.

    Raises:
        Differs: forms disagree, or a store was found beside a block.
    """
    refused = ""
    for write in (False, True):
        if write and (OPS[case.op].numpy is None or refused or case.layout == "repeated"):
            break
        with eager_kernels_from(RULES):
            want, why = _outcome(case, memory, lambda f: f, write)
        refused = refused or why
        if why and SPECS[case.op][case.nr].torch is None:  # derivatives call it with what fits: kernels may trust them
            break
        with eager_kernels_from(KERNELS):
            _compare(case, want, why, *_outcome(case, memory, lambda f: f, write), "eager kernels")
        _compare(case, want, why, *_outcome(case, memory, jitgrad.compile, write), "compiled")
    if memory.spoiled:
        found, memory.spoiled = memory.spoiled, []
        raise Differs("; ".join(found))
    return refused


def _compare(case: Case, want: list[Any], why: str, got: list[Any], error: str, form: str) -> None:
    if bool(why) != bool(error):
        raise Differs(f"{form}: {error or 'no error'}, the rules: {why or 'no error'}")
    if why or case.op in NOT_COMPARED:
        return
    for side, xs, ys in zip((AFTER, BEFORE), got, want, strict=True):
        for x, y in zip(xs, ys, strict=True):
            if (x is None) != (y is None) or (x is not None and not _is_close(x, y)):
                raise Differs(f"{form}, {side}: {x} instead of {y}")


def _is_close(x: Any, y: Any) -> bool:
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind not in "fc":
        return bool((x == y).all())
    with np.errstate(all="ignore"):
        finite = np.abs(y[np.isfinite(y)])
        tolerance = {2: 3e-2, 4: 3e-2 if x.dtype == np.float32 else 0}.get(x.itemsize, 1e-4)
        largest = 1.0 + (float(finite.max()) if finite.size else 0.0)
        return bool(np.allclose(x, y, rtol=tolerance, atol=tolerance * largest, equal_nan=True))


def main(numbers: list[int]) -> None:
    """Run the cases with these numbers, a line of output before and after each."""
    memory, cases = GuardedMemory(), list(all_cases())
    warnings.simplefilter("ignore")
    with memory.for_storages(), memory.for_numpy():
        for nr in numbers:
            print(f"case {nr} {cases[nr]}", flush=True)
            if os.environ.get(CRASH) == str(nr):
                os.kill(os.getpid(), signal.SIGSEGV)
            try:
                refused = run_case(cases[nr], memory)
                print(f"refused {refused}".splitlines()[0] if refused else "survived", flush=True)
            except Differs as error:
                print("differs", " ".join(str(error).split()), flush=True)
        os._exit(0)  # arrays that are left belong to an allocator in Python


if __name__ == "__main__":
    main(list(map(int, sys.stdin.read().split())))
