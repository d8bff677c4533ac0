"""Fills the tables of README.md and docs/*.md from the numbers in docs/results.

    python benchmarks/fill_tables.py            # after new numbers were copied to docs/results
    python benchmarks/fill_tables.py --check    # only checks whether the pages are up to date

In a page, two comments mark the position of a table and name the benchmark's file, or several::

    <!-- convergence: convergence_digits -->
    <!-- /convergence -->
"""

import functools
import json
import pathlib
import re
import statistics
import sys
from collections.abc import Iterable

import gpu_report
import paper_tables
from comparison import report
from network_summary import BASELINES, PHASES, title_of
from options import DOCS, make_parser
from page_table import code, table

README = DOCS.parent / "README.md"
# Elements of a gradient for which targets were set, on one thread.
TARGET_ELEMENTS = 10_000_000
# The core's codecs of the table beside the ops.
CORE_DENSITY = "0.01"
CORE_CODECS = {
    "sparsifier/topk": "`topk` selection",
    "index/raw": "`raw` index",
    "index/bitmap": "`bitmap`",
    "index/delta_binary": "`delta_binary`",
    "index/bloom": "`bloom:policy=p2,fpr=0.001`",
    "value/quantile": "`quantile`",
    "value/dexp": "`dexp`",
    "joint/sketchml": "`sketchml`",
}
# How native_codec.py's bits of indices are named.
INDEX_BITS = {
    "rowcol": "`rowcol`",
    "delta_adaptive": "`delta_adaptive`",
    "zstd-19 of gaps": "zstd-19 of gaps",
    "static": "static",
    "hazard": "hazard",
    "limit": "limit",
}
_MARKED = re.compile(r"(<!-- (\w+): (\w[\w ]*) -->\n).*?(<!-- /\2 -->)", re.DOTALL)


def convergence(result: dict) -> str:
    """Final metrics, payload and wire bytes, and these relative to the first compressor's."""
    metric = result["rows"][0]["metric"]
    rows = [
        [
            code(row["compression"]),
            f"{row['mean']:.4f}",
            f"{row['lowest']:.4f} to {row['highest']:.4f}",
            f"{row['difference']:+.4f}",
            f"{row['payload_bytes_per_step']:,.0f}",
            f"{row['wire_bytes_per_step']:,.0f}",
            f"{row['ratio']:.1f}",
            f"{row['volume']:.4f}",
        ]
        for row in result["rows"]
    ]
    numbers = ["payload B/step", "wire B/step", "ratio", "volume"]
    return table([result["title"], metric, "of the seeds", "difference", *numbers], rows)


def network(result: dict) -> str:
    """Returns a table of median step times and their parts, by bandwidth."""
    rows = [
        [
            row["bandwidth"],
            code(row["compression"]),
            *(f"{row['wire'][part]:,.0f}" for part in ("payload", "expected", "counted")),
            f"{row['step_ms']:.1f}",
            *(f"{row['milliseconds'][phase]:.1f}" for phase in PHASES),
            *(_ratio(row["throughput_to"][baseline]) for baseline in BASELINES),
        ]
        for row in result["rows"]
    ]
    ratios = [f"x {code(baseline)}" for baseline in BASELINES]
    traffic = ["payload B/step", "wire B/step", "counted"]
    return table(["link", "compression", *traffic, "step ms", *PHASES, *ratios], rows)


def _ratio(times: float | None) -> str:
    return "" if times is None else f"{times:.2f}"


def presets(result: dict, training: dict) -> str:
    """Returns the table of `steps`, and how far behind `none` presets ended in a training."""
    headings, rows = _steps(result)
    behind = {_preset(row["compression"]): f"{0 - 100 * row['difference']:+.2f}" for row in training["rows"]}
    _, found = by_compression(result["rows"])
    shown = [[*row, behind.get(_preset(name), "")] for row, name in zip(rows, found, strict=True)]
    return table([*headings, "points behind"], shown)


def _preset(compression: str) -> str:
    """Returns a preset's name without its arguments."""
    return compression.partition("(")[0]


def steps(result: dict) -> str:
    """Returns a table of how many times as fast as plain Horovod's steps are, a column for each bandwidth."""
    return table(*_steps(result))


