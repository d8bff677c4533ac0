"""Builds a wheel of Horovod 0.28.1 for the TensorFlow of this interpreter, and installs it.

Horovod publishes no wheels, and its last release does not compile against current TensorFlow. This program
edits some places of its sources, see EDITS, and builds it with TensorFlow and Gloo only. The wheel serves all
versions of Python: its library calls none. It is kept in the user's cache, so that only the first run takes
minutes.

    python -m tfcompress.build_horovod                      build, or take from the cache, and install
    python -m tfcompress.build_horovod --wheel-dir wheels   write the wheel to a folder, for other machines
    python -m tfcompress.build_horovod --check              only say whether what the build needs is there

It runs as a file, too, where the package is not installed yet: it imports nothing of it.
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
import time
from collections.abc import Callable

HOROVOD_VERSION = "0.28.1"

# What Horovod imports, which its wheel does not bring when it is installed without dependencies.
RUN_REQUIREMENTS = ["cloudpickle", "psutil", "pyyaml", "packaging"]

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


_STDERR = 2


class BuildError(Exception):
    """An error that the user can act on; printed without a traceback."""


@dataclasses.dataclass(frozen=True)
class Edit:
    """Text that must occur exactly once in a file of Horovod, its replacement, and the reason."""

    path: str
    old: str
    new: str
    min_tensorflow: tuple[int, int] = (0, 0)
    why: str = dataclasses.field(default="", repr=False)  # No part of the recipe.


EDITS = [
    Edit(
        path="horovod/tensorflow/CMakeLists.txt",
        old='list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n',
        new="",
        min_tensorflow=(2, 16),
        why="it includes XLA headers that TensorFlow's wheels no longer carry, for code that only GPUs use",
    ),
    Edit(
        path="horovod/common/gloo/gloo_context.cc",
        old="  assert(global_context.IsEnabled());\n",
        new="  assert(global_context.IsEnabled());\n  gloo_iface_ = global_context.gloo_iface_;\n",
        why="a process set ignored HOROVOD_GLOO_IFACE and listened on the address of the host's name",
    ),
    Edit(
        path="horovod/common/util.py",
        old="sysconfig.get_config_var('EXT_SUFFIX')",
        new="'.so'",
        why="the library's name had the version of Python in it: one wheel serves every version",
    ),
    Edit(
        path="third_party/flatbuffers/include/flatbuffers/stl_emulation.h",
        old="  const size_type count_;\n",
        new="  size_type count_;\n",
        why="a template that nothing uses assigns to this member: GCC 14 refuses that of a constant",
    ),
    *(
        Edit(
            path=f"third_party/gloo/gloo/{file}",
            old=send + receive,
            new=receive + send,
            why="it announced that it can receive behind what it sends: two ranks sent one after the other",
        )
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


@dataclasses.dataclass(frozen=True)
class Requirement:
    """Something that the build needs on this machine.

    Attributes:
      name: What it is.
      found: Its version or path; "" where it is missing.
      remedy: The command that brings it.
    """

    name: str
    found: str
    remedy: str


def tensorflow_version() -> str:
    """Returns the version of the installed TensorFlow; "" without one.

    It is read from its metadata: importing it takes seconds.
    """
    for name in ("tensorflow", "tensorflow-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def search_path() -> str:
    """Returns the PATH of the build: a cmake that pip put next to this interpreter comes first."""
    return os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])


def requirements() -> list[Requirement]:
    """Returns what the build needs, and whether it is there."""
    python, path = sys.executable, search_path()
    compiler = os.environ.get("CXX", "c++").partition(" ")[0]
    return [
        Requirement("TensorFlow", tensorflow_version(), f"{python} -m pip install tensorflow"),
        Requirement("CMake", shutil.which("cmake", path=path) or "", f"{python} -m pip install cmake"),
        Requirement(
            f"a C++ compiler ({compiler})",
            shutil.which(compiler, path=path) or "",
            "apt-get install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora, RHEL), or set CXX",
        ),
        Requirement(
            "make",
            shutil.which("make", path=path) or "",
            "apt-get install make (Debian, Ubuntu), dnf install make (Fedora, RHEL)",
        ),
    ]


def check(needed: list[Requirement]) -> None:
    """Says what the build needs and has.

    Raises:
      BuildError: Something is missing; names all of it, with the commands that bring it.
    """
    for each in needed:
        say(f"needs {each.name}: {each.found or 'missing'}")
    if missing := [each for each in needed if not each.found]:
        lines = [f"  {each.name}: {each.remedy}" for each in missing]
        raise BuildError("\n".join(["the build needs what is missing here:", *lines]))


def say(text: str) -> None:
    """Prints a line of progress to stderr: stdout has the path of the wheel alone."""
    print(f"build_horovod: {text}", file=sys.stderr, flush=True)


def cache_folder(tf_version: str) -> pathlib.Path:
    """Returns the folder of the wheel, one for each TensorFlow and build recipe."""
    root = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    recipe = repr((HOROVOD_VERSION, EDITS, sorted(BUILD_ENVIRONMENT.items())))
    recipe_hash = hashlib.sha256(recipe.encode()).hexdigest()[:12]
    return root / "tfcompress" / "wheels" / f"{tf_version}-{recipe_hash}"


def pip(*arguments: str) -> None:
    """Runs pip of this interpreter.

    Raises:
      BuildError: It failed.
    """
    run_module("pip", *arguments)


def run_module(name: str, *arguments: str) -> None:
    """Runs a module of this interpreter; what it prints goes to stderr.

    Raises:
      BuildError: It failed.
    """
    command = [sys.executable, "-m", name, *arguments]
    try:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=_STDERR)
    except subprocess.CalledProcessError as error:
        raise BuildError(f"failed with status {error.returncode}: {' '.join(command)}") from error


def download(scratch: pathlib.Path) -> pathlib.Path:
    """Returns the folder of Horovod's sources, unpacked below `scratch`."""
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
    return scratch / f"horovod-{HOROVOD_VERSION}"


