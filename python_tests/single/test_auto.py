"""What `Compression.auto()` decides, by injected costs: no network, no TensorFlow step."""

import dataclasses
import json
import math
import pathlib
import random

import pytest

import tfcompress as tfc
from tfcompress.auto import Auto, Contest
from tfcompress.cli.planning import DENSE, compressor_of
from tfcompress.costs import (
    CodecCost,
    HostCost,
    Line,
    Links,
    Load,
    clearly_fastest,
    exchange,
    expected_seconds,
    finalists,
    loads_of,
)
from tfcompress.plan import compressors_of
from tfcompress.resolution import resolve
from tfcompress.route import Transport
from tfcompress.tuner import Contender, Tuner

ROOT = pathlib.Path(__file__).parents[2]
GRADIENTS = [("kernel", "float32", (784, 512), False), ("bias", "float32", (512,), False)]
TABLE = ("embedding", "float32", (1000, 16), True)


def links(megabytes_per_second, latency=1e-4):
    """All-reduce moves its vector twice, the others theirs once, as the collectives of two ranks do."""
    per_byte = 1e-6 / megabytes_per_second
    return Links(Line(latency, per_byte), Line(latency, per_byte / 2), Line(latency, per_byte / 2))


# ---- Costs -------------------------------------------------------------------------------------------------


def test_a_line_goes_through_its_two_points_and_never_falls():
    line = Line.through((1000, 2e-3), (101_000, 12e-3))
    assert line.seconds(1000) == pytest.approx(2e-3) and line.seconds(101_000) == pytest.approx(12e-3)
    assert line.latency == pytest.approx(1.9e-3) and line.seconds(0) == 0
    assert Line.through((1000, 2e-3), (2000, 1e-3)) == Line(2e-3, 0.0)
    assert Line.through((1000, 1e-3), (2000, 3e-3)).latency == 0.0


def test_loads_are_what_the_policy_routes():
    loads = loads_of(tfc.Compression.int8(), [*GRADIENTS, TABLE], 4)
    assert loads == [
        Load(Transport.SHARD, tfc.Compression.int8().spec, 4, 784 * 512),
        Load(Transport.SHARD, "dense|raw|raw", 4, 512),
    ]
    assert loads_of(tfc.Compression.fp16, GRADIENTS, 2) == [
        Load(Transport.ALLREDUCE, "dense|raw|raw", 2, 784 * 512 + 512)
    ]
    assert loads_of(tfc.Compression.none, [("x", "float32", (None, 3), False)], 2) == []


def test_seconds_of_an_exchange_add_up():
    network = Links(Line(1.0, 1e-3), Line(2.0, 1e-2), Line(3.0, 1e-1), half_seconds=1e-4)
    codecs = {"a": CodecCost(0.5, 1e-4, 1e-5, 2e-6)}

    def seconds(*loads):
        return exchange(loads, network, codecs, 4).seconds

    reduced = Load(Transport.ALLREDUCE, "dense|raw|raw", 4, 100)
    assert seconds(reduced) == pytest.approx(1 + 0.4)
    halves = Load(Transport.ALLREDUCE, "dense|raw|raw", 2, 100)
    assert seconds(halves) == pytest.approx(1 + 0.2 + 0.01)
    sharded = Load(Transport.SHARD, "a", 4, 100)
    # Three frames of a quarter each are summed, and one of all elements is decoded.
    decoding = 25 * (1e-5 + 2 * 2e-6) + 100 * 1e-5
    assert seconds(sharded) == pytest.approx((2 + 0.5) + (3 + 5) + 100 * 1e-4 + decoding)
    gathered = Load(Transport.GATHER, "a", 4, 100)
    assert seconds(gathered) == pytest.approx(3 + 20 + 100 * (1e-4 + 1e-5 + 3 * 2e-6))
    payload = Load(Transport.LINEAR, "a", 4, 100)
    assert seconds(payload) == pytest.approx(1 + 0.05 + 100 * (1e-4 + 1e-5))
    together = seconds(reduced, sharded, gathered, payload)
    alone = sum(map(seconds, (reduced, sharded, gathered, payload)))
    assert together == pytest.approx(alone - 1 - 3)  # Two collectives carry two loads each.


