"""``gradcheck`` finds what is wrong, and says so in PyTorch's words."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")


def _make(t: Any, backward: Callable[..., Any], jvp: Callable[..., Any] | None = None, total: bool = False) -> Any:
    """A function that squares (and sums), with the given derivatives; they receive (ctx, x, gradient or tangent)."""

    class Square(t.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return (x * x).sum() if total else x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return backward(ctx.saved_tensors[0], g)

        @staticmethod
        def jvp(ctx: Any, v: Any) -> Any:
            assert jvp is not None
            return jvp(ctx.saved_tensors[0], v)

    return Square.apply


def _right(x: Any, g: Any) -> Any:
    return None if g is None else g * 2 * x


def _wrong(x: Any, g: Any) -> Any:
    return None if g is None else g * 2.1 * x


def _drifting() -> Callable[..., Any]:
    calls: list[int] = []

    def backward(x: Any, g: Any) -> Any:
        calls.append(1)
        return None if g is None else g * 2 * x + g * 1e-7 * len(calls)

    return backward


def _needs_gradient(x: Any, g: Any) -> Any:
    if g is None:
        raise RuntimeError("a gradient, please")
    return g * 2 * x


def _reads(x: Any, g: Any) -> Any:
    return None if g is None else g * 2 * x if float(g.sum()) != 0.125 else g


def _x(t: Any) -> Any:
    return t.tensor(np.array([0.5, 1.5]), requires_grad=True)


def _check(t: Any, function: Any, **options: Any) -> Any:
    return t.autograd.gradcheck(function, (_x(t),), **options)


def _grad_of(t: Any, **options: Any) -> Any:
    return t.autograd.gradgradcheck(lambda x: x.sin() * x, (_x(t),), **options)


def _detached(x: Any) -> Any:
    return x.detach() * 2


CASES: dict[str, Callable[[Any], Any]] = {
    "right": lambda t: _check(t, _make(t, _right, _right), check_forward_ad=True, check_batched_grad=True),
    "right-fast": lambda t: _check(t, _make(t, _right, _right), check_forward_ad=True, fast_mode=True),
    "wrong": lambda t: _check(t, _make(t, _wrong)),
    "wrong-fast": lambda t: _check(t, _make(t, _wrong), fast_mode=True),
    "wrong-forward": lambda t: _check(t, _make(t, _right, _wrong), check_forward_ad=True),
    "wrong-forward-fast": lambda t: _check(t, _make(t, _right, _wrong), check_forward_ad=True, fast_mode=True),
    "forward-only": lambda t: _check(t, _make(t, _wrong, _right), check_forward_ad=True, check_backward_ad=False),
    "quiet": lambda t: _check(t, _make(t, _wrong), raise_exception=False),
    "tolerance": lambda t: _check(t, _make(t, _wrong), rtol=0.2),
    "drift": lambda t: _check(t, _make(t, _drifting())),
    "drift-allowed": lambda t: _check(t, _make(t, _drifting()), nondet_tol=1e-4, check_undefined_grad=False),
    "constant": lambda t: _check(t, _make(t, lambda x, g: 2 * x, total=True)),
    "undefined": lambda t: _check(t, _make(t, _needs_gradient)),
    "undefined-ignored": lambda t: _check(t, _make(t, _needs_gradient), check_undefined_grad=False),
    "undefined-ones": lambda t: _check(t, _make(t, lambda x, g: t.ones_like(x) if g is None else g * 2 * x)),
    "batched": lambda t: _check(t, _make(t, _reads), check_batched_grad=True),
    "detached": lambda t: _check(t, _detached),
    "several": lambda t: t.autograd.gradcheck(
        lambda x, y, n: (x * y * n, x.exp(), t.ones(2)), (_x(t), _x(t), 3), check_forward_ad=True
    ),
    "unused": lambda t: t.autograd.gradcheck(lambda x, y: x * 2, (_x(t), _x(t)), check_forward_ad=True),
    "empty": lambda t: t.autograd.gradcheck(lambda x: x * 2, t.ones(0, 2, dtype=t.float64, requires_grad=True)),
    "strided": lambda t: t.autograd.gradcheck(
        lambda x: x.exp(), t.tensor(np.ones((2, 3))).t().requires_grad_(), check_forward_ad=True
    ),
    "expanded": lambda t: t.autograd.gradcheck(
        lambda x: x.exp(), t.tensor(np.ones((1, 3))).expand(2, 3).requires_grad_()
    ),
    "float": lambda t: t.autograd.gradcheck(lambda x: x * 2, t.ones(2, requires_grad=True), raise_exception=False),
    "no-inputs": lambda t: t.autograd.gradcheck(lambda x: x, t.ones(2, dtype=t.float64)),
    "no-mode": lambda t: _check(t, _detached, check_backward_ad=False),
    "batched-forward": lambda t: _check(t, lambda x: x.sin(), check_forward_ad=True, check_batched_forward_grad=True),
    "batched-alone": lambda t: _check(t, _detached, check_forward_ad=True, check_backward_ad=False,
                                      check_batched_grad=True),
    "batched-forward-alone": lambda t: _check(t, _detached, check_batched_forward_grad=True),
    "gradgrad": lambda t: _grad_of(t, check_fwd_over_rev=True, check_batched_grad=True),
    "gradgrad-fast": lambda t: _grad_of(t, fast_mode=True, gen_non_contig_grad_outputs=True),
    "gradgrad-outputs": lambda t: _grad_of(t, grad_outputs=_x(t)),
    "gradgrad-no-mode": lambda t: _grad_of(t, check_rev_over_rev=False),
    "gradgrad-undefined": lambda t: _grad_of(t, check_rev_over_rev=False, check_fwd_over_rev=True),
    "gradgrad-wrong": lambda t: t.autograd.gradgradcheck(
        _make(t, lambda x, g: None if g is None else g.detach() * 2 * x), (_x(t),)
    ),
}  # fmt: skip


def _outcome(program: Callable[[Any], Any], t: Any) -> tuple[Any, list[str]]:
    """(result, or the first lines of the error; warnings)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = program(t)
        except Exception as error:
            text = str(error).split("numerical:")[0].split("While computing batched gradients, got:")
            result = type(error).__name__, text[0][:150], len(text)
    # PyTorch warns of its own use of torch.jit
    return result, [str(w.message)[:100] for w in caught if w.category is UserWarning]


