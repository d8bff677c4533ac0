"""The benchmarks behind docs/papers.md: bytes add up, and small runs agree with what the papers say."""

import json
import pathlib
import subprocess
import sys

import headline_sizes
import numpy as np
import packed_gaps
import paper_curves
import paper_dense
import paper_numbers
import paper_sizes
import paper_tables
import pytest
import rank_traffic
import scipy.sparse
import single_node

import tfcompress as tfc

ROOT = pathlib.Path(__file__).parents[2]


def run(name, folder, *arguments):
    """Runs a benchmark and returns the numbers it wrote."""
    script = ROOT / "benchmarks" / f"{name}.py"
    subprocess.run([sys.executable, str(script), "--output", str(folder), *map(str, arguments)], check=True)
    [path] = (folder / "results").glob("*.json")
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def rows_dump(tmp_path_factory):
    """The gradient of a linear model, as examples/workload/gradients.py writes it."""
    rng = np.random.default_rng(0)
    n, k = 20_000, 3000
    path = tmp_path_factory.mktemp("words") / "step_000010.npz"
    keys = np.sort(rng.choice(n, k, replace=False))
    values = (rng.standard_normal(k) ** 3).astype(np.float32)
    np.savez(path, **{"w:values": values, "w:indices": keys, "w:shape": np.array([n])})
    return path


@pytest.fixture(scope="module")
def sizes(rows_dump, tmp_path_factory):
    result = run("paper_sizes", tmp_path_factory.mktemp("sizes"), rows_dump)
    [gradient] = result["gradients"]
    return result, gradient


def test_the_groups_of_a_section_share_out_the_keys(rows_dump):
    [gradient] = paper_sizes.read_gradients(rows_dump, 0.01)
    sent = gradient.sent
    described, _, frame = paper_sizes.encoded(sent, "sketchml:buckets=20,groups=3,rows=2,columns=0.2")
    groups = paper_sizes.groups_of(frame[described["header_bytes"] :], sent.num_rows)
    assert len(groups) == 6  # Three of each sign.
    np.testing.assert_array_equal(np.sort(np.concatenate([group.keys for group in groups])), sent.keys)
    assert sum(group.key_bytes + group.cell_bytes for group in groups) < described["value_bytes"]


def test_each_part_of_skcompress_saves_bytes(sizes):
    _, gradient = sizes
    totals = {part["name"]: part["keys"] + part["values"] for part in gradient["parts"]}
    ordered = ["int32 and float64", "int32 and float32", "+ delta-binary keys", "+ quantile buckets"]
    ordered += ["+ MinMaxSketch in groups", "+ Huffman-coded cells alone", "both: SKCompress"]
    found = [totals[name] for name in ordered]
    assert found == sorted(found, reverse=True)
    saved = totals["+ MinMaxSketch in groups"] - totals["both: SKCompress"]
    apart = [
        totals["+ MinMaxSketch in groups"] - totals[f"+ {part} alone"]
        for part in ("Huffman-coded cells", "adaptive prefixes")
    ]
    assert saved == pytest.approx(sum(apart))
    [own] = [each for name, each in gradient["sketches"].items() if name.startswith("128 buckets a sign")]
    assert totals["both: SKCompress"] == pytest.approx(own["bytes"])


def test_one_more_bit_of_a_flag_costs_at_most_one(sizes):
    """Algorithm 2 of FastSGD: the widths of l bits are among those of l + 1 bits."""
    _, gradient = sizes
    bits = [gradient["keys"]["bits"][f"flag of {size}"] for size in range(1, 6)]
    padding = 8 / gradient["k"]
    assert all(more <= fewer + 1 + padding for fewer, more in zip(bits, bits[1:], strict=False))


def test_larger_sketches_have_smaller_errors(sizes):
    _, gradient = sizes
    errors = {name: each["error"] for name, each in gradient["sketches"].items()}
    default = errors["128 buckets a sign, 2 rows, d/5 columns"]
    assert errors["d/2 columns"] < default < errors["1 group"]
    assert errors["4 rows"] < default


@pytest.mark.parametrize("name", ["skcompress_parts", "sketch_sizes", "precisions", "key_bits", "flag_bits"])
def test_tables_of_sizes_have_a_column_for_each_gradient(sizes, name):
    result, gradient = sizes
    text = paper_tables.TABLES[name](result)
    assert f"{gradient['name']}: 3,000 of 20,000" in text.splitlines()[0]
    assert len({line.count("|") for line in text.splitlines()}) == 1


