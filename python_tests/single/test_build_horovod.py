"""The builder of Horovod, with sources that are made up: Horovod itself takes minutes."""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

from tfcompress import build_horovod
from tfcompress.build_horovod import EDITS, BuildError, Requirement

ROOT = pathlib.Path(__file__).parents[2]
SETUP = """
import setuptools
print("[  3%] Building CXX object a.o\\n[ 50%] Building CXX object b.o\\n[100%] Linking")
{last}
class Distribution(setuptools.Distribution):
    def has_ext_modules(self):
        return True
setuptools.setup(
    name="horovod",
    version="0.28.1",
    packages=["horovod"],
    package_data={{"": ["*.so"]}},
    distclass=Distribution,
)
"""


@pytest.fixture
def source(tmp_path) -> pathlib.Path:
    """A folder with the files that are edited."""
    folder = tmp_path / "horovod-0.28.1"
    for edit in EDITS:
        path = folder / edit.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"before\n{edit.old}after\n")
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch) -> pathlib.Path:
    """The empty folder of the wheel."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return build_horovod.cache_folder("2.21.0")


@pytest.fixture
def no_download(monkeypatch, source):
    """Uses the made-up sources, and lets pip install nothing."""
    monkeypatch.setattr(build_horovod, "download", lambda scratch: source)
    monkeypatch.setattr(build_horovod, "pip", lambda *arguments: None)
    monkeypatch.setattr(build_horovod, "tensorflow_version", lambda: "2.21.0")


@pytest.mark.parametrize("version", ["2.15.1", "2.21.0", "2.22.0rc1"])
def test_every_edit_is_made_once_and_explained(source, version, capsys):
    build_horovod.apply_edits(source, version)
    said = capsys.readouterr().err
    for edit in EDITS:
        is_made = not version.startswith("2.15") or edit.min_tensorflow < (2, 16)
        wanted = edit.new if is_made else edit.old
        assert (source / edit.path).read_text() == f"before\n{wanted}after\n"
        assert edit.why and (f"edits {edit.path}: {edit.why}" in said) == is_made


def test_other_sources_and_versions_are_refused(source):
    with pytest.raises(BuildError, match="'nightly': expected one such as"):
        build_horovod.apply_edits(source, "nightly")
    (source / EDITS[-1].path).write_text(2 * EDITS[-1].old)
    with pytest.raises(BuildError, match="allgatherv.cc of Horovod 0.28.1.*found 2 times"):
        build_horovod.apply_edits(source, "2.21.0")


def test_all_that_is_missing_is_named_before_anything_starts(cache, monkeypatch, capsys):
    monkeypatch.setattr(build_horovod.shutil, "which", lambda name, path: None)
    monkeypatch.setattr(build_horovod, "tensorflow_version", lambda: "")
    for arguments in ([], ["--check"], ["--wheel-dir", "wheels"]):
        assert build_horovod.main(arguments) == 1
        said = capsys.readouterr().err
        for remedy in ("pip install tensorflow", "pip install cmake", "apt-get install g++", "install make"):
            assert remedy in said
    assert not cache.exists()


def test_a_compiler_that_the_environment_names_is_looked_for(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    [compiler] = [each for each in build_horovod.requirements() if "compiler" in each.name]
    assert compiler == Requirement("a C++ compiler (no-such-compiler)", "", compiler.remedy)


def test_a_wheel_in_the_cache_is_taken(cache, no_download, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(build_horovod, "download", lambda scratch: pytest.fail("builds again"))
    cache.mkdir(parents=True)
    (cache / "horovod-0.28.1-x.whl").write_text("wheel")
    assert build_horovod.main(["--no-install"]) == 0
    assert capsys.readouterr().out == f"{cache / 'horovod-0.28.1-x.whl'}\n"
    assert build_horovod.main(["--wheel-dir", str(tmp_path / "new" / "folder")]) == 0
    copied = tmp_path / "new" / "folder" / "horovod-0.28.1-x.whl"
    assert copied.read_text() == "wheel" and capsys.readouterr().out == f"{copied}\n"
    assert list(copied.parent.iterdir()) == [copied]


def test_a_build_shows_progress_and_fills_the_cache(cache, no_download, source, capsys):
    (source / "setup.py").write_text(SETUP.format(last=""))
    (source / "horovod" / "mpi_lib.cpython-311-x86_64-linux-gnu.so").write_text("library")
    assert build_horovod.main(["--no-install"]) == 0
    [wheel] = cache.glob("*.whl")
    printed = capsys.readouterr()
    assert printed.out == f"{wheel}\n" and wheel.name.startswith("horovod-0.28.1-py3-none-linux_")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("horovod/mpi_lib.so") == b"library"
    assert "compiled 50 % after" in printed.err and "compiled 100 % after" in printed.err
    assert "compiled 0 %" not in printed.err
    assert not list(cache.glob("*.partial"))


def test_a_build_that_fails_shows_the_end_of_its_log(cache, no_download, source, capsys):
    (source / "setup.py").write_text(SETUP.format(last="raise RuntimeError('no such header')"))
    assert build_horovod.main([]) == 1
    said = capsys.readouterr().err
    assert "no such header" in said and "failed with status" in said and str(cache / "build.log") in said
    assert "no such header" in (cache / "build.log").read_text() and not list(cache.glob("*.whl"))


@pytest.mark.parametrize(
    "how", [[str(ROOT / "tfcompress" / "build_horovod.py")], ["-m", "tfcompress.build_horovod"]]
)
def test_it_runs_as_a_file_and_as_a_module(how, tmp_path):
    """As a file, its folder is where Python looks for modules first: ours must not stand in for others."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT) if "-m" in how else ""}
    command = [sys.executable, *how, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert "needs CMake: " in done.stderr and "Traceback" not in done.stderr
    assert done.returncode == int("missing" in done.stderr)
