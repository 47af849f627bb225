"""Helpers that belong to no other package."""
