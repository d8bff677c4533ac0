"""Measures bytes and decoding of one rank in a step, gathered and sharded, as the number of ranks grows.

    python benchmarks/sharding.py            # plays 2 to 256 ranks in one process, draws the figure
    horovodrun -np 3 -H localhost:3 --gloo python benchmarks/sharding.py --measure    # adds a real job

What rank 0 does is done here with the real codecs, on one thread: it encodes what it sends, and decodes what
it gets. Gathered: the frames of all ranks. Sharded: the pieces of its shard from all ranks, then the sums
of all shards; of what others encode, only what rank 0 gets is made. Gradients have rows and columns that are
large together, as those of dense layers have, and half of each is common to all ranks. Payload is what rank 0
encodes, wire bytes those that the links of a rank carry, in and out, as `tfc.stats` counts both. Decoding is
timed in rounds over all numbers of ranks, so that a machine that is slower for a while is so for each, and
memory is kept between them: the first write to a page may cost ten times what decoding does.
"""

import ctypes
import dataclasses
import math
import pathlib
from collections.abc import Callable

import drawing
import fill_tables
import numpy as np
import options
import page_table
from measuring import tracked
from scaling import spec_alone

import tfcompress as tfc
from tfcompress.measure import best_seconds

MEASURED_STEPS = 3
ROUNDS = 15
# Parameters of glibc's mallopt, M_TRIM_THRESHOLD and M_MMAP_THRESHOLD, and values above what is decoded.
KEEPS_MEMORY = ((-1, 1 << 30), (-3, 32 << 20))


@dataclasses.dataclass(frozen=True)
class Setting:
    """The gradient that is played.

    Attributes:
      rows: Of the gradient, a matrix.
      columns: Of the gradient.
      largest: The largest number of ranks, a power of two.
      seed: Seed of the gradients.
    """

    rows: int = 2048
    columns: int = 2048
    largest: int = 256
    seed: int = 0

    @property
    def ranks(self) -> list[int]:
        """The numbers of ranks: powers of two from 2 on."""
        return [2**i for i in range(1, self.largest.bit_length())]

    def gradient(self, rank: int) -> np.ndarray:
        """Returns a rank's gradient, float32 [rows, columns]."""
        common = np.random.default_rng(self.seed)
        scale = np.exp(common.standard_normal((self.rows, 1), np.float32))
        scale = scale * np.exp(common.standard_normal((1, self.columns), np.float32))
        shared = common.standard_normal((self.rows, self.columns), np.float32)
        own = np.random.default_rng([self.seed, rank]).standard_normal(shared.shape, np.float32)
        return scale * (shared + own)


QUICK = Setting(256, 256, 16)


def compressors() -> dict[str, tfc.Compressor]:
    topk = tfc.Compression.topk(0.01)
    sharded = {
        "topk": topk,
        "topk rowcol|ecsq": tfc.Compression.topk(0.01, index="rowcol", value="ecsq"),
        "sparse": tfc.Compression.sparse().last,
        "compact": tfc.Compression.compact().last,
        "smallest": tfc.Compression.smallest().last,
        "bf16": tfc.Compression.bf16,
        "int8": tfc.Compression.int8(),
        "int4": tfc.Compression.int4(),
    }
    return {"topk": topk} | {
        f"{name}, sharded": dataclasses.replace(compressor, exchange="shard")
        for name, compressor in sharded.items()
    }


def decoding(packets: list[bytes], elements: int, tensors: int = 1) -> Callable[[], object]:
    """Returns what decodes packets, each of as many tensors of so many elements, and adds them."""
    arguments = (b"".join(packets), len(packets), 1.0, [elements] * tensors, ["float32"] * tensors)
    return lambda: tfc.codecs.decode_sum(*arguments, num_threads=1)


def add_times(points: list[dict], decodings: list[list[Callable[[], object]]]) -> None:
    """Adds to each point the shortest times of what it decodes, of some rounds over all points."""
    best = [[math.inf] * len(each) for each in decodings]
    for _ in range(ROUNDS):
        for times, each in zip(best, decodings, strict=True):
            times[:] = [min(old, best_seconds(call)) for old, call in zip(times, each, strict=True)]
    for point, times in zip(points, best, strict=True):
        point["decode_ms"] = 1e3 * sum(times)


# Bytes of rank 0 in a step, and what it decodes.
Played = tuple[dict, list[Callable[[], object]]]


def play_gathered(setting: Setting, spec: str, num_ranks: int) -> Played:
    """Plays rank 0 of a gather. Frames are of nearly one size: sixteen stand for those of more ranks."""
    some = [tfc.encode(setting.gradient(rank), spec, seed=rank) for rank in range(min(num_ranks, 16))]
    packets = [some[rank % len(some)] for rank in range(num_ranks)]
    others = sum(map(len, packets[1:]))
    # On a ring each packet but the own one comes in, and goes out again or is the own one.
    point = {"ranks": num_ranks, "payload_bytes": len(packets[0]), "wire_bytes": 2 * others}
    return point, [decoding(packets, setting.rows * setting.columns)]


