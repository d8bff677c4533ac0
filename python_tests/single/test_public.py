"""The public face: names, what they load, the one error of broken bytes, the program."""

import pathlib
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import tfcompress as tfc

ROOT = pathlib.Path(__file__).parents[2]


def run(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    "use",
    [
        "tfc.decode(tfc.encode(np.ones(100, np.float32), 'topk:ratio=0.1|bitmap|raw'))",
        "tfc.Compressor('topk|raw|raw')",
        "tfc.Compression.topk()",
        "tfc.make_compressor('dgc(0.01)')",
        "tfc.Schedule.warmup(tfc.Compression.dgc(), 10)",
        "tfc.PerVariable({'bias$': tfc.Compression.none}, tfc.Compression.topk())",
        "tfc.describe_spec('topk|raw|raw')",
        "tfc.codecs, tfc.catalogue, tfc.measure, tfc.DataLossError",
    ],
)
def test_arrays_and_policies_need_neither_tensorflow_nor_horovod(use):
    loaded = "sorted({'tensorflow', 'horovod', 'keras'} & set(sys.modules))"
    run(f"import sys, numpy as np, tfcompress as tfc\n{use}\nassert not {loaded}, {loaded}")


@pytest.mark.parametrize("name", tfc.__all__)
def test_every_public_name_is_there(name):
    assert getattr(tfc, name) is not None and name in dir(tfc)


def test_a_name_that_is_none_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'exchange_nothing'"):
        _ = tfc.exchange_nothing


def test_encode_takes_the_memory_of_earlier_steps():
    gradient = np.arange(100, dtype=np.float32)
    residual = np.zeros(100, np.float32)
    first = tfc.decode(tfc.encode(gradient, "residual|topk:ratio=0.1|raw|raw", slots=[residual]))
    np.testing.assert_array_equal(first + residual, gradient)
    second = tfc.decode(tfc.encode(0 * gradient, "residual|topk:ratio=0.1|raw|raw", slots=[residual]))
    np.testing.assert_array_equal(np.flatnonzero(second), np.arange(80, 90))


def broken_frame() -> bytes:
    frame = bytearray(tfc.encode(np.ones(100, np.float32), "dense|raw|raw"))
    frame[-1] ^= 1
    return bytes(frame)


def test_without_tensorflow_a_broken_frame_is_a_value_error():
    run(
        "import sys, tfcompress as tfc\n"
        "try: tfc.decode(b'TFCF')\n"
        "except tfc.DataLossError as error: assert isinstance(error, ValueError)\n"
        "else: raise SystemExit('no error')\n"
        "assert 'tensorflow' not in sys.modules\n"
    )


class TestWithTensorFlow:
    """`tfc.DataLossError` catches what arrays and what training raise."""

    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

    @pytest.mark.parametrize("function", [tfc.decode, tfc.inspect, tfc.codecs.decode_packet])
    def test_arrays(self, function):
        with pytest.raises(tfc.DataLossError, match="checksum|header|bytes") as caught:
            function(broken_frame()[: -20 if function is tfc.inspect else None])
        # Those who took the class before they imported TensorFlow, or know TensorFlow's, catch it too.
        assert isinstance(caught.value, ValueError) and isinstance(caught.value, self.tf.errors.DataLossError)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)

    def test_training(self):
        keras = pytest.importorskip("keras", reason="Keras is not installed")
        tf, packet = self.tf, np.frombuffer(broken_frame(), np.uint8)
        from tfcompress import ops

        class Model(keras.Model):
            def train_step(self, data):
                [total], *_ = ops.decode_sum(tf.constant(packet), 1, 1.0, [[100]], [tf.float32])
                return {"loss": tf.reduce_sum(total)}

        model = Model()
        model.compile()
        with pytest.raises(tfc.DataLossError, match="rank 0, tensor 0: checksum"):
            model.fit(np.zeros([4, 1], np.float32), verbose=0)


def test_the_console_script_is_the_command_line():
    scripts = re.search(r"\[project.scripts\]\n(.*)\n", (ROOT / "pyproject.toml").read_text())[1]
    assert scripts == 'tfcompress = "tfcompress.__main__:main"'
    program = "import sys; sys.argv[1:] = ['--version']; from tfcompress.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout == f"tfcompress {tfc.__version__}, frames of version {tfc.FORMAT_VERSION}\n"
