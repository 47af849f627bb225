"""Which results share memory with what they were made of, and which are the very operand: as PyTorch's.

Rows are uses that change nothing or little: a factor of 1, no padding, no dropout, the extents that there are. There a
function is tempted to hand back its operand, and a write to the result would reach it. Three differ, and are not here:
``unsafe_split`` copies, so what is written to the whole does not reach the pieces; ``conj`` of a complex tensor is a
copy; ``x[t]`` is one in a compiled step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from tests.modes import Mode

torch = pytest.importorskip("torch", reason="compares with PyTorch")

Function = Callable[[Any, Any, Any], Any]

# over lib, nn.functional, x [2, 4, 4, 6]
RESULTS: dict[str, Function] = {
    "pixel_shuffle1": lambda t, F, x: F.pixel_shuffle(x, 1),
    "pixel_unshuffle1": lambda t, F, x: F.pixel_unshuffle(x, 1),
    "channel_shuffle1": lambda t, F, x: F.channel_shuffle(x, 1),
    "pixel_shuffle2": lambda t, F, x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle2": lambda t, F, x: F.pixel_unshuffle(x, 2),
    "channel_shuffle2": lambda t, F, x: F.channel_shuffle(x, 2),
    "channel_shuffle4": lambda t, F, x: F.channel_shuffle(x, 4),
    "pixel_shuffle thin": lambda t, F, x: F.pixel_shuffle(x[:, :, :1, :1], 2),
    "interpolate": lambda t, F, x: F.interpolate(x, size=(4, 6)),
    "interpolate bilinear": lambda t, F, x: F.interpolate(x, size=(4, 6), mode="bilinear"),
    "interpolate area": lambda t, F, x: F.interpolate(x, size=(4, 6), mode="area"),
    "interpolate nearest-exact": lambda t, F, x: F.interpolate(x, scale_factor=1.0, mode="nearest-exact"),
    "interpolate bicubic": lambda t, F, x: F.interpolate(x, size=(4, 6), mode="bicubic"),
    "pad": lambda t, F, x: F.pad(x, (0, 0)),
    "pad reflect": lambda t, F, x: F.pad(x, (0, 0, 0, 0), mode="reflect"),
    "pad replicate": lambda t, F, x: F.pad(x, (0, 0, 0, 0), mode="replicate"),
    "pad circular": lambda t, F, x: F.pad(x, (0, 0, 0, 0), mode="circular"),
    "pad neg": lambda t, F, x: F.pad(x, (-1, 0)),
    "ZeroPad2d": lambda t, F, x: t.nn.ZeroPad2d(0)(x),
    "dropout eval": lambda t, F, x: F.dropout(x, 0.5, False),
    "dropout p0": lambda t, F, x: F.dropout(x, 0.0, True),
    "alpha_dropout eval": lambda t, F, x: F.alpha_dropout(x, 0.5, False),
    "dropout2d eval": lambda t, F, x: F.dropout2d(x, 0.5, False),
    "feature_alpha eval": lambda t, F, x: F.feature_alpha_dropout(x, 0.5, False),
    "dropout2d p0": lambda t, F, x: F.dropout2d(x, 0.0, True),
    "alpha p0": lambda t, F, x: F.alpha_dropout(x, 0.0, True),
    "rrelu eval": lambda t, F, x: F.rrelu(x),
    "repeat": lambda t, F, x: x.repeat(1, 1, 1, 1),
    "tile": lambda t, F, x: t.tile(x, (1,)),
    "roll": lambda t, F, x: t.roll(x, 0, 0),
    "flip none": lambda t, F, x: x.flip(()),
    "roll none": lambda t, F, x: t.roll(x, 0),
    "expand": lambda t, F, x: x.expand(2, 4, 4, 6),
    "expand_as": lambda t, F, x: x.expand_as(x),
    "reshape": lambda t, F, x: x.reshape(2, 4, 4, 6),
    "view": lambda t, F, x: x.view(2, 4, 4, 6),
    "contiguous": lambda t, F, x: x.contiguous(),
    "view_as": lambda t, F, x: x.view_as(x),
    "reshape_as": lambda t, F, x: x.reshape_as(x),
    "adaptive_avg_pool1d": lambda t, F, x: F.adaptive_avg_pool1d(x[0], 6),
    "adaptive_avg_pool2d": lambda t, F, x: F.adaptive_avg_pool2d(x, (4, 6)),
    "adaptive_max_pool2d": lambda t, F, x: F.adaptive_max_pool2d(x, (4, 6)),
    "adaptive_avg_pool2d of None": lambda t, F, x: F.adaptive_avg_pool2d(x, (None, None)),
    "max_pool2d": lambda t, F, x: F.max_pool2d(x, 1),
    "avg_pool2d": lambda t, F, x: F.avg_pool2d(x, 1),
    "avg_pool1d": lambda t, F, x: F.avg_pool1d(x[0], 1),
    "max_pool1d": lambda t, F, x: F.max_pool1d(x[0], 1),
    "lp_pool2d": lambda t, F, x: F.lp_pool2d(x, 2, 1),
    "avg_pool3d": lambda t, F, x: F.avg_pool3d(x, 1),
    "narrow": lambda t, F, x: x.narrow(0, 0, 2),
    "chunk1": lambda t, F, x: x.chunk(1)[0],
    "split all": lambda t, F, x: x.split(2)[0],
    "cat one": lambda t, F, x: t.cat([x]),
    "stack one": lambda t, F, x: t.stack([x]),
    "hstack one": lambda t, F, x: t.hstack([x]),
    "cat empty": lambda t, F, x: t.cat([x, x[:0]]),
    "atleast_1d": lambda t, F, x: t.atleast_1d(x),
    "atleast_3d": lambda t, F, x: t.atleast_3d(x),
    "atleast_2d of a vector": lambda t, F, x: t.atleast_2d(x[0, 0, 0]),
    "squeeze": lambda t, F, x: x.squeeze(),
    "squeeze0": lambda t, F, x: x.squeeze(0),
    "unsqueeze": lambda t, F, x: x.unsqueeze(0),
    "flatten none": lambda t, F, x: x.flatten(0, 0),
    "flatten": lambda t, F, x: x.flatten(),
    "unflatten": lambda t, F, x: x.unflatten(1, (2, 2)),
    "ravel": lambda t, F, x: x[0, 0, 0].ravel(),
    "to same": lambda t, F, x: x.to(t.float64),
    "type same": lambda t, F, x: x.type(t.float64),
    "double": lambda t, F, x: x.double(),
    "to dev": lambda t, F, x: x.to("cpu"),
    "cpu": lambda t, F, x: x.cpu(),
    "type_as": lambda t, F, x: x.type_as(x),
    "to copy": lambda t, F, x: x.to(t.float64, copy=True),
    "movedim": lambda t, F, x: x.movedim(0, 0),
    "permute id": lambda t, F, x: x.permute(0, 1, 2, 3),
    "transpose00": lambda t, F, x: x.transpose(0, 0),
    "swapaxes": lambda t, F, x: x.swapaxes(1, 1),
    "tril": lambda t, F, x: x.tril(10),
    "triu": lambda t, F, x: x.triu(-10),
    "real": lambda t, F, x: x.real,
    "conj": lambda t, F, x: x.conj(),
    "real function": lambda t, F, x: t.real(x),
    "resolve_conj": lambda t, F, x: x.resolve_conj(),
    "resolve_neg": lambda t, F, x: x.resolve_neg(),
    "conj_physical": lambda t, F, x: t.conj_physical(x),
    "plus": lambda t, F, x: +x,
    "positive function": lambda t, F, x: t.positive(x),
    "mH": lambda t, F, x: x.mH,
    "mT": lambda t, F, x: x.mT,
    "T of a matrix": lambda t, F, x: x[0, 0].T,
    "H of a matrix": lambda t, F, x: x[0, 0].H,
    "adjoint": lambda t, F, x: x.adjoint(),
    "broadcast_tensors of one": lambda t, F, x: t.broadcast_tensors(x)[0],
    "broadcast_tensors": lambda t, F, x: t.broadcast_tensors(x, x[0])[1],
    "broadcast_to": lambda t, F, x: t.broadcast_to(x, x.shape),
    "meshgrid1": lambda t, F, x: t.meshgrid(x[0, 0, 0], indexing="ij")[0],
    "meshgrid2": lambda t, F, x: t.meshgrid(x[0, 0, 0], x[0, 0, 0], indexing="ij")[0],
    "einsum identity": lambda t, F, x: t.einsum("ijkl->ijkl", x),
    "einsum permutation": lambda t, F, x: t.einsum("ijkl->lkji", x),
    "einsum diagonal": lambda t, F, x: t.einsum("ii->i", x[0, :, :, :4][0]),
    "einsum sum": lambda t, F, x: t.einsum("ijkl->ij", x),
    "einsum trace": lambda t, F, x: t.einsum("ii", x[0, 0, :, :4]),
    "sum none": lambda t, F, x: x.sum(()),
    "sum 0d": lambda t, F, x: x[0, 0, 0, 0].sum(),
    "mean 0d": lambda t, F, x: x[0, 0, 0, 0].mean(),
    "max 0d": lambda t, F, x: x[0, 0, 0, 0].max(),
    "sum dim1": lambda t, F, x: x[:1].sum(0),
    "cumsum1": lambda t, F, x: x[:1].cumsum(0),
    "sort1": lambda t, F, x: x[:1].sort(0)[0],
    "prod 0d": lambda t, F, x: x[0, 0, 0, 0].prod(),
    "amax none": lambda t, F, x: t.amax(x[0, 0, 0, 0], ()),
    "logsumexp 0d": lambda t, F, x: x[0, 0, 0, 0].logsumexp(0),
    "diff0": lambda t, F, x: t.diff(x, n=0),
    "clamp": lambda t, F, x: x.clamp(-100),
    "nan_to_num": lambda t, F, x: t.nan_to_num(x),
    "floor int": lambda t, F, x: t.floor(x.long()),
    "round int": lambda t, F, x: t.round(x.long()),
    "nan_to_num int": lambda t, F, x: t.nan_to_num(x.long()),
    "abs of integers": lambda t, F, x: t.abs((x > 0).int()),
    "rot90 by nothing": lambda t, F, x: t.rot90(x, 0, (0, 1)),
    "rot90 4": lambda t, F, x: t.rot90(x, 4, (2, 3)),
    "rot90 2": lambda t, F, x: t.rot90(x, 2, (2, 3)),
    "fliplr": lambda t, F, x: t.fliplr(x),
    "block_diag1": lambda t, F, x: t.block_diag(x[0, 0]),
    "cartesian1": lambda t, F, x: t.cartesian_prod(x[0, 0, 0]),
    "combinations1": lambda t, F, x: t.combinations(x[0, 0, 0], 1),
    "matrix_power1": lambda t, F, x: t.linalg.matrix_power(x[0, 0, :, :4], 1),
    "multi_dot": lambda t, F, x: t.linalg.multi_dot([x[0, 0], x[0, 0].T]),
    "kron": lambda t, F, x: t.kron(x, t.ones(1, dtype=t.float64)),
    "diag_embed": lambda t, F, x: t.diag_embed(x),
    "diagonal": lambda t, F, x: x.diagonal(),
    "diag": lambda t, F, x: t.diag(x[0, 0]),
    "diagflat": lambda t, F, x: t.diagflat(x[0, 0, 0]),
    "diagonal_copy": lambda t, F, x: t.diagonal_copy(x),
    "unfold": lambda t, F, x: x.unfold(0, 1, 1),
    "as_strided": lambda t, F, x: x.as_strided((2,), (1,)),
    "index ...": lambda t, F, x: x[...],
    "index :": lambda t, F, x: x[:],
    "index none": lambda t, F, x: x[None],
    "index list": lambda t, F, x: x[[0, 1]],
    "index true": lambda t, F, x: x[True],
    "index_select": lambda t, F, x: x.index_select(0, t.tensor([0, 1])),
    "take_along": lambda t, F, x: t.take_along_dim(x, t.zeros(2, 4, 4, 6, dtype=t.int64), 0),
    "index mask": lambda t, F, x: x[t.ones(2, dtype=t.bool)],
    "repeat_interleave1": lambda t, F, x: x.repeat_interleave(1, 0),
    "tensor_split": lambda t, F, x: x.tensor_split(1)[0],
    "hsplit": lambda t, F, x: x.hsplit(1)[0],
    "dsplit": lambda t, F, x: x.dsplit(2)[0],
    "unbind": lambda t, F, x: x.unbind()[0],
    "select": lambda t, F, x: x.select(0, 0),
    "where": lambda t, F, x: t.where(t.tensor(True), x, x),
    "masked_fill none": lambda t, F, x: x.masked_fill(t.tensor(False), 0),
    "lerp0": lambda t, F, x: t.lerp(x, x, 0.0),
    "mul1": lambda t, F, x: x * 1,
    "add0": lambda t, F, x: x + 0,
    "pow1": lambda t, F, x: x**1,
    "pow0": lambda t, F, x: x**0,
    "renorm": lambda t, F, x: t.renorm(x, 2, 0, 1000000000.0),
    "normalize": lambda t, F, x: F.normalize(x),
    "softmax": lambda t, F, x: F.softmax(x, 0),
    "relu": lambda t, F, x: F.relu(x.abs() + 1),
    "relu6": lambda t, F, x: F.relu6(x),
    "hardtanh": lambda t, F, x: F.hardtanh(x, -100, 100),
    "identity": lambda t, F, x: t.nn.Identity()(x),
    "threshold": lambda t, F, x: F.threshold(x, -100, 0),
    "fold": lambda t, F, x: F.fold(x.reshape(2, 4, 24), (4, 6), 1),
    "nn unfold": lambda t, F, x: F.unfold(x, 1),
    "unfold all": lambda t, F, x: F.unfold(x, (4, 6)),
    "fold all": lambda t, F, x: F.fold(x.reshape(2, 96, 1), (4, 6), (4, 6)),
    "batch_norm eval": lambda t, F, x: F.batch_norm(x, t.zeros(4, dtype=t.float64), t.ones(4, dtype=t.float64)),
    "bilinear": lambda t, F, x: F.upsample(x, scale_factor=1),
    "affine_grid": lambda t, F, x: F.affine_grid(t.ones(1, 2, 3, dtype=t.float64), (1, 1, 2, 2)),
    "clip": lambda t, F, x: t.clip(x, None, 100.0),
    "squeeze dims": lambda t, F, x: x.squeeze((0, 1)),
    "select_scatter": lambda t, F, x: t.select_scatter(x, x[0], 0, 0),
    "slice_scatter all": lambda t, F, x: t.slice_scatter(x, x),
    "diagonal_scatter": lambda t, F, x: t.diagonal_scatter(x, x.diagonal()),
    "alias_copy": lambda t, F, x: t.alias_copy(x) if hasattr(t, "alias_copy") else x.clone(),
    "detach": lambda t, F, x: x.detach(),
    "data": lambda t, F, x: x.data,
    "clone": lambda t, F, x: x.clone(),
    "new_tensor": lambda t, F, x: x.new_tensor(x),
    "as_tensor": lambda t, F, x: t.as_tensor(x),
    "asarray": lambda t, F, x: t.asarray(x),
    "tensor": lambda t, F, x: t.tensor(x),
    "from_numpy": lambda t, F, x: t.from_numpy(x.detach().numpy()),
    "view_dtype": lambda t, F, x: x.view(t.int64),
    "view_same": lambda t, F, x: x.view(t.float64),
    "view_as_real": lambda t, F, x: t.view_as_real(t.view_as_complex(x.view(2, 4, 4, 3, 2))),
    "masked_select": lambda t, F, x: x.masked_select(t.tensor(True)),
    "gradient": lambda t, F, x: t.gradient(x[0, 0, 0])[0],
    "quantile": lambda t, F, x: t.quantile(x, 0.5),
    "median": lambda t, F, x: x.median(),
    "mode": lambda t, F, x: x.mode(-1)[0],
    "unique": lambda t, F, x: t.unique(x),
    "topk": lambda t, F, x: x.topk(6)[0],
    "kthvalue": lambda t, F, x: x[:1].kthvalue(1, 0)[0],
    "tensordot0": lambda t, F, x: t.tensordot(x, t.tensor(1.0, dtype=t.float64), 0),
    "matmul1": lambda t, F, x: x @ t.eye(6, dtype=t.float64),
    "trapezoid": lambda t, F, x: t.trapezoid(x),
    "cov": lambda t, F, x: t.cov(x[0, 0]),
    "nanmean": lambda t, F, x: t.nanmean(x[0, 0, 0, 0]),
    "vander": lambda t, F, x: t.vander(x[0, 0, 0], 1),
    "embedding": lambda t, F, x: F.embedding(t.arange(4), x[0, 0]),
    "sum_to_size": lambda t, F, x: x.sum_to_size(2, 4, 4, 6),
    "sum_to_size smaller": lambda t, F, x: x.sum_to_size(1, 4, 4, 6),
    "glu": lambda t, F, x: F.glu(x),
    "split_sizes": lambda t, F, x: x.split([2])[0],
    "std_mean": lambda t, F, x: t.std_mean(x)[1],
    "frexp": lambda t, F, x: t.frexp(x)[0],
    "nn.Flatten": lambda t, F, x: t.nn.Flatten()(x),
    "nn.Unflatten": lambda t, F, x: t.nn.Unflatten(1, (4,))(x),
    "cosine_similarity": lambda t, F, x: F.cosine_similarity(x, x),
    "l1_loss": lambda t, F, x: F.l1_loss(x, x * 0, reduction="none"),
    "nn.Dropout": lambda t, F, x: t.nn.Dropout().eval()(x),
    "float_power": lambda t, F, x: t.float_power(x, 1),
    "parameters_to_vector": lambda t, F, x: t.nn.utils.parameters_to_vector([x]),
    "fix of integers": lambda t, F, x: t.fix(x.long()),
    "std": lambda t, F, x: t.std(x, 0),
    "real of complex": lambda t, F, x: t.view_as_complex(x.view(2, 4, 4, 3, 2)).real,
    "imag of complex": lambda t, F, x: t.view_as_complex(x.view(2, 4, 4, 3, 2)).imag,
    "to complex128": lambda t, F, x: t.view_as_complex(x.view(2, 4, 4, 3, 2)).to(t.complex128),
    "abs of complex": lambda t, F, x: t.view_as_complex(x.view(2, 4, 4, 3, 2)).abs(),
}
VIEW_FLAG_DIFFERS = {
    "avg_pool1d": "PyTorch's is a squeezed result of two dimensions",
    "max_pool1d": "PyTorch has two kernels, one for tensors that require grad",
    "multi_dot": "PyTorch's is a view of a product that nobody else sees",
    "affine_grid": "a view of a product that nobody else sees",
}
"""The results' memory is their own in both libraries."""


