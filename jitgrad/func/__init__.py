"""Functions of functions: derivatives and batches, in any order; ``torch.func``.

Owns: the public names.
"""

from jitgrad.func.forward import hessian, jacfwd, jvp, linearize
from jitgrad.func.modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from jitgrad.func.reverse import grad, grad_and_value, jacrev, vjp
from jitgrad.transforms.vmap import vmap

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