def apply_edits(source: pathlib.Path, tf_version: str) -> None:
    """Edits Horovod's sources in a folder, for a version of TensorFlow.

    Raises:
      BuildError: The version cannot be read, or a file is not the one that EDITS knows.
    """
    match = re.match(r"(\d+)\.(\d+)", tf_version)
    if not match:
        raise BuildError(f"cannot read the TensorFlow version {tf_version!r}: expected one such as 2.21.0")
    running = (int(match[1]), int(match[2]))
    for edit in EDITS:
        if running < edit.min_tensorflow:
            continue
        path = source / edit.path
        text = path.read_text()
        if (count := text.count(edit.old)) != 1:
            raise BuildError(
                f"{edit.path} of Horovod {HOROVOD_VERSION} is not the file that this program knows: "
                f"expected once, found {count} times:\n{edit.old}"
            )
        say(f"edits {edit.path}: {edit.why}")
        path.write_text(text.replace(edit.old, edit.new))


def compile_wheel(source: pathlib.Path, wheels: pathlib.Path, log: pathlib.Path) -> pathlib.Path:
    """Returns the wheel of some sources.

    Args:
      source: Horovod's sources, edited.
      wheels: The folder to write it to.
      log: The file for what the compilers say.

    Raises:
      BuildError: It does not compile; has the end of the log.
    """
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or len(os.sched_getaffinity(0))
    environment = {
        **os.environ,
        **BUILD_ENVIRONMENT,
        # Horovod would start eight compilers, each of which takes up to 2 GiB. MAKEFLAGS of an outer
        # make would refer to its job server.
        "MAKEFLAGS": f"-j{jobs}",
        "PATH": search_path(),
    }
    command = [sys.executable, "-m", "pip", "wheel", "--verbose", "--no-deps", "--no-cache-dir"]
    # With build isolation, it would compile against another TensorFlow, or none.
    command += ["--no-build-isolation", f"--wheel-dir={wheels}", str(source)]
    with log.open("w") as file:
        status = run_with_progress(command, environment, file.write)
    if status:
        # What follows is pip's account of its own command.
        built, _, _ = log.read_text(errors="replace").partition("error: subprocess-exited-with-error")
        end = "\n".join(built.splitlines()[-40:])
        raise BuildError(f"{end}\nfailed with status {status}: {' '.join(command)}\nall of it: {log}")
    (wheel,) = wheels.glob("horovod-*.whl")
    return wheel