def test_bytes_of_an_exchange_are_those_that_the_statistics_count():
    """What python_tests/parallel/test_statistics.py finds of the collectives."""
    codecs = {"a": CodecCost(0.5, 1e-4, 1e-5, 2e-6)}

    def moved(transport, num_ranks):
        found = exchange([Load(transport, "a", 4, 120)], links(1), codecs, num_ranks)
        return found.payload_bytes, found.wire_bytes

    assert moved(Transport.ALLREDUCE, 4) == (480, 4 * 480 * 3 / 4)
    assert moved(Transport.LINEAR, 4) == (60, 4 * 60 * 3 / 4)
    assert moved(Transport.GATHER, 4) == (60, 2 * 60 * 3)
    assert moved(Transport.SHARD, 4) == (45 + 15, 2 * 45 + 2 * 45)


def test_links_of_a_bandwidth_are_limited_by_it_and_by_the_host():
    """Two ranks, 34 MB at 100 Mbit/s: headers leave 94 % of it for data."""
    network = Links.of_bandwidth(2, 12.5e6, 1e-4, HostCost(1e-9, 1e-8))
    assert network.allreduce.seconds(34e6) == pytest.approx(34 / (0.94 * 12.5) + 0.034 + 1e-3 + 4e-4)
    assert network.alltoall == network.allgather
    assert network.allgather.seconds(68e6) == pytest.approx(34 / (0.94 * 12.5) + 0.034 + 1e-3 + 3e-4)
    free = Links.of_bandwidth(16, math.inf, 0.0, HostCost(1e-9, 1e-8))
    assert free.allreduce.seconds_per_byte == pytest.approx(2 * 15 / 16 * 1e-9)
    assert free.half_seconds == free.scaled(2.0).half_seconds == 1e-8


def measured_steps():
    """docs/results/network_mlp_planned.json: rows by bandwidth and preset, and what they say of the job.

    The host's costs are those of the runs whose links do not limit; a step computes for what is left of the
    shortest one.
    """
    result = json.loads((ROOT / "docs" / "results" / "network_mlp_planned.json").read_text())
    rows = {(row["bandwidth"], row["compression"]): row for row in result["rows"]}
    n, free = result["parameters"], {name: rows["unlimited", name] for _, name in rows}
    transfer = free["none"]["milliseconds"]["communication"] / 1e3 / (4 * n)
    halves = free["fp16"]["milliseconds"]["communication"] / 1e3 / n - 2 * transfer
    fastest = min(free.values(), key=lambda row: row["step_ms"])
    exchanged = sum(fastest["milliseconds"][part] for part in ("encode", "communication", "decode"))
    return rows, n, HostCost(transfer, halves), (fastest["step_ms"] - exchanged) / 1e3


