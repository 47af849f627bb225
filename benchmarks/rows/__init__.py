"""The rows of the table, in its order."""

from dataclasses import replace

from benchmarks.row import Row

__all__ = ["ROWS", "find"]

_TWO_LAYERS = {"depth": 2, "batch": 8, "width": 64}
_FEW = {"n": 2_000}
_RATINGS = {"rows": 20_000, "columns": 5_000, "rank": 32, "batch": 1024}



def _per_element(problem: str, title: str, n: float) -> Row:
    name = f"{title} per element, {n:.0e}".replace("e+0", "e")
    return Row(problem, name, "scalars", {"problem": problem, "n": int(n)}, 2, small=_FEW)


_ALL = (
    Row("rosenbrock_1e3", "Rosenbrock, 1e3", "rosenbrock", {"n": 1_000}),
    Row("rosenbrock_1e6", "Rosenbrock, 1e6", "rosenbrock", {"n": 1_000_000}, small={"n": 5_000}),
    Row("black_scholes", "Black-Scholes + Greeks, 1e6", "black_scholes", {"n": 1_000_000}, 2, small=_FEW),
    Row("logistic", "logistic regression 1024x64", "logistic", {"rows": 1024, "features": 64}),
    Row("tiny_mlp", "tiny MLP, batch 32, Adam", "mlp", {"widths": (16, 32, 32, 4), "batch": 32}),
    Row("epoch", "small MLP over slices of a data set", "mlp", {"widths": (16, 32, 32, 4), "batch": 32, "epoch": 2000},
        small={"epoch": 20}),
    Row("mnist_mlp", "MNIST-size MLP, batch 64, Adam", "mlp", {"widths": (784, 256, 10), "batch": 64}),
    Row("wide_mlp", "wide MLP, batch 256, Adam", "mlp", {"widths": (784, 512, 512, 10), "batch": 256}),
    Row("lstm", "LSTM, 32 steps unrolled", "lstm", {"steps": 32, "batch": 16, "features": 32, "hidden": 64}),
    Row("transformer", "2-layer transformer, Adam", "transformer", _TWO_LAYERS, rtol=1e-3),
    Row("pinn", "PINN, second derivatives", "pinn", {"points": 256, "hidden": 64}, rtol=1e-3),
    Row("nbody", "N-body, 20 steps", "nbody", {"bodies": 64, "steps": 20}, rtol=1e-3),
    Row("lenet", "LeNet, batch 32", "lenet", {"batch": 32}, rtol=1e-3),
    Row("resnet18", "ResNet-18 on 32x32, batch 16", "resnet", {"widths": (64, 128, 256, 512), "batch": 16}, 2, 3e-2,
        small={"widths": (8, 16), "batch": 2}),
    Row("char_gpt", "4-layer GPT, batch 16, width 128", "transformer", {"depth": 4, "batch": 16, "width": 128},
        rtol=1e-3, small={"depth": 1, "batch": 2, "width": 32}),
    Row("lstm_lm", "nn.LSTM language model, hidden 256", "lstm_lm", {"hidden": 256, "steps": 35, "batch": 20},
        rtol=1e-3, small={"hidden": 16, "steps": 4, "batch": 3}),
    Row("unet", "diffusion U-Net on 32x32, batch 16", "unet", {"width": 32, "batch": 16, "size": 32}, 2, 2e-2,
        small={"width": 16, "batch": 2, "size": 8}),
    Row("fno", "Fourier neural operator on 32x32", "fno", {"batch": 8, "size": 32, "width": 16, "modes": 8}, rtol=1e-3,
        small={"batch": 2, "size": 8, "width": 4, "modes": 2}),
    Row("lstm_512", "LSTM, 512 steps unrolled", "lstm", {"steps": 512, "batch": 16, "features": 32, "hidden": 64}, 2,
        1e-3, small={"steps": 40, "batch": 4, "features": 8, "hidden": 8}),
    Row("nbody64", "N-body in float64, 20 steps", "nbody", {"bodies": 64, "steps": 20, "dtype": "float64"}),
    Row("saliency", "an input's gradient, batch 1", "saliency", {"widths": (784, 512, 512, 10)}, rtol=1e-3),
    Row("mixture", "Gaussian mixture, 4096 points", "mixture", {"points": 4096, "features": 8, "parts": 16}),
    Row("factors", "matrix factors, sparse gradients", "factors", _RATINGS, rtol=1e-3),
    _per_element("kepler", "Kepler's equation", 1e6),
    _per_element("gamma", "incomplete gamma", 1e5),
    _per_element("mandelbrot", "Mandelbrot distance", 1e5),
    _per_element("volatility", "implied volatility", 1e5),
    _per_element("drag", "a law of ten branches", 1e6),
    Row("new_graph", "a new graph every step", "new_graph", {"depth": 15}),
    Row("tree_lstm", "TreeLSTM, a random tree a step", "tree_lstm", {"leaves": 12, "features": 16, "hidden": 32}),
    Row("graph_net", "graph network, a graph of another size a step", "graph_net", {"nodes": 1000, "hidden": 64},
        small={"nodes": 40, "hidden": 8}),
    Row("reinforce", "REINFORCE, an episode a step", "reinforce", {"limit": 40, "hidden": 16}, rtol=1e-3),
    Row("fixed_point", "fixed point, turns by the data", "fixed_point", {"batch": 32, "width": 32}, rtol=1e-3),
)

ROWS: dict[str, Row] = {row.name: row for row in _ALL}


def find(name: str) -> Row:
    """The row of that name; ``name:small`` is the same with the sizes of a test."""
    name, _, size = name.partition(":")
    row = ROWS[name]
    return replace(row, sizes={**row.sizes, **row.small}) if size == "small" else row
