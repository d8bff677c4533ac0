"""Figures need matplotlib, which the other commands do without."""

import pathlib
import types


def figures_for(path: pathlib.Path | None) -> types.ModuleType | None:
    """Returns the module that draws figures, or None without a path.

    Raises:
      SystemExit: matplotlib is missing or cannot write the file. Raised before any work is done.
    """
    if path is None:
        return None
    try:
        from tfcompress.cli import figures
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "matplotlib":
            raise
        raise SystemExit("--plot needs matplotlib: pip install 'tfcompress[cli]'") from error
    figures.check(path)
    return figures
