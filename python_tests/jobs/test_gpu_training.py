"""What compares the exchange on a GPU with that on the CPU, on a second CPU device in place of the GPU."""

import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf
from launch import horovodrun

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "gpu_training.py"


def test_two_ranks_get_the_same_bits_on_both_devices():
    compressors = ("topk(0.05)", "int8")
    printed = horovodrun(2, SCRIPT, "--device", "CPU:1", "--steps", 4, "--compression", *compressors)
    lines = [line.split("<stdout>:")[1] for line in printed.splitlines() if "loss" in line]
    assert [line.split(": ")[0] for line in lines] == list(compressors)
    assert all(line.endswith("same bits") for line in lines)


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="there is a GPU here")
def test_no_gpu_is_said():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "sees no GPU here" in done.stderr
