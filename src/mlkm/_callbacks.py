"""scikit-learn's callbacks (`model.set_callbacks(ProgressBar())`), from scikit-learn 1.9 on.

A fit is a task and every stage of it (`mlkm._progress`) a task inside. What a callback says of stopping is not
followed: a stage has no result before it is over.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from ._progress import Event, Listener

F = TypeVar("F", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _managed
except ImportError:  # before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing."""

    def _managed(method: F) -> F:
        return method


__all__ = ["CallbackSupportMixin", "Everyone", "Tasks", "tasks_of", "with_callbacks"]


def with_callbacks(method: F) -> F:
    """A method after which callbacks are torn down, however it ends."""
    return cast(F, _managed(method))


class Tasks:
    """Stages as tasks of a fit. The fit itself has begun when this is made, and ends with `finish`."""

    def __init__(self, model: Any, X: Any, y: Any, sample_weight: Any) -> None:
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.model, self.data = model, {"X": X, "y": y, "metadata": metadata}
        self.fit = model._init_callback_context(max_subtasks=None)
        self.fit.call_on_fit_task_begin(estimator=model, **self.data)
        self.open: dict[str, Any] = {}

    def tell(self, event: Event) -> None:
        if event.left == 0:
            self._end(event.stage)
        elif event.stage not in self.open:
            # None: it has steps, how many is not known, and a bar of its own
            task = self.open[event.stage] = self.fit.subcontext(task_name=event.stage, max_subtasks=None)
            task.call_on_fit_task_begin(estimator=self.model)

    def say(self, line: str, event: Event) -> None:
        """Nothing: an estimate is no task."""

    def close(self) -> None:
        for name in list(self.open):
            self._end(name)

    def finish(self) -> None:
        """The model is fitted as it is, and callbacks may ask it to predict: nothing of it need be put back. A stage
        leaves no model behind, and says nothing of this."""
        self.fit.call_on_fit_task_end(estimator=self.model, reconstruction_attributes={}, **self.data)

    def _end(self, name: str) -> None:
        task = self.open.pop(name, None)
        if task is not None:
            task.call_on_fit_task_end(estimator=self.model)


def tasks_of(model: Any, X: Any, y: Any, sample_weight: Any) -> Tasks | None:
    """Where the model has callbacks."""
    return Tasks(model, X, y, sample_weight) if getattr(model, "_skl_callbacks", None) else None


class Everyone:
    """Several who listen."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = listeners

    def tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener.tell(event)

    def say(self, line: str, event: Event) -> None:
        for listener in self.listeners:
            listener.say(line, event)

    def close(self) -> None:
        for listener in self.listeners:
            listener.close()