@pytest.mark.parametrize("name", CASES)
def test_outcome_is_torchs(name: str) -> None:
    assert _outcome(CASES[name], jitgrad) == _outcome(CASES[name], torch)


def test_a_mismatch_is_shown() -> None:
    with pytest.raises(jitgrad.autograd.GradcheckError) as error:
        _check(jitgrad, _make(jitgrad, _wrong))
    assert "numerical:tensor([[1.0000, 0.0000],\n        [0.0000, 3.0000]], dtype=jitgrad.float64)" in str(error.value)
    assert "analytical:tensor([[1.0500, 0.0000],\n        [0.0000, 3.1500]], dtype=jitgrad.float64)" in str(error.value)
    with pytest.raises(jitgrad.autograd.GradcheckError, match="Below, we recompute numerical and analytical") as error:
        _check(jitgrad, _make(jitgrad, _wrong), fast_mode=True)
    assert "The max per-element difference (slow mode) is: 0.15000" in str(error.value)


def test_complex_numbers_are_checked_as_pairs() -> None:
    z = jitgrad.tensor([0.3 + 0.4j, -1.0 + 0.2j], dtype=jitgrad.complex128, requires_grad=True)
    x = jitgrad.tensor([0.5, 1.5], dtype=jitgrad.float64, requires_grad=True)

    def mixed(z: Any, x: Any) -> Any:
        return z.conj() * z.exp() * x, (z * x).abs(), jitgrad.complex(x, x.sin())

    assert jitgrad.autograd.gradcheck(mixed, (z, x), check_forward_ad=True, check_batched_grad=True)
    assert jitgrad.autograd.gradcheck(mixed, (z, x), fast_mode=True)
    assert jitgrad.autograd.gradgradcheck(mixed, (z, x))

    class Wrong(jitgrad.autograd.Function):
        """The gradient of z ** 2, not conjugated."""

        @staticmethod
        def forward(ctx: Any, z: Any) -> Any:
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2 * ctx.saved_tensors[0]

    with pytest.raises(jitgrad.autograd.GradcheckError, match="mismatch"):
        jitgrad.autograd.gradcheck(Wrong.apply, z)
