"""Programs that use libraries built on PyTorch; run by hand, ``python -m tests.libraries``."""
