"""Writes docs/codecs.md, the registry's description of every codec and measurements here.

    python benchmarks/codec_table.py            # a few minutes on one core
    python benchmarks/codec_table.py --facts    # keeps measurements, measures only what has none
    python benchmarks/codec_table.py --check    # compares what does not depend on the machine

Speeds are ratios to a memcpy of the dense vector in the same run, on one thread.
"""

import math
import pathlib
import re
import textwrap
from collections.abc import Callable, Iterable

import numpy as np
import options
from comparison.gradients import find_files, read_gradients
from measuring import machine, seconds, tracked, with_policies

import tfcompress as tfc
from tfcompress.catalogue import KINDS
from tfcompress.measure import entropy_bits, memcpy_seconds, squared_norm

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs" / "codecs.md"
# What the examples dumped, and the share of the elements of a dense gradient that would be sent.
GRADIENTS, RATIO = pathlib.Path(__file__).parent / "gradients", 0.01
DENSITIES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.4)
UNIVERSE = 1_000_000
NUM_VALUES = 100_000
# Linear specs to recover the largest elements of a heavy-tailed vector: tables of 5 % and 25 % of its size.
NUM_LARGEST = 1_000
LINEAR = (
    f"count_sketch:rows=5,columns=10000,k={NUM_LARGEST},candidates=4",
    f"count_sketch:rows=5,columns=50000,k={NUM_LARGEST},candidates=4",
    f"count_sketch:rows=5,columns=50000,k={NUM_LARGEST},recovery=heavymix",
    "shared_randomk:ratio=0.05",
    "powersgd:rank=4",
)
MEASURED_KINDS = ("Index codecs", "Value codecs", "Joint codecs", "Linear codecs")
# Measured rows are between these marks; everything outside them is checked by a test.
MEASURED = ("<!-- measured -->", "<!-- /measured -->")


def random_indices(density: float) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.flatnonzero(rng.random(UNIVERSE) < density).astype(np.uint32)


def distributions() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    return {
        "Gaussian": rng.standard_normal(NUM_VALUES).astype(np.float32),
        "Laplace": rng.laplace(size=NUM_VALUES).astype(np.float32),
        "Student t3": rng.standard_t(3, NUM_VALUES).astype(np.float32),
    }


def sqnr(values: np.ndarray, decoded: np.ndarray) -> float:
    """Returns the signal to quantisation noise ratio in dB; inf where nothing is lost."""
    noise = squared_norm(values.astype(np.float64) - decoded)
    return 10 * math.log10(squared_norm(values) / noise) if noise else math.inf


def sqnr_db(values: np.ndarray, decoded: np.ndarray) -> str:
    decibels = sqnr(values, decoded)
    return "exact" if math.isinf(decibels) else f"{decibels:.1f}"


def in_memcpys(num_floats: int, *calls: Callable[[], object], digits: int = 1) -> list[str]:
    """Returns the times of the calls, divided by that of copying `num_floats` floats."""
    copy = memcpy_seconds(num_floats)
    return [f"{seconds(call) / copy:.{digits}f}" for call in calls]


def measure_index(name: str) -> list[str]:
    bits = []
    for density in DENSITIES:
        indices = random_indices(density)
        section, decoded = tfc.codecs.encode_indices(name, indices, UNIVERSE)
        bits.append(f"{8 * len(section) / len(indices):.2f}")
    indices = random_indices(0.01)
    section, decoded = tfc.codecs.encode_indices(name, indices, UNIVERSE)
    times = in_memcpys(
        UNIVERSE,
        lambda: tfc.codecs.encode_indices(name, indices, UNIVERSE),
        lambda: tfc.codecs.decode_indices(name.split(":")[0], section, UNIVERSE, len(decoded)),
        digits=2,
    )
    return [*bits, *times]


