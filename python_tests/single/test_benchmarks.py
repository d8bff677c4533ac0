"""The benchmarks that show the papers' claims on traffic and convergence: small runs of them agree."""

import json
import pathlib
import subprocess
import sys

import block_scales
import numpy as np
import pytest
import shard_speed
import tensorflow as tf

import tfcompress as tfc

ROOT = pathlib.Path(__file__).parents[2]


def results_of(name, folder, *, draws=True):
    """Runs a benchmark with --quick, which draws a figure or not; returns the numbers it wrote."""
    script = ROOT / "benchmarks" / f"{name}.py"
    subprocess.run([sys.executable, str(script), "--quick", "--output", str(folder)], check=True)
    figure = folder / "figures" / f"{name}.png"
    assert figure.stat().st_size > 10_000 if draws else not figure.exists()
    return json.loads((folder / "results" / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def scaling(tmp_path_factory):
    return results_of("scaling", tmp_path_factory.mktemp("scaling"))


@pytest.fixture(scope="module")
def strongly_convex(tmp_path_factory):
    return results_of("strongly_convex", tmp_path_factory.mktemp("strongly_convex"))


def column(scaling, name, key):
    return np.array([point[key] for point in scaling["simulated"][name]["points"]], float)


def test_traffic_of_gathered_frames_grows_linearly(scaling):
    ranks, traffic = (column(scaling, "topk", key) for key in ("ranks", "in_out_bytes"))
    assert ranks[-1] == 8 * ranks[0]
    np.testing.assert_allclose(traffic / traffic[0], ranks / ranks[0], rtol=0.02)
    # Other ranks want other elements, so that the update grows denser, as in the paper's Figure 4.
    assert (np.diff(column(scaling, "topk", "updated_elements")) > 0).all()


@pytest.mark.parametrize("name", ["sketched_sgd", "shared_randomk", "none"])
def test_traffic_of_summed_payloads_does_not_grow(scaling, name):
    assert len(set(column(scaling, name, "in_out_bytes"))) == 1
    links = column(scaling, name, "wire_bytes")
    assert (links < 2 * links[0]).all()  # A ring's factor, 2 (W - 1) / W, is 1 for two ranks.


def test_summed_payloads_are_of_the_sizes_of_their_codecs(scaling):
    k, n = scaling["setting"]["k"], scaling["setting"]["n"]
    sizes = {"sketched_sgd": 5 * 10 * k + 36 * k, "shared_randomk": k, "none": n}
    for name, floats in sizes.items():
        assert column(scaling, name, "in_out_bytes")[0] == 2 * 4 * floats


def test_a_sharded_rank_moves_in_proportion_to_an_all_reduce(tmp_path):
    """Bytes stay in proportion to a ring all-reduce's, but for the frames' headers."""
    simulated = results_of("sharding", tmp_path)["simulated"]
    ranks = np.array([point["ranks"] for point in simulated["topk"]["points"]])
    payloads = np.array([point["payload_bytes"] for point in simulated["topk"]["points"]])
    of_two = {name: np.array([p["wire_bytes"] for p in each["points"]]) for name, each in simulated.items()}
    np.testing.assert_allclose(of_two["topk"], 2 * (ranks - 1) * payloads, rtol=0.02)
    of_two = {name: each / each[0] for name, each in of_two.items()}
    ring = 2 * (ranks - 1) / ranks
    np.testing.assert_allclose(of_two["topk"], ranks - 1, rtol=0.02)
    for name in ("bf16, sharded", "int8, sharded", "int4, sharded"):
        np.testing.assert_allclose(of_two[name], ring, rtol=0.03)
    assert (of_two["topk, sharded"] < 1.2 * ring).all()


def test_rows_summed_by_owners_cost_less_the_more_ranks_share_them(tmp_path):
    points = results_of("row_sharding", tmp_path, draws=False)["simulated"]["Zipf"]
    ratios = [point["sharded_bytes"] / point["gathered_bytes"] for point in points]
    assert [point["ranks"] for point in points] == [2, 3, 4, 8]
    assert ratios == sorted(ratios, reverse=True) and ratios[-1] < 0.8


def curves(strongly_convex, method):
    return [curve for curve in strongly_convex["curves"] if curve["method"] == method]


def test_excess_loss_falls_as_one_over_t(strongly_convex):
    """Beyond (n/k)^2; the terms in 1/T^2 and 1/T^3 of the bound still make it somewhat steeper there."""
    assert len(curves(strongly_convex, "sketched")) == len(curves(strongly_convex, "heavymix")) == 2
    for curve in strongly_convex["curves"]:
        assert curve["slope_beyond"] <= strongly_convex["steps"][-1] / 10
        assert -1.5 < curve["slope"] < -0.8


def test_sketches_are_smaller_than_the_problem(strongly_convex):
    n = strongly_convex["setting"]["n"]
    for curve in curves(strongly_convex, "sketched") + curves(strongly_convex, "heavymix"):
        sizes = tfc.codecs.linear_sizes(curve["spec"], n)
        assert sizes["payload"] + sizes["candidates"] < n


@pytest.mark.parametrize("method", ["sketched", "heavymix", "local top-k"])
def test_compression_costs_no_more_than_the_theorem_says(strongly_convex, method):
    [plain] = curves(strongly_convex, "uncompressed")
    same_steps = curves(strongly_convex, "same steps, plain")
    for curve, control in zip(curves(strongly_convex, method), same_steps, strict=True):
        # Before (n/k)^2 the loss is larger, for the small first steps; in the end it is that of plain SGD.
        early = np.searchsorted(strongly_convex["steps"], curve["ratio"] ** 2 / 4)
        assert curve["losses"][early] > 1.5 * plain["losses"][early]
        assert curve["losses"][-1] == pytest.approx(plain["losses"][-1], rel=0.2)
        np.testing.assert_array_less(curve["losses"], 2.5 * np.array(control["losses"]))


@pytest.mark.parametrize("spec", shard_speed.SPECS[:2])
def test_the_ops_of_shards_are_timed_on_a_whole_exchange(spec):
    source = tf.Variable(tf.random.stateless_normal([3000], seed=(1, 2)))
    step = shard_speed.Step(spec, source, ranks=3)
    [total], *_ = step.decode_pieces()
    error = tf.norm(total - 3 * source) / tf.norm(3 * source)
    assert error < (0.02 if spec.endswith("block_int") else 0.2)
    times = shard_speed.seconds(step, repeats=1)
    assert list(times) == list(shard_speed.TARGETS)


def test_scales_of_blocks_are_compared_by_what_they_round():
    levels = block_scales.levels_of(4, "square")
    np.testing.assert_allclose(levels, np.arange(8) ** 2 / 49, rtol=1e-6)
    exact = np.float32([[-levels[3], levels[7], 0, levels[1]]])
    np.testing.assert_array_equal(block_scales.quantised(exact, np.float32([[1]]), levels), exact)
    clipped = block_scales.quantised(np.float32([[2, 0.4]]), np.float32([[1]]), levels)
    assert clipped[0, 0] == 1.0
    normal = np.random.default_rng(1).standard_normal((64, block_scales.BLOCK)).astype(np.float32)
    row = block_scales.row_of(normal, 8, "even")
    assert row["maximum"] > 38 and row["rms"] >= row["maximum"]
    row = block_scales.row_of(normal, 4, "even")
    assert row["factor"] < 4 and row["rms"] > row["maximum"] + 0.3
