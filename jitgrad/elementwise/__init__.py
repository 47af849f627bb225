"""Functions of Python scalars, compiled by Numba, applied to tensors: ``jitgrad.vectorize``.

Owns: the decorators; what they know of Numba is in ``numba_source``.
"""

from jitgrad.elementwise.vectorize import VectorizedFunction, vectorize

__all__ = ["VectorizedFunction", "vectorize"]
