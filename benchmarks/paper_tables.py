"""The tables of docs/papers.md: the papers' numbers beside ours.

Functions take a result of docs/results and return Markdown; `fill_tables.py` calls them by their names in
`TABLES`. The papers' numbers are in `paper_numbers.py`.
"""

from collections.abc import Callable, Iterable

from network_summary import PHASES
from page_table import code, table
from paper_numbers import (
    HIT_RATES,
    MESSAGES,
    OF_TOP_R,
    TABLE_2,
    TABLE_4,
    TABLE_6,
    TABLE_7,
    TABLE_IV,
    TABLE_V,
    TABLE_VI,
    TABLE_VII,
    TIMES_AS_FAST,
)

NONE = "-"
# What headline_sizes.py measures and the table shows, by the codecs of what is not zero.
HEADLINES = {
    "delta_adaptive|raw": "exact values, keys of SKCompress",
    "skcompress:buckets=128,groups=8,rows=2,columns=0.2": "SKCompress, 128 buckets a sign",
    "delta_flag:flag_bits=2|log:base=1.1,tau=0": "FastSGD, `tau=0`",
    "delta_flag:flag_bits=2|log:base=1.1,tau=128": "FastSGD, `tau=128`",
    "delta_adaptive|block_int:bits=4,block=256,levels=square": "values of `int4`",
    "delta_adaptive|block_int:bits=3,block=64": "three bits a value, as `sparse` has them",
    "rowcol|ecsq:snr=25": f"{code('rowcol|ecsq')}, the default",
    "rowcol|ecsq:snr=15": "as `sparse` for slower links has it",
}


def number(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)


def skcompress_losses(result: dict) -> str:
    """Least test losses in the order of SKCompress' Table 4, with its own."""
    model = model_of(result)
    return losses(result, {name: (loss,) for name, loss in TABLE_4[model].items()}, ["Table 4: KDD12"])


def fastsgd_losses(result: dict) -> str:
    """Least test losses in the order of FastSGD's Table VII, with its own."""
    return losses(result, TABLE_VII[model_of(result)], ["Table VII: KDD12", "WebSpam"])


def other_losses(result: dict) -> str:
    """Least test losses of the compressors that neither table has."""
    model = model_of(result)
    shown = {*TABLE_4[model], *TABLE_VII[model]}
    names = [row["compression"] for row in result["rows"] if row["compression"] not in shown]
    return losses(result, dict.fromkeys(["none", *names], ()), [])


def all_losses(result: dict) -> str:
    """Least test losses of all compressors, in the order in which they ran."""
    return losses(result, {row["compression"]: () for row in result["rows"]}, [])


def single_node(result: dict) -> str:
    """Times and losses of scikit-learn on one core, and of ranks."""
    rows = [
        [
            code(row["method"]) + (f", {code(row['compression'])}" if row["compression"] else ""),
            str(row["cores"]),
            f"{row['epoch_seconds']:.3f}",
            f"{row['test_loss']:.4f}",
            f"{row['lowest']:.4f} to {row['highest']:.4f}",
            f"{row['epoch']:g}",
            f"{row['seconds']:.2f}",
        ]
        for row in result["rows"]
    ]
    columns = ["cores", "s an epoch", "least test loss", "of the seeds", "after epochs", "after s"]
    return table(["logistic regression", *columns], rows)


def model_of(result: dict) -> str:
    """Returns the model that the name of the result ends with."""
    return result["title"].split(",")[0].split("_")[-1]


def losses(result: dict, papers: dict[str, tuple], headings: list[str]) -> str:
    """Returns a table of least test losses.

    Args:
      result: Of `convergence.py --least test_loss`.
      papers: The paper's losses by compressor, in its order; each as many as `headings`.
      headings: Of the paper's losses.
    """
    found = {row["compression"]: row for row in result["rows"]}
    columns = [part for heading in headings for part in (heading, "less Adam")]
    rows = []
    for name, of_paper in papers.items():
        row = found[name]
        cells = [code(name)]
        for loss, adam in zip(of_paper, papers["none"], strict=True):
            cells += [f"{loss:.4f}", f"{loss - adam:+.4f}"]
        cells += [
            f"{row['mean']:.4f}",
            f"{row['difference']:+.4f}",
            f"{row['lowest']:.4f} to {row['highest']:.4f}",
            f"{row['wire_bytes_per_step']:,.0f}",
            f"{row['ratio']:.1f}",
        ]
        rows.append(cells)
    ours = ["least test loss here", "less `none`", "of the seeds", "wire B/step", "times fewer"]
    return table([result["title"], *columns, *ours], rows)


