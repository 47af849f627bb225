"""What stands for functions of PyTorch's inside, see ``private_names.py``.

Owns: these functions; each does what PyTorch's of that name does.
Must not know: who imports them.
"""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from jitgrad import dtypes, formatting
from jitgrad.functions import empty, tensor
from jitgrad.layouts import layout
from jitgrad.runtime.native.pool import get_num_threads
from jitgrad.tensor import Tensor
from jitgrad.transforms.level import active_levels
from jitgrad.version import TORCH_VERSION

__all__ = [
    "HASH_REGEX", "PRINT_OPTS", "SPARSE_BLOCK_SIZE", "AuxRequest", "BlockMask", "CUDAGraph", "Event", "FakeTensor",
    "Graph", "GraphModule", "MapLocation", "MappingKey", "MemPool", "Node", "ProcessGroup", "ReduceOp", "Stream",
    "StreamContext", "Tracer", "as_it_is", "assert_", "assert_async", "cast_double", "cast_float", "cast_int",
    "cast_long", "check", "check_index", "check_not_implemented", "check_type", "check_value", "clipped_sigmoid",
    "config", "dict_flatten", "dict_flatten_with_keys", "dict_unflatten", "flex_attention", "graph", "in_transform",
    "is_fake", "jagged", "list_with_default", "nothing", "ntuple", "nvtx_mark", "nvtx_range", "ops", "pair",
    "parallel_info", "quadruple", "required", "reverse_repeat_tuple", "scatter", "shape_as_tensor", "show_config",
    "single", "sparse_bsc", "sparse_bsr", "sparse_csc", "sparse_csr", "standard_normal", "tensor_str", "triple",
    "typename",
]  # fmt: skip

MapLocation = Any
"""The type of the argument ``map_location``: a function, a device, its name, a dictionary of names, or None."""


HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
"""The hash in the name of a file of weights."""


class _Required:
    """The default of an option without a default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that makes a tuple of anything iterable, and ``n`` times the value of anything else."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


single, pair, triple, quadruple = (
    ntuple(n, name) for n, name in enumerate(("_single", "_pair", "_triple", "_quadruple"), 1)
)


def reverse_repeat_tuple(t: Sequence[Any], n: int) -> tuple[Any, ...]:
    """(a, b), 2: (b, b, a, a): padding per dimension as ``nn.functional.pad`` takes it."""
    return tuple(x for x in reversed(t) for _ in range(n))


def list_with_default(out_size: Any, defaults: Sequence[int]) -> Any:
    """Sizes, where None is the last of ``defaults`` at that place. ValueError: too few defaults."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [d if size is None else size for size, d in zip(out_size, defaults[-len(out_size) :], strict=True)]


def standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Any:
    """Standard normal numbers."""
    return empty(tuple(shape), dtype=dtype, device=device).normal_()


def shape_as_tensor(x: Any) -> Any:
    """The shape as an int64 tensor of (rank,)."""
    return tensor(list(x.shape), dtype=dtypes.int64)


def _cast(dtype: Any) -> Callable[..., Any]:
    def cast(x: Any, non_blocking: bool = False) -> Any:
        return x.to(dtype)

    return cast


cast_double, cast_float = _cast(dtypes.float64), _cast(dtypes.float32)
cast_int, cast_long = _cast(dtypes.int32), _cast(dtypes.int64)


def clipped_sigmoid(x: Any) -> Any:
    """The sigmoid, kept inside (0, 1)."""
    limits = dtypes.finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)


def show_config() -> str:
    """What this is, for people and for libraries that look for the names of PyTorch's own parts."""
    return f"jitgrad, which stands for PyTorch {TORCH_VERSION}; kernels by LLVM, BLAS of NumPy\n"


def parallel_info() -> str:
    """How many threads kernels run on."""
    return f"jitgrad's pool of threads: {get_num_threads()}\n"


# --- assertions ---