def _steps(result: dict) -> tuple[list[str], list[list[str]]]:
    bandwidths, found = by_compression(result["rows"])
    rows = [
        [
            code(name),
            f"{own[bandwidths[0]]['wire']['expected']:,.0f}",
            *(
                f"{own[each]['step_ms']:.1f} ms: {own[each]['throughput_to']['none']:.2f}"
                for each in bandwidths
            ),
        ]
        for name, own in found.items()
    ]
    return [title_of(result), "wire B/step", *bandwidths], rows


def auto_gains(*results: dict) -> str:
    """Returns a table of jobs: steps of `auto`, and how many times as fast as the better baseline's they are.

    That is the median of the ratios within rounds, and the least and the greatest of them; the better
    baseline is the one of the least median.
    """
    links = list(dict.fromkeys(run["bandwidth"] for run in results[0]["runs"]))
    rows = []
    for result in results:
        rounds: dict[str, dict[int, dict[str, float]]] = {link: {} for link in links}
        for run in result["runs"]:
            own = rounds[run["bandwidth"]].setdefault(run["round"], {})
            own[run["compression"]] = run["step_ms_median"]
        rows.append([title_of(result), *(_gain(list(rounds[link].values())) for link in links)])
    return table(["`auto`", *links], rows)


def _gain(rounds: list[dict[str, float]]) -> str:
    by_baseline = [sorted(own[each] / own["auto"] for own in rounds) for each in BASELINES]
    ratios = min(by_baseline, key=statistics.median)
    milliseconds = statistics.median(own["auto"] for own in rounds)
    spread = f" ({ratios[0]:.2f} to {ratios[-1]:.2f})" if len(ratios) > 1 else ""
    return f"{milliseconds:.1f} ms: {statistics.median(ratios):.2f}{spread}"


def planned(result: dict) -> str:
    """Returns a table of predicted and measured steps, a column for each bandwidth."""
    bandwidths, found = by_compression([row for row in result["rows"] if "planned_ms" in row])

    def compared(row: dict) -> str:
        expected, step = row["planned_ms"], row["step_ms"]
        return f"{expected:,.0f} / {step:,.0f}: {expected / step - 1:+.0%}"

    rows = [[code(name), *(compared(own[each]) for each in bandwidths)] for name, own in found.items()]
    return table(["ms of a step, predicted / measured", *bandwidths], rows)


def time_to_accuracy(result: dict) -> str:
    """Returns a table of the bytes and the seconds of training to the accuracy of the uncompressed run."""
    bandwidths, found = by_compression(result["rows"])
    rows = []
    for name, own in found.items():
        links = [own[each] for each in bandwidths]
        finals = dict.fromkeys(f"{each['final']:.4f}" for each in links)
        bytes_moved = dict.fromkeys(_to_accuracy(each, "megabytes", "fewer", " MB") for each in links)
        times = [_to_accuracy(each, "seconds", "faster", " s") for each in links]
        rows.append([code(name), ", ".join(finals), "; ".join(bytes_moved), *times])
    return table([title_of(result), result["rows"][0]["metric"], "in and out", *bandwidths], rows)


def _to_accuracy(row: dict, quantity: str, gain: str, unit: str) -> str:
    """Returns what a row took to the accuracy, and how many times less than the baseline that is."""
    if row[quantity] is None:
        return f"{row['training_' + quantity]:,.0f}{unit}, not reached"
    return f"{row[quantity]:,.0f}{unit}: {row[gain]:.1f}"


def by_compression(rows: list[dict]) -> tuple[list[str], dict[str, dict[str, dict]]]:
    """Returns the bandwidths, and the rows of each compressor by bandwidth, in their order."""
    found: dict[str, dict[str, dict]] = {}
    for row in rows:
        found.setdefault(row["compression"], {})[row["bandwidth"]] = row
    return list(dict.fromkeys(row["bandwidth"] for row in rows)), found


def overlap(result: dict) -> str:
    """Returns a table of the steps of one packet, and how many times as fast those of several are."""
    groups = list(result["rows"][0]["ms"])
    rows = [
        [
            row["link"],
            f"{row['milliseconds']:g}",
            code(row["compression"]),
            f"{row['ms'][groups[0]]:.0f}",
            *(f"{row['ms'][each]:.0f}: {row['ms'][groups[0]] / row['ms'][each]:.2f}" for each in groups[1:]),
        ]
        for row in result["rows"]
    ]
    headings = ["one packet, ms a step", *(f"`num_groups={each}`" for each in groups[1:])]
    return table(["link", "ms between gradients", "compression", *headings], rows)


