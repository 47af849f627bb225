"""Views, their derivatives, and tensors joined from parts."""

from jitgrad.ops.views import joining, splitting, view_grads, view_scatter, views

__all__ = ["joining", "splitting", "view_grads", "view_scatter", "views"]
