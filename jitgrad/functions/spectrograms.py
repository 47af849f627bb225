"""Short-time Fourier transforms: ``stft`` and ``istft`` of ``torch``.

Owns: both functions, their checks and warnings.
Must not know: how transforms are computed (``jitgrad.ops.fourier``). Imported late.

Source: D. W. Griffin and J. S. Lim (1984), "Signal estimation from modified short-time Fourier transform".
"""

from __future__ import annotations

from typing import Any

from jitgrad.functions.creation import ones
from jitgrad.functions.joining import pad
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.fourier import BY_N, BY_ROOT_N, NONE
from jitgrad.tensor_base import TensorBase
from jitgrad.user_line import warn_once

__all__ = ["istft", "stft"]

_NO_WINDOW = "A window was not provided. A rectangular window will be applied"
_TO_SUPPRESS = (
    "To suppress this warning and use a rectangular window, explicitly set `window=torch.ones(n_fft, device=<device>)`."
)
_LEAKS = (
    f"{_NO_WINDOW},which is known to cause spectral leakage. Other windows such as torch.hann_window or "
    f"torch.hamming_window are recommended to reduce spectral leakage.{_TO_SUPPRESS}"
)
_LOSES = f"{_NO_WINDOW}.Please provide the same window used by stft to make the inversion lossless.{_TO_SUPPRESS}"
_REAL_PAIRS = (
    "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex tensors for "
    "all inputs, and return_complex=False will raise an error.\nNote: you can still call torch.view_as_real on the "
    "complex output to recover the old return format."
)
_PADDED = (
    "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. Please "
    "check your center and hop_length settings."
)
_ONE_SIDE = "Cannot have onesided output if window or input is complex"


def _is_complex(x: Any) -> bool:
    return bool(x is not None and x._aval.dtype.is_complex)


def _check_kinds(name: str, input: Any, ints: dict[str, Any], window: Any) -> None:
    if not isinstance(input, TensorBase):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    for argument, value in ints.items():
        is_int = hasattr(value, "__index__") and not isinstance(value, bool | TensorBase)
        if not is_int and (value is not None or argument == "n_fft"):
            raise TypeError(f"{name}(): argument '{argument}' must be int, not {type(value).__name__}")
    if window is not None and not isinstance(window, TensorBase):
        raise TypeError(f"{name}(): argument 'window' must be Tensor, not {type(window).__name__}")


def _shown(name: str, input: Any, window: Any, **others: Any) -> str:
    """The call, in front of a message."""
    facts = {**others, "window": None if window is None else f"{window.dtype}{list(window.shape)}"}
    return f"{name}({input.dtype}{list(input.shape)}, {', '.join(f'{k}={v}' for k, v in facts.items())})"