def measure_value(name: str) -> list[str]:
    cells, bits = [], 0.0
    for values in distributions().values():
        section = tfc.codecs.encode_values(name, values, None, len(values))
        decoded = tfc.codecs.decode_values(name.split(":")[0], section, None, len(values))
        bits = max(bits, 8 * len(section) / len(values))
        cells.append(sqnr_db(values, decoded))
    values = distributions()["Gaussian"]
    section = tfc.codecs.encode_values(name, values, None, len(values))
    times = in_memcpys(
        len(values),
        lambda: tfc.codecs.encode_values(name, values, None, len(values)),
        lambda: tfc.codecs.decode_values(name.split(":")[0], section, None, len(values)),
    )
    return [f"{bits:.2f}", *cells, *times]


def measure_joint(name: str) -> list[str]:
    """Measures the bits per sent element, keys included, and the SQNR of the sent elements."""
    gradient = np.random.default_rng(3).standard_normal(UNIVERSE).astype(np.float32)
    cells = []
    for density in (0.001, 0.01, 0.1):
        indices = tfc.codecs.select(f"topk:ratio={density}", gradient)
        sparse = np.zeros_like(gradient)
        sparse[indices] = gradient[indices]
        frame = tfc.encode(sparse, f"nonzero|{name}")
        cells += [f"{8 * len(frame) / len(indices):.2f}", sqnr_db(sparse, tfc.decode(frame))]
    spec = f"topk:ratio=0.01|{name}"
    frame = tfc.encode(gradient, spec, num_threads=1)
    times = in_memcpys(
        UNIVERSE,
        lambda: tfc.encode(gradient, spec, num_threads=1),
        lambda: tfc.decode(frame),
    )
    return [*cells, *times]


def measure_linear(spec: str) -> list[str]:
    """Measures the floats of a payload, the share of the largest elements that it yields, and times."""
    vector = np.random.default_rng(4).standard_t(3, UNIVERSE).astype(np.float32)
    if tfc.describe_spec(spec)["rank"]:
        return measure_low_rank(vector, tfc.describe_spec(spec)["rank"])
    payload = tfc.codecs.linear_encode(vector, spec, num_threads=1)
    found, _ = tfc.codecs.linear_recover(payload, UNIVERSE, spec, num_threads=1)
    largest = tfc.codecs.select(f"topk:ratio={NUM_LARGEST / UNIVERSE}", vector)
    share = len(np.intersect1d(found, largest)) / len(largest)
    times = in_memcpys(
        UNIVERSE,
        lambda: tfc.codecs.linear_encode(vector, spec, num_threads=1),
        lambda: tfc.codecs.linear_recover(payload, UNIVERSE, spec, num_threads=1),
    )
    return [f"{payload.size:,}", f"{len(found):,}", f"{share:.1%}", *times]


def measure_low_rank(vector: np.ndarray, rank: int) -> list[str]:
    """Measures the same of a vector as a square matrix, whose product has all elements."""
    matrix = vector.reshape(math.isqrt(vector.size), -1)
    start = np.zeros(rank * matrix.shape[1], np.float32)

    def encode() -> tuple[np.ndarray, np.ndarray]:
        left = tfc.codecs.low_rank_left(matrix, start, rank, num_threads=1)
        return tfc.codecs.low_rank_right(matrix, left, rank, num_threads=1)

    left, right = encode()
    decoded = tfc.codecs.low_rank_decode(matrix, left, right, rank, num_threads=1)
    largest, found = (
        tfc.codecs.select(f"topk:ratio={NUM_LARGEST / UNIVERSE}", each) for each in (vector, decoded.ravel())
    )
    share = len(np.intersect1d(found, largest)) / len(largest)
    times = in_memcpys(
        vector.size,
        encode,
        lambda: tfc.codecs.low_rank_decode(matrix, left, right, rank, num_threads=1),
    )
    return [f"{left.size + right.size:,}", f"{vector.size:,}", f"{share:.1%}", *times]


def table(headings: list[str], rows: list[list[str]]) -> list[str]:
    line = "| " + " | ".join(headings) + " |"
    return [line, "|" + "---|" * len(headings), *("| " + " | ".join(row) + " |" for row in rows)]