def gradients_of(result: dict) -> list[tuple[str, dict]]:
    """Returns the gradients with the headings of their columns."""
    return [(f"{each['name']}: {each['k']:,} of {each['n']:,}", each) for each in result["gradients"]]


def skcompress_parts(result: dict) -> str:
    """Bytes of a pair as the parts of SKCompress are added, on each gradient."""
    gradients = gradients_of(result)
    rows = []
    for i, part in enumerate(gradients[0][1]["parts"]):
        cells = [part["name"], number(per_pair(part["name"]), ".2f")]
        for _, gradient in gradients:
            own = gradient["parts"][i]
            cells.append(f"{own['keys'] + own['values']:.2f} ({own['keys']:.2f} + {own['values']:.2f})")
        rows.append(cells)
    titles = [f"{name} (keys + values)" for name, _ in gradients]
    return table(["bytes of a pair", "Figure 10b: KDD10", *titles], rows)


def per_pair(name: str) -> float | None:
    """Returns the paper's bytes of a pair, if an uncompressed one has 12."""
    return 12 * MESSAGES[name] / MESSAGES["int32 and float64"] if name in MESSAGES else None


def sketch_sizes(result: dict) -> str:
    """Bytes, error and times by the sizes of SKCompress' sketches."""
    return lossy(result, "sketches", ["Table 6: s an epoch"], lambda name: [number(TABLE_6.get(name), "d")])


def precisions(result: dict) -> str:
    """Bytes and error of values by their precision, keys by `delta_adaptive`, and of SKCompress.

    There are no gradients of float64 here.
    """
    default = next(iter(result["gradients"][0]["sketches"]))
    compared = [
        {**each, "values": {"SKCompress": each["sketches"][default], "float64": None, **each["values"]}}
        for each in result["gradients"]
    ]

    def paper(name: str) -> list[str]:
        seconds, loss = TABLE_7.get(name, (None, None))
        return [number(seconds, "d"), number(loss, ".4f")]

    return lossy({"gradients": compared}, "values", ["Table 7: s an epoch", "loss in 2 h"], paper)


def lossy(result: dict, kind: str, headings: list[str], paper: Callable[[str], list[str]]) -> str:
    """Returns bytes of a pair, relative error and norm on each gradient; milliseconds on the first."""
    gradients = gradients_of(result)
    rows = []
    for name in gradients[0][1][kind]:
        each = [gradient[kind][name] for _, gradient in gradients]
        cells = [
            f"{own['bytes']:.2f}, {own['error']:.2g}, {own['norm']:.2f}" if own else NONE for own in each
        ]
        cells += [f"{each[0][time]:.2f}" if each[0] else NONE for time in ("encode_ms", "decode_ms")]
        rows.append([name, *paper(name), *cells])
    titles = [f"{name}: B a pair, error, norm" for name, _ in gradients]
    return table([kind, *headings, *titles, "encode ms", "decode ms"], rows)


def key_bits(result: dict) -> str:
    """Bits a key of each codec on each gradient, beside FastSGD's Table V."""
    gradients = gradients_of(result)
    rows = [
        [code(name), number(bits, ".2f"), *(f"{each['keys']['bits'][name]:.2f}" for _, each in gradients)]
        for name, bits in TABLE_V.items()
    ]
    return table(["bits a key", "Table V: KDD12", *(name for name, _ in gradients)], rows)


def flag_bits(result: dict) -> str:
    """Bits a key by the size of FastSGD's flag, beside its Table VI, and what they depend on."""
    gradients = gradients_of(result)
    rows = []
    for size, bits in TABLE_VI.items():
        cells = [each["keys"]["bits"][f"flag of {size}"] for _, each in gradients]
        rows.append([str(size), f"{bits:.2f}", *(f"{cell:.2f}" for cell in cells)])
    described = {
        "bits of the largest gap": lambda keys: str(keys["largest_bits"]),
        "mean bits of a gap": lambda keys: f"{keys['mean_bits']:.2f}",
        "gaps of 1 bit": lambda keys: f"{100 * keys['shares']['1']:.0f} %",
        "gaps of at most 4 bits": lambda keys: f"{100 * keys['shares']['4']:.0f} %",
    }
    for name, tell in described.items():
        rows.append([name, NONE, *(tell(each["keys"]) for _, each in gradients)])
    return table(["bits of a flag", "Table VI: KDD12", *(name for name, _ in gradients)], rows)


