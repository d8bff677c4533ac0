"""Measures bytes and decoding of one rank that has rows of a table, gathered and sharded by owner.

    python benchmarks/row_sharding.py                     # words as frequent as Zipf's law says
    python benchmarks/row_sharding.py --text FILE         # and the words of a text
    horovodrun -np 3 -H localhost:3 --gloo python benchmarks/row_sharding.py --measure    # adds a real job

Every rank looks some thousand words up in a table; the gradient is their rows. What rank 0 does is done here
with the real codecs, on one thread. Gathered: it decodes the frames of all ranks. Sharded: the rows that it
owns of all ranks, and then the sums of all owners. Which pays depends on how many rows ranks have in common.
Bytes are those that the links of a rank carry, in and out, as `tfc.stats` counts them.
"""

import dataclasses
import pathlib
import re
from collections.abc import Callable

import fill_tables
import numpy as np
import options
import page_table
import rich.progress

import tfcompress as tfc
from tfcompress.measure import best_seconds

SPEC = "nonzero|delta_adaptive|raw"
MEASURED_STEPS = 3
Words = Callable[[int], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Setting:
    """The table and what ranks look up.

    Attributes:
      rows: Of the table, the words that there are.
      width: Elements of a row.
      lookups: Words of a rank in a step, some of them several times.
      largest: The largest number of ranks, a power of two.
      seed: Seed of words and gradients.
    """

    rows: int = 50_000
    width: int = 64
    lookups: int = 2048
    largest: int = 64
    seed: int = 0

    @property
    def ranks(self) -> list[int]:
        """The numbers of ranks: powers of two from 2 on, and 3, the last one that gathers by itself."""
        return sorted([3, *(2**i for i in range(1, self.largest.bit_length()))])

    def zipf(self, rank: int) -> np.ndarray:
        """Returns the words of a rank, the n-th word 1 / n as often as the first."""
        weights = 1 / np.arange(1, self.rows + 1)
        rng = np.random.default_rng([self.seed, rank])
        return rng.choice(self.rows, self.lookups, p=weights / weights.sum())


QUICK = Setting(1000, 8, 256, 8)


def words_of(path: pathlib.Path, setting: Setting) -> Words:
    """Returns words of a text, numbered by frequency; each rank reads at a place of its own."""
    words = re.findall(r"\w+", path.read_text(encoding="utf-8", errors="replace").lower())
    names, numbers, counts = np.unique(words, return_inverse=True, return_counts=True)
    order = np.empty(len(names), np.int64)
    order[np.argsort(-counts, kind="stable")] = np.arange(len(names))

    def at_a_place(rank: int) -> np.ndarray:
        rng = np.random.default_rng([setting.seed, rank])
        begin = rng.integers(0, max(len(words) - setting.lookups, 1))
        return np.minimum(order[numbers[begin : begin + setting.lookups]], setting.rows - 1)

    return at_a_place


def encode(ids: np.ndarray, values: np.ndarray, setting: Setting) -> bytes:
    return tfc.codecs.encode_rows(values.ravel(), "float32", ids, setting.rows, setting.width, SPEC)


def decode(packets: list[bytes], setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    rows, values, _ = tfc.codecs.decode_rows(
        b"".join(packets), len(packets), 1.0, setting.rows, setting.width, "float32", num_threads=1
    )
    return rows, values.reshape(-1, setting.width)


def decode_ms(packets: list[bytes], setting: Setting) -> float:
    return 1e3 * best_seconds(lambda: decode(packets, setting), repeats=3)


def size(packets: list[bytes]) -> int:
    return sum(map(len, packets))


def play(setting: Setting, words: Words, num_ranks: int) -> dict:
    """Plays both exchanges. Row r belongs to rank r % ranks."""
    slices = []
    for rank in range(num_ranks):
        rng = np.random.default_rng([setting.seed, rank, 1])
        slices.append((words(rank), rng.standard_normal((setting.lookups, setting.width), np.float32)))
    frames = [encode(ids, values, setting) for ids, values in slices]

    def pieces_of(owner: int) -> list[bytes]:
        owned = [(ids % num_ranks == owner, ids, values) for ids, values in slices]
        return [encode(ids[mine], values[mine], setting) for mine, ids, values in owned]

    to_owners = [pieces_of(owner) for owner in range(num_ranks)]
    sums = [encode(*decode(pieces, setting), setting) for pieces in to_owners]
    sent = sum(len(pieces[0]) for pieces in to_owners[1:])
    return {
        "ranks": num_ranks,
        "gathered_bytes": 2 * size(frames[1:]),
        "sharded_bytes": sent + size(to_owners[0][1:]) + 2 * size(sums[1:]),
        "gathered_ms": decode_ms(frames, setting),
        "sharded_ms": decode_ms(to_owners[0], setting) + decode_ms(sums, setting),
    }


def simulate(setting: Setting, sources: dict[str, Words]) -> dict[str, list[dict]]:
    todo = [(name, ranks) for name in sources for ranks in setting.ranks]
    points: dict[str, list[dict]] = {name: [] for name in sources}
    for name, ranks in rich.progress.track(todo, "ranks of one process"):
        points[name].append(play(setting, sources[name], ranks))
    return points


def measure(setting: Setting) -> list[dict]:
    """Exchanges a few gradients on all ranks of this job; returns what this rank counted."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    point = {"ranks": hvd.size()}
    ids = tf.constant(setting.zipf(hvd.rank()))
    for exchange in ("gather", "shard"):
        variable = tf.Variable(tf.zeros([setting.rows, setting.width]))
        for _ in range(MEASURED_STEPS):
            with tf.GradientTape() as plain:
                loss = tf.reduce_sum(tf.gather(variable, ids) ** 2)
            tape = tfc.DistributedGradientTape(plain, compression=tfc.Compressor(SPEC, exchange=exchange))
            tape.gradient(loss, [variable])
        point[f"{exchange}_wire_bytes"] = tfc.stats(tape).total.per_step("wire_bytes")
    return [point]


def main() -> None:
    parser = options.make_parser(__doc__)
    parser.add_argument("--text", type=pathlib.Path, metavar="FILE", help="a text, UTF-8")
    options.add_measure(parser, "a small table and at most 8 ranks")
    arguments = parser.parse_args()
    setting = QUICK if arguments.quick else Setting()
    sources: dict[str, Words] = {"Zipf": setting.zipf}
    if arguments.text:
        sources[arguments.text.stem] = words_of(arguments.text, setting)
    results = options.update(
        arguments, "row_sharding", setting, lambda: measure(setting), lambda: simulate(setting, sources)
    )
    page_table.show(fill_tables.row_sharding(results))
    options.save(results, arguments.output, "row_sharding")


if __name__ == "__main__":
    main()
