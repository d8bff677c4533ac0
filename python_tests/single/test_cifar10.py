"""What examples/cifar10.py is made of: formats of the data, augmentation, models."""

import io
import pathlib
import pickle
import sys
import tarfile

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("keras", minversion="3")
import cifar10
import keras
import resnet
import workload
from workload import cifar, images

NUM_IMAGES = 4  # Of a batch: a sheet of 2 x 2 tiles.


@pytest.fixture(scope="module")
def batches():
    """(images, labels) by name."""
    rng = np.random.default_rng(0)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    shape = (NUM_IMAGES, 32, 32, 3)
    return {name: (rng.integers(256, size=shape, dtype=np.uint8), rng.integers(10, size=4)) for name in names}


def planes(pixels):
    return pixels.transpose(0, 3, 1, 2).reshape(NUM_IMAGES, -1)


def binary(pixels, labels):
    return np.hstack([labels[:, None].astype(np.uint8), planes(pixels)]).tobytes()


class Python2Pickler(pickle._Pickler):
    """Writes bytes as Python 2 wrote its strings, as the published pickles have them."""

    def save_string(self, data):
        self.write(pickle.BINSTRING + len(data).to_bytes(4, "little") + data)
        self.memoize(data)

    dispatch = {**pickle._Pickler.dispatch, bytes: save_string}


def pickle_of_python2(pixels, labels):
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump({b"data": planes(pixels), b"labels": labels.tolist()})
    return file.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def pickle_of_python3(pixels, labels):
    return pickle.dumps({b"data": planes(pixels), b"labels": labels.tolist()}, protocol=4)


def write(folder, batches, encode, suffix=""):
    for name, (pixels, labels) in batches.items():
        (folder / f"{name}{suffix}").write_bytes(encode(pixels, labels))


def write_sheets(folder, batches):
    image = pytest.importorskip("PIL.Image")
    for name, (pixels, _) in batches.items():
        sheet = pixels.reshape(2, 2, 32, 32, 3).transpose(0, 2, 1, 3, 4).reshape(64, 64, 3)
        image.fromarray(sheet).save(folder / f"{name}.png")
    *train, test = [labels for _, labels in batches.values()]
    np.savez(folder / "labels.npz", train=np.concatenate(train), test=test)


def check(path, batches):
    train, test = cifar.read(path)
    *expected, expected_test = batches.values()
    for part in range(2):
        np.testing.assert_array_equal(train[part], np.concatenate([batch[part] for batch in expected]))
        np.testing.assert_array_equal(test[part], expected_test[part])
    assert train[0].dtype == np.uint8 and train[1].dtype == np.int32


@pytest.mark.parametrize(
    "encode, suffix", [(binary, ".bin"), (pickle_of_python2, ""), (pickle_of_python3, "")]
)
def test_published_formats_in_folders_and_archives(batches, tmp_path, encode, suffix):
    folder = tmp_path / "cifar-10-batches"
    folder.mkdir()
    write(folder, batches, encode, suffix)
    check(folder, batches)
    check(tmp_path, batches)
    with tarfile.open(tmp_path / "cifar-10.tar.gz", "w:gz") as archive:
        archive.add(folder, folder.name)
    check(tmp_path / "cifar-10.tar.gz", batches)


def test_sheets(batches, tmp_path):
    write_sheets(tmp_path, batches)
    check(tmp_path, batches)


def test_a_pickle_that_wants_more_than_arrays_is_refused(batches, tmp_path):
    class Malicious:
        def __reduce__(self):
            return pathlib.Path.touch, (tmp_path / "touched",)

    write(tmp_path, batches, lambda *_: pickle.dumps({b"data": Malicious(), b"labels": []}))
    with pytest.raises(ValueError, match="which no batch of CIFAR-10 does"):
        cifar.read(tmp_path)
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(
    "encode, message",
    [
        (lambda pixels, labels: binary(pixels, labels)[:-1], "not a batch of CIFAR-10"),
        (lambda pixels, labels: binary(pixels, labels + 10), r"labels outside \[0, 10\)"),
    ],
)
def test_files_of_other_content_are_refused(batches, tmp_path, encode, message):
    write(tmp_path, batches, encode, ".bin")
    with pytest.raises(ValueError, match=message):
        cifar.read(tmp_path)


