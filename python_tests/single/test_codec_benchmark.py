"""The comparison of our codecs with peers: adapters are right, bytes add up, a quick run writes all."""

import itertools
import json
import pathlib
import subprocess
import sys

import codec_choice
import native_codec
import numpy as np
import pytest
from comparison import keys, pairs, peers, quantiles, selection, values
from comparison.gradients import Rows, find_files, read_gradients, relative_error

import tfcompress as tfc

ROOT = pathlib.Path(__file__).parents[2]
LOSSY_VALUES = {"float16", "float16, zlib-6", "float16, zstd-3", "float16, zstd-19", "KLL buckets"}


def dense_gradient(rng):
    return (rng.standard_normal((100, 200)) ** 3).astype(np.float32)


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """What examples/workload/gradients.py writes: dense variables and a table with rows that repeat."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("gradients") / "model_step_000010.npz"
    np.savez_compressed(
        path,
        **{
            "dense.kernel": dense_gradient(rng),
            "dense.bias": rng.standard_normal(200).astype(np.float32),
            "table:values": rng.standard_normal((300, 4)).astype(np.float32),
            "table:indices": rng.integers(0, 5000, 300),
            "table:shape": np.array([5000, 4]),
        },
    )
    return path


@pytest.fixture(scope="module", params=["dense", "rows"])
def sent(request, dump):
    dense, table = read_gradients(dump, ratio=0.05)
    return (dense if request.param == "dense" else table).sent


class TestGradients:
    def test_dense_variables_are_one_vector(self, dump):
        gradient = read_gradients(dump, ratio=0.05)[0]
        with np.load(dump) as file:
            everything = np.concatenate([file["dense.kernel"].ravel(), file["dense.bias"]])
        np.testing.assert_array_equal(gradient.dense, everything)
        assert len(gradient.sent.keys) == round(0.05 * everything.size)
        smallest = np.abs(everything[gradient.sent.keys]).min()
        assert smallest == np.sort(np.abs(everything))[-len(gradient.sent.keys)]

    def test_rows_that_repeat_are_summed(self, dump):
        gradient = read_gradients(dump, ratio=0.05)[1]
        with np.load(dump) as file:
            table = np.zeros(file["table:shape"], np.float64)
            np.add.at(table, file["table:indices"], file["table:values"])
        rows = gradient.sent
        assert gradient.dense is None and rows.num_rows == 5000
        assert len(rows.keys) < 300
        np.testing.assert_array_equal(rows.keys, np.flatnonzero(table.any(axis=1)))
        np.testing.assert_allclose(rows.values, table[rows.keys], rtol=1e-5, atol=1e-6)

    def test_weights_of_a_vector_are_rows_of_one(self, tmp_path):
        path = tmp_path / "linear.npz"
        np.savez(path, **{"w:values": np.ones(3, "f4"), "w:indices": [7, 2, 7], "w:shape": [9]})
        [gradient] = read_gradients(path, ratio=0.01)
        assert gradient.sent.keys.tolist() == [2, 7]
        assert gradient.sent.values.tolist() == [[1], [2]]

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"w:indices": [1], "w:shape": [9]}, "no array 'w:values'"),
            ({"w:values": np.ones(2), "w:indices": [1], "w:shape": [9]}, "1 indices for 2 rows"),
            ({"w:values": np.ones(1), "w:indices": [9], "w:shape": [9]}, r"rows outside \[0, 9\)"),
            ({"w": np.array([1, np.nan])}, "NaN or Inf; expected finite"),
            ({"w": np.zeros(20_000)}, "only gradients that are zero"),
        ],
    )
    def test_bad_dumps_are_named(self, tmp_path, arrays, message):
        np.savez(tmp_path / "bad.npz", **arrays)
        with pytest.raises(ValueError, match=message):
            read_gradients(tmp_path / "bad.npz", ratio=0.01)

    def test_other_files_are_named(self, tmp_path):
        (tmp_path / "notes.npz").write_text("no gradients")
        with pytest.raises(ValueError, match="notes.npz is not an .npz file"):
            read_gradients(tmp_path / "notes.npz", ratio=0.01)
        with pytest.raises(SystemExit, match="--dump-gradients"):
            find_files([tmp_path / "absent.npz"])

    def test_relative_error_counts_keys_lost_and_keys_too_many(self):
        rows = Rows(10, np.array([1, 3], "u4"), np.array([[3], [4]], "f4"))
        other = Rows(10, np.array([3, 5], "u4"), np.array([[4], [4]], "f4"))
        assert relative_error(rows, rows) == 0
        assert relative_error(rows, other) == pytest.approx(1)


class TestAdapters:
    @pytest.mark.parametrize("method", keys.methods(), ids=lambda method: method.name)
    def test_keys(self, method, sent):
        data, decoded = method.encode(sent.keys, sent.num_rows)
        assert isinstance(data, bytes)
        found = method.decode(data, sent.num_rows, len(decoded))
        np.testing.assert_array_equal(found, decoded)
        if method.name in ("rbloom", "bloom:policy=p0"):
            assert set(sent.keys.tolist()) <= set(found.tolist())
        elif method.name != "bloom:policy=p2":
            np.testing.assert_array_equal(found, sent.keys)

    @pytest.mark.parametrize(
        "method", [m for m in values.methods() if m.package != peers.OURS], ids=lambda method: method.name
    )
    def test_values(self, method, sent):
        given = sent.values.ravel()
        found = method.decode(method.encode(given), len(given))
        if method.name not in LOSSY_VALUES:
            np.testing.assert_array_equal(found, given)
        elif method.name.startswith("float16"):
            np.testing.assert_allclose(found, given, rtol=2**-11, atol=1e-7)
        else:
            assert len(np.unique(found)) <= values.BUCKETS
            assert (
                relative_error(sent, Rows(sent.num_rows, sent.keys, found.reshape(sent.values.shape))) < 0.2
            )

    @pytest.mark.parametrize("method", pairs.methods(), ids=lambda method: method.name)
    def test_pairs(self, method, sent):
        found = method.decode(method.encode(sent), sent)
        error = relative_error(sent, found)
        if method.name == "bloom:policy=p2|raw":
            assert error < 0.5  # Exact where the filter has no false positives.
        elif method.name in pairs.LOSSY or method.name.endswith(tuple(LOSSY_VALUES)):
            assert 0 < error < 5
        else:
            assert error == 0

    def test_messages_are_the_sums_of_their_parts(self, sent):
        pytest.importorskip("pyroaring")
        of_keys = {m.name: len(m.encode(sent.keys, sent.num_rows)[0]) for m in keys.methods()}
        of_values = {m.name: len(m.encode(sent.values.ravel())) for m in values.methods()}
        whole = {m.name: len(m.encode(sent)) for m in pairs.methods()}
        # A Bloom filter sends more values than these.
        peers_parts = [parts for parts in pairs.PEERS if parts[0] in of_keys and parts[0] != "rbloom"]
        assert peers_parts
        for first, second in peers_parts:
            assert whole[f"{first} + {second}"] == 8 + of_keys[first] + of_values[second]
        around = {
            whole[spec] - of_keys[first] - of_values[second]
            for spec in (*pairs.EXACT, *pairs.LOSSY)
            for first, _, second in [spec.partition("|")]
            if first in of_keys and second in of_values and not first.startswith("bloom")
        }
        # Header, width and checksum; some lengths in the header are of one byte more for longer parts.
        assert len(around) > 0 and 0 < min(around) <= max(around) < 64

    def test_selections_agree(self, dump):
        dense = read_gradients(dump, ratio=0.05)[0].dense
        k = round(0.05 * dense.size)
        chosen = [method.prepare(dense, k)() for method in selection.methods()]
        assert len(chosen) >= 2
        for other in chosen[1:]:
            np.testing.assert_array_equal(other, chosen[0])

    @pytest.mark.parametrize("method", quantiles.methods(), ids=lambda method: method.name)
    def test_split_points_are_near_their_ranks(self, method):
        magnitudes = np.abs(np.random.default_rng(1).standard_t(3, 50_000).astype(np.float32))
        splits = method.splits(magnitudes)
        assert (np.diff(splits) > 0).all() and len(splits) > 100
        # KLL of k = 200 promises 1.3 % for a rank, with 99 %.
        assert quantiles.rank_error(magnitudes, splits) < 0.03

    def test_rank_error(self):
        values = np.repeat(np.arange(256, dtype=np.float32), 4)
        assert quantiles.rank_error(values, np.arange(1, 256)) == 0
        assert quantiles.rank_error(values, np.arange(1, 128)) == pytest.approx(0.5, abs=0.01)


def test_missing_peers_are_left_out(monkeypatch, sent):
    monkeypatch.setattr(peers, "missing", lambda: list(peers.PACKAGES))
    for module in (keys, values, pairs, selection, quantiles):
        packages = {method.package for method in module.methods()}
        assert peers.OURS in packages
        assert packages <= {peers.OURS, "numpy", "zlib"}


def test_quick_run(dump, tmp_path):
    script = ROOT / "benchmarks" / "codecs.py"
    command = [sys.executable, str(script), "--quick", "--gradients", str(dump), "--output", str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "Whole messages" in done.stdout
    for name in ("codecs_bytes", "codecs_keys"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000
    results = json.loads((tmp_path / "results" / "codecs.json").read_text())
    assert [gradient["kind"] for gradient in results["gradients"]] == ["dense", "rows"]
    for row in results["pairs"]:
        if "raw pairs" not in row["method"]:
            continue
        k, width = row["k"], 1 if "rows" not in row["gradient"] else 4
        assert row["raw_bytes"] == 4 * k * (1 + width)
    for row in results["keys"]:
        assert row["bits"] == 8 * row["bytes"] / row["k"]
        # These supports are at random: no exact code is shorter than the limit, but for luck.
        if row["keys_decoded"] == row["k"] and row["keys_lost"] == 0:
            assert row["bits"] > 0.97 * row["limit_bits"]
    sections = {name for name, rows in results.items() if isinstance(rows, list) and rows}
    assert {"keys", "values", "dense values", "pairs", "selection", "quantiles", "memcpy"} <= sections


def test_committed_gradients_are_small():
    files = find_files([ROOT / "benchmarks" / "gradients"])
    assert sum(file.stat().st_size for file in files) <= 5_000_000
    for file in files:
        for gradient in read_gradients(file, ratio=0.01):
            assert gradient.sent.values.any()


class TestStaticModel:
    """What the native codec's indices are compared with."""

    @staticmethod
    def drawn(chances: np.ndarray) -> tuple[np.ndarray, float]:
        """A support, and its information by the chances that it was drawn with."""
        support = np.random.default_rng(3).random(chances.shape) < chances
        return support, float(-np.log2(np.where(support, chances, 1 - chances)).sum())

    def test_random_supports_take_their_information(self):
        support, _ = self.drawn(np.full((300, 200), 0.02))
        limit = native_codec.set_bits(support.size, int(support.sum()))
        assert 0.97 * limit < native_codec.static_bits(support) < 1.25 * limit

    def test_rows_and_columns_are_found(self):
        rng = np.random.default_rng(4)
        odds = 0.01 * np.outer(rng.lognormal(0, 1.5, 300), rng.lognormal(0, 1.5, 200))
        support, information = self.drawn(odds / (1 + odds))
        found = native_codec.static_bits(support)
        assert information * 0.95 < found < 0.85 * native_codec.set_bits(support.size, int(support.sum()))

    def test_counts_of_rows_that_are_known_cost_nothing_more(self):
        rng = np.random.default_rng(5)
        support, _ = self.drawn(0.1 + 0.5 * rng.random((6, 5)))
        odds = native_codec.static_odds(support)
        expected = native_codec.counts_bits(support.sum(1)) + native_codec.counts_bits(support.sum(0))
        for row, chosen in zip(odds, support, strict=True):
            every = sum(np.prod(each) for each in itertools.combinations(row, int(chosen.sum())))
            expected += np.log2(every / np.prod(row[chosen]))
        assert native_codec.hazard_bits(support) == pytest.approx(expected)
        assert expected < native_codec.static_bits(support)


