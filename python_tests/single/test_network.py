"""What benchmarks/network.py makes of counters and runs, without a network."""

import itertools
import json
import pathlib
import shlex

import numpy as np
import pytest

pytest.importorskip("horovod", reason="ranks are started by Horovod's own rendezvous")
import changing_link
import fill_tables
import gradient_sizes
import hierarchical
import namespace_job
import netns
import network
import network_jobs
import network_plots
import network_summary
import overlap
import rendezvous
import wire

import tfcompress as tfc

TWO_EXCHANGES = {"one level": 30.0, "two levels": 20.0}


@pytest.mark.parametrize(
    "text, bits_per_second",
    [("100mbit", 10**8), ("2.5gbit", 2_500_000_000), (" 1GBIT ", 10**9), ("unlimited", None)],
)
def test_bandwidths_are_read(text, bits_per_second):
    assert netns.Bandwidth.parse(text).bits_per_second == bits_per_second


@pytest.mark.parametrize("text", ["", "100", "fast", "0mbit", "-1gbit", "10 gbit/s"])
def test_other_bandwidths_are_errors(text):
    with pytest.raises(ValueError, match="expected a bandwidth such as"):
        netns.Bandwidth.parse(text)


def test_a_burst_is_short_but_holds_packets():
    assert netns.Bandwidth.parse("10gbit").burst_bytes * 8 == pytest.approx(10**10 * 250e-6)
    assert netns.Bandwidth.parse("1mbit").burst_bytes >= 1514


def test_hosts_have_addresses_of_their_own():
    with pytest.raises(ValueError, match="at most 253 hosts"), netns.network(254, netns.Bandwidth("", None)):
        pass


