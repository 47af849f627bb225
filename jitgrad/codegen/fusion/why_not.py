"""``WhyNot``: a refusal as a value, so that logs, ``explain`` and tests read the same object.

Owns: the record. The reasons are worded where the decision is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["WhyNot"]


@dataclass(slots=True, frozen=True)
class WhyNot:
    """Why two steps do not share a kernel.

    Attributes:
        reason: one phrase.
        producer, consumer: the steps, as they print.
    """

    reason: str
    producer: Any
    consumer: Any

    def __str__(self) -> str:
        return f"not fused: {self.consumer} into {self.producer}: {self.reason}"
