"""Functions whose arguments have other names, another order or other defaults than PyTorch's: why, and which.

The names are without ``torch.`` in front. ``test_torch_names.py`` fails for a difference that is not here, and for a
row that is none.
"""

from __future__ import annotations

__all__ = ["OTHER_ARGUMENTS"]

OTHER_ARGUMENTS = {
    "PyTorch's schema has names that its own Python functions do not take, or forms that the function picks itself": """
        Tensor.eq Tensor.expand Tensor.ne Tensor.record_stream Tensor.sort Tensor.std
        Tensor.tensor_split Tensor.to Tensor.to_sparse Tensor.var alpha_dropout batch_norm cholesky_solve
        Tensor.cholesky_solve dropout embedding enable_grad autograd.enable_grad eq
        feature_alpha_dropout gradient group_norm instance_norm layer_norm ne nn.functional.elu_ result_type sort split
        std std_mean tensor_split var var_mean linalg.cross linalg.diagonal linalg.vander
        """,
    "torch's function takes the arguments of nn.functional's, in that order": "binary_cross_entropy_with_logits",
    "there is one compiler, without its options": "compile",
    "only weights are loaded, unless something else is asked for": "load",
    "classes that are made by the library, not by users": "Size TypedStorage",
    "householder_product has one name for the factors, whatever name it is called by": "orgqr ormqr",
}
