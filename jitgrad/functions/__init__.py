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
from jitgrad.functions.indexing import *  # noqa: F403
from jitgrad.functions.joining import *  # noqa: F403
from jitgrad.functions.layers import *  # noqa: F403
from jitgrad.functions.linalg import *  # noqa: F403
from jitgrad.functions.losses import *  # noqa: F403
from jitgrad.functions.pointwise import *  # noqa: F403
from jitgrad.functions.reduction import *  # noqa: F403
from jitgrad.functions.sampling import *  # noqa: F403
from jitgrad.functions.scattering import *  # noqa: F403
from jitgrad.functions.views import *  # noqa: F403

adopt(_generated.MADE, _generated.OTHER_NAMES)
PUBLIC: dict[str, Any] = _generated.PUBLIC
METHODS: dict[str, Any] = {**_generated.METHODS, **tables.PROPERTIES}
INPLACE_METHODS: dict[str, Any] = _generated.INPLACE_METHODS
LAYERS: dict[str, Any] = _generated.LAYERS

globals().update(PUBLIC)
__all__ = ["INPLACE_METHODS", "LAYERS", "METHODS", "PUBLIC", *PUBLIC]
