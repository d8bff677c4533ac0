"""The module _core: that it binds the core as documented (the codecs have tests in C++)."""

import ast
import pathlib
import threading

import numpy as np
import pytest

from tfcompress import _core

KINDS = ["memories", "sparsifiers", "index_codecs", "value_codecs", "joint_codecs", "linear_codecs"]
EXACT = "topk:ratio=0.1|delta_binary|raw"


@pytest.fixture
def gradient() -> np.ndarray:
    return np.random.default_rng(0).standard_normal(1000, np.float32)


class TestSpecs:
    def test_canonical_spec_writes_every_parameter_and_no_empty_memory(self):
        canonical = _core.canonical_spec("none|topk|bloom:fpr=1e-3|raw")
        assert canonical.startswith("topk:ratio=")
        assert "fpr=0.001" in canonical
        assert _core.canonical_spec(canonical) == canonical

    def test_describe_product(self):
        found = _core.describe_spec("residual|topk:ratio=0.5|bitmap|fp16")
        assert found == {
            "spec": "residual|topk:ratio=0.5|bitmap|fp16",
            "linear": False,
            "memory": "residual",
            "num_slots": 1,
            "sparsifier": "topk:ratio=0.5",
            "index": "bitmap",
            "value": "fp16",
            "joint": None,
            "everything": False,
            "takes_rows": True,
        }

    def test_describe_joint(self):
        found = _core.describe_spec("nonzero|sketchml")
        assert (found["memory"], found["num_slots"]) == ("none", 0)
        assert (found["index"], found["value"]) == (None, None)
        assert found["joint"].startswith("sketchml:")
        assert found["takes_rows"] and not _core.describe_spec("dense|threelc")["takes_rows"]

    def test_describe_dense(self):
        found = _core.describe_spec("residual|dense|raw|fp16")
        assert found["everything"] is True
        assert (found["memory"], found["index"], found["value"]) == ("residual", "raw", "fp16")

    @pytest.mark.parametrize("function", [_core.canonical_spec, _core.describe_spec])
    def test_bad_spec_lists_what_is_known(self, function):
        with pytest.raises(ValueError, match="unknown value codec 'x'; known: raw, fp16"):
            function("topk|raw|x")

    @pytest.mark.parametrize("kind", KINDS)
    def test_registry(self, kind):
        rows = _core.registry(kind)
        assert rows
        for row in rows:
            assert set(row) == {"id", "name", "doc", "parameters", "error", "cost", "device"}
            assert 1 <= row["id"] <= 255
            assert row["name"] and row["doc"] and row["error"] and row["cost"]
            for parameter in row["parameters"]:
                assert parameter["kind"] in ("float", "int", "choice")
                assert parameter["name"] and parameter["doc"] and parameter["default"]
                if parameter["kind"] == "choice":
                    assert parameter["default"] in parameter["choices"]
                else:
                    default = float(parameter["default"])
                    assert parameter["min"] <= default <= parameter["max"]
        assert len({row["id"] for row in rows}) == len({row["name"] for row in rows}) == len(rows)

    def test_unknown_registry(self):
        with pytest.raises(ValueError, match="unknown registry 'codecs'; known: memories"):
            _core.registry("codecs")