def _facts(t: Any, F: Any, name: str, x: Any, run: Any) -> Any:
    y = run(x)
    y = y[0] if isinstance(y, list | tuple) else y
    is_shared = bool(y.numel()) and y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    place = "operand" if y is x else "shared" if is_shared else "own"
    return place, bool(y._is_view()) and name not in VIEW_FLAG_DIFFERS


def _x(t: Any, requires_grad: bool) -> Any:
    return (t.arange(192, dtype=t.float64) * 0.013 - 1).reshape(2, 4, 4, 6).clone().requires_grad_(requires_grad)


def _compare(name: str, requires_grad: bool, times: int) -> None:
    F = jitgrad.nn.functional
    function = lambda x: RESULTS[name](jitgrad, F, x)  # noqa: E731
    run = jitgrad.compile(function) if times else function
    x = _x(jitgrad, requires_grad)
    for _ in range(times - 1):
        run(x)
    got = _facts(jitgrad, F, name, x, run)
    x = _x(torch, requires_grad)
    assert got == _facts(torch, torch.nn.functional, name, x, lambda x: RESULTS[name](torch, torch.nn.functional, x))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RESULTS)
def test_results_share_memory_where_pytorchs_do(name: str) -> None:
    for requires_grad in (False, True):
        _compare(name, requires_grad, 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(RESULTS)[::3])
