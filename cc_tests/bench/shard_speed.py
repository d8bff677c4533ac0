"""Times the four ops of a sharded exchange, in memcpys of the gradient from the same run.

    python cc_tests/bench/shard_speed.py                   # 10M elements, 2 to 8 ranks, one thread
    python cc_tests/bench/shard_speed.py --n 1e6 --ranks 2 --spec "residual|dense|raw|block_int"

In the first hop a rank encodes what others sum (`encode_pieces`) and sums its own shard of what they sent
(`sum_pieces`); in the second it encodes that sum (`encode_sum`) and decodes all sums (`decode_pieces`).
A step makes a gradient, encodes it, and assigns the new slots, as a training step does; the time of the
same function without the op is taken off. One process does what rank 0 does; all ranks have the same
gradient.
"""

import argparse
import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import op_speed
import rich.box
import rich.console
import rich.table
import tensorflow as tf

from tfcompress import ops
from tfcompress.measure import best_seconds, memcpy_seconds

SPECS = (
    "residual|dense|raw|block_int",
    "residual|dense|raw|block_int:bits=4,levels=square",
    "residual|topk:ratio=0.1|delta_adaptive|block_int:bits=3,block=64",
)
RANKS = (2, 4, 8)
# The memcpys that an op may take where all elements are sent, in the order of a step.
TARGETS = {"encode_pieces": 1.5, "sum_pieces": 1.5, "encode_sum": 1.5, "decode_pieces": 1.5}


class Step:
    """A step of rank 0, op by op: `source` is the gradient of every rank."""

    def __init__(self, spec: str, source: tf.Variable, ranks: int):
        self.spec, self.source, self.ranks = spec, source, ranks
        self.n = int(source.shape[0])
        self.cuts = tf.constant([self.n * rank // ranks for rank in range(ranks + 1)], tf.int64)
        self.slots = [tf.Variable(tf.zeros_like(source))]
        self.received = tf.concat([self._sent_to_rank_0()] * (ranks - 1), 0)
        self.others = self.sum_pieces()[0][0]
        self.gathered = tf.concat([self._sum_of(rank) for rank in range(ranks)], 0)

    def gradient(self) -> tf.Tensor:
        """Returns one that is new in each step."""
        return self.source * tf.constant(1.0)

    def encode_pieces(self, own: int = 0) -> tuple:
        """Encodes a new gradient for the other ranks."""
        return ops.encode_pieces(self.gradient(), self.slots, self.cuts, own, 1, self.spec)

    def sum_pieces(self) -> tuple:
        """Sums what the others sent of the first piece."""
        return ops.sum_pieces(self.received, self.ranks, 0, self.cuts[1:2], 1)

    def encode_sum(self, slots: list[tf.Tensor], others: tf.Tensor, rank: int = 0) -> tuple:
        """Encodes the sum of a piece."""
        return ops.encode_sum(self.source, slots, others, self.cuts[rank], 1, self.spec)

    def decode_pieces(self) -> tuple:
        """Decodes the sums of all ranks."""
        return ops.decode_pieces(self.gathered, 1.0, self.cuts[tf.newaxis], [tf.constant([self.n], tf.int64)])

    def _sent_to_rank_0(self) -> tf.Tensor:
        frames, num_bytes, *_ = self.encode_pieces(own=1)
        return frames[: num_bytes[0]]

    def _sum_of(self, rank: int) -> tf.Tensor:
        slots = self.encode_pieces(own=rank)[-1]
        others = (self.ranks - 1.0) * self.source[self.cuts[rank] : self.cuts[rank + 1]]
        return self.encode_sum(slots, others, rank)[0]


def seconds(step: Step, repeats: int) -> dict[str, float]:
    """Returns the time of each op."""

    def assigned(encoded: tuple) -> list[tf.Tensor]:
        return [*encoded[:-1], *(a.assign(b) for a, b in zip(step.slots, encoded[-1], strict=True))]

    # What is timed, and what of it is not the op's.
    calls = {
        "make": lambda: step.gradient()[0],
        "read": lambda: [step.received[0], step.gathered[0]],
        "encode_pieces": lambda: assigned(step.encode_pieces()),
        "sum_pieces": step.sum_pieces,
        "both": lambda: assigned(step.encode_sum(step.encode_pieces()[-1], step.others)),
        "decode_pieces": step.decode_pieces,
    }
    functions = {name: tf.function(call) for name, call in calls.items()}
    best = {name: best_seconds(call, repeats=repeats + 1) for name, call in functions.items()}
    return {
        "encode_pieces": best["encode_pieces"] - best["make"],
        "sum_pieces": best["sum_pieces"] - best["read"],
        "encode_sum": best["both"] - best["encode_pieces"],
        "decode_pieces": best["decode_pieces"] - best["read"],
    }


def measure(spec: str, source: tf.Variable, ranks: int, arguments: argparse.Namespace) -> dict:
    """Returns the times in memcpys of the gradient."""
    n = int(source.shape[0])
    copy = memcpy_seconds(n)
    found = seconds(Step(spec, source, ranks), arguments.repeats)
    copy = min(copy, memcpy_seconds(n))
    return {
        "spec": spec,
        "ranks": ranks,
        "n": n,
        "threads": arguments.threads,
        "memcpy_ms": 1e3 * copy,
        **{name: each / copy for name, each in found.items()},
        "targets": TARGETS if "|dense|" in spec else dict.fromkeys(TARGETS),
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=float, default=1e7, help="elements of the gradient (default: 1e7)")
    parser.add_argument("--threads", type=int, default=1, help="threads of an op (default: 1)")
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS, help="default: 2 4 8")
    parser.add_argument("--repeats", type=int, default=15, help="runs, the best counts (default: 15)")
    parser.add_argument("--spec", nargs="+", default=SPECS, help="specs instead of those of the table")
    parser.add_argument("--output", help="a file for the numbers, as JSON")
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    # `source * 1.0` must not be simplified away, nor computed once.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    source = tf.Variable(tf.random.stateless_normal([int(arguments.n)], seed=(1, 2)) * 0.01)
    rows = [measure(spec, source, ranks, arguments) for spec in arguments.spec for ranks in arguments.ranks]
    if arguments.output is not None:
        pathlib.Path(arguments.output).write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    table = rich.table.Table("spec", "ranks", "memcpy ms", *TARGETS, box=rich.box.MARKDOWN)
    for row in rows:
        cells = (op_speed.cell(row[name], target) for name, target in row["targets"].items())
        table.add_row(row["spec"], str(row["ranks"]), f"{row['memcpy_ms']:.1f}", *cells)
    console = rich.console.Console(width=160)
    console.print(f"{source.shape[0]:,} elements, {arguments.threads} threads, times in memcpys / target")
    console.print(table)


if __name__ == "__main__":
    main()
