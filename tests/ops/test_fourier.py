"""Fourier transforms: what ``torch.fft``, ``stft``, ``istft`` do, refuse and warn of; programs, eagerly and compiled.

PyTorch's own samples are compared by ``python -m tests.opinfo --op fft.fft``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jitgrad
from jitgrad.config import config
from jitgrad.ops import fourier

TRANSFORMS = "Transforms have no kernels."
HOOKED = "a value that is hooked, or whose Node was looked at"
NAMES = "fft ifft rfft irfft hfft ihfft".split()


@pytest.fixture
def always() -> Iterator[None]:
    """Warnings that are given once in a process are given each time."""
    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
    before = torch.is_warn_always_enabled()
    for t in (torch, jitgrad):
        t.set_warn_always(True)
    yield
    torch.set_warn_always(before)
    jitgrad.set_warn_always(False)


def _outcome(t: Any, text: str) -> tuple[Any, Any, list[str]]:
    """(result, error, warnings) of an expression over the library and few tensors."""
    x, m = t.arange(16.0), t.arange(24.0).reshape(4, 6)
    w = t.signal.windows.hann(8, sym=False)
    names = {"t": t, "f": t.fft, "x": x, "m": m, "w": w, "X": t.stft(x, 8, window=w, return_complex=True)}
    found = error = None
    with warnings.catch_warnings(record=True) as given_warnings:
        warnings.simplefilter("always")
        try:
            found = eval(text, names)
        except (RuntimeError, TypeError, IndexError, NotImplementedError) as raised:
            error = raised
    return found, error, [str(w.message).split(" (Triggered")[0] for w in given_warnings]


def _compare(text: str) -> tuple[Any, Any]:
    """The errors of both libraries; values, dtypes, shapes and warnings must agree."""
    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
    expected, error, said = _outcome(torch, text)
    got, our_error, we_said = _outcome(jitgrad, text)
    assert type(our_error) is type(error), f"{our_error!r}, not {error!r}"
    assert we_said == said
    if error is None:
        assert str(expected.dtype) == f"torch.{got.dtype.name}"
        assert tuple(got.shape) == tuple(expected.shape)
        np.testing.assert_allclose(got.numpy(), expected.resolve_conj().numpy(), rtol=1e-5, atol=2e-4)
    return our_error, error


VALUES = """
f.fft(x, 5)|f.fft(x, 21)|f.fft(x[1:8:2])|f.fft(m.T)|f.fft(m, 7, 0, "ortho")|f.fft(m, dim=-2, norm="forward")
f.fft(t.arange(4))|f.rfft(t.tensor([True, False, True]))|f.fft(x.double())|f.irfft(x.int())|f.fft(x, 1)
f.ifft(x, 21, norm="ortho")|f.ifft(m * 1j, 3, 0)|f.rfft(x, 7)|f.rfft(m, 9, -2, "ortho")|f.irfft(m, norm="forward")
f.irfft(x, 9)|f.irfft(x, 10)|f.irfft(x, 1)|f.irfft(x + 2j, 40)|f.hfft(x + 2j, 9, norm="ortho")|f.hfft(m, 4, 0)
f.ihfft(x, 9)|f.ihfft(m, 7, 0, "forward")|f.fft2(m)|f.fft2(m, (3, 8))|f.fft2(m, (3, 8), (1, 0), "ortho")
f.ifft2(m + 1j, (-1, 4))|f.rfft2(m, (5, -1))|f.irfft2(m, (5, -1))|f.irfft2(m, (5, 7))|f.hfft2(m + 1j)|f.ihfft2(m)
f.fftn(m)|f.fftn(m, 4)|f.fftn(m, dim=0)|f.fftn(m, s=(3,))|f.fftn(t.tensor(3.0))|f.fftn(x, dim=())
f.ifftn(m, (2, 2), (1, 0), "ortho")|f.rfftn(m, (3, 8), (-1, -2))|f.irfftn(m, (3, 8), (1, 0))|f.irfftn(x, s=(-1,))
f.hfftn(m * 1j, (3, 5), norm="forward")|f.ihfftn(m.double(), (5, 3), norm="ortho")|f.irfftn(m.T, norm="ortho")
f.fft(t.ones(0), 3)|f.fft(t.ones(3, 0), n=3)|f.fftfreq(5)|f.fftfreq(6, 0.25)|f.fftfreq(0)|f.fftfreq(5, 0)
f.fftfreq(4, dtype=t.float64)|f.rfftfreq(5, 0.1)|f.rfftfreq(0)|f.rfftfreq(8, d=2)|f.fftshift(x[:5])|f.fftshift(m)
f.ifftshift(x[:5])|f.ifftshift(m, 1)|f.fftshift(m, (0, -1))|f.ifftshift(f.fftshift(m))|f.fftshift(m * 1j)
f.fft(x, out=t.empty(0, dtype=t.complex128))|f.irfft(x, out=t.empty(0, dtype=t.float64))|f.fft(input=x, n=3)
f.fft(x.double(), out=t.empty(0, dtype=t.complex64))|f.fftfreq(5, out=t.empty(5))|f.hfft(x, 5, out=t.empty(5))
f.fft(x, out=t.empty(3, dtype=t.complex64))
"""
REFUSED = """
f.fft(3)|f.fft([1.0])|f.fft(x, 2.5)|f.fft(x, 0)|f.fft(x, -1)|f.fft(x, dim=3)|f.fft(t.tensor(1.0))|f.fft(t.ones(0))
f.rfftn(t.tensor(1.0))|f.fft(x, norm="x")|f.fftn(x, s=4.0)|f.fftn(x, "a")|f.fftn(x, s=(4, 4))|f.hfft(x, 0)
f.fftn(x, s=(4,), dim=(0, 1))|f.fftn(m, s=(4,), dim=(0, 1))|f.fftn(x, dim=(0, -1))|f.fft2(x)|f.fftn(m, dim=(0, 5))
f.irfft(x[:1])|f.rfft(x + 0j)|f.rfftn(x + 0j)|f.ihfft(x + 0j)|f.ihfftn(x + 0j)|f.ihfft2(m + 0j)|f.rfft2(m + 0j)
f.irfftn(x, dim=())|f.rfftn(x, dim=())|f.hfftn(x, dim=())|f.ihfftn(x, dim=())|f.irfftn(x, s=(0,))|f.irfftn(x, s=(-2,))
f.fft(x, out=t.empty(0))|f.rfft(x, out=t.empty(0))|f.irfft(x, out=t.empty(0, dtype=t.complex64))|f.fftfreq(5.5)
f.hfftn(x, out=t.empty(0, dtype=t.complex64))|f.fftfreq(-1)|f.fftfreq(5, dtype=t.int32)|f.rfftfreq(5, dtype=t.int64)
f.fftshift(x, 3)|f.fftshift(3)|f.fft(x.half())|f.rfft(x.bfloat16())|f.irfft(t.ones(0) + 0j)|f.hfft2(m, (3, 0))
f.hfft2(m, (3,))|f.fft(t.ones(0, 3), dim=0)
"""
SPECTROGRAMS = """
t.stft(x, 8, return_complex=True)|t.stft(x, 8, window=w, return_complex=False)|t.stft(x + 1j, 8, 2, 8, w)
t.stft(x, 8, 2, 8, w, onesided=True, return_complex=True)|t.stft(x, 8, 2, 8, w, onesided=False, return_complex=True)
t.stft(x + 1j, 8, 2, 8, w, return_complex=False)|t.stft(x, 8, 2, 8, w * 1j)|t.stft(m, 4, 1, None, return_complex=True)
t.stft(x, 8, 2, 8, w, center=False, align_to_window=True, return_complex=True)
t.stft(x, 8, 3, 6, t.ones(6), center=False, align_to_window=True, return_complex=True)
t.stft(x, 8, 3, 6, t.ones(6), center=False, align_to_window=False, return_complex=True)
t.stft(x, 8, 3, 3, None, center=False, return_complex=True)|t.stft(x, 8, 2, 8, w.double(), return_complex=True)
t.stft(x, 8, window=w, return_complex=True, pad_mode="constant")|x.stft(8, 2, 8, w, False, return_complex=True)
t.stft(x, 8, window=w, return_complex=True, pad_mode="circular")|t.stft(x, 5, 2, 4, w[:4], return_complex=True)
t.stft(x, 8, window=w, return_complex=True, pad_mode="replicate")
t.stft(x, 8, None, None, w, True, "reflect", True, True, True)
t.istft(X, 8)|t.istft(X, 8, window=w)|t.istft(X[None], 8, window=w)|X.istft(8, 2, 8, w)|t.istft(X, 8, 2, 6, w[1:7])
t.istft(X, 8, 2, 5, w[1:6], normalized=True, length=13)|t.istft(X, 8, 2, 8, w + 1, center=False)
t.istft(X, 8, 2, 8, w, length=10)|t.istft(X, 8, 2, 8, w + 1, length=18)|t.istft(X, 8, 2, 8, w + 1, length=50)
t.istft(t.stft(x + 1j, 8, 2, 8, w), 8, 2, 8, w, return_complex=True)|t.istft(X, 8, window=w.double())
t.istft(t.stft(x + 1j, 8, 2, 8, w), 8, 2, 8, w)
t.istft(t.stft(x, 8, 2, 8, w * 1j), 8, 2, 8, w * 1j, return_complex=True)
"""
REFUSED_SPECTROGRAMS = """
t.stft(x, 8)|t.stft(x.int(), 8, window=w, return_complex=True)|t.stft(x, 100, window=w, return_complex=True)
t.stft(x, 100, window=w, return_complex=True, center=False)|t.stft(x, 0, window=w, return_complex=True, center=False)
t.stft(x, 8, 0, window=w, return_complex=True)|t.stft(x, 8, 2, 9, window=w, return_complex=True)
t.stft(x, 8, 2, 0, window=w, return_complex=True)|t.stft(x, 8, 2, 6, window=w, return_complex=True)
t.stft(x, 8, 2, 8, window=w.view(2, 4), return_complex=True)|t.stft(x + 1j, 8, 2, 8, w, onesided=True)
t.stft(x, 8, 2, 8, w, align_to_window=True, return_complex=True)
t.stft(m.view(2, 2, 6), 8, window=w, return_complex=True)
t.stft(x, 8, window=w, return_complex=True, pad_mode="foo")
t.istft(X.real, 8, window=w)|t.istft(X[:0], 8, window=w)|t.istft(X[None, None], 8, window=w)|t.istft(X, 9, window=w)
t.istft(X, 8, window=w, onesided=False)|t.istft(X, 8, 10, window=w)|t.istft(X, 8, 0, window=w)|t.istft(X, 8, 2, 9, w)
t.istft(X, 8, 2, 6, window=w)|t.istft(X, 8, 2, 8, w, center=False)|t.istft(X, 8, 2, 8, 0 * w)
t.istft(X, 8, 2, 8, w * 1j)
t.istft(X, 8, 2, 8, w, length=-3)|t.istft(X, 8, 2, 8, w, return_complex=True)|t.stft(x, 8.0, window=w)
"""


def _cases(text: str) -> list[str]:
    return text.strip().replace("\n", "|").split("|")


@pytest.mark.parametrize("text", [*_cases(VALUES), *_cases(SPECTROGRAMS)])
def test_values_are_pytorchs(always: None, text: str) -> None:
    assert _compare(text) == (None, None)


@pytest.mark.parametrize("text", _cases(REFUSED))
def test_refusals_are_pytorchs(always: None, text: str) -> None:
    got, expected = _compare(text)
    first_lines = [re.sub(r" \(position \d\)", "", str(error).splitlines()[0]) for error in (got, expected)]
    assert first_lines[0] == first_lines[1]


@pytest.mark.parametrize("text", _cases(REFUSED_SPECTROGRAMS))
def test_spectrograms_that_pytorch_refuses_are_refused(always: None, text: str) -> None:
    got, _ = _compare(text)
    assert isinstance(got, RuntimeError | TypeError | NotImplementedError)


def test_an_empty_batch_is_transformed() -> None:
    """PyTorch's FFT library refuses it; so do its spectrograms."""
    assert jitgrad.fft.fft(jitgrad.ones(0, 4)).shape == (0, 4)
    assert jitgrad.fft.irfft2(jitgrad.ones(0, 4, 3)).shape == (0, 4, 4)
    window = jitgrad.ones(8)
    assert jitgrad.stft(jitgrad.ones(0, 16), 8, window=window, return_complex=True).shape == (0, 5, 9)
    assert jitgrad.istft(jitgrad.ones(5, 3) + 0j, 8, window=window, length=0).shape == (0,)


