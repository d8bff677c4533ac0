"""What `make gpu-bundle` packs, with programs in place of those that need a GPU, and the report."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import gpu_report
import pytest

ROOT = pathlib.Path(__file__).parents[2]
# Six tests, as GoogleTest lists and runs them: the one named Breaks ends its process, as a broken kernel
# makes all tests fail that come after it. The one named HANGS goes on for ever, whoever asks it to end.
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
  if [[ ${tests[i]} == "${HANGS:-}" ]]; then
    trap '' TERM
    echo $$ >hanging.pid
    while :; do sleep 1; done
  fi
  if ((i % 2)); then echo "[  SKIPPED ] ${tests[i]} (0 ms)"; else echo "[       OK ] ${tests[i]} (0 ms)"; fi
done
"""
BENCHMARK = r"""#!/usr/bin/env bash
case $1 in
  help) exit 2 ;;
  resnet50) elements=25533632 ;;
  profile) elements=25000000 ;;
  *) elements=$1 ;;
esac
cat <<END
copy of $elements floats: 0.1250 ms, 1600 GB/s read and written
one gradient                       sent   workspace   | encode                                    | sum of 8 ranks
residual|topk:ratio=0.01|raw|raw   2000044 B    9.2 MB |    0.250 ms     2.0 copies met       23 launches  50.4 % met    |    0.500 ms     4.0 copies MISSED    43 launches
residual|dense|raw|sign              12345 B   10.0 MB |    0.375 ms     3.0 copies            - launches  40.0 % MISSED |    1.000 ms     8.0 copies           43 launches
residual|dense|raw|qsgd            failed: cudaMalloc: cudaErrorMemoryAllocation, out of memory
float16 residual|dense|raw|fp16      10044 B    0.0 MB |    0.658 ms   980.0 copies            7 launches   0.2 %        |    8.131 ms 12117.4 copies           52 launches
END
"""  # noqa: E501
SANITIZER = '#!/bin/sh\necho "========= ERROR SUMMARY: 0 errors of $2"\n'
PROFILER = r"""#!/bin/sh
cat <<END
==PROF== Connected to process 12
## residual|topk:ratio=0.01|raw|raw
## dense|raw|raw
==PROF== Disconnected from process 12
"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum"
"","","Mbyte","Mbyte","us"
"0","void tfcompress::device::WritePartsKernel<tfcompress::EncodedFrame, Begin>(Chunk<T1>)","0","0","1"
"1","void tfcompress::<unnamed>::InspectKernel<tfcompress::<unnamed>::NoMemory>(Vector)","1,000.5","0.5","500"
"2","void tfcompress::device::WritePartsKernel<tfcompress::EncodedFrame, Begin>(Chunk<T1>)","0","0","1"
"3","void tfcompress::device::SettleKernel(Vector)","500.5","0.5","300"
"4","void tfcompress::device::WritePartsKernel<tfcompress::EncodedFrame, Begin>(Chunk<T1>)","0","0","1"
"5","void tfcompress::device::WritePartsKernel<tfcompress::EncodedFrame, Begin>(Chunk<T1>)","0","0","1"
"6","void tfcompress::device::(anonymous namespace)::InspectKernel<float>(Vector)","999.5","0.5","1,500"
"7","void scan::DeviceScanKernel<scan::policy_hub<unsigned long>, cuda::plus<void>>(T1 *)","1","0","400"
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


def run(folder, *steps, **variables):
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PROCESSES": "2", "SHARDS": "8", **variables}
    return subprocess.run([folder / "run.sh", *steps], env=environment, capture_output=True, text=True)


def test_goes_on_after_failures_and_reports_them(folder, tmp_path, capsys, monkeypatch):
    ran = run(folder)
    assert ran.returncode == 1, ran.stderr
    found = gpu_report.read(folder / "results.tar.gz")
    assert found["machine"][-1] == "NVIDIA H100, 580.10, 81559 MiB, 9.0"
    assert found["failed"] == ["Frame.Breaks"]
    assert found["not_run"] == []
    results = {step: each["result"] for step, each in found["steps"].items()}
    assert results.pop("tests") == "failed"
    assert set(results) == set(gpu_report.STEPS) - {"tests"}
    assert set(results.values()) == {"passed"}
    assert found["steps"]["tests"]["detail"].startswith("1 of 6 tests")
    assert found["steps"]["memcheck"]["detail"] == "ERROR SUMMARY: 0 errors of memcheck"
    assert [size["elements"] for size in found["times"]] == [4096, 1000000, 25000000]
    assert [row["spec"] for row in found["times"][0]["rows"]] == [
        "residual|topk:ratio=0.01|raw|raw",
        "residual|dense|raw|sign",
        "float16 residual|dense|raw|fp16",
    ]
    assert found["times"][0]["rows"][1]["encode_launches"] is None
    by_spec = {
        spec: [each["kernel"] for each in kernels] for spec, kernels in found["kernels_by_spec"].items()
    }
    assert by_spec == {
        "residual|topk:ratio=0.01|raw|raw": ["InspectKernel", "SettleKernel"],
        "dense|raw|raw": ["InspectKernel", "DeviceScanKernel"],
    }

    output = tmp_path / "gpu.json"
    monkeypatch.setattr(sys, "argv", ["gpu_report.py", str(folder / "results.tar.gz"), f"--output={output}"])
    gpu_report.main()
    assert "failed: Frame.Breaks" in capsys.readouterr().out
    result = json.loads(output.read_text())
    assert "| `tests` | failed | 1 of 6 tests" in gpu_report.steps_table(result)
    sign = "| `residual\\|dense\\|raw\\|sign` "
    row = sign + "| 12,345 | 10.0 | 0.375 | 3.0 | 40 |  | 1.000 | 8.0 | 43 |"
    assert "| 25,000,000 elements | sent bytes |" in gpu_report.times_table(result)
    assert row in gpu_report.times_table(result)
    assert sign + "| 0.375 | 1.000 | 0.375 | 1.000 |" in gpu_report.sizes_table(result)
    assert "| 25,533,632 elements | sent bytes |" in gpu_report.resnet50_table(result)
    assert row in gpu_report.resnet50_table(result)
    kernels = gpu_report.kernels_table(result)
    assert "| `InspectKernel` | 2 | 2.000 | 74.0 | 1000 |" in kernels
    assert "WritePartsKernel" not in kernels  # Less than 1 % of the time.


def test_a_step_that_is_stopped_tells_failures_from_tests_that_have_not_run(folder):
    # It runs alone, after Frame.Breaks, and then there is no more time.
    ran = run(folder, "machine", "tests", HANGS="Frame.Later", STEP_SECONDS="6")
    assert ran.returncode == 1
    found = gpu_report.read(folder / "results.tar.gz")
    assert found["steps"]["tests"]["result"] == "stopped"
    assert found["steps"]["tests"]["detail"].startswith("4 of 6 tests passed, 1 failed, 1 have not run")
    assert (found["failed"], found["not_run"]) == (["Frame.Breaks"], ["Frame.Later"])
    assert not is_running(int((folder / "hanging.pid").read_text()))


def is_running(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


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


def test_the_sanitizers_are_steps_alone_too(folder):
    ran = run(folder, "racecheck")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("racecheck  passed")
    assert not (folder / "results" / "memcheck.status").exists()


def test_says_where_there_is_no_gpu(folder):
    (folder / "cuda_benchmark").write_text(NO_GPU)
    ran = run(folder)
    assert ran.returncode == 77
    assert "no GPU" in ran.stdout
    assert not (folder / "results").exists()


def test_times_of_the_benchmark_itself():
    program = ROOT / "build" / "release" / "cc_tests" / "cuda" / "cuda_benchmark_emulated"
    if not program.exists():
        pytest.skip(f"no {program}: `make test-ci` builds it")
    printed = subprocess.run([program, "2000"], capture_output=True, text=True, check=True).stdout
    found = gpu_report.benchmark(printed)
    assert found["elements"] == 2000
    assert len(found["rows"]) == printed.count(" B ") == printed.count("\n") - 3
    assert all(row["encode_ms"] > 0 and row["sum_copies"] >= 0 for row in found["rows"])


def test_other_archives_are_refused(tmp_path):
    archive = tmp_path / "other.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(ROOT / "setup.py", "results/setup.py")
    with pytest.raises(ValueError, match=r"no machine\.txt"):
        gpu_report.read(archive)
