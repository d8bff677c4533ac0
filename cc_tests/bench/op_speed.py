"""Times the TensorFlow ops on a gradient that is new in each step, in memcpys of it from the same run.

    python cc_tests/bench/op_speed.py                 # 10M elements, one thread
    python cc_tests/bench/op_speed.py --n 1e6 --threads 2

A step makes a gradient, encodes it, and assigns the new slots, as a training step does; the time of the same
function without the op is taken off. Decoding is `decode_sum` of the packets of one rank, and what each
further rank adds. A cell is the ratio and the target, with `!` where the target is missed.
"""

import argparse
import os

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
    "dense|raw|qsgd": (3, 1.5, 1),
    "residual|dense|raw|qsgd": (4, 1.5, 1),
    "dense|raw|uniform": (3, 1.5, 1),
    "residual|dense|raw|block_int": (1.5, 1.5, 1),
    "residual|dense|raw|block_int:bits=4": (1.5, 1.5, 1),
    "dense|raw|quantile": (8, 2, None),
    "dense|raw|log": (None, None, None),
    "dense|raw|fp16": (None, None, None),
    "nonzero|sketchml": (40, 30, None),
    "topk:ratio=0.01|bloom|raw": (8, 8, None),
}
RANKS = 3


def encode_seconds(spec: str, source: tf.Variable, repeats: int) -> tuple[float, tf.Tensor]:
    """Returns the time that Encode adds to a step, and a frame."""
    slots = [tf.Variable(tf.zeros_like(source))] if spec.startswith("residual|") else []

    def gradient() -> tf.Tensor:
        return source * tf.constant(1.0)

    @tf.function
    def make() -> tf.Tensor:
        return gradient()[0]

    @tf.function
    def step() -> tf.Tensor:
        frame, _, new_slots = ops.encode(gradient(), slots, tf.constant(1, tf.int64), spec)
        for slot, new in zip(slots, new_slots, strict=True):
            slot.assign(new)
        return frame

    # `source * 1.0` must not be simplified away, nor computed once.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    frame = step()
    make()
    return best_seconds(step, repeats=repeats) - best_seconds(make, repeats=repeats), frame


def decode_seconds(frame: tf.Tensor, n: int, ranks: int, repeats: int) -> float:
    """Returns the time to sum the same frame from each of `ranks` ranks."""
    packets = tf.concat([frame] * ranks, 0)

    @tf.function
    def decode(packets: tf.Tensor) -> tf.Tensor:
        sums, *_ = ops.decode_sum(packets, ranks, 1.0, [tf.constant([n], tf.int64)], [tf.float32])
        return sums[0][0]

    decode(packets)
    return best_seconds(lambda: decode(packets), repeats=repeats)


def cell(seconds: float, copy: float, target: float | None) -> str:
    """Returns a time in memcpys beside its target."""
    ratio = seconds / copy
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
    arguments = parser.parse_args()
    n = int(arguments.n)
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    source = tf.Variable(tf.random.stateless_normal([n], seed=(1, 2)) * 0.01)
    specs = {spec: SPECS.get(spec, (None, None, None)) for spec in arguments.spec or SPECS}
    table = rich.table.Table("spec", "memcpy ms", "encode", "decode", "further rank", box=rich.box.MARKDOWN)
    for spec, targets in specs.items():
        copy = memcpy_seconds(n)
        encode, frame = encode_seconds(spec, source, arguments.repeats)
        one, more = (decode_seconds(frame, n, ranks, arguments.repeats) for ranks in (1, RANKS))
        copy = min(copy, memcpy_seconds(n))
        times = (encode, one, (more - one) / (RANKS - 1))
        table.add_row(
            spec, f"{1e3 * copy:.1f}", *(cell(s, copy, t) for s, t in zip(times, targets, strict=True))
        )
    console = rich.console.Console(width=140)
    console.print(
        f"{n:,} elements, {arguments.threads} of {os.cpu_count()} threads, times in memcpys / target"
    )
    console.print(table)


if __name__ == "__main__":
    main()
