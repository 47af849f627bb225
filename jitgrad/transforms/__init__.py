"""Levels: interpreters of operations that stand on one another, see Note [Levels]."""
