"""Times the TensorFlow ops on a gradient that is new in each step, in memcpys of it from the same run.

    python cc_tests/bench/op_speed.py                 # 10M elements, one thread
    python cc_tests/bench/op_speed.py --n 1e6 --threads 2

A step makes a gradient, encodes it, and assigns the new slots, as a training step does. Decoding is
`decode_sum` of the packets of one rank, and what each further rank adds. With error feedback, the time in
which TensorFlow adds the gradient to a variable is beside it: no encoding can take less. The time of the
same function without the op is taken off. A cell is the ratio and the target, with `!` where the target is
missed. Memory is what slots, gradient and encoding have at most, in gradients, TensorFlow's own few megabytes
included: of the first spec alone, since a process keeps much of it for the next.
"""

import argparse
import json
import os
import pathlib
import re

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import rich.box
import rich.console
import rich.table
import tensorflow as tf

from tfcompress import ops
from tfcompress.measure import best_seconds, memcpy_seconds

# Spec, and the targets: encode, decode of one rank, of each further rank; None for no target.
SPECS = {
    "residual|topk:ratio=0.01|delta_binary|raw": (2, 0.5, None),
    "residual|topk:ratio=0.1|delta_adaptive|block_int:bits=3,block=64": (None, None, None),
    "dense|raw|qsgd": (3, 1.5, 1),
    "residual|dense|raw|qsgd": (4, 1.5, 1),
    "dense|raw|uniform": (3, 1.5, 1),
    "residual|dense|raw|block_int": (1.5, 1.5, 1),
    "residual|dense|raw|block_int:bits=4,levels=square": (1.5, 1.5, 1),
    "dense|raw|quantile": (8, 2, None),
    "dense|raw|log": (None, None, None),
    "dense|raw|fp16": (None, None, None),
    "nonzero|sketchml": (40, 30, None),
    "topk:ratio=0.01|bloom|raw": (8, 8, None),
}
PARTS = ("encode", "decode", "further")
RANKS = 3
# Small gradients are encoded and decoded several times in a call, which itself takes some 100 microseconds.
_ELEMENTS_A_CALL = 1 << 20


class PeakMemory:
    """What the process has at most, from now on, beyond what it has now."""

    def __init__(self):
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # The peak is what there is.
        self._before = self._read("VmRSS")

    @staticmethod
    def _read(field: str) -> int:
        status = pathlib.Path("/proc/self/status").read_text()
        return 1024 * int(re.search(rf"{field}:\s+(\d+) kB", status)[1])

    def num_bytes(self) -> int:
        """Returns how much more there was, at most."""
        return self._read("VmHWM") - self._before


def encode_seconds(spec: str, source: tf.Variable, repeats: int) -> tuple[float, int, tf.Tensor]:
    """Returns the time that Encode adds to a step, the memory of a step in bytes, and a frame."""
    memory = PeakMemory()
    slots = [tf.Variable(tf.zeros_like(source))] if spec.startswith("residual|") else []

    def gradient() -> tf.Tensor:
        return source * tf.constant(1.0)

    times = times_a_call(int(source.shape[0]))

    @tf.function
    def make() -> tf.Tensor:
        return gradient()[0]

    @tf.function
    def step() -> list[tf.Tensor]:
        frames, vector = [], gradient()
        for seed in range(times):  # TensorFlow would compute equal calls once.
            frame, _, new_slots = ops.encode(vector, slots, tf.constant(seed, tf.int64), spec)
            for slot, new in zip(slots, new_slots, strict=True):
                slot.assign(new)
            frames.append(frame)
        return frames

    # `source * 1.0` must not be simplified away, nor computed once.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    frames = step()
    make()
    num_bytes = memory.num_bytes()
    seconds = best_seconds(step, repeats=repeats) - best_seconds(make, repeats=repeats)
    return seconds / times, num_bytes, frames[0]


def addition_seconds(source: tf.Variable, repeats: int) -> float:
    """Returns the time in which TensorFlow itself adds a new gradient to a variable."""
    slot = tf.Variable(tf.zeros_like(source))

    @tf.function
    def make() -> tf.Tensor:
        return (source * tf.constant(1.0))[0]

    @tf.function
    def add() -> tf.Tensor:
        gradient = source * tf.constant(1.0)
        for _ in range(times):
            slot.assign_add(gradient)
        return gradient[0]

    times = times_a_call(int(source.shape[0]))
    add()
    make()
    return (best_seconds(add, repeats=repeats) - best_seconds(make, repeats=repeats)) / times


