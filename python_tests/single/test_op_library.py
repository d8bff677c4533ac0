"""Which op library is chosen, and what is said where none fits."""

import pathlib
import subprocess
import sys

import pytest

from tfcompress import op_library

VERSIONS = ["2.9.3", "2.15.1", "2.21.0"]


def write_library(folder: pathlib.Path, name: str, built_for: str) -> pathlib.Path:
    path = folder / name
    path.write_bytes(b"\x7fELF\0tfcompress ops built for TensorFlow " + built_for.encode() + b"\0rest")
    return path


@pytest.fixture
def wheel(tmp_path) -> pathlib.Path:
    """A package's folder with a library for each of `VERSIONS`."""
    for version in VERSIONS:
        write_library(tmp_path, f"_tfcompress_ops_{version.rpartition('.')[0]}.so", version)
    return tmp_path


@pytest.mark.parametrize("version", [*VERSIONS, "2.15.0", "2.21.3", "2.21.0-rc1"])
def test_a_wheels_library_is_that_of_the_minor_version(wheel, version):
    minor = version.split(".")[1]
    assert op_library.find(version, wheel) == wheel / f"_tfcompress_ops_2.{minor}.so"


@pytest.mark.parametrize("version", ["2.2.0", "2.16.1", "2.22.0-dev20260101", "3.15.1"])
def test_another_tensorflow_is_refused_and_the_ways_out_are_named(wheel, version):
    with pytest.raises(ImportError) as error:
        op_library.find(version, wheel)
    message = str(error.value)
    assert f"TensorFlow {version} is installed" in message
    assert "ops for TensorFlow 2.9.3, 2.15.1, 2.21.0 only" in message
    assert f"{sys.executable} -m pip install --no-build-isolation" in message


def test_a_build_from_source_serves_the_tensorflow_that_it_was_built_for(tmp_path):
    library = write_library(tmp_path, "_tfcompress_ops.so", "2.18.0")
    assert op_library.find("2.18.1", tmp_path) == library
    with pytest.raises(
        ImportError, match=r"TensorFlow 2\.19\.0 is installed.*ops for TensorFlow 2\.18\.0 only"
    ):
        op_library.find("2.19.0", tmp_path)


def test_a_build_in_the_same_folder_goes_before_a_wheels_library(wheel):
    library = write_library(wheel, "_tfcompress_ops.so", "2.21.0")
    assert op_library.find("2.21.0", wheel) == library


def test_without_any_library_tensorflow_was_missing_from_the_build(tmp_path):
    with pytest.raises(
        ImportError, match=r"built without TensorFlow.*Build it for TensorFlow 2\.21\.0: .*pip"
    ):
        op_library.find("2.21.0", tmp_path)


def test_a_library_that_does_not_tell_its_version_is_not_chosen(tmp_path):
    (tmp_path / "_tfcompress_ops.so").write_bytes(b"other bytes")
    assert op_library.available(tmp_path) == {tmp_path / "_tfcompress_ops.so": ""}
    with pytest.raises(ImportError, match="a version that it does not tell"):
        op_library.find("2.21.0", tmp_path)


def test_names_that_need_tensorflow_say_so_where_it_is_missing():
    program = "import sys; sys.modules['tensorflow'] = None; import tfcompress; tfcompress.LocalSteps"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "tfcompress.LocalSteps needs TensorFlow" in done.stderr
    assert f"{sys.executable} -m pip install tensorflow" in done.stderr


class TestInstalled:
    """The library of this installation."""

    @pytest.fixture
    def tf(self):
        return pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

    def test_it_is_for_the_tensorflow_that_is_here(self, tf):
        built_for = op_library.built_for(op_library.find(tf.__version__))
        assert built_for.split(".")[:2] == tf.__version__.split(".")[:2]

    def test_a_tensorflow_of_a_later_time_is_refused(self, tf, monkeypatch):
        from tfcompress import ops

        monkeypatch.setattr(tf, "__version__", "2.99.0")
        with pytest.raises(
            ImportError, match=r"TensorFlow 2\.99\.0 is installed, but tfcompress has ops for"
        ):
            ops._library.__wrapped__()

    def test_one_that_does_not_load_names_both_versions(self, tf, monkeypatch, tmp_path):
        from tfcompress import ops

        broken = write_library(tmp_path, "_tfcompress_ops.so", tf.__version__)
        monkeypatch.setattr(op_library, "find", lambda version: broken)
        with pytest.raises(ImportError, match="does not load into TensorFlow") as error:
            ops._library.__wrapped__()
        assert f"built for TensorFlow {tf.__version__}" in str(error.value)
        assert op_library.BUILD_COMMAND in str(error.value)

    @pytest.mark.parametrize(
        ("gpus", "built", "told"), [(1, False, True), (1, True, False), (0, False, False)]
    )
    def test_kernels_for_gpus_that_are_missing_are_told_where_there_is_a_gpu(
        self, tf, monkeypatch, capsys, gpus, built, told
    ):
        from tfcompress import notices, ops

        monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["GPU"] * gpus)
        monkeypatch.setattr("tfcompress.cuda.is_built", lambda: built)
        notices.tell.cache_clear()
        ops._library.__wrapped__()
        assert ("TFC_WITH_CUDA=ON" in capsys.readouterr().err) == told
