"""Whole derivatives of functions: Jacobians, Hessians, and products with them; ``torch.autograd.functional``.

Owns: ``jacobian``, ``hessian``, ``vjp``, ``jvp``, ``vhp``, ``hvp``, and their messages, which are PyTorch's.
Must not know: the engine; everything here is calls of ``grad``, or of forward mode.

``jvp`` and ``hvp`` differentiate a backward with respect to its own seed (the "double backward trick",
https://j-towns.github.io/2017/06/12/A-new-trick.html): J^T u is linear in u, so its derivative in u applied to v is
J v. ``func`` has the same derivatives by forward mode, for any nesting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.autograd.backward import grad
from jitgrad.autograd.bases import split_columns, split_rows, standard_basis
from jitgrad.autograd.forward_ad import dual_level, make_dual, unpack_dual
from jitgrad.grad_mode import enable_grad, is_grad_enabled, set_grad_enabled
from jitgrad.ops.dispatch_hook import call
from jitgrad.tensor_base import TensorBase
from jitgrad.transforms.vmap import map_directions

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Any, ...]
_OUTPUTS = "outputs of the user-provided function"
_STRICT = "This is not allowed in strict mode."


# --- arguments and results ---


def _as_tuple(value: Any, what: str, name: str) -> tuple[bool, Tensors]:
    """(was a tuple, the tensors); TypeError for anything that is no tensor."""
    is_tuple = isinstance(value, tuple)
    values = value if is_tuple else (value,)
    for i, x in enumerate(values):
        if not isinstance(x, TensorBase):
            found = f"the value at index {i} has type {type(x)}" if is_tuple else f"the given {what} has type {type(x)}"
            raise TypeError(f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but {found}.")
    return is_tuple, values


def _ready(values: Tensors, create_graph: bool, needs_grad: bool) -> Tensors:
    """Leaves that nobody else sees; with ``create_graph``, aliases in the caller's graph, so that he may go on."""
    return tuple(
        call("alias", x) if create_graph and x.requires_grad else x.detach().requires_grad_(needs_grad) for x in values
    )


def _finished(values: Any, create_graph: bool) -> Any:
    """What the caller gets: differentiable only if he asked for that. Nested tuples stay."""
    if isinstance(values[0], TensorBase):
        return values if create_graph else tuple(x.detach() for x in values)
    return tuple(_finished(v, create_graph) for v in values)


def _like(values: Tensors, is_tuple: bool) -> Any:
    return values if is_tuple else values[0]


def _check_v(v: Tensors, other: Tensors, is_tuple: bool) -> None:
    if len(v) != len(other):
        if is_tuple:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(other)} but got {len(v)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (a, b) in enumerate(zip(v, other, strict=True)):
        if a.shape != b.shape:
            entry = f"Entry {i} in " if is_tuple else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {_size(b)} but got {_size(a)}.")


def _size(x: Any) -> str:
    return f"torch.Size({list(x.shape)})"


def _input_vector(v: Any, inputs: Tensors, is_tuple: bool, create_graph: bool, name: str) -> Tensors | None:
    """``v`` of a product with something shaped as the inputs; None stands for ones, for one element."""
    if v is not None:
        vectors = _ready(_as_tuple(v, "v", name)[1], create_graph, False)
        _check_v(vectors, inputs, is_tuple)
        return vectors
    if len(inputs) != 1 or inputs[0].numel() != 1:
        raise RuntimeError(
            "The vector v can only be None if the input to the user-provided function is a single Tensor with a single "
            "element."
        )
    return None


# --- strict mode ---


def _check_requires_grad(values: Sequence[Any], kind: str, strict: bool) -> None:
    """RuntimeError, in strict mode, for what does not depend on the inputs."""
    if not strict:
        return
    for i, x in enumerate(values):
        if x is None:
            raise RuntimeError(f"The output of the user-provided function is independent of input {i}. {_STRICT}")
        if not x.requires_grad:
            raise RuntimeError(_INDEPENDENT[kind].format(i=i))


_INDEPENDENT = {
    "outputs": "Output {i} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {i} is independent of the inputs of the user-provided function. "
    + _STRICT,
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided function with respect to "
    "input {i} is independent of the input. This is not allowed in strict mode. You should ensure that your function "
    "is twice differentiable and that the jacobian depends on the inputs (this would be violated by a linear function "
    "for example).",
    "hessian": "The hessian of the user-provided function with respect to input {i} is independent of the input. This "
    "is not allowed in strict mode. You should ensure that your function is thrice differentiable and that the hessian "
    "depends on the inputs.",
}

_MISSING = {
    "back": "The output of the user-provided function is independent of input {i}. " + _STRICT,
    "back_trick": "The gradient with respect to the input is independent of entry {i} in the grad_outputs when using "
    "the double backward trick to compute forward mode gradients. " + _STRICT,
    "double_back": "The jacobian of the user-provided function is independent of input {i}. " + _STRICT,
    "double_back_trick": "The hessian of the user-provided function is independent of entry {i} in the grad_jacobian. "
    "This is not allowed in strict mode as it prevents from using the double backward trick to replace forward mode "
    "AD.",
}


def _zeros_for_none(grads: Sequence[Any], refs: Tensors, strict: bool, create_graph: bool, stage: str) -> Tensors:
    """Zeros where nothing arrived, or in strict mode an error."""
    filled = []
    for i, (g, ref) in enumerate(zip(grads, refs, strict=True)):
        if g is None:
            if strict:
                raise RuntimeError(_MISSING[stage].format(i=i))
            g = call("zeros_like", ref)
        elif strict and create_graph and not g.requires_grad:
            what = "hessian" if "double" in stage else "jacobian"
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {i}. This is not allowed in strict "
                "mode when create_graph=True."
            )
        filled.append(g)
    return tuple(filled)