def times_a_call(n: int) -> int:
    """Returns how often a gradient of so many elements is encoded or decoded in a call."""
    return max(1, min(64, _ELEMENTS_A_CALL // n))


def decode_seconds(frame: tf.Tensor, n: int, ranks: int, repeats: int) -> float:
    """Returns the time to sum the same frame from each of `ranks` ranks."""
    packets = [tf.concat([frame] * ranks, 0) for _ in range(times_a_call(n))]

    @tf.function
    def decode(packets: list[tf.Tensor]) -> tf.Tensor:
        shapes = [tf.constant([n], tf.int64)]
        sums = [ops.decode_sum(each, ranks, 1.0, shapes, [tf.float32])[0][0] for each in packets]
        return tf.add_n([each[0] for each in sums])

    @tf.function
    def call(packets: list[tf.Tensor]) -> tf.Tensor:
        return tf.add_n([each[0] for each in packets])

    decode(packets)
    call(packets)
    with_op, without = (best_seconds(lambda f=f: f(packets), repeats=repeats) for f in (decode, call))
    return (with_op - without) / len(packets)


def measure(spec: str, source: tf.Variable, threads: int, repeats: int) -> dict:
    """Returns the times in memcpys of the gradient, the targets, and the memory in gradients."""
    n = int(source.shape[0])
    copy = memcpy_seconds(n)
    encode, num_bytes, frame = encode_seconds(spec, source, repeats)
    one, more = (decode_seconds(frame, n, ranks, repeats) for ranks in (1, RANKS))
    copy = min(copy, memcpy_seconds(n))
    seconds = (encode, one, (more - one) / (RANKS - 1))
    addition = addition_seconds(source, repeats) / copy if spec.startswith("residual|") else None
    targets = SPECS.get(spec, (None, None, None))
    return {
        "spec": spec,
        "n": n,
        "threads": threads,
        "memcpy_ms": 1e3 * copy,
        **{part: each / copy for part, each in zip(PARTS, seconds, strict=True)},
        "addition": addition,
        "targets": dict(zip(PARTS, targets, strict=True)),
        "bytes": int(frame.shape[0]),
        "memory": num_bytes / (4 * n),
    }


def cell(ratio: float, target: float | None) -> str:
    """Returns a time in memcpys beside its target."""
    return f"{ratio:.2f}" + ("" if target is None else f" / {target}" + ("" if ratio <= target else " !"))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=float, default=1e7, help="elements of the gradient (default: 1e7)")
    parser.add_argument("--threads", type=int, default=1, help="threads of an op (default: 1)")
    parser.add_argument(
        "--repeats", type=int, default=15, help="runs, of which the best counts (default: 15)"
    )
    parser.add_argument("--spec", action="append", help="a spec instead of those of the table")
    parser.add_argument("--output", help="a file for the numbers, as JSON; then no table is printed")
    arguments = parser.parse_args()
    n = int(arguments.n)
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    source = tf.Variable(tf.random.stateless_normal([n], seed=(1, 2)) * 0.01)
    rows = [measure(spec, source, arguments.threads, arguments.repeats) for spec in arguments.spec or SPECS]
    if arguments.output is not None:
        pathlib.Path(arguments.output).write_text(json.dumps(rows))
        return
    table = rich.table.Table(
        "spec", "memcpy ms", "encode", "addition", "decode", "further rank", "memory", box=rich.box.MARKDOWN
    )
    for row in rows:
        encode, *others = (cell(row[part], row["targets"][part]) for part in PARTS)
        addition = "" if row["addition"] is None else cell(row["addition"], None)
        table.add_row(
            row["spec"], f"{row['memcpy_ms']:.1f}", encode, addition, *others, f"{row['memory']:.1f}"
        )
    console = rich.console.Console(width=140)
    console.print(
        f"{n:,} elements, {arguments.threads} of {os.cpu_count()} threads, times in memcpys / target"
    )
    console.print(table)


if __name__ == "__main__":
    main()
