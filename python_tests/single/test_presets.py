"""Presets, compressors and the listings."""

import dataclasses
import inspect
import json
import pathlib
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import tfcompress as tfc

# Preset, arguments, canonical spec.
PRESETS = [
    (
        tfc.Compression.topk,
        {"ratio": 0.1, "index": "bitmap", "value": "fp16", "memory": "none"},
        "topk:ratio=0.1|bitmap|fp16",
    ),
    (tfc.Compression.threshold, {"tau": 0.5}, "residual|threshold:tau=0.5|delta_binary|raw"),
    (
        tfc.Compression.deepreduce,
        {"value": "dexp", "policy": "p0", "fpr": 0.6},
        "residual|topk:ratio=0.01|bloom:policy=p0,fpr=0.6|dexp",
    ),
    (tfc.Compression.randomk, {"ratio": 0.1}, "residual|randomk:ratio=0.1|raw|raw"),
    (tfc.Compression.int4, {"block": 64}, "residual|dense|raw|block_int:bits=4,block=64,levels=square"),
    (tfc.Compression.zipml, {"bits": 8}, "dense|raw|uniform:bits=8"),
    (tfc.Compression.deepreduce, {"index": "bitmap"}, "residual|topk:ratio=0.01|bitmap|raw"),
    (tfc.Compression.shared_randomk, {"memory": "none"}, "shared_randomk:ratio=0.01"),
    (
        tfc.Compression.powersgd,
        {"rank": 2, "warm_start": False, "memory": "none"},
        "powersgd:rank=2,warm_start=0",
    ),
    (
        tfc.Compression.dgc,
        {"momentum": 0.5, "nesterov": True, "index": "bitmap"},
        "momentum:rate=0.5,nesterov=1|topk:ratio=0.001|bitmap|raw",
    ),
    (
        tfc.Compression.sketched_sgd,
        {"rows": 15, "columns": 180_000, "candidates": 16, "recovery": "heavymix"},
        "momentum:rate=0.9,nesterov=0|"
        "count_sketch:rows=15,columns=180000,k=100000,candidates=16,recovery=heavymix",
    ),
]


@pytest.mark.parametrize(("preset", "arguments", "spec"), PRESETS)
def test_arguments_of_presets_are_in_their_specs(preset, arguments, spec):
    assert preset(**arguments).spec == spec


