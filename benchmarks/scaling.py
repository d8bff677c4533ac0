"""Measures the traffic of one rank in a step as the number of ranks grows (Sketched-SGD, Figure 4).

    python benchmarks/scaling.py            # simulates 2 to 256 ranks in one process, draws the figure
    horovodrun -np 3 -H localhost:3 --gloo python benchmarks/scaling.py --measure    # adds a real job's bytes

All exchanges apply the same number of elements. Gathered frames are encoded, one for each rank from its own
gradient; summed payloads have the size that the codec reports. Bytes are counted in two ways, the same for
all exchanges:

- in + out: what a rank puts in and gets out. All-gather: its own frame and the other ranks' frames.
  All-reduce: the payload up and the sum down, the second round included. The paper counts the same way up,
  |S| + P k, and less down: k elements of the update from a parameter server, in place of the sums.
- wire: what its links carry where a collective goes around a ring, as `tfc.stats` counts it, which is
  2 (W - 1) / W of the former: each frame passes every link but one, each part of a payload twice.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable

import drawing
import numpy as np
import options
import rich.console
import rich.progress
import rich.table

import tfcompress as tfc
from tfcompress.measure import best_seconds

FLOAT_BYTES = 4
# The sketch has the paper's proportions for 20 times less traffic (section 5.2).
ROWS, COLUMNS_FOR_EACH_KEPT, CANDIDATES = 5, 10, 36
MEASURED_STEPS = 3


@dataclasses.dataclass(frozen=True)
class Setting:
    """The simulated exchange.

    Attributes:
      n: Elements of the gradient.
      k: Elements that each exchange applies (top-k: that each rank sends).
      largest: The largest number of ranks, a power of two.
      seed: Seed of the gradients.
    """

    n: int = 1_000_000
    k: int = 1000
    largest: int = 256
    seed: int = 0

    @property
    def ranks(self) -> list[int]:
        """The simulated numbers of ranks: powers of two from 2 on."""
        return [2**i for i in range(1, self.largest.bit_length())]


QUICK = Setting(n=100_000, k=100, largest=16)


def compressors(setting: Setting) -> dict[str, tfc.Compressor]:
    ratio = setting.k / setting.n
    columns = COLUMNS_FOR_EACH_KEPT * setting.k
    return {
        "topk": tfc.Compression.topk(ratio),
        "sketched_sgd": tfc.Compression.sketched_sgd(setting.k, ROWS, columns, CANDIDATES, exclude=()),
        "shared_randomk": tfc.Compression.shared_randomk(ratio),
        "none": tfc.Compression.none,
    }


def gradients(setting: Setting) -> Iterable[np.ndarray]:
    """Yields each rank's gradient: heavy-tailed, half of it (in standard deviations) common to all."""
    common = np.random.default_rng(setting.seed).standard_normal(setting.n, np.float32) ** 3
    for rank in range(setting.largest):
        rng = np.random.default_rng([setting.seed, rank])
        yield common + rng.standard_normal(setting.n, np.float32) ** 3


def milliseconds(call: Callable[[], object]) -> float:
    return 1000 * best_seconds(call, repeats=3)


def wire_bytes(in_out_bytes: int, ranks: int) -> int:
    return round(in_out_bytes * 2 * (ranks - 1) / ranks)


