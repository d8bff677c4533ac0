"""tfcompress.cuda: the whole path from arrays on a device, over the emulator of the CUDA runtime."""

import importlib.util
import pathlib

import numpy as np
import pytest

import tfcompress as tfc
from tfcompress import _core, cuda

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "build" / "release" / "cc_tests" / "cuda"
TYPESTR = {"float32": "<f4", "float16": "<f2", "uint16": "<u2", "float64": "<f8"}

SPECS = [
    "residual|topk:ratio=0.05|delta_binary|raw",
    "residual|topk:ratio=0.05|bloom:policy=p0|qsgd",
    "randomk:ratio=0.1|raw|fp16",
    "residual|threshold:tau=1|bitmap|sign",
    "dense|raw|ternary",
]


def load_emulated():
    paths = sorted(FOLDER.glob("_cuda_emulated.*.so"))
    if not paths:
        pytest.skip(f"no _cuda_emulated in {FOLDER}: `make test-ci` builds it", allow_module_level=True)
    specification = importlib.util.spec_from_file_location("_cuda_emulated", paths[0])
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


emulated = load_emulated()


class Array:
    """What CuPy and PyTorch offer of an array, over emulated memory."""

    def __init__(self, values, stream=None, readonly=False, strides=None, typestr=None, version=3):
        self.values = np.ascontiguousarray(values)
        self.address = emulated.allocate(max(self.values.nbytes, 1))
        emulated.write(self.address, self.values.tobytes(), 0)
        self.__cuda_array_interface__ = {
            "shape": self.values.shape,
            "typestr": typestr or TYPESTR[self.values.dtype.name],
            "data": (self.address if self.values.size else 0, readonly),
            "strides": strides,
            "version": version,
        }
        if version >= 3:
            self.__cuda_array_interface__["stream"] = stream

    def __del__(self):
        emulated.free(self.address)

    def get(self):
        data = emulated.read(self.address, self.values.nbytes)
        return np.frombuffer(data, self.values.dtype).reshape(self.values.shape)


class OnHost:
    def __init__(self, values):
        self.values = values
        self.__cuda_array_interface__ = values.__array_interface__


@pytest.fixture(autouse=True)
def over_the_emulator(monkeypatch):
    monkeypatch.setattr(cuda, "_cuda", emulated)