def play_sharded(setting: Setting, spec: str, num_ranks: int, spec_of_sums: str) -> Played:
    """Plays rank 0 of a sharded exchange; shards are rows."""
    shard = setting.rows // num_ranks
    own = setting.gradient(0)
    sent = [tfc.encode(own[i * shard : (i + 1) * shard], spec, seed=i) for i in range(1, num_ranks)]
    total, pieces = own[:shard].copy(), []
    for rank in range(1, num_ranks):
        pieces.append(tfc.encode(setting.gradient(rank)[:shard], spec, seed=rank))
        total += tfc.decode(pieces[-1]).reshape(total.shape)
    mine = tfc.encode(total, spec_of_sums)
    sums = [mine] * num_ranks  # Those of other shards are of nearly the same size.
    num_sent = sum(map(len, sent))
    point = {
        "ranks": num_ranks,
        "payload_bytes": num_sent + len(mine),
        "wire_bytes": num_sent + sum(map(len, pieces)) + 2 * sum(map(len, sums[1:])),
    }
    return point, [decoding(pieces, total.size), decoding([b"".join(sums)], total.size, num_ranks)]


def simulate(setting: Setting) -> dict[str, dict]:
    if not all(ctypes.CDLL(None).mallopt(*each) for each in KEEPS_MEMORY):
        print("memory is not kept between calls: times include first writes to pages")
    simulated = {}
    for name, compressor in tracked(compressors().items(), lambda item: item[0]):
        spec = spec_alone(compressor.spec)
        if compressor.exchange == "gather":
            played = [play_gathered(setting, spec, ranks) for ranks in setting.ranks]
        else:
            spec_of_sums = compressor.return_spec or spec
            played = [play_sharded(setting, spec, ranks, spec_of_sums) for ranks in setting.ranks]
        points, decodings = map(list, zip(*played, strict=True))
        add_times(points, decodings)
        simulated[name] = {"spec": compressor.spec, "points": points}
    return simulated


def measure(setting: Setting) -> list[dict]:
    """Exchanges a few gradients on all ranks of this job; returns what this rank counted."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    points, gradient = [], setting.gradient(hvd.rank())
    for name, compressor in compressors().items():
        variable = tf.Variable(tf.zeros(gradient.shape))
        for _ in range(MEASURED_STEPS):
            with tf.GradientTape() as plain:
                loss = tf.reduce_sum(variable * gradient)
            tape = tfc.DistributedGradientTape(plain, compression=compressor)
            tape.gradient(loss, [variable])
        total = tfc.stats(tape).total
        counted = {key: total.per_step(key) for key in ("payload_bytes", "wire_bytes")}
        decode = total.milliseconds("decode")
        points.append({"exchange": name, "ranks": hvd.size(), **counted, "decode_ms": decode})
    return points


def plot(results: dict, path: pathlib.Path) -> None:
    figure, all_axes = drawing.subplots(1, 2, size=(10, 4.2))
    for axes, key, scale, label in zip(
        all_axes,
        ("wire_bytes", "decode_ms"),
        (1e6, 1),
        ("MB in and out of a rank", "ms of decoding"),
        strict=True,
    ):
        for i, (name, simulated) in enumerate(results["simulated"].items()):
            points = simulated["points"]
            axes.plot([p["ranks"] for p in points], [p[key] / scale for p in points], f"C{i}", label=name)
            if key == "wire_bytes":
                real = [point for point in results["measured"] if point["exchange"] == name]
                axes.plot(
                    [p["ranks"] for p in real],
                    [p[key] / scale for p in real],
                    f"C{i}o",
                    markerfacecolor="none",
                )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set(xlabel="ranks", ylabel=f"{label}, a step")
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.grid(True, which="major", alpha=0.3)
    all_axes[0].plot([], [], "ko", markerfacecolor="none", label="measured, a real job")
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    setting = results["setting"]
    size = f"{setting['rows']:,} x {setting['columns']:,}"
    figure.suptitle(f"A gradient of {size}; top-k 1 %, sparse 10 %, or all elements")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = options.make_parser(__doc__)
    options.add_measure(parser, "a small gradient and at most 16 ranks")
    arguments = parser.parse_args()
    setting = QUICK if arguments.quick else Setting()
    results = options.update(
        arguments, "sharding", setting, lambda: measure(setting), lambda: simulate(setting)
    )
    options.save(results, arguments.output, "sharding")
    if results["measured"]:
        page_table.show(fill_tables.sharding_measured(results))
    if results["simulated"]:
        page_table.show(fill_tables.sharding(results))
        plot(results, arguments.output / "figures" / "sharding.png")


if __name__ == "__main__":
    main()
