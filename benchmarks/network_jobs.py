"""The jobs of `network.py`: runs them in order and reads their results."""

import argparse
import dataclasses
import itertools
import json
import pathlib
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator

import options
import rich.progress
from gradient_sizes import Gradients, read_gradients
from namespace_job import JobError, environment_of, run_ranks
from netns import INTERFACE, Bandwidth, network

__all__ = ["JobError", "Measured", "check_replicas", "measure", "rotated", "run", "written"]

_IDLE_SECONDS = 3
# The step whose gradients are split into keys and values.
_DUMPED_STEP = 10


@dataclasses.dataclass(frozen=True)
class Measured:
    """The results of the jobs, all of rank 0.

    Attributes:
      idle: Output of `idle_rank`, by bandwidth.
      runs: Results of the example, each with its "bandwidth" and "round", without compressors that failed.
      failures: Errors of failed jobs, by compressor.
      gradients: Gradients of one step without compression.
      planned: Milliseconds of each compressor's exchange as `tfcompress plan` predicts them, by bandwidth;
        empty unless that is asked for.
    """

    idle: dict[str, dict]
    runs: list[dict]
    failures: dict[str, str]
    gradients: Gradients
    planned: dict[str, dict[str, float]]


def measure(arguments: argparse.Namespace, script: pathlib.Path) -> Measured:
    """Runs all jobs of an example.

    Raises:
      JobError: Ranks failed or took too long, without a compressor that can be left out.
      netns.NetworkError: The machine refused a network.
    """
    idle, runs, failures, planned = {}, [], {}, {}
    bandwidths = {bandwidth.label: bandwidth for bandwidth in arguments.bandwidths}
    num_jobs = 1 + len(bandwidths) * (1 + arguments.repeats)
    with tempfile.TemporaryDirectory() as scratch, rich.progress.Progress() as progress:
        folder = pathlib.Path(scratch)
        bar = progress.add_task("gradients", total=num_jobs)
        dumped = _dump(arguments, script, folder)
        gradients = read_gradients(dumped)
        for label, bandwidth in bandwidths.items():
            progress.update(bar, advance=1, description=f"idle, {label}")
            idle[label] = written(arguments, bandwidth, "idle_rank.py", [INTERFACE, _IDLE_SECONDS])
            if arguments.plan:
                planned[label] = _plan(arguments, bandwidth, dumped)
        for number in range(arguments.repeats):
            for label, bandwidth in bandwidths.items():
                progress.update(bar, advance=1, description=f"round {number + 1}, {label}")
                names = [name for name in rotated(arguments.compression, number) if name not in failures]
                for steps, some in _by_steps(arguments, names):
                    job = _Job(arguments, script, bandwidth, steps, folder / "results.json")
                    runs += [
                        {"bandwidth": label, "round": number + 1, **result}
                        for result in _train(job, some, failures)
                    ]
        progress.update(bar, advance=1, description="done")
    runs = [run for run in runs if run["compression"] not in failures]
    if not runs:
        raise JobError("\n".join(failures.values()))
    return Measured(idle, runs, failures, gradients, planned)


def rotated(compared: list, number: int) -> list:
    """Returns the order of a round, rotated so that none of them always runs first, with cold caches."""
    first = number % len(compared)
    return compared[first:] + compared[:first]


