"""What shares a kernel: launches are counted, and refusals say why."""

from __future__ import annotations

from typing import Any

import numpy as np
from interpreter import Case

RNG = np.random.default_rng(1)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_pointwise_chain_is_one_kernel() -> None:
    assert Case(lambda b, x, y: b.tanh(b.add(b.mul(x, y), b.exp(x))), [f32(30, 40), f32(40)]).check().launches == 1


def test_several_outputs_of_one_domain_are_one_kernel() -> None:
    def lower(b: Any, x: Any, y: Any) -> Any:
        s = b.sigmoid(x)
        return b.mul(s, y), b.sub(1.0, s), b.mul(b.mul(s, s), y)

    assert Case(lower, [f32(30, 40), f32(30, 40)]).check().launches == 1


def test_loss_and_gradients_are_one_kernel_and_a_combination() -> None:
    def lower(b: Any, x: Any, y: Any) -> Any:
        e = b.exp(b.mul(x, y))
        return b.sum(e, (0,)), b.mul(e, y), b.mul(e, x)

    assert Case(lower, [f32(50_000), f32(50_000)]).check(1e-4, 1e-2).launches == 2
    assert Case(lower, [f32(5000), f32(5000)]).check(1e-4, 1e-3).launches == 1


def test_neighbours_and_their_sum_are_one_kernel() -> None:
    def lower(b: Any, x: Any) -> Any:
        head, tail = b.slice(x, (0,), (999,), (1,)), b.slice(x, (1,), (1000,), (1,))
        d = b.sub(tail, b.mul(head, head))
        gradient = b.add(b.pad(d, (1,), (0,)), b.pad(b.mul(d, head), (0,), (1,)))
        return b.sum(b.mul(d, d), (0,)), gradient

    assert Case(lower, [f32(1000)]).check(1e-4, 1e-3).launches == 1


def test_layer_norm_with_statistics_is_one_kernel() -> None:
    def lower(b: Any, x: Any, w: Any) -> Any:
        mean = b.mul(b.sum(x, (1,), True), 1 / 48)
        c = b.sub(x, mean)
        rstd = b.div(1.0, b.sqrt(b.add(b.mul(b.sum(b.mul(c, c), (1,), True), 1 / 48), 1e-5)))
        return b.mul(b.mul(c, rstd), w), mean, rstd

    assert Case(lower, [f32(20, 48), f32(48)]).check().launches == 1


def test_dear_arithmetic_on_many_rows_is_a_loop_over_the_rows() -> None:
    def lower(b: Any, x: Any, w: Any) -> Any:
        return b.sigmoid(b.sum(b.mul(x, w), (1,)))

    assert Case(lower, [f32(1024, 64), f32(64)]).check(1e-4, 1e-4).launches == 2
    assert Case(lower, [f32(32, 64), f32(64)]).check(1e-4, 1e-4).launches == 1


def test_pairwise_distances_run_along_the_contiguous_features() -> None:
    """What looks hoistable (x[j, k] does not depend on i) is inside the loop over k, so its strides count."""

    def lower(b: Any, x: Any, y: Any) -> Any:
        d = b.sub(b.expand(x, (24, 24, 256)), b.expand(y, (24, 24, 256)))
        return b.sum(b.mul(d, d), (2,))

    case = Case(lower, [f32(24, 1, 256), f32(1, 24, 256)]).check(1e-4, 1e-3)
    assert [name[:4] for name in case.program.kernel_names] == ["row_"]


def test_what_a_row_waits_for_stays_with_the_row() -> None:
    def lower(b: Any, x: Any) -> Any:
        z = b.sub(x, b.reduce("max", x, (1,), True))
        return b.sub(z, b.log(b.sum(b.exp(z), (1,), True)))

    assert Case(lower, [f32(1024, 64)]).check().launches == 1


def test_cross_entropy_and_its_gradient_are_few_kernels() -> None:
    def lower(b: Any, x: Any, t: Any) -> Any:
        z = b.sub(x, b.reduce("max", x, (1,), True))
        logp = b.sub(z, b.log(b.sum(b.exp(z), (1,), True)))
        rows = b.iota((32,), 0)
        loss = b.mul(b.sum(b.gather(logp, [rows, t]), (0,)), -1 / 32)
        hot = b.scatter_add((32, 10), [rows, t], b.const(1.0, x.dtype, (32,)))
        return loss, b.mul(b.sub(b.exp(logp), hot), 1 / 32)

    assert Case(lower, [f32(32, 10), RNG.integers(0, 10, 32)]).check().launches == 2


