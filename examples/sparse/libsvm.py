"""Rows of libsvm files, streamed: `label feature:value feature:value ...`, features counted from 1."""

import bz2
import dataclasses
import gzip
import io
import itertools
import lzma
import operator
import pathlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import scipy.sparse

from sparse.rows import Block

_OPEN = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# Knuth's multiplicative hash, on 64 bits.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

# Number of a line, counted from 1, and its bytes.
_Line = tuple[int, bytes]


@dataclasses.dataclass(frozen=True)
class LibsvmFile:
    """A libsvm file.

    Attributes:
      path: The file, plain or with the suffix .gz, .bz2 or .xz.
      dimensions: Number of features, which are counted from 0 after reading.
      labels: Converts the labels of a block, float64 [m], to training labels.
      hashed: Whether features are hashed into `dimensions`; otherwise larger ones are an error.
      zero_based: Whether the file counts features from 0.
    """

    path: pathlib.Path
    dimensions: int
    labels: Callable[[np.ndarray], np.ndarray]
    hashed: bool = False
    zero_based: bool = False

    def blocks(
        self,
        rows_per_block: int,
        rank: int = 0,
        size: int = 1,
        *,
        equally_many: bool = False,
        wanted: Callable[[int], bool] | None = None,
    ) -> Iterator[Block]:
        """Reads every size-th row from the rank-th on. Holds one block in memory, never the file.

        Args:
          rows_per_block: Rows of a block; the last one may have fewer.
          rank: In [0, size).
          size: Number of ranks; all of them read the file.
          equally_many: Whether to leave out the last rows, so that all ranks have equally many.
          wanted: Whether to read the row with this number, counted from 0 (default: all rows).

        Raises:
          FileNotFoundError: There is no such file.
          ValueError: A line is malformed, or a feature or label is out of range; names the line.
        """
        with _OPEN.get(self.path.suffix, open)(self.path, "rb") as file:
            lines = _rows_of(file)
            if wanted is not None:
                lines = itertools.compress(lines, map(wanted, itertools.count()))
            if equally_many:
                mine = map(operator.itemgetter(rank), zip(*[lines] * size, strict=False))
            else:
                mine = itertools.islice(lines, rank, None, size)
            while part := list(itertools.islice(mine, rows_per_block)):
                yield self._parse(part)

    def _parse(self, lines: list[_Line]) -> Block:
        try:
            return self._parse_text(b"\n".join(text for _, text in lines))
        except (ValueError, OverflowError) as error:
            for number, text in lines:  # Only the error message needs the line.
                try:
                    self._parse_text(text)
                except (ValueError, OverflowError) as reason:
                    raise ValueError(f"{self.path}, line {number}: {reason}") from error
            raise

    def _parse_text(self, text: bytes) -> Block:
        from sklearn.datasets import load_svmlight_file

        rows, labels = load_svmlight_file(io.BytesIO(text), dtype=np.float32, zero_based=self.zero_based)
        if not (np.isfinite(rows.data).all() and np.isfinite(labels).all()):
            raise ValueError("a value or label is not a finite number")
        keys = rows.indices
        if self.hashed:
            keys = (keys.astype(np.uint64) * _MULTIPLIER >> np.uint64(32)) % np.uint64(self.dimensions)
        elif rows.shape[1] > self.dimensions:
            raise ValueError(
                f"feature {rows.shape[1] - self.zero_based} is beyond the {self.dimensions} dimensions: set "
                "--dimensions higher, or use --hash"
            )
        keyed = (rows.data, keys.astype(np.int64), rows.indptr)
        shape = (len(labels), self.dimensions)
        return scipy.sparse.csr_matrix(keyed, shape=shape), self.labels(labels)


def _rows_of(file: Iterable[bytes]) -> Iterator[_Line]:
    """Yields the lines that are rows, neither blank nor a comment."""
    for number, line in enumerate(file, 1):
        text = line.partition(b"#")[0].strip()
        if text:
            yield number, text
