"""Alternative packages from PyPI: which of them are installed, and adapters for compressors of bytes."""

import dataclasses
import importlib.util
import zlib
from collections.abc import Callable

OURS = "tfcompress"
PACKAGES = ("zstandard", "pyroaring", "rbloom", "datasketches", "tensorflow")


def missing() -> list[str]:
    return [package for package in PACKAGES if importlib.util.find_spec(package) is None]


@dataclasses.dataclass(frozen=True)
class ByteCompressor:
    """A compressor of any bytes, on one thread."""

    name: str
    package: str
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes], bytes]


def byte_compressor(name: str) -> ByteCompressor:
    """Returns the one of `byte_compressors` with this name, or exits and says what to install."""
    for each in byte_compressors():
        if each.name == name:
            return each
    raise SystemExit(f"{name} needs zstandard, which is not installed: `pip install zstandard`")


def byte_compressors() -> list[ByteCompressor]:
    """Returns zlib and Zstandard at their default levels, and Zstandard at a high one."""
    found = [ByteCompressor("zlib-6", "zlib", lambda data: zlib.compress(data, 6), zlib.decompress)]
    if "zstandard" in missing():
        return found
    import zstandard

    for level in (3, 19):
        compress = zstandard.ZstdCompressor(level=level, threads=0).compress
        decompress = zstandard.ZstdDecompressor().decompress
        found.append(ByteCompressor(f"zstd-{level}", "zstandard", compress, decompress))
    return found
