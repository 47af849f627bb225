"""How a view came about, where that forbids writing to it.

Owns: ``CreationMeta`` and PyTorch's texts for the refusals.
Must not know: how a write is done, what a view is a view of.
In: a view that was or is to be written. Out: the text of the error.
"""

from __future__ import annotations

import enum
import re
from typing import Any

__all__ = ["CreationMeta", "forward_name", "view_refusal"]


class CreationMeta(enum.Enum):
    """Why a view's history cannot be rewritten when its base changes; a tensor's ``_creation_meta`` is None if it can.

    A view of a view takes over its source's, if it has none of its own (torch/csrc/autograd/variable.h).
    """

    NO_GRAD_MODE = "no_grad"
    INFERENCE_MODE = "inference"
    MULTI_OUTPUT_NODE = "several views"
    IN_CUSTOM_FUNCTION = "custom Function"


_AMBIGUOUS = (
    " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both "
    "the view and the inplace either both inside the {mode} block (if you don't want the inplace to be tracked) or "
    "both outside (if you want the inplace to be tracked)."
)
_REASONS = {
    CreationMeta.NO_GRAD_MODE: _AMBIGUOUS.format(mode="no_grad"),
    CreationMeta.INFERENCE_MODE: _AMBIGUOUS.format(mode="inference_mode"),
    CreationMeta.MULTI_OUTPUT_NODE: (
        " This view is the output of a function that returns multiple views. Such functions do not allow the output "
        "views to be modified inplace. You should replace the inplace operation by an out-of-place one."
    ),
    CreationMeta.IN_CUSTOM_FUNCTION: (
        " This view was created inside a custom Function (or because an input was returned as-is) and the autograd "
        "logic to handle view+inplace would override the custom backward associated with the custom Function, leading "
        "to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the custom "
        "Function."
    ),
}


def forward_name(node: Any) -> str:
    """The forward function of a node, as PyTorch's messages name it: ``Exp`` for ``ExpBackward0``."""
    return re.sub(r"Backward\d*$", "", node.name())


def view_refusal(creation_meta: CreationMeta, grad_fn: Any, output_nr: int, *, is_indirect: bool) -> str:
    """PyTorch's text for a write to a view that must not be written.

    Args:
        creation_meta: how the view was made.
        grad_fn: its Node, or None.
        output_nr: which output of the Node it is.
        is_indirect: its base, or another view of that, was written, rather than the view itself.
    """
    written = "its base or another view of its base has been" if is_indirect else "is being"
    origin = f"Output {output_nr} of {forward_name(grad_fn)} is a view" if grad_fn is not None else ""
    if creation_meta is CreationMeta.INFERENCE_MODE:
        made = f"{origin} of a view which was" if origin else "A view was"
        text = f"{made} created in inference mode and {written} modified inplace in normal mode."
    elif creation_meta is CreationMeta.NO_GRAD_MODE or grad_fn is None:
        made = f"{origin} of a view which was" if origin else "A view was"
        text = f"{made} created in no_grad mode and {written} modified inplace with grad mode enabled."
    else:
        text = f"{origin} and {written} modified inplace."
    return text + _REASONS[creation_meta]
