"""Tables of the results: a row per method, a column per gradient, speeds as medians over the gradients."""

import statistics
from collections.abc import Callable, Iterable
from typing import NamedTuple

import page_table

Row = dict
SPEEDS = {"encode_m_per_s": "encode M/s", "decode_m_per_s": "decode M/s", "m_per_s": "M/s"}


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


class Section(NamedTuple):
    """A table: what a row has for each gradient, and the order of the rows by those of a method."""

    title: str
    cell: Callable[[Row], str]
    order: Callable[[list[Row]], object]


SECTIONS = {
    "keys": Section("Keys: bits a key; + extra and - lost keys of Bloom filters", bits_of_keys, mean("bits")),
    "values": Section(
        "Values that are sent: bits a value, relative l2 error", bits_and_error, exact_first("bits")
    ),
    "dense values": Section(
        "Values of the whole gradient: bits a value, relative l2 error", bits_and_error, exact_first("bits")
    ),
    "pairs": Section(
        "Whole messages: bytes, in per cent of raw pairs, relative l2 error",
        share_and_error,
        exact_first("bytes"),
    ),
    "selection": Section(
        "The k largest magnitudes, ascending: ms on one thread",
        lambda row: f"{row['milliseconds']:.2f}",
        mean("milliseconds"),
    ),
    "quantiles": Section(
        "Split points of 256 buckets of equal count: ms, largest rank error; ours codes all values, too",
        lambda row: f"{row['milliseconds']:.2f} {row['rank_error']:.2%}",
        mean("milliseconds"),
    ),
}


def table_of(results: dict, section: str) -> str:
    """Returns a table with a row for each method, a column for each gradient, and median speeds."""
    rows, (_, cell, order) = results[section], SECTIONS[section]
    measured = {row["gradient"] for row in rows}
    names = [f"#{each['number']}" for each in results["gradients"] if each["name"] in measured]
    keys = [key for key in SPEEDS if key in rows[0]]
    methods = sorted(by_method(rows).items(), key=lambda item: order(item[1]))
    cells = [
        [f"{page_table.code(name)} ({each[0]['package']})", *map(cell, each), *speeds(each, keys)]
        for name, each in methods
    ]
    return page_table.table(["method", *names, *map(SPEEDS.get, keys)], cells)


def gradients(results: dict) -> str:
    """Returns a table that describes the columns of the others."""
    rows = [
        [
            f"#{each['number']}",
            each["name"].split(",")[0],
            each["kind"],
            f"{each['n']:,}",
            f"{each['k']:,}",
            str(each["width"]),
        ]
        for each in results["gradients"]
    ]
    return page_table.table(["", "gradient", "kind", "n", "k", "width of a row"], rows)


def show(results: dict) -> None:
    texts = [gradients(results)]
    for name, section in SECTIONS.items():
        if results[name]:
            texts += [section.title, table_of(results, name)]
    texts.append("Speeds are in millions of keys, values, elements, or 32-bit words of raw pairs a second.")
    texts.append(f"{results['machine']}; " + ", ".join(f"{k} {v}" for k, v in results["versions"].items()))
    if results["missing"]:
        texts.append(f"not installed and left out: {', '.join(results['missing'])}")
    page_table.show(*texts, width=max(120, 95 + 17 * len(results["gradients"])))
