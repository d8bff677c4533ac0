"""The kernels for GPUs pass the tests of the ops, over the emulator of the CUDA runtime."""

import os
import pathlib
import subprocess
import sys

import pytest
from tensorflow.python.framework import kernels

import tfcompress as tfc
from tfcompress import cuda, ops

ROOT = pathlib.Path(__file__).parents[2]
HERE = pathlib.Path(__file__).parent
LIBRARY = ROOT / "build" / "release" / "cc_tests" / "cuda" / "_tfcompress_emulated_ops.so"
# What every program begins with.
IMPORTS = """
import emulated_ops
import numpy as np
import tensorflow as tf
from tfcompress import _core, ops
"""


def run_emulated(*arguments: str, **variables: str) -> subprocess.CompletedProcess:
    """Runs Python in a process of its own, since two libraries cannot register one op."""
    if not LIBRARY.exists():
        pytest.skip(f"no {LIBRARY}: `make test-ci` builds it")
    path = os.pathsep.join([str(HERE), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ,
        "TFC_EMULATED_OPS": str(LIBRARY),
        "PYTHONPATH": path,
        "TF_CPP_MIN_LOG_LEVEL": "1",
        **variables,
    }
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)


def run_program(program: str, **variables: str) -> subprocess.CompletedProcess:
    """Runs a program after its imports; it may not fail."""
    result = run_emulated("-c", IMPORTS + program, **variables)
    assert result.returncode == 0, result.stderr[-4000:]
    return result


# Where packets are, and the tests that have some; payloads of linear codecs are on the device always.
TESTS_OF_OPS = {
    "host": ("test_ops.py", "test_shard_ops.py", "test_linear_ops.py"),
    "device": ("test_ops.py", "test_shard_ops.py"),
}


@pytest.mark.parametrize("place", TESTS_OF_OPS)
@pytest.mark.parametrize("options", [["--first-parameters"], pytest.param([], marks=pytest.mark.long)])
def test_the_tests_of_the_ops_pass(options, place):
    tests = [str(HERE / name) for name in TESTS_OF_OPS[place]]
    plugins = ("-p", "emulated_ops", "-p", "no:cacheprovider")
    result = run_emulated("-m", "pytest", *plugins, "-q", *options, *tests, TFC_PACKETS=place)
    assert result.returncode == 0, result.stdout[-4000:]


# By codecs: what of them has no variant for devices.
WITHOUT_VARIANT = {
    "raw|raw": None,
    "rle|raw": "index codec 'rle'",
    "huffman|raw": "index codec 'huffman'",
    "raw|poly": "value codec 'poly'",
    "threelc": "joint codec 'threelc'",
}

SUMS = """
import sys

# Decoding says so once for each op of a graph.
@tf.function
def decode_sum(frame, number):
    with tf.name_scope(f"codecs_{{number}}"):
        return ops.decode_sum(frame, 1, 1.0, [[1000]], [tf.float32])

for number, codecs in enumerate({all_codecs!r}):
    print("CODECS", codecs, file=sys.stderr, flush=True)
    spec = "residual|topk:ratio=0.1|" + codecs
    for _ in range(2):
        gradient = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
        slot = np.random.default_rng(2).standard_normal(1000).astype(np.float32)
        seed = tf.constant(7, tf.int64)
        frame, num_sent, nanoseconds, (new_slot,) = ops.encode(gradient, [slot], seed, spec)
        assert num_sent.numpy().astype("<u4").tobytes() == frame.numpy()[16:20].tobytes()
        assert frame.numpy().tobytes() == _core.encode(gradient, "float32", spec, seed=7, slots=[slot])
        assert new_slot.numpy().tobytes() == slot.tobytes() and nanoseconds > 0
        sums, num_bytes, nanoseconds, finite = decode_sum(frame, number)
        expected, _ = _core.decode_sum(frame.numpy(), 1, 1.0, [1000], ["float32"])
        assert sums[0].numpy().tobytes() == expected[0].tobytes()
        assert num_bytes.numpy() == [len(frame)] and nanoseconds[0] > 0 and finite.numpy().all()
"""


