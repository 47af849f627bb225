"""Scripts written for PyTorch: running them as they are, and reading what they need before.

``python -m jitgrad train.py`` and ``python -m jitgrad --check train.py``, see docs/scripts.md.
"""