OWN_DEFAULTS = {
    "sketched_sgd": {"exclude": ("bias",)},
    "int8": {"exchange": "auto"},
    "int4": {"exchange": "auto", "row_residual": True},
}
# `auto` is several presets: test_auto.py; these are schedules.
SCHEDULES = ("sparse", "compact", "smallest")
FUNCTIONS = [
    name
    for cls in tfc.Compression.__mro__
    for name, each in vars(cls).items()
    if isinstance(each, staticmethod) and name not in ("auto", *SCHEDULES)
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_presets_take_the_policy_of_compressors_alike(name):
    """In the order, with the types and the defaults of `Compressor`; whatever is given reaches it."""
    preset = getattr(tfc.Compression, name)
    parameters = inspect.signature(preset).parameters
    assert all(each.annotation is not each.empty for each in parameters.values())
    assert {each.kind.name for each in parameters.values()} <= {"POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"}
    policy = {field.name: field for field in dataclasses.fields(tfc.Compressor) if field.name != "spec"}
    is_summed = tfc.describe_spec(preset().spec)["linear"]
    left_out = {"min_dimensions", "takes_momentum", "leaves_sgd_momentum", "return_spec", "codec"}
    left_out.add("exchange" if is_summed else "payload_dtype")
    names = [name for name in policy if name not in left_out]
    assert list(parameters)[-len(names) :] == names
    own_defaults = OWN_DEFAULTS.get(name, {})
    for each in names:
        assert parameters[each].kind.name == "KEYWORD_ONLY"
        assert parameters[each].annotation == policy[each].type
        assert parameters[each].default == own_defaults.get(each, policy[each].default)
    given = {
        "min_elements": 7,
        "seed": 3,
        "exclude": ("norm",),
        "row_sparsifier": "topk:ratio=0.5",
        "row_residual": False,
        "clip_norm": 2.0,
        "payload_dtype": "float16",
        "exchange": "gather" if own_defaults.get("exchange") == "auto" else "auto",
    }
    given = {each: given[each] for each in names}
    config = preset(**given).get_config()
    assert {each: config[each] for each in names} == given


@pytest.mark.parametrize("name", (*FUNCTIONS, *SCHEDULES))
def test_presets_say_what_they_cost_and_where_they_do_not_fit(name):
    text = getattr(tfc.Compression, name).__doc__
    assert re.search(r"bits|bytes", text) and re.search(r"\bNot\b|would lose", text)


class TestSparse:
    def test_the_warm_up_is_in_the_preset(self):
        assert tfc.Compression.sparse().boundaries == (100,)
        schedule = tfc.Compression.sparse(0.02, warmup_steps=100)
        assert schedule.boundaries == (33, 66, 100)
        ratios = [float(re.search(r"ratio=([^|]+)", policy.spec)[1]) for policy in schedule.policies]
        assert ratios == [0.3, 0.1, 0.03, 0.02]
        assert all(each.takes_momentum and each.min_dimensions == 2 for each in schedule.policies)
        assert (
            "|delta_adaptive|block_int:bits=3,block=64" in schedule.policies[-1].spec
            and "to step 33, " in schedule.spec
        )

    def test_the_memory_has_a_momentum_of_its_own_only_if_it_is_given(self):
        assert {each.memory for each in tfc.Compression.sparse().policies} == {"residual"}
        given = tfc.Compression.sparse(momentum=0.8).policies
        assert {(each.memory, each.takes_momentum) for each in given} == {
            ("momentum:rate=0.8,nesterov=0", False)
        }
        with pytest.raises(ValueError, match="rate"):
            tfc.Compression.sparse(momentum=1.0)
        with pytest.raises(ValueError, match="no memory that could take a momentum"):
            tfc.Compressor("topk|raw|raw", takes_momentum=True)

    def test_stock_horovod_is_told_what_to_pass(self):
        with pytest.raises(TypeError, match=r"Compression\.sparse\(\).*tfc\.DistributedOptimizer.*`last`"):
            tfc.Compression.sparse().compress(None)

    def test_stages_that_send_less_than_the_rest_are_left_out(self):
        assert len(tfc.Compression.sparse(0.05, warmup_steps=10).policies) == 3
        assert len(tfc.Compression.sparse(0.05, warmup_steps=1).policies) == 2
        assert tfc.Compression.sparse(0.5).boundaries == ()
        assert tfc.Compression.sparse(0.01, warmup_steps=0).boundaries == ()

    @pytest.mark.parametrize("name", SCHEDULES)
    def test_the_policy_reaches_every_stage(self, name):
        policy = {"min_elements": 5, "seed": 9, "exclude": ("bias",), "clip_norm": 1.5, "exchange": "gather"}
        for each in getattr(tfc.Compression, name)(**policy).policies:
            assert {name: each.get_config()[name] for name in policy} == policy

    def test_the_compact_one_has_the_elements_of_sparse_in_other_codecs(self):
        same = {"ratio": 0.05, "warmup_steps": 9, "seed": 3, "momentum": 0.9}
        other = tfc.Compression.sparse(**same, index="rowcol", value="ecsq:snr=15")
        assert tfc.Compression.compact(**same).get_config() == other.get_config()

    def test_the_smallest_one_has_the_smallest_codecs_in_its_warm_up_too(self):
        schedule = tfc.Compression.smallest(warmup_steps=30)
        assert schedule.boundaries == (10, 20, 30)
        assert all(each.takes_momentum and each.min_dimensions == 2 for each in schedule.policies)
        gradient = np.random.default_rng(2).standard_normal((64, 256)).astype(np.float32)
        sizes = [len(tfc.encode(gradient, each.spec)) for each in schedule.policies]
        others = tfc.Compression.sparse(0.002, warmup_steps=30, index="delta_adaptive", value="ecsq:snr=25")
        of_others = [len(tfc.encode(gradient, each.spec)) for each in others.policies]
        assert all(a < b for a, b in zip(sizes, of_others, strict=True))


def test_what_all_reduce_sums_is_known():
    for compressor in (tfc.Compression.none, tfc.Compression.fp16):
        assert compressor.is_summed
    assert tfc.Compression.sketched_sgd().is_summed and tfc.Compression.shared_randomk().is_summed
    assert not any(
        each.is_summed for each in (tfc.Compression.bf16, tfc.Compression.topk(), tfc.Compression.dgc())
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clip_norm": 0.0}, "clip_norm must be above 0"),
        ({"clip_norm": float("nan")}, "clip_norm must be above 0"),
        ({"payload_dtype": "int8"}, "payload_dtype must be float32 or float16"),
        ({"rows": 4}, "odd"),
        ({"momentum": 1.0}, "rate"),
    ],
)
def test_wrong_arguments_of_sketched_sgd(arguments, message):
    with pytest.raises(ValueError, match=message):
        tfc.Compression.sketched_sgd(**arguments)