@pytest.fixture(scope="module")
def said_of():
    """What encoding and decoding twice says, by codecs; all in one process, since each imports TensorFlow."""
    result = run_program(SUMS.format(all_codecs=list(WITHOUT_VARIANT)))
    said = {codecs: [] for codecs in WITHOUT_VARIANT}
    _, *parts = result.stderr.split("CODECS ")
    assert len(parts) == len(said)
    for part in parts:
        codecs, *lines = part.splitlines()
        said[codecs] += lines
    return said


@pytest.mark.parametrize(("codecs", "without_variant"), WITHOUT_VARIANT.items())
def test_what_has_no_variant_is_done_on_the_host_and_says_so_once(codecs, without_variant, said_of):
    warnings = [line for line in said_of[codecs] if "runs on the host" in line]
    assert len(warnings) == (2 if without_variant else 0), said_of  # Of encoding, and of decoding.
    assert all(f"{without_variant} has no device variant" in line for line in warnings)


@pytest.mark.parametrize("place", TESTS_OF_OPS)
@pytest.mark.parametrize(
    ("sparsifier", "codecs"), [("dense", "raw|fp16"), ("topk:ratio=0.1", "delta_binary|raw")]
)
def test_a_gpu_that_the_build_has_no_code_for_goes_on_on_the_host(sparsifier, codecs, place):
    program = SUMS.replace("topk:ratio=0.1", sparsifier).format(all_codecs=[codecs])
    result = run_program(program, TFC_EMULATED_CODE="0", TFC_PACKETS=place)
    warnings = [line for line in result.stderr.splitlines() if "runs on the host" in line]
    assert len(warnings) == 2, result.stderr  # Of encoding, and of decoding.
    assert all("built for other GPUs than this one, by TFC_CUDA_ARCHITECTURES" in line for line in warnings)


RECOVERED = """
vector = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
for recovery in ("top", "heavymix", "heavymix"):
    spec = "count_sketch:rows=3,columns=500,k=30,recovery=" + recovery
    payload, nanoseconds = ops.linear_encode([vector], tf.constant(7, tf.int64), spec)
    assert payload.numpy().tobytes() == _core.linear_encode(vector, spec, 7).tobytes() and nanoseconds > 0
    indices, values, nanoseconds = ops.linear_recover(payload, 1000, tf.constant(7, tf.int64), spec)
    expected = _core.linear_recover(payload.numpy(), 1000, spec, 7)
    assert indices.numpy().tolist() == expected[0].tolist() and nanoseconds > 0
    assert values.numpy().tobytes() == expected[1].tobytes()
"""


def test_only_the_recovery_of_heavymix_is_done_on_the_host_and_says_so_once():
    result = run_program(RECOVERED)
    (warning,) = [line for line in result.stderr.splitlines() if "runs on the host" in line]
    assert "recovering" in warning and "'heavymix'" in warning


ONE_OF_EACH = """
tf.config.threading.set_inter_op_parallelism_threads(1)

gradient = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
linear = "count_sketch:rows=3,columns=500,k=30"
frame = _core.encode(gradient, "float32", "topk:ratio=0.1|raw|raw", seed=7, slots=[])
payload = _core.linear_encode(gradient, linear, 7)

# Constants would be folded: that runs an op before the graph runs.
@tf.function
def one_of_each(gradient, packets, payload):
    seed = tf.constant(7, tf.int64)
    encoded = ops.encode(gradient, [], seed, "topk:ratio=0.1|raw|raw")[0]
    sums = ops.decode_sum(packets, 1, 1.0, [[1000]], [tf.float32])[0]
    linearly_encoded = ops.linear_encode([gradient], seed, linear)[0]
    recovered = ops.linear_recover(payload, 1000, seed, linear)
    return encoded, sums[0], linearly_encoded, recovered[:2]

packets = tf.constant(np.frombuffer(frame, np.uint8))
outputs = one_of_each(tf.constant(gradient), packets, tf.constant(payload))
encoded, summed, linearly_encoded, recovered = outputs
assert encoded.numpy().tobytes() == frame
[expected], _ = _core.decode_sum(packets.numpy(), 1, 1.0, [1000], ["float32"])
assert summed.numpy().tobytes() == expected.tobytes()
assert linearly_encoded.numpy().tobytes() == payload.tobytes()
for found, expected in zip(recovered, _core.linear_recover(payload, 1000, linear, 7)):
    assert found.numpy().tolist() == expected.tolist()
"""


