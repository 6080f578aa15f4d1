"""One function over many items in worker processes of this machine.

Workers are fresh, single-threaded interpreters (spawned, not forked: threads of the caller's libraries do not survive
a fork) and get one item at a time over a pipe of their own. A pipe ends with its owner, so that no worker outlives the
caller for longer than its current item, however the caller ends.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Self, TypeVar

from mcgpo_data.errors import ResourceError

Item = TypeVar("Item")
Result = TypeVar("Result")

ENVIRONMENT = {
    **dict.fromkeys(("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # gives memory back between items
    "_RJEM_MALLOC_CONF": "dirty_decay_ms:500,muzzy_decay_ms:0",  # so does that of Polars, then
}


def run_buckets(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`Pool.run` with workers of its own."""
    with Pool(workers) as pool:
        yield from pool.run(function, items)


class Pool:
    """Worker processes that are started when they are first needed, and kept for later runs until the pool closes.

    Args:
        workers: processes to use at most.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._processes: dict[Any, SpawnProcess] = {}  # by its pipe

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for pipe, process in self._processes.items():
            pipe.close()  # ends the worker
            if kind is not None:
                process.terminate()
            process.join(5)
        self._terminate()

    def _terminate(self) -> None:
        for pipe, process in self._processes.items():
            pipe.close()
            process.terminate()
            process.join()
        self._processes = {}

    def run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Results in the order of `items`, each as soon as it and all before it are there.

        With one worker or one item everything runs in this process.

        Args:
            function: a function that can be named (module level); it, the items and the results must be picklable.
            items: what to call it with. They are started in order.

        Raises:
            ResourceError: a worker died (as when the system ran out of memory).
            Exception: what `function` raised for the first of the items that failed.
        """
        todo = deque(enumerate(items))
        if min(self.workers, len(todo)) <= 1:
            for _, item in todo:
                yield function(item)
            return
        total, ended = len(todo), False
        done: dict[int, tuple[Any, Exception | None]] = {}
        try:
            while len(self._processes) < min(self.workers, total):
                pipe, process = _start()
                self._processes[pipe] = process
            for pipe, process in [*self._processes.items()][:total]:
                _send(pipe, process, (function, *todo.popleft()))
            for number in range(total):
                while number not in done:
                    for ready in wait(list(self._processes)):
                        finished, result, error = _receive(ready, self._processes[ready])
                        done[finished] = result, error
                        if error is not None:
                            todo.clear()
                        if todo:
                            _send(ready, self._processes[ready], (function, *todo.popleft()))
                result, error = done.pop(number)
                if error is not None:
                    raise error
                yield result
            ended = True
        finally:
            if not ended:  # some are still at work
                self._terminate()


def _start() -> tuple[Connection[Any, Any], SpawnProcess]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _send(pipe: Any, process: SpawnProcess, message: object) -> None:
    try:
        pipe.send(message)
    except ConnectionError:
        raise _death(process) from None


def _receive(pipe: Any, process: SpawnProcess) -> tuple[int, Any, Exception | None]:
    try:
        answer: tuple[int, Any, Exception | None] = pipe.recv()
        return answer
    except (EOFError, ConnectionError):
        raise _death(process) from None


def _death(process: SpawnProcess) -> ResourceError:
    process.join(5)
    if process.exitcode == -signal.SIGKILL:
        return ResourceError(
            "a worker process was killed, most likely for want of memory. Use fewer workers, or more memory."
        )
    return ResourceError(
        f"a worker process ended with exit code {process.exitcode}. Use one worker to see why. "
        "(A script that starts a build needs `if __name__ == '__main__':` around it.)"
    )


def _serve(pipe: Connection[Any, Any]) -> None:
    """A worker's life: receive functions with items until the pipe ends."""
    # ctrl-C reaches every process of the terminal, but it is the caller who ends its workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # set before a function is received: that imports its module, and libraries that look at these once
    os.environ.update(ENVIRONMENT)
    try:
        while True:
            function, number, item = pipe.recv()
            pipe.send((number, *_outcome(function, item)))
    except (EOFError, ConnectionError):
        return


def _outcome(function: Callable[[Any], Any], item: Any) -> tuple[Any, Exception | None]:
    try:
        return function(item), None
    except Exception as error:
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        return None, error
