"""Derivatives forward: what operations do to tangents."""
