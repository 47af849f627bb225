"""Wrong arguments raise what PyTorch raises, with the parts of its message that say what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from jitgrad import functions
from jitgrad.nn import functional

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

CASES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "broadcast": (lambda t, F: t.ones(3) + t.ones(4), "size of tensor a (3) must match the size of tensor b (4)"),
    "sub-bool": (lambda t, F: t.ones(3) - (t.ones(3) > 0), "with a bool tensor is not supported"),
    "bool-sub-int": (lambda t, F: (t.ones(3) > 0) - 1, "with a bool tensor is not supported"),
    "sub-True": (lambda t, F: t.ones(3) - True, "with a bool tensor is not supported"),
    "True-sub": (lambda t, F: True - t.ones(3), "with a bool tensor is not supported"),
    "bool-sub": (lambda t, F: (t.ones(3) > 0) - (t.ones(3) > 0), "two bool tensors is not supported"),
    "bool-neg": (lambda t, F: -(t.ones(3) > 0), "on a bool tensor is not supported"),
    "int-zero-division": (lambda t, F: t.arange(3) // t.zeros(3).long(), "ZeroDivisionError"),
    "int-negative-power": (lambda t, F: t.arange(3) ** -1, "negative integer powers"),
    "int-mean": (lambda t, F: t.arange(3).mean(), "Input dtype must be either a floating point or complex dtype"),
    "mm": (lambda t, F: t.ones(2, 3) @ t.ones(4, 5), "(2x3 and 4x5)"),
    "mm-dtype": (lambda t, F: t.ones(2, 3) @ t.ones(3, 2).double(), "same dtype"),
    "bmm": (lambda t, F: t.bmm(t.ones(2, 3, 4), t.ones(2, 3, 4)), "[2, 4]"),
    "mv": (lambda t, F: t.ones(2, 3) @ t.ones(4), "size mismatch"),
    "dot": (lambda t, F: t.ones(3) @ t.ones(4), "3 and 4 elements respectively"),
    "matmul-0d": (lambda t, F: t.matmul(t.ones(()), t.ones(3)), "both arguments to matmul need to be at least 1D"),
    "matmul-batch": (lambda t, F: t.ones(2, 3, 4) @ t.ones(3, 4, 5), "must match the size of tensor b (3)"),
    "view": (lambda t, F: t.ones(2, 3).t().view(6), "view size is not compatible"),
    "reshape": (lambda t, F: t.ones(2, 3).reshape(4, 2), "shape '[4, 2]' is invalid for input of size 6"),
    "reshape-two-unknown": (lambda t, F: t.ones(2, 3).reshape(-1, -1), "only one dimension can be inferred"),
    "expand": (lambda t, F: t.ones(2, 3).expand(2, 4), "must match the existing size (3) at non-singleton dimension 1"),
    "expand-fewer": (lambda t, F: t.ones(2, 3).expand(3), "must be greater or equal to the number of dimensions"),
    "permute": (lambda t, F: t.ones(2, 3).permute(0), "number of dimensions in the tensor input does not match"),
    "permute-twice": (lambda t, F: t.ones(2, 3).permute(0, 0), "duplicate dims are not allowed"),
    "dim-range": (
        lambda t, F: t.ones(2, 3).sum(2),
        "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    ),
    "dim-twice": (lambda t, F: t.ones(2, 3).sum((0, 0)), "appears multiple times in the list of dims"),
    "select": (lambda t, F: t.ones(3)[5], "index 5 is out of bounds for dimension 0 with size 3"),
    "index": (lambda t, F: t.ones(3)[t.tensor([5])], "index 5 is out of bounds for dimension 0 with size 3"),
    "too-many": (lambda t, F: t.ones(2, 3)[0, 0, 0], "too many indices for tensor of dimension 2"),
    "index-0d": (lambda t, F: t.ones(())[0], "invalid index of a 0-dim tensor"),
    "index-dtype": (lambda t, F: t.ones(3)[t.ones(2)], "tensors used as indices must be long"),
    "index-shapes": (lambda t, F: t.ones(3, 3)[t.tensor([0, 1]), t.tensor([0, 1, 2])], "shape mismatch"),
    "mask-shape": (lambda t, F: t.ones(3)[t.ones(2) > 0], "does not match the shape of the indexed tensor"),
    "negative-step": (lambda t, F: t.ones(3)[::-1], "step must be greater than zero"),
    "cat": (lambda t, F: t.cat([t.ones(2, 3), t.ones(3, 2)], 0), "Sizes of tensors must match except in dimension 0"),
    "cat-empty": (lambda t, F: t.cat([]), "expected a non-empty list of Tensors"),
    "stack": (lambda t, F: t.stack([t.ones(2), t.ones(3)]), "stack expects each tensor to be equal size"),
    "where": (lambda t, F: t.where(t.ones(3), t.ones(3), t.ones(3)), "condition to be a boolean tensor"),
    "clamp": (lambda t, F: t.ones(3).clamp(), "At least one of 'min' or 'max' must not be None"),
    "gather": (lambda t, F: t.ones(3).gather(0, t.tensor([3])), "index 3 is out of bounds for dimension 0 with size 3"),
    "gather-dims": (lambda t, F: t.ones(3, 3).gather(0, t.tensor([0])), "same number of dimensions"),
    "argmax-empty": (lambda t, F: t.ones(0).argmax(), "Expected reduction dim"),
    "max-empty": (lambda t, F: t.ones(0).max(), "Expected reduction dim to be specified for input.numel() == 0"),
    "narrow": (lambda t, F: t.ones(3).narrow(0, 2, 2), "exceeds dimension size (3)"),
    "split": (lambda t, F: t.ones(3).split([1, 1]), "split_sizes to sum exactly to 3"),
    "unflatten": (lambda t, F: t.ones(4).unflatten(0, (3, -1)), ""),
    "target-integers": (
        lambda t, F: F.cross_entropy(t.ones(3), t.tensor([0, 1, 2])),
        "Expected floating point type for target with class probabilities, got Long",
    ),
    "target-bools": (lambda t, F: F.cross_entropy(t.ones(2, 3), t.ones(2, 3) > 0), "class probabilities, got Bool"),
    "target-vector": (lambda t, F: F.cross_entropy(t.ones(3), t.tensor([0, 1])), "1D target must have size 1"),
    "target-floats": (lambda t, F: F.cross_entropy(t.ones(2, 3), t.ones(2)), "to be Long or Byte, but got Float"),
    "target-ignored": (
        lambda t, F: F.cross_entropy(t.ones(2, 3), t.ones(2, 3), ignore_index=1),
        "ignore_index is not supported for floating point target",
    ),
    "target-range": (lambda t, F: F.cross_entropy(t.ones(2, 3), t.tensor([0, 3])), "Target 3 is out of bounds."),
    "target-batch": (
        lambda t, F: F.nll_loss(t.ones(2, 3), t.tensor([0])),
        "batch_size (2) to match target batch_size (1)",
    ),
    "reduction": (lambda t, F: F.mse_loss(t.ones(2), t.ones(2), reduction="most"), "not a valid value for reduction"),
    "bce-size": (
        lambda t, F: F.binary_cross_entropy_with_logits(t.ones(2), t.ones(3)),
        "must be the same as input size",
    ),
    "bce-range": (lambda t, F: F.binary_cross_entropy(t.ones(2) * 2, t.ones(2)), "between 0 and 1"),
    "embedding": (lambda t, F: F.embedding(t.tensor([4]), t.ones(3, 2)), "index out of range in self"),
    "linear": (lambda t, F: F.linear(t.ones(2, 3), t.ones(4, 5)), "(2x3 and 5x4)"),
    "layer-norm": (lambda t, F: F.layer_norm(t.ones(2, 3), (4,)), "Given normalized_shape=[4]"),
    "conv-channels": (lambda t, F: F.conv2d(t.ones(1, 2, 5, 5), t.ones(3, 4, 3, 3)), "to have 4 channels, but got 2"),
    "conv-size": (lambda t, F: F.conv2d(t.ones(1, 2, 2, 2), t.ones(3, 2, 3, 3)), "Kernel size can't be greater than"),
    "dropout": (lambda t, F: F.dropout(t.ones(3), 1.5), "dropout probability has to be between 0 and 1"),
    "glu": (lambda t, F: F.glu(t.ones(3)), "Halving dimension must be even"),
    "topk": (lambda t, F: t.ones(3).topk(4), "selected index k out of range"),
    "kthvalue": (lambda t, F: t.ones(3).kthvalue(0), "selected number k out of range for dimension 0"),
    "median": (lambda t, F: t.ones(0, 3).median(0), "Expected reduction dim 0 to have non-zero size."),
    "quantile": (lambda t, F: t.ones(3).quantile(1.3), "q must be in the range [0, 1] but got 1.3"),
    "quantile-q": (lambda t, F: t.ones(3).quantile(t.ones(2, 2)), "q must be a scalar or 1D tensor"),
    "quantile-how": (lambda t, F: t.ones(3).quantile(0.5, interpolation="x"), "must be one of linear, lower"),
    "unique": (lambda t, F: t.ones(0, 3).unique(dim=1), "aren't selected, so unique cannot be applied"),
    "unique-twice": (lambda t, F: t.ones(0, 3, 0).unique(dim=0), "Number of zero sized dimensions is more than one"),
    "unique-grad": (
        lambda t, F: t.ones(3, requires_grad=True).unique().sum().backward(),
        "'_unique2' is not implemented",
    ),
    "searchsorted": (lambda t, F: t.searchsorted(t.ones(2, 3), t.ones(3, 2)), "we got boundaries tensor [2, 3]"),
    "searchsorted-side": (lambda t, F: t.searchsorted(t.ones(3), 1.0, side="up"), "side can only be 'left' or 'right'"),
    "bincount": (lambda t, F: t.bincount(t.tensor([-1])), "only supports 1-d non-negative integral inputs"),
    "histc": (lambda t, F: t.ones(3).histc(3, 2, 1), "max must be larger than min"),
    "histogram": (
        lambda t, F: t.histogram(t.ones(3), 3, range=(2, 1)),
        "min should not exceed max, but got min 2 max 1",
    ),
    "histogram-grad": (
        lambda t, F: t.histogram(t.ones(3, requires_grad=True), 3)[0].sum().backward(),
        "derivative for aten::histogram is not implemented",
    ),
    "isin": (lambda t, F: t.isin(t.ones(3) > 0, 1), "Unsupported input type encountered for isin(): Bool"),
    "ragged": (lambda t, F: t.tensor([[1, 2], [3]]), "expected sequence"),
    "full-negative": (lambda t, F: t.ones(2, -1), "Trying to create tensor with negative dimension -1: [2, -1]"),
    "arange-step": (lambda t, F: t.arange(0, 3, 0), "step must be nonzero"),
    "arange-sign": (lambda t, F: t.arange(0, 3, -1), "inconsistent with step sign"),
    "inplace-shape": (lambda t, F: t.ones(3).add_(t.ones(2, 3)), "doesn't match the broadcast shape [2, 3]"),
    "inplace-dtype": (lambda t, F: t.arange(3).add_(1.5), "can't be cast to the desired output type Long"),
    "masked-fill": (lambda t, F: t.ones(3).masked_fill(t.ones(3), 0.0), "only supports boolean masks"),
    "index-put-dtype": (
        lambda t, F: t.ones(3).index_put((t.tensor([0]),), t.ones(1).double()),
        "Index put requires the source and destination dtypes match",
    ),
}


def _error(call: Callable[[], Any]) -> BaseException | None:
    try:
        call()
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("name", CASES)
def test_error_is_torchs(name: str) -> None:
    make, part = CASES[name]
    theirs = _error(lambda: make(torch, torch.nn.functional))
    assert theirs is not None
    ours = _error(lambda: make(jitgrad if name == "ragged" else functions, functional))
    assert type(ours) is type(theirs), (ours, theirs)
    assert part in str(ours), (ours, theirs)
    assert part.lower() in str(theirs).lower(), theirs


READS_VALUES: dict[str, Callable[[Any], Any]] = {
    "target": lambda t: (lambda x, i: functional.cross_entropy(x, i), (t.ones(2, 3), t.tensor([0, 3]))),
    "negative-target": lambda t: (lambda x, i: functional.cross_entropy(x, i), (t.ones(2, 3), t.tensor([0, -1]))),
    "embedding": lambda t: (lambda x, i: functional.embedding(i, x), (t.ones(2, 3), t.tensor([2]))),
    "negative-embedding": lambda t: (lambda x, i: functional.embedding(i, x), (t.ones(2, 3), t.tensor([-1]))),
    "index": lambda t: (lambda x, i: x[i], (t.ones(2, 3), t.tensor([2]))),
    "gather": lambda t: (lambda x, i: x.gather(0, i), (t.ones(3), t.tensor([-1]))),
    "index-select": lambda t: (lambda x, i: x.index_select(0, i), (t.ones(3), t.tensor([3]))),
    "division": lambda t: (lambda x, i: x // i, (t.arange(3), t.tensor([1, 0, 2]))),
    "remainder": lambda t: (lambda x, i: x % i, (t.arange(3), t.tensor([1, 0, 2]))),
    "probability": lambda t: (lambda x, i: functional.binary_cross_entropy(x, i), (t.ones(3) * 2, t.ones(3))),
}


@pytest.mark.parametrize("name", READS_VALUES)
def test_error_about_values_is_the_same_compiled(name: str) -> None:
    function, args = READS_VALUES[name](functions)
    eager = _error(lambda: function(*args))
    assert eager is not None
    compiled = jitgrad.compile(lambda *tensors: function(*tensors) + 1)
    for _ in range(2):
        found = _error(lambda: compiled(*args).numpy())
        assert (type(found), str(found)) == (type(eager), str(eager))
