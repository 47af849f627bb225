"""Linear algebra, under the names of ``torch.linalg``.

Small real matrices are factored by kernels, Note [Matrix routines]. LAPACK does the rest, through NumPy: in a compiled
step it runs eagerly (``stats()["fallbacks"]`` counts that). Matrices may come in batches, [*, m, n]. What has a
derivative has it any number of times.
"""

from __future__ import annotations

from jitgrad.errors import LinAlgError
from jitgrad.functions import vector_norm
from jitgrad.functions.checked import check_arguments
from jitgrad.functions.outputs import takes_out
from jitgrad.linalg.decompositions import (
    cholesky,
    cholesky_ex,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    qr,
    svd,
    svdvals,
)
from jitgrad.linalg.indefinite import ldl_factor, ldl_factor_ex, ldl_solve
from jitgrad.linalg.matrices import (
    cross,
    det,
    diagonal,
    matrix_exp,
    matrix_power,
    multi_dot,
    slogdet,
    vander,
    vecdot,
)
from jitgrad.linalg.norms import cond, matrix_norm, matrix_rank, norm
from jitgrad.linalg.reflections import householder_product
from jitgrad.linalg.systems import (
    inv,
    inv_ex,
    lstsq,
    pinv,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
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
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

_WITHOUT_OUT = {"LinAlgError", "diagonal", "vector_norm", "householder_product", "vander"}
globals().update({name: takes_out(globals()[name]) for name in __all__ if name not in _WITHOUT_OUT})
for _name in set(__all__) - _WITHOUT_OUT:
    globals()[_name].__module__ = __name__  # where pickle finds the function with out=

check_arguments(globals(), "linalg")
