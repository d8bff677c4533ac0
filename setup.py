"""Builds the shared objects with CMake; everything else stands in pyproject.toml.

Where TensorFlow is installed:  pip install --no-build-isolation .     (-e . for development)

Where nvcc is found, the variants for GPUs are built, too. Environment variables choose:
  TFC_WITH_CUDA=OFF              not to; ON: to fail where there is no nvcc (default AUTO)
  TFC_CUDA_ARCHITECTURES=90      for which GPUs, as CUDA_ARCHITECTURES of CMake (default: all of 70 to
                                 120 that nvcc has, and PTX for newer ones)

For wheels (scripts/wheels.sh) the ops are built for several TensorFlows, none of which has to be installed:
  TFC_TF_FOLDERS="a/2.18.1;a/2.21.0"   their headers and libtensorflow_framework, as TFC_TF_FOLDERS of CMake
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).parent.resolve()
TF_FOLDERS = os.environ.get("TFC_TF_FOLDERS", "")
# Shared with `make test`, so that nothing is compiled twice; for wheels by all interpreters.
BUILD_FOLDER = ROOT / "build" / ("wheels/cmake" if TF_FOLDERS else "release")


def drop_stale_build():
    """Removes a build folder that belongs to another interpreter, checkout or vanished tool."""
    cache = BUILD_FOLDER / "CMakeCache.txt"
    if not cache.exists():
        return
    entries = dict(re.findall(r"^(\w+):\w+=(.*)$", cache.read_text(), re.MULTILINE))
    other_interpreter = entries.get("Python_EXECUTABLE") != sys.executable
    if (
        entries.get("CMAKE_HOME_DIRECTORY") != str(ROOT)
        or (other_interpreter and not TF_FOLDERS)
        # A build environment of pip is gone when pip is done, and its ninja with it.
        or not os.path.exists(entries.get("CMAKE_MAKE_PROGRAM", ""))
    ):
        shutil.rmtree(BUILD_FOLDER)
    elif other_interpreter:
        cache.unlink()  # What CMake found of the other one; the core and the ops need none.


def run(*command):
    environment = {
        "CMAKE_BUILD_PARALLEL_LEVEL": str(len(os.sched_getaffinity(0))),
        **os.environ,
        # Finds cmake and ninja next to this interpreter, activated or not.
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
    }
    if shutil.which("ninja", path=environment["PATH"]):
        environment.setdefault("CMAKE_GENERATOR", "Ninja")
    try:
        subprocess.run(command, check=True, env=environment)
    except FileNotFoundError:
        sys.exit("tfcompress: cmake not found; `pip install cmake ninja` brings it.")
    except subprocess.CalledProcessError as error:
        sys.exit(f"tfcompress: failed with status {error.returncode}: {' '.join(command)}")


class BuildWithCMake(build_ext):
    """Builds `_core`; `_tfcompress_ops*.so` where TensorFlow is importable; `_cuda` where nvcc is."""

    def run(self):
        if not TF_FOLDERS and importlib.util.find_spec("tensorflow") is None:
            print(
                f"tfcompress: {sys.executable} sees no TensorFlow, so the TensorFlow ops are NOT "
                "built, only the NumPy-level codecs. To build the ops, install TensorFlow first, "
                "then run `pip install --no-build-isolation .`",
                file=sys.stderr,
            )
        drop_stale_build()
        run(
            *("cmake", "-S", str(ROOT), "-B", str(BUILD_FOLDER)),
            *(f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=Release"),
            *("-DWITH_TF=AUTO", "-DWITH_PYBIND=ON", f"-DTFC_TF_FOLDERS={TF_FOLDERS}"),
            f"-DWITH_CUDA={os.environ.get('TFC_WITH_CUDA', 'AUTO')}",
            f"-DTFC_CUDA_ARCHITECTURES={os.environ.get('TFC_CUDA_ARCHITECTURES', '')}",
        )
        run("cmake", "--build", str(BUILD_FOLDER), "--target", "python_package")
        run("cmake", "--install", str(BUILD_FOLDER), "--prefix", str(self.prefix()))

    def prefix(self):
        in_place = self.inplace or self.editable_mode
        return ROOT if in_place else pathlib.Path(self.build_lib).resolve()

    def get_outputs(self):
        return [str(path) for path in (self.prefix() / "tfcompress").glob("*.so")]

    def get_output_mapping(self):
        return {}


# The extension only tells setuptools that the wheel depends on the platform.
setup(
    ext_modules=[Extension("tfcompress._core", sources=[])],
    cmdclass={"build_ext": BuildWithCMake},
)
