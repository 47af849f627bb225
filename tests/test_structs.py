"""Classes that are their fields."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from jitgrad.structs import field, replaced, struct, value


@struct
class Line:
    """A line of a list."""

    text: str
    number: int = 7
    marks: list[str] = field(default_factory=list)

    is_line = True

    def shout(self) -> str:
        return self.text.upper()


@struct
class Square:
    """One field follows from the other."""

    side: int
    area: int = 0

    def __post_init__(self) -> None:
        self.area = self.side**2


@value
class Point:
    x: int
    y: int = 0


@value
class Nothing:
    """A value without fields."""


def test_arguments_are_the_fields_in_order() -> None:
    line = Line("a", 2, ["m"])
    assert (line.text, line.number, line.marks) == ("a", 2, ["m"])
    assert Line(number=3, text="b").number == 3


def test_fields_may_follow_from_others() -> None:
    assert Square(3).area == 9


def test_defaults_are_used_where_nothing_is_given() -> None:
    assert Line("a").number == 7


def test_every_object_gets_a_list_of_its_own() -> None:
    first, second = Line("a"), Line("b")
    first.marks.append("x")
    assert second.marks == []


def test_wrong_arguments_raise_what_a_function_raises() -> None:
    with pytest.raises(TypeError, match=r"Line\.__init__\(\) missing 1 required positional argument: 'text'"):
        Line()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        Line("a", size=2)  # type: ignore[call-arg]


def test_there_is_no_room_for_other_names() -> None:
    with pytest.raises(AttributeError):
        Line("a").size = 2  # type: ignore[attr-defined]


def test_what_the_class_says_stays() -> None:
    assert Line.__doc__ == "A line of a list."
    assert Line("a").shout() == "A" and Line.is_line
    assert Line.__module__ == __name__ and Line.__qualname__ == "Line"


def test_structs_are_equal_to_themselves_only() -> None:
    line = Line("a")
    assert line == line and line != Line("a")
    assert len({line, Line("a")}) == 2


def test_values_are_equal_when_their_fields_are() -> None:
    assert Point(1, 2) == Point(1, 2) != Point(1, 3)
    assert Nothing() == Nothing() != Point(0)
    assert len({Point(1), Point(1, 0), Nothing(), Nothing()}) == 2


@pytest.mark.parametrize("made", [Line("a"), Point(1), Nothing()])
def test_the_repr_is_that_of_a_dataclass(made: Any) -> None:
    twin = dataclass(type(type(made).__name__, (), {"__annotations__": dict.fromkeys(made.__slots__, "Any")}))
    assert repr(made) == repr(twin(*[getattr(made, name) for name in made.__slots__]))


def test_a_replaced_field_is_the_only_difference() -> None:
    line = Line("a", 1, ["m"])
    other = replaced(line, number=2)
    assert (other.text, other.number, other.marks) == ("a", 2, ["m"])
    assert other.marks is line.marks and line.number == 1


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_have_the_same_fields(again: Any) -> None:
    assert again(Point(3, 4)) == Point(3, 4)
    assert repr(again(Line("a", 2))) == repr(Line("a", 2))


def test_the_fields_can_be_matched() -> None:
    match Point(3, 4):
        case Point(x, y):
            assert (x, y) == (3, 4)
        case _:
            raise AssertionError
