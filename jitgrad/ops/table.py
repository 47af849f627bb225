"""The operation table: one ``Op`` per operation, with every rule it needs.

Owns: ``Op``, ``Vjp``, ``RuleContext`` and the registry ``OPS``, which imports some of its entries late.
Must not know: Tensor, the tracer, LLVM, devices. A rule computes with its arguments and knows no more of them.

# Note [Strides of results]
# ~~~~~~~~~~~~~~~~~~~~~~~~~
# An operation's shape rule says shape and dtype, row-major; where operands are not row-major, the rule of its class
# then says the strides, as PyTorch's do. ``define`` puts the two together, so that eager execution, traces and kernels
# see one aval. A result never has gaps or repetitions: what has such a layout is a view.
# Classes: pointwise operations follow PyTorch's TensorIterator, which sorts dimensions by the strides of the operands,
# the first one first; copies are laid out as what they copy; a few classes more are below; the rest is row-major.
# Code that stores a result (``numpy_rule.own``, the outputs of a segment) takes the strides from the aval. A value
# within a segment has none: an output that is not row-major is stored as a permuted value, row-major
# (``codegen/build.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from jitgrad.dtypes import HALVES, DType, bool_, int8, int16, int32, uint8
from jitgrad.layouts import iteration_order
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, Strides, in_order, kept, make_aval, pointwise_strides, suggested_order
from jitgrad.structs import field, struct

__all__ = ["OPS", "Op", "OpTable", "RuleContext", "Vjp", "define", "joint_vjp"]


@struct
class RuleContext:
    """What a derivative rule may know without saving a value.

    Attributes:
        avals: of the tensor inputs; None where an input was a Python number.
        out_avals: of the outputs.
        params: the static parameters, as the operation received them.
        needs: which tensor inputs need a gradient.
        num_runs: how often the rules of Nodes with this context ran, until there are programs.
        programs: the rules as programs, Note [Rule programs]; None: there are none yet.
        programs_by_asked: its dictionary of them; None: there are none yet.
    """

    avals: tuple[Aval | None, ...]
    out_avals: tuple[Aval, ...]
    params: tuple[Any, ...]
    needs: tuple[bool, ...]
    num_runs: int = 0
    programs: Any = None
    programs_by_asked: Any = None


@struct
class Vjp:
    """The derivative with respect to one input.

    Attributes:
        rule: ``rule(c, grad_output, *saved) -> grad_input``, over Tensors, so that it can be differentiated again.
            ``grad_output`` is a tuple (None = undefined) for an operation with several outputs. The result may have
            any shape that sums down to the input's: un-broadcasting happens once, in the engine.
        saves: what the rule needs: input positions (ints), or ``"out"``, ``"out1"`` ... for outputs.
            A saved Python number arrives as that number.
    """

    rule: Callable[..., Any]
    saves: tuple[int | str, ...] = ()


def joint_vjp(joint: Callable[..., dict[int, Any]], i: int, saves: tuple[int | str, ...]) -> Vjp:
    """The derivative by input ``i`` alone, of an operation that has ``Op.joint``."""
    return Vjp(lambda context, grads, *saved: joint(context, grads, [i], *saved)[i], saves)


@struct
class Op:
    """One operation.

    ``inputs`` below are Tensors or Python numbers (a number only where PyTorch takes one); ``params`` are hashable
    and static.

    Attributes:
        name: PyTorch's name.
        aval: ``aval(*input_avals, *params) -> Aval | tuple[Aval, ...]``; the shape and dtype rule, which also raises
            PyTorch's errors for wrong arguments. A Python number arrives as itself. ``aval.checks_numbers``, if there
            is one, says for which dtypes of the tensors it refuses some numbers: "half", "integer", or "narrow", that
            is integers but int64; else only a number's type matters where ``numpy`` has a ``direct``.
        numpy: ``numpy(*arrays, *params) -> array or tuple of arrays``, exactly of the aval's shape and dtype
            (a wrong dtype is cast by the caller). None for views, which move no data.
        lower: ``lower(b, *values, *params) -> value or tuple of values`` over the primitives of
            ``codegen.primitives.builder.Builder``; None = no lowering: runs eagerly inside a compiled step.
        lowers: ``lowers(avals, *params)``: whether ``lower`` can do an operation on such operands (a number's aval is
            None) with these params; None if it always can.
        vjps: one entry per tensor input; None = not differentiable with respect to it. Empty = never differentiable.
        num_inputs: how many tensor-or-number inputs come before the params; -1 = one list of tensors: rules receive
            that list as their first argument, and ``vjps`` holds ONE entry, whose rule returns a tuple with one
            gradient (or None) per tensor of the list.
        joint: ``joint(c, grad_output, wanted, *saved) -> {input: gradient}``: the gradients by several inputs at once,
            for an operation whose rules all save the same; None: each rule runs on its own.
        is_view: the output shares the first input's storage; its aval carries stride and offset.
        is_unseen: of a view: its source is a temporary that nobody else sees, so the result is no view of it to users.
        node_name: the graph node's name, ``MulBackward0``.
        missing_edges: how many operands more PyTorch's node has, which are not given here: a bias.
        write: ``write(array, *arrays, *params)``: the operation in its first operand's own memory, one element after
            the other, for a target that is expanded; None: such a target is refused. No half dtypes come here.
        numbers: positions of the inputs of which PyTorch's node keeps a number as a number: no release takes it. Of
            all others it makes tensors first.
        runs_once: PyTorch's node keeps a tensor whatever gradients are wanted, so that a release ends it, also where
            the rules here need no value.
        node_names: where PyTorch has other names for forms with a Python number: by the number's position.
        checks_values: integer or bool inputs may make it raise (an index out of range): it is run even where nobody
            uses what it computes.
        checks_reals: floating inputs may make it raise (a singular matrix): the same holds.
        falls_back: kernels may report bad data where the NumPy rule has a result, so that the rule takes their place.
    """

    name: str
    aval: Callable[..., Any]
    numpy: Callable[..., Any] | None
    lower: Callable[..., Any] | None = None
    vjps: tuple[Vjp | None, ...] = ()
    num_inputs: int = 1
    is_view: bool = False
    node_name: str = ""
    checks_values: bool = False
    node_names: Mapping[int, str] = field(default_factory=dict)
    lowers: Callable[..., bool] | None = None
    checks_reals: bool = False
    is_unseen: bool = False
    joint: Callable[..., Any] | None = None
    missing_edges: int = 0
    numbers: frozenset[int] = frozenset()
    runs_once: bool = False
    write: Callable[..., Any] | None = None
    falls_back: bool = False

    def has_lowering(self, avals: Sequence[Aval | None], params: tuple[Any, ...]) -> bool:
        """Whether kernels can compute it. ``avals``: of the operands; None for a number."""
        return self.lower is not None and (self.lowers is None or self.lowers(avals, *params))

    @property
    def is_differentiable(self) -> bool:
        return bool(self.vjps)

    @property
    def has_base(self) -> bool:
        """Whether results are views that remember their base, so that writes to them reach its graph."""
        return self.is_view and bool(self.vjps) and not self.is_unseen

    @property
    def is_update(self) -> bool:
        """Whether it is an optimizer's update: its numbers change at every step, and decide no shape."""
        return self.name.endswith(("_update", "_update_scheduled"))

    def __repr__(self) -> str:
        return f"Op({self.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (OPS.__getitem__, (self.name,))


