"""Alternative packages from PyPI: which of them are installed, and adapters for compressors of bytes.

The compressors' `encode` and `decode` map bytes to bytes, on one thread.
"""

import dataclasses
import importlib.util
import zlib
from collections.abc import Callable

OURS = "tfcompress"
PACKAGES = ("zstandard", "pyroaring", "rbloom", "datasketches", "tensorflow")


def missing() -> list[str]:
    return [package for package in PACKAGES if importlib.util.find_spec(package) is None]


@dataclasses.dataclass(frozen=True)
class Method:
    """A codec and the package that it is from; the modules that list methods say what these take."""

    name: str
    package: str
    encode: Callable
    decode: Callable


def byte_compressor(name: str) -> Method:
    """Returns the one of `byte_compressors` with this name, or exits and says what to install."""
    for each in byte_compressors():
        if each.name == name:
            return each
    raise SystemExit(f"{name} needs zstandard, which is not installed: `pip install zstandard`")


def byte_compressors() -> list[Method]:
    """Returns zlib and Zstandard at their default levels, and Zstandard at a high one."""
    found = [Method("zlib-6", "zlib", lambda data: zlib.compress(data, 6), zlib.decompress)]
    if "zstandard" in missing():
        return found
    import zstandard

    for level in (3, 19):
        compress = zstandard.ZstdCompressor(level=level, threads=0).compress
        decompress = zstandard.ZstdDecompressor().decompress
        found.append(Method(f"zstd-{level}", "zstandard", compress, decompress))
    return found
