"""Linear algebra, under the names of ``torch.linalg``.

LAPACK does the work, through NumPy: in a compiled step these operations run eagerly (``stats()["fallbacks"]`` counts
them). Matrices may come in batches, [*, m, n]. What has a derivative has it any number of times.
"""

from __future__ import annotations

from jitgrad.errors import LinAlgError
from jitgrad.functions import vector_norm
from jitgrad.linalg.decompositions import (
    cholesky,
    cholesky_ex,
    eigh,
    eigvalsh,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    qr,
    svd,
    svdvals,
)
from jitgrad.linalg.matrices import (
    cross,
    det,
    diagonal,
    matrix_exp,
    matrix_power,
    multi_dot,
    slogdet,
    vecdot,
)
from jitgrad.linalg.norms import cond, matrix_norm, matrix_rank, norm
from jitgrad.linalg.systems import inv, lstsq, pinv, solve, solve_triangular, tensorinv, tensorsolve

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vecdot",
    "vector_norm",
]
