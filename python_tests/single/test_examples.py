"""What the examples read and share, in one process."""

import gzip
import subprocess
import sys
import types

import numpy as np
import pytest

pytest.importorskip("workload", reason="the examples need Horovod")
import horovod.tensorflow as hvd
import horovod_job
import tensorflow as tf
import workload
from workload import idx
from workload.data import one_epoch

hvd.init()


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim])
    return header + np.array(array.shape, ">u4").tobytes() + array.astype(np.uint8).tobytes()


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files_are_read_as_they_were_written(tmp_path, suffix):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (7, 3, 5)), rng.integers(0, 10, 7)
    for name, array in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", labels)):
        data = idx_bytes(array)
        (tmp_path / f"train-{name}{suffix}").write_bytes(gzip.compress(data) if suffix else data)
    read_images, read_labels = idx.read_part(tmp_path, "train")
    np.testing.assert_array_equal(read_images, images)
    np.testing.assert_array_equal(read_labels, labels)


def test_a_file_that_is_no_idx_is_refused(tmp_path):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"\x89PNG....")
    with pytest.raises(ValueError, match="not an idx file"):
        idx.read_part(tmp_path, "train")
    with pytest.raises(FileNotFoundError, match="t10k-images"):
        idx.read_part(tmp_path, "t10k")


def test_an_epoch_has_every_example_once_but_for_the_last_batch():
    arguments = types.SimpleNamespace(seed=1, batch_size=4)
    x = np.arange(22, dtype=np.float32)
    data = workload.batches((x, x + 100), arguments)
    epochs = [np.concatenate([inputs.numpy() for inputs, _ in data]) for _ in range(2)]
    for epoch in epochs:
        assert len(epoch) == len(np.unique(epoch)) == 20
    assert (epochs[0] != epochs[1]).any()
    assert all((labels.numpy() == inputs.numpy() + 100).all() for inputs, labels in data)


@pytest.mark.parametrize("preload", [True, False])
def test_an_epoch_of_more_steps_than_the_data_has_takes_it_again(preload):
    epoch = one_epoch(tf.data.Dataset.range(3), types.SimpleNamespace(steps=7, preload=preload))
    assert [int(batch) for batch in epoch] == [0, 1, 2, 0, 1, 2, 0]
    assert int(epoch.cardinality()) == 7


@pytest.mark.parametrize(("preload", "made"), [(True, [0, 1, 2]), (False, [0, 1, 2, 0, 1, 2])])
def test_preloaded_batches_are_made_once_before_the_first_step(preload, made):
    so_far = []

    def batches():
        for number in range(5):
            so_far.append(number)
            yield number

    endless = tf.data.Dataset.from_generator(batches, output_signature=tf.TensorSpec([], tf.int32))
    epoch = one_epoch(endless, types.SimpleNamespace(steps=3, preload=preload))
    assert so_far == ([0, 1, 2] if preload else [])
    assert [[int(batch) for batch in epoch] for _ in range(2)] == [[0, 1, 2]] * 2
    assert so_far == made


def test_images_of_another_size_and_fewer_classes():
    import mnist_mlp

    arguments = types.SimpleNamespace(data_dir=None, image_size=4, classes=3)
    (images, labels), test = mnist_mlp.load(arguments)
    assert images.shape == (len(labels), 16) and set(labels) == {0, 1, 2} and len(test[1]) > 50
    whole = np.arange(16, dtype=np.float32)[None]
    np.testing.assert_array_equal(mnist_mlp.shrunk(whole, 2), [[2.5, 4.5, 10.5, 12.5]])
    with pytest.raises(SystemExit, match="does not divide the 4"):
        mnist_mlp.shrunk(whole, 3)


def test_messages_of_a_job_without_those_of_tensorflows_start(capfd):
    said = [
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        "I0000 00:00:1795655385.885078   16696 port.cc:153] oneDNN custom operations are on.",
        "[1]<stderr>:I0000 00:00:1795655385.885078   16696 port.cc:153] oneDNN custom operations are on.",
        "[1]<stderr>:W0000 00:00:1795655385.885078   16696 other.cc:1] A warning.",
        "[0]<stderr>:ValueError: wrong",
    ]
    program = "import sys; print('result'); print(*sys.argv[1:], sep='\\n', file=sys.stderr); sys.exit(3)"
    with pytest.raises(subprocess.CalledProcessError) as failed:
        horovod_job._run([sys.executable, "-c", program, *said], {})
    assert failed.value.returncode == 3
    assert capfd.readouterr() == ("result\n", "".join(f"{line}\n" for line in said[3:]))
