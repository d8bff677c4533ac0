"""Images and labels of CIFAR-10."""

import io
import pathlib
import pickle
import tarfile
from collections.abc import Callable

import numpy as np

SIZE, NUM_CLASSES = 32, 10
_PIXELS = 3 * SIZE * SIZE
_BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
# Functions that read each file, by name.
_Files = dict[str, Callable[[], bytes]]
# uint8 [m, 32, 32, 3] and int32 [m].
Images = tuple[np.ndarray, np.ndarray]


def read(path: pathlib.Path) -> tuple[Images, Images]:
    """Reads (images, labels) to train with and to test with.

    Args:
      path: A folder, or a tar archive, compressed or not, of six files: data_batch_1 to data_batch_5 and
        test_batch. They are the published binary version (.bin) or the published pickles (no suffix), or
        sheets: one lossless image for each batch (.png, .webp), tiles of 32 x 32 row by row, with a
        labels.npz of the arrays `train` and `test`. They may be in a subfolder.

    Raises:
      FileNotFoundError: The files are missing.
      ValueError: A file has other content.
    """
    files = _find(path)
    for suffix, decode in ((".bin", _decode_binary), ("", _decode_pickle)):
        if all(f"{batch}{suffix}" in files for batch in _BATCHES):
            return _split([_decode(decode, files, f"{batch}{suffix}") for batch in _BATCHES])
    for suffix in (".png", ".webp"):
        names = [f"{batch}{suffix}" for batch in _BATCHES]
        if all(name in files for name in [*names, "labels.npz"]):
            images = [_decode(_decode_sheet, files, name) for name in names]
            return _split(list(zip(images, _decode(_decode_labels, files, "labels.npz"), strict=True)))
    raise FileNotFoundError(
        f"no CIFAR-10 in {path}: expected data_batch_1 to data_batch_5 and test_batch, as .bin, as pickles "
        "without suffix, or as .png or .webp with labels.npz, in a folder or a tar archive"
    )


def _find(path: pathlib.Path) -> _Files:
    if path.is_dir():
        found = [file for pattern in ("*", "*/*") for file in path.glob(pattern) if file.is_file()]
        return {file.name: file.read_bytes for file in reversed(found)}
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if not tarfile.is_tarfile(path):
        raise ValueError(f"{path} is neither a folder nor a tar archive")
    with tarfile.open(path) as archive:
        # Read all members at once, since a compressed archive has no random access.
        members = [each for each in archive if each.isfile() and "_batch" in each.name]
        contents = {pathlib.PurePath(each.name).name: archive.extractfile(each).read() for each in members}
    return {name: io.BytesIO(content).getvalue for name, content in contents.items()}


def _decode(decode: Callable[[bytes], object], files: _Files, name: str) -> object:
    try:
        return decode(files[name]())
    # Broken pickles, archives and images raise undocumented exceptions.
    except Exception as error:
        raise ValueError(f"{name} is not a batch of CIFAR-10: {error}") from error


def _split(batches: list[Images]) -> tuple[Images, Images]:
    for name, (images, labels) in zip(_BATCHES, batches, strict=True):
        if len(images) != len(labels):
            raise ValueError(f"{name} has {len(images)} images, but {len(labels)} labels")
        if len(labels) and not 0 <= labels.min() <= labels.max() < NUM_CLASSES:
            raise ValueError(f"{name} has labels outside [0, {NUM_CLASSES})")
    *train, test = [(images, labels.astype(np.int32)) for images, labels in batches]
    return tuple(np.concatenate(part) for part in zip(*train, strict=True)), test


def _from_planes(pixels: np.ndarray) -> np.ndarray:
    """Converts the red, green and blue planes of CIFAR-10's files to pixels."""
    return np.ascontiguousarray(pixels.reshape(-1, 3, SIZE, SIZE).transpose(0, 2, 3, 1))


def _decode_binary(data: bytes) -> Images:
    records = np.frombuffer(data, np.uint8).reshape(-1, 1 + _PIXELS)
    return _from_planes(records[:, 1:]), records[:, 0]


def _decode_sheet(data: bytes) -> np.ndarray:
    try:
        import PIL.Image
    except ImportError as error:
        raise ValueError("reading sheets needs Pillow: pip install pillow") from error
    pixels = np.asarray(PIL.Image.open(io.BytesIO(data)).convert("RGB"))
    rows, columns = pixels.shape[0] // SIZE, pixels.shape[1] // SIZE
    tiles = pixels.reshape(rows, SIZE, columns, SIZE, 3).transpose(0, 2, 1, 3, 4)
    return tiles.reshape(-1, SIZE, SIZE, 3)


def _decode_labels(data: bytes) -> list[np.ndarray]:
    with np.load(io.BytesIO(data)) as arrays:
        return [*np.split(arrays["train"], len(_BATCHES) - 1), arrays["test"]]


class _Array:
    """Replaces an array in a pickle, and keeps its state."""

    state: tuple

    def __setstate__(self, state: tuple) -> None:
        self.state = state

    def pixels(self) -> np.ndarray:
        _, shape, dtype, column_major, data = self.state
        if dtype.name != "u1" or not isinstance(data, bytes):
            raise ValueError(f"expected an array of bytes, got {dtype.name}")
        return np.frombuffer(data, np.uint8).reshape(shape, order="F" if column_major else "C")


class _Dtype:
    """Replaces the type of an array in a pickle."""

    def __init__(self, name: str, *_: object) -> None:
        self.name = name

    def __setstate__(self, state: tuple) -> None:
        pass


class _Unpickler(pickle.Unpickler):
    """Loads numbers, bytes, lists and dicts, and replacements of NumPy's objects; calls nothing else.

    Plain pickle.load would run any code that a file names.
    """

    _ALLOWED = {
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Dtype,
        ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
        ("numpy._core.multiarray", "_reconstruct"): lambda *_: _Array(),  # As NumPy 2 writes it.
    }

    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"the pickle needs {module}.{name}, which no batch of CIFAR-10 does")
        return self._ALLOWED[module, name]


def _decode_pickle(data: bytes) -> Images:
    # The published files are Python 2's, where strings are bytes.
    batch = _Unpickler(io.BytesIO(data), encoding="bytes").load()
    return _from_planes(batch[b"data"].pixels()), np.array(batch[b"labels"], np.int64)