def test_no_op_waits_for_the_gpu_on_the_thread_that_launches_ops():
    """On the only thread that does, one op after another starts, and each waits until the others wait too."""
    run_program(ONE_OF_EACH, TFC_EMULATED_MEETING="4")


TOGETHER = """
SPEC = "residual|topk:ratio=0.1|delta_adaptive|uniform:bits=8"
gradients, slots = np.random.default_rng(1).standard_normal([2, 24, 500], np.float32)

@tf.function
def step(gradients, slots):
    seed = tf.constant(7, tf.int64)
    return [ops.encode(gradient, [slot], seed, SPEC) for gradient, slot in zip(gradients, slots)]

encoded = step(tf.unstack(gradients), tf.unstack(slots))
for (frame, _, _, (new_slot,)), gradient, slot in zip(encoded, gradients, slots):
    assert frame.numpy().tobytes() == _core.encode(gradient, "float32", SPEC, seed=7, slots=[slot])
    assert new_slot.numpy().tobytes() == slot.tobytes()
# Tensors of one size that are encoded together have equal shares of its time.
print(len({float(nanoseconds) for _, _, nanoseconds, _ in encoded}), "encodings")
"""


PIECES_TOGETHER = """
SPEC = "residual|topk:ratio=0.1|delta_adaptive|uniform:bits=8"
OWN = 1
# Of the last kind all elements are the rank's own, so that there is no frame.
CUTS = [[0, 200, 400, 600], [0, 600, 600, 600], [0, 0, 600, 600]]
gradients, slots = np.random.default_rng(1).standard_normal([2, 24, 600], np.float32)

def encode(i, gradient, slot):
    cuts, own, seed = tf.constant(CUTS[i % 3], tf.int64), tf.constant(OWN), tf.constant(7, tf.int64)
    return ops.encode_pieces(gradient, [slot], cuts, own, seed, SPEC)

@tf.function
def step(gradients, slots):
    return [encode(i, gradient, slot) for i, (gradient, slot) in enumerate(zip(gradients, slots))]

encoded = step(tf.unstack(gradients), tf.unstack(slots))
for i, (frames, num_bytes, num_sent, _, (slot,)) in enumerate(encoded):
    alone = encode(i, tf.constant(gradients[i]), tf.constant(slots[i]))
    assert frames.numpy().tobytes() == alone[0].numpy().tobytes()
    assert num_bytes.numpy().tolist() == alone[1].numpy().tolist() and num_bytes[OWN] == 0
    assert num_sent == alone[2] and slot.numpy().tobytes() == alone[4][0].numpy().tobytes()
    assert (len(frames) > 0) == (i % 3 < 2)
print(len({float(nanoseconds) for _, _, _, nanoseconds, _ in encoded}), "encodings")
"""


@pytest.mark.parametrize("program", [TOGETHER, PIECES_TOGETHER], ids=["whole", "pieces"])
def test_ops_that_come_while_others_are_encoded_share_an_encoding(program):
    assert int(run_program(program).stdout.split()[0]) <= 12