def convolution(result: dict) -> str:
    """Volume, error and times of DeepReduce's codecs on gradients of convolutions."""
    [top, *_] = result["rows"]
    rows = [
        [
            row["name"],
            OF_TOP_R.get(row["name"], NONE),
            f"{row['volume'] / top['volume']:.2f}",
            f"{row['volume']:.4f}",
            f"{row['key_bits']:.1f}",
            f"{row['value_bits']:.1f}",
            f"{row['error']:.2g}",
            f"{row['encode_ms']:.3f}",
            f"{row['decode_ms']:.3f}",
        ]
        for row in result["rows"]
    ]
    ours = ["here", "of dense", "bits of a key", "of a value", "error", "encode ms", "decode ms"]
    return table([variables_of(result), "paper: of Top-r", *ours], rows)


def variables_of(result: dict) -> str:
    return f"{result['variables']} gradients of {result['elements']:,.0f} elements"


def fit_times(result: dict) -> str:
    """Milliseconds of Fit-Poly and Fit-DExp by the number of values."""
    rows = []
    for row in result["fits"]:
        cells = [row[f"{name}_{way}_ms"] for way in ("encode", "decode") for name in ("poly", "dexp")]
        ratios = [cells[1] / cells[0], cells[3] / cells[2]]
        rows.append(
            [f"{row['count']:,}", *(f"{each:.3g}" for each in cells), *(f"{each:.2f}" for each in ratios)]
        )
    ways = [f"{way} {name} ms" for way in ("encode", "decode") for name in ("`poly`", "`dexp`")]
    return table(["values", *ways, "`dexp` by `poly`: encode", "decode"], rows)


def bloom_policies(result: dict) -> str:
    """Volume relative to Top-r, share of the right keys and error, by policy and rate (Figure 6)."""
    [top, *_] = result["rows"]
    found: dict[str, dict[str, dict]] = {}
    for row in result["sweep"]:
        policy, fpr = row["name"].split(", ")
        found.setdefault(fpr, {})[policy] = row
    policies = list(next(iter(found.values())))
    rows = [
        [
            fpr,
            f"{own[policies[0]]['key_bits']:.1f}",
            *(
                f"{own[each]['volume'] / top['volume']:.2f}, {100 * own[each]['right']:.1f} %, "
                f"{own[each]['error']:.2g}"
                for each in policies
            ),
        ]
        for fpr, own in found.items()
    ]
    return table(["false positive rate", "bits of a key", *policies], rows)


def ncf_volumes(result: dict) -> str:
    """Volume of DeepReduce's Table 2, keys and values apart."""
    rows = [
        [
            row["name"],
            number(TABLE_2.get(row["name"]), ".4f"),
            f"{row['volume']:.4f}",
            f"{row['keys']:.4f}",
            f"{row['values']:.4f}",
            f"{row['key_bits']:.2f}",
            f"{row['sent']:.2f}",
            f"{row['error']:.2g}",
        ]
        for row in result["rows"]
    ]
    title = f"{variables_of(result)}, {100 * result['nonzero']:.0f} % not zero"
    ours = ["here", "keys", "values", "bits of a key", "values sent", "error"]
    return table([title, "Table 2: ML-20M", *ours], rows)


def headline_sizes(result: dict) -> str:
    """Times fewer bytes than 12 a pair, the error, and the pairs that are not decoded to 0."""
    found = {(row["spec"], row["gradient"]): row for row in result["rows"]}
    rows = []
    for codecs, what in HEADLINES.items():
        cells = [code(codecs), what]
        for name, (_, k) in result["gradients"].items():
            own = found[f"nonzero|{codecs}", name]
            fewer, kept = own["times_fewer_than_12_bytes_a_pair"], 100 * own["not_zero"] / k
            cells.append(f"{fewer:.1f}, {own['error']:.2g}, {kept:.{0 if kept >= 10 else 1}f} %")
        rows.append(cells)
    columns = [f"{name}: {k:,} of {n:,}" for name, (n, k) in result["gradients"].items()]
    return table([f"spec after {code('nonzero|')}", "what", *columns], rows)


def headline_dense(result: dict) -> str:
    """Bytes and milliseconds of what `tfcompress bench --json` measured, the first spec being Top-r."""
    totals = {row["spec"]: row["total"] for row in result["results"]}
    [top, *_] = totals.values()
    rows = [
        [
            code(spec.split("|", 1)[1]),
            f"{total['num_bytes']:,}",
            f"{total['num_bytes'] / top['num_bytes']:.2f}",
            *(f"{total[time]:.2f}" for time in ("encode_ms", "decode_ms")),
        ]
        for spec, total in totals.items()
    ]
    [sparsifier] = {spec.split("|")[0] for spec in totals}
    return table(
        [f"spec after {code(f'{sparsifier}|')}", "bytes", "of Top-r", "encode ms", "decode ms"], rows
    )