def hierarchical(result: dict) -> str:
    """Returns a table of exchanges in one level and in two, side by side."""
    rows = [
        [
            row["link"],
            f"{row['elements']:,}",
            code(row["compression"]),
            *(f"{row[levels]['sent_bytes'] / 1e3:,.0f}" for levels in ("one", "two")),
            *(f"{row[levels]['ms']:,.0f}" for levels in ("one", "two")),
            f"{row['faster']:.2f}",
        ]
        for row in result["rows"]
    ]
    numbers = ["kB, one level", "kB, two", "ms, one level", "ms, two", "x"]
    return table(["link", "elements", "compression", *numbers], rows)


def changing_link(result: dict) -> str:
    """Returns a table of the phases of a job whose links change: steps, and what `auto` took."""
    names = list(result["rows"][0]["milliseconds"])
    rows = [
        [
            row["link"],
            *(f"{row['milliseconds'][name]:,.1f}" for name in names),
            code(row["choice"]),
            str(row["settled_after"] or "at once"),
        ]
        for row in result["rows"]
    ]
    return table(["ms a step", *map(code, names), "`auto` took", "after steps"], rows)


def codec_choice(result: dict) -> str:
    """Returns a table of bits and errors; those that no other codec beats in both are marked."""
    rows = [
        [
            code(row["codecs"]),
            f"{row['bits']:.2f}",
            "exact" if row["snr"] is None else f"{row['snr']:.1f}",
            "*" if row["front"] else "",
        ]
        for row in result["rows"]
    ]
    return table(["codecs", "bits an element", "dB", "front"], rows)


def native_codec(result: dict) -> str:
    """Returns a table of the native codec's bits on each gradient, beside models and other codecs."""
    indices = [method for method in INDEX_BITS if method != "hazard"]
    rows = [
        [
            row["gradient"],
            str(row["variables"]),
            f"{row['k']:,}",
            *index_bits(row, indices),
            f"{row['frame']:.2f}",
            f"{row['headers']:.2f}",
            f"{row['smallest other']['bits']:.2f}, {code(row['smallest other']['method'])}",
        ]
        for row in result["rows"]
    ]
    columns = ["gradient", "variables", "sent", *map(INDEX_BITS.get, indices)]
    return table([*columns, "frames", "of these headers", "the smallest other"], rows)


def native_whole(result: dict) -> str:
    """Returns a table of the bits an index where the largest elements of all variables together are sent."""
    rows = [
        [
            row["gradient"],
            f"{row['whole']['n']:,}",
            f"{row['whole']['k']:,}",
            *index_bits(row["whole"], INDEX_BITS),
        ]
        for row in result["rows"]
        if "whole" in row
    ]
    return table(["gradient", "n", "sent", *INDEX_BITS.values()], rows)


def index_bits(row: dict, methods: Iterable[str]) -> list[str]:
    return [f"{row['indices'][method]:.2f}" for method in methods]


def lossless(result: dict) -> str:
    """Returns a table of the bits a value of exact codecs, in the precisions of the values."""
    precisions = list(dict.fromkeys(row["precision"] for row in result["rows"]))
    methods = list(result["rows"][0]["bits"])
    found: dict[tuple[str, str], list[str]] = {}
    for row in result["rows"]:
        cells = found.setdefault((row["gradient"], row["sent"]), [f"{row['values']:,}"])
        cells += [f"{row['bits'][method]:.2f}" for method in methods]
    shares = {"dense": "all"}
    rows = [
        [gradient, shares.get(sent, f"{result['ratio']:.0%}"), *cells]
        for (gradient, sent), cells in found.items()
    ]
    columns = [f"{precision}: {code(method)}" for precision in precisions for method in methods]
    return table(["gradient", "sent", "values", *columns], rows)


def with_target(ratio: float, target: float | None) -> str:
    if target is None:
        return f"{ratio:.2f}"
    return f"{ratio:.2f} ({target}, {'met' if ratio <= target else '**missed**'})"


def least_traffic(row: dict) -> tuple[float, float]:
    """Returns what encoding and decoding have to read and write at least, in memcpys of the gradient.

    Encoding reads the gradient, reads and writes the residual, and writes the frame; decoding reads the frame
    and writes the sum. A memcpy reads and writes the gradient once.
    """
    frame = row["bytes"] / (8 * row["n"])
    return 0.5 + frame + row["spec"].startswith("residual"), 0.5 + frame