class OpTable(dict[str, Op]):
    """Operations by name. Families that few scripts use are imported when one of them is asked for.

    Attributes:
        late: name of an operation -> the module that defines it, Note [Lazy modules].
    """

    def __init__(self) -> None:
        super().__init__()
        self.late: dict[str, str] = {}

    def __missing__(self, name: str) -> Op:
        """KeyError for a name that nobody defines."""
        _ = LazyModule(self.late[name]).__all__
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def load(self) -> None:
        """Import all families."""
        for name in self.late:
            self[name]


OPS = OpTable()


# --- strides of results, by classes of operations ---

_POINTWISE = """
exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan asin acos atan sinh cosh tanh sigmoid erf asinh acosh atanh sinc
rad2deg deg2rad logit rsqrt reciprocal abs floor ceil trunc round round_decimals sign sgn frac nan_to_num neg lgamma
digamma erfinv erfc i0 special_i1 special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0
special_bessel_y1 special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
special_modified_bessel_k1 special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
special_spherical_bessel_j0 special_entr special_erfcx special_log_ndtr special_ndtri special_i0e special_i1e angle
relu threshold_backward leaky_relu_backward hardtanh_backward hardtanh gelu silu softplus log_sigmoid elu celu mish
hardsigmoid_backward hardsigmoid hardswish leaky_relu hardshrink_backward hardshrink softshrink threshold_at_backward
threshold _prelu_kernel
add sub rsub mul div add_scaled sub_scaled floor_divide div_floor div_trunc remainder fmod maximum minimum clamp
clamp_tensor clamp_min clamp_low clamp_max clamp_high where lerp addcmul addcdiv atan2 logaddexp copysign fmax fmin
xlogy special_xlog1py special_zeta
eq eq_as_self ne ne_as_self lt lt_as_self le le_as_self gt gt_as_self ge ge_as_self logical_and logical_or logical_xor
logical_not bitwise_and bitwise_or bitwise_xor bitwise_not isnan isinf isfinite isposinf isneginf isreal signbit isclose
polygamma pow_scalar pow hypot heaviside nextafter ldexp logaddexp2 gcd lcm bitwise_left_shift bitwise_right_shift
special_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_t special_chebyshev_polynomial_u
special_shifted_chebyshev_polynomial_u special_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_v
special_chebyshev_polynomial_w special_shifted_chebyshev_polynomial_w special_hermite_polynomial_h
special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p igamma igammac frexp
conj_physical complex polar
"""
"""They go through TensorIterator."""