def _grad(
    outputs: Sequence[Any],
    inputs: Tensors,
    seeds: Sequence[Any] | None = None,
    create_graph: bool = False,
    retain_graph: bool | None = None,
    is_batched: bool = False,
) -> Tensors:
    """``grad`` of those outputs that require it; None where an input is not reached."""
    given = (None,) * len(outputs) if seeds is None else seeds
    pairs = [(y, s) for y, s in zip(outputs, given, strict=True) if y is not None and y.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    ys, ss = zip(*pairs, strict=True)
    return grad(ys, inputs, ss, retain_graph, create_graph, allow_unused=True, is_grads_batched=is_batched)


# --- products with the Jacobian ---


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), v^T J).

    Args:
        func: Tensors to a Tensor or a tuple.
        inputs: a Tensor or a tuple.
        v: shaped as the outputs; may be left out for one output of one element.
        create_graph: make the results differentiable.
        strict: raise where an output does not depend on an input, instead of giving zeros.
    """
    with enable_grad():
        inputs_are_tuple, given = _as_tuple(inputs, "inputs", "vjp")
        xs = _ready(given, create_graph, True)
        outputs_are_tuple, ys = _as_tuple(func(*xs), _OUTPUTS, "vjp")
        _check_requires_grad(ys, "outputs", strict)
        seeds = None
        if v is not None:
            seeds = _ready(_as_tuple(v, "v", "vjp")[1], create_graph, False)
            _check_v(seeds, ys, outputs_are_tuple)
        elif len(ys) != 1 or ys[0].numel() != 1:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single Tensor with a single "
                "element."
            )
    with set_grad_enabled(create_graph or is_grad_enabled()):
        product = _zeros_for_none(_grad(ys, xs, seeds, create_graph), xs, strict, create_graph, "back")
    return _pair(ys, outputs_are_tuple, product, inputs_are_tuple, create_graph)


def _pair(ys: Tensors, ys_are_tuple: bool, product: Tensors, product_is_tuple: bool, create_graph: bool) -> Any:
    return (
        _like(_finished(ys, create_graph), ys_are_tuple),
        _like(_finished(product, create_graph), product_is_tuple),
    )


def _linear_in_seeds(ys: Tensors, xs: Tensors) -> tuple[Tensors, Tensors]:
    """(seeds, gradients of ``ys`` with those seeds): the gradients are a linear function of the seeds.

    So the gradient of that function is the Jacobian's product from the other side: the double backward trick.
    """
    seeds = tuple(call("zeros_like", y).requires_grad_() for y in ys)
    return seeds, _grad(ys, xs, seeds, True)


def _second_product(
    grads: Tensors, xs: Tensors, vectors: Tensors | None, like: Tensors, create_graph: bool, strict: bool, stage: str
) -> Tensors:
    """The product of ``vectors`` with the derivative of ``grads``; zeros as ``like`` where there is none."""
    with set_grad_enabled(create_graph or is_grad_enabled()):
        return _zeros_for_none(_grad(grads, xs, vectors, create_graph), like, strict, create_graph, stage)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), J v), by the double backward trick; ``v`` is shaped as the inputs. Arguments as ``vjp``."""
    with enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", "jvp")
        xs = _ready(given, create_graph, True)
        vectors = _input_vector(v, xs, is_tuple, create_graph, "jvp")
        outputs_are_tuple, ys = _as_tuple(func(*xs), _OUTPUTS, "jvp")
        _check_requires_grad(ys, "outputs", strict)
        seeds, grads = _linear_in_seeds(ys, xs)
        _check_requires_grad(grads, "grad_inputs", strict)
    product = _second_product(grads, seeds, vectors, ys, create_graph, strict, "back_trick")
    return _pair(ys, outputs_are_tuple, product, outputs_are_tuple, create_graph)


