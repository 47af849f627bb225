"""Training steps timed against the best peers: ``python -m benchmarks --help``.

A row is one training step, written once for ``torch`` and ``jitgrad`` (``rows/``) and once for JAX (``rows_jax/``).
A subject is one library in one mode (``subjects.py``). Every subject of a row runs in its own process (``worker.py``);
``runner.py`` lets one of them run at a time, in short slices, and compares their losses before it believes a time.
"""