POINTWISE = frozenset(_POINTWISE.split()) | {"copy", "masked_fill", "zero"}
"""Each element of their results is a function of the operands' elements at its place."""

_LOSSES = "mse_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits"
"""Pointwise, unless they are reduced."""

_KEPT = """
clone zeros_like ones_like _to_copy zero copy flip index_fill put sort select_scatter slice_scatter diagonal_scatter
index_put1 index_put2 index_put3 index_put4 index_put5 index_put6 index_put_accumulate1 index_put_accumulate2
index_put_accumulate3 index_put_accumulate4 index_put_accumulate5 index_put_accumulate6
"""
"""Copies of their first operand, changed: ``preserve_format``."""

_COLUMNS = """
linalg_inv_ex linalg_cholesky_ex linalg_cholesky_info linalg_solve_ex _linalg_eigh linalg_qr linalg_lu_factor_ex
linalg_solve_triangular
"""
"""What LAPACK writes: the columns of each matrix one after another, whatever the operands' strides."""

_IN_FORMAT = """
conv2d conv2d_input conv2d_weight max_pool2d max_pool3d max_pool_read max_pool_backward avg_pool2d
adaptive_max_pool2d adaptive_avg_pool2d adaptive_avg_pool3d
"""
"""Channels last where an operand is, else row-major."""


def _pointwise_rule(out: Aval, inputs: Sequence[Any]) -> Strides | None:
    avals = [x for x in inputs if type(x) is Aval]
    return pointwise_strides(out.shape, avals, len(avals) != len(inputs))


def _kept_rule(out: Aval, inputs: Sequence[Any]) -> Strides | None:
    return kept(inputs[0])


def _losses_rule(out: Aval, inputs: Sequence[Any]) -> Strides | None:
    return _pointwise_rule(out, inputs) if out.shape else None


def _columns_rule(out: Aval, inputs: Sequence[Any]) -> Strides | None:
    rank = out.ndim
    return in_order(out.shape, (*range(rank - 2), rank - 1, rank - 2)) if rank == inputs[0].ndim else None


def _format_rule(out: Aval, inputs: Sequence[Any]) -> Strides | None:
    orders = [suggested_order(x) for x in inputs if type(x) is Aval and x.ndim == out.ndim]
    return in_order(out.shape, next(filter(None, orders), None))


def _glu_rule(out: Aval, inputs: Sequence[Any]) -> Strides | None:
    """Of a half that is strided as the whole is."""
    return in_order(out.shape, iteration_order(out.shape, (inputs[0].stride,)))


Rule = Callable[[Aval, Sequence[Any]], Strides | None]

_RULES: dict[str, Rule] = {
    **dict.fromkeys(_POINTWISE.split(), _pointwise_rule),
    **dict.fromkeys(_KEPT.split(), _kept_rule),
    **dict.fromkeys(_LOSSES.split(), _losses_rule),
    **dict.fromkeys(_COLUMNS.split(), _columns_rule),
    **dict.fromkeys(_IN_FORMAT.split(), _format_rule),
    "glu": _glu_rule,
}


def _laid_out(name: str, rule: Callable[..., Any], num_inputs: int) -> Callable[..., Any]:
    """An operation's shape rule with the strides of its class."""
    strides = _RULES.get(name)
    if strides is None:
        return rule

    def with_strides(out: Aval, inputs: Sequence[Any]) -> Aval:
        found = strides(out, inputs)
        return out if found is None else make_aval(out.shape, out.dtype, found)

    @wraps(rule)
    def aval(*args: Any) -> Any:
        inputs = args[0] if num_inputs < 0 else args[:num_inputs]
        avals = [x for x in inputs if type(x) is Aval]
        if num_inputs == 1 and not avals:  # the public function says which argument it is
            raise AttributeError(f"{name}: the operand is no tensor")
        out = rule(*args)
        if strides is not _columns_rule and all([x.is_canonical for x in avals]):
            return out
        if type(out) is tuple:
            return tuple([with_strides(one, inputs) for one in out])
        return with_strides(out, inputs)

    return aval


