"""MovieLens, in two formats."""

import gzip
import pathlib
from collections.abc import Iterable

import numpy as np
from interactions import Interactions, leave_one_out
from workload.files import find

RATINGS = "ratings.csv"


def load(folder: pathlib.Path, seed: int) -> Interactions:
    """Reads the files of the NCF paper, or else GroupLens's `ratings.csv`; gzipped or not.

    Args:
      folder: Folder of the files.
      seed: Seed to draw the test's negatives for `ratings.csv`; the files of the NCF paper contain them.

    Raises:
      FileNotFoundError: The folder has neither.
      ValueError: A file has another format.
    """
    names = {path.name.removesuffix(".gz") for path in folder.glob("*.train.rating*")}
    if len(names) > 1:
        raise ValueError(f"{folder} has several data sets, {', '.join(sorted(names))}: keep one in a folder")
    if names:
        return load_ncf(folder, names.pop().removesuffix(".train.rating"))
    try:
        return load_ratings(find(folder, RATINGS), seed)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{folder} has neither NAME.train.rating nor {RATINGS}, gzipped or not"
        ) from error


def load_ncf(folder: pathlib.Path, name: str) -> Interactions:
    """Reads `NAME.train.rating` and `NAME.test.negative`; `NAME.test.rating` adds no information.

    Lines of the first are "user item rating timestamp", of the second "(user,item) negative negative ...",
    with tabs.
    """
    users, items = _read(find(folder, f"{name}.train.rating"), dtype=np.int32, usecols=(0, 1)).T
    tests = _read(find(folder, f"{name}.test.negative"), dtype=np.int32)
    test_users, test_items = tests[:, 0], tests[:, 1:]
    return Interactions(
        num_users=1 + int(max(users.max(), test_users.max())),
        num_items=1 + int(max(items.max(), test_items.max())),
        users=users,
        items=items,
        test_users=test_users,
        test_items=test_items,
    )


def load_ratings(path: pathlib.Path, seed: int) -> Interactions:
    """Reads lines "userId,movieId,rating,timestamp" after a header; every rating is an interaction."""
    columns = _read(path, dtype=np.int64, usecols=(0, 1, 3), delimiter=",", skiprows=1)
    return leave_one_out(*columns.T, seed)


def _read(path: pathlib.Path, **options: object) -> np.ndarray:
    lines = _without_brackets(path) if path.name.removesuffix(".gz").endswith(".negative") else path
    try:
        return np.loadtxt(lines, ndmin=2, **options)
    except ValueError as error:
        raise ValueError(f"{path} is not in the format of MovieLens: {error}") from error


def _without_brackets(path: pathlib.Path) -> Iterable[str]:
    """Yields the lines with "(user,item)" split into two columns."""
    columns = str.maketrans({"(": None, ")": None, ",": "\t"})
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            yield line.translate(columns)
