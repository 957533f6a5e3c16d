"""A fit as a whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def all_or_nothing(model: Any) -> Iterator[None]:
    """What fails inside, or is interrupted, leaves the attributes of the model as they were.

    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(fitted=1)
    >>> with all_or_nothing(model):
    ...     model.fitted, model.half = 2, True
    ...     raise RuntimeError("the cluster was lost")
    Traceback (most recent call last):
    ...
    RuntimeError: the cluster was lost
    >>> model
    namespace(fitted=1)
    """
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise
