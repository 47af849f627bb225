"""``jitgrad.profiler``: the profiler under the names of ``torch.profiler``."""

from jitgrad.autograd.profiler import ProfilerActivity, emit_ranges, profile, record_function

__all__ = ["ProfilerActivity", "emit_ranges", "profile", "record_function"]
