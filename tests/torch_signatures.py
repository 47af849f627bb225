"""Functions whose arguments have other names, another order or other defaults than PyTorch's: why, and which.

The names are without ``torch.`` in front. ``test_torch_names.py`` fails for a difference that is not here, and for a
row that is none.
"""

from __future__ import annotations

__all__ = ["OTHER_ARGUMENTS", "OTHER_METHODS", "OTHER_PARAMETERS"]

OTHER_ARGUMENTS = {
    "PyTorch's schema has names that its own Python functions do not take, or forms that the function picks itself": """
        Tensor.eq Tensor.expand Tensor.ne Tensor.record_stream Tensor.sort Tensor.std
        Tensor.tensor_split Tensor.to Tensor.to_sparse Tensor.var alpha_dropout batch_norm cholesky_solve
        Tensor.cholesky_solve dropout embedding eq
        feature_alpha_dropout gradient group_norm instance_norm layer_norm ne nn.functional.elu_ result_type sort split
        std std_mean tensor_split var var_mean linalg.cross linalg.diagonal linalg.vander
        """,
    "torch's function takes the arguments of nn.functional's, in that order": "binary_cross_entropy_with_logits",
    "only weights are loaded, unless something else is asked for": "load",
    "classes that are made by the library, not by users": """
        Size TypedStorage storage.TypedStorage autograd.graph.GradientEdge
        """,
    "the devices that there are": "autograd.graph.save_on_cpu",
    "householder_product has one name for the factors, whatever name it is called by": "orgqr ormqr",
}

OTHER_METHODS = {
    "for GPUs of other makers": "*.ipu *.mtia",
    "steps of PyTorch's own methods, which scripts do not call": """
        profile_hook_step check_forward_args check_hidden_size check_input get_expected_hidden_size
        get_expected_cell_size permute_hidden merge_masks scale_fn recursive_undo dual_level.clone
        set_multithreading_enabled.clone
        """,
    "one process, one device": "Adagrad.share_memory DataParallel.gather DataParallel.parallel_apply "
    "DataParallel.replicate DataParallel.scatter",
}
"""Methods of PyTorch's classes that ours do not have."""

OTHER_PARAMETERS = {
    "`verify` is jitgrad's own": "compile",
    "methods and functions share one function, whose first parameter nobody names": """
        Tensor.norm Tensor.split Tensor.unflatten Tensor.unique Tensor.unique_consecutive split
        """,
    "`out` is a keyword of every function that takes it": "norm nn.functional.normalize",
    "classes that are made by the library, not by users": """
        Size dtype layout memory_format autograd.graph.GradientEdge autograd.graph.Node
        """,
    "C++ takes these by position only; a name does no harm": "is_tensor set_default_dtype",
    "`@no_grad` without parentheses works in both, by `__new__`": "no_grad",
    "Python's pickle is the only one": "save",
    "what is left out raises TypeError in both": "LBFGS.step ReduceLROnPlateau.step",
    "the devices that there are": "save_on_cpu custom_bwd custom_fwd cuda.amp.autocast",
    "constraints share one `check`": "dependent_property.check multinomial.check",
}
"""Functions written in Python whose parameters differ, in their kinds too."""