def facts(title: str) -> list[str]:
    rows = []
    for entry in KINDS[title]():
        parameters = "; ".join(f"`{p.name}={p.default}` {p.range}: {p.doc}" for p in entry.parameters)
        cells = [
            f"`{entry.name}`",
            str(entry.id),
            entry.doc,
            parameters,
            entry.error,
            entry.cost,
            entry.device,
        ]
        rows.append([cell.replace("|", "\\|") or "-" for cell in cells])
    headings = ["name", "id", "what", "parameters", "error", "bytes", "GPU"]
    return [f"## {title}", "", *table(headings, rows), ""]


def own_gradients() -> list[np.ndarray]:
    """Returns the largest elements of each dense gradient in `GRADIENTS`."""
    read = (each for path in find_files([GRADIENTS]) for each in read_gradients(path, RATIO))
    return [each.sent.values.ravel() for each in read if each.dense is not None]


def on_own_gradients(name: str, gradients: Iterable[np.ndarray]) -> tuple[list[float], list[float]]:
    """Returns bits a value and SQNR in dB of a value codec on each of `own_gradients`."""
    bits, decibels = [], []
    for values in gradients:
        section = tfc.codecs.encode_values(name, values, None, len(values))
        decoded = tfc.codecs.decode_values(name.split(":")[0], section, None, len(values))
        bits.append(8 * len(section) / len(values))
        decibels.append(sqnr(values, decoded))
    return bits, decibels


def table_of_own_gradients() -> list[str]:
    """Lowest to highest; of no speed, so that every machine has the same numbers."""
    # Bytes of deflate are the library's.
    names = [name for entry in tfc.value_codecs() for name in with_policies(entry) if "deflate" not in name]
    gradients = own_gradients()
    sizes, rows = [len(values) for values in gradients], []
    for name in names:
        bits, decibels = on_own_gradients(name, gradients)
        exact = math.isinf(min(decibels))
        cells = [f"{min(bits):.1f} to {max(bits):.1f}"]
        cells.append("exact" if exact else f"{min(decibels):.0f} to {max(decibels):.0f}")
        rows.append([f"`{name}`", *cells])
    text = (
        f"The same on the largest {100 * RATIO:g} % of each of the {len(gradients)} dense gradients in "
        f"`benchmarks/gradients`, {min(sizes):,} to {max(sizes):,} values each, lowest to highest. So few "
        "values make the table of `quantile` a large part of its bytes: `uniform:bits=8` needs fewer bits "
        "there and is closer."
    )
    return [*textwrap.wrap(text, 100), "", *table(["", "bits a value", "dB"], rows), ""]


def measured_tables(known: dict[str, dict[str, list[str]]]) -> dict[str, list[str]]:
    """Measures what is not among the `known` rows, by kind and name."""
    index_names = [name for entry in tfc.index_codecs() for name in with_policies(entry)]
    value_names = [name for entry in tfc.value_codecs() for name in with_policies(entry)]
    joint_names = [entry.name for entry in tfc.joint_codecs()]
    names = dict(zip(MEASURED_KINDS, (index_names, value_names, joint_names, LINEAR), strict=True))
    measures = (measure_index, measure_value, measure_joint, measure_linear)
    rows: dict[str, list[list[str]]] = {kind: [] for kind in names}
    of_kind = dict(zip(names, measures, strict=True))
    jobs = [(kind, name) for kind, some in names.items() for name in some]
    for kind, name in tracked(jobs, lambda job: job[1]):
        rows[kind].append(known.get(kind, {}).get(name) or [f"`{name}`", *of_kind[kind](name)])
    index_rows, value_rows, joint_rows, linear_rows = rows.values()
    limit = [f"{entropy_bits(UNIVERSE, len(random_indices(d))):.2f}" for d in DENSITIES]
    index_rows.insert(0, ["*entropy limit* log2 C(n, k) / k", *limit, "-", "-"])
    speeds = ["encode", "decode"]
    joint_headings = [f"{d} {what}" for d in (0.001, 0.01, 0.1) for what in ("bits", "dB")]
    tables = (
        table(["bits an index at density", *map(str, DENSITIES), *speeds], index_rows),
        table(["", "bits a value", *(f"{d} dB" for d in distributions()), *speeds], value_rows),
        table(["bits an element sent, and SQNR", *joint_headings, *speeds], joint_rows),
        table(["", "floats summed", "recovered", "of the largest", "encode", "recover"], linear_rows),
    )
    return dict(zip(MEASURED_KINDS, tables, strict=True))


