"""Is a step worth compiling, and where does its time go? What ``jitgrad.benchmark`` is made of."""