class TestCodecChoice:
    def test_the_picture_has_all_codecs(self):
        parts = {part for specs in codec_choice.LINES.values() for spec in specs for part in spec.split("|")}
        every = (*tfc.index_codecs(), *tfc.value_codecs(), *tfc.joint_codecs())
        assert {entry.name for entry in every} <= {part.split(":")[0] for part in parts}

    def test_exact_codecs_end_the_front(self):
        gradients = [{"w": np.random.default_rng(0).standard_normal((50, 40)).astype(np.float32)}]
        specs = ("rowcol|ecsq:snr=20", "raw|ecsq:snr=20", "raw|raw", "rowcol|lossless")
        points = [codec_choice.measure(gradients, codecs, 0.1) for codecs in specs]
        assert [point["snr"] is None for point in points] == [False, False, True, True]
        assert points[0]["snr"] == points[1]["snr"] == pytest.approx(20, abs=1)
        found = [point["codecs"] for point in codec_choice.front(points)]
        assert found == ["rowcol|ecsq:snr=20", "rowcol|lossless"]


class TestNativeCodec:
    def test_a_gradient_is_measured_by_variable_and_as_a_whole(self, dump):
        row = native_codec.measure(dump, 0.05)
        assert row["k"] == 1000 and row["whole"]["n"] == 20_200 and row["whole"]["k"] == 1010
        for indices in (row["indices"], row["whole"]["indices"]):
            # Nothing is to be learnt of elements at random.
            assert indices["limit"] < indices["rowcol"] < 1.03 * indices["limit"]
            assert indices["hazard"] < indices["static"]
        assert row["largest of others"]["variable"] == row["largest of others"]["flat"] < 1
        for name, has_rowcol in (("smallest of rowcol", True), ("smallest other", False)):
            assert row["frame"] < row[name]["bits"]
            assert row[name]["method"].startswith("rowcol|") == has_rowcol
        assert row["centers"]["dB"] >= 0 < row["centers"]["bits"]

    def test_a_center_of_each_level_is_the_mean_of_its_magnitudes(self):
        values, decoded = np.array([1, -2, 5, -6, 0.25], "f4"), np.array([1, -1, 5, -5, 0], "f4")
        assert native_codec.with_centers(values, decoded) == (3, 4 * 0.5**2 + 0.25**2)

    def test_rows_of_other_gradients_stay(self, tmp_path):
        path = tmp_path / "native_codec.json"
        earlier = {"ratio": 0.01, "rows": [{"gradient": "a", "k": 1}, {"gradient": "c", "k": 1}]}
        new = {"ratio": 0.01, "rows": [{"gradient": "c", "k": 2}, {"gradient": "b", "k": 2}]}
        assert [row["gradient"] for row in native_codec.with_earlier(new, path)["rows"]] == ["b", "c"]
        path.write_text(json.dumps(earlier))
        found = native_codec.with_earlier(new, path)["rows"]
        assert [(row["gradient"], row["k"]) for row in found] == [("a", 1), ("b", 2), ("c", 2)]
        other = native_codec.with_earlier({**new, "ratio": 0.1}, path)["rows"]
        assert [row["gradient"] for row in other] == ["b", "c"]
