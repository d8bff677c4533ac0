"""`tfcompress`: what it prints is what NumPy and the package say of the same data."""

import inspect
import json
import math
import pathlib
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

import tfcompress as tfc
from tfcompress import cli
from tfcompress.cli import bench, planning
from tfcompress.measure import best_seconds, entropy_bits

ROOT = pathlib.Path(__file__).parents[2]
EXACT = "topk:ratio=0.1|delta_binary|raw"


@pytest.fixture
def gradient() -> np.ndarray:
    """Heavy-tailed, a tenth of it zeros."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal(5000, np.float32) ** 3
    values[rng.choice(5000, 500, replace=False)] = 0
    return values


@pytest.fixture
def npy(gradient, tmp_path) -> pathlib.Path:
    np.save(tmp_path / "gradient.npy", gradient)
    return tmp_path / "gradient.npy"


@pytest.fixture
def output(capsys, monkeypatch):
    """Runs a command line in this process; returns what it wrote to stdout and to stderr."""

    def run(*arguments: object) -> tuple[str, str]:
        monkeypatch.delenv("COLUMNS", raising=False)  # Set where tests are distributed.
        cli.main([str(argument) for argument in arguments])
        return capsys.readouterr()

    return run


@pytest.fixture
def result(output):
    """Runs a command line with --json; returns what it wrote to stdout."""
    return lambda *arguments: json.loads(output(*arguments, "--json")[0])


def run_without(*modules: str, arguments: list) -> subprocess.CompletedProcess:
    """Runs `python -m tfcompress` where some modules are not installed."""
    blocked = "".join(f"sys.modules[{module!r}] = None; " for module in modules)
    program = f"import runpy, sys; {blocked}runpy.run_module('tfcompress', run_name='__main__')"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def relative_error(values: np.ndarray, decoded: np.ndarray) -> float:
    values = values.astype(np.float64)
    return float(np.linalg.norm(decoded.reshape(-1) - values.reshape(-1)) / np.linalg.norm(values))


class TestList:
    def test_json_has_the_registry_and_the_presets(self, result):
        listed = result("list")
        codecs = [f"{kind}_codecs" for kind in ("index", "value", "joint", "linear")]
        for kind in ("sparsifiers", *codecs, "memories"):
            for row, entry in zip(listed[kind], getattr(tfc, kind)(), strict=True):
                defaults = {parameter["name"]: parameter["default"] for parameter in row["parameters"]}
                expected = {parameter.name: parameter.default for parameter in entry.parameters}
                assert (row["name"], defaults) == (entry.name, expected)
        found = {preset["name"]: preset for preset in listed["presets"]}
        assert found["dgc"]["spec"] == tfc.Compression.dgc().spec
        assert found["dgc"]["arguments"]["momentum"] is None
        assert found["fp16"]["transport"] == "all-reduce"

    def test_tables_name_everything(self, output):
        text, _ = output("list")
        for entry in [*tfc.index_codecs(), *tfc.memories()]:
            assert re.search(rf"^ +{entry.name} ", text, re.MULTILINE)
        assert "fpr=0.001  [1e-09, 0.999]" in text
        assert tfc.Compression.topk().spec in text

    def test_presets_are_listed_with_what_is_their_own(self, result):
        found = {preset["name"]: preset["arguments"] for preset in result("list")["presets"]}
        assert found["zipml"] == {"bits": 16}
        assert found["sketched_sgd"]["exclude"] == ["bias"]

    def test_presets_take_what_is_said_of_most(self, output):
        told = " ".join(output("list")[0].split())
        common = re.search(r"most functions also take (.*); those whose payloads are summed, (\w+)", told)
        assert set(common[1].split(", ")) <= set(inspect.signature(tfc.Compression.int8).parameters)
        assert common[2] in inspect.signature(tfc.Compression.shared_randomk).parameters

    def test_nothing_is_missing_without_tensorflow(self):
        done = run_without("tensorflow", "horovod", arguments=["list", "--json"])
        assert (done.returncode, done.stderr) == (0, "")
        listed = json.loads(done.stdout)
        assert {"topk", "none", "fastsgd"} <= {preset["name"] for preset in listed["presets"]}
        assert len(listed["index_codecs"]) == len(tfc.index_codecs())


class TestInspectFrames:
    def test_sizes_are_those_of_the_sections(self, gradient, result, tmp_path):
        frames = [tfc.encode(gradient, EXACT), tfc.encode(gradient.astype(np.float16), "nonzero|sketchml")]
        (tmp_path / "frames").write_bytes(b"".join(frames))
        found = result("inspect", tmp_path / "frames")
        assert found["num_bytes"] == sum(map(len, frames))
        product, joint = found["frames"]
        assert tfc.inspect(frames[0])[0].items() <= product.items()
        assert product["bits_per_index"] == 8 * product["index_bytes"] / 500
        assert product["bits_per_value"] == 32
        assert product["bits_per_element"] == product["bits_per_index"] + 32
        assert product["entropy_limit_bits"] == pytest.approx(math.log2(math.comb(5000, 500)) / 500)
        assert product["ratio"] == pytest.approx(20_000 / len(frames[0]))
        assert (joint["bits_per_index"], joint["bits_per_value"]) == (None, None)
        assert joint["bits_per_element"] == 8 * joint["value_bytes"] / joint["k"]
        assert joint["ratio"] == pytest.approx(10_000 / len(frames[1]))

    def test_rows_of_a_table(self, result, tmp_path):
        rows, spec = np.ones(12, np.float32), "dense|raw|fp16"
        frame = tfc.codecs.encode_rows(rows, "float32", np.array([1, 5, 7]), 10, 4, spec)
        (tmp_path / "rows").write_bytes(frame)
        [found] = result("inspect", tmp_path / "rows")["frames"]
        assert (found["dense_bytes"], found["bits_per_value"]) == (10 * 4 * 4, 16)
        assert found["entropy_limit_bits"] == pytest.approx(math.log2(120) / 3)

    @pytest.mark.parametrize("value", [0, np.nan])
    def test_frames_without_elements(self, value, result, output, tmp_path):
        (tmp_path / "frame").write_bytes(tfc.encode(np.full(100, value, np.float32), "nonzero|raw|raw"))
        [found] = result("inspect", tmp_path / "frame")["frames"]
        assert (found["k"], found["bits_per_element"], found["entropy_limit_bits"]) == (0, None, None)
        assert ("NaN everywhere" in output("inspect", tmp_path / "frame")[0]) == bool(np.isnan(value))

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda frame: frame[:-1], "truncated"),
            (lambda frame: frame[:99] + bytes([frame[99] ^ 1]) + frame[100:], "frame 0: damaged"),
            (lambda frame: b"not a frame" * 10, "magic"),
            (lambda frame: b"", "no frame"),
        ],
    )
    def test_damaged_files_are_errors_not_tracebacks(self, damage, message, gradient, tmp_path):
        path = tmp_path / "damaged"
        path.write_bytes(damage(tfc.encode(gradient, EXACT)))
        done = run_without(arguments=["inspect", path])
        assert (done.returncode, done.stdout) == (1, "")
        assert message in done.stderr and str(path) in done.stderr and "Traceback" not in done.stderr
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1

    @pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
    def test_plot_draws_what_is_decoded(self, dtype, gradient, output, tmp_path, monkeypatch):
        from tfcompress.cli import figures

        drawn = {}
        monkeypatch.setattr(figures, "save_magnitudes", lambda magnitudes, path: drawn.update(magnitudes))
        array = gradient.astype(pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype)
        (tmp_path / "frame").write_bytes(tfc.encode(array, {"float32": "dense|raw|raw"}.get(dtype, EXACT)))
        output("inspect", tmp_path / "frame", "--plot", tmp_path / "figure.png")
        expected = np.abs(tfc.decode((tmp_path / "frame").read_bytes()).astype(np.float32))
        np.testing.assert_array_equal(drawn["frame 0"], expected)


class TestInspectArrays:
    def test_numbers_are_numpys(self, gradient, npy, result):
        [found] = result("inspect", npy)["arrays"]
        magnitudes = np.sort(np.abs(gradient.astype(np.float64)))
        assert (found["n"], found["zeros"], found["zero_share"]) == (5000, 500, 0.1)
        assert found["norm"] == pytest.approx(np.linalg.norm(magnitudes))
        for q, value in found["magnitude_quantiles"].items():
            assert value == np.quantile(magnitudes, float(q), method="inverted_cdf")
        for top, k in zip(found["top"], (5, 50, 500), strict=True):
            kept = tfc.decode(tfc.encode(gradient, f"topk:ratio={top['ratio']}|raw|raw"))
            assert top["k"] == k == np.count_nonzero(kept)
            assert top["squared_norm_share"] == pytest.approx(1 - relative_error(gradient, kept) ** 2)
        assert found["support_entropy_limit_bits"] == pytest.approx(math.log2(math.comb(5000, 500)) / 4500)

    def test_what_is_no_gradient_is_told(self, gradient, output, tmp_path):
        arrays = {
            "wide": gradient.astype(np.float64),
            "table:values": gradient[:20].reshape(5, 4),
            "table:indices": np.arange(5),
            "table:shape": np.array([9, 4]),
            "empty": np.zeros(0, np.float32),
            "names": np.array(["a"]),
            "[bold]:key:": np.array([np.nan, np.inf, -np.inf, 0.0], np.float32),
            "zeros": np.zeros((2, 3), np.float32),
        }
        np.savez(tmp_path / "dump.npz", **arrays)
        text, notes = output("inspect", tmp_path / "dump.npz", "--json")
        found = {array["name"]: array for array in json.loads(text)["arrays"]}
        assert list(found) == ["wide", "table:values", "[bold]:key:", "zeros"]
        assert found["table:values"]["shape"] == [5, 4]
        special = found["[bold]:key:"]
        assert (special["nan"], special["inf"], special["zeros"], special["n"]) == (1, 2, 1, 4)
        assert found["zeros"]["top"][0]["squared_norm_share"] is None
        for said in ("float64 to float32: wide", "rows of a table", "elements: empty", "numbers: names"):
            assert said in notes
        assert "[bold]:key:" in output("inspect", tmp_path / "dump.npz")[0]

    @pytest.mark.parametrize("name", ["cut.npy", "cut.npz", "pickled.npy", "words.npy", "nothing", "."])
    def test_files_without_arrays_are_errors(self, name, gradient, npy, tmp_path):
        np.savez(tmp_path / "whole.npz", gradient)
        (tmp_path / "cut.npy").write_bytes(npy.read_bytes()[:1000])
        (tmp_path / "cut.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:1000])
        np.save(tmp_path / "pickled.npy", np.array([{}], object), allow_pickle=True)
        np.save(tmp_path / "words.npy", np.array(["a"]))
        for command in ("inspect", "bench"):
            with pytest.raises(SystemExit, match=re.escape(str(tmp_path / name))):
                cli.main([command, str(tmp_path / name)])


class TestBench:
    @pytest.mark.parametrize(
        "spec",
        [EXACT, "residual|topk:ratio=0.1|bloom:policy=p1|quantile", "nonzero|skcompress", "dense|raw|qsgd"],
    )
    def test_bytes_and_errors_are_those_of_encode_and_decode(self, spec, gradient, npy, result):
        [found] = result("bench", npy, spec, "--repeat", 2, "--seed", 7)["results"]
        frame = tfc.encode(gradient, spec, seed=7)
        [described] = tfc.inspect(frame)
        numbers = found["total"]
        assert (numbers["num_bytes"], numbers["k"]) == (len(frame), described["k"])
        assert numbers["ratio"] == pytest.approx(20_000 / len(frame))
        assert numbers["relative_error"] == pytest.approx(relative_error(gradient, tfc.decode(frame)))
        if described["index"]:
            assert numbers["bits_per_index"] == 8 * described["index_bytes"] / described["k"]
            assert numbers["entropy_limit_bits"] == entropy_bits(5000, described["k"])
        else:
            assert numbers["bits_per_index"] is None
        sections = described["index_bytes"] + described["value_bytes"]
        assert numbers["bits_per_element"] == pytest.approx(8 * sections / described["k"])
        assert numbers["encode_memcpys"] == pytest.approx(numbers["encode_ms"] / numbers["memcpy_ms"])

    def test_several_arrays_are_several_frames(self, gradient, result, output, tmp_path):
        arrays = {"a": gradient[:4000].reshape(40, 100), "b": gradient[4000:], "bad": np.array([np.nan])}
        np.savez(tmp_path / "dump.npz", **arrays)
        found = result("bench", tmp_path / "dump.npz", EXACT, "nonzero|raw|raw")
        assert any("NaN or Inf" in note and note.endswith("bad") for note in found["notes"])
        exact = found["results"][1]
        assert (exact["total"]["relative_error"], exact["total"]["bits_per_index"]) == (0, 32)
        frames = {name: tfc.encode(arrays[name], EXACT) for name in ("a", "b")}
        topk = found["results"][0]
        assert {array["name"]: array["num_bytes"] for array in topk["arrays"]} == {
            name: len(frame) for name, frame in frames.items()
        }
        assert topk["total"]["num_bytes"] == sum(map(len, frames.values()))
        decoded = np.concatenate([tfc.decode(frame) for frame in frames.values()])
        assert topk["total"]["relative_error"] == pytest.approx(relative_error(gradient, decoded))
        text, _ = output("bench", tmp_path / "dump.npz", "--per-array", EXACT)
        assert re.search(rf"^ +b +{len(frames['b'])} ", text, re.MULTILINE)

    def test_linear_payloads_are_sums_over_all_arrays(self, gradient, result, tmp_path):
        np.savez(tmp_path / "dump.npz", a=gradient[:4000], b=gradient[4000:])
        # So large a table that its estimates put the largest elements among the candidates.
        sketch = "momentum|count_sketch:rows=5,columns=4000,k=50,candidates=4"
        found = result("bench", tmp_path / "dump.npz", "shared_randomk:ratio=0.1", sketch)
        random, sketched = (row["total"] for row in found["results"])
        assert all(row["summed"] for row in found["results"])
        assert (random["num_bytes"], random["k"], random["bits_per_index"]) == (4 * 500, 500, None)
        assert 0 < random["relative_error"] < 1
        assert (sketched["num_bytes"], sketched["k"]) == (4 * (5 * 4000 + 4 * 50), 50)
        top = tfc.decode(tfc.encode(gradient, "topk:ratio=0.01|raw|raw"))
        assert sketched["relative_error"] == pytest.approx(relative_error(gradient, top))
        [note] = found["notes"]
        assert "not smaller than the arrays" in note and "momentum|count_sketch" in note

    def test_front_is_what_no_other_spec_beats(self, npy, result, output):
        specs = ["dense|raw|raw", "dense|raw|block_int:bits=8", "topk:ratio=0.1|raw|raw", EXACT]
        found = result("bench", npy, *specs, "--repeat", 1)["results"]
        assert [row["on_front"] for row in found] == [True, True, False, True]
        text, _ = output("bench", npy, *specs, "--repeat", 1)
        marked = [line for line in text.splitlines() if line.lstrip().startswith("* ")]
        assert [line.split()[1] for line in marked] == [specs[i] for i in (0, 1, 3)]

    def test_presets_are_their_specs(self, npy, result):
        named, preset, spec = result("bench", npy, "dgc", "topk(0.1)", EXACT)["results"]
        assert (named["name"], named["spec"]) == ("dgc", tfc.Compression.dgc().spec)
        assert preset["spec"] == tfc.Compression.topk(0.1).spec
        assert preset["total"]["num_bytes"] == spec["total"]["num_bytes"]

    def test_specs_and_presets_need_no_tensorflow(self, npy):
        done = run_without(
            "tensorflow", "horovod", "keras", arguments=["bench", npy, "--json", "--repeat", 1]
        )
        assert done.returncode == 0, done.stderr
        names = [row["name"] for row in json.loads(done.stdout)["results"]]
        assert names == list(bench.DEFAULT_SPECS)
        done = run_without("tensorflow", arguments=["bench", npy, "topk", "--json", "--repeat", 1])
        assert [row["spec"] for row in json.loads(done.stdout)["results"]] == [tfc.Compression.topk().spec]

    def test_table_and_options_between_file_and_specs(self, npy, output):
        text, _ = output("bench", npy, "--repeat", 1, EXACT, "dense|raw|raw", "--threads", 0)
        row = next(line for line in text.splitlines() if EXACT in line)
        assert f" {len(tfc.encode(np.load(npy), EXACT)):,} " in row
        assert "exact" in next(line for line in text.splitlines() if "dense|raw|raw" in line)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["topk|raw|x"], "unknown value codec 'x'; known: raw"),
            (["topq"], "unknown preset 'topq'; known: none"),
            (["count_sketch:rows=2"], "odd"),
            ([EXACT, "--plot", "figure.nonsense"], "ending must be one of"),
            ([EXACT, "--plot", "/no/such/folder/figure.png"], "no folder"),
        ],
    )
    def test_bad_arguments(self, arguments, message, npy):
        with pytest.raises(SystemExit, match=message):
            cli.main(["bench", str(npy), *arguments])

    def test_no_finite_array(self, tmp_path):
        np.save(tmp_path / "nan.npy", np.array([np.nan, 1]))
        with pytest.raises(SystemExit, match="NaN or Inf"):
            cli.main(["bench", str(tmp_path / "nan.npy"), EXACT])


class TestPlan:
    @pytest.fixture
    def npz(self, gradient, tmp_path) -> pathlib.Path:
        """A matrix and a small vector."""
        np.savez(tmp_path / "step.npz", kernel=gradient[:4900].reshape(70, 70), bias=gradient[4900:])
        return tmp_path / "step.npz"

    def plan(self, run, path, *arguments, ranks=2, bandwidth="100mbit"):
        return run("plan", path, "--ranks", ranks, "--bandwidth", bandwidth, "--repeat", 1, *arguments)

    def test_bytes_are_those_of_frames_and_of_the_collectives(self, gradient, npz, result):
        found = self.plan(result, npz, "--preset", "shared_randomk(0.1)", "terngrad", ranks=4)
        rows = {row["name"]: row for row in found["results"]}
        assert set(rows) == {*planning.DENSE, *planning.SPARSE, "shared_randomk(0.1)", "terngrad"}
        kernel, bias = gradient[:4900].reshape(70, 70), gradient[4900:]
        exact = len(tfc.encode(bias, "dense|raw|raw"))

        def bytes_of(name):
            return rows[name]["payload_bytes"], rows[name]["wire_bytes"]

        assert bytes_of("none") == (20_000, 60_000) and bytes_of("fp16") == (10_000, 30_000)
        gathered = len(tfc.encode(kernel, tfc.Compression.terngrad().spec)) + exact
        assert bytes_of("terngrad") == (gathered, 6 * gathered)
        # By shards: three quarters to the owners, and a quarter to all.
        sharded = len(tfc.encode(kernel, "dense|raw|bf16")) + exact
        assert bytes_of("bf16") == (sharded, 3 * sharded)
        summed = 4 * round(0.1 * kernel.size)
        assert rows["shared_randomk(0.1)"]["payload_bytes"] == summed + exact

    def test_all_are_every_preset_but_auto(self, npz, result):
        found = self.plan(result, npz, "--preset", "all", EXACT)["results"]
        presets = {name for name in dir(tfc.Compression) if not name.startswith("_")}
        assert sorted(row["name"] for row in found) == sorted({*presets, EXACT} - {"auto"})

    def test_steps_are_computing_and_the_exchange(self, npz, result):
        for row in self.plan(result, npz, "--compute-ms", 7.5)["results"]:
            parts = [row[f"{part}_ms"] for part in ("encode", "decode", "communication")]
            assert row["step_ms"] == pytest.approx(7.5 + sum(parts))
        [none] = [row for row in self.plan(result, npz, ranks=16)["results"] if row["name"] == "none"]
        assert none["step_ms"] == none["communication_ms"] and none["speedup"] == 1

    def test_the_bandwidth_limits(self, npz, result):
        """Both ways of 20 kB round a ring of two, headers included; latency comes on top."""
        slow, fast = (
            {
                row["name"]: row["communication_ms"]
                for row in self.plan(result, npz, bandwidth=each)["results"]
            }
            for each in ("1mbit", "unlimited")
        )
        assert slow["none"] - fast["none"] == pytest.approx(160 / 0.94, rel=0.05)
        late = self.plan(result, npz, "--latency", "50ms", bandwidth="unlimited")["results"]
        [none] = [row for row in late if row["name"] == "none"]
        assert none["communication_ms"] - fast["none"] == pytest.approx(4 * 50, rel=0.05)

    def test_table_says_what_is_predicted(self, npz, output):
        text, _ = self.plan(output, npz, bandwidth="1mbit")
        lines = text.splitlines()
        order = [line.split()[0] for line in lines if re.match(rf" ({'|'.join(planning.DENSE)}) ", line)]
        assert sorted(order) == sorted(planning.DENSE) and (order[0], order[-1]) == ("int4", "none")
        assert "the exchange alone" in text and "Take int4: steps" in text
        assert "100 ms of computing" in self.plan(output, npz, "--compute-ms", 100)[0]

    def test_no_tensorflow_is_needed(self, npz):
        arguments = ["plan", npz, "--ranks", 8, "--bandwidth", "1gbit", "--json", "--repeat", 1]
        done = run_without("tensorflow", "horovod", "keras", arguments=arguments)
        assert done.returncode == 0, done.stderr
        assert len(json.loads(done.stdout)["results"]) == len(planning.DENSE) + len(planning.SPARSE)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--preset", "topq"], "unknown preset 'topq'"),
            (["--preset", "auto"], "several presets"),
            (["--plot", "figure.nonsense"], "ending must be one of"),
        ],
    )
    def test_bad_arguments(self, arguments, message, npz, output):
        with pytest.raises(SystemExit, match=message):
            self.plan(output, npz, *arguments)

    @pytest.mark.parametrize("given", [["--ranks", 2], ["--bandwidth", "1gbit"]])
    def test_a_job_is_described_whole(self, given, npz, output):
        with pytest.raises(SystemExit, match="give both or, in a job, neither"):
            output("plan", npz, *given)

    def test_without_a_job_one_has_to_be_described(self, npz):
        done = run_without("tensorflow", arguments=["plan", npz])
        assert done.returncode == 1 and "give --ranks and --bandwidth: there is no job" in done.stderr

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            ("--ranks=1", "at least 2"),
            ("--bandwidth=fast", "100mbit, 2.5gbit or unlimited"),
            ("--bandwidth=0mbit", "100mbit"),
            ("--latency=1", "100us or 1.5ms"),
            ("--compute-ms=-1", "at least 0"),
        ],
    )
    def test_numbers_are_checked(self, option, message, capsys):
        with pytest.raises(SystemExit):
            cli.parse(["plan", "FILE", "--ranks=2", "--bandwidth=1gbit", option])
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("times", "recommended", "said"),
    [
        ({"int8": 2.0, "int4": 1.0}, "int4", "10.00 times as fast as with none. sparse is 2.00"),
        ({"int8": 1.02, "int4": 1.0}, "int8", "steps 9.80 times"),
        ({"none": 0.4, "int4": 0.5}, "none", "Take none: no preset"),
    ],
)
def test_of_presets_that_are_as_fast_the_most_exact_is_recommended(times, recommended, said):
    seconds = {"none": 10.0, "fp16": 5.0, "bf16": 5.0, "int8": 3.0, "sparse": 0.5, "topk": 0.1, **times}
    advice = planning.recommend(seconds)
    assert advice["recommended"] == recommended and said in advice["recommendation"]
    assert ("sparse is" in advice["recommendation"]) == (recommended != "none")


PLOTTED = [["inspect"], ["bench", EXACT, "dense|raw|raw"], ["plan", "--ranks=2", "--bandwidth=1gbit"]]


@pytest.mark.parametrize("command", PLOTTED, ids=lambda command: command[0])
def test_plots_are_written(command, npy, output, tmp_path):
    name, *arguments = command
    output(name, npy, *arguments, "--plot", tmp_path / "figure.png")
    figure = (tmp_path / "figure.png").read_bytes()
    assert figure.startswith(b"\x89PNG") and len(figure) > 10_000


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [("rich", ["list"]), ("matplotlib", ["inspect", "FILE", "--plot", "figure.png"])],
)
def test_missing_extras_are_named(missing, arguments, npy):
    done = run_without(missing, arguments=[npy if each == "FILE" else each for each in arguments])
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'tfcompress[cli]'" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(("setting", "begin"), [("NO_COLOR", "error: "), ("FORCE_COLOR", "\x1b[1;31merror:")])
def test_an_error_is_one_line_that_can_be_copied(setting, begin, npy, monkeypatch, capsys):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(setting, "1")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    spec = f"topk:ratio=0.1|{'x' * 60}|raw"
    monkeypatch.setattr(sys, "argv", ["tfcompress", "bench", str(npy), spec])
    with pytest.raises(SystemExit) as ended:
        cli.run_program()
    output = capsys.readouterr()
    assert (ended.value.code, output.out) == (1, "")
    assert output.err.startswith(begin) and output.err.count("\n") == 1 and "x" * 60 in output.err


@pytest.mark.parametrize("command", [[], ["list"], ["inspect"], ["bench"], ["plan"], ["doctor"]])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([*command, "--help"])
    assert ended.value.code in (0, None)
    text = capsys.readouterr().out
    assert text.startswith("usage: tfcompress") and ("--json" in text) == bool(command)


@pytest.mark.parametrize("number", ["0", "-1", "x"])
def test_counts_are_checked(number, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.parse(["bench", "FILE", f"--repeat={number}"])
    assert ended.value.code == 2 and "at least 1" in capsys.readouterr().err


def test_readme_commands_parse():
    commands = re.findall(r"^tfcompress (.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert {command.split()[0] for command in commands} == {"list", "inspect", "bench", "plan", "doctor"}
    for command in commands:
        parsed = cli.parse(shlex.split(command))
        for spec in getattr(parsed, "specs", ()):
            assert bench.spec_of(spec)


def test_best_seconds_prepares_every_run():
    calls = []
    assert best_seconds(lambda: calls.append("run"), repeats=3, prepare=lambda: calls.append("prepare")) >= 0
    assert calls == ["prepare", "run"] * 3
