"""The rows in JAX's spelling: one jitted function per step, with the state carried and donated."""