def _dump(arguments: argparse.Namespace, script: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Trains a few steps without compression; returns the file of rank 0's gradients after the last one."""
    step = min(_DUMPED_STEP, arguments.steps)
    dumping = ["--steps", str(step), "--dump-gradients", str(folder), "--dump-steps", str(step)]
    run(arguments, Bandwidth.parse("unlimited"), _example(arguments, script, ["none"], dumping))
    path = folder / f"step_{step:06d}.npz"
    if not path.exists():
        raise JobError(f"{script.stem} has fewer than {step} steps in an epoch: set --steps lower")
    return path


def _plan(arguments: argparse.Namespace, bandwidth: Bandwidth, gradients: pathlib.Path) -> dict[str, float]:
    """Lets the ranks predict their own exchanges; returns milliseconds by compressor, without `auto`."""
    names = [name for name in arguments.compression if not options.is_tried(name)]
    planning = ["--json", "--repeat", "5", "--threads", str(arguments.threads or 0), "--preset", *names]
    command = shlex.join([sys.executable, "-m", "tfcompress", "plan", str(gradients), *planning])
    output = gradients.parent / "plan"
    run(arguments, bandwidth, ["sh", "-c", f"exec {command} > {shlex.quote(str(output))}.$HOROVOD_RANK"])
    found = json.loads(output.with_suffix(".0").read_text())["results"]
    return {row["name"]: row["step_ms"] for row in found if row["name"] in names}


def _by_steps(arguments: argparse.Namespace, names: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the options that say how many steps are trained and measured, and who trains so."""
    trials = str(arguments.trial_steps)
    after_trials = ["--epochs", "2", "--steps", trials, "--warm-up-steps", trials]
    for is_tried, some in itertools.groupby(names, options.is_tried):
        yield after_trials if is_tried else ["--steps", str(arguments.steps)], list(some)


@dataclasses.dataclass(frozen=True)
class _Job:
    """How the jobs of some compressors are started, and the file of their results."""

    arguments: argparse.Namespace
    script: pathlib.Path
    bandwidth: Bandwidth
    steps: list[str]
    output: pathlib.Path

    def run(self, names: list[str]) -> None:
        """Trains with these compressors, one after the other."""
        counting = [*self.steps, "--preload", "--output", str(self.output), "--count-interface", INTERFACE]
        run(self.arguments, self.bandwidth, _example(self.arguments, self.script, names, counting))


def _train(job: _Job, names: list[str], failures: dict[str, str]) -> Iterator[dict]:
    """Trains with these compressors; yields the example's results.

    A compressor with which a job fails is added to `failures`; another job continues with those after it.
    """
    while names:
        job.output.unlink(missing_ok=True)
        failure = None
        try:
            job.run(names)
        except JobError as error:
            failure = error
        results = json.loads(job.output.read_text()) if job.output.exists() else []
        for result in results:
            _check(result)
            yield result
        names = names[len(results) :]
        if failure:
            if not names:
                raise failure
            failures[names.pop(0)] = str(failure)


def check_replicas(result: dict) -> None:
    """Raises JobError unless all ranks ended with the same weights."""
    if not result["replicas_identical"]:
        raise JobError(f"{result['compression']}: the ranks ended with different weights")


def _check(result: dict) -> None:
    check_replicas(result)
    if not result["interfaces"][0]["steps"]:
        raise JobError(
            f"{result['workload']} took {result['steps']} steps, all of them warm-up: set --steps higher"
        )


def _example(
    arguments: argparse.Namespace, script: pathlib.Path, names: list[str], further: list[str]
) -> list[str]:
    """Returns the command of a rank; the example's own arguments take precedence."""
    command = [sys.executable, str(script), "--epochs", "1", *further]
    return [*command, "--compression", *names, *arguments.example]


def written(
    arguments: argparse.Namespace, bandwidth: Bandwidth, script: str, words: Iterable, **hosts: int
) -> dict:
    """Runs a script of this folder as the ranks of one job; returns the JSON that the first of them writes.

    The script is told where to write it, then `words`; `hosts` are those of `run`.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "result.json"
        command = [sys.executable, pathlib.Path(__file__).with_name(script), output, *words]
        run(arguments, bandwidth, [*map(str, command)], **hosts)
        return json.loads(output.read_text())


def run(
    arguments: argparse.Namespace,
    bandwidth: Bandwidth,
    command: list[str],
    *,
    hosts: int | None = None,
    ranks_per_host: int = 1,
) -> None:
    """Runs a command as the ranks of one job on links of a bandwidth; raises as `measure` does.

    There is a host for each rank of the command line, unless `hosts` says how many there are.
    """
    environment = environment_of(arguments.cycle_time, arguments.threads)
    with network(hosts or arguments.ranks, bandwidth) as made:
        run_ranks(made, command, arguments.timeout, environment, ranks_per_host)
