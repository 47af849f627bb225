"""``torch.return_types``: the classes of named results.

Owns: which class each function's results have. Several functions share one: ``max`` and ``sort`` return the same.
"""

from __future__ import annotations

from typing import Any

from jitgrad.lazy import late_names

_CLASSES = {
    "jitgrad.functions.reduction": {
        "MinMax": "aminmax",
        "ValuesIndices": "cummax cummin kthvalue max median min mode nanmedian sort topk",
    },
    "jitgrad.functions.real_parts": {"MantissaExponent": "frexp"},
    "jitgrad.functions.distinct": {"Histogram": "histogram histogramdd"},
    "jitgrad.functions.linalg": {"SVDWithV": "svd", "TriangularSolution": "triangular_solve"},
    "jitgrad.linalg.reflections": {"Reflections": "geqrf"},
    "jitgrad.linalg.matrices": {"SlogDet": "slogdet linalg_slogdet"},
    "jitgrad.linalg.indefinite": {"LDLFactor": "linalg_ldl_factor", "LDLFactorEx": "linalg_ldl_factor_ex"},
    "jitgrad.linalg.systems": {
        "InverseEx": "linalg_inv_ex",
        "LeastSquares": "linalg_lstsq",
        "SolveEx": "linalg_solve_ex",
    },
    "jitgrad.linalg.decompositions": {
        "CholeskyEx": "linalg_cholesky_ex",
        "Eig": "linalg_eig",
        "Eigh": "linalg_eigh",
        "LUFactor": "linalg_lu_factor",
        "LUFactorEx": "linalg_lu_factor_ex",
        "PLU": "lu_unpack linalg_lu",
        "QR": "qr linalg_qr",
        "SVD": "linalg_svd",
    },
}
_LATE = {
    name: (place, kind) for place, kinds in _CLASSES.items() for kind, names in kinds.items() for name in names.split()
}
__all__ = sorted(_LATE)


def __getattr__(name: str) -> Any:
    """A class, whose module is imported when it is first asked for."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place, kind = _LATE[name]
    return late_names({"__name__": __name__}, {kind: place})(kind)


def __dir__() -> list[str]:
    return __all__
