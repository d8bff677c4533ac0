"""Ranks in network namespaces: the interface carries what the package reports, and nothing stays behind."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import netns
import pytest
from namespace_job import JobError, run_ranks

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"
obstacle = netns.obstacle()
pytestmark = [pytest.mark.long, pytest.mark.skipif(obstacle is not None, reason=str(obstacle))]
UNLIMITED = netns.Bandwidth.parse("unlimited")


def namespaces_of(pid: int) -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.startswith(f"tfc-{pid}-")]


def test_quick(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "network.py"), "--quick", "--output", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
        output, _ = job.communicate(timeout=600)
    assert job.returncode == 0, output[-3000:]
    assert not namespaces_of(job.pid)
    result = json.loads((tmp_path / "network_mnist_mlp.json").read_text())
    rows = {row["compression"]: row for row in result["rows"]}
    assert set(rows) == {"none", "topk"} and "topk" in output
    for row in rows.values():
        assert row["wire"]["agrees"], row
    assert rows["none"]["wire"]["counted"] > 20 * rows["topk"]["wire"]["counted"]
    assert {path.name for path in tmp_path.glob("*.png")} == {
        f"network_mnist_mlp_{name}.png" for name in ("steps", "sizes", "codecs")
    }


def test_links_are_limited():
    """A token bucket of the rate on both ends of the link, none where there is no limit."""
    limited = [each for each in ("2mbit", "unlimited") if _has_bucket(netns.Bandwidth.parse(each))]
    assert limited == ["2mbit"]


def test_auto_chooses_again_when_the_link_changes(tmp_path):
    """From a free link to one of 10 Mbit/s, on which a step of four bits takes half of one of eight."""
    words = ["--bandwidths", "unlimited", "10mbit", "--units", "256", "--steps", "500", "--threads", "1"]
    command = [sys.executable, str(BENCHMARKS / "changing_link.py"), *words, "--output", str(tmp_path)]
    done = subprocess.run([*command, "--compression", "none"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    results = json.loads((tmp_path / "results" / "changing_link.json").read_text())
    free, slow = results["rows"]
    assert free["settled_after"] and slow["choice"] == "int4", results["jobs"]["auto"]["choices"]
    assert slow["milliseconds"]["none"] > 4 * slow["milliseconds"]["auto"]
    assert (tmp_path / "figures" / "changing_link.png").stat().st_size > 10_000


def _has_bucket(bandwidth: netns.Bandwidth) -> bool:
    with netns.network(1, bandwidth) as hosts:
        host = hosts.on_host(0, ["tc", "qdisc", "show", "dev", netns.INTERFACE])
        switch = hosts.on_switch(["tc", "qdisc", "show", "dev", "port0"])
        shown = [
            subprocess.run(each, capture_output=True, text=True, check=True).stdout for each in (host, switch)
        ]
    has = ["tbf" in each and "rate 2Mbit" in each for each in shown]
    assert has[0] == has[1]
    return has[0]


@pytest.mark.parametrize(
    "program, timeout, message",
    [
        (
            "import os; print('about'); exit(int(os.environ['HOROVOD_RANK']) * 3)",
            60,
            "rank 1 ended with code 3",
        ),
        ("import time; print('about', flush=True); time.sleep(60)", 2, "rank 1 did not end within 2 s"),
    ],
)
def test_ranks_that_fail_are_shown_and_nothing_stays(program, timeout, message):
    with pytest.raises(JobError, match=message) as raised, netns.network(2, UNLIMITED) as hosts:
        run_ranks(hosts, [sys.executable, "-c", program], timeout, {})
    assert "  about" in str(raised.value)
    assert not namespaces_of(os.getpid())


def test_an_interrupted_block_removes_its_network():
    with pytest.raises(KeyboardInterrupt), netns.network(2, UNLIMITED):
        assert len(namespaces_of(os.getpid())) == 3
        raise KeyboardInterrupt
    assert not namespaces_of(os.getpid())


def test_a_run_that_is_terminated_removes_its_networks(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "network.py"), "--quick", "--output", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        # The first network, of one host, only tells whether the machine permits them.
        while not any(name.split()[0].endswith("-1") for name in namespaces_of(run.pid)):
            assert run.poll() is None
            time.sleep(0.1)
        run.terminate()
        assert run.wait(timeout=60) == 128 + signal.SIGTERM
    assert not namespaces_of(run.pid)