# --- products with the Hessian ---


def _gradient(
    func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool, name: str
) -> tuple[bool, Tensors, Tensors | None, Tensors, Tensors]:
    """(inputs are a tuple, inputs, v, output, gradient) of a scalar function; grad mode is enabled."""
    is_tuple, given = _as_tuple(inputs, "inputs", name)
    xs = _ready(given, create_graph, True)
    vectors = _input_vector(v, xs, is_tuple, create_graph, name)
    output_is_tuple, ys = _as_tuple(func(*xs), _OUTPUTS, name)
    _check_requires_grad(ys, "outputs", strict)
    if output_is_tuple:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if ys[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    jac = _grad(ys, xs, None, True)
    _check_requires_grad(jac, "jacobian", strict)
    return is_tuple, xs, vectors, ys, jac


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), v^T H) of a scalar function; ``v`` is shaped as the inputs. Arguments as ``vjp``."""
    with enable_grad():
        is_tuple, xs, vectors, ys, jac = _gradient(func, inputs, v, create_graph, strict, "vhp")
    product = _second_product(jac, xs, vectors, xs, create_graph, strict, "double_back")
    return _pair(ys, False, product, is_tuple, create_graph)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), H v) of a scalar function, by the double backward trick; arguments as ``vhp``, which is cheaper.

    Where the Hessian is symmetric, the two are the same.
    """
    with enable_grad():
        is_tuple, xs, vectors, ys, jac = _gradient(func, inputs, v, create_graph, strict, "hvp")
        seeds, double_back = _linear_in_seeds(jac, xs)
        _check_requires_grad(jac, "hessian", strict)
    product = _second_product(double_back, seeds, vectors, xs, create_graph, strict, "double_back_trick")
    return _pair(ys, False, product, is_tuple, create_graph)


# --- whole matrices ---


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian, one Tensor of shape [*output, *input] per output and input.

    Args:
        func: Tensors to a Tensor or a tuple.
        inputs: a Tensor or a tuple.
        create_graph: make the result differentiable.
        strict: raise where an output does not depend on an input.
        vectorize: all rows at once, by ``vmap``; else one after the other.
        strategy: ``"reverse-mode"`` (a row per output element) or ``"forward-mode"`` (a column per input element; with
            ``vectorize`` only).

    Returns:
        A Tensor; nested tuples (outputs, then inputs) where there are several.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                "torch.autograd.functional.jacobian: `create_graph=True` and `strategy=\"forward-mode\"` are not "
                "supported together (yet). Please either set `create_graph=False` or `strategy=\"reverse-mode\"`."
            )
        return _jacobian_forward(func, inputs, strict, vectorize)
    with enable_grad():
        inputs_are_tuple, given = _as_tuple(inputs, "inputs", "jacobian")
        xs = _ready(given, create_graph, True)
        outputs_are_tuple, ys = _as_tuple(func(*xs), _OUTPUTS, "jacobian")
        _check_requires_grad(ys, "outputs", strict)
        if vectorize:
            if strict:
                raise RuntimeError(
                    "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported "
                    "together. Please either set `strict=False` or `vectorize=False`."
                )
            blocks = _rows_at_once(ys, xs, create_graph)
        else:
            blocks = tuple(_rows(i, y, xs, create_graph, strict) for i, y in enumerate(ys))
        blocks = _finished(blocks, create_graph)
    return _like(tuple(_like(block, inputs_are_tuple) for block in blocks), outputs_are_tuple)


