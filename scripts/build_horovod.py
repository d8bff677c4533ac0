#!/usr/bin/env python3
"""Builds a wheel of Horovod 0.28.1 for the TensorFlow of this interpreter, and installs it.

Horovod publishes no wheels, and its last release does not compile against current TensorFlow. This
script edits some places of its sources, see EDITS, and builds it with TensorFlow and Gloo only. The
wheel is kept in the user's cache, so that only the first set-up takes minutes.

    .venv/bin/python scripts/build_horovod.py             build, or take from the cache, and install
    .venv/bin/python scripts/build_horovod.py --no-install    only print the path of the wheel
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

HOROVOD_VERSION = "0.28.1"

# Imported by Horovod's setup.py, which predates setuptools 81. On Python >= 3.12 horovodrun imports
# the distutils that setuptools brings.
BUILD_REQUIREMENTS = ["setuptools<81", "wheel", "packaging"]

BUILD_ENVIRONMENT = {
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITHOUT_MPI": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    # Horovod's copy of Gloo requires CMake 2.8.12, which CMake >= 4 refuses without this.
    "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
    # Horovod's setup.py passes arguments that only make understands, for any generator.
    "CMAKE_GENERATOR": "Unix Makefiles",
    # Headers that Horovod forgot and GCC < 13 included by accident (horovod/horovod#3957).
    "CXXFLAGS": "-include cstdint -include stdexcept -include string",
}


class BuildError(Exception):
    """An error that the user can act on; printed without a traceback."""


@dataclasses.dataclass(frozen=True)
class Edit:
    """Text that must occur exactly once in a file of Horovod, and its replacement."""

    path: str
    old: str
    new: str
    min_tensorflow: tuple[int, int] = (0, 0)


EDITS = [
    # Includes XLA headers that TensorFlow wheels no longer carry, for code that only GPUs use.
    Edit(
        path="horovod/tensorflow/CMakeLists.txt",
        old='list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n',
        new="",
        min_tensorflow=(2, 16),
    ),
    # The context of a process set ignores HOROVOD_GLOO_IFACE and listens on the address that the
    # host's name resolves to.
    Edit(
        path="horovod/common/gloo/gloo_context.cc",
        old="  assert(global_context.IsEnabled());\n",
        new="  assert(global_context.IsEnabled());\n  gloo_iface_ = global_context.gloo_iface_;\n",
    ),
    # Gloo says that it is ready to receive after it has begun to send over the same connection,
    # behind the data: two ranks then send one after the other instead of at the same time.
    *(
        Edit(path=f"third_party/gloo/gloo/{file}", old=send + receive, new=receive + send)
        for file, send, receive in (
            (
                "alltoallv.cc",
                "    in->send(\n"
                "        sendRank, slot, inOffsetPerRank[sendRank], inLengthPerRank[sendRank]);\n",
                "    out->recv(\n"
                "        recvRank, slot, outOffsetPerRank[recvRank], outLengthPerRank[recvRank]);\n",
            ),
            (
                "allgatherv.cc",
                "      out->send(sendRank, slot, byteOffsets[sendIndex], byteCounts[sendIndex]);\n",
                "      out->recv(recvRank, slot, byteOffsets[recvIndex], byteCounts[recvIndex]);\n",
            ),
        )
    ),
]


def tensorflow_version() -> str:
    """Returns the version of the installed TensorFlow from its metadata: importing it takes seconds."""
    for name in ("tensorflow", "tensorflow-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise BuildError(f"{sys.executable} has no TensorFlow: install it first.")


def cache_folder(tf_version: str) -> pathlib.Path:
    """Returns the folder of the wheel, one for each TensorFlow, Python, and build recipe."""
    root = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    recipe = repr((HOROVOD_VERSION, EDITS, sorted(BUILD_ENVIRONMENT.items())))
    recipe_hash = hashlib.sha256(recipe.encode()).hexdigest()[:12]
    python_tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return root / "tfcompress" / "wheels" / f"{tf_version}-{python_tag}-{recipe_hash}"


def pip(*arguments: str, **options) -> None:
    command = [sys.executable, "-m", "pip", *arguments]
    try:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr, **options)
    except subprocess.CalledProcessError as error:
        raise BuildError(f"failed with status {error.returncode}: {' '.join(command)}") from error


def apply_edits(source: pathlib.Path, tf_version: str) -> None:
    match = re.match(r"(\d+)\.(\d+)", tf_version)
    if not match:
        raise BuildError(f"cannot read the TensorFlow version {tf_version!r}")
    running = (int(match[1]), int(match[2]))
    for edit in EDITS:
        if running < edit.min_tensorflow:
            continue
        path = source / edit.path
        text = path.read_text()
        if (count := text.count(edit.old)) != 1:
            raise BuildError(
                f"{edit.path} of Horovod {HOROVOD_VERSION} is not the file that this script knows: "
                f"expected once, found {count} times:\n{edit.old}"
            )
        path.write_text(text.replace(edit.old, edit.new))


def build(tf_version: str, scratch: pathlib.Path) -> pathlib.Path:
    """Returns the wheel, built below `scratch`."""
    pip("install", "--quiet", *BUILD_REQUIREMENTS)
    pip(
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary=:all:",
        "--no-build-isolation",
        f"--dest={scratch}",
        f"horovod=={HOROVOD_VERSION}",
    )
    with tarfile.open(scratch / f"horovod-{HOROVOD_VERSION}.tar.gz") as archive:
        archive.extractall(scratch)
    source = scratch / f"horovod-{HOROVOD_VERSION}"
    apply_edits(source, tf_version)

    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or len(os.sched_getaffinity(0))
    environment = {
        **os.environ,
        **BUILD_ENVIRONMENT,
        # Horovod would start eight compilers, each of which takes up to 2 GiB. MAKEFLAGS of an outer
        # make would refer to its job server.
        "MAKEFLAGS": f"-j{jobs}",
        # Finds a cmake that pip put next to this interpreter, activated or not.
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]),
    }
    # With build isolation, it would compile against another TensorFlow, or none.
    pip(
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "--no-cache-dir",
        f"--wheel-dir={scratch / 'wheels'}",
        str(source),
        env=environment,
    )
    (wheel,) = (scratch / "wheels").glob("horovod-*.whl")
    return wheel


def find_or_build(tf_version: str) -> pathlib.Path:
    folder = cache_folder(tf_version)
    cached = sorted(folder.glob("horovod-*.whl"))
    if cached:
        return cached[0]
    print(
        f"Building Horovod {HOROVOD_VERSION} for TensorFlow {tf_version}: some minutes, once.",
        file=sys.stderr,
    )
    with tempfile.TemporaryDirectory(prefix="build-horovod-") as scratch:
        wheel = build(tf_version, pathlib.Path(scratch))
        folder.mkdir(parents=True, exist_ok=True)
        # Copied under another name first, so that an interrupted copy is not used as a wheel.
        partial = folder / f"{wheel.name}.{os.getpid()}.partial"
        shutil.copyfile(wheel, partial)
        partial.replace(folder / wheel.name)
    return folder / wheel.name


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-install", action="store_true", help="only print the path of the wheel")
    arguments = parser.parse_args()
    try:
        wheel = find_or_build(tensorflow_version())
        if arguments.no_install:
            print(wheel)
        else:
            # Without --no-cache-dir pip may reuse a Horovod that it built for another TensorFlow.
            pip("install", "--quiet", "--no-cache-dir", "--force-reinstall", "--no-deps", str(wheel))
            pip("install", "--quiet", "cloudpickle", "psutil", "pyyaml", "packaging")
    except BuildError as error:
        print(f"build_horovod.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