def simulate_gathered(setting: Setting, spec: str) -> list[dict]:
    """Encodes every rank's frame, and decodes the frames of the first 2, 4, 8, ... ranks."""
    frames, touched, rows = [], np.zeros(setting.n, bool), []
    encode_ms = None
    for gradient in rich.progress.track(gradients(setting), "top-k frames", total=setting.largest):
        if encode_ms is None:
            encode_ms = milliseconds(lambda g=gradient: tfc.encode(g, spec_alone(spec)))
        frames.append(tfc.encode(gradient, spec, seed=len(frames)))
        touched |= tfc.decode(frames[-1]) != 0
        ranks = len(frames)
        if ranks in setting.ranks:
            packets = b"".join(frames)
            arguments = (packets, ranks, 1 / ranks, [setting.n], ["float32"])
            rows.append(
                {
                    "ranks": ranks,
                    "in_out_bytes": len(packets),
                    "wire_bytes": wire_bytes(len(packets), ranks),
                    "encode_ms": encode_ms,
                    "decode_ms": milliseconds(lambda a=arguments: tfc.codecs.decode_sum(*a)),
                    "held_bytes": len(packets),
                    "updated_elements": int(touched.sum()),
                }
            )
    return rows


def spec_alone(spec: str) -> str:
    """The spec without its memory, whose time is not the codec's."""
    described = tfc.describe_spec(spec)
    if described["linear"]:
        return described["codec"]
    return "|".join(described[part] for part in ("sparsifier", "index", "value"))


def simulate_summed(setting: Setting, spec: str) -> list[dict]:
    """Counts the floats that an all-reduce of this codec sums, on any number of ranks."""
    linear = tfc.describe_spec(spec)["linear"]
    floats, kept, encode_ms, decode_ms = setting.n, setting.n, 0.0, 0.0
    if linear:
        codec = spec_alone(spec)
        sizes = tfc.codecs.linear_sizes(codec, setting.n)
        second_round = 0 if tfc.describe_spec(codec)["exact"] else sizes["candidates"]
        floats, kept = sizes["payload"] + second_round, sizes["kept"]
        gradient = next(iter(gradients(setting)))
        payload = tfc.codecs.linear_encode(gradient, codec)
        encode_ms = milliseconds(lambda: tfc.codecs.linear_encode(gradient, codec))
        decode_ms = milliseconds(lambda: tfc.codecs.linear_recover(payload, setting.n, codec))
    up_and_down = 2 * FLOAT_BYTES * floats
    return [
        {
            "ranks": ranks,
            "in_out_bytes": up_and_down,
            "wire_bytes": wire_bytes(up_and_down, ranks),
            "encode_ms": encode_ms,
            "decode_ms": decode_ms,
            "held_bytes": FLOAT_BYTES * floats,
            "updated_elements": kept,
        }
        for ranks in setting.ranks
    ]


def simulate(setting: Setting) -> dict[str, dict]:
    simulated = {}
    for name, compressor in compressors(setting).items():
        run = simulate_gathered if name == "topk" else simulate_summed
        simulated[name] = {"spec": compressor.spec, "points": run(setting, compressor.spec)}
    return simulated


