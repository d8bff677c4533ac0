"""What compares the exchange on a GPU with that on the CPU, on a second CPU device in place of the GPU."""

import os
import pathlib
import subprocess
import sys

from launch import horovodrun

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "gpu_training.py"


def test_two_ranks_get_the_same_bits_on_both_devices():
    compressors = ("topk(0.05)", "int8")
    printed = horovodrun(2, SCRIPT, "--device", "CPU:1", "--steps", 4, "--compression", *compressors)
    lines = [line.split("<stdout>:")[1] for line in printed.splitlines() if "loss" in line]
    assert [line.split(": ")[0] for line in lines] == list(compressors)
    assert all(line.endswith("same bits") for line in lines)


def test_no_gpu_is_said():
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "sees no GPU here" in done.stderr
