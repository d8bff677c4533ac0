"""Finds files of real data."""

import pathlib


def find(folder: pathlib.Path, name: str) -> pathlib.Path:
    """Returns the path of a file in a folder, gzipped or not.

    Raises:
      FileNotFoundError: The file is missing.
    """
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    raise FileNotFoundError(f"neither {name} nor {name}.gz is in {folder}")
