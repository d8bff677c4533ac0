"""Rows of a NumPy archive that holds a training and a test set in CSR form.

Its arrays are `train_data`, `train_indices`, `train_indptr` and `train_y`, the same for `test`, and
`n_features`.
"""

import pathlib

import numpy as np
import scipy.sparse

from sparse.rows import Block


def split_again(parts: tuple[Block, Block], test_share: float, seed: int) -> tuple[Block, Block]:
    """Returns training and test rows, drawn at random from those of both parts.

    Raises:
      ValueError: `test_share` is not in (0, 1).
    """
    if not 0 < test_share < 1:
        raise ValueError(f"the share of rows to test with must be in (0, 1), got {test_share}")
    rows = scipy.sparse.vstack([rows for rows, _ in parts], format="csr")
    labels = np.concatenate([labels for _, labels in parts])
    order = np.random.default_rng(seed).permutation(len(labels))
    train, test = np.split(order, [len(labels) - round(test_share * len(labels))])
    return (rows[train], labels[train]), (rows[test], labels[test])


def read_part(path: pathlib.Path, part: str) -> Block:
    """Returns all rows of "train" or "test", each scaled to a unit vector, and the unchanged labels.

    Word counts differ by three orders of magnitude between documents. The data sets of SKCompress have unit
    rows, too.

    Raises:
      ValueError: An array is missing, or the arrays are not a valid CSR matrix.
    """
    with np.load(path) as archive:
        try:
            arrays = [archive[f"{part}_{name}"] for name in ("data", "indices", "indptr")]
            labels, num_features = archive[f"{part}_y"], int(archive["n_features"])
        except KeyError as error:
            raise ValueError(f"{path}: {error.args[0]}") from error
    arrays[0] = arrays[0].astype(np.float32)
    try:
        rows = scipy.sparse.csr_matrix(tuple(arrays), shape=(len(labels), num_features))
        rows.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{path}: the {part} arrays are not a valid CSR matrix: {error}") from error
    norms = np.sqrt(rows.multiply(rows).sum(axis=1)).A1
    rows.data /= np.repeat(np.maximum(norms, np.finfo(np.float32).tiny), np.diff(rows.indptr))
    return rows, labels
