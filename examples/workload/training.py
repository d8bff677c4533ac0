"""Trains a task with each compressor of the command line and reports the results."""

import argparse
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import platform
import statistics
import sys
import time
from collections.abc import Callable

import horovod
import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf

import tfcompress as tfc
from workload.data import one_epoch
from workload.gradients import DumpGradients, local_gradients
from workload.interface import InterfaceCounter
from workload.recorder import Recorder
from workload.task import Task

MakeTask = Callable[[argparse.Namespace, tfc.Compressor], Task]
# Of `tfc.Stats`.
BYTES = ("dense_bytes", "dense_wire_bytes", "payload_bytes", "wire_bytes")
# How often the update is repeated, to be timed.
_UPDATES = 5


def run(arguments: argparse.Namespace, make_task: MakeTask) -> None:
    """Trains once for each `--compression`; rank 0 prints a line for each and writes `--output`."""
    try:
        compressors = {name: tfc.make_compressor(name) for name in arguments.compression}
    except ValueError as error:
        raise SystemExit(f"--compression: {error}") from error
    hvd.init()
    workload = pathlib.Path(sys.argv[0]).stem
    results = []
    for rounds, (preset, compressor) in itertools.product(rounds_of(arguments), compressors.items()):
        name = f"{preset}{rounds.suffix if rounds else ''}"
        if hvd.rank() == 0:
            print(f"\n{workload}, {name}: {compressor.spec}", flush=True)
        keras.utils.set_random_seed(arguments.seed)
        task = make_task(arguments, compressor)
        described = {"workload": workload, "compression": name, "spec": compressor.spec}
        results.append({**described, **train(task, compressor, arguments, rounds)})
        if hvd.rank() == 0:
            print(summary(results[-1]), flush=True)
            if arguments.output:
                arguments.output.parent.mkdir(parents=True, exist_ok=True)
                arguments.output.write_text(json.dumps(results, indent=1) + "\n")


@dataclasses.dataclass(frozen=True)
class Rounds:
    """How ranks train apart: the arguments of `tfc.LocalSteps`."""

    steps: int
    outer: tfc.OuterStep | None
    feedback_decay: float

    @property
    def suffix(self) -> str:
        """What is added to a compressor's name."""
        outer, decay = self.outer, f", decay {self.feedback_decay:g}" if self.feedback_decay != 1 else ""
        applied = f", outer rate {outer.rate:g}, Nesterov {outer.momentum:g}" if outer else ""
        return f", {self.steps} local steps{applied}{decay}"


def rounds_of(arguments: argparse.Namespace) -> list[Rounds | None]:
    """Returns the kinds of rounds to train with; None exchanges gradients in every step."""
    kinds: list[Rounds | None] = []
    for steps in arguments.local_steps:
        made = [Rounds(steps, outer, arguments.feedback_decay) for outer in arguments.outer]
        kinds += made if steps else [None]
    return kinds


def distributed(
    optimizer: keras.optimizers.Optimizer, task: Task, compressor: tfc.Compressor, rounds: Rounds | None
) -> keras.optimizers.Optimizer:
    """Returns an optimizer that exchanges gradients, or after each round what it changed."""
    if rounds is None:
        return tfc.DistributedOptimizer(optimizer, compression=compressor, sparse_as_dense=task.dense_tables)
    decay = rounds.feedback_decay
    return tfc.LocalSteps(optimizer, rounds.steps, compressor, rounds.outer, feedback_decay=decay)


