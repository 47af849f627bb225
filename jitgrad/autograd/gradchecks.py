"""``gradcheck``: derivatives against finite differences; ``torch.autograd.gradcheck``.

Owns: ``gradcheck`` and ``gradgradcheck``: their arguments, PyTorch's messages about them.
Must not know: how anything is compared (``gradcheck_jacobians``, ``gradcheck_rules``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.autograd.backward import grad
from jitgrad.autograd.gradcheck_jacobians import (
    Check,
    GradcheckError,
    as_tuple,
    check_a_direction,
    check_every_element,
    differentiable,
    like,
)
from jitgrad.autograd.gradcheck_rules import check_backward, check_batched_forward, check_undefined_forward
from jitgrad.dtypes import complex128, float64
from jitgrad.lazy import LazyModule
from jitgrad.runtime.eager.new_shapes import at_once
from jitgrad.tensor_base import TensorBase

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

_PARTS = LazyModule("jitgrad.autograd.gradcheck_parts")


@at_once()
def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare ``func``'s derivatives with central differences.

    Args:
        func: Tensors to a Tensor or a sequence of Tensors.
        inputs: a Tensor or a tuple; those that require grad are checked, and should be float64.
        eps: step of the differences.
        atol: absolute tolerance.
        rtol: tolerance relative to the numerical value.
        raise_exception: raise for a difference, instead of returning False.
        nondet_tol: how much two backwards of the same graph may differ.
        check_undefined_grad: gradients that do not arrive, or tangents that are not given, must act as zeros.
        check_grad_dtypes: gradients must have their inputs' dtypes before anybody casts them.
        check_batched_grad: a batch of gradients, by ``vmap``, must be what one by one gives.
        check_batched_forward_grad: the same for forward mode.
        check_forward_ad: check forward mode.
        check_backward_ad: check reverse mode.
        fast_mode: compare v^T J u for random u and v, instead of every element.
        masked: compare with tolerance where a zero gradient is expected.

    Returns:
        Whether all agree.

    Raises:
        GradcheckError: they do not.
        ValueError: no input requires grad.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    arguments = as_tuple(inputs)
    _check_inputs(arguments)
    func, arguments = _PARTS.over_parts(func, arguments)
    check = Check(func, arguments, eps, atol, rtol, nondet_tol, check_grad_dtypes, bool(masked))
    modes = [mode for mode, wanted in ((False, check_backward_ad), (True, check_forward_ad)) if wanted]
    try:
        for is_forward in modes:
            (check_a_direction if fast_mode else check_every_element)(check, is_forward)
            if is_forward and check_undefined_grad:
                check_undefined_forward(check)
        if check_batched_forward_grad:
            check_batched_forward(check)
        if check_backward_ad:
            check_backward(check, check_batched_grad, check_undefined_grad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """``gradcheck`` of the gradients of ``func``, with respect to its inputs and to ``grad_outputs``.

    Args:
        func: as for ``gradcheck``; so are ``inputs`` and the other arguments that it has too.
        grad_outputs: one per differentiable output; None = random.
        gen_non_contig_grad_outputs: random ones are not contiguous.
        check_fwd_over_rev: differentiate the gradients by forward mode.
        check_rev_over_rev: differentiate the gradients by reverse mode.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    arguments = as_tuple(inputs)
    if grad_outputs is None:
        outputs = differentiable(func(*arguments))
        seeds = tuple(_random_seed(y, gen_non_contig_grad_outputs) for y in outputs)
    else:
        seeds = as_tuple(grad_outputs)
    count = len(arguments)
    moving = {i for i, x in enumerate(arguments) if isinstance(x, TensorBase) and x.requires_grad}
    moving |= {count + i for i, x in enumerate(seeds) if x.requires_grad}

    def gradients(*args: Any) -> tuple[Any, ...]:
        ready = [x.requires_grad_() if i in moving else x for i, x in enumerate(args)]
        wanted = [x for i, x in enumerate(ready[:count]) if i in moving]
        outputs = differentiable(func(*ready[:count]))
        grads = grad(outputs, wanted, ready[count:], create_graph=True, allow_unused=True)
        return tuple(g for g in grads if g is not None)

    return gradcheck(
        gradients,
        (*arguments, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _random_seed(y: Any, is_strided: bool) -> Any:
    """In [-1, 1), requiring grad."""
    shape = (*y.shape, 2) if is_strided else y.shape
    random = np.random.default_rng(0)
    values = random.uniform(-1, 1, shape) + (1j * random.uniform(-1, 1, shape) if y.is_complex() else 0)
    values = like(values, y)
    return (values.select(-1, 0) if is_strided else values).requires_grad_()


def _check_inputs(inputs: tuple[Any, ...]) -> None:
    checked = [(i, x) for i, x in enumerate(inputs) if isinstance(x, TensorBase) and x.requires_grad]
    for i, x in checked:
        if x.dtype not in (float64, complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. ",
                stacklevel=3,
            )
        if any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous "
                "on the input before passing it to gradcheck."
            )
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