def speed(result: dict) -> str:
    """Returns a table of the ops that have targets, and of the same step in the core alone."""
    cores = {row["name"].split("/")[1]: row for row in result["core"] if row["name"].startswith("pipeline/")}
    rows = []
    for row in result["ops"]:
        if row["threads"] != 1 or row["n"] != TARGET_ELEMENTS or not any(row["targets"].values()):
            continue
        parts = [with_target(row[part], row["targets"][part]) for part in ("encode", "decode", "further")]
        core = cores.get(row["spec"], {})
        alone = [f"{core[part]:.2f}" if part in core else "" for part in ("encode", "decode")]
        least = [f"{ratio:.2f}" for ratio in least_traffic(row)]
        addition = "" if row["addition"] is None else f"{row['addition']:.2f}"
        rows.append([code(row["spec"]), *parts, addition, *least, *alone, f"{row['memory']:.1f}"])
    own = ["encode", "decode", "each further rank", "addition alone", "least traffic: encode", "decode"]
    return measured_on(result) + table(["", *own, "core: encode", "decode", "memory"], rows)


def speed_grid(result: dict) -> str:
    """Returns a table of all runs of the ops."""
    rows = [
        [
            code(row["spec"]),
            f"{row['n']:,}",
            str(row["threads"]),
            f"{row['memcpy_ms']:.3g}",
            *(f"{row[part]:.2f}" for part in ("encode", "decode", "further")),
            f"{row['memory']:.1f}",
            f"{8 * row['bytes'] / row['n']:.3g}",
        ]
        for row in result["ops"]
    ]
    numbers = ["memcpy ms", "encode", "decode", "each further rank", "memory", "bits an element of n"]
    return measured_on(result) + table(["", "n", "threads", *numbers], rows)


def speed_core(result: dict) -> str:
    """Returns a table of the core's codecs at a density."""
    found = {row["name"]: row for row in result["core"]}
    rows = []
    for name, title in CORE_CODECS.items():
        row = found.get(f"{name}/{CORE_DENSITY}")
        if row is not None:
            times = [f"{row[part]:.2f}" if part in row else "" for part in ("encode", "decode")]
            bits = [f"{row[part]:.2f}" if row.get(part) else "" for part in ("bits", "limit")]
            rows.append([title, *times, *bits])
    return table(["", "encode", "decode", "bits an element sent", "limit of indices"], rows)


def shard_speed(result: dict) -> str:
    """Returns a table of the times of the four ops of a sharded exchange, in memcpys of the gradient."""
    rows = [
        [
            code(row["spec"]),
            str(row["ranks"]),
            str(row["threads"]),
            f"{row['memcpy_ms']:.2f}",
            *(with_target(row[name], target) for name, target in row["targets"].items()),
        ]
        for row in result["rows"]
    ]
    ops = map(code, result["rows"][0]["targets"])
    return table(["", "ranks", "threads", "memcpy ms", *ops], rows)


def measured_on(result: dict) -> str:
    where = f"{result['cores']} cores of {result['processor']}"
    return f"Measured on {where}, load average {result['load']} when it began.\n\n"


def row_sharding(result: dict) -> str:
    """Returns a table of what a rank moves and decodes, rows gathered and summed by owner."""
    measured = {point["ranks"]: point for point in result["measured"]}
    rows = []
    for name, points in result["simulated"].items():
        for point in points:
            real = measured.get(point["ranks"]) if name == "Zipf" else None
            rows.append(
                [
                    name,
                    str(point["ranks"]),
                    f"{point['gathered_bytes'] / 1e3:,.0f}",
                    f"{point['sharded_bytes'] / 1e3:,.0f}",
                    f"{point['sharded_bytes'] / point['gathered_bytes']:.2f}",
                    f"{real['shard_wire_bytes'] / real['gather_wire_bytes']:.2f}" if real else "",
                    f"{point['gathered_ms']:.2f}",
                    f"{point['sharded_ms']:.2f}",
                ]
            )
    columns = ["gathered kB", "sharded kB", "ratio", "of a job", "gathered: decode ms", "sharded: decode ms"]
    return table(["words", "ranks", *columns], rows)