def test_precisions_have_all_rows_of_table_7(sizes):
    result, gradient = sizes
    rows = {line.split("|")[1].strip(): line for line in paper_tables.precisions(result).splitlines()}
    assert set(paper_numbers.TABLE_7) <= set(rows)
    assert rows["float64"] == "| float64 | 1041 | 0.6914 | - | - | - |"
    own = gradient["sketches"]["128 buckets a sign, 2 rows, d/5 columns"]
    assert rows["SKCompress"].startswith(f"| SKCompress | 89 | 0.6909 | {own['bytes']:.2f}, ")


def test_headlines_count_whole_frames(rows_dump, tmp_path):
    result = run("headline_sizes", tmp_path, rows_dump)
    [(name, (n, k))] = result["gradients"].items()
    assert (n, k) == (20_000, 3000) and name.endswith("step_000010")
    assert len(result["rows"]) == len(headline_sizes.CODECS)
    rows = {row["spec"]: row for row in result["rows"]}
    exact = rows["nonzero|raw|raw"]
    assert exact["error"] == 0 and exact["not_zero"] == k
    assert 8 * k < exact["frame_bytes"] < 8 * k + 64
    assert exact["times_fewer_than_12_bytes_a_pair"] == pytest.approx(1.5, abs=0.01)
    text = paper_tables.headline_sizes(result)
    assert len(text.splitlines()) == 2 + len(paper_tables.HEADLINES)
    assert "| exact values, keys of SKCompress |" in text and ", 0, 100 % |" in text


def test_dense_headlines_are_relative_to_the_first_spec():
    totals = [{"num_bytes": 4000, "encode_ms": 0.5, "decode_ms": 0.25}]
    totals.append({"num_bytes": 1000, "encode_ms": 0.125, "decode_ms": 1.0})
    specs = ["topk:ratio=0.01|raw|raw", "topk:ratio=0.01|delta_adaptive|sign"]
    rows = [{"spec": spec, "total": total} for spec, total in zip(specs, totals, strict=True)]
    text = paper_tables.headline_dense({"results": rows})
    assert text.startswith("| spec after `topk:ratio=0.01\\|` | bytes |")
    assert "| `delta_adaptive\\|sign` | 1,000 | 0.25 | 0.12 | 1.00 |" in text


def test_traffic_by_ranks_is_that_of_the_jobs():
    def job(ranks, *moved):
        shared = {"workload": "w", "parameters": 5, "steps": 10, "versions": {}, "ranks": ranks}
        shared["batch_size"] = 12 // ranks
        return [
            shared | {"compression": name, "payload_bytes_per_step": each / 2, "wire_bytes_per_step": each}
            for name, each in zip(("none", "a|b"), moved, strict=True)
        ]

    result = rank_traffic.condensed([job(2, 1000.0, 250.0), job(1, 0.0, 0.0)])
    assert [row["ranks"] for row in result["rows"]] == [1, 2] and result["parameters"] == 5
    text = paper_tables.rank_traffic(result).splitlines()
    headings = "ranks | rows of a batch | `none`: payload | wire | `a\\|b`: payload | wire | times fewer"
    assert text[0] == f"| {headings} |"
    assert text[2:] == ["| 1 | 12 | 0 | 0 | 0 | 0 | - |", "| 2 | 6 | 500 | 1,000 | 125 | 250 | 4.0 |"]


def test_shares_of_phases_stand_beside_table_iv():
    milliseconds = {"compute": 1.0, "encode": 0.0, "communication": 2.0, "decode": 0.0, "update": 1.0}
    row = {"bandwidth": "1gbit", "compression": "none", "step_ms": 3.5, "milliseconds": milliseconds}
    text = paper_tables.phase_shares({"rows": [row, row | {"compression": "other"}]})
    assert "| here, 1gbit | `none` | 4 ms a step | 25.0 % | 0.0 % | 50.0 % | 0.0 % | 25.0 % |" in text
    assert "| Table IV, LR | `fastsgd` | 32 s an epoch | 71.6 % | 0.2 % | 12.5 % | 0.2 % | 15.6 % |" in text
    assert "other" not in text


def test_hit_rates_stand_beside_those_of_table_2():
    rows = [{"compression": name, "mean": 0.5, "difference": 0.001} for name in paper_numbers.HIT_RATES]
    text = paper_tables.hit_rates({"title": "ncf", "rows": rows})
    assert "|poly:degree=5` | 0.9519 | +0.0022 | 0.5000 | +0.0010 |" in text


@pytest.fixture(scope="module")
def convolution(tmp_path_factory):
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("convolution")
    kernel = (rng.standard_normal((3, 3, 64, 64)) ** 3).astype(np.float32)
    np.savez(folder / "step_000010.npz", kernel=kernel, bias=np.ones(64, np.float32))
    return run("paper_dense", folder, folder)