def rank_traffic(result: dict) -> str:
    """Bytes of a step and a rank, and times fewer than the first compressor's, by the number of ranks."""
    described = ("ranks", "batch_size")
    names = [name for name in result["rows"][0] if name not in described]
    rows = []
    for row in result["rows"]:
        cells = [str(row["ranks"]), f"{row['batch_size']:,}"]
        for name in names:
            wire = row[name]["wire_bytes_per_step"]
            cells += [f"{row[name]['payload_bytes_per_step']:,.0f}", f"{wire:,.0f}"]
            if name != names[0]:
                cells.append(f"{row[names[0]]['wire_bytes_per_step'] / wire:.1f}" if wire else NONE)
        rows.append(cells)
    columns = [
        part
        for name in names
        for part in (f"{code(name)}: payload", "wire", *(["times fewer"] if name != names[0] else []))
    ]
    return table(["ranks", "rows of a batch", *columns], rows)


def wire_by_ranks(result: dict) -> str:
    """Bytes that a step moves in and out of a rank, and times fewer than the first compressor's, by ranks."""
    rows = [row for row in result["rows"] if row["ranks"] > 1]
    [first, *_] = names = [name for name in rows[0] if name not in ("ranks", "batch_size")]

    def compared(row: dict, name: str) -> str:
        baseline, wire = (row[each]["wire_bytes_per_step"] for each in (first, name))
        return f"{wire:,.0f}: {baseline / wire:.1f}"

    table_rows = [[code(name), *(compared(row, name) for row in rows)] for name in names]
    return table(["wire B/step: times fewer", *(f"{row['ranks']} ranks" for row in rows)], table_rows)


def epoch_times(result: dict) -> str:
    """How many times as fast as without compression steps are, beside the epochs of SKCompress' figures."""
    links = list(dict.fromkeys(row["bandwidth"] for row in result["rows"]))
    found = {(row["compression"], row["bandwidth"]): row for row in result["rows"]}
    rows = [
        [
            code(name),
            *(number(times, ".1f") for times in of_paper),
            f"{found[name, links[0]]['wire']['expected']:,.0f}",
            *(f"{found[name, link]['throughput_to']['none']:.2f}" for link in links),
        ]
        for name, of_paper in TIMES_AS_FAST.items()
        if (name, links[0]) in found
    ]
    figures = ["Figure 10a, up to", "Figure 11, KDD12", "Figure 11, CTR"]
    return table(["compression", *figures, "wire B/step here", *(f"here, {link}" for link in links)], rows)


def step_shares(result: dict) -> list[list[str]]:
    """Returns the rows of the compressors that FastSGD's Table IV has, by link."""
    return [
        [f"here, {row['bandwidth']}", code(row["compression"]), f"{row['step_ms']:.0f} ms a step"]
        + shares(row["milliseconds"][phase] for phase in PHASES)
        for row in result["rows"]
        if row["compression"] in TABLE_IV["LR"]
    ]


def own_shares(result: dict) -> str:
    """Shares of a step, for one of FastSGD's models."""
    model = result["arguments"][-1]
    return table([model, "compression", "in all", *PHASES], step_shares(result))


def phase_shares(result: dict) -> str:
    """Shares of a step beside those of an epoch in FastSGD's Table IV, by link and by model."""
    rows = step_shares(result)
    for model, methods in TABLE_IV.items():
        for name, seconds in methods.items():
            total = f"{sum(seconds):.0f} s an epoch"
            rows.append([f"Table IV, {model}", code(name), total, *shares(seconds)])
    return table(["", "compression", "in all", *PHASES], rows)


def breakdown(result: dict) -> str:
    """Milliseconds of a step in three parts, by link, as in DeepReduce's Figure 11."""
    rows = []
    for row in result["rows"]:
        of = row["milliseconds"]
        parts = (of["compute"] + of["update"], of["encode"] + of["decode"], of["communication"])
        faster = f"{row['throughput_to']['none']:.2f}"
        wire = f"{row['wire']['expected']:,.0f}"
        names = [row["bandwidth"], code(row["compression"])]
        rows.append([*names, wire, f"{row['step_ms']:.0f}", faster, *(f"{each:.0f}" for each in parts)])
    headings = ["link", "compression", "wire B/step", "step, ms", "times as fast as `none`"]
    return table([*headings, "forward, backward, update", "encode, decode", "communication"], rows)