def gradient_of(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def bfloat16_bits(values):
    return (values.view(np.uint32) >> 16).astype(np.uint16)


class TestEncode:
    @pytest.mark.parametrize("spec", SPECS)
    @pytest.mark.parametrize("n", [0, 1, 3000])
    def test_bytes_and_memory_are_those_of_the_host(self, spec, n):
        gradient, slots = gradient_of(n), []
        if spec.startswith("residual"):
            slots = [gradient_of(n, seed=1)]
        on_device = [Array(slot) for slot in slots]
        frame = cuda.encode(Array(gradient), spec, seed=5, slots=on_device)
        assert frame == _core.encode(gradient, "float32", spec, seed=5, slots=slots)
        for found, expected in zip(on_device, slots, strict=True):
            assert found.get().tobytes() == expected.tobytes()

    @pytest.mark.parametrize("spec", SPECS)
    def test_a_memory_that_is_not_given_starts_empty(self, spec):
        gradient = gradient_of(3000)
        assert cuda.encode(Array(gradient), spec) == tfc.encode(gradient, spec)

    def test_shapes_and_half_precision(self):
        gradient = gradient_of(3000).reshape(30, 100)
        half = gradient.astype(np.float16)
        assert cuda.encode(Array(half), SPECS[0]) == tfc.encode(half, SPECS[0])
        bits = bfloat16_bits(gradient)
        expected = _core.encode(bits.reshape(-1), "bfloat16", SPECS[2])
        for typestr in ("<u2", "<i2", "<V2"):
            assert cuda.encode(Array(bits, typestr=typestr), SPECS[2], dtype="bfloat16") == expected

    def test_not_finite(self):
        gradient, slot = gradient_of(100), gradient_of(100, seed=1)
        gradient[7] = np.nan
        on_device = Array(slot)
        frame = cuda.encode(Array(gradient), SPECS[0], slots=[on_device])
        assert np.isnan(tfc.decode(frame)).all()
        assert on_device.get().tobytes() == slot.tobytes()

    @pytest.mark.parametrize("strides", [(400, 4), (4, 4)])
    def test_strides_of_contiguous_arrays(self, strides):
        shape = (1, 100) if strides == (4, 4) else (30, 100)
        gradient = gradient_of(shape[0] * 100).reshape(shape)
        assert cuda.encode(Array(gradient, strides=strides), SPECS[0]) == tfc.encode(gradient, SPECS[0])

    def test_version_2_has_no_stream(self):
        gradient = gradient_of(100)
        assert cuda.encode(Array(gradient, version=2), SPECS[0]) == tfc.encode(gradient, SPECS[0])


class TestStreams:
    """Emulated streams do nothing until somebody waits for them."""

    @pytest.fixture
    def stream(self):
        stream = emulated.make_stream()
        yield stream
        emulated.destroy_stream(stream)

    def pending(self, stream):
        """An array whose content is still to be written, on its stream; and the content."""
        array, content = Array(np.zeros(1000, np.float32), stream=stream), gradient_of(1000)
        self.bytes = content.tobytes()  # Must live until somebody waits.
        emulated.write(array.address, self.bytes, stream)
        return array, content

    def test_waits_for_the_arrays_stream(self, stream):
        array, content = self.pending(stream)
        assert cuda.encode(array, SPECS[0]) == tfc.encode(content, SPECS[0])

    @pytest.mark.parametrize("kind", ["number", "ptr", "cuda_stream"])
    def test_waits_for_the_arrays_stream_where_it_works_on_another(self, stream, kind):
        other = emulated.make_stream()
        array, content = self.pending(stream)
        given = other if kind == "number" else type("Stream", (), {kind: other})()
        assert cuda.encode(array, SPECS[0], stream=given) == tfc.encode(content, SPECS[0])
        emulated.destroy_stream(other)

    def test_waits_for_the_gpu_where_an_array_cannot_name_a_stream(self, stream):
        """As PyTorch's, whose interface is version 2."""
        array, content = Array(np.zeros(1000, np.float32), version=2), gradient_of(1000)
        data = content.tobytes()
        emulated.write(array.address, data, stream)
        assert cuda.encode(array, SPECS[0]) == tfc.encode(content, SPECS[0])

    def test_waits_for_the_slots_streams(self, stream):
        slot, content = self.pending(stream)
        gradient = gradient_of(1000, seed=3)
        frame = cuda.encode(Array(gradient), SPECS[0], slots=[slot])
        assert frame == _core.encode(gradient, "float32", SPECS[0], slots=[content])
        assert slot.get().tobytes() == content.tobytes()

    def test_works_on_the_stream_that_is_given(self, stream):
        array = Array(np.zeros(1000, np.float32))
        content = gradient_of(1000)
        data = content.tobytes()
        emulated.write(array.address, data, stream)
        assert cuda.encode(array, SPECS[0], stream=stream) == tfc.encode(content, SPECS[0])

    @pytest.mark.parametrize("stream_of_none", [1, 2, type("Null", (), {"ptr": 0})()])
    def test_default_streams(self, stream_of_none):
        gradient = gradient_of(100)
        frame = cuda.encode(Array(gradient), SPECS[0], stream=stream_of_none)
        assert frame == tfc.encode(gradient, SPECS[0])

    def test_stream_zero_is_ambiguous(self):
        with pytest.raises(ValueError, match="stream 0 could be either"):
            cuda.encode(Array(gradient_of(10), stream=0), SPECS[0])


class TestDecodeSum:
    def frames(self, gradients, spec=SPECS[0]):
        return [tfc.encode(gradient, spec, seed=i) for i, gradient in enumerate(gradients)]

    @pytest.mark.parametrize("spec", SPECS)
    @pytest.mark.parametrize("num_ranks", [1, 3])
    def test_sums_are_those_of_the_host(self, spec, num_ranks):
        packets = b"".join(self.frames([gradient_of(2000, i) for i in range(num_ranks)], spec))
        out = Array(np.full(2000, np.nan, np.float32))
        cuda.decode_sum(packets, out, num_ranks, scale=1 / num_ranks)
        (expected,), _ = _core.decode_sum(packets, num_ranks, 1 / num_ranks, [2000], ["float32"])
        assert out.get().tobytes() == expected.tobytes()

    def test_several_tensors_of_several_types(self):
        first, second = gradient_of(2000), gradient_of(300).astype(np.float16)
        packet = tfc.encode(first, SPECS[0]) + tfc.encode(second, SPECS[2])
        out = [Array(np.zeros_like(first)), Array(np.zeros((3, 100), np.float16))]
        cuda.decode_sum(memoryview(packet * 2), out, num_ranks=2, scale=0.5)
        expected, _ = _core.decode_sum(packet * 2, 2, 0.5, [2000, 300], ["float32", "float16"])
        for found, each in zip(out, expected, strict=True):
            assert found.get().tobytes() == each.tobytes()

    def test_bfloat16(self):
        bits = bfloat16_bits(gradient_of(500))
        frame = _core.encode(bits, "bfloat16", "dense|raw|bf16")
        out = Array(np.zeros(500, np.uint16))
        cuda.decode_sum(frame, out, dtype="bfloat16")
        np.testing.assert_array_equal(out.get(), bits)

    def test_broken_frames_name_rank_and_tensor(self):
        frames = self.frames([gradient_of(2000, i) for i in range(2)])
        broken = bytearray(frames[0] + frames[1])
        broken[len(frames[0]) + 100] ^= 1
        with pytest.raises(tfc.DataLossError, match="rank 1, tensor 0: .*checksum"):
            cuda.decode_sum(broken, Array(np.zeros(2000, np.float32)), num_ranks=2)
        with pytest.raises(tfc.DataLossError, match="rank 0, tensor 0"):
            cuda.decode_sum(frames[0], Array(np.zeros(1999, np.float32)))
        with pytest.raises(tfc.DataLossError):
            cuda.decode_sum(frames[0][:-1], Array(np.zeros(2000, np.float32)))

    def test_bad_arguments(self):
        (frame,) = self.frames([gradient_of(2000)])
        with pytest.raises(ValueError, match="out 0 is read-only"):
            cuda.decode_sum(frame, Array(np.zeros(2000, np.float32), readonly=True))
        with pytest.raises(ValueError, match="at least one"):
            cuda.decode_sum(frame, [])
        with pytest.raises(ValueError, match="num_ranks"):
            cuda.decode_sum(frame, Array(np.zeros(2000, np.float32)), num_ranks=0)


class TestBadArrays:
    def encode(self, array, spec="dense|raw|raw", **arguments):
        cuda.encode(array, spec, **arguments)

    def test_no_array_on_a_gpu(self):
        with pytest.raises(TypeError, match="array must be an array on a GPU.*got ndarray"):
            self.encode(gradient_of(10))
        with pytest.raises(ValueError, match="array is in host memory"):
            self.encode(OnHost(gradient_of(10)))

    def test_types(self):
        with pytest.raises(ValueError, match="elements of type '<f8'; what is compressed is float32"):
            self.encode(Array(np.zeros(10)))
        with pytest.raises(ValueError, match="type '<u2'"):
            self.encode(Array(np.zeros(10, np.uint16)))
        with pytest.raises(ValueError, match="'<f4' are not bfloat16"):
            self.encode(Array(gradient_of(10)), dtype="bfloat16")
        with pytest.raises(ValueError, match="'>f4'"):
            self.encode(Array(gradient_of(10), typestr=">f4"))

    @pytest.mark.parametrize("strides", [(4, 120), (800, 4), (-400, 4), (400,)])
    def test_not_contiguous(self, strides):
        with pytest.raises(ValueError, match="array is not C-contiguous"):
            self.encode(Array(gradient_of(3000).reshape(30, 100), strides=strides))

    @pytest.mark.parametrize("offset", [1, 2])
    def test_not_aligned(self, offset):
        array = Array(gradient_of(100))
        address, readonly = array.__cuda_array_interface__["data"]
        array.__cuda_array_interface__["data"] = (address + offset, readonly)
        with pytest.raises(ValueError, match="array is not aligned to its elements"):
            self.encode(array)

    def test_masked(self):
        array = Array(gradient_of(10))
        array.__cuda_array_interface__["mask"] = array
        with pytest.raises(ValueError, match="has a mask"):
            self.encode(array)

    def test_slots(self):
        gradient = Array(gradient_of(10))
        with pytest.raises(ValueError, match="slot 0 has 9 elements, the array has 10"):
            self.encode(gradient, SPECS[0], slots=[Array(gradient_of(9))])
        with pytest.raises(ValueError, match="slot 0 is read-only"):
            self.encode(gradient, SPECS[0], slots=[Array(gradient_of(10), readonly=True)])
        with pytest.raises(ValueError, match="'<f2' are not float32"):
            self.encode(gradient, SPECS[0], slots=[Array(np.zeros(10, np.float16))])
        with pytest.raises(ValueError, match="needs 1 slots, got 2"):
            self.encode(gradient, SPECS[0], slots=[Array(gradient_of(10)), Array(gradient_of(10))])
        with pytest.raises(ValueError, match="needs 0 slots, got 1"):
            self.encode(gradient, "dense|raw|raw", slots=[Array(gradient_of(10))])


class TestParts:
    def test_a_part_without_a_variant_is_named(self):
        without = [e.name for e in tfc.index_codecs() if not e.device]
        assert without
        for name in without:
            with pytest.raises(ValueError, match=f"index codec '{name}' has no device variant"):
                cuda.encode(Array(gradient_of(100)), f"topk|{name}|raw")

    def test_listing_agrees_with_what_is_accepted(self):
        for name in cuda.parts()["value_codecs"]:
            assert cuda.encode(Array(gradient_of(100)), f"topk|raw|{name}")
        assert cuda.parts()["memories"]["none"] == "yes"
        assert cuda.parts()["index_codecs"]["bloom"] == "yes"
        assert set(cuda.parts()) == {
            "memories",
            "sparsifiers",
            "index_codecs",
            "value_codecs",
            "joint_codecs",
        }


class TestWithoutCuda:
    def test_built_without(self, monkeypatch):
        monkeypatch.setattr(cuda, "_cuda", None)
        monkeypatch.setattr(cuda, "_reason", "no module", raising=False)
        assert not cuda.is_available()
        assert cuda.parts()["value_codecs"]
        with pytest.raises(RuntimeError, match="built without CUDA"):
            cuda.encode(object(), SPECS[0])
        with pytest.raises(RuntimeError, match="built without CUDA"):
            cuda.decode_sum(b"", object())

    def test_where_it_cannot_run(self, monkeypatch):
        module = type("Module", (), {"obstacle": staticmethod(lambda: "CUDA finds no GPU")})
        monkeypatch.setattr(cuda, "_cuda", module)
        assert not cuda.is_available()
        with pytest.raises(RuntimeError, match="no GPU"):
            cuda.encode(object(), SPECS[0])

    def test_the_emulator_counts_as_one(self):
        assert cuda.is_available()
