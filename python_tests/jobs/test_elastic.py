"""A rank is killed in the middle of training, and another one joins: nothing is lost but its residual."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

JOB = pathlib.Path(__file__).with_name("elastic_job.py")
# Names of this machine, each a host of one slot: Horovod drops a host on which a rank has failed.
FIRST, VICTIM, THIRD, NEW = "localhost", "127.1", "127.0.1", "127.0.0.1"
COMMIT_STEP, MEETING_STEP, NUM_STEPS = 10, 20, 40  # The last commit before the failure is after step 10.
SECONDS = 400
pytestmark = pytest.mark.long


def run_job(folder, mode, hosts, announced_by):
    """Starts a job of at least two ranks; returns the arrays that each rank wrote, by file name.

    The host NEW is there from when the file `announced_by` is.
    """
    script = folder / "hosts.sh"
    listed = " ".join(f"{host}:1" for host in hosts)
    script.write_text(
        textwrap.dedent(f"""\
            #!/bin/sh
            printf '%s\\n' {listed}
            if [ -e {folder}/{announced_by} ]; then echo {NEW}:1; fi
            """)
    )
    script.chmod(0o755)
    count = str(len(hosts))
    horovodrun = ["horovodrun", "-np", count, "--min-np", "2", "--max-np", count, "--gloo"]
    horovodrun += ["--network-interfaces", "lo", "--elastic-timeout", "180"]
    horovodrun += ["--host-discovery-script", str(script)]
    # Ranks wait so long for one that does not answer, and for new ones, which have to import TensorFlow.
    environment = {**os.environ, "HOROVOD_GLOO_TIMEOUT_SECONDS": "30", "TF_CPP_MIN_LOG_LEVEL": "2"}
    job = subprocess.Popen(
        [*horovodrun, sys.executable, str(JOB), str(folder), mode, VICTIM],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        output, _ = job.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        job.send_signal(signal.SIGTERM)  # horovodrun ends its ranks.
        output, _ = job.communicate(timeout=30)
        pytest.fail(f"the job did not end within {SECONDS} seconds:\n{output[-5000:]}")
    assert job.returncode == 0, output[-5000:]
    assert (folder / "died").read_text() == VICTIM
    return {path.name.removesuffix(".npz"): dict(np.load(path)) for path in folder.glob("*.npz")}


def events(results, host):
    """(step, ranks) at which a rank began to train, for each time that it did."""
    return [tuple(event) for event in results[f"{host}.end"]["events"].tolist()]


def assert_conserved(results, hosts):
    """What was applied and what still waits are what the ranks computed, less the lost residual."""
    ends = [results[f"{host}.end"] for host in hosts]
    for end in ends:
        assert end["step"] == NUM_STEPS
        assert end["weights"].tobytes() == ends[0]["weights"].tobytes()
        assert np.abs(end["residual"]).sum() > 0
    lost = results[f"{VICTIM}.at{COMMIT_STEP}"]
    assert np.abs(lost["residual"]).sum() > 0
    start = np.ones(len(lost["weights"]))  # Rank 0's first weights.
    computed = sum(end["gradient_sum"] for end in ends) + lost["gradient_sum"]
    waiting = sum(end["residual"].astype(np.float64) for end in ends)
    applied = start - ends[0]["weights"]
    np.testing.assert_array_equal(applied + waiting, computed - lost["residual"])


@pytest.mark.parametrize("mode", ["loop", "fit", "tape", "phases", "shards", "rows"])
def test_two_of_three_ranks_go_on_and_a_new_one_joins_them(tmp_path, mode):
    results = run_job(tmp_path, mode, [FIRST, VICTIM, THIRD], announced_by="trained_without")
    for host in (FIRST, THIRD):
        assert events(results, host) == [(0, 3), (COMMIT_STEP, 2), (MEETING_STEP, 3)]
    assert events(results, NEW) == [(MEETING_STEP, 3)]
    assert_conserved(results, [FIRST, THIRD, NEW])


@pytest.mark.parametrize("mode", ["loop", "shards"])
def test_the_rank_that_is_left_waits_for_a_new_one(tmp_path, mode):
    results = run_job(tmp_path, mode, [FIRST, VICTIM], announced_by="died")
    assert events(results, FIRST) == [(0, 2), (COMMIT_STEP, 2)]
    assert events(results, NEW) == [(COMMIT_STEP, 2)]
    assert_conserved(results, [FIRST, NEW])
