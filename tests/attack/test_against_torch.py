"""A sample of ``python -m tests.attack.against_torch``, and its parts."""

from __future__ import annotations

import os
import zlib
from collections import Counter
from pathlib import Path

import pytest

import jitgrad as jg
from tests.attack.draws import NAMES
from tests.attack.wrong_arguments import WRONG, calls, function_of, good_calls

pytest.importorskip("torch", reason="compares with torch")

from tests.attack import against_torch
from tests.attack.against_torch import KINDS, beside, compare

_EVERY = 30 if os.environ.get("JITGRAD_LONG_TESTS") else 600


def test_nearly_every_function_has_a_good_call() -> None:
    have = {function_of(call).rpartition(".")[2] for call in good_calls()}
    lacking = {name for name in NAMES if name.rpartition(".")[2] not in have}
    assert len(lacking) < 70
    assert len(have) > 900


def test_each_argument_is_replaced_by_each_wrong_thing() -> None:
    found = calls("jg.nn.functional.conv1d(jg.ones(1, 2, 5), jg.ones(3, 2, 2), padding=1)")
    for wrong in WRONG:
        assert f"jg.nn.functional.conv1d({wrong}, jg.ones(3, 2, 2), padding=1)" in found
        assert f"jg.nn.functional.conv1d(jg.ones(1, 2, 5), jg.ones(3, 2, 2), padding={wrong})" in found
    assert "jg.Tensor.abs(None)" not in calls("jg.Tensor.abs(jg.ones(2))")


def test_kinds_of_outcomes() -> None:
    with pytest.raises(TypeError) as caught:  # that jitgrad raises itself
        jg.ones(3).sum("x")
    meant = caught.value
    with pytest.raises(KeyError) as caught_bare:
        {}["x"]
    bare = caught_bare.value
    assert compare(None, None)[0] == "survived"
    assert compare(TypeError("x"), meant)[0] == "refused"
    assert compare(ValueError("x"), None)[0] == "accepted"
    assert compare(None, meant)[0] == "alone"
    assert compare(ValueError("x"), meant)[0] == "other"
    assert compare(ValueError("x"), bare)[0] == "inside"
    assert compare(KeyError("x"), bare)[0] == "refused"


def test_pythons_words_will_do_only_where_pytorch_refuses_too() -> None:
    with pytest.raises(TypeError) as caught:  # jitgrad compares what it is given
        jg.optim.lr_scheduler.LinearLR(jg.optim.SGD([jg.ones(1)], lr=0.1), start_factor="x")
    pythons = caught.value
    assert compare(TypeError("x"), pythons)[0] == "refused"
    assert compare(ValueError("x"), pythons)[0] == "other"
    assert compare(None, pythons)[0] == "inside"


def test_what_has_no_end_or_dies_is_told_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(against_torch, "BUDGET_S", 1)
    monkeypatch.setattr(against_torch, "THEIR_BUDGET_S", 0.5)
    texts = ["jg.ones(2)", "__import__('os').abort()", "jg.ones(3)", "[x for x in iter(int, 1)]", "jg.ones(4)"]
    kinds = [kind for _, kind, _ in beside(texts)]
    assert kinds == ["survived", "inside", "survived", "inside", "survived"]


def test_what_the_long_form_has_found_is_answered() -> None:
    """One call or more of each class that had come out of the inside: ``found_calls.txt``."""
    calls = Path(__file__).with_name("found_calls.txt").read_text().splitlines()
    found = list(beside(calls))
    counts = Counter(kind for _, kind, _ in found)
    print({"tried": len(found), **counts})
    assert len(found) == len(calls) > 150
    assert [row for row in found if row[1] == "inside"] == []
    assert counts["survived"] + counts["refused"] > 0.7 * len(found)


def test_a_sample_of_wrong_arguments_is_refused_in_words() -> None:
    """The long form is run by hand: all of some 400,000."""
    texts = [text for call in good_calls() for text in calls(call)]
    chosen = [text for text in texts if zlib.crc32(text.encode()) % _EVERY == 0]
    found = list(beside(chosen))
    counts = Counter(kind for _, kind, _ in found)
    print({"tried": len(found), **{kind: counts[kind] for kind in (*KINDS, "theirs")}})
    assert len(found) == len(chosen) > 500
    assert [row for row in found if row[1] == "inside"] == []
    assert counts["survived"] + counts["refused"] > 0.9 * len(found)
