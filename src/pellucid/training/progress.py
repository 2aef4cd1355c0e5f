"""What a person sees of a fit while it runs: a bar, scikit-learn's callbacks, Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tqdm import tqdm

try:  # scikit-learn 1.9 and later
    from sklearn import callback as sklearn_callback
except ImportError:  # pragma: no cover - depends on the installed scikit-learn
    sklearn_callback = None

Method = TypeVar("Method", bound=Callable[..., Any])


class NoCallbacks:
    """Stands in where scikit-learn has no callbacks."""


CallbackSupportMixin: Any = getattr(sklearn_callback, "CallbackSupportMixin", NoCallbacks)


def with_callbacks(method: Method) -> Method:
    """scikit-learn's decorator of the same name, where there is one."""
    return sklearn_callback.with_callbacks(method) if sklearn_callback else method


__all__ = ["CallbackSupportMixin", "Interrupt", "Watch", "interruptible", "with_callbacks"]


class Watch:
    """One bar and one callback context over all epochs of a fit."""

    def __init__(self, estimator: Any = None, total: int = 0, verbose: int = 0) -> None:
        self.estimator = estimator
        start = getattr(estimator, "_init_callback_context", None)
        self.context = start(max_subtasks=None) if start else None
        if self.context:
            self.context.call_on_fit_task_begin(estimator=estimator)
        # Quiet fits still show a bar when they last, on a terminal and nowhere else.
        quiet = {} if verbose else {"disable": None, "delay": 2.0}
        name = type(estimator).__name__ if estimator is not None else "fit"
        self.bar = tqdm(total=total, desc=name, unit="epoch", leave=bool(verbose), **quiet)

    @contextmanager
    def epoch(self, restarts: int = 1) -> Iterator[Callable[[dict[str, Any]], bool]]:
        """Around one epoch of so many restarts; call what comes with its record, True is stop."""
        sub = self.context.subcontext(task_name="epoch") if self.context else None
        if sub:
            sub.call_on_fit_task_begin(estimator=self.estimator)

        def done(record: dict[str, Any]) -> bool:
            self.bar.set_postfix_str(f"loss {record['loss']:.5g}", refresh=False)
            self.bar.update(restarts)
            return bool(sub and sub.call_on_fit_task_end(estimator=self.estimator))

        yield done

    def close(self) -> None:
        """End the bar and the fit's task; a second call does nothing."""
        self.bar.close()
        context, self.context = self.context, None
        if context:
            context.call_on_fit_task_end(estimator=self.estimator)


class Interrupt:
    """Whether Ctrl-C was pressed; a second press ends at once."""

    asked = False

    def __call__(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def interruptible(interrupt: Interrupt) -> Iterator[None]:
    """Turn Ctrl-C into a question asked between batches, so that no step is left half done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:  # None is a handler that was not set from Python
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
