"""What to use instead of the parts of PyTorch that jitgrad does not have.

Owns: ``advice_on``.
Must not know: scripts.
"""

from __future__ import annotations

__all__ = ["advice_on"]

_ADVICE = {
    "torch.jit": "use jitgrad.compile, which needs no scripting",
    "torch.fx": "jitgrad.explain shows what a compiled step does",
    "torch.export": "jitgrad runs on Python; there is no export",
    "torch.onnx": "jitgrad runs on Python; there is no export",
    "torch._dynamo": "use jitgrad.compile",
    "torch._inductor": "use jitgrad.compile",
    "torch.distributed": "jitgrad trains in one process",
    "torch.multiprocessing": "use Python's multiprocessing; DataLoader has workers of its own",
    "torch.quantization": "there is no quantisation",
    "torch.ao": "there is no quantisation",
    "torch.quantize_per_tensor": "there is no quantisation",
    "torch.hub": "load the model's own Python, and its weights with jitgrad.load",
    "torch.cuda": "there is no GPU: guard it by torch.cuda.is_available()",
    "torch.compiler": "use jitgrad.compile",
    "torch.profiler": "use jitgrad.profiler",
    "torch.complex64": "keep real and imaginary part in two tensors",
    "torch.complex128": "keep real and imaginary part in two tensors",
    "torch.fft": "numpy.fft, outside the graph",
}


def advice_on(name: str) -> str:
    """What to use instead of ``torch.…``; empty if nothing is known to be better than nothing."""
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        found = _ADVICE.get(".".join(parts[:end]))
        if found is not None:
            return found
    return ""