class TestExchange:
    def test_shard_needs_frames(self):
        for preset in (tfc.Compression.topk, tfc.Compression.dgc):
            assert preset(exchange="shard").exchange == "shard"
        with pytest.raises(ValueError, match="cannot be sharded: that takes a codec of frames"):
            tfc.Compressor("shared_randomk:ratio=0.1", exchange="shard")
        with pytest.raises(ValueError, match="exchange must be one of gather, shard, auto"):
            tfc.Compression.topk(exchange="ring")

    def test_sums_have_a_spec_of_their_own(self):
        compressor = tfc.Compressor(
            "residual|topk:ratio=0.01|raw|raw", exchange="auto", return_spec="topk:ratio=0.02|raw|fp16"
        )
        route = compressor.route("kernel", "float32", (100, 100), num_ranks=4)
        assert route.spec == compressor.spec
        assert route.spec_of_sums == "residual|topk:ratio=0.02|raw|fp16"
        assert route.signature().spec_of_sums == ""
        small = compressor.route("bias", "float32", (100,), num_ranks=4)
        gathered = compressor.route("kernel", "float32", (100, 100), num_ranks=2)
        assert small.return_spec == gathered.return_spec == ""
        schedule = tfc.Schedule.of_ratios(compressor, [0.4, 0.1], steps_each=5)
        assert [each.return_spec for each in schedule.policies] == [
            f"topk:ratio={ratio}|raw|fp16" for ratio in (0.8, 0.2, 0.02)
        ]
        for spec in ("residual|topk|raw|raw", "shared_randomk:ratio=0.1"):
            with pytest.raises(ValueError, match="return_spec .* without a memory"):
                tfc.Compressor("topk|raw|raw", return_spec=spec)

    @pytest.mark.parametrize(("ranks", "transport"), [(2, "GATHER"), (3, "SHARD"), (None, "SHARD")])
    def test_auto_moves_fewer_bytes(self, ranks, transport):
        compressor = tfc.Compression.topk(exchange="auto")
        route = compressor.route("kernel", "float32", (100, 100), num_ranks=ranks)
        assert route.transport.name == transport
        assert tfc.Compression.topk().route("kernel", "float32", (100, 100)).transport.name == "GATHER"

    @pytest.mark.parametrize("preset", [tfc.Compression.fastsgd, tfc.Compression.threshold])
    def test_frames_that_grow_with_what_is_summed_are_sharded_on_more_ranks(self, preset):
        routes = [preset(exchange="auto").route("kernel", "float32", (100, 100), num_ranks=n) for n in (3, 4)]
        assert [each.transport.name for each in routes] == ["GATHER", "SHARD"]

    def test_sums_that_are_larger_are_sharded_on_more_ranks(self):
        def least(spec, return_spec):
            compressor = tfc.Compressor(spec, exchange="auto", return_spec=return_spec)
            transports = [compressor.transport_on(ranks).name for ranks in range(2, 200)]
            assert transports == sorted(transports)  # Gathers up to some number of ranks, shards on more.
            return 2 + transports.count("GATHER")

        assert least("dense|raw|bf16", "dense|raw|uniform:bits=8") == 3
        assert least("dense|raw|bf16", "dense|raw|raw") == 4
        # Of an element 4 bytes, and 6 of one in a hundred.
        assert 60 <= least("residual|topk:ratio=0.01|raw|fp16", "dense|raw|raw") <= 70
        assert tfc.Compression.sparse().last.transport_on(3).name == "SHARD"

    def test_auto_leaves_sums_of_payloads_alone(self):
        linear = tfc.Compressor("shared_randomk:ratio=0.1", exchange="auto")
        assert linear.route("kernel", "float32", (100, 100), num_ranks=8).transport.name == "LINEAR"

    @pytest.mark.parametrize(("ranks", "transport"), [(3, "GATHER"), (4, "SHARD_ROWS"), (None, "SHARD_ROWS")])
    def test_rows_go_to_their_owners_on_more_ranks(self, ranks, transport):
        route = tfc.Compression.int8().route("table", "float32", (100, 100), is_table=True, num_ranks=ranks)
        assert route.transport.name == transport

    def test_tensors_of_one_dimension_are_exact(self):
        route = tfc.Compression.int8().route("bias", "float32", (5000,), num_ranks=4)
        assert (route.transport.name, route.spec) == ("SHARD", "dense|raw|raw")


