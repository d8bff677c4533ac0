"""Chooses the op library that fits a TensorFlow; loads neither.

A library works with the minor version of TensorFlow that it was built for, and with no other: it uses
TensorFlow's C++ interface. A build from source has one library, a wheel one for each minor version.
"""

import pathlib
import re
import shlex
import sys

_FOLDER = pathlib.Path(__file__).parent
# What cc_ops/tf/built_for.cc leaves in a library.
_BUILT_FOR = re.compile(rb"tfcompress ops built for TensorFlow ([\w.+-]+)")
_PIP = f"{shlex.quote(sys.executable)} -m pip install"
# The sources that this package lies in, else those of the package index.
_SOURCES = (
    shlex.quote(str(_FOLDER.parent))
    if (_FOLDER.parent / "setup.py").is_file()
    else "--no-binary tfcompress tfcompress"
)
# Builds this package for the interpreter and the TensorFlow that are here; needs a compiler.
BUILD_COMMAND = (
    f"{_PIP} cmake ninja pybind11 setuptools wheel && {_PIP} --no-build-isolation --no-cache-dir "
    f"--force-reinstall --no-deps {_SOURCES}"
)


def find(version: str, folder: pathlib.Path = _FOLDER) -> pathlib.Path:
    """Returns the op library for a TensorFlow.

    Args:
      version: TensorFlow's, such as "2.21.0"; a library for another patch release of 2.21 fits, too.
      folder: Where to look.

    Raises:
      ImportError: There is no op library, or none for this minor version; says what there is, and what to do.
    """
    libraries = available(folder)
    if not libraries:
        raise ImportError(
            "tfcompress was built without TensorFlow, so it has no TensorFlow ops. Build it for TensorFlow "
            f"{version}: {BUILD_COMMAND}"
        )
    for path, built_version in libraries.items():
        if _minor(built_version) == _minor(version):
            return path
    raise ImportError(
        f"TensorFlow {version} is installed, but tfcompress has ops for TensorFlow {describe(libraries)} "
        f"only. Install one of these minor versions, or build tfcompress for this one: {BUILD_COMMAND}"
    )


def available(folder: pathlib.Path = _FOLDER) -> dict[pathlib.Path, str]:
    """Returns the op libraries, and the version of TensorFlow that each was built for.

    Args:
      folder: Where to look.
    """
    return {path: built_for(path) for path in sorted(folder.glob("_tfcompress_ops*.so"))}


def built_for(library: pathlib.Path) -> str:
    """Returns the version of TensorFlow that an op library was built for; "" where it does not say.

    Args:
      library: The file, which need not load.
    """
    match = _BUILT_FOR.search(library.read_bytes())
    return match[1].decode() if match else ""


def describe(libraries: dict[pathlib.Path, str]) -> str:
    """Returns the versions that libraries were built for, as text in ascending order."""
    versions = sorted(libraries.values(), key=lambda version: [int(n) for n in re.findall(r"\d+", version)])
    return ", ".join(version or "(a version that it does not tell)" for version in versions)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
