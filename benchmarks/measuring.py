"""Shared code of the benchmarks: the parts to measure, timing, and progress."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import rich.progress

import tfcompress as tfc
from tfcompress.measure import best_seconds, processor

Job = TypeVar("Job")


def with_policies(entry: tfc.catalogue.Entry) -> list[str]:
    """Returns the part's name, or variants: each choice of its first such parameter, then other choices."""
    choices = [p for p in entry.parameters if p.kind == "choice"]
    settings = [(p, value) for p in choices for value in p.range.split(", ")]
    shown = [f"{p.name}={value}" for p, value in settings if p is choices[0] or value != p.default]
    return [f"{entry.name}:{each}" for each in shown] or [entry.name]


def seconds(call: Callable[[], object], budget: float = 0.15) -> float:
    """Returns the shortest time of as many calls as fit in `budget` seconds."""
    return best_seconds(call, least_seconds=budget)


def cpu_milliseconds(call: Callable[[], object], repeats: int = 10, least_seconds: float = 0.1) -> float:
    """Returns the least processor time of a call on this thread: other programs hardly change it."""
    times: list[float] = []
    while len(times) < repeats or sum(times) < least_seconds:
        begin = time.thread_time()
        call()
        times.append(time.thread_time() - begin)
    return 1e3 * min(times)


def tracked(jobs: Iterable[Job], describe: Callable[[Job], str]) -> Iterator[Job]:
    """Yields jobs, and shows how many are done and which one runs."""
    todo = list(jobs)
    with rich.progress.Progress() as progress:
        task = progress.add_task("", total=len(todo))
        for job in todo:
            progress.update(task, description=describe(job))
            yield job
            progress.advance(task)


def machine() -> str:
    return f"{processor()}, one thread of {os.cpu_count()}"