def test_what_is_missing_is_named(batches, tmp_path):
    write(tmp_path, batches, binary, ".bin")
    (tmp_path / "test_batch.bin").unlink()
    with pytest.raises(FileNotFoundError, match="expected data_batch_1"):
        cifar.read(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        cifar.read(tmp_path / "elsewhere")


def crops(padded):
    """All crops of 8 x 8 of an image of 16 x 16: [9, 9, 8, 8, channels]."""
    return np.lib.stride_tricks.sliding_window_view(padded, (8, 8), (0, 1)).transpose(0, 1, 3, 4, 2)


def test_augmentation_crops_and_mirrors():
    pixels = np.random.default_rng(0).random((16, 8, 8, 3), np.float32)
    seed = tf.constant([1, 2], tf.int64)
    moved = images.move_and_mirror(tf.constant(pixels), seed).numpy()
    padded = np.pad(pixels, ((0, 0), (4, 4), (4, 4), (0, 0)))
    found = []
    for original, image in zip(padded, moved, strict=True):
        candidates = np.stack([crops(original), crops(original)[:, :, :, ::-1]])
        [place] = np.argwhere((candidates == image).all(axis=(3, 4, 5)))
        found.append(tuple(place))
    assert len(set(found)) > 8 and {mirrored for mirrored, _, _ in found} == {0, 1}
    np.testing.assert_array_equal(moved, images.move_and_mirror(tf.constant(pixels), seed))
    assert (moved != images.move_and_mirror(tf.constant(pixels), seed + 1).numpy()).any()


def test_augmentation_differs_between_epochs_and_keeps_the_number_of_steps():
    pixels = np.random.default_rng(0).random((8, 8, 8, 3), np.float32)
    data = images.augment(tf.data.Dataset.from_tensor_slices((pixels, np.arange(8))).batch(4), seed=1)
    assert data.cardinality() == 2
    epochs = [[batch[0].numpy() for batch in data] for _ in range(2)]
    assert (np.array(epochs[0]) != np.array(epochs[1])).any()


def test_normalisation():
    pixels, _ = images.synthetic(100, 32, 10, seed=1)
    normalised = images.normaliser(pixels)(pixels).numpy()
    np.testing.assert_allclose(normalised.mean(axis=(0, 1, 2)), 0, atol=1e-3)
    np.testing.assert_allclose(normalised.std(axis=(0, 1, 2)), 1, atol=1e-3)


def test_made_up_images_have_classes_that_overlap():
    pixels, labels = images.synthetic(1000, 32, 10, seed=1)
    train, test = pixels[:800].reshape(800, -1) / 255.0, pixels[800:].reshape(200, -1) / 255.0
    means = np.stack([train[labels[:800] == label].mean(axis=0) for label in range(10)])
    nearest = ((test[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert 0.3 < (nearest == labels[800:]).mean() < 0.99
    np.testing.assert_array_equal(pixels, images.synthetic(1000, 32, 10, seed=1)[0])


@pytest.mark.parametrize(
    "name, num_parameters", [("resnet20", 269_722), ("densenet40", 1_019_722), ("resnet18", 11_173_962)]
)
def test_models_have_the_published_sizes(name, num_parameters):
    model = cifar10.MODELS[name]((32, 32, 3), 10)
    assert (
        sum(variable.value.shape.num_elements() for variable in model.trainable_variables) == num_parameters
    )
    assert model.output_shape == (None, 10)


def test_shortcut_without_parameters():
    x = np.random.default_rng(0).random((2, 8, 8, 3), np.float32)
    y = resnet.padded_shortcut(tf.constant(x), 5, 2).numpy()
    np.testing.assert_array_equal(y[..., :3], x[:, ::2, ::2])
    assert y.shape == (2, 4, 4, 5) and not y[..., 3:].any()


def test_weight_decay_is_none_of_the_momentum():
    optimizer = workload.sgd(0.9, weight_decay=0.1)(0.5)
    weight = keras.Variable([2.0, -4.0])
    for _ in range(2):
        optimizer.apply([tf.zeros(2)], [weight])
    np.testing.assert_allclose(weight.value, np.array([2.0, -4.0]) * 0.95**2, rtol=1e-6)


def test_adam_shrinks_weights_beside_its_steps():
    optimizer = cifar10.OPTIMIZERS["adam"](0.1)(0.5)
    weight = keras.Variable([2.0, -4.0])
    for _ in range(2):
        optimizer.apply([tf.zeros(2)], [weight])
    np.testing.assert_allclose(weight.value, np.array([2.0, -4.0]) * 0.95**2, rtol=1e-6)
    optimizer.apply([tf.constant([1.0, -1.0])], [weight])
    before = np.array([2.0, -4.0]) * 0.95**3
    assert weight.value[0] < before[0] and weight.value[1] > before[1]


def test_the_command_line_chooses_the_optimizer(monkeypatch):
    kinds = {"momentum": keras.optimizers.SGD, "adam": keras.optimizers.Adam}
    for name, kind in kinds.items():
        monkeypatch.setattr(sys, "argv", ["cifar10.py", "--optimizer", name])
        arguments = cifar10.parse_arguments()
        optimizer = cifar10.OPTIMIZERS[arguments.optimizer](arguments.weight_decay)(0.003)
        assert isinstance(optimizer, kind) and optimizer.weight_decay > 0
    monkeypatch.setattr(sys, "argv", ["cifar10.py"])
    assert cifar10.parse_arguments().optimizer == "momentum"


def test_resnet50_takes_no_data(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["cifar10.py", "--model", "resnet50", "--data-dir", "."])
    with pytest.raises(SystemExit):
        cifar10.parse_arguments()
    assert "leave --data-dir out" in capsys.readouterr().err
