"""Calls that PyTorch takes, as text: ``python -m tests.attack.sample_calls`` makes ``good_calls.txt`` from its tables.

Owns: how a sample of ``torch.testing._internal`` becomes an expression in which ``jg`` means either library.
Must not know: what is done to these calls, see ``wrong_arguments.py``.

Run it again for a new PyTorch, and look at the difference.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import jitgrad as jg
from tests.attack.draws import NAMES

__all__: list[str] = []

PATH = Path(__file__).with_name("good_calls.txt")
_SPACES = ("", "Tensor.", "nn.functional.", "linalg.", "special.", "fft.", "signal.windows.")
_PER_FUNCTION = 2
_MOST = 3000  # elements of a tensor


def text_of(x: Any) -> str:
    """Python text of an argument.

    Raises:
        ValueError: there is none that means the same in both libraries.
    """
    if isinstance(x, torch.Tensor):
        return _tensor_text(x)
    if isinstance(x, torch.dtype | torch.memory_format | torch.layout):
        name = str(x).removeprefix("torch.")
        if not hasattr(jg, name):
            raise ValueError(name)
        return f"jg.{name}"
    if isinstance(x, torch.Size):
        x = tuple(x)
    if type(x) in (list, tuple):
        parts = ", ".join(map(text_of, x))
        return f"[{parts}]" if type(x) is list else f"({parts}{',' if len(x) == 1 else ''})"
    if type(x) is slice:
        return f"slice({x.start}, {x.stop}, {x.step})"
    if x is None or x is Ellipsis or type(x) in (bool, int, str):
        return repr(x)
    if type(x) is float:
        return repr(x) if x - x == 0 else f"float('{x}')"
    if type(x) is complex:
        return repr(x)
    raise ValueError(repr(x))


def _tensor_text(x: torch.Tensor) -> str:
    if x.layout is not torch.strided or x.is_quantized or x.numel() > _MOST or x.device.type != "cpu":
        raise ValueError("a tensor of another kind")
    dtype = str(x.dtype).removeprefix("torch.")
    if dtype not in ("float32", "float64", "int64", "int32", "bool", "complex64", "uint8"):
        raise ValueError(dtype)
    x, kind = x.detach(), "" if dtype in ("float32", "int64", "bool") else f", dtype=jg.{dtype}"
    if not x.numel() or (x.numel() > 4 and bool((x == 1).all())):
        kind = "" if dtype == "float32" else f", dtype=jg.{dtype}"
        return f"jg.{'ones' if x.numel() else 'zeros'}({', '.join(map(str, x.shape)) or '()'}{kind})"
    if x.numel() <= 9 or dtype in ("bool", "complex64"):
        if x.numel() > 24:
            raise ValueError("many elements")
        return f"jg.tensor({_rounded(x.tolist())}{kind})"
    if x.is_floating_point():
        spread = f"jg.linspace({float(x.min()):.2g}, {float(x.max()):.2g}, {x.numel()}{kind})"
    else:
        spread = f"(jg.arange({x.numel()}{kind}) % {max(int(x.max()), 0) + 1})"
    return f"{spread}.reshape({', '.join(map(str, x.shape))})"


def _rounded(x: Any) -> Any:
    if isinstance(x, list):
        return [_rounded(y) for y in x]
    if isinstance(x, complex):
        return complex(round(x.real, 2), round(x.imag, 2))
    return round(x, 2) if type(x) is float else x


def _call(name: str, args: Any, kwargs: Any) -> str:
    parts = [*map(text_of, args), *(f"{key}={text_of(value)}" for key, value in kwargs.items())]
    return f"jg.{name}({', '.join(parts)})"


def _works(call: str) -> bool:
    names = {"__builtins__": __builtins__}
    for library in (torch, jg):
        try:
            eval(call, {**names, "jg": library})
        except Exception:
            return False
    return True


def _samples(op: Any) -> list[Any]:
    for dtype in (torch.float32, torch.int64, torch.complex64, torch.bool):
        if dtype in op.dtypes:
            found = list(op.sample_inputs("cpu", dtype, requires_grad=False))
            return sorted(found, key=lambda s: -len(s.args) - len(s.kwargs))
    return []


def of_functions() -> Iterator[str]:
    """Of each function in PyTorch's table of operations, and of the methods of its name."""
    from torch.testing._internal.common_methods_invocations import op_db  # seconds

    for op in op_db:
        stems = {name.rpartition(".")[2] for name in (op.name, *(alias.name for alias in op.aliases))}
        names = [f"{space}{stem}{end}" for space in _SPACES for stem in sorted(stems) for end in ("", "_")]
        names = [name for name in names if f"jg.{name}" in NAMES]
        for name in names:
            found: list[str] = []
            for sample in _samples(op):
                try:
                    call = _call(name, (sample.input, *sample.args), sample.kwargs)
                except ValueError:
                    continue
                if len(call) < 300 and call not in found and _works(call):
                    found.append(call)
                if len(found) == _PER_FUNCTION:
                    break
            yield from found


def of_modules() -> Iterator[str]:
    """Of each class in PyTorch's table of modules."""
    from torch.testing._internal.common_modules import module_db  # seconds

    for info in module_db:
        name = f"nn.{info.module_cls.__name__}"
        if getattr(torch.nn, info.module_cls.__name__, None) is not info.module_cls:
            continue
        inputs = info.module_inputs_func(info, "cpu", torch.float32, False, True)
        calls = []
        for one in sorted(inputs, key=lambda i: -len(i.constructor_input.args) - len(i.constructor_input.kwargs)):
            try:
                call = _call(name, one.constructor_input.args, one.constructor_input.kwargs)
            except ValueError:
                continue
            if call not in calls and _works(call):
                calls.append(call)
        yield from calls[:_PER_FUNCTION]


def main() -> None:
    """Write the file."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    PATH.write_text("".join(f"{call}\n" for call in dict.fromkeys([*of_functions(), *of_modules()])))


if __name__ == "__main__":
    main()