def assert_(condition: Any, message: str) -> None:
    """AssertionError unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def assert_async(condition: Any, message: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """RuntimeError unless the condition, a tensor of one element, holds."""
    if not condition:
        raise RuntimeError(message)


def _checking(error: type[Exception]) -> Callable[..., None]:
    def check(cond: bool, message: Callable[[], Any] | None = None) -> None:
        if not isinstance(cond, bool):
            raise TypeError(f"cond must be a bool, but got {type(cond)}")
        if not cond:
            text = "Expected cond to be True, but got False. (Could this error message be improved?)"
            raise error(text if message is None else str(message()))

    return check


check, check_index = _checking(RuntimeError), _checking(IndexError)
check_not_implemented, check_type = _checking(NotImplementedError), _checking(TypeError)
check_value = _checking(ValueError)


# --- what there is no GPU for, options of a compiler, graphs as data ---


def _without(*names: str, why: str) -> Iterator[type]:
    """Classes without objects; libraries ask ``isinstance(model, GraphModule)``."""
    for name in names:

        def start(self: Any, *_: Any, **__: Any) -> None:
            raise NotImplementedError(f"{type(self).__name__}: {why}")

        yield type(name, (), {"__init__": start, "__doc__": f"No object is one: {why}"})


jagged, sparse_bsc, sparse_bsr, sparse_csc, sparse_csr = map(
    layout, ("jagged", "sparse_bsc", "sparse_bsr", "sparse_csc", "sparse_csr")
)
"""Layouts that no tensor has here; libraries compare."""
(FakeTensor,) = _without("FakeTensor", why="nothing is traced ahead of time; a tensor on meta has no data")
CUDAGraph, Event, MemPool, Stream, StreamContext, graph = _without(
    *("CUDAGraph", "Event", "MemPool", "Stream", "StreamContext", "graph"),
    why="there is no GPU; guard it by torch.cuda.is_available()",
)
(ProcessGroup,) = _without("ProcessGroup", why="jitgrad trains in one process")
Graph, GraphModule, Node, Tracer = _without(
    *("Graph", "GraphModule", "Node", "Tracer"),
    why="a step has no graph as data; jitgrad.explain shows what a compiled step does",
)


class ReduceOp(enum.Enum):
    """How processes combine their values; the default of arguments, for there is one process."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = range(8)


AuxRequest, BlockMask = _without("AuxRequest", "BlockMask", why="there is no flex_attention")
SPARSE_BLOCK_SIZE = 128


def flex_attention(*_: Any, **__: Any) -> None:
    """NotImplementedError: masks are tensors here."""
    raise NotImplementedError("there is no flex_attention; use scaled_dot_product_attention with a mask")


def nvtx_mark(*_: Any, **__: Any) -> None:
    """RuntimeError, as PyTorch on a machine without a GPU."""
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


class _Options:
    """Options that may be set, and are False until then: ``torch._dynamo.config``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return False


config = _Options()


def is_fake(x: Any) -> bool:
    """False: nothing is traced ahead of time."""
    return False


def in_transform() -> bool:
    """Whether a ``vmap`` or a forward-mode derivative is running in this thread."""
    return bool(active_levels())


def typename(obj: Any) -> str:
    """The name of an object's type, or of a type, with its module; of a tensor what ``type()`` says."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    return named.__qualname__ if named.__module__ == "builtins" else f"{named.__module__}.{named.__qualname__}"


class _OperatorName:
    """A name of PyTorch's table of operators, ``torch.ops.aten.clone.default``; libraries compare and look it up."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> _OperatorName:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self.__dict__[name] = _OperatorName(f"{self._path}.{name}")
        return found

    def __call__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError(f"{self._path}: there is no table of operators; call the function of that name")

    def __repr__(self) -> str:
        return self._path


ops = _OperatorName("torch.ops")


def nothing(*_: Any, **__: Any) -> None:
    """A hint to PyTorch's compiler; jitgrad needs none."""


@contextlib.contextmanager
def nvtx_range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """RuntimeError when the block begins, or a function that it decorates is called."""
    nvtx_mark(msg)
    yield


def scatter(*_: Any, **__: Any) -> None:
    """RuntimeError: batches are split over GPUs, of which there is none."""
    raise RuntimeError("there is no GPU to split a batch over, or to gather one from")


def as_it_is(fn: Any) -> Any:
    """The function: nothing traces it."""
    return fn


# --- text of tensors ---


class _PrintOptions:
    """What ``set_printoptions`` set, as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return formatting._options[name]
        except KeyError:
            raise AttributeError(name) from None


PRINT_OPTS = _PrintOptions()


def tensor_str(x: Any, indent: int) -> str:
    """The numbers of a tensor as ``repr`` shows them, without what is around them."""
    return formatting._NUMBER_TEXT.number_body(x.detach().cpu().numpy(), formatting._options, indent)


# --- trees of containers ---


class MappingKey(NamedTuple):
    """The way from a dictionary to one of its values."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The value."""
        return mapping[self.key]


def dict_flatten(d: Any) -> tuple[list[Any], list[Any]]:
    """Values and keys."""
    return list(d.values()), list(d)


def dict_flatten_with_keys(d: Any) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    """(key, value) of each, and the keys."""
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def dict_unflatten(values: Iterable[Any], context: list[Any]) -> dict[Any, Any]:
    """A dictionary of values and keys."""
    return dict(zip(context, values, strict=True))
