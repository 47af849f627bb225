"""Reads and writes by indices."""

from jitgrad.ops.indexing import gathering, indexing, scatter_reduce, scattering

__all__ = ["gathering", "indexing", "scatter_reduce", "scattering"]