def measure(setting: Setting) -> list[dict]:
    """Exchanges a few gradients on all ranks of this job; returns what this rank counted."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    points = []
    common = np.random.default_rng(setting.seed).standard_normal(setting.n, np.float32) ** 3
    rng = np.random.default_rng([setting.seed, hvd.rank()])
    steps = [common + rng.standard_normal(setting.n, np.float32) ** 3 for _ in range(MEASURED_STEPS)]
    for name, compressor in compressors(setting).items():
        variable = tf.Variable(tf.zeros([setting.n]))
        for gradient in steps:
            with tf.GradientTape() as plain:
                loss = tf.reduce_sum(variable * gradient)
            tape = tfc.DistributedGradientTape(plain, compression=compressor)
            tape.gradient(loss, [variable])
        total = tfc.stats(tape).total
        counted = {column: total.per_step(column) for column in ("payload_bytes", "wire_bytes")}
        points.append({"compressor": name, "ranks": hvd.size(), **counted})
    return points


def make_table(results: dict) -> rich.table.Table:
    setting = results["setting"]
    table = rich.table.Table(
        title=f"Traffic of one rank a step, n = {setting['n']:,}, k = {setting['k']:,}, simulated",
        caption="in + out: what a rank puts in and gets out; wire: what its links carry on a ring",
    )
    for heading in ("exchange", "ranks", "in + out MB", "wire MB", "enc ms", "dec ms", "held kB", "updated"):
        table.add_column(heading, justify="left" if heading == "exchange" else "right")
    for name, simulated in results["simulated"].items():
        for point in simulated["points"]:
            table.add_row(
                name,
                str(point["ranks"]),
                f"{point['in_out_bytes'] / 1e6:.3f}",
                f"{point['wire_bytes'] / 1e6:.3f}",
                f"{point['encode_ms']:.1f}",
                f"{point['decode_ms']:.1f}",
                f"{point['held_bytes'] / 1e3:,.1f}",
                f"{point['updated_elements']:,}",
            )
        table.add_section()
    for point in results["measured"]:
        wire = f"{point['wire_bytes'] / 1e6:.3f}"
        table.add_row(f"{point['compressor']}, measured", str(point["ranks"]), "", wire)
    return table


def plot(results: dict, path: pathlib.Path) -> None:
    figure, (traffic, times) = drawing.subplots(1, 2, size=(10, 4.8), width_ratios=[3, 2])
    labels = {
        "topk": "topk (all-gather)",
        "sketched_sgd": "sketched_sgd (all-reduce)",
        "shared_randomk": "shared_randomk (all-reduce)",
        "none": "none (all-reduce)",
    }
    for i, (name, simulated) in enumerate(results["simulated"].items()):
        color, points = f"C{i}", simulated["points"]
        ranks = [point["ranks"] for point in points]
        traffic.plot(ranks, [p["in_out_bytes"] / 1e6 for p in points], color=color, label=labels[name])
        traffic.plot(ranks, [p["wire_bytes"] / 1e6 for p in points], color=color, linestyle=":")
        measured = [point for point in results["measured"] if point["compressor"] == name]
        traffic.plot(
            [point["ranks"] for point in measured],
            [point["wire_bytes"] / 1e6 for point in measured],
            "o",
            color=color,
            markerfacecolor="none",
        )
        if name != "none":
            for key, style in (("encode_ms", "--"), ("decode_ms", "-")):
                times.plot(ranks, [max(p[key], 1e-3) for p in points], style, color=color)
    for style, label in (("-", "simulated, in + out"), (":", "simulated, on the wire")):
        traffic.plot([], [], style, color="gray", label=label)
    traffic.plot(
        [], [], "o", color="gray", markerfacecolor="none", label="tfc.stats of a real job, on the wire"
    )
    traffic.set(ylabel="in and out of one rank, a step (MB)", title="Traffic")
    times.plot([], [], "--", color="gray", label="encode one rank's gradient")
    times.plot([], [], "-", color="gray", label="decode or recover what arrived")
    times.set(ylabel="milliseconds", title="Time of the codecs, here")
    for axes in (traffic, times):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("ranks W")
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.grid(True, which="major", alpha=0.3)
    times.set_ylim(top=200)
    times.legend(fontsize="x-small", loc="upper left")
    traffic.set_ylim(top=400)
    traffic.legend(fontsize="x-small", loc="upper left", ncols=2)
    setting = results["setting"]
    figure.suptitle(f"One gradient of n = {setting['n']:,} float32, k = {setting['k']:,} for each exchange")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = options.make_parser(__doc__)
    options.add_measure(parser, "a small gradient and at most 16 ranks")
    parser.add_argument("--seed", type=int, default=0, help="seed of the gradients (default %(default)s)")
    arguments = parser.parse_args()
    setting = dataclasses.replace(QUICK if arguments.quick else Setting(), seed=arguments.seed)
    results = options.update(
        arguments, "scaling", setting, lambda: measure(setting), lambda: simulate(setting)
    )
    rich.console.Console(width=110).print(make_table(results))
    options.save(results, arguments.output, "scaling")
    if results["simulated"]:
        plot(results, arguments.output / "figures" / "scaling.png")


if __name__ == "__main__":
    main()
