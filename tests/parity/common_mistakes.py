"""The commonest mistakes of PyTorch users: what each does, and what the message must tell.

A row is (what the user writes, parts of the message). The parts are what helps: the operation, the shapes or dtypes
that do not fit, what to do instead. The exception's type is PyTorch's; ``test_common_mistakes.py`` compares it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["MISTAKES"]

Mistake = Callable[[Any], Any]


def _leaf(t: Any, *shape: int) -> Any:
    return t.ones(*shape, requires_grad=True)


def _twice(t: Any) -> Any:
    loss = (_leaf(t, 2) ** 2).sum()
    loss.backward()
    loss.backward()


def _overwritten(t: Any) -> Any:
    y = _leaf(t, 2).exp()
    y.add_(1)
    y.sum().backward()


def _write(write: Callable[[Any], Any]) -> Mistake:
    return lambda t: write(_leaf(t, 2))


def _step(make: Callable[[Any, Any], Any]) -> Mistake:
    return lambda t: make(t, [t.nn.Parameter(t.ones(2))])


def _layer(make: Callable[[Any], Any], *shape: int) -> Mistake:
    return lambda t: make(t.nn)(t.ones(*shape))


def _loaded(change: Callable[[Any, Any], Any]) -> Mistake:
    def run(t: Any) -> Any:
        model = t.nn.Sequential(t.nn.Linear(2, 3))
        state = dict(model.state_dict())
        change(t, state)
        model.load_state_dict(state)

    return run


MISTAKES: dict[str, tuple[Mistake, tuple[str, ...]]] = {
    # shapes
    "add": (lambda t: t.ones(2, 3) + t.ones(2, 4), ("tensor a (3)", "tensor b (4)", "dimension 1")),
    "add in place": (lambda t: t.ones(3).add_(t.ones(2, 3)), ("[3]", "[2, 3]")),
    "matmul": (lambda t: t.ones(2, 3) @ t.ones(4, 5), ("2x3 and 4x5",)),
    "matmul of batches": (lambda t: t.ones(2, 3, 4) @ t.ones(3, 4, 5), ("(2)", "(3)")),
    "matrix by vector": (lambda t: t.ones(2, 3) @ t.ones(4), ("size mismatch", "mat (2x3), vec (4)")),
    "mm of vectors": (lambda t: t.mm(t.ones(2), t.ones(2, 2)), ("must be a matrix",)),
    "bmm": (lambda t: t.bmm(t.ones(2, 3, 4), t.ones(2, 5, 6)), ("[2, 4]", "[2, 5")),
    "dot": (lambda t: t.dot(t.ones(3), t.ones(4)), ("3 and 4 elements",)),
    "linear": (_layer(lambda nn: nn.Linear(5, 2), 4, 3), ("4x3 and 5x2",)),
    "cat": (
        lambda t: t.cat([t.ones(2, 3), t.ones(2, 4)]),
        ("Sizes of tensors must match", "Expected size 3 but got size 4"),
    ),
    "cat of ranks": (lambda t: t.cat([t.ones(2, 3), t.ones(3)]), ("same number of dimensions", "2 and 1")),
    "stack": (lambda t: t.stack([t.ones(2), t.ones(3)]), ("equal size", "[2]", "[3]")),
    "view": (lambda t: t.ones(2, 3).view(4, 2), ("[4, 2]", "size 6")),
    "view of a transposed one": (lambda t: t.ones(2, 3).t().view(6), ("view size is not compatible", "reshape")),
    "reshape": (lambda t: t.ones(2, 3).reshape(-1, 4), ("[-1, 4]", "size 6")),
    "expand": (lambda t: t.ones(2, 3).expand(2, 4), ("(4)", "(3)", "dimension 1")),
    "squeeze a missing dimension": (lambda t: t.ones(2, 3).squeeze(2), ("[-2, 1], but got 2",)),
    "sum over a missing dimension": (lambda t: t.ones(2, 3).sum(2), ("[-2, 1], but got 2",)),
    "permute": (lambda t: t.ones(2, 3).permute(0, 1, 2), ("number of dimensions",)),
    "transpose": (lambda t: t.ones(2, 3).transpose(0, 2), ("[-2, 1], but got 2",)),
    "split": (lambda t: t.ones(5).split([2, 2]), ("sum exactly to 5", "[2, 2]")),
    "einsum": (lambda t: t.einsum("ij,jk->ik", t.ones(2, 3), t.ones(4, 5)), ("subscript j", "3", "4")),
    "conv channels": (_layer(lambda nn: nn.Conv2d(3, 8, 3), 1, 1, 5, 5), ("3 channels", "1 channels")),
    "conv of a vector": (_layer(lambda nn: nn.Conv2d(3, 8, 3), 5), ("3D", "4D", "[5]")),
    "conv of a small image": (_layer(lambda nn: nn.Conv2d(1, 1, 5), 1, 1, 3, 3), ("Kernel size can't be greater",)),
    "batch norm of one example": (
        _layer(lambda nn: nn.BatchNorm1d(3), 1, 3),
        ("more than 1 value per channel", "[1, 3]"),
    ),
    "batch norm channels": (_layer(lambda nn: nn.BatchNorm1d(3), 2, 4), ("4", "3")),
    "batch norm rank": (_layer(lambda nn: nn.BatchNorm2d(3), 2, 3), ("expected 4D input (got 2D input)",)),
    "layer norm": (_layer(lambda nn: nn.LayerNorm(4), 2, 3), ("normalized_shape=[4]", "[2, 3]")),
    "a recurrent layer's input": (_layer(lambda nn: nn.LSTM(4, 3), 5, 2, 6), ("4", "6")),
    "broadcast in where": (lambda t: t.where(t.ones(2) > 0, t.ones(3), t.ones(2)), ("(3)", "(2)")),
    # targets and losses
    "class out of range": (
        lambda t: t.nn.functional.cross_entropy(t.ones(2, 3), t.tensor([0, 3])),
        ("Target 3 is out of bounds",),
    ),
    "class indices as floats": (lambda t: t.nn.functional.cross_entropy(t.ones(2, 3), t.ones(2)), ("Long", "Float")),
    "targets of another count": (
        lambda t: t.nn.functional.cross_entropy(t.ones(4, 3), t.tensor([0, 1])),
        ("batch_size (4)", "(2)"),
    ),
    "one-hot integers": (
        lambda t: t.nn.functional.cross_entropy(t.ones(2, 3), t.eye(3)[:2].long()),
        ("floating point", "Long"),
    ),
    "probabilities above 1": (
        lambda t: t.nn.functional.binary_cross_entropy(t.ones(2) * 2, t.ones(2)),
        ("between 0 and 1",),
    ),
    "bce of two sizes": (lambda t: t.nn.BCELoss()(t.ones(2, 1), t.ones(2)), ("[2]", "[2, 1]")),
    "bce with logits of two sizes": (lambda t: t.nn.BCEWithLogitsLoss()(t.ones(2, 1), t.ones(2)), ("[2]", "[2, 1]")),
    "an unknown reduction": (lambda t: t.nn.functional.mse_loss(t.ones(2), t.ones(2), reduction="avg"), ("avg",)),
    "loss of integers": (lambda t: t.arange(3).mean(), ("floating point", "Long")),
    # dtypes
    "two dtypes in a product": (lambda t: t.ones(2, 2) @ t.ones(2, 2).double(), ("same dtype", "float", "double")),
    "doubles into float weights": (lambda t: t.nn.Linear(2, 2)(t.ones(1, 2).double()), ("same dtype",)),
    "floats as indices": (lambda t: t.ones(3)[t.ones(2)], ("long", "bool")),
    "floats for an embedding": (lambda t: t.nn.Embedding(3, 2)(t.ones(2)), ("Long", "Float")),
    "floats into integers": (lambda t: t.arange(3).add_(0.5), ("Float", "Long")),
    "minus on a mask": (lambda t: -(t.ones(2) > 0), ("bool", "`~`")),
    "gradients of integers": (lambda t: t.tensor([1, 2], requires_grad=True), ("floating point",)),
    "objects in a tensor": (lambda t: t.tensor(["a"]), ("str",)),
    "rows of two lengths": (lambda t: t.tensor([[1, 2], [3]]), ("expected sequence of length 2 at dim 1 (got 1)",)),
    # indices
    "index out of range": (lambda t: t.ones(3)[5], ("index 5 is out of bounds for dimension 0 with size 3",)),
    "too many indices": (lambda t: t.ones(2, 3)[0, 0, 0], ("too many indices for tensor of dimension 2",)),
    "a mask of another shape": (lambda t: t.ones(3)[t.ones(2) > 0], ("[2]", "[3]")),
    "gather out of range": (lambda t: t.ones(3).gather(0, t.tensor([3])), ("index 3 is out of bounds",)),
    "an embedding's index": (lambda t: t.nn.Embedding(3, 2)(t.tensor([3])), ("index out of range",)),
    "a reversed slice": (lambda t: t.ones(3)[::-1], ("step must be greater than zero",)),
    "topk of too many": (lambda t: t.ones(3).topk(4), ("k out of range",)),
    # numbers
    "item of many": (lambda t: t.ones(2).item(), ("2 elements", "Scalar")),
    "truth of many": (lambda t: bool(t.ones(2)), ("more than one value", "ambiguous")),
    "truth of none": (lambda t: bool(t.ones(0)), ("no values", "ambiguous")),
    "float of many": (lambda t: float(t.ones(2)), ("only one element",)),
    "length of a number": (lambda t: len(t.tensor(1.0)), ("len() of a 0-d tensor",)),
    "a number as a list": (lambda t: list(t.tensor(1.0)), ("0-d tensor",)),
    # autograd
    "backward of a vector": (
        lambda t: (_leaf(t, 2) * 2).backward(),
        ("grad can be implicitly created only for scalar",),
    ),
    "backward without a graph": (lambda t: t.ones(2).sum().backward(), ("does not require grad",)),
    "backward twice": (_twice, ("backward through the graph a second time", "retain_graph=True")),
    "a gradient of another shape": (lambda t: (_leaf(t, 2) * 2).backward(t.ones(3)), ("[3]", "[2]")),
    "a leaf written": (_write(lambda x: x.add_(1)), ("leaf Variable that requires grad", "in-place")),
    "a leaf's element written": (_write(lambda x: x.__setitem__(0, 1.0)), ("view of a leaf Variable", "in-place")),
    "written after it was saved": (_overwritten, ("modified by an inplace operation", "version 1; expected version 0")),
    "grad of what was not used": (
        lambda t: t.autograd.grad(_leaf(t, 2).sum(), _leaf(t, 2)),
        ("not have been used in the graph", "allow_unused=True"),
    ),
    "numpy of what requires grad": (_write(lambda x: x.numpy()), ("detach().numpy()",)),
    "requires_grad off for a result": (_write(lambda x: (x * 2).requires_grad_(False)), ("leaf", "detach()")),
    "a hook without a graph": (lambda t: t.ones(2).register_hook(print), ("doesn't require grad",)),
    # keywords, devices, random numbers
    "an unknown keyword": (lambda t: t.ones(2).sum(axes=0), ("axes", "sum()")),
    "an unknown keyword of a layer": (lambda t: t.nn.Linear(2, 2, biases=True), ("biases",)),
    "a missing argument": (lambda t: t.nn.Linear(2), ("out_features",)),
    "an unknown attribute": (lambda t: t.ones(2).summ(), ("summ",)),
    "a device that is none": (lambda t: t.ones(2).to("gpu"), ("gpu",)),
    "a negative size": (lambda t: t.ones(2, -1), ("negative dimension -1",)),
    "NaN probabilities": (lambda t: t.multinomial(t.tensor([0.5, float("nan")]), 1), ("inf", "nan", "< 0")),
    "negative probabilities": (lambda t: t.multinomial(t.tensor([0.5, -1.0]), 1), ("inf", "nan", "< 0")),
    "a probability above 1": (lambda t: t.nn.functional.dropout(t.ones(2), 1.5), ("between 0 and 1", "1.5")),
    # optimizers and modules
    "no parameters": (lambda t: t.optim.SGD([], lr=0.1), ("empty parameter list",)),
    "a negative rate": (_step(lambda t, ps: t.optim.SGD(ps, lr=-1.0)), ("learning rate", "-1.0")),
    "parameters that are no leaves": (_step(lambda t, ps: t.optim.SGD([ps[0] * 2], lr=0.1)), ("non-leaf",)),
    "a module for parameters": (lambda t: t.optim.SGD(t.nn.Linear(2, 2), lr=0.1), ("",)),
    "a tensor for parameters": (lambda t: t.optim.SGD(t.nn.Parameter(t.ones(2)), lr=0.1), ("iterable", "Tensor")),
    "a missing key": (_loaded(lambda t, s: s.pop("0.bias")), ("Missing key(s)", '"0.bias"')),
    "an unexpected key": (_loaded(lambda t, s: s.update(x=t.ones(1))), ("Unexpected key(s)", '"x"')),
    "a parameter of another shape": (
        _loaded(lambda t, s: s.update({"0.weight": t.ones(3, 4)})),
        ("size mismatch for 0.weight", "[3, 4]", "[3, 2]"),
    ),
    "a layer without forward": (lambda t: type("Net", (t.nn.Module,), {})()(t.ones(2)), ("forward", "Net")),
    "a parameter before super().__init__()": (
        lambda t: type(
            "Net", (t.nn.Module,), {"__init__": lambda self: setattr(self, "w", t.nn.Parameter(t.ones(1)))}
        )(),
        ("before Module.__init__() call",),
    ),
    "not a module in Sequential": (lambda t: t.nn.Sequential(t.nn.Linear(2, 2), t.relu), ("Module",)),
}