def for_every_python(wheel: pathlib.Path, scratch: pathlib.Path) -> pathlib.Path:
    """Returns a wheel that differs in its name, and its library's: neither has the version of Python.

    Args:
      wheel: The wheel.
      scratch: A folder to unpack it in, and to write to.

    Raises:
      BuildError: It cannot be unpacked or packed.
    """
    run_module("wheel", "unpack", f"--dest={scratch / 'unpacked'}", str(wheel))
    (folder,) = (scratch / "unpacked").iterdir()
    for library in folder.rglob("*.cpython-*.so"):
        library.rename(library.with_name(f"{library.name.partition('.')[0]}.so"))
    packed = scratch / "packed"
    packed.mkdir()
    run_module("wheel", "pack", f"--dest-dir={packed}", str(folder))
    tags = ["--remove", "--python-tag=py3", "--abi-tag=none"]
    run_module("wheel", "tags", *tags, *map(str, packed.iterdir()))
    (renamed,) = packed.iterdir()
    return renamed


def run_with_progress(command: list[str], environment: dict[str, str], write: Callable[[str], object]) -> int:
    """Runs a build, says each further tenth that make reports, and returns the exit status.

    Args:
      command: The program and its arguments.
      environment: All of its environment.
      write: Is called with each line of its output.
    """
    begin, told = time.monotonic(), 0
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            write(line)
            match = re.match(r"\s*\[ *(\d+)%\] ", line)
            if match and int(match[1]) // 10 > told:
                told = int(match[1]) // 10
                say(f"compiled {10 * told} % after {time.monotonic() - begin:.0f} s")
    return process.returncode


def find_or_build(tf_version: str) -> pathlib.Path:
    """Returns the wheel for a version of TensorFlow, from the cache if it is there.

    Raises:
      BuildError: Something is missing that the build needs, or the build failed.
    """
    folder = cache_folder(tf_version)
    cached = sorted(folder.glob("horovod-*.whl"))
    if cached:
        say(f"taken from the cache: {cached[0]}")
        return cached[0]
    check(requirements())
    say(f"builds Horovod {HOROVOD_VERSION} for TensorFlow {tf_version}: some minutes, once")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-horovod-") as name:
        scratch = pathlib.Path(name)
        pip("install", "--quiet", *BUILD_REQUIREMENTS)
        say("downloads the sources")
        source = download(scratch)
        apply_edits(source, tf_version)
        say("compiles")
        wheel = compile_wheel(source, scratch / "wheels", folder / "build.log")
        return copy(for_every_python(wheel, scratch), folder)


def copy(wheel: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Copies a wheel to a folder, which is made; an interrupted copy leaves no wheel there."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{wheel.name}.{os.getpid()}.partial"
    shutil.copyfile(wheel, partial)
    return partial.replace(folder / wheel.name)


def install(wheel: pathlib.Path) -> None:
    """Installs a wheel for this interpreter."""
    # Without --no-cache-dir pip may reuse a Horovod that it built for another TensorFlow.
    pip("install", "--quiet", "--no-cache-dir", "--force-reinstall", "--no-deps", str(wheel))
    pip("install", "--quiet", *RUN_REQUIREMENTS)
    say(f"installed {wheel.name}")


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """Parses a command line."""
    parser = argparse.ArgumentParser(
        prog="build_horovod", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--check", action="store_true", help="only say what the build needs, and has")
    instead.add_argument("--no-install", action="store_true", help="only print the path of the wheel")
    instead.add_argument(
        "--wheel-dir",
        type=pathlib.Path,
        metavar="DIR",
        help="write the wheel here, install nothing: for machines with the same TensorFlow",
    )
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    """Runs the program; returns the exit status: 1 where something is missing or failed."""
    arguments = parse(words)
    try:
        if arguments.check:
            check(requirements())
            return 0
        tf_version = tensorflow_version()
        if not tf_version:
            check(requirements())
        wheel = find_or_build(tf_version)
        if arguments.wheel_dir:
            print(copy(wheel, arguments.wheel_dir))
        elif arguments.no_install:
            print(wheel)
        else:
            install(wheel)
    except BuildError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
