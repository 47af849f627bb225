"""The rows of the table, in its order."""

from benchmarks.row import Row

__all__ = ["ROWS"]

_ALL = (
    Row("rosenbrock_1e3", "Rosenbrock, 1e3", "rosenbrock", {"n": 1_000}),
    Row("rosenbrock_1e6", "Rosenbrock, 1e6", "rosenbrock", {"n": 1_000_000}),
    Row("black_scholes", "Black-Scholes + Greeks, 1e6", "black_scholes", {"n": 1_000_000}, check_steps=2),
    Row("logistic", "logistic regression 1024x64", "logistic", {"rows": 1024, "features": 64}),
    Row("tiny_mlp", "tiny MLP, batch 32, Adam", "mlp", {"widths": (16, 32, 32, 4), "batch": 32}),
    Row("mnist_mlp", "MNIST-size MLP, batch 64, Adam", "mlp", {"widths": (784, 256, 10), "batch": 64}),
    Row("wide_mlp", "wide MLP, batch 256, Adam", "mlp", {"widths": (784, 512, 512, 10), "batch": 256}),
    Row("lstm", "LSTM, 32 steps unrolled", "lstm", {"steps": 32, "batch": 16, "features": 32, "hidden": 64}),
    Row("transformer", "2-layer transformer, Adam", "transformer", rtol=1e-3),
    Row("pinn", "PINN, second derivatives", "pinn", {"points": 256, "hidden": 64}, rtol=1e-3),
    Row("nbody", "N-body, 20 steps", "nbody", {"bodies": 64, "steps": 20}, rtol=1e-3),
    Row("lenet", "LeNet, batch 32", "lenet", {"batch": 32}, rtol=1e-3),
    Row("kepler", "Kepler's equation per element, 1e6", "scalars", {"problem": "kepler", "n": 1_000_000}, 2),
    Row("gamma", "incomplete gamma per element, 1e5", "scalars", {"problem": "gamma", "n": 100_000}, 2),
    Row("mandelbrot", "Mandelbrot distance per element, 1e5", "scalars", {"problem": "mandelbrot", "n": 100_000}, 2),
    Row("volatility", "implied volatility per element, 1e5", "scalars", {"problem": "volatility", "n": 100_000}, 2),
    Row("drag", "a law of ten branches per element, 1e6", "scalars", {"problem": "drag", "n": 1_000_000}, 2),
    Row("new_graph", "a new graph every step", "new_graph", {"depth": 15}),
    Row("tree_lstm", "TreeLSTM, a random tree a step", "tree_lstm", {"leaves": 12, "features": 16, "hidden": 32}),
    Row("reinforce", "REINFORCE, an episode a step", "reinforce", {"limit": 40, "hidden": 16}, rtol=1e-3),
    Row("fixed_point", "fixed point, turns by the data", "fixed_point", {"batch": 32, "width": 32}, rtol=1e-3),
)

ROWS: dict[str, Row] = {row.name: row for row in _ALL}
