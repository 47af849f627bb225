"""Python functions that Numba compiles: of scalars (``jitgrad.vectorize``) and of whole arrays (``jitgrad.kernel``).

Owns: the decorators; what they know of Numba is in ``numba_source`` and ``array_source``.
"""

from jitgrad.elementwise.kernel import Kernel, kernel
from jitgrad.elementwise.vectorize import VectorizedFunction, vectorize

__all__ = ["Kernel", "VectorizedFunction", "kernel", "vectorize"]