def test_volumes_are_those_of_the_formulas(convolution):
    rows = {row["name"]: row for row in convolution["rows"]}
    assert rows["Top-r"]["key_bits"] == rows["Top-r"]["value_bits"] == 32
    # 1.44 log2(1 / 0.001) bits of a filter, and what its section says beside them.
    assert rows["BF-P2"]["key_bits"] == pytest.approx(14.38, abs=0.3)
    assert rows["BF-P2"]["volume"] / rows["Top-r"]["volume"] == pytest.approx((14.4 + 32) / 64, abs=0.01)
    assert rows["BF-P0"]["error"] == rows["BF-P0"]["right"] - 1 == 0


def test_a_larger_false_positive_rate_costs_bytes_or_right_keys(convolution):
    sweep = {row["name"]: row for row in convolution["sweep"]}
    for policy in ("p1", "p2"):
        right = [sweep[f"{policy}, {fpr:g}"]["right"] for fpr in paper_dense.FPRS]
        assert right[0] > 0.95 and right == sorted(right, reverse=True)
    assert sweep["p0, 0.016"]["sent"] > 2
    assert sweep["p2, 0.004"]["right"] > sweep["p1, 0.004"]["right"]
    for name in ("convolution", "bloom_policies"):
        text = paper_tables.TABLES[name](convolution)
        assert len({line.count("|") for line in text.splitlines()}) == 1


def test_sketched_sgd_trains_linear_models_as_uncompressed_sgd_does(tmp_path):
    result = run("sketched_mnist", tmp_path, "--quick")
    assert result["compression"]["paper"] > 1
    found = {(row["model"], row["method"]): row["test_loss"] for row in result["rows"]}
    for model in ("svm", "logistic"):
        for method in ("true top-k", "sketched", "heavymix"):
            assert found[model, method] == pytest.approx(found[model, "uncompressed"], rel=0.1, abs=0.01)


def test_more_workers_update_more_elements_under_local_topk_alone(tmp_path):
    result = run("sketched_ranks", tmp_path, "--quick")
    rows = {(row["model"], row["method"], row["ranks"]): row for row in result["rows"]}
    k = result["setting"]["k"]
    for model in ("svm", "logistic"):
        assert k <= rows[model, "local top-k", 2]["updated"] <= 2 * k
        assert rows[model, "local top-k", 8]["updated"] > rows[model, "local top-k", 2]["updated"]
        assert {rows[model, "sketched", ranks]["updated"] for ranks in (2, 8)} == {k}
        for ranks in (2, 8):
            plain = rows[model, "uncompressed", ranks]
            assert plain["times_fewer"] == 1
            assert rows[model, "sketched", ranks]["test_loss"] == pytest.approx(plain["test_loss"], rel=0.1)
    text = paper_tables.sketched_ranks(result)
    assert len({line.count("|") for line in text.splitlines()}) == 1 and "| sketched | 8 | 2 |" in text


def test_packed_gaps_have_the_bits_of_the_widest_or_pay_for_exceptions():
    lengths = packed_gaps.lengths_of(np.array([0, 2, 6, 1029]))
    assert lengths.tolist() == [0, 1, 2, 10]
    assert packed_gaps.packed_bits(lengths) == 8 + 4 * 10
    # In two bits, with one exception: its position, and 8 bits more.
    assert packed_gaps.patched_bits(lengths) == 24 + 4 * 2 + 8 + 8
    assert packed_gaps.patched_bits(np.array([3, 3])) == 16 + 2 * 3


def test_each_gradient_has_its_bits_of_packed_gaps(rows_dump):
    [gradient] = paper_sizes.read_gradients(rows_dump, 0.01)
    row = packed_gaps.measure(gradient)
    bits = row["bits"]
    assert bits["patched"] < bits["packed"] < 32
    assert bits["delta_adaptive"] < bits["delta_flag"] < bits["delta_binary"] < 32
    text = paper_tables.packed_gaps({"block": packed_gaps.BLOCK, "rows": [row]}).splitlines()
    assert text[2].startswith("| step_000010, rows | 3,000 | 20,000 |") and text[2].count("|") == 9


