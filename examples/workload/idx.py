"""Images and labels in MNIST's format."""

import gzip
import pathlib

import numpy as np

from workload.files import find


def read(path: pathlib.Path) -> np.ndarray:
    """Reads one idx file of bytes, gzipped or not.

    Raises:
      ValueError: The file is not an idx file of bytes.
    """
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an idx file of bytes")
    dimensions = data[3]
    shape = np.frombuffer(data, ">u4", dimensions, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def read_part(folder: pathlib.Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads images and labels of "train" or "t10k": uint8 [m, height, width] and [m].

    Raises:
      FileNotFoundError: One of the two files is missing.
    """
    return tuple(read(find(folder, f"{part}-{kind}")) for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"))
