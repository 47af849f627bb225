"""Public autograd: ``backward``, ``grad``, grad modes, ``graph``, ``gradcheck``, ``functional``."""

from typing import TYPE_CHECKING

from jitgrad.autograd import function
from jitgrad.autograd.anomaly_mode import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from jitgrad.autograd.backward import backward, grad
from jitgrad.autograd.function import Function
from jitgrad.autograd.variable import Variable
from jitgrad.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from jitgrad.lazy import late_module
from jitgrad.runtime.engine.graph.node import Edge, Node
from jitgrad.runtime.engine.run.engine import Engine, engine

if TYPE_CHECKING:
    from jitgrad.autograd import forward_ad, functional, graph, profiler
    from jitgrad.autograd.gradchecks import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "Edge",
    "Engine",
    "Function",
    "GradcheckError",
    "Node",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "engine",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "profiler",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

_LATE = {
    "forward_ad": "jitgrad.autograd.forward_ad",
    "functional": "jitgrad.autograd.functional",
    "graph": "jitgrad.autograd.graph",
    "profiler": "jitgrad.autograd.profiler",
    "GradcheckError": "jitgrad.autograd.gradchecks",
    "gradcheck": "jitgrad.autograd.gradchecks",
    "gradgradcheck": "jitgrad.autograd.gradchecks",
}
__getattr__, __dir__ = late_module(globals(), _LATE)