# --- properties ---

_shapes = st.lists(st.integers(1, 7), min_size=1, max_size=3)
_norms = st.sampled_from(["backward", "ortho", "forward"])


@given(_shapes, st.data(), _norms, st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_inverses_and_parseval(shape: list[int], data: Any, norm: str, seed: int) -> None:
    f, rng = jitgrad.fft, np.random.default_rng(seed)
    dims = tuple(data.draw(st.permutations(range(len(shape))))[: data.draw(st.integers(1, len(shape)))])
    x = jitgrad.tensor(rng.normal(size=shape))
    z = jitgrad.tensor(rng.normal(size=shape) + 1j * rng.normal(size=shape))
    sizes = [shape[d] for d in dims]
    np.testing.assert_allclose(f.ifftn(f.fftn(z, None, dims, norm), None, dims, norm).numpy(), z.numpy(), atol=1e-12)
    np.testing.assert_allclose(f.irfftn(f.rfftn(x, None, dims, norm), sizes, dims, norm).numpy(), x.numpy(), atol=1e-12)
    np.testing.assert_allclose(f.hfftn(f.ihfftn(x, None, dims, norm), sizes, dims, norm).numpy(), x.numpy(), atol=1e-12)
    energy = (f.fftn(z, None, dims, "ortho").abs() ** 2).sum().item()
    np.testing.assert_allclose(energy, (z.abs() ** 2).sum().item())
    np.testing.assert_allclose(f.ifftshift(f.fftshift(x, dims), dims).numpy(), x.numpy())


@given(st.integers(1, 9), st.integers(1, 9), st.booleans(), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_a_derivative_is_the_transpose(n: int, points: int, given_points: bool, seed: int) -> None:
    """Re<w, A x> = Re<grad, x> for a linear A, whatever is cut, filled or halved."""
    rng = np.random.default_rng(seed)
    for name in NAMES:
        function: Callable[..., Any] = getattr(jitgrad.fft, name)
        if name in ("irfft", "hfft") and n == 1 and not given_points:
            continue
        x = jitgrad.tensor(rng.normal(size=n) + (0 if name in ("rfft", "ihfft") else 1j) * rng.normal(size=n))
        x.requires_grad_()
        y = function(x, points if given_points else None)
        w = jitgrad.tensor(rng.normal(size=y.shape) + (1j * rng.normal(size=y.shape) if y.is_complex() else 0))
        (g,) = jitgrad.autograd.grad(y, x, w)
        left = (w.numpy().conj() * y.detach().numpy()).real.sum()
        np.testing.assert_allclose((g.numpy().conj() * x.detach().numpy()).real.sum(), left, atol=1e-10)


@pytest.mark.parametrize(
    "n_fft, hop, win, center", [(8, 2, 8, True), (8, 3, 6, True), (7, 2, 7, True), (8, 2, 8, False)]
)
def test_istft_inverts_stft(n_fft: int, hop: int, win: int, center: bool) -> None:
    jitgrad.manual_seed(0)
    x, window = jitgrad.randn(2, 41, dtype=jitgrad.float64), jitgrad.rand(win, dtype=jitgrad.float64) + 0.5
    spectra = jitgrad.stft(x, n_fft, hop, win, window, center, return_complex=True)
    back = jitgrad.istft(spectra, n_fft, hop, win, window, center, length=41 if center else None)
    np.testing.assert_allclose(back.numpy(), x[:, : back.shape[1]].numpy(), atol=1e-12)


# --- derivatives of functions ---


def _of_pairs(function: Callable[..., Any], parts: Any) -> Any:
    return jitgrad.view_as_real(function(jitgrad.view_as_complex(parts) if parts.ndim == 3 else parts) * 1j)


def test_gradients_of_gradients() -> None:
    check = jitgrad.autograd
    z = jitgrad.tensor(np.random.default_rng(0).normal(size=(3, 5, 2)), requires_grad=True)
    x = z.detach()[..., 0].clone().requires_grad_()
    for name in NAMES:
        function: Callable[..., Any] = getattr(jitgrad.fft, f"{name}n")
        for inputs in ([x] if name in ("rfft", "ihfft") else [z, x]):
            assert check.gradcheck(lambda a, f=function: _of_pairs(lambda b: f(b, (4, 6)), a), (inputs,))
            assert check.gradgradcheck(lambda a, f=function: _of_pairs(lambda b: f(b, (4, 6)), a), (inputs,))


def test_transforms_of_functions() -> None:
    func, f = jitgrad.func, jitgrad.fft
    x = jitgrad.randn(4, 3, 6, dtype=jitgrad.float64)
    for function in (f.rfft, lambda a: f.irfft(a, 7), lambda a: f.fft(a, dim=0), f.fft2, lambda a: f.hfftn(a, (4, 5))):
        whole = jitgrad.stack([function(one) for one in x])
        np.testing.assert_allclose(func.vmap(function)(x).numpy(), whole.numpy(), atol=1e-12)
        value, tangent = func.jvp(function, (x[0],), (x[1],))
        np.testing.assert_allclose(tangent.numpy(), function(x[1]).numpy(), atol=1e-12)
        np.testing.assert_allclose(value.numpy(), function(x[0]).numpy(), atol=1e-12)
    hessian = func.hessian(lambda a: (jitgrad.view_as_real(f.rfft(a)) ** 2).sum())(x[0, 0]).numpy()
    weights = np.fft.fft(np.eye(6))[:, :4]
    np.testing.assert_allclose(hessian, 2 * (weights @ weights.conj().T).real, atol=1e-10)


# --- programs ---


def _spectral_layer(t: Any, x: Any, w: Any) -> Any:
    spectrum = t.fft.rfft(x * 2 + 1)
    return (t.fft.irfft(spectrum * t.view_as_complex(w.reshape(-1, 2)), x.shape[-1]) ** 2).mean()


def _poisson(t: Any, x: Any, w: Any) -> Any:
    k = t.fft.fftfreq(x.shape[-1], dtype=x.dtype) * 6.0
    solved = t.fft.ifft(t.fft.fft(x) / (1 + k**2)).real
    return (solved * w[: x.shape[-1]]).sum()


def _two_dimensions(t: Any, x: Any, w: Any) -> Any:
    return t.fft.fftshift(t.fft.fft2(x.reshape(2, 4))).abs().sum() + t.fft.irfft2(t.fft.rfft2(x.reshape(2, 4))).sum()


def _spectrogram(t: Any, x: Any, w: Any) -> Any:
    window = w[:4].abs() + 0.5
    spectra = t.stft(x, 4, 2, window=window, return_complex=True)
    return (t.istft(spectra * 2, 4, 2, window=window, length=8) * x).sum() + spectra.abs().log1p().sum()


PROGRAMS = [_spectral_layer, _poisson, _two_dimensions, _spectrogram]


def _run(t: Any, program: Callable[..., Any], call: Callable[[Any], Any]) -> list[Any]:
    rng = np.random.default_rng(3)
    x, w = (t.tensor(rng.normal(size=n), requires_grad=True) for n in (8, 10))

    def step(x: Any, w: Any) -> Any:
        x.grad = w.grad = None
        loss = program(t, x * 1.5, w * 0.5)
        loss.backward()
        return loss.detach()

    loss = call(step)(x, w)
    return [loss.numpy(), *[np.zeros(0) if leaf.grad is None else leaf.grad.numpy() for leaf in (x, w)]]


@pytest.mark.row(fallbacks=TRANSFORMS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__.strip("_"))
def test_programs(mode: Any, program: Callable[..., Any]) -> None:
    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
    expected = _run(torch, program, lambda step: step)

    def thrice(step: Any) -> Any:
        wrapped = mode.wrap(step)

        def call(*leaves: Any) -> Any:
            for _ in range(2 if mode.name == "warm" else 0):
                wrapped(*leaves)
            return wrapped(*leaves)

        return call

    for x, y in zip(_run(jitgrad, program, thrice), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-10)


def test_real_operations_around_a_transform_are_fused() -> None:
    """One kernel before it, one behind it, one of complex numbers between; the transforms run by SciPy or NumPy."""

    @jitgrad.compile
    def step(x: Any) -> Any:
        spectrum = jitgrad.fft.rfft((x * 2 + 1).sin().exp())
        return (jitgrad.fft.irfft(spectrum * 0.5, 8) * 3 + 1).tanh().sum()

    x = jitgrad.randn(8)
    for _ in range(3):
        step(x)
    before = jitgrad.stats()
    step(x)
    after = jitgrad.stats()
    risen = {name: after[name] - before[name] for name in ("misses", "compiles", "segments", "launches", "fallbacks")}
    assert risen == {"misses": 0, "compiles": 0, "segments": 1, "launches": 3, "fallbacks": 2}
    explanation = jitgrad.explain(step, x)
    assert [len(report.kernels) for report in explanation.segments] == [3]
    assert "fallbacks=2" in str(explanation)


def test_import_does_not_load_transforms() -> None:
    program = (
        "import sys, jitgrad; late = [m for m in sys.modules if 'fourier' in m or 'jitgrad.fft' in m]; "
        "assert not late, late; jitgrad.fft.rfft(jitgrad.ones(4)); assert 'jitgrad.fft' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# --- which library computes ---


@pytest.mark.parametrize("has_scipy", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_either_library_computes_the_same(has_scipy: bool, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without SciPy, NumPy does; with it, as many threads as there are change no bit."""
    monkeypatch.setattr(fourier, "_has_scipy", lambda: has_scipy)
    monkeypatch.setattr(fourier, "_LARGE", 1)
    x = jitgrad.tensor(np.random.default_rng(0).normal(size=(5, 6, 8)).astype(dtype))
    f = jitgrad.fft
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(config, "num_threads", threads)
        spectrum = f.rfftn(x, dim=(0, 2), norm="ortho")
        back = f.irfftn(spectrum, s=(5, 8), dim=(0, 2), norm="ortho")
        made = [f.fft(x), f.ifft2(x + 1j * x), spectrum, back, f.hfft(x)]
        found.append([m.numpy() for m in made])
    for one, two in zip(*found, strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)
    n = np.fft
    for got, want in zip(found[0][:2], [n.fft(x.numpy()), n.ifft2(x.numpy() * (1 + 1j))], strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5 if dtype == "float32" else 1e-13)
    np.testing.assert_allclose(found[0][3], x.numpy(), atol=1e-6 if dtype == "float32" else 1e-14)


def test_transforms_run_without_scipy() -> None:
    """In a process that cannot import it."""
    program = "import sys; sys.modules['scipy.fft'] = sys.modules['scipy'] = None\nimport jitgrad as j\n"
    program += "print(j.fft.irfft(j.fft.rfft(j.arange(4.0))).tolist())"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[0.0, 1.0, 2.0, 3.0]"
