"""Ranks that find each other without horovodrun, as under SLURM and in pods."""

import os
import pathlib
import socket
import subprocess
import sys

from launch import TIMEOUT_SECONDS

START = pathlib.Path(__file__).parents[2] / "examples" / "launch" / "start_rank.py"
PROGRAM = """
import horovod.tensorflow as hvd, numpy as np, tensorflow as tf, tfcompress as tfc
hvd.init()
variable = tf.Variable(tf.zeros([1000]))
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(variable * (hvd.rank() + 1.0))
tape = tfc.DistributedGradientTape(tape, compression=tfc.Compressor("nonzero|bitmap|raw"))
print(hvd.rank(), hvd.size(), hvd.local_size(), tape.gradient(loss, variable).numpy().mean())
"""


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("", 0))
        return own.getsockname()[1]


def test_ranks_find_each_other_by_what_slurm_and_kubernetes_say():
    # Two hosts of one rank each, as far as Horovod knows; each learns its rank in another way.
    ranks = [{"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, {"JOB_COMPLETION_INDEX": "1", "NUM_RANKS": "2"}]
    command = [sys.executable, str(START), "--address", "localhost", "--port", str(free_port())]
    command += [sys.executable, "-c", PROGRAM]
    jobs = [
        subprocess.Popen(command, env={**os.environ, **rank}, text=True, stdout=subprocess.PIPE)
        for rank in ranks
    ]
    printed = [job.communicate(timeout=TIMEOUT_SECONDS)[0].split() for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0]
    assert [words[-4:] for words in printed] == [["0", "2", "1", "1.5"], ["1", "2", "1", "1.5"]]


def start(*words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(START), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)


def test_a_rank_whose_first_does_not_come_gives_up():
    failed = start(
        *["--rank", "1", "--size", "2", "--address", "localhost", "--port", str(free_port())],
        *["--timeout", "0", sys.executable, "-c", "print()"],
    )
    assert failed.returncode == 1
    assert "rank 0 does not answer at localhost:" in failed.stderr


def test_the_status_of_the_program_is_that_of_the_rank():
    failed = start(
        *["--rank", "0", "--size", "1", "--address", "localhost", "--port", str(free_port())],
        *[sys.executable, "-c", "raise SystemExit(3)"],
    )
    assert failed.returncode == 3


def test_mistyped_arguments_are_told():
    for words, message in [
        ((), "--address"),
        (("--address", "a"), "say what to run"),
        (("--address", "a", "python"), "neither SLURM nor Kubernetes"),
        (("--address", "a", "--rank", "2", "--size", "2", "python"), "rank 2 of 2"),
        (("--address", "a", "--rank", "0", "--size", "3", "--ranks-per-host", "2", "python"), "do not fill"),
    ]:
        failed = start(*words)
        assert failed.returncode == 2
        assert message in failed.stderr