_NO_BOOL = (bool_,)
_ONLY_LONG = (bool_, uint8, int8, int16, int32)
_REFUSED: dict[str, tuple[str, tuple[DType, ...]]] = {
    **dict.fromkeys(("mm", "addmm", "linear", "linear_nobias"), ("addmm_impl_cpu_", _NO_BOOL)),
    "bmm": ("bmm", _NO_BOOL),
    "mv": ("addmv_impl_cpu", _NO_BOOL),
    "dot": ("dot", _NO_BOOL),
    "div_trunc": ("div_trunc_cpu", _NO_BOOL),
    "clamp_tensor": ("clamp_cpu", _NO_BOOL),
    "conv2d": ("slow_conv2d_cpu", _NO_BOOL),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d"), ("avg_pool2d", _ONLY_LONG)),
    "avg_pool3d": ("avg_pool3d_out_frame", (*_ONLY_LONG, *HALVES)),
}
"""Operation -> PyTorch's kernel, and the dtypes of a result that it cannot have."""

_WITHOUT_HALVES = {
    "linalg_inv_ex": "linalg_inv",
    "linalg_cholesky_ex": "cholesky",
    "linalg_cholesky_info": "cholesky",
    "linalg_solve_ex": "lu",
    "linalg_lu_factor_ex": "lu",
    "_linalg_slogdet": "lu",
    "_linalg_det": "lu",
    "linalg_qr": "geqrf",
    "_linalg_eigh": "linalg_eigh",
    "linalg_eig": "linalg_eig_out",
    "_linalg_svd": "linalg_svd",
    "linalg_pinv": "linalg_pinv",
    "linalg_pinv_rank": "linalg_pinv",
    "linalg_solve_triangular": "triangular_solve",
}
"""Operation on matrices -> PyTorch's kernel, which takes neither float16 nor bfloat16."""

_HALF_SPECIALS = ("special_i0e", "special_i1", "special_i1e", "special_entr", "special_xlog1py")
"""Special functions that take halves; those with a series of their own do not."""


def _checked(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    """An operation's shape rule, which refuses the dtypes that PyTorch's kernel does not take."""
    kernel, refused = _REFUSED.get(name, ("", ()))
    if name in _WITHOUT_HALVES or (name.startswith("special_") and name not in _HALF_SPECIALS):
        kernel, refused = f"{_WITHOUT_HALVES.get(name, name.removeprefix('special_'))}_cpu", HALVES
    if not refused:
        return rule

    @wraps(rule)
    def aval(*args: Any) -> Any:
        found = rule(*args)
        first = args[0] if name in _WITHOUT_HALVES else found
        if first.dtype in refused:
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{first.dtype.type_name}'")
        return found

    return aval


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.strip("_").split("_"))


def define(
    name: str,
    *,
    aval: Callable[..., Any],
    numpy: Callable[..., Any] | None = None,
    lower: Callable[..., Any] | None = None,
    vjps: Sequence[Vjp | None] = (),
    num_inputs: int = 1,
    is_view: bool = False,
    node_name: str | None = None,
    checks_values: bool = False,
    node_names: Mapping[int, str] | None = None,
    lowers: Callable[..., bool] | None = None,
    checks_reals: bool = False,
    is_unseen: bool = False,
    joint: Callable[..., Any] | None = None,
    missing_edges: int = 0,
    numbers: Sequence[int] = (),
    runs_once: bool = False,
    write: Callable[..., Any] | None = None,
    falls_back: bool = False,
) -> Op:
    """Register an operation and return it; ValueError if the name is taken.

    ``numbers``: besides the positions that ``node_names`` has.
    """
    if name in OPS:
        raise ValueError(f"operation {name!r} is defined twice")
    node_name = node_name or f"{_camel(name)}Backward0"
    op = Op(
        name,
        _laid_out(name, _checked(name, aval), num_inputs),
        numpy,
        lower,
        tuple(vjps),
        num_inputs,
        is_view,
        node_name,
        checks_values,
        node_names or {},
        lowers,
        checks_reals,
        is_unseen,
        joint,
        missing_edges,
        frozenset([*numbers, *(node_names or ())]),
        runs_once,
        write,
        falls_back or checks_reals,
    )
    OPS[name] = op
    return op