AT_ONCE = """
from concurrent.futures import ThreadPoolExecutor

SPECS = ["residual|topk:ratio=0.1|raw|raw", "residual|topk:ratio=0.1|rle|raw", "residual|topk:ratio|raw|raw"]

@tf.function
def encode(gradients, slots, spec):
    seed = tf.constant(7, tf.int64)
    return [ops.encode(gradient, [slot], seed, spec) for gradient, slot in zip(gradients, slots)]

def check(number):
    random, spec = np.random.default_rng(number), SPECS[number % 3]
    gradients, slots = random.standard_normal([2, 8, 500], np.float32)
    try:
        encoded = encode(tf.unstack(gradients), tf.unstack(slots), tf.constant(spec))
    except tf.errors.InvalidArgumentError as error:
        assert spec == SPECS[2] and "'topk:ratio'" in str(error), error
        return
    assert spec != SPECS[2]
    for (frame, _, _, (new_slot,)), gradient, slot in zip(encoded, gradients, slots):
        assert frame.numpy().tobytes() == _core.encode(gradient, "float32", spec, seed=7, slots=[slot])
        assert new_slot.numpy().tobytes() == slot.tobytes()

with ThreadPoolExecutor(6) as threads:
    list(threads.map(check, range(30)))
"""


@pytest.mark.parametrize("place", TESTS_OF_OPS)
def test_many_encodings_at_once_are_those_of_the_core(place):
    """Eight ops, each called from six threads with specs that take turns; one of them is an error."""
    run_program(AT_ONCE, TFC_PACKETS=place)


def test_what_has_no_way_over_the_host_has_variants_of_everything():
    """The ops of low-rank factors have no kernels for GPUs: TensorFlow places them on the CPU."""
    linear = [entry for entry in tfc.linear_codecs() if entry.name != "powersgd"]
    assert all(entry.device for entry in [*tfc.memories(), *linear])


# By op: what its kernel for GPUs has in host memory, besides packets.
ON_HOST = {
    "Encode": {"seed", "spec", "num_sent", "nanoseconds"},
    "DecodeSum": {"num_ranks", "scale", "shapes", "num_bytes", "nanoseconds", "finite"},
    "EncodePieces": {"cuts", "own", "seed", "spec", "num_bytes", "num_sent", "nanoseconds"},
    "SumPieces": {"num_ranks", "own", "sizes", "num_bytes", "nanoseconds", "finite", "error"},
    "EncodeSum": {"begin", "seed", "spec", "num_sent", "nanoseconds"},
    "DecodePieces": {"scale", "cuts", "shapes", "num_bytes", "nanoseconds", "finite"},
    "Compensate": {"spec"},
    "LinearEncode": {"seed", "spec", "nanoseconds"},
    "LinearRecover": {"n", "seed", "spec", "nanoseconds"},
    "SelectLargest": {"count"},
}

# Inputs and outputs that are packets, or frames that they are made of.
PACKETS = {
    "Encode": "frame",
    "DecodeSum": "packets",
    "EncodePieces": "frames",
    "SumPieces": "packets",
    "EncodeSum": "frame",
    "DecodePieces": "packets",
}

KERNELS = """
from tensorflow.python.framework import kernels

for op in {ops!r}:
    [kernel] = kernels.get_registered_kernels_for_op(f"Tfcompress>{{op}}").kernel
    print(op, *kernel.host_memory_arg)
"""


@pytest.mark.parametrize("place", TESTS_OF_OPS)
def test_kernels_for_gpus_have_in_host_memory_what_the_host_reads(place):
    result = run_program(KERNELS.format(ops=list(ON_HOST)), TFC_PACKETS=place)
    found = [line.split() for line in result.stdout.splitlines()]
    expected = ON_HOST if place == "device" else {op: ON_HOST[op] | packets_of(op) for op in ON_HOST}
    assert {op: set(names) for op, *names in found} == expected


def packets_of(op: str) -> set[str]:
    return {PACKETS[op]} if op in PACKETS else set()


@pytest.mark.skipif(cuda._cuda is None, reason="built without CUDA")
@pytest.mark.parametrize("op", ON_HOST)
def test_kernels_for_gpus_are_there_where_they_can_run(op):
    """Elsewhere TensorFlow places the op on the CPU."""
    expected = {"CPU", "GPU"} if cuda.is_available() else {"CPU"}
    ops._library()
    found = kernels.get_registered_kernels_for_op(f"Tfcompress>{op}").kernel
    assert {kernel.device_type for kernel in found} == expected
