"""What `make gpu-bundle` packs, with programs in place of those that need a GPU, and the report."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import gpu_report  # noqa: E402

# Six tests, as GoogleTest lists and runs them: the one named Breaks ends its process, as a broken kernel
# makes all tests fail that come after it.
DEVICE_TESTS = r"""#!/usr/bin/env bash
tests=(Frame.First Frame.Breaks Frame.Later Device/Sum.Of/0 Device/Sum.Of/1 Marks.Last)
for argument in "$@"; do
  case $argument in
    --gtest_list_tests)
      printf 'Frame.\n  First\n  Breaks\n  Later\n'
      printf 'Device/Sum.\n  Of/0  # GetParam() = 5\n  Of/1  # GetParam() = 6\nMarks.\n  Last\n'
      exit
      ;;
    --gtest_filter=*) only=${argument#*=} ;;
  esac
done
for i in "${!tests[@]}"; do
  # The first three are one shard.
  shard=$((i < 3 ? 0 : i))
  [[ -z ${only:-} || $only == "${tests[i]}" ]] || continue
  [[ -z ${GTEST_SHARD_INDEX:-} || $GTEST_SHARD_INDEX == "$shard" ]] || continue
  echo "[ RUN      ] ${tests[i]}"
  [[ ${tests[i]} != Frame.Breaks ]] || exit 134
  if ((i % 2)); then echo "[  SKIPPED ] ${tests[i]} (0 ms)"; else echo "[       OK ] ${tests[i]} (0 ms)"; fi
done
"""
BENCHMARK = r"""#!/usr/bin/env bash
cat <<END
copy of $1 floats: 0.125 ms, 1600 GB/s read and written
                                                  encode                         DecodeSum of 8 ranks
residual|topk:ratio=0.01|raw|raw                  0.250 ms   2.0 copies met       0.500 ms   4.0 copies MISSED
residual|dense|raw|sign                           0.375 ms   3.0 copies           1.000 ms   8.0 copies
END
"""
SANITIZER = "#!/bin/sh\necho '========= ERROR SUMMARY: 0 errors'\n"
PROFILER = r"""#!/bin/sh
cat <<END
==PROF== Connected to process 12
"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum"
"","","Mbyte","Mbyte","us"
"0","void tfcompress::device::InspectKernel<float>(Vector)","1,000.5","0.5","500"
"1","void tfcompress::device::InspectKernel<float>(Vector)","999.5","0.5","1,500"
"2","tfcompress::device::SettleKernel(Vector)","1","0","1"
END
"""
NO_GPU = "#!/bin/sh\necho 'no GPU: nothing was measured'\nexit 77\n"


@pytest.fixture
def folder(tmp_path):
    """A folder as the archive has it, and tools as a machine has them."""
    programs = {
        "cuda_device_tests": DEVICE_TESTS,
        "cuda_benchmark": BENCHMARK,
        "bin/compute-sanitizer": SANITIZER,
        "bin/ncu": PROFILER,
        "bin/nvidia-smi": "#!/bin/sh\necho 'NVIDIA H100, 580.10, 81559 MiB, 9.0'\n",
    }
    (tmp_path / "bin").mkdir()
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    shutil.copy(ROOT / "scripts" / "gpu_run.sh", tmp_path / "run.sh")
    return tmp_path


def run(folder, *steps):
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PROCESSES": "2"}
    return subprocess.run([folder / "run.sh", *steps], env=environment, capture_output=True, text=True)


def test_goes_on_after_failures_and_reports_them(folder, tmp_path, capsys, monkeypatch):
    ran = run(folder)
    assert ran.returncode == 1, ran.stderr
    found = gpu_report.read(folder / "results.tar.gz")
    assert found["machine"][-1] == "NVIDIA H100, 580.10, 81559 MiB, 9.0"
    assert found["failed"] == ["Frame.Breaks"]
    results = {step: each["result"] for step, each in found["steps"].items()}
    assert results.pop("tests") == "failed"
    assert set(results) == set(gpu_report.STEPS) - {"tests"}
    assert set(results.values()) == {"passed"}
    assert found["steps"]["tests"]["detail"].startswith("1 of 6 tests")
    assert found["steps"]["memcheck"]["detail"] == "ERROR SUMMARY: 0 errors"
    assert [size["elements"] for size in found["times"]] == [4096, 1000000, 25000000]

    output = tmp_path / "gpu.json"
    monkeypatch.setattr(sys, "argv", ["gpu_report.py", str(folder / "results.tar.gz"), f"--output={output}"])
    gpu_report.main()
    assert "failed: Frame.Breaks" in capsys.readouterr().out
    result = json.loads(output.read_text())
    assert "| `tests` | failed | 1 of 6 tests" in gpu_report.steps_table(result)
    assert "| `residual\\|dense\\|raw\\|sign` | 0.375: 3.0 | 1.000: 8.0 |" in gpu_report.times_table(result)
    assert "| `InspectKernel` | 2 | 2.000 | 1000 |" in gpu_report.kernels_table(result)


def test_what_is_missing_is_skipped(folder):
    (folder / "bin" / "ncu").unlink()
    if shutil.which("ncu") or list(pathlib.Path("/usr/local").glob("cuda*/bin/ncu")):
        pytest.skip("this machine has ncu")
    ran = run(folder, "benchmark", "profile")
    assert ran.returncode == 0, ran.stdout
    assert "this machine has no ncu" in ran.stdout


def test_unknown_steps_are_refused(folder):
    ran = run(folder, "bench")
    assert ran.returncode == 2
    assert "no step 'bench'; there are machine tests" in ran.stderr


def test_says_where_there_is_no_gpu(folder):
    (folder / "cuda_benchmark").write_text(NO_GPU)
    ran = run(folder)
    assert ran.returncode == 77
    assert "no GPU" in ran.stdout
    assert not (folder / "results").exists()


def test_times_of_the_benchmark_itself():
    program = ROOT / "build" / "release" / "cc_tests" / "cuda" / "cuda_benchmark_emulated"
    if not program.exists():
        pytest.skip(f"no {program}: `make test` builds it")
    printed = subprocess.run([program, "2000"], capture_output=True, text=True, check=True).stdout
    found = gpu_report.benchmark(printed)
    assert found["elements"] == 2000
    assert len(found["rows"]) == printed.count("residual|")
    assert all(row["encode_ms"] > 0 and row["sum_copies"] >= 0 for row in found["rows"])


def test_other_archives_are_refused(tmp_path):
    archive = tmp_path / "other.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(ROOT / "setup.py", "results/setup.py")
    with pytest.raises(ValueError, match=r"no machine\.txt"):
        gpu_report.read(archive)