def sharding(result: dict) -> str:
    """Returns a table of the bytes and the decoding of a rank, on few ranks and on many."""
    setting = result["setting"]
    shown = sorted({2, 16, setting["largest"]})
    rows = []
    for name, simulated in result["simulated"].items():
        points = {point["ranks"]: point for point in simulated["points"]}
        fewer = [times_fewer(points[each], setting) for each in shown]
        decode = [points[each]["decode_ms"] for each in shown]
        cells = [*fewer, *(f"{each:.1f}" for each in decode)]
        rows.append([code(name), *cells, f"{decode[-1] / decode[0]:.2f}"])
    columns = [f"fewer, {each} ranks" for each in shown] + [f"decode ms, {each}" for each in shown]
    return table(["exchange", *columns, f"{shown[-1]} to 2"], rows)


def sharding_measured(result: dict) -> str:
    """Returns a table of what the first rank of real jobs counted."""
    rows = [
        [
            code(point["exchange"]),
            str(point["ranks"]),
            *(f"{point[key] / 1e3:,.1f}" for key in ("payload_bytes", "wire_bytes")),
            times_fewer(point, result["setting"]),
        ]
        for point in result["measured"]
    ]
    return table(["measured", "ranks", "payload kB", "wire kB", "fewer"], rows)


def times_fewer(point: dict, setting: dict) -> str:
    """Returns how many times fewer bytes are on the wire than a ring all-reduce's."""
    ranks = point["ranks"]
    plain = 16 * setting["rows"] * setting["columns"] * (ranks - 1) / ranks
    return f"{plain / point['wire_bytes']:.1f}"


def compression_error(results: list[dict]) -> str:
    """Accuracy beside what waited at the end, of an example's `--output` whose first run is uncompressed."""
    first = results[0]
    [metric] = first["metrics"]
    rows = []
    for result in results:
        behind = 100 * (first["metrics"][metric] - result["metrics"][metric])
        last = result["curve"][-1]
        measured = [last[k] for k in ("compression_error", "largest_compression_error", "residual_ratio")]
        error, largest, ratio = measured if measured[0] is not None else ("", "", "")
        rows.append(
            [
                code(result["compression"]),
                f"{result['metrics'][metric]:.4f}",
                f"{behind:+.1f}",
                error and f"{error:.3f}",
                largest and f"{largest:.3f}",
                ratio and f"{ratio:.2f}",
            ]
        )
    title = f"{first['steps']:,} steps, {first['ranks']} ranks, {first['parameters']:,} parameters"
    columns = ["points behind", "compression error", "of a variable", "residual for each gradient"]
    return table([title, metric, *columns], rows)


TABLES = {
    "speed": speed,
    "speed_grid": speed_grid,
    "speed_core": speed_core,
    "shard_speed": shard_speed,
    "convergence": convergence,
    "network": network,
    "steps": steps,
    "presets": presets,
    "auto_gains": auto_gains,
    "planned": planned,
    "time_to_accuracy": time_to_accuracy,
    "sharding": sharding,
    "gradients": report.gradients,
    "keys": functools.partial(report.table_of, section="keys"),
    "messages": functools.partial(report.table_of, section="pairs"),
    "codec_choice": codec_choice,
    "compression_error": compression_error,
    "native_codec": native_codec,
    "native_whole": native_whole,
    "lossless": lossless,
    "hierarchical": hierarchical,
    "changing_link": changing_link,
    "overlap": overlap,
    "row_sharding": row_sharding,
    **gpu_report.TABLES,
    **paper_tables.TABLES,
}


def filled(page: str, results: pathlib.Path) -> str:
    """Returns a page with all its tables regenerated.

    Raises:
      FileNotFoundError: There are no numbers of that name.
    """

    def fill(match: re.Match) -> str:
        begin, kind, names, end = match.groups()
        found = [json.loads((results / f"{name}.json").read_text()) for name in names.split()]
        return f"{begin}\n{TABLES[kind](*found)}\n{end}"

    return _MARKED.sub(fill, page)


def fill(*, check: bool = False) -> list[str]:
    """Regenerates the tables of all pages, or only looks.

    Args:
      check: Write nothing.

    Returns:
      Names of the pages that were not up to date.
    """
    stale = []
    for path in [README, *sorted(DOCS.glob("*.md"))]:
        page = path.read_text()
        new = filled(page, DOCS / "results")
        if new == page:
            continue
        stale.append(path.name)
        if not check:
            path.write_text(new)
    return stale


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page would change")
    arguments = parser.parse_args()
    stale = fill(check=arguments.check)
    if stale:
        print("stale:" if arguments.check else "written:", *stale)
    sys.exit(1 if stale and arguments.check else 0)


if __name__ == "__main__":
    main()
