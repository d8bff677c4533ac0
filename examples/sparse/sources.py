"""Opens the source of rows that the command line names."""

import argparse
import functools
import pathlib
from collections.abc import Callable, Iterator

import horovod.tensorflow as hvd
import numpy as np

from sparse import csr_npz, labels
from sparse.libsvm import LibsvmFile
from sparse.rows import Block, Source, shared_rows, shuffled
from sparse.zipf import ZipfRows

DEFAULT_DIMENSIONS = 10_000_000
# Rows of a shuffle block, for files that are too large to shuffle as a whole.
_SHUFFLED_ROWS = 65_536
# Without a test file, every fourth row is for testing: 25 %, as in SKCompress 7.1.
_HELD_OUT = 4


def open_source(arguments: argparse.Namespace) -> Source:
    """Returns this rank's rows.

    Raises:
      SystemExit: A file is missing, or malformed in the part that is read here, or has less than one batch.
    """
    try:
        source = _choose(arguments)
        rows, _ = next(source.train(), (None, None))
    except (OSError, ValueError) as error:
        raise SystemExit(f"--data: {error}") from error
    if rows is None or rows.shape[0] < arguments.batch_size:
        raise SystemExit(
            f"{0 if rows is None else rows.shape[0]} training rows per rank are less than one batch of "
            f"{arguments.batch_size}: lower --batch-size"
        )
    return source


def _choose(arguments: argparse.Namespace) -> Source:
    if arguments.data is not None and arguments.data.suffix == ".npz":
        return _npz(_find(arguments.data, arguments.data_dir), arguments)
    if arguments.test_share is not None:
        raise ValueError("--test-share is for .npz archives")
    if arguments.data is None:
        return _zipf(arguments)
    return _libsvm(_find(arguments.data, arguments.data_dir), arguments)


def _find(name: pathlib.Path, folder: pathlib.Path | None) -> pathlib.Path:
    path = folder / name if folder else name
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return path


def _zipf(arguments: argparse.Namespace) -> Source:
    dimensions = arguments.dimensions or DEFAULT_DIMENSIONS
    classes = arguments.model != "linear"
    generator = ZipfRows(dimensions, arguments.nonzeros, arguments.seed, classes=classes)
    per_rank = arguments.rows // hvd.size()
    num_batches = per_rank // arguments.batch_size

    def blocks(part: int, num_blocks: int) -> Iterator[Block]:
        for number in range(num_blocks):
            yield generator.draw(arguments.batch_size, [arguments.seed, part, hvd.rank(), number])

    tested = max(num_batches // 16, 1)
    return Source(
        dimensions,
        train=lambda: blocks(0, num_batches),
        test=lambda: blocks(1, tested),
        num_rows=per_rank,
    )


def _npz(path: pathlib.Path, arguments: argparse.Namespace) -> Source:
    parts = csr_npz.read_part(path, "train"), csr_npz.read_part(path, "test")
    if arguments.test_share is not None:
        parts = csr_npz.split_again(parts, arguments.test_share, arguments.seed)
    (train_rows, train_labels), (test_rows, test_labels) = parts
    if arguments.model != "linear" and arguments.positive is None and np.unique(train_labels).size > 2:
        make_labels = functools.partial(labels.one_against_rest, positive=labels.first_half(train_labels))
    else:
        make_labels = _labels(arguments)
    num_rows = len(train_labels) // hvd.size()
    train = shared_rows((train_rows, make_labels(train_labels)), hvd.rank(), hvd.size())
    train = tuple(part[:num_rows] for part in train)
    test = shared_rows((test_rows, make_labels(test_labels)), hvd.rank(), hvd.size())
    rng = _shuffler(arguments)
    return Source(
        train_rows.shape[1],
        train=lambda: shuffled([train], rng),
        test=lambda: iter([test]),
        num_rows=num_rows,
    )


def _libsvm(path: pathlib.Path, arguments: argparse.Namespace) -> Source:
    dimensions = arguments.dimensions or DEFAULT_DIMENSIONS
    options = {
        "dimensions": dimensions,
        "labels": _labels(arguments),
        "hashed": arguments.hash,
        "zero_based": arguments.zero_based,
    }
    file = LibsvmFile(path, **options)
    mine = {"rank": hvd.rank(), "size": hvd.size()}
    rng = _shuffler(arguments)
    batches_per_block = max(_SHUFFLED_ROWS // arguments.batch_size, 1)
    read = functools.partial(file.blocks, batches_per_block * arguments.batch_size, **mine)
    test_file, held_out = file, lambda row: row % _HELD_OUT == _HELD_OUT - 1
    wanted = lambda row: not held_out(row)  # noqa: E731
    if arguments.test is not None:
        test_file = LibsvmFile(_find(arguments.test, arguments.data_dir), **options)
        held_out = wanted = None
    return Source(
        dimensions,
        train=lambda: shuffled(read(equally_many=True, wanted=wanted), rng),
        test=lambda: test_file.blocks(arguments.batch_size, **mine, wanted=held_out),
    )


def _shuffler(arguments: argparse.Namespace) -> np.random.Generator:
    return np.random.default_rng([arguments.seed, hvd.rank()])


def _labels(arguments: argparse.Namespace) -> Callable[[np.ndarray], np.ndarray]:
    if arguments.positive is not None:
        return functools.partial(labels.one_against_rest, positive=arguments.positive)
    return (lambda found: found.astype(np.float32)) if arguments.model == "linear" else labels.signs
