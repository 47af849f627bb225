"""Calls of every public function with arguments that nobody would give it.

Owns: ``NAMES``, ``Attack``, ``draw``: what is called, and with what.
Must not know: how a call is run, what may come of it.

Arguments are drawn by the function's signature, where ``jitgrad/functions/signatures.py`` has one, else by the names of
its parameters: mostly of the kind that fits, so that the call gets past the check of its arguments, with values that
do not: extents of 0 and 2**62, dimensions that are not there, NaN, memory that overlaps.
"""

from __future__ import annotations

import inspect
import random
import types
from typing import Any, NamedTuple

import jitgrad as jg
from jitgrad.functions.signatures import NOT_PARSED, SIGNATURES

__all__ = ["NAMES", "Attack", "draw"]

TENSORS = (
    *["jg.arange(3.)", "jg.ones(2, 3)", "jg.ones(3, 3)", "jg.ones(2, 3, 4)", "jg.ones(1, 3, 5, 5)"] * 3,
    *["jg.tensor(1.5)"] * 3,
    *["jg.ones(3, requires_grad=True)", "jg.ones(2, 3, requires_grad=True)", "jg.eye(3, requires_grad=True)"] * 3,
    "jg.ones(1, 2, 6, 6, requires_grad=True)", "jg.ones(2, 3, 4, requires_grad=True)", "jg.ones(1, 1, 2, 2, 2)",
    "jg.zeros(0)", "jg.zeros(0, 3)", "jg.zeros(3, 0)", "jg.zeros(2, 0, 3)", "jg.zeros(0, requires_grad=True)",
    "jg.zeros(3, 3)", "jg.full((3,), float('nan'))", "jg.full((2, 3), float('inf'))", "-jg.ones(3)",
    "jg.tensor([1e38, -3e37, 1e-40])", "jg.ones(1).expand(4)", "jg.ones(3, 1).expand(3, 4)",
    "jg.ones(1).expand(1 << 8)",
    "jg.arange(6.).as_strided((3, 3), (1, 1))", "jg.arange(12.).reshape(3, 4).t()", "jg.arange(12.)[::2]",
    "jg.arange(12.)[5:8]", "jg.ones(2, 2, 2, 2, 2, 2)", "jg.ones(3, dtype=jg.float64)", "jg.ones(3, dtype=jg.float16)",
    "jg.ones(2, 3, dtype=jg.bfloat16)", "jg.ones(3, dtype=jg.complex64)", "jg.ones(2, 2, dtype=jg.complex128)",
    "jg.tensor([0, 1, 2])", "jg.ones(2, 3).bool()", "jg.ones(3, dtype=jg.uint8)", "jg.ones(3, dtype=jg.int32)",
    "jg.randperm(9).reshape(3, 3) - 4.5",
)  # fmt: skip
INDICES = (
    "jg.tensor([0, 1, 2])", "jg.tensor([[0, 1, 2]])", "jg.tensor([0])", "jg.tensor(1)", "jg.tensor([-1, 0, 1])",
    "jg.tensor([3, 0, 0])", "jg.tensor([2**62])", "jg.tensor([-(2**63), 2**63 - 1, 0])", "jg.tensor([[0, 1], [2, 9]])",
    "jg.zeros(0, dtype=jg.int64)", "jg.tensor([0, 1], dtype=jg.int32)", "jg.tensor([-5], dtype=jg.int32)",
    "jg.tensor([1]).expand(3)", "jg.tensor([True, False, True])", "jg.zeros(2, 3, dtype=jg.int64)",
    "jg.tensor([255], dtype=jg.uint8)", "jg.zeros(1, 3, 5, dtype=jg.int64)",
)  # fmt: skip
SMALL = ("0", "1", "2", "3", "-1", "-2", "4", "1", "2")
WILD = (
    "7", "-7", "2**31 - 1", "2**31", "-(2**31)", "2**40", "2**62", "2**63 - 1", "-(2**63)", "2**63", "2**64", "10**30",
    "True",
)  # fmt: skip
FLOATS = (
    "0.0", "0.5", "1.0", "-1.5", "2.0", "float('nan')", "float('inf')", "-float('inf')", "1e308", "5e-324", "1e39",
)  # fmt: skip
SCALARS = (*FLOATS, *SMALL, "2**63 - 1", "2**64", "True", "1j", "jg.tensor(2.)")
STRINGS = (
    "mean", "sum", "none", "constant", "reflect", "replicate", "circular", "bilinear", "nearest", "bicubic", "ij", "xy",
    "amax", "amin", "prod", "reduced", "complete", "r", "fro", "nuc", "tanh", "floor", "trunc", "linear", "border",
    "same", "valid", "ortho", "", "?", "i,j->ij", "...i->i", "ii", "batchmean", "higher",
)  # fmt: skip
DTYPES = ("jg.float32", "jg.float64", "jg.int64", "jg.bool", "jg.complex64", "jg.bfloat16", "jg.uint8", "None")
STRANGE = (
    "None", "'x'", "1.5", "object()", "[]", "()", "{}", "(1.5,)", "[None]", "jg.float32", "jg.ones", "(2, 'a')", "-0.0",
    "slice(None, None, -1)", "...", "[[1], [1, 2]]", "b'xy'", "range(3)", "jg.ones(2)", "jg.tensor(True)",
)  # fmt: skip