def test_losses_stand_beside_those_of_the_paper():
    row = {"mean": 0.25, "difference": 0.0, "lowest": 0.24, "highest": 0.26, "ratio": 8.5}
    row["wire_bytes_per_step"] = 1000.4
    names = [*paper_numbers.TABLE_4["svm"], *paper_numbers.TABLE_VII["svm"], "zipml(8)"]
    result = {"title": "news_svm, 2 ranks", "rows": [row | {"compression": name} for name in names]}
    text = paper_tables.skcompress_losses(result).splitlines()
    assert [line.split("|")[1].strip() for line in text[2:]] == [
        f"`{name}`" for name in paper_numbers.TABLE_4["svm"]
    ]
    assert text[2] == (
        "| `skcompress` | 0.9784 | -0.0001 | 0.2500 | +0.0000 | 0.2400 to 0.2600 | 1,000 | 8.5 |"
    )
    assert "| `fastsgd` | 0.9968 | +0.0000 | 0.6369 | -0.0002 | 0.2500" in paper_tables.fastsgd_losses(result)
    assert "`zipml(8)`" in paper_tables.other_losses(result)


def test_specs_of_the_tables_are_known():
    for spec in [*paper_dense.CONVOLUTION.values(), *paper_dense.SWEEP.values(), *paper_dense.NCF.values()]:
        assert tfc.describe_spec(spec)


def curve(*losses):
    """A run of as many epochs of ten steps."""
    return [{"curve": [{"step": 10 * i, "metrics": {"test_loss": x}} for i, x in enumerate(losses, start=1)]}]


def test_losses_by_time_take_the_steps_of_each_link(tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr(paper_curves, "draw", lambda axes, x, y, label: lines.append((label, x, y)))
    runs = {"none": curve(2, 1), "topk": curve(3, 2), "not timed": curve(1, 1)}
    results = [{"title": "news, 2 ranks", "runs": runs}]
    rows = [("1gbit", "none", 50.0), ("1gbit", "topk", 10.0), ("100mbit", "none", 200.0)]
    steps = {"rows": [dict(zip(("bandwidth", "compression", "step_ms"), row, strict=True)) for row in rows]}
    with pytest.warns(UserWarning, match="legend"):  # Nothing is drawn here.
        paper_curves.plot_by_time(results, steps, "test_loss", tmp_path / "losses.png")
    assert [label for label, *_ in lines] == ["none", "topk", "none"]
    assert [x for _, x, _ in lines] == [pytest.approx(x) for x in ([0.5, 1.0], [0.1, 0.2], [2.0, 4.0])]
    assert lines[1][2] == [[3, 2]]


def test_bytes_by_ranks_are_compared_with_the_first_compressor():
    def row(ranks, *wire):
        of = [{"wire_bytes_per_step": each} for each in wire]
        return {"ranks": ranks, "batch_size": 8, **dict(zip(("none", "topk"), of, strict=True))}

    rows = paper_tables.wire_by_ranks(
        {"rows": [row(1, 0, 0), row(2, 100, 25), row(4, 300, 200)]}
    ).splitlines()
    assert rows[0] == "| wire B/step: times fewer | 2 ranks | 4 ranks |"
    assert rows[2:] == ["| `none` | 100: 1.0 | 300: 1.0 |", "| `topk` | 25: 4.0 | 200: 1.5 |"]


def test_epochs_of_the_paper_are_beside_steps_by_link():
    def row(link, name, times):
        times_to = {"throughput_to": {"none": times}, "wire": {"expected": 1000 / times}}
        return {"bandwidth": link, "compression": name, **times_to}

    rows = [row("100mbit", "fp16", 1.0), row("100mbit", "zipml", 2.0), row("1gbit", "zipml", 1.5)]
    [heading, _, *of_compressors] = paper_tables.epoch_times({"rows": rows}).splitlines()
    assert heading.endswith("| wire B/step here | here, 100mbit | here, 1gbit |")
    assert of_compressors == ["| `zipml` | - | 3.7 | 1.5 | 500 | 2.00 | 1.50 |"]


def test_a_single_node_reaches_the_same_losses_in_two_ways():
    """Stochastic gradients and L-BFGS minimise the same objective."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((2000, 5)).astype(np.float32)
    wanted = np.sign(features @ rng.standard_normal(5) + rng.standard_normal(2000)).astype(np.float32)
    rows = scipy.sparse.csr_matrix(0.03 * features)
    data = (rows, wanted)
    by_row = [*single_node.by_row(data, data, epochs=20, seed=1)]
    by_all_rows = [*single_node.by_all_rows(data, data)]
    assert [point["epoch"] for point in by_row] == [*range(1, 21)]
    assert by_row[-1]["test_loss"] == pytest.approx(by_all_rows[-1]["test_loss"], rel=0.02)
    result = {"rows": [single_node.row_of("SGDClassifier", "", 1, [by_row, by_row[:2]])]}
    [*_, row] = paper_tables.single_node(result).splitlines()
    assert row.startswith("| `SGDClassifier` | 1 | ")
