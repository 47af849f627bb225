"""What jitgrad knows of the interpreter that runs it, beyond the language: how it was built, what its counts mean."""