_INDEX_NAMES = frozenset(
    "index indices indices_or_sections target targets repeats input_lengths target_lengths offsets mask sorter pivots "
    "crow_indices".split()
)
_INT_NAMES = frozenset(
    "dim dims dim0 dim1 dim2 axis n k m steps size sizes shape kernel_size stride padding dilation groups offset num "
    "start end step length output_size output_padding chunks sections num_classes num_groups downscale_factor "
    "upscale_factor n_fft hop_length win_length correction diagonal row col r order degree window_length".split()
)
_LEFT_OUT = frozenset(
    # what they change outlives the call; files; what takes functions; what draws or prints
    "set_default_device set_default_dtype set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal "
    "set_num_interop_threads set_num_threads set_printoptions set_rng_state set_warn_always set_anomaly_enabled seed "
    "manual_seed load save from_file compile eager benchmark explain verify watch_nan memory_use draw_graph to_dot "
    "gradient_flow kernel vectorize vmap stats reset_stats late_names late_module why_none warn_user as_torch "
    "use_deterministic_algorithms backward register_hook register_post_accumulate_grad_hook apply_ map_ map2_ "
    "share_memory_ record_stream takes_out as_subclass cuda vcpu to_device data_ptr sampled initial_seed "
    "is_shared pin_memory module_load from_dlpack frombuffer get_default_device numpy_rule".split()
)


class Attack(NamedTuple):
    """One call.

    Attributes:
        name: the function, as an expression.
        args: expressions.
        kwargs: (name, expression) each.
    """

    name: str
    args: tuple[str, ...]
    kwargs: tuple[tuple[str, str], ...]

    @property
    def is_strange(self) -> bool:
        """Whether an argument is of no kind that the function could take."""
        return any(text in STRANGE for text in (*self.args, *(text for _, text in self.kwargs)))

    def __str__(self) -> str:
        return f"{self.name}({', '.join([*self.args, *(f'{name}={text}' for name, text in self.kwargs)])})"


def _names() -> dict[str, list[tuple[str, str, bool]]]:
    """Of each function, its parameters: (name, kind in the notation of signatures, whether it may be left out)."""
    places = {
        "jg": jg, "jg.nn.functional": jg.nn.functional, "jg.linalg": jg.linalg, "jg.special": jg.special,
        "jg.fft": jg.fft, "jg.signal.windows": jg.signal.windows, "jg.Tensor": jg.Tensor,
    }  # fmt: skip
    found = {}
    for place, module in places.items():
        is_small = place in ("jg.linalg", "jg.special", "jg.fft", "jg.signal.windows")  # there are helpers in them
        for name in sorted(module.__all__ if is_small else dir(module)):
            function = getattr(module, name, None)
            if name.startswith("_") or name in _LEFT_OUT or isinstance(function, type):
                continue
            if isinstance(function, types.FunctionType | types.BuiltinFunctionType):
                found[f"{place}.{name}"] = _parameters(name, function)
    for name in ("__getitem__", "__setitem__", "__pow__", "__matmul__", "__iadd__", "__lshift__", "__floordiv__"):
        second = "index" if "item" in name else "other"
        found[f"jg.Tensor.{name}"] = [("input", "Tensor", False), (second, "any", False)]
    found["jg.Tensor.__setitem__"].append(("value", "Scalar", False))
    return {name: parameters for name, parameters in found.items() if parameters is not None}