def train(
    task: Task, compressor: tfc.Compressor, arguments: argparse.Namespace, rounds: Rounds | None = None
) -> dict:
    """Trains a task once and returns the measurements; times are those of this rank."""
    data = one_epoch(task.train, arguments)
    inner = task.make_optimizer(learning_rate(data, arguments))
    optimizer = distributed(inner, task, compressor, rounds)
    task.model.compile(optimizer, task.loss, jit_compile=False)
    warm_up = arguments.warm_up_steps
    recorder = Recorder(optimizer, lambda model: mean_over_ranks(task.evaluate(model)), warm_up)
    counters = [InterfaceCounter(name, optimizer, warm_up) for name in arguments.count_interface]
    callbacks = [tfc.callbacks.BroadcastVariables(0), *counters, recorder]
    if arguments.dump_gradients:
        callbacks.append(DumpGradients(arguments.dump_gradients, arguments.dump_steps, task))
    verbose = 1 if hvd.rank() == 0 else 0
    task.model.fit(data, epochs=arguments.epochs, callbacks=callbacks, verbose=verbose, shuffle=False)
    total = tfc.stats(optimizer).total
    num_steps = int(optimizer.iterations) if rounds else total.steps
    return {
        "ranks": hvd.size(),
        "parameters": task.model.count_params(),
        "seed": arguments.seed,
        "epochs": arguments.epochs,
        "steps": num_steps,
        "exchanges": total.steps,
        "batch_size": arguments.batch_size,
        "learning_rate": arguments.learning_rate,
        "decay": arguments.decay,
        "dense_tables": task.dense_tables,
        "metrics": recorder.metrics,
        **{f"{column}_per_step": getattr(total, column) / max(num_steps, 1) for column in BYTES},
        "milliseconds": recorder.milliseconds(update_milliseconds(task, next(iter(data)))),
        "step_ms_median": recorder.median_step_ms(),
        "interfaces": [counter.result() for counter in counters],
        "replicas_identical": replicas_identical(task.model),
        "curve": recorder.curve,
        "machine": {"processor": platform.machine(), "cores": len(os.sched_getaffinity(0))},
        "versions": versions(),
    }


def learning_rate(data: tf.data.Dataset, arguments: argparse.Namespace) -> object:
    """Returns the learning rate, or a cosine schedule to zero over all steps."""
    if not arguments.decay:
        return arguments.learning_rate
    num_steps = int(data.cardinality())
    if num_steps < 0:
        raise SystemExit("--decay needs --steps here: the number of steps in the data is not known")
    return keras.optimizers.schedules.CosineDecay(arguments.learning_rate, num_steps * arguments.epochs)


def mean_over_ranks(sums: dict[str, tuple[float, float]]) -> dict[str, float]:
    """Returns each metric over the test data of all ranks."""
    local = tf.constant([list(each) for each in sums.values()], tf.float64)
    totals = hvd.allreduce(local, op=hvd.Sum, name="metrics").numpy()
    return {name: float(total / count) for name, (total, count) in zip(sums, totals, strict=True)}


def update_milliseconds(task: Task, batch: tuple) -> float:
    """Times the optimizer's update with the gradients of a batch, on copies of the variables."""
    gradients = local_gradients(task.model, task.loss, batch)
    make_variable = getattr(keras, "Variable", tf.Variable)  # Keras 2 uses TensorFlow's.
    variables = [make_variable(tf.convert_to_tensor(v)) for v in task.model.trainable_variables]
    optimizer = task.make_optimizer(0.0)
    optimizer.build(variables)
    update = tf.function(lambda: optimizer.apply_gradients(zip(gradients, variables, strict=True)))
    update()
    times = []
    for _ in range(_UPDATES):
        start = time.perf_counter()
        update()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def replicas_identical(model: keras.Model) -> bool:
    """Returns whether all trainable variables have the same bits on all ranks."""
    digest = hashlib.sha256()
    for variable in model.trainable_variables:
        digest.update(tf.convert_to_tensor(variable).numpy().tobytes())
    own = np.frombuffer(digest.digest(), np.uint8)
    return bool((hvd.allgather(tf.constant(own[np.newaxis]), name="digests").numpy() == own).all())


def versions() -> dict[str, str]:
    """Returns the versions of the software that produced the results."""
    packages = {"tfcompress": tfc, "tensorflow": tf, "keras": keras, "horovod": horovod}
    return {"python": platform.python_version(), **{k: v.__version__ for k, v in packages.items()}}


def summary(result: dict) -> str:
    """Returns a line that summarises a result."""
    metrics = ", ".join(f"{name} {value:.4f}" for name, value in result["metrics"].items())
    wire, dense = result["wire_bytes_per_step"], result["dense_wire_bytes_per_step"]
    traffic = f"{wire:,.0f} B a step on the wire, {dense / max(wire, 1):.1f} times fewer"
    return f"{result['compression']}: {metrics}; {traffic}; {result['milliseconds']['step']:.1f} ms"