def _rows(number: int, y: Any, xs: Tensors, create_graph: bool, strict: bool) -> Tensors:
    """Row by row: for each input [*y, *x]."""
    columns: tuple[list[Any], ...] = tuple([] for _ in xs)
    flat = y.reshape(-1)
    for j in range(y.numel()):
        grads = _grad((flat[j],), xs, None, create_graph, True)
        for i, (column, g, x) in enumerate(zip(columns, grads, xs, strict=True)):
            if g is None:
                if strict:
                    raise RuntimeError(
                        f"Output {number} of the user-provided function is independent of input {i}. {_STRICT}"
                    )
                g = call("zeros_like", x)
            elif strict and create_graph and not g.requires_grad:
                raise RuntimeError(
                    f"The jacobian of the user-provided function is independent of input {number}. This is not allowed "
                    "in strict mode when create_graph=True."
                )
            column.append(g)
    return tuple(
        call("stack", column, 0).reshape((*y.shape, *x.shape))
        for column, x in zip(columns, xs, strict=True)
    )


def _rows_at_once(ys: Tensors, xs: Tensors, create_graph: bool) -> tuple[Tensors, ...]:
    basis = standard_basis(ys)
    if not basis[0].shape[0]:
        raise IndexError("index 0 is out of bounds for dimension 0 with size 0")  # PyTorch looks at the first row
    rows = _grad(ys, xs, basis, create_graph, None, is_batched=True)
    count = basis[0].shape[0]
    whole = [call("full", 0.0, (count, *x.shape), x.dtype) if r is None else r for r, x in zip(rows, xs, strict=True)]
    return tuple(zip(*[split_rows(r, ys, x) for r, x in zip(whole, xs, strict=True)], strict=True))


def _jacobian_forward(func: Callable[..., Any], inputs: Any, strict: bool, vectorize: bool) -> Any:
    if strict:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `strategy=\"forward-mode\"` are not supported "
            "together (yet). Please either set `strict=False` or `strategy=\"reverse-mode\"`."
        )
    inputs_are_tuple, xs = _as_tuple(inputs, "inputs", "jacobian")
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for "
            "`vectorize=True`."
        )
    outputs_are_tuple = True

    def push(tangents: Tensors) -> Tensors:
        nonlocal outputs_are_tuple
        with dual_level():
            duals = tuple(make_dual(x, t) for x, t in zip(xs, tangents, strict=True))
            outputs_are_tuple, ys = _as_tuple(func(*duals), "outputs", "jacobian")
            pairs = [unpack_dual(y) for y in ys]
            return tuple(call("zeros_like", y) if t is None else t for y, t in pairs)

    columns = map_directions(push, tuple(standard_basis(xs)))
    blocks = tuple(tuple(split_columns(c, xs)) for c in columns)
    return _like(tuple(_like(block, inputs_are_tuple) for block in blocks), outputs_are_tuple)


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a scalar function: [*input_i, *input_j] per pair of inputs.

    Args:
        func: Tensors to a Tensor of one element.
        inputs: as ``jacobian``; so are ``create_graph``, ``strict`` and ``vectorize``.
        outer_jacobian_strategy: how the gradient is differentiated; ``"forward-mode"`` needs ``vectorize``.
    """
    is_tuple, given = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def single_output(*xs: Any) -> Any:
        out = func(*xs)
        out_is_tuple, ys = _as_tuple(out, _OUTPUTS, "hessian")
        _check_requires_grad(ys, "outputs", strict)
        if out_is_tuple:
            raise RuntimeError("The function given to hessian should return a single Tensor")
        if out.numel() != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        return out.squeeze()

    def gradient(*xs: Any) -> Tensors:
        if outer_jacobian_strategy == "forward-mode":
            xs = tuple(x.requires_grad_(True) for x in xs)
        jac: Tensors = jacobian(single_output, xs, create_graph=True)
        _check_requires_grad(jac, "jacobian", strict)
        return jac

    blocks = jacobian(gradient, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return blocks if is_tuple else blocks[0][0]
