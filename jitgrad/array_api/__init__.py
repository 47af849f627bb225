"""The data-apis array API standard (2024.12) over jitgrad's tensors.

Owns: the namespace. Its functions have the standard's names, signatures and promotion; arrays are ``jitgrad.Tensor``.
Must not know: how anything is computed.

Source: https://data-apis.org/array-api/2024.12/. What is left out: complex dtypes and with them ``fft``, unsigned
integers of more than 8 bits; and an array's attribute ``size``, which is a method as in PyTorch (``x.numel()``).
"""

from __future__ import annotations

import sys
from math import e, inf, nan, pi

from jitgrad.array_api import arranging, linalg, making, statistics
from jitgrad.array_api.arranging import *  # noqa: F403
from jitgrad.array_api.dtype_functions import astype, can_cast, finfo, iinfo, isdtype, result_type
from jitgrad.array_api.elementwise import BINARY, UNARY, clip, conj, imag, real, sign
from jitgrad.array_api.info import ArrayNamespaceInfo
from jitgrad.array_api.linalg import matmul, matrix_transpose, tensordot, vecdot
from jitgrad.array_api.making import *  # noqa: F403
from jitgrad.array_api.statistics import *  # noqa: F403
from jitgrad.dtypes import bool_ as bool
from jitgrad.dtypes import float32, float64, int8, int16, int32, int64, uint8

__array_api_version__ = "2024.12"

newaxis = None

itself = sys.modules[__name__]
"""For libraries that look for the namespace at run time."""

globals().update({**UNARY, **BINARY})


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """What the namespace has: dtypes, devices, capabilities."""
    return ArrayNamespaceInfo()


__all__ = [
    "__array_api_version__", "__array_namespace_info__", "astype", "bool", "can_cast", "clip", "conj", "e", "finfo",
    "float32", "float64", "iinfo", "imag", "inf", "int16", "int32", "int64", "int8", "isdtype", "linalg", "matmul",
    "matrix_transpose", "nan", "newaxis", "pi", "real", "result_type", "sign", "tensordot", "uint8", "vecdot",
    *arranging.__all__, *making.__all__, *statistics.__all__, *UNARY, *BINARY,
]  # fmt: skip
