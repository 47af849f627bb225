"""The public functions, and the tables of methods that ``tensor.py`` attaches to Tensor.

Owns: the names that users import. Which functions there are is in ``tables``; ``_generated`` holds those that look at
their arguments, and these are the public ones.
"""

from __future__ import annotations

from typing import Any

from jitgrad.functions import _generated, tables
from jitgrad.functions._parse import adopt
from jitgrad.functions.activation import *  # noqa: F403
from jitgrad.functions.creation import *  # noqa: F403
from jitgrad.functions.dropouts import *  # noqa: F403
from jitgrad.functions.einstein import *  # noqa: F403
from jitgrad.functions.from_data import *  # noqa: F403
from jitgrad.functions.indexing import *  # noqa: F403
from jitgrad.functions.joining import *  # noqa: F403
from jitgrad.functions.layers import *  # noqa: F403
from jitgrad.functions.linalg import *  # noqa: F403
from jitgrad.functions.losses import *  # noqa: F403
from jitgrad.functions.ordering import *  # noqa: F403
from jitgrad.functions.pointwise import *  # noqa: F403
from jitgrad.functions.reduction import *  # noqa: F403
from jitgrad.functions.sampling import *  # noqa: F403
from jitgrad.functions.scattering import *  # noqa: F403
from jitgrad.functions.views import *  # noqa: F403

adopt(_generated.MADE, _generated.OTHER_NAMES)
PUBLIC: dict[str, Any] = _generated.PUBLIC
METHODS: dict[str, Any] = {**_generated.METHODS, **tables.OPERATORS, **tables.PROPERTIES, **tables.LATE_METHODS}
INPLACE_METHODS: dict[str, Any] = _generated.INPLACE_METHODS
LAYERS: dict[str, Any] = _generated.LAYERS
LATE = tables.LATE

for _function in LAYERS.values():
    if PUBLIC.get(_function.__name__) is not _function:
        _function.__module__ = "jitgrad.nn.functional"  # where pickle finds it

WRITING_NAMES = (
    "abs_ acos_ acosh_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_ atan_ atanh_ ceil_ clamp_ "
    "clamp_max_ clamp_min_ clip_ cos_ cosh_ deg2rad_ erf_ erfc_ exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ i0_ "
    "gcd_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ "
    "relu_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_"
).split()
"""In-place methods that are functions as well. They are not listed in ``__all__``: a star brings in no writers."""
WRITING: dict[str, Any] = {
    **{name: INPLACE_METHODS[name] for name in WRITING_NAMES},
    **{name: LAYERS[name] for name in ("celu_", "rrelu_", "selu_", "threshold_")},
}

globals().update({**INPLACE_METHODS, **{name: f for name, f in LAYERS.items() if name.endswith("_")}, **PUBLIC})
__all__ = ["INPLACE_METHODS", "LATE", "LAYERS", "METHODS", "PUBLIC", *PUBLIC]