def test_users_without_root_are_told(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "sudo" in netns.obstacle()


def test_a_machine_without_iproute2_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(netns, "_TOOL_FOLDERS", ())
    assert "install iproute2" in netns.obstacle()


def test_each_rank_is_alone_on_its_host():
    slots = rendezvous.assignments(3)
    assert [(slot.rank, slot.local_size, slot.cross_size) for slot in slots] == [(r, 1, 3) for r in range(3)]
    assert len({slot.hostname for slot in slots}) == 3


def test_ranks_of_a_host_have_consecutive_numbers():
    slots = rendezvous.assignments(2, 2)
    places = [(slot.rank, slot.hostname, slot.local_rank, slot.cross_rank) for slot in slots]
    assert places == [(0, "host0", 0, 0), (1, "host0", 1, 0), (2, "host1", 0, 1), (3, "host1", 1, 1)]


def test_one_level_and_two_are_shown_side_by_side():
    calls = {f"int8: {each}": {"ms": ms, "sent_bytes": 1000 * ms} for each, ms in TWO_EXCHANGES.items()}
    rows = hierarchical.rows_of({"1gbit": {"static": {"steps": {"1024": calls}}}})
    [row] = rows
    assert (row["link"], row["elements"], row["compression"], row["faster"]) == ("1gbit", 1024, "int8", 1.5)
    assert "| 1gbit | 1,024 | `int8` | 30 | 20 | 30 | 20 | 1.50 |" in fill_tables.hierarchical({"rows": rows})


def test_a_phase_says_what_auto_took_and_when():
    """The last half of a phase counts; a phase without another choice stays with the one before."""
    jobs = {
        "none": {"milliseconds": [9.0, 10.0, 90.0, 100.0, 9.0, 10.0], "choices": []},
        "auto": {
            "milliseconds": [15.0, 10.0, 11.0, 10.0, 110.0, 90.0, 30.0, 20.0, 20.0, 20.0, 20.0, 20.0],
            "choices": [(2, "none: 10 ms a step; int4 11"), (7, "int4: 20 ms a step; none 100")],
        },
    }
    rows = changing_link.rows_of(["1gbit", "100mbit", "1gbit"], jobs)
    assert [row["choice"] for row in rows] == ["none", "int4", "int4"]
    assert [row["settled_after"] for row in rows] == [2, 3, None]
    assert [row["milliseconds"] for row in rows] == [
        {"none": 10.0, "auto": 10.5},
        {"none": 100.0, "auto": 25.0},
        {"none": 10.0, "auto": 20.0},
    ]
    page = fill_tables.changing_link({"rows": rows})
    assert "| 100mbit | 100.0 | 25.0 | `int4` | 3 |" in page and "`int4` | at once |" in page
    [axes] = changing_link.plot({"jobs": jobs, "rows": rows}).axes
    assert len(axes.texts) == 3


def test_only_the_first_link_may_be_unlimited(capsys):
    with pytest.raises(SystemExit):
        changing_link.parse_arguments(["--bandwidths", "1gbit", "unlimited"])
    assert "only the first" in capsys.readouterr().err


def test_packets_are_shown_side_by_side():
    runs = [
        {"link": "1gbit", "milliseconds": 20.0, "ms": {"int8": {"4": four, "0": one}}}
        for one, four in [(180, 150), (200, 160), (230, 190)]
    ]
    rows = overlap.rows_of(runs)
    assert rows == [
        {"link": "1gbit", "milliseconds": 20.0, "compression": "int8", "ms": {"0": 200, "4": 160}}
    ]
    assert "| 1gbit | 20 | `int8` | 200 | 160: 1.25 |" in fill_tables.overlap({"rows": rows})


def test_baselines_come_first_and_once():
    arguments = network.parse_arguments(["--compression", "topk", "none", "topk", "--", "--hidden", "64"])
    assert arguments.compression == ["none", "fp16", "topk"]
    assert arguments.example == ["--hidden", "64"]


@pytest.mark.parametrize("words", [["-np", "1"], ["--workload", "no_such"], ["--bandwidths", "slow"]])
def test_mistyped_arguments_end_the_program(words, capsys):
    with pytest.raises(SystemExit) as ended:
        network.parse_arguments(words)
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_every_compressor_is_first_once_and_all_run_in_each_round():
    names = ["none", "fp16", "topk"]
    rounds = [network_jobs.rotated(names, number) for number in range(4)]
    assert [each[0] for each in rounds] == ["none", "fp16", "topk", "none"]
    assert all(sorted(each) == sorted(names) for each in rounds)


class FakeJobs:
    """Stands for the ranks: trains with what it is told, but for one compressor, at which it fails."""

    def __init__(self, monkeypatch, failing: str):
        self.failing, self.trained, self.options = failing, [], {}
        monkeypatch.setattr(network_jobs, "run", self)
        monkeypatch.setattr(network_jobs, "_dump", lambda _, __, folder: folder / "step_000010.npz")
        monkeypatch.setattr(network_jobs, "read_gradients", lambda _: {})
        monkeypatch.setattr(network_jobs, "written", lambda *_: {})

    def __call__(self, arguments, bandwidth, command):
        output = pathlib.Path(command[command.index("--output") + 1])
        results = []
        for name in command[command.index("--compression") + 1 :]:
            self.trained.append(name)
            self.options[name] = command
            if name == self.failing:
                raise network_jobs.JobError(f"cannot {name}")
            run = {"compression": name, "replicas_identical": True, "interfaces": [{"steps": 1}]}
            results.append(run)
            output.write_text(json.dumps(results))


def measure(words: str) -> network_jobs.Measured:
    return network_jobs.measure(network.parse_arguments(words.split()), pathlib.Path("no_such_example"))


def test_a_compressor_that_fails_costs_no_other_its_results(monkeypatch):
    jobs = FakeJobs(monkeypatch, failing="topk")
    measured = measure("--bandwidths 1gbit unlimited --repeats 2 --compression topk dgc")
    assert measured.failures == {"topk": "cannot topk"}
    assert jobs.trained.count("topk") == 1
    runs = [(run["bandwidth"], run["round"], run["compression"]) for run in measured.runs]
    expected = itertools.product(["1gbit", "unlimited"], [1, 2], ["none", "fp16", "dgc"])
    assert sorted(runs) == sorted(expected)


def test_ranks_plan_on_the_links_on_which_they_train(monkeypatch):
    jobs = FakeJobs(monkeypatch, failing="")
    planned = []

    def plan(arguments, bandwidth, command):
        if command[0] != "sh":
            return jobs(arguments, bandwidth, command)
        planned.append(bandwidth.label)
        words = shlex.split(command[2])
        assert {"none", "fp16", "dgc"} <= set(words) and "auto" not in words
        steps = [{"name": name, "step_ms": 3.0} for name in ("none", "fp16", "dgc", "int8")]
        pathlib.Path(words[-1].replace("$HOROVOD_RANK", "0")).write_text(json.dumps({"results": steps}))

    monkeypatch.setattr(network_jobs, "run", plan)
    measured = measure("--plan --bandwidths 1gbit unlimited --repeats 1 --compression dgc auto")
    assert planned == ["1gbit", "unlimited"]
    assert measured.planned == dict.fromkeys(planned, dict.fromkeys(["none", "fp16", "dgc"], 3.0))
    assert measure("--bandwidths 1gbit --repeats 1").planned == {}


def test_planned_steps_compute_for_what_the_baseline_does_on_the_last_link():
    rows = [
        {"bandwidth": bandwidth, "compression": name, "step_ms": step_ms}
        for bandwidth, name, step_ms in (
            ("1gbit", "none", 50.0),
            ("1gbit", "auto", 20.0),
            ("unlimited", "none", 12.0),
            ("unlimited", "topk", 10.0),
        )
    ]
    network_summary.add_planned(rows, {})
    assert not any("planned_ms" in row for row in rows)
    network_summary.add_planned(rows, {"1gbit": {"none": 40.0}, "unlimited": {"none": 8.0, "topk": 5.0}})
    assert [row.get("planned_ms") for row in rows] == [44.0, None, 12.0, 9.0]
    assert "44 / 50: -12%" in fill_tables.planned({"rows": rows[:1]})
    without_baseline = [{"bandwidth": "unlimited", "compression": "topk", "step_ms": 10.0}]
    network_summary.add_planned(without_baseline, {"unlimited": {"none": 8.0, "topk": 5.0}})
    assert "planned_ms" not in without_baseline[0]


def test_a_compressor_that_fails_later_is_left_out_altogether(monkeypatch):
    jobs = FakeJobs(monkeypatch, failing="")
    counted = {"dgc": 0}

    def fail_second(arguments, bandwidth, command):
        counted["dgc"] += "dgc" in command
        jobs.failing = "dgc" if counted["dgc"] == 2 else ""
        jobs(arguments, bandwidth, command)

    monkeypatch.setattr(network_jobs, "run", fail_second)
    measured = measure("--bandwidths 1gbit unlimited --repeats 1 --compression dgc")
    assert measured.failures == {"dgc": "cannot dgc"}
    assert {run["compression"] for run in measured.runs} == {"none", "fp16"}


def test_steps_of_auto_are_measured_after_its_trials(monkeypatch):
    jobs = FakeJobs(monkeypatch, failing="")
    measured = measure("--bandwidths 1gbit --repeats 1 --steps 8 --trial-steps 50 --compression auto topk")
    assert [run["compression"] for run in measured.runs] == ["none", "fp16", "auto", "topk"]
    assert " ".join(jobs.options["auto"]).count("--epochs 2 --steps 50 --warm-up-steps 50") == 1
    assert "--steps 8" in " ".join(jobs.options["topk"])


def test_nothing_measured_is_an_error(monkeypatch):
    FakeJobs(monkeypatch, failing="none")
    monkeypatch.setattr(network.network_summary, "BASELINES", ())
    with pytest.raises(network_jobs.JobError, match="cannot none"):
        measure("--bandwidths 1gbit --compression none")


DIRECTIONS = ("sent", "received")


def interface(carried: float, packets: int = 10, payload: float = 10_000) -> dict:
    """What an example counts on 2 ranks, whose wire bytes are those of both payloads."""
    counted = {"seconds_per_step": 0.1, "steps": 5, "name": "eth0"}
    for direction in DIRECTIONS:
        counted[f"{direction}_bytes_per_step"] = carried + packets * wire.HEADER_BYTES
        counted[f"{direction}_packets_per_step"] = packets
    return counted | {
        "reported_payload_bytes_per_step": payload,
        "reported_wire_bytes_per_step": 2 * payload,
    }


def idle(rate: float, packets: int = 20) -> dict:
    """Bytes a second besides headers."""
    counted = {f"{d}_bytes_per_second": rate + packets * wire.HEADER_BYTES for d in DIRECTIONS}
    return counted | {f"{d}_packets_per_second": packets for d in DIRECTIONS}


@pytest.mark.parametrize(
    "carried, rate, agrees",
    [
        (10_000, 0, True),
        (10_490, 0, True),
        (10_510, 0, False),
        (9_510, 0, True),
        (9_490, 0, False),
        # 0.1 s of 10 kB/s are 1 kB more that may be control traffic, but need not be.
        (11_400, 10_000, True),
        (11_600, 10_000, False),
        (9_490, 10_000, False),
    ],
)
def test_agreement(carried, rate, agrees):
    """Of both directions together."""
    comparison = wire.compare(interface(carried), idle(rate))
    assert (comparison.payload, comparison.expected) == (10_000, 20_000)
    assert comparison.agrees == agrees
    assert comparison.excess == pytest.approx(carried / 10_000 - 1)
    assert comparison.control == pytest.approx(2 * rate * 0.1)


def test_bytes_of_one_direction_alone_do_not_agree():
    counted = interface(10_000)
    counted["received_bytes_per_step"] = 0
    assert not wire.compare(counted, idle(0)).agrees


def test_without_a_counted_step_there_is_nothing_to_compare():
    with pytest.raises(ValueError, match="--steps"):
        wire.compare({"steps": 0}, idle(0))


def run(bandwidth: str, name: str, number: int, step: float, carried: float = 10_000) -> dict:
    return {
        "bandwidth": bandwidth,
        "compression": name,
        "round": number,
        "spec": tfc.make_compressor(name).spec,
        "ranks": 2,
        "step_ms_median": step,
        "milliseconds": {phase: step / 5 for phase in network_summary.PHASES},
        "interfaces": [interface(carried)],
    }


@pytest.fixture
def result():
    """Three rounds of a machine that becomes slower, and topk twice as fast as none in each but the last."""
    runs = []
    for bandwidth in ("100mbit", "unlimited"):
        for number, slow in enumerate((1, 2, 10)):
            runs.append(run(bandwidth, "topk", number, 50 * slow if number < 2 else 1000))
            runs.append(run(bandwidth, "none", number, 100 * slow, carried=12_000))
    idles = {"100mbit": idle(0), "unlimited": idle(0)}
    compressors = {name: tfc.make_compressor(name) for name in ("none", "topk")}
    rows = network_summary.summarise(runs, idles, compressors)
    gradients = {"kernel": np.random.default_rng(0).standard_normal((100, 50)).astype(np.float32)}
    shared = {"workload": "mnist_mlp", "ranks": 2, "parameters": 5000}
    return {**shared, "rows": rows, "sizes": network_summary.sizes(gradients, rows, compressors)}


def test_ratios_are_medians_of_those_of_each_round(result):
    rows = {(row["bandwidth"], row["compression"]): row for row in result["rows"]}
    assert list(rows) == [(b, c) for b in ("100mbit", "unlimited") for c in ("none", "topk")]
    topk = rows["100mbit", "topk"]
    assert (topk["step_ms"], topk["milliseconds"]["encode"]) == (100, 20)
    assert topk["throughput_to"] == {"none": 2, "fp16": None}
    assert topk["wire"]["agrees"] and not rows["100mbit", "none"]["wire"]["agrees"]


def test_the_table_has_a_row_for_each_bandwidth_and_compressor(result):
    """Without fp16, nothing is compared with it."""
    lines = [line for line in fill_tables.network(result).splitlines() if "topk" in line]
    assert [line.split(" | ")[0] for line in lines] == ["| 100mbit", "| unlimited"]
    assert lines[0].endswith("| 100.0 | 20.0 | 20.0 | 20.0 | 20.0 | 20.0 | 2.00 |  |")


def test_bytes_that_do_not_agree_are_printed(result, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(network, "prepare", lambda _: None)
    monkeypatch.setattr(network, "run", lambda _: {**result, "failures": {}})
    monkeypatch.setattr("sys.argv", ["network.py", "--output", str(tmp_path)])
    network.main()
    printed = capsys.readouterr().out
    assert "none, 100mbit: +20.0% bytes" in printed and "topk, 100mbit: " not in printed


def test_sizes_split_into_keys_and_values(result):
    none, topk = result["sizes"]
    assert none["dense_bytes"] == 20_000 and none["parts"] == {"values": 10_000}
    assert topk["parts"]["values"] == 50 * 4  # 1 % of 5,000 floats.
    assert 0 < topk["parts"]["keys"] < 50 * 4
    assert sum(topk["parts"].values()) < 1000


def test_joint_codecs_and_rows_of_tables_are_split_too(tmp_path):
    rng = np.random.default_rng(0)
    dumped = {
        "dense.kernel": rng.standard_normal((64, 64)).astype(np.float32),
        "table:values": rng.standard_normal((30, 8)).astype(np.float32),
        "table:indices": np.arange(0, 300, 10),
        "table:shape": np.array([1000, 8]),
    }
    np.savez_compressed(tmp_path / "step.npz", **dumped)
    gradients = gradient_sizes.read_gradients(tmp_path / "step.npz")
    assert gradient_sizes.dense_bytes(gradients) == 4 * (64 * 64 + 8000)
    chosen = gradient_sizes.split(gradients, tfc.make_compressor("topk"))
    assert chosen["values"] == 4 * (round(0.01 * 64 * 64) + 1 * 8)  # One row of the thirty is 3 %.
    rows = gradient_sizes.split(gradients, tfc.make_compressor("topk(row_sparsifier='dense')"))
    assert rows["values"] == 4 * (round(0.01 * 64 * 64) + 30 * 8)
    joint = gradient_sizes.split({"k": gradients["dense.kernel"]}, tfc.make_compressor("skcompress"))
    assert joint["keys and values in one"] > 0 and joint["keys"] == joint["values"] == 0
    with pytest.raises(ValueError, match="makes no frames"):
        gradient_sizes.split(gradients, tfc.make_compressor("fp16"))


def test_figures_are_drawn(result, tmp_path):
    paths = network_plots.plot_all(result, tmp_path / "network_x")
    assert [path.name for path in paths] == [f"network_x_{n}.png" for n in ("steps", "sizes", "codecs")]
    assert all(path.stat().st_size > 5_000 for path in paths)


def test_a_failed_rank_shows_its_last_lines(tmp_path):
    log = tmp_path / "rank1.log"
    log.write_text("\n".join(f"line {i}" for i in range(100)))
    described = namespace_job._describe(1, "ended with code 3", log)
    assert "rank 1 ended with code 3" in described and "line 99" in described and "line 50" not in described