class TestFrames:
    def test_same_bytes_as_the_op(self, gradient):
        tf = pytest.importorskip("tensorflow")
        from tfcompress import ops

        for spec in [EXACT, "topk:ratio=0.1|bloom:policy=p2|dexp", "dense|raw|quantile"]:
            spec = "residual|" + spec
            slot, variable = np.ones(1000, np.float32), tf.Variable(tf.ones(1000))
            found = _core.encode(gradient, "float32", spec, seed=3, slots=[slot])
            frame, *_, [new_slot] = ops.encode(gradient, [variable], tf.constant(3, tf.int64), spec)
            assert found == frame.numpy().tobytes()
            np.testing.assert_array_equal(slot, new_slot)

    def test_bytes_do_not_depend_on_the_number_of_threads(self):
        gradient = np.random.default_rng(0).standard_normal(300_000, np.float32)
        spec = "topk:ratio=0.01|bloom|raw"
        frames = {_core.encode(gradient, "float32", spec, num_threads=t) for t in (0, 1, 2, 5)}
        assert len(frames) == 1

    def test_several_python_threads_at_once(self, gradient):
        expected = _core.encode(gradient, "float32", EXACT)
        found = [None] * 8

        def work(i: int) -> None:
            found[i] = _core.encode(gradient, "float32", EXACT)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [expected] * 8

    def test_decode_yields_every_frame(self, gradient):
        half = gradient.astype(np.float16).view(np.uint16)
        packet = _core.encode(gradient, "float32", EXACT)
        packet += _core.encode(half, "float16", "dense|raw|raw")
        (name, decoded), (half_name, half_decoded) = _core.decode(packet)
        assert (name, half_name) == ("float32", "float16")
        assert np.count_nonzero(decoded) == 100
        np.testing.assert_array_equal(decoded[decoded != 0], gradient[decoded != 0])
        np.testing.assert_array_equal(half_decoded, half)

    def test_zeros_may_follow_the_last_frame_of_a_packet(self, gradient):
        packet = _core.encode(gradient, "float32", EXACT) * 2
        for padding in (1, 43, 44, 1000):
            padded = packet + bytes(padding)
            assert _core.inspect(padded) == _core.inspect(packet)
            for (_, found), (_, expected) in zip(_core.decode(padded), _core.decode(packet), strict=True):
                np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize("read", [_core.inspect, _core.decode])
    def test_zeros_alone_are_no_packet(self, read):
        assert read(b"") == []
        for padding in (1, 44, 1000):
            with pytest.raises(_core.DataLossError, match="frame 0: "):
                read(bytes(padding))

    @pytest.mark.parametrize("damage", [bytes(3) + b"T", b"\x01", b"T"])
    @pytest.mark.parametrize("read", [_core.inspect, _core.decode])
    def test_nothing_but_zeros_may_follow(self, gradient, damage, read):
        packet = _core.encode(gradient, "float32", EXACT)
        with pytest.raises(_core.DataLossError, match="frame 1: "):
            read(packet + damage)

    def test_frames_together_claim_no_more_than_one_may(self):
        """The tensors of a packet are refused before any of them is allocated."""
        frame = _core.encode(np.zeros(2**23, np.float32), "float32", "nonzero|raw|raw")
        assert len(frame) == 44
        assert [array.size for _, array in _core.decode(frame * 2)] == [2**23] * 2
        for count in (3, 1000):
            message = f"^{44 * count} bytes of frames claim {2**23 * count} elements"
            with pytest.raises(_core.DataLossError, match=message):
                _core.decode(frame * count)

    @pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
    def test_any_buffer_is_data(self, gradient, wrap):
        frame = _core.encode(gradient, "float32", EXACT)
        assert _core.inspect(wrap(frame)) == _core.inspect(np.frombuffer(frame, np.uint8))
        np.testing.assert_array_equal(_core.decode(wrap(frame))[0][1], _core.decode(frame)[0][1])

    def test_decode_sum(self, gradient):
        bits = (gradient[:5].view(np.uint32) >> 16).astype(np.uint16)
        ranks = [
            _core.encode(gradient * rank, "float32", "dense|raw|raw")
            + _core.encode(bits, "bfloat16", "dense|raw|raw")
            for rank in (1, 3)
        ]
        (mean, half), num_bytes = _core.decode_sum(
            b"".join(ranks), 2, 0.5, [1000, 5], ["float32", "bfloat16"]
        )
        np.testing.assert_allclose(mean, 2 * gradient, rtol=1e-6)
        np.testing.assert_array_equal(half, bits)
        assert sum(num_bytes) == len(ranks[0]) + len(ranks[1])

    def test_inspect(self, gradient):
        frame = _core.encode(gradient, "float32", EXACT, seed=2**64 - 1)
        (found,) = _core.inspect(frame)
        assert found.pop("index_bytes") + found.pop("value_bytes") + 44 == len(frame)
        assert found == {
            "num_bytes": len(frame),
            "header_bytes": 44,
            "version": 1,
            "n": 1000,
            "k": 100,
            "width": None,
            "dtype": "float32",
            "support": "index section",
            "nonfinite": False,
            "index": "delta_binary",
            "value": "raw",
            "joint": None,
            "seed": 2**64 - 1,
            "checksum_ok": True,
        }

    def test_inspect_of_other_supports(self, gradient):
        packet = _core.encode(gradient, "float32", "dense|raw|fp16")
        packet += _core.encode(gradient, "float32", "nonzero|sketchml")
        packet += _core.encode(gradient * np.nan, "float32", EXACT)
        dense, joint, nonfinite = _core.inspect(packet)
        assert (dense["support"], dense["index"], dense["value"]) == ("everything", None, "fp16")
        assert (joint["support"], joint["joint"], joint["value"]) == ("joint", "sketchml", None)
        assert (nonfinite["nonfinite"], nonfinite["num_bytes"], nonfinite["k"]) == (True, 44, 0)

    def test_inspect_tells_changed_values_and_decode_refuses_them(self, gradient):
        frame = bytearray(_core.encode(gradient, "float32", EXACT))
        frame[-1] ^= 1
        assert _core.inspect(frame)[0]["checksum_ok"] is False
        with pytest.raises(_core.DataLossError, match="frame 0: checksum"):
            _core.decode(frame)

    def test_every_strict_prefix_is_data_loss(self, gradient):
        frame = _core.encode(gradient[:100], "float32", EXACT)
        for length in range(1, len(frame)):
            with pytest.raises(_core.DataLossError):
                _core.decode(frame[:length])

    def test_data_loss_names_rank_and_tensor(self, gradient):
        frame = _core.encode(gradient, "float32", EXACT)
        message = "rank 1, tensor 0: truncated"
        with pytest.raises(_core.DataLossError, match=message):
            _core.decode_sum(frame, 2, 1.0, [1000], ["float32"])
        assert issubclass(_core.DataLossError, ValueError)

    def test_bad_arguments(self, gradient):
        def fails(match, *args, **kwargs):
            with pytest.raises(ValueError, match=match) as error:
                _core.encode(*args, **kwargs)
            assert not isinstance(error.value, _core.DataLossError)

        fails("dtype must be float32", gradient, "float64", EXACT)
        fails("1-D array of uint16, got float32", gradient, "float16", EXACT)
        fails("not contiguous", gradient[::2], "float32", EXACT)
        fails(r"shape \(10, 100\)", gradient.reshape(10, 100), "float32", EXACT)
        fails("needs 1 slots, got 0", gradient, "float32", "residual|" + EXACT)
        fails("num_threads must be at least 0", gradient, "float32", EXACT, num_threads=-1)
        short = [np.zeros(3, np.float32)]
        fails("slot 0 has 3 elements", gradient, "float32", "residual|" + EXACT, slots=short)
        frozen = np.zeros(1000, np.float32)
        frozen.flags.writeable = False
        fails("writ", gradient, "float32", "residual|" + EXACT, slots=[frozen])
        with pytest.raises(ValueError, match="2 dtype_names for 1 sizes"):
            _core.decode_sum(b"", 1, 1.0, [3], ["float32"] * 2)
        with pytest.raises(TypeError, match="bytes-like"):
            _core.decode(3)


