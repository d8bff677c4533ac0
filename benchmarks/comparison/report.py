"""Tables of the results: a row per method, a column per gradient, speeds as medians over the gradients."""

import statistics
from collections.abc import Callable, Iterable

import rich.box
import rich.console
import rich.table

Row = dict
SPEEDS = {"encode_m_per_s": "enc M/s", "decode_m_per_s": "dec M/s", "m_per_s": "M/s"}


def by_method(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Groups rows; those of a method stay in the order of the gradients."""
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["method"], []).append(row)
    return grouped


def is_exact(rows: list[Row]) -> bool:
    return all(row["error"] == 0 for row in rows)


def speeds(rows: list[Row], keys: list[str]) -> list[str]:
    return [f"{statistics.median(row[key] for row in rows):,.3g}" for key in keys]


def make_table(
    results: dict,
    section: str,
    title: str,
    cell: Callable[[Row], str],
    order: Callable[[list[Row]], object],
    caption: str,
    first: tuple[str, Callable[[Row], str]] | None = None,
) -> rich.table.Table:
    """Returns one table; `first` is a row above the methods, computed from any method's rows."""
    rows = results[section]
    columns = [g for g in results["gradients"] if any(row["gradient"] == g["name"] for row in rows)]
    keys = [key for key in SPEEDS if rows and key in rows[0]]
    table = rich.table.Table(title=title, caption=caption, box=rich.box.SIMPLE)
    for heading in ("method", "package"):
        table.add_column(heading)
    for heading in [f"#{gradient['number']}" for gradient in columns] + [SPEEDS[key] for key in keys]:
        table.add_column(heading, justify="right")
    grouped = sorted(by_method(rows).items(), key=lambda item: order(item[1]))
    if first and grouped:
        name, of_row = first
        table.add_row(name, "", *map(of_row, grouped[0][1]), style="italic")
    copies = [row["m_per_s"] for row in results["memcpy"] if row["section"] == section]
    if copies:
        copy = f"{statistics.median(copies):,.3g}"
        table.add_row("memcpy", "", *[""] * len(columns), *[copy] * len(keys), style="italic")
        table.add_section()
    lossy_before = None
    for method, each in grouped:
        lossy = "error" in each[0] and not is_exact(each)
        if lossy_before is False and lossy:
            table.add_section()
        lossy_before = lossy
        table.add_row(method, each[0]["package"], *map(cell, each), *speeds(each, keys))
    return table


def bits_and_error(row: Row) -> str:
    return f"{row['bits']:.2f}" + (f" {row['error']:.1e}" if row["error"] else "")


def share_and_error(row: Row) -> str:
    return f"{100 * row['bytes'] / row['raw_bytes']:.1f} %" + (f" {row['error']:.1e}" if row["error"] else "")


def bits_of_keys(row: Row) -> str:
    more = row["keys_decoded"] / row["k"] - 1
    lost = row["keys_lost"] / row["k"]
    return f"{row['bits']:.2f}" + (f" +{more:.0%}" if more else "") + (f" -{lost:.1%}" if lost else "")


def mean(key: str) -> Callable[[list[Row]], float]:
    return lambda rows: statistics.mean(row[key] for row in rows)


def exact_first(key: str) -> Callable[[list[Row]], tuple[bool, float]]:
    return lambda rows: (not is_exact(rows), mean(key)(rows))


def gradients_table(results: dict) -> rich.table.Table:
    table = rich.table.Table(title="Gradients", box=rich.box.SIMPLE)
    for heading in ("#", "name", "kind", "n", "k", "k / n", "width"):
        table.add_column(heading, justify="left" if heading in ("name", "kind") else "right")
    for each in results["gradients"]:
        share = f"{each['k'] / each['n']:.3%}"
        numbers = (f"{each['n']:,}", f"{each['k']:,}", share, str(each["width"]))
        table.add_row(str(each["number"]), each["name"], each["kind"], *numbers)
    return table


def tables(results: dict) -> list[rich.table.Table]:
    value_caption = "bits per value and, if lossy, relative l2 error; speeds in millions of values per second"
    made = [
        gradients_table(results),
        make_table(
            results,
            "keys",
            "Keys: bits a key",
            bits_of_keys,
            mean("bits"),
            "+: extra keys, -: lost keys, by Bloom filters; speeds in millions of keys per second. The limit "
            "is that of a random support: clustered keys may take less. rbloom is queried from Python for "
            "each of the n elements, which is most of its time",
            ("limit at random, log2 C(n, k) / k", lambda row: f"{row['limit_bits']:.2f}"),
        ),
        *(
            make_table(results, section, title, bits_and_error, exact_first("bits"), value_caption)
            for section, title in (
                ("values", "Values that are sent"),
                ("dense values", "Values of the whole gradient"),
            )
        ),
        make_table(
            results,
            "pairs",
            "Whole messages: bytes, in per cent of raw pairs",
            share_and_error,
            exact_first("bytes"),
            "and, if lossy, relative l2 error; ours with headers and checksums; "
            "speeds in millions of 32-bit words of the raw pairs per second",
        ),
        make_table(
            results,
            "selection",
            "The k largest magnitudes, ascending: ms",
            lambda row: f"{row['milliseconds']:.2f}",
            mean("milliseconds"),
            "one thread; speeds in millions of elements per second",
        ),
        make_table(
            results,
            "quantiles",
            "Split points of 256 buckets of equal count: ms, largest rank error",
            lambda row: f"{row['milliseconds']:.2f} {row['rank_error']:.2%}",
            mean("milliseconds"),
            "of magnitudes; ours includes coding all values, the others do not",
        ),
    ]
    return [table for table in made if table.row_count]


def show(results: dict, console: rich.console.Console) -> None:
    for table in tables(results):
        console.print(table)
    console.print(f"{results['machine']}; " + ", ".join(f"{k} {v}" for k, v in results["versions"].items()))
    if results["missing"]:
        console.print(f"not installed and left out: {', '.join(results['missing'])}")
