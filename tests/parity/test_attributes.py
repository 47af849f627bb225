"""What users set on tensors: kept where PyTorch keeps it, in steps too, and gone with the tensor."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from typing import Any

import pytest

import jitgrad
from tests.conftest import Mode

torch = pytest.importorskip("torch")

MAKE = {
    "a tensor": lambda lib: lib.ones(2),
    "a leaf": lambda lib: lib.ones(2, requires_grad=True),
    "a parameter": lambda lib: lib.nn.Parameter(lib.ones(2)),
}


def _saved(lib: Any, x: Any) -> Any:
    file = io.BytesIO()
    lib.save(x, file)
    file.seek(0)
    return lib.load(file).foo


def _deleted(x: Any) -> bool:
    del x.foo
    return hasattr(x, "foo")


def _own_method(x: Any) -> Any:
    x.add = 3
    return x.add


def _through_the_dictionary(x: Any) -> Any:
    x.__dict__["bar"] = 2
    return x.bar, vars(x)


def _swapped(lib: Any, x: Any) -> Any:
    other = lib.zeros(2, requires_grad=x.requires_grad)
    if type(x) is not type(other):
        return None
    lib.utils.swap_tensors(x, other)
    return hasattr(x, "foo"), other.foo


PROGRAMS = {
    "get": lambda lib, x: x.foo,
    "getattr": lambda lib, x: (getattr(x, "foo", 0), getattr(x, "bar", 0)),
    "dictionary": lambda lib, x: _through_the_dictionary(x),
    "copy": lambda lib, x: (copy.copy(x).foo, copy.copy(x).foo is x.foo),
    "deepcopy": lambda lib, x: (copy.deepcopy(x).foo, copy.deepcopy(x).foo is x.foo),
    "pickle": lambda lib, x: pickle.loads(pickle.dumps(x)).foo,
    "save": _saved,
    "detach": lambda lib, x: x.detach().foo,
    "clone": lambda lib, x: x.clone().foo,
    "data": lambda lib, x: x.data.foo,
    "view": lambda lib, x: x.view(2).foo,
    "to": lambda lib, x: x.to(lib.float32).foo,
    "to another": lambda lib, x: x.to(lib.float64).foo,
    "requires_grad_": lambda lib, x: x.requires_grad_().foo,
    "del": lambda lib, x: _deleted(x),
    "del of none": lambda lib, x: delattr(x, "nothing"),
    "a method's name": lambda lib, x: _own_method(x),
    "shape": lambda lib, x: setattr(x, "shape", 3),
    "grad_fn": lambda lib, x: setattr(x, "grad_fn", 3),
    "is_leaf": lambda lib, x: setattr(x, "is_leaf", 3),
    "swap": _swapped,
}


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("name", PROGRAMS)
def test_attributes(name: str, kind: str) -> None:
    def outcome(lib: Any) -> Any:
        x = MAKE[kind](lib)
        x.foo = [1]
        try:
            return PROGRAMS[name](lib, x)
        except Exception as error:
            return type(error)

    found, expected = outcome(jitgrad), outcome(torch)
    if (name, kind) == ("deepcopy", "a parameter"):  # PyTorch forgets them there
        assert (found, expected) == (([1], False), AttributeError)
        return
    if isinstance(expected, type):
        assert isinstance(found, type)
        assert issubclass(found, expected)
    else:
        assert found == expected


@pytest.mark.parametrize("kind", MAKE)
def test_files_with_attributes(kind: str) -> None:
    """Either library reads what the other wrote."""
    for writer, reader in ((jitgrad, torch), (torch, jitgrad)):
        x = MAKE[kind](writer)
        x.foo, x.no_decay = [1, "a"], True
        file = io.BytesIO()
        writer.save({"x": x, "y": x}, file)
        file.seek(0)
        found = reader.load(file)
        assert (found["x"].foo, found["x"].no_decay, type(found["x"]).__name__) == ([1, "a"], True, type(x).__name__)
        assert found["x"] is found["y"]


def test_attributes_in_a_step(mode: Mode) -> None:
    def step(x: Any, w: Any) -> Any:
        y = x * w
        assert not hasattr(y, "mark"), "a handle that was used before has kept an attribute"
        y.mark = ["fresh"]
        z = y + 1
        assert not hasattr(z, "mark")
        w.seen = getattr(w, "seen", 0) + 1
        z.from_ = y
        z.sum().backward()
        return z

    w = jitgrad.ones(3, requires_grad=True)
    z = mode.run(step, lambda: (jitgrad.ones(3), w))
    assert z.from_.mark == ["fresh"]
    assert w.seen == {"eager": 1, "cold": 1, "warm": 3}[mode.name]
    assert z.from_.tolist() == [1.0, 1.0, 1.0]


def test_handles_that_are_used_again_have_none_of_the_old_attributes() -> None:
    died = []

    class Mark:
        pass

    @jitgrad.compile
    def step(x: Any, marks: bool) -> Any:
        total = x
        for _ in range(20):
            total = total * 1.5
            assert vars(total) == {} if not marks else True
            if marks:
                total.mark = mark = Mark()
                died.append(weakref.ref(mark))
                del mark
        return total

    for turn in range(40):
        step(jitgrad.ones(2), turn % 2 == 1)
    del step
    gc.collect()
    assert len(died) == 400
    assert all(reference() is None for reference in died)


def test_weak_references_and_cycles() -> None:
    x = jitgrad.ones(2)
    x.me = x
    found = weakref.ref(x)
    table = weakref.WeakValueDictionary({1: x})
    assert found() is x
    del x
    gc.collect()
    assert found() is None
    assert not table


def test_attributes_of_subclasses_of_data() -> None:
    class Own(jitgrad.Tensor):
        pass

    x = jitgrad.ones(2)
    x.extra = 5
    assert not hasattr(x.as_subclass(Own), "extra") if hasattr(x, "as_subclass") else True
    buffer = jitgrad.nn.Buffer(jitgrad.ones(2))
    buffer.tag = "b"
    assert copy.deepcopy(buffer).tag == "b"