def _parameters(name: str, function: Any) -> list[tuple[str, str, bool]]:
    if name in SIGNATURES and name not in NOT_PARSED:
        forms = SIGNATURES[name].split(" | ")
        texts = [part for form in forms for part in form.split(", ") if "..." not in part]
        parts = [text.split() for text in texts if len(text.split()) > 1]
        names = [(words[1].lstrip("*").partition("=")[0], words[0], "=" in words[1]) for words in parts]
        if names:
            kinds = dict.fromkeys(name for name, _, _ in names)
            return [next(row for row in names if row[0] == name) for name in kinds if name != "device"]
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [("input", "Tensor", False), ("other", "any", True)]
    named = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    return [(p.name, _kind(p.name, p.default), p.default is not p.empty) for p in named]


def _kind(name: str, default: Any) -> str:
    if isinstance(default, bool):
        return "bool"
    if isinstance(default, str):
        return "str"
    if name in _INT_NAMES or isinstance(default, int):
        return "int[]" if name.endswith(("s", "size", "padding", "stride", "dilation", "shape")) else "int"
    if isinstance(default, float):
        return "float"
    return "dtype" if name == "dtype" else "Tensor" if default is inspect.Parameter.empty else "any"


NAMES = _names()
"""Of each function, its parameters."""


def _value(rng: random.Random, name: str, kind: str) -> str:
    kind = kind.rstrip("?")
    if rng.random() < 0.04:
        return rng.choice(STRANGE)
    if name in _INDEX_NAMES and kind in ("Tensor", "any") and rng.random() < 0.85:
        return rng.choice(INDICES)
    if kind == "Tensor[]" or (kind == "Tensor" and name in ("tensors", "arrays", "matrices")):
        return "[" + ", ".join(rng.choice(TENSORS) for _ in range(rng.choice((0, 1, 2, 2, 3)))) + "]"
    if kind.startswith("int["):
        return _ints(rng) if rng.random() < 0.8 else _int(rng)
    draw = {
        "Tensor": lambda: rng.choice(TENSORS), "int": lambda: _int(rng), "float": lambda: rng.choice(FLOATS),
        "Scalar": lambda: rng.choice(SCALARS), "bool": lambda: rng.choice(("True", "False")),
        "str": lambda: repr(rng.choice(STRINGS)), "dtype": lambda: rng.choice(DTYPES),
    }  # fmt: skip
    return draw[kind]() if kind in draw else draw[rng.choice(("Tensor", "int", "Scalar", "float"))]()


def _int(rng: random.Random) -> str:
    return rng.choice(SMALL if rng.random() < 0.7 else WILD)


def _ints(rng: random.Random) -> str:
    return "(" + "".join(f"{_int(rng)}, " for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4)))) + ")"


def draw(seed: int) -> Attack:
    """The call that belongs to a number: always the same one, whatever other functions there are."""
    names = list(NAMES)
    name = names[seed % len(names)]
    rng = random.Random(f"{name} {seed // len(names)}")
    args, kwargs = [], []
    for at, (parameter, kind, is_optional) in enumerate(NAMES[name]):
        if is_optional and rng.random() < 0.6:
            continue
        text = _value(rng, parameter, "Tensor" if at == 0 and name.startswith("jg.Tensor.") else kind)
        if at == 0 and name.startswith("jg.Tensor.") and not text.startswith(("jg.", "-jg.")):
            text = rng.choice(TENSORS)
        if is_optional or kwargs:
            kwargs.append((parameter, text))
        else:
            args.append(text)
    return Attack(name, tuple(args), tuple(kwargs))