@pytest.mark.parametrize("bandwidth", ["100mbit", "1gbit"])
@pytest.mark.parametrize(
    "name", ["none", "fp16", "int8", "int4", "topk", "sparse(0.01,index='rowcol',value='ecsq')"]
)
def test_predicted_steps_are_those_that_were_measured(name, bandwidth):
    """Within 20 %, on two ranks, with what the job's own runs without a limit say of its host."""
    rows, n, host, compute = measured_steps()
    row, [load] = (
        rows[bandwidth, name],
        loads_of(compressor_of(name), [("x", "float32", (n // 2, 2), False)], 2),
    )
    network = Links.of_bandwidth(2, {"100mbit": 12.5e6, "1gbit": 125e6}[bandwidth], 1e-4, host)
    encode, decode = (row["milliseconds"][part] / 1e3 / n for part in ("encode", "decode"))
    codec = CodecCost(row["wire"]["payload"] / n, encode, decode / 2, decode / 2)
    predicted = compute + exchange([load], network, dict.fromkeys(load.specs, codec), 2).seconds
    assert 1e3 * predicted == pytest.approx(row["step_ms"], rel=0.2)


@pytest.mark.parametrize("bandwidth", ["100mbit", "1gbit"])
@pytest.mark.parametrize("name", [*DENSE, "sparse(warmup_steps=0)", "topk"])
def test_steps_that_the_ranks_planned_are_those_that_were_measured(name, bandwidth):
    """Within 20 %, by `tfcompress plan` in the job; of measured steps it has `none` without a limit only."""
    result = json.loads((ROOT / "docs" / "results" / "network_mlp_planned_by_ranks.json").read_text())
    [row] = [r for r in result["rows"] if (r["bandwidth"], r["compression"]) == (bandwidth, name)]
    assert row["planned_ms"] == pytest.approx(row["step_ms"], rel=0.2)


@pytest.fixture
def candidates():
    """Ten million elements: 40 MB, 20 MB, and frames of 10 and 5 MB."""
    n = 10_000_000
    return {
        "none": [Load(Transport.ALLREDUCE, "", 4, n)],
        "fp16": [Load(Transport.ALLREDUCE, "", 2, n)],
        "int8": [Load(Transport.SHARD, "int8", 4, n)],
        "int4": [Load(Transport.SHARD, "int4", 4, n)],
    }


CODECS = {"int8": CodecCost(1.02, 1e-9, 5e-10, 5e-10), "int4": CodecCost(0.52, 1e-9, 5e-10, 5e-10)}


def test_slow_links_leave_only_the_smallest(candidates):
    assert finalists(candidates, links(1), CODECS, 2) == (["int8", "int4"], ["int8", "int4"])
    few_bits = {**CODECS, "int4": CodecCost(0.1, 1e-9, 5e-10, 5e-10)}
    assert finalists(candidates, links(1), few_bits, 2) == (["int4"], ["int4"])


def test_fast_links_leave_what_costs_no_arithmetic(candidates):
    first, ready = finalists(candidates, links(1e6), CODECS, 2)
    assert first == ready == ["none", "fp16"]


def test_what_other_links_would_need_is_kept_ready(candidates):
    first, ready = finalists(candidates, links(2000), CODECS, 2)
    assert set(first) < set(ready) and "none" in ready and "int4" in ready


def test_what_is_sparse_is_clearly_faster_or_not_taken(candidates):
    n = 10_000_000
    sparse = {
        "sparse with raw": [Load(Transport.SHARD, "raw", 4, n, "raw")],
        "sparse": [Load(Transport.SHARD, "small", 4, n, "small")],
    }
    codecs = CODECS | {"raw": CodecCost(0.05, 1e-9, 2e-10, 2e-10), "small": CodecCost(0.01, 3e-9, 2e-9, 2e-9)}

    def taken(megabytes_per_second, sparse=sparse, candidates=candidates):
        network = links(megabytes_per_second)
        seconds = (expected_seconds(each, network, codecs, 2) for each in (sparse, candidates))
        return clearly_fastest(*seconds)

    assert (taken(1), taken(100), taken(1e6)) == ("sparse", "sparse with raw", None)
    assert taken(1, sparse={}) is None
    assert taken(1, candidates={"none": [Load(Transport.ALLREDUCE, "", 4, 100)]}) is None
    assert taken(1, candidates={"none": []}) is None, "nothing is known of the model"


def test_an_exchange_that_is_not_twice_as_fast_is_not_worth_what_sparse_may_cost():
    assert clearly_fastest({"sparse": 0.1}, {"none": 0.5, "int4": 0.19}) is None
    assert clearly_fastest({"sparse": 0.1, "other": 0.11}, {"none": 0.5, "int4": 0.21}) == "sparse"


# ---- Contest -----------------------------------------------------------------------------------------------


def test_what_is_summed_leaves_the_memory_of_others_alone():
    auto = tfc.Compression.auto()
    contest = auto.settled(["none", "int8"], ["none"])
    assert contest.bypasses == (True, False, False) and contest.first == ("none",)
    assert [(each.name, each.stage, each.empties) for each in contest.contenders] == [
        ("none", 0, 2),
        ("int8", 1, None),
    ]
    memory = resolve(contest.policies, *GRADIENTS[0], num_ranks=2, bypasses=contest.bypasses)
    assert memory.memory == "residual" and memory.num_slots == 1
    assert [route.bypasses_memory for route in memory.routes] == [True, False, False]
    assert [route.spec for route in memory.routes] == [
        "dense|raw|raw",
        "residual|dense|raw|block_int:bits=8,block=256,levels=even",
        "residual|dense|raw|raw",
    ]


def test_rows_leave_the_residual_alone_where_they_are_summed():
    contest = tfc.Compression.auto().settled(["none", "int4"], [])
    memory = resolve(contest.policies, *TABLE, num_ranks=2, bypasses=contest.bypasses)
    assert memory.memory == "residual"
    assert [route.transport for route in memory.routes] == [
        Transport.ALLREDUCE,
        Transport.GATHER,
        Transport.GATHER,
    ]


def test_without_memories_there_is_nothing_to_empty():
    contest = tfc.Compression.auto().settled(["none", "fp16", "bf16"], [])
    assert contest.bypasses == (False, False, False)
    assert all(each.empties is None for each in contest.contenders)


def test_one_finalist_is_the_preset_itself():
    auto = tfc.Compression.auto(exclude=("norm",), min_elements=7)
    chosen = auto.settled(["int4"], ["int4"])
    assert isinstance(chosen, tfc.Compressor) and chosen.exclude == ("norm",) and chosen.min_elements == 7


# ---- Preset ------------------------------------------------------------------------------------------------


def test_auto_keeps_every_element_unless_it_is_told():
    dense = tfc.Compression.auto()
    sparse = tfc.Compression.auto("sparse", ratio=0.02, warmup_steps=30)
    assert list(dense.compressors) == ["none", "fp16", "bf16", "int8", "int4"] == list(sparse.compressors)
    assert dense.sparse == () and not any(each.is_sparse for each in sparse.compressors.values())
    assert [name for name, _ in sparse.sparse] == ["sparse", "compact"]
    for _, schedule in sparse.sparse:
        assert "topk:ratio=0.02" in schedule.last.spec and schedule.boundaries == (10, 20, 30)


def test_what_is_sparse_is_taken_as_it_is():
    auto = tfc.Compression.auto("sparse")
    assert auto.settled(["sparse"], []) is dict(auto.sparse)["sparse"]
    assert "sparse" in auto.get_config() and isinstance(auto.settled(["none", "int4"], ["none"]), Contest)


def test_auto_passes_its_policy_on():
    policy = {"min_elements": 5, "seed": 9, "exclude": ("bias",), "clip_norm": 1.5}
    auto = tfc.Compression.auto("sparse", ratio=0.02, warmup_steps=30, **policy)
    assert len(compressors_of(auto)) == 5 + 2 * 4
    contest = auto.settled(["none", "int4"], ["none"])
    assert [each.clip_norm for each in contest.policies] == [1.5] * 3, "also where the memory is emptied"
    for each in compressors_of(auto):
        config = each.get_config()
        assert {name: config[name] for name in policy} == policy


def test_auto_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match="allow must be 'dense' or 'sparse', got 'all'"):
        tfc.Compression.auto("all")
    with pytest.raises(TypeError, match="tfc.DistributedOptimizer"):
        tfc.Compression.auto().compress(None)


def test_auto_is_named_on_command_lines():
    assert isinstance(tfc.make_compressor("auto"), Auto)
    assert "sparse" in dict(tfc.make_compressor("auto(allow='sparse')").sparse)
    assert tfc.make_compressor("auto").spec.endswith("int8, int4")
    assert tfc.make_compressor("auto('sparse')").spec.endswith("int4, sparse, compact")


# ---- Tuner -------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Job:
    """Ranks that step together; each stage takes its time on each rank."""

    seconds: dict
    tuners: list
    told: list
    agreeing: float = 0.0  # What a step takes longer in which ranks agree.
    stages: list = dataclasses.field(default_factory=list)

    def run(self, num_steps):
        """Runs so many steps, and then those that the tuner does not want to be asked in."""
        end = len(self.stages) + num_steps
        while len(self.stages) < end:
            offers = [tuner.offered() for tuner in self.tuners]
            assert len({math.isnan(offer) for offer in offers}) == 1, "some ranks compare and others do not"
            agreed = math.nan if math.isnan(offers[0]) else max(offers)
            decided = {tuner.next_steps(agreed) for tuner in self.tuners}
            assert len(decided) == 1, "ranks decide differently"
            [(stage, number)] = decided
            for rank, tuner in enumerate(self.tuners):
                tuner.observe(self.seconds[stage][rank] + (0.0 if math.isnan(agreed) else self.agreeing))
            self.stages += [stage] * number

    @property
    def present(self):
        return self.tuners[0].choice.name


NAMES = ("none", "fp16", "int8", "int4")
EMPTIES = 4
# What comes before the first step: a memory that may have come from a checkpoint.
RESTORED = -1


def job(seconds, first=None, ranks=2):
    """A job of four contenders: two that bypass a memory, and two that read it."""
    told = []
    contenders = [
        Contender("none", 0, EMPTIES),
        Contender("fp16", 1, EMPTIES),
        Contender("int8", 2),
        Contender("int4", 3),
    ]
    own = {i: [each] * ranks for i, each in enumerate((*seconds, seconds[0]))}
    tuners = [Tuner(contenders, first, told.append), *[Tuner(contenders, first) for _ in range(ranks - 1)]]
    return Job(own, tuners, told)


@pytest.mark.parametrize("fastest", range(4))
def test_the_fastest_is_found(fastest):
    training = job([1.0 if i == fastest else 1.3 for i in range(4)])
    training.run(70)
    assert training.present == NAMES[fastest]
    assert set(training.stages[60:]) == {fastest}
    assert training.told[0].seconds == 1.0 and set(training.told[0].others) == set(NAMES) - {NAMES[fastest]}
    assert f"{NAMES[fastest]}: 1e+03 ms a step; " in str(training.told[0])


def test_of_equals_the_most_exact_is_taken():
    training = job([1.015, 1.0, 1.0, 1.0])
    training.run(60)
    assert training.present == "none"


def test_the_slowest_rank_counts():
    training = job([1.0, 1.0, 1.0, 1.0])
    training.seconds = {0: [0.1, 2.0], 1: [1.0, 1.0], 2: [1.5, 1.5], 3: [0.5, 3.0], 4: [1.0, 1.0]}
    training.run(60)
    assert training.present == "fp16"


def test_a_hopeless_contender_takes_two_steps():
    training = job([1.0, 1.0, 100.0, 1.2])
    training.run(60)
    assert training.stages.count(2) == 2
    assert sum(training.seconds[stage][0] for stage in training.stages[:40]) < 260


@pytest.mark.parametrize("after", range(1, 30))
def test_a_pause_between_two_steps_rules_no_contender_out(after):
    """As an evaluation or a checkpoint in the midst of a trial, wherever it comes."""
    training = job([1.0, 1.0, 1.0, 0.5])
    training.run(after)
    usual, training.seconds = training.seconds, {stage: [60.0] * 2 for stage in training.seconds}
    training.run(1)
    training.seconds = usual
    training.run(60)
    assert training.present == "int4"


def test_only_the_first_are_tried_while_times_stay():
    training = job([5.0, 5.0, 1.0, 1.1], first=["int8", "int4"])
    training.run(3000)
    assert training.present == "int8" and {0, 1}.isdisjoint(training.stages)
    trials = [stage for stage in training.stages if stage == 3]
    assert 3 * 4 <= len(trials) < 100, "looked at again, ever more rarely"


def test_that_ranks_agree_changes_no_times():
    training = job([1.0, 1.5, 1.5, 1.5])
    training.agreeing = 0.9
    training.run(490)
    assert training.present == "none" and set(training.stages[60:]) == {0}


def test_others_are_tried_when_times_change():
    training = job([5.0, 5.0, 1.0, 1.1], first=["int8", "int4"])
    training.run(150)
    training.seconds = {i: [each] * 2 for i, each in enumerate((0.2, 0.3, 0.6, 0.6, 0.2))}
    training.run(300)
    assert training.present == "none" and [each.name for each in training.told] == ["int8", "none"]


def test_the_memory_is_emptied_before_what_bypasses_it_and_only_then():
    training = job([1.0, 1.1, 1.05, 1.1])
    training.run(400)
    for before, stage in zip([RESTORED, *training.stages], training.stages, strict=False):
        if stage in (0, 1):
            assert before not in (2, 3, RESTORED), "the memory was left with something in it"
        if stage == EMPTIES:
            assert before in (2, 3, RESTORED)
    assert training.stages[0] == EMPTIES, "what a checkpoint held was left in the memory"


def test_one_contender_alone_is_stayed_with():
    tuner = Tuner([Contender("int8", 7)])
    training = Job({7: [1.0]}, [tuner], [])
    training.run(300)
    assert set(training.stages) == {7} and training.present == "int8"


@pytest.mark.parametrize("width", [0.1, 0.5])
def test_noise_costs_little(width):
    """Nearly all choose within 5 % of the best where steps vary and one in 17 takes ten times as long."""
    means = [1.0, 0.9, 0.7, 0.72]
    chosen = []
    for seed in range(100):
        noise = random.Random(seed)
        training = job(means)

        class Noisy(dict):
            def __getitem__(self, stage, noise=noise):
                spike = 10 if noise.random() < 0.03 else 1
                return [(*means, 1.0)[stage] * noise.uniform(1, 1 + width) * spike for _ in range(2)]

        training.seconds = Noisy()
        training.run(120)
        chosen.append(training.present)
    assert sum(means[NAMES.index(name)] <= 1.05 * min(means) for name in chosen) >= 95


def test_what_chance_explains_changes_nothing():
    """Four that are as fast, in steps that vary by half: the most exact is taken nearly always."""
    noise = random.Random(1)

    class Noisy(dict):
        def __getitem__(self, stage):
            return [noise.uniform(1, 1.5) for _ in range(2)]

    chosen = []
    for _ in range(40):
        training = job([1.0] * 4)
        training.seconds = Noisy()
        training.run(120)
        chosen.append(training.present)
    assert chosen.count("none") >= 34


@pytest.mark.parametrize(("seconds", "counted"), [(1.0, 3), (0.03, 9), (0.001, 12)])
def test_turns_of_short_steps_have_more_of_them(seconds, counted):
    training = job([seconds] * 4)
    training.run(40)
    assert training.stages[: counted + 3] == [EMPTIES] + [0] * (counted + 1) + [1]


def test_contests_make_tuners_of_their_own():
    contest = Contest.between(tfc.Compression.auto().compressors, ["none"])
    one, other = contest.tuner(lambda choice: None), contest.tuner(lambda choice: None)
    emptying = len(contest.policies) - 1
    assert one.next_steps(math.nan) == other.next_steps(math.nan) == (emptying, 1) and one is not other
