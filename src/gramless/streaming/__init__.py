"""Learning from streams of rows that need not fit into memory.

The public names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gramless.base.public import lazy_getattr

__all__ = [
    "ArraySource",
    "Checking",
    "Evaluation",
    "Grow",
    "InverseTime",
    "IteratorSource",
    "ReadingSizes",
    "RowSource",
    "Step",
    "Strategy",
    "StreamEnded",
    "Uniform",
]

if TYPE_CHECKING:
    from gramless.streaming.doubly_stochastic import Step
    from gramless.streaming.sources import (
        ArraySource,
        IteratorSource,
        ReadingSizes,
        RowSource,
        StreamEnded,
    )
    from gramless.streaming.step_sizes import InverseTime
    from gramless.streaming.strategies import Checking, Grow, Strategy, Uniform
    from gramless.streaming.training_loop import Evaluation

__getattr__ = lazy_getattr(
    __name__,
    {
        "ArraySource": "gramless.streaming.sources",
        "Checking": "gramless.streaming.strategies",
        "Evaluation": "gramless.streaming.training_loop",
        "Grow": "gramless.streaming.strategies",
        "InverseTime": "gramless.streaming.step_sizes",
        "IteratorSource": "gramless.streaming.sources",
        "ReadingSizes": "gramless.streaming.sources",
        "RowSource": "gramless.streaming.sources",
        "Step": "gramless.streaming.doubly_stochastic",
        "Strategy": "gramless.streaming.strategies",
        "StreamEnded": "gramless.streaming.sources",
        "Uniform": "gramless.streaming.strategies",
    },
)