class TestParts:
    def test_select(self):
        dense = np.array([0, -3, 1, 0, 2], np.float32)
        np.testing.assert_array_equal(_core.select("topk:ratio=0.4", dense), [1, 4])
        np.testing.assert_array_equal(_core.select("nonzero", dense), [1, 2, 4])
        np.testing.assert_array_equal(_core.select("dense", dense), np.arange(5))
        with pytest.raises(ValueError, match="dense must be finite"):
            _core.select("nonzero", dense * np.nan)

    def test_bad_arguments(self):
        indices, values = np.array([1, 5], np.uint32), np.ones(2, np.float32)
        with pytest.raises(ValueError, match="unknown index codec 'x'; known: raw"):
            _core.encode_indices("x", indices, 8)
        with pytest.raises(ValueError, match="unknown value codec 'x'; known: raw"):
            _core.decode_values("x", b"", indices, 8)
        with pytest.raises(ValueError, match="unknown parameter"):
            _core.encode_values("raw:a=1", values, indices, 8)
        with pytest.raises(ValueError, match="index 5 is outside"):
            _core.encode_indices("raw", indices, 5)
        with pytest.raises(ValueError, match="strictly increasing"):
            _core.encode_values("raw", values, indices[::-1].copy(), 8)
        with pytest.raises(ValueError, match="2 values for a support of 8"):
            _core.encode_values("raw", values, None, 8)
        with pytest.raises(ValueError, match="k = 9 is above 8"):
            _core.decode_indices("raw", b"", 8, 9)
        with pytest.raises(_core.DataLossError):
            _core.decode_indices("raw", b"\x01", 8, 2)
        with pytest.raises(_core.DataLossError):
            _core.decode_values("raw", b"\x01", None, 8)


class TestStub:
    """`_core.pyi`, which type checkers read, names what the module has."""

    @staticmethod
    def parameters(function: ast.FunctionDef) -> tuple[list[str], list[str]]:
        """The names of all parameters, and the defaults of the last ones."""
        arguments = function.args
        return [each.arg for each in arguments.args], [ast.unparse(each) for each in arguments.defaults]

    def test_stub_is_of_this_module(self):
        nodes = ast.parse(pathlib.Path(_core.__file__).with_name("_core.pyi").read_text()).body
        stub = {each.name: each for each in nodes if isinstance(each, ast.FunctionDef | ast.ClassDef)}
        constants = {
            each.target.id for each in nodes if isinstance(each, ast.AnnAssign) and each.value is None
        }
        assert stub.keys() | constants == {name for name in dir(_core) if not name.startswith("_")}
        for name, declared in stub.items():
            if isinstance(declared, ast.ClassDef):
                assert [base.id for base in declared.bases] == [getattr(_core, name).__base__.__name__]
                continue
            signature = getattr(_core, name).__doc__.strip().splitlines()[0]
            (defined,) = ast.parse(f"def {signature}: ...").body
            assert self.parameters(declared) == self.parameters(defined), name