def test_bias_and_activation_join_the_product() -> None:
    def lower(b: Any, x: Any, w: Any, c: Any) -> Any:
        return b.max(b.add(b.matmul(x, w), c), 0.0)

    assert Case(lower, [f32(32, 16), f32(16, 24), f32(24)]).check(1e-4, 1e-4).launches == 1


def test_update_joins_the_product_and_waits_for_its_readers() -> None:
    def lower(b: Any, w: Any, x: Any, g: Any) -> Any:
        dx = b.matmul(g, b.permute(w, (1, 0)))
        dw = b.matmul(b.permute(x, (1, 0)), g)
        return b.sub(w, b.mul(dw, 0.1)), dx

    case = Case(lower, [f32(16, 24), f32(32, 16), f32(32, 24)], writes=[(0, 0)]).check(1e-4, 1e-4)
    assert case.launches == 2
    assert [len(stage) for stage in case.program.steps[0].stages] == [1, 1]


def test_independent_updates_are_one_stage() -> None:
    def lower(b: Any, *xs: Any) -> Any:
        return [b.sub(p, b.mul(g, 0.1)) for p, g in zip(xs[::2], xs[1::2], strict=True)]

    arrays = [f32(30, 4), f32(30, 4), f32(50), f32(50), f32(2, 3), f32(2, 3)]
    case = Case(lower, arrays, writes=[(0, 0), (1, 2), (2, 4)]).check()
    assert [len(stage) for stage in case.program.steps[0].stages] == [3]


def test_expensive_value_of_two_kernels_is_stored_once() -> None:
    def lower(b: Any, x: Any) -> Any:
        e = b.exp(x)
        return b.sum(e, (0,)), b.sum(e, (1,)), b.permute(e, (1, 0))

    case = Case(lower, [f32(300, 400)]).check(1e-4, 1e-3)
    assert sum("exp" in name for name in case.program.kernel_names) == 1


def test_refusals_are_explained() -> None:
    case = Case(lambda b, x: b.sum(b.reduce("max", b.exp(x), (1,)), (0,)), [f32(40, 40)]).check()
    assert any("visits [40], not [40, 40]" in note for note in case.program.notes)


def test_arena_is_reused() -> None:
    def lower(b: Any, x: Any) -> Any:
        for _ in range(8):
            x = b.tanh(b.matmul(x, x))
        return x

    case = Case(lower, [f32(64, 64) * 0.1]).check(1e-3, 1e-3)
    assert case.program.steps[0].arena_nbytes == 2 * 64 * 64 * 4


def test_fusion_is_the_same_every_time() -> None:
    """The sum may join either product: which one must not depend on where objects happen to lie in memory."""

    def lower(b: Any, x: Any, w: Any, y: Any, v: Any) -> Any:
        return b.add(b.matmul(x, w), b.matmul(y, v))

    arrays = [f32(32, 16), f32(16, 24), f32(32, 8), f32(8, 24)]
    kept = [Case(lower, arrays) for _ in range(12)]
    assert len({case.program.kernel_names for case in kept}) == 1


def test_deep_chains_need_as_many_buffers_a_layer_as_short_ones() -> None:
    """Operands that must be copied are found in one walk, however many: none is copied that needs no copy."""

    def chain(layers: int) -> int:
        def lower(b: Any, x: Any, w: Any) -> Any:
            for _ in range(layers):
                x = b.permute(b.reshape(x, (8, 4, 4, 32)), (0, 2, 1, 3))
                x = b.reshape(b.matmul(b.reshape(x, (1, 128, 32)), w), (128, 32))
                x = b.tanh(x)
            return x

        return Case(lower, [f32(128, 32), f32(1, 32, 32) / 12]).check(1e-3, 1e-3).launches

    assert chain(80) == 80 * chain(1)


def test_reshapes_of_sums_of_rows_need_as_many_buffers_however_many_there_are() -> None:
    """A loop that cannot do a reshape is found in the same walk as others, behind any product."""

    def chain(layers: int) -> int:
        def lower(b: Any, x: Any, w: Any) -> Any:
            for _ in range(layers):
                y = b.reshape(b.exp(x), (30, 7, 2))
                x = b.add(b.reshape(b.permute(y, (2, 0, 1)), (42, 10)), 1.0)
                x = b.reshape(b.matmul(b.reshape(x, (1, 42, 10)), w), (42, 10))
            return x

        return Case(lower, [f32(42, 10), f32(1, 10, 10) / 10]).check(1e-3, 1e-3).launches

    assert chain(75) - chain(5) == 35 * (chain(3) - chain(1))
