"""Is a compiled step right? ``verify``, ``watch_nan``, and the files that they write."""
