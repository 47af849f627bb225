"""Public autograd: ``backward``, ``grad``, grad modes, ``graph``, ``gradcheck``, ``functional``."""

from jitgrad.autograd import functional, graph
from jitgrad.autograd.backward import backward, grad
from jitgrad.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from jitgrad.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from jitgrad.runtime.engine.edge import Edge
from jitgrad.runtime.engine.engine import Engine, engine
from jitgrad.runtime.engine.node import Node

__all__ = [
    "Edge",
    "Engine",
    "GradcheckError",
    "Node",
    "backward",
    "enable_grad",
    "engine",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
]