def test_results_of_compiled_steps_share_memory_where_pytorchs_do(name: str) -> None:
    _compare(name, True, 3)


def test_a_write_to_a_result_that_changed_nothing_does_not_reach_the_operand(mode: Mode) -> None:
    def step(t: Any, F: Any) -> Any:
        x = t.ones(1, 4, 2, 2)
        for y in (F.pixel_shuffle(x, 1), F.pixel_unshuffle(x, 1), F.channel_shuffle(x, 4), F.adaptive_avg_pool2d(x, 2),
                  F.pad(x, (0, 0, 0, 0), mode="reflect")):  # fmt: skip
            y.mul_(3)
        return x.sum()

    assert mode.run(lambda: step(jitgrad, jitgrad.nn.functional)).item() == 16.0
    assert step(torch, torch.nn.functional).item() == 16.0


def test_parts_of_what_a_function_made_have_memory_without_gaps(mode: Mode) -> None:
    """What they are parts of is gone after a compiled step."""

    def step(t: Any, F: Any) -> Any:
        x = (t.arange(72, dtype=t.float64) / 7).reshape(1, 2, 36)
        square = x[0].reshape(2, 6, 6)
        results = [
            F.fold(x.reshape(1, 8, 9), (4, 4), 2, padding=1, stride=2),
            F.fold(x.reshape(8, 9), (4, 4), 2, padding=1, stride=2),
            F.unfold(square, 2),
            t.quantile(x, t.tensor([0.25, 0.5], dtype=t.float64), 1, keepdim=True),
            t.linalg.cholesky(square @ square.mT + 90 * t.eye(6, dtype=t.float64), upper=True),
            F.conv1d(x, x[:, :, :3]),
        ]
        return [(y * 1, y) for y in results]

    got = mode.run(lambda: step(jitgrad, jitgrad.nn.functional))
    for ours, theirs in zip(got, step(torch, torch.nn.functional), strict=True):
        for y, expected in zip(ours, theirs, strict=True):
            assert not y._is_view()
            assert y.untyped_storage().nbytes() == 8 * y.numel()
            torch.testing.assert_close(torch.from_numpy(y.numpy().copy()), expected)