def page(measured: dict[str, list[str]]) -> str:
    lines = [
        "# Codecs",
        "",
        "Generated by `benchmarks/codec_table.py` from the registry. "
        "A gradient has `n` elements, of which `k` are sent.",
        "The table of index codecs begins with the entropy limit, for comparison.",
        "GPU: whether a variant for GPUs writes and reads the same bytes ([cuda.md](cuda.md)).",
        "",
    ]
    for title in KINDS:
        lines += facts(title)
        if title in measured:
            lines += [MEASURED[0], *measured[title], MEASURED[1], ""]
        if title == "Value codecs":
            lines += table_of_own_gradients()
    return "\n".join(lines).rstrip("\n") + "\n"


def notes() -> str:
    text = (
        f"Measured on {machine()}: indices uniformly random in n = {UNIVERSE:,}, speeds at density 0.01; "
        f"values without a sparsifier, k = {NUM_VALUES:,}; joint codecs on the largest elements of a "
        f"Gaussian vector, speeds including the selection; linear codecs on {UNIVERSE:,} elements under "
        "Student's t3, "
        f'"of the largest" being the share of the {NUM_LARGEST:,} largest that is recovered. Encode, decode '
        "and recover are times divided by that of a memcpy of the dense vector (of the k values, for value "
        "codecs) in the same run: smaller is faster. SQNR in dB: larger is more accurate."
    )
    return f"\n{textwrap.fill(text, 100)}\n"


def static_part(text: str) -> str:
    """Returns the page without the measurements and the note on the machine."""
    text = re.sub(f"{MEASURED[0]}.*?{MEASURED[1]}\n", "", text, flags=re.DOTALL)
    return text.split("\nMeasured on ")[0].rstrip()


def known_rows(text: str) -> dict[str, dict[str, list[str]]]:
    """Returns the measured rows of a page, by kind and name."""
    blocks = re.findall(f"{MEASURED[0]}\n(.*?){MEASURED[1]}\n", text, re.DOTALL)
    rows = [[line.strip("| ").split(" | ") for line in block.splitlines()] for block in blocks]
    return {
        kind: {row[0].strip("`"): row for row in of_kind if row[0].startswith("`")}
        for kind, of_kind in zip(MEASURED_KINDS, rows, strict=True)
    }


def with_new_facts(text: str) -> str:
    """Returns a new page with the measurements of `text`."""
    return page(measured_tables(known_rows(text))) + text[text.index("\nMeasured on ") :]


def main() -> None:
    parser = options.make_parser(__doc__)
    parser.add_argument("--check", action="store_true", help="fail unless the page agrees with the registry")
    parser.add_argument(
        "--facts", action="store_true", help="measure nothing: keep the measurements of the page"
    )
    arguments = parser.parse_args()
    if arguments.facts:
        PAGE.write_text(with_new_facts(PAGE.read_text()))
        return
    if arguments.check:
        expected = static_part(page(dict.fromkeys(MEASURED_KINDS, [])))
        if static_part(PAGE.read_text()) != expected:
            raise SystemExit(
                f"{PAGE.name} does not agree with the registry: run {pathlib.Path(__file__).name}"
            )
        return
    PAGE.write_text(page(measured_tables({})) + notes())


if __name__ == "__main__":
    main()
