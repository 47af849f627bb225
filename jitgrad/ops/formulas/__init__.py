"""Formulas of special functions, which are printed as kernels and run over arrays."""