def _centred(window: Any, n_fft: int) -> Any:
    """A window with zeros on both sides, ``n_fft`` long."""
    missing = n_fft - window.shape[0]
    return pad(window, (missing // 2, missing - missing // 2)) if missing else window


def _mirrored(input: Any, width: int, mode: str) -> Any:
    whole = input.reshape((1,) * (3 - input.ndim) + tuple(input.shape))
    return pad(whole, (width, width), mode).reshape((*input.shape[:-1], input.shape[-1] + 2 * width))


def _check_stft(where: str, x: Any, n_fft: int, hop: int, win: int, window: Any) -> None:
    if x.ndim not in (1, 2):
        raise RuntimeError(f"{where} : expected a 1D or 2D tensor")
    if not x._aval.dtype.is_inexact:
        raise RuntimeError(f"{where} : expected a tensor of floating point or complex values")
    if not 0 < n_fft <= x.shape[-1]:
        raise RuntimeError(f"{where} : expected 0 < n_fft < {x.shape[-1]}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"{where} : expected hop_length > 0, but got hop_length={hop}")
    if not 0 < win <= n_fft:
        raise RuntimeError(f"{where} : expected 0 < win_length <= n_fft, but got win_length={win}")
    if window is not None and tuple(window.shape) != (win,):
        raise RuntimeError(
            f"{where} : expected a 1D window tensor of size equal to win_length={win}, but got window with size "
            f"{list(window.shape)}"
        )


@float32_in_autocast
def stft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
    center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Any:  # fmt: skip
    """The Fourier transforms of short windows of a signal, ``hop_length`` samples apart.

    Args:
        input: [time] or [batch, time], floating or complex.
        n_fft: points of each transform.
        hop_length: Default: ``n_fft // 4``.
        win_length: length of the window, in the middle of ``n_fft`` points. Default: ``n_fft``.
        window: [win_length]; None: ones, with a warning.
        center: the middle of frame t is sample ``t * hop_length``: the signal goes on by ``n_fft // 2`` samples on both
            sides, as ``pad_mode`` says (see ``pad``).
        normalized: each transform has the factor ``1 / sqrt(n_fft)``.
        onesided: half of the spectrum. Default: where input and window are real.
        return_complex: False: pairs of real numbers, which is deprecated; it must be given where input and window are
            real.
        align_to_window: where ``center`` is False: the first frame's window, not its ``n_fft`` points, begins with the
            signal.

    Returns:
        [(batch,) frequencies, frames], complex.

    Raises:
        RuntimeError: sizes that do not fit, integers, half a spectrum of complex numbers.
    """
    _check_kinds("stft", input, {"n_fft": n_fft, "hop_length": hop_length, "win_length": win_length}, window)
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    hop = n_fft >> 2 if hop_length is None else hop_length
    win = n_fft if win_length is None else win_length
    if center and 1 <= input.ndim <= 2:
        input = _mirrored(input, n_fft // 2, pad_mode)
    if window is None:
        warn_once(_LEAKS)
    is_complex = _is_complex(input) or _is_complex(window)
    if return_complex is None and not is_complex:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further require that "
            "return_complex=True in a future PyTorch release."
        )
    if return_complex is False:
        warn_once(_REAL_PAIRS)
    where = _shown(
        "stft", input, window, n_fft=n_fft, hop_length=hop, win_length=win, normalized=normalized, onesided=onesided,
        return_complex=return_complex, align_to_window=align_to_window,
    )  # fmt: skip
    _check_stft(where, input, n_fft, hop, win, window)
    if window is None and win < n_fft:
        window = ones((win,), dtype=input.dtype, device=input.device)
    if align_to_window:
        input = pad(input, ((n_fft - win) // 2, n_fft - win - (n_fft - win) // 2))
    frames = input.unfold(-1, n_fft, hop)
    if window is not None:
        frames = frames * _centred(window, n_fft)
    made = _spectra(frames, BY_ROOT_N if normalized else NONE, onesided).transpose(-1, -2)
    return call("view_as_real", made) if return_complex is False else made


def _spectra(frames: Any, norm: int, onesided: bool | None) -> Any:
    dims = (frames.ndim - 1,)
    if not _is_complex(frames):
        return call("_fft_r2c", frames, dims, norm, onesided is None or bool(onesided))
    if onesided:
        raise RuntimeError(_ONE_SIDE)
    return call("_fft_c2c", frames, dims, norm, True)


def _check_istft(where: str, x: Any, n_fft: int, hop: int, win: int, window: Any, onesided: bool) -> None:
    if not x.numel():
        raise RuntimeError(f"{where} : input tensor cannot be empty.")
    if x.ndim not in (2, 3):
        raise RuntimeError(f"{where} : expected a tensor with 2 or 3 dimensions, but got {x.ndim}")
    if x.shape[-2] != (n_fft // 2 + 1 if onesided else n_fft):
        raise RuntimeError(
            f"{where} : expected the frequency dimension (2nd to the last) of the input tensor to match "
            f"{'n_fft / 2 + 1' if onesided else 'n_fft'} when onesided={onesided}, but got {x.shape[-2]}"
        )
    if not 0 < hop <= win:
        raise RuntimeError(f"{where} : expected 0 < hop_length <= win_length")
    if not 0 < win <= n_fft:
        raise RuntimeError(f"{where} : expected 0 < win_length <= n_fft")
    if window is not None and tuple(window.shape) != (win,):
        raise RuntimeError(f"{where} : Invalid window shape. window has to be 1D and length of `win_length`")


def _signals(x: Any, n_fft: int, norm: int, onesided: bool, return_complex: bool, window: Any) -> Any:
    """The signal in each frame: [..., frames, n_fft]."""
    dims = (x.ndim - 1,)
    if return_complex:
        if onesided:
            raise RuntimeError(_ONE_SIDE)
        return call("_fft_c2c", x, dims, norm, False)
    if _is_complex(window):
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    half = x if onesided else x[..., : n_fft // 2 + 1]
    return call("_fft_c2r", half, dims, norm, n_fft)


def istft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None,
    return_complex: bool = False,
) -> Any:  # fmt: skip
    """The signal whose ``stft`` is nearest to ``input``, in least squares.

    Args:
        input: [frequencies, frames] or [batch, frequencies, frames], complex.
        n_fft, hop_length, win_length, window, center, normalized: as ``stft`` was given them.
        onesided: the input is half of the spectrum. Default: its size says so.
        length: of the signal; zeros follow it where frames say nothing, with a warning. Default: what frames say.
        return_complex: the signal is complex.

    Returns:
        [(batch,) time].

    Raises:
        RuntimeError: sizes that do not fit, real input, or a sample on which every window is 0.
    """
    ints = {"n_fft": n_fft, "hop_length": hop_length, "win_length": win_length, "length": length}
    _check_kinds("istft", input, ints, window)
    if window is None:
        warn_once(_LOSES)
    hop = n_fft >> 2 if hop_length is None else hop_length
    win = n_fft if win_length is None else win_length
    if not _is_complex(input):
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    where = _shown(
        "istft", input, window, n_fft=n_fft, hop_length=hop, win_length=win, center=center, normalized=normalized,
        onesided=onesided, length=length, return_complex=return_complex,
    )  # fmt: skip
    half = input.ndim < 2 or input.shape[-2] != n_fft if onesided is None else bool(onesided)
    _check_istft(where, input, n_fft, hop, win, window, half)
    if window is None:
        window = ones((win,), dtype=input.dtype.to_real(), device=input.device)
    window = _centred(window, n_fft)
    norm = BY_ROOT_N if normalized else BY_N
    parts = _signals(input.transpose(-1, -2), n_fft, norm, half, return_complex, window) * window
    return _overlapped(where, parts, window, hop, center, length)


def _overlapped(where: str, parts: Any, window: Any, hop: int, center: bool, length: int | None) -> Any:
    """Frames [..., frames, n_fft], added up where they overlap, over the sum of the window's squares there."""
    frames, n_fft = parts.shape[-2:]
    if length is not None and length < 0:
        raise RuntimeError(f"{where} : expected length >= 0")
    total = n_fft + hop * (frames - 1)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - start
    weights = call("unfold_backward", (window * window).expand(frames, n_fft), (total,), 0, n_fft, hop)[start:end]
    if weights.numel() and bool((weights.detach().abs().min() < 1e-11).item()):
        raise RuntimeError(f"{where} window overlap add min: 1")
    shape = (*parts.shape[:-2], total)
    signal = call("unfold_backward", parts, shape, len(shape) - 1, n_fft, hop)[..., start:end] / weights
    if end > total:
        warn_once(_PADDED)
        signal = pad(signal, (0, end - total))
    return signal