def shares(times: Iterable[float]) -> list[str]:
    found = list(times)
    return [f"{100 * each / sum(found):.1f} %" for each in found]


def hit_rates(result: dict) -> str:
    """Hit rates in the order of DeepReduce's Table 2, with its own."""
    found = {row["compression"]: row for row in result["rows"]}
    rows = [
        [
            code(name),
            f"{best:.4f}",
            f"{best - HIT_RATES['none']:+.4f}",
            f"{found[name]['mean']:.4f}",
            f"{found[name]['difference']:+.4f}",
        ]
        for name, best in HIT_RATES.items()
    ]
    return table([result["title"], "Table 2: best", "less baseline", "here", "less `none`"], rows)


def packed_gaps(result: dict) -> str:
    """Bits of a key of our codecs of gaps and of gaps packed in blocks, on each gradient."""
    rows = [
        [row["gradient"], f"{row['k']:,}", f"{row['n']:,}", *(f"{bits:.2f}" for bits in row["bits"].values())]
        for row in result["rows"]
    ]
    block = f"{result['block']} gaps"
    packed = {"packed": f"{block} by the widest", "patched": f"{block}, patched"}
    codes = [packed.get(name, code(name)) for name in result["rows"][0]["bits"]]
    return table(["gradient", "keys", "of", *codes], rows)


def sketched_mnist(result: dict) -> str:
    """Losses and errors of Sketched-SGD's appendix E.1 by the number of steps."""
    steps = result["steps"]
    shown = [min(range(len(steps)), key=lambda i, goal=goal: abs(steps[i] - goal)) for goal in (100, 1000)]
    rows = []
    for row in result["rows"]:
        early = [sum(curve["test_loss"][i] for curve in row["curves"]) / len(row["curves"]) for i in shown]
        rows.append(
            [
                row["model"],
                row["method"],
                *(f"{loss:.4f}" for loss in early),
                f"{row['test_loss']:.4f}",
                f"{row['least_test_loss']:.4f} to {row['largest_test_loss']:.4f}",
                f"{100 * row['train_error']:.2f} %",
                f"{100 * row['test_error']:.2f} %",
            ]
        )
    losses_at = [f"test loss at T = {steps[i]:,}" for i in [*shown, len(steps) - 1]]
    return table(["model", "method", *losses_at, "of the seeds", "train error", "test error"], rows)


def sketched_ranks(result: dict) -> str:
    """What an update changes and moves, and where training ends, by the number of workers (Figure 4)."""
    rows = [
        [
            row["model"],
            row["method"],
            str(row["ranks"]),
            f"{row['updated']:.0f}",
            f"{row['times_fewer']:.1f}",
            f"{row['test_loss']:.4f}",
            f"{row['least_test_loss']:.4f} to {row['largest_test_loss']:.4f}",
            f"{100 * row['test_error']:.2f} %",
        ]
        for row in sorted(result["rows"], key=lambda row: (row["model"], row["method"], row["ranks"]))
    ]
    updated = f"updated of {result['n']:,}"
    headings = ["model", "method", "workers", updated, "times fewer numbers", "test loss", "of the seeds"]
    return table([*headings, "test error"], rows)


def strongly_convex(result: dict) -> str:
    """Excess loss and slope of each method on the quadratic of Theorem 1."""
    plain = result["curves"][0]["losses"][-1]
    rows = [
        [
            curve["name"],
            f"{curve['ratio'] ** 2:,.0f}",
            f"{curve['slope']:.2f}",
            f"{curve['losses'][-1]:.3g}",
            f"{curve['losses'][-1] / plain:.3f}",
        ]
        for curve in result["curves"]
    ]
    last = f"excess loss at T = {result['setting']['steps']:,}"
    return table(["method", "(n/k)^2", "slope beyond", last, "to uncompressed"], rows)


TABLES = {
    each.__name__: each
    for each in (
        skcompress_losses,
        fastsgd_losses,
        other_losses,
        all_losses,
        single_node,
        skcompress_parts,
        sketch_sizes,
        precisions,
        key_bits,
        flag_bits,
        convolution,
        fit_times,
        bloom_policies,
        ncf_volumes,
        headline_sizes,
        headline_dense,
        rank_traffic,
        wire_by_ranks,
        epoch_times,
        phase_shares,
        own_shares,
        breakdown,
        hit_rates,
        packed_gaps,
        sketched_mnist,
        sketched_ranks,
        strongly_convex,
    )
}