@pytest.mark.parametrize("ratio", [0.0, -0.1, 1.01, float("nan"), float("inf")])
def test_a_ratio_outside_its_range_is_refused(ratio):
    with pytest.raises(ValueError, match=r"ratio.*\(0, 1\]"):
        tfc.Compression.topk(ratio)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("topk|raw|nosuch", "unknown value codec 'nosuch'; known: raw, fp16"),
        ("nosuch|raw|raw", "unknown sparsifier 'nosuch'; known: dense, nonzero"),
        ("topk:ration=0.1|raw|raw", "unknown parameter 'ration' of 'topk'; known: ratio"),
        ("topk|raw|sketchml", "stands alone"),
        ("topk|raw", "needs a value codec"),
        ("dense|bitmap|raw", "must be 'raw'"),
        ("", "parts"),
        ("a|b|c|d|e", "5 parts"),
        ("topk|bloom:policy=p9|raw", "one of: naive, p0, p1, p2"),
    ],
)
def test_a_spec_that_is_none_says_why(spec, message):
    with pytest.raises(ValueError, match=message):
        tfc.Compressor(spec)


def test_config_round_trip_is_json():
    compressor = tfc.Compression.deepreduce(0.02, min_elements=10, seed=3)
    again = tfc.Compressor.from_config(json.loads(json.dumps(compressor.get_config())))
    assert again.get_config() == compressor.get_config()
    # Horovod's caches key on the compressor: equal ones must not share a traced function, and so state.
    assert again != compressor and hash(again) != hash(compressor)


@pytest.mark.parametrize("name", (*FUNCTIONS, *SCHEDULES, "auto", "none", "fp16"))
def test_compressions_can_be_pickled(name):
    """Spark and Ray send them to the ranks."""
    preset = getattr(tfc.Compression, name)
    compression = preset() if callable(preset) else preset
    again = pickle.loads(pickle.dumps(compression))
    assert type(again) is type(compression) and again.get_config() == compression.get_config()


def test_compressors_are_immutable():
    with pytest.raises(AttributeError):
        tfc.Compression.topk().spec = "dense|raw|raw"


def test_policy_leaves_small_tensors_uncompressed():
    compressor = tfc.Compression.topk(min_elements=100)
    assert compressor.route("w", "float32", [99]).spec == "dense|raw|raw"
    assert compressor.route("w", "bfloat16", [99]).spec == "dense|raw|bf16"
    assert compressor.route("w", "float32", [10, 10]).spec == compressor.spec
    with pytest.raises(ValueError, match="min_elements"):
        tfc.Compression.topk(min_elements=-1)


def test_without_horovod_the_distributed_parts_say_what_is_missing():
    program = (
        "import sys\n"
        "sys.modules['horovod'] = None\n"
        "import tensorflow as tf, tfcompress as tfc\n"
        "variable = tf.Variable(tf.zeros([5]))\n"
        "with tf.GradientTape() as tape:\n"
        "    loss = tf.reduce_sum(variable)\n"
        "try:\n"
        "    tape = tfc.DistributedGradientTape(tape, compression=tfc.Compression.topk())\n"
        "    tape.gradient(loss, [variable])\n"
        "except ImportError as error:\n"
        "    assert 'needs Horovod' in str(error), error\n"
        "else:\n"
        "    raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("text", "compressor"),
    [
        ("none", tfc.Compression.none),
        ("topk", tfc.Compression.topk()),
        ("topk(0.001, value='fp16')", tfc.Compression.topk(0.001, value="fp16")),
        (" dgc(ratio=0.01, exclude=['bias']) ", tfc.Compression.dgc(0.01, exclude=["bias"])),
        ("int8(exclude='bias|norm')", tfc.Compression.int8(exclude="bias|norm")),
        ("topk:ratio=0.5|raw|raw", tfc.Compressor("topk:ratio=0.5|raw|raw")),
        ("shared_randomk:ratio=0.1", tfc.Compressor("shared_randomk:ratio=0.1")),
    ],
)
def test_a_compressor_by_the_name_of_a_command_line(text, compressor):
    assert tfc.make_compressor(text).get_config() == compressor.get_config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topq", "unknown preset 'topq'; known: none, fp16"),
        ("_momentum", "unknown preset"),
        ("none(1)", "takes no arguments"),
        ("topk(ratios=1)", "unexpected keyword argument 'ratios'"),
        ("topk(open('x'))", "is no preset like"),
        ("topk(", "is no preset like"),
        ("a.b(1)", "is no preset like"),
        ("topk(**x)", "is no preset like"),
        ("topk:ratio=2|raw|raw", "ratio"),
    ],
)
def test_what_names_no_compressor_is_refused(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        tfc.make_compressor(text)


def test_every_preset_is_in_the_cores_test_of_replicas():
    source = pathlib.Path(__file__).parents[2] / "cc_tests" / "replicas_test.cc"
    text = re.sub(r'"\s*\n\s*"', "", source.read_text())
    for name in ["none", "fp16", "bf16", *FUNCTIONS]:
        preset = getattr(tfc.Compression, name)
        spec = (preset if isinstance(preset, tfc.Compressor) else preset()).spec
        assert f'"{spec}"' in text, f"{name}: add {spec}"
