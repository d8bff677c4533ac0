"""What `tfcompress doctor` starts on two ranks of this machine."""

import json
import subprocess
import sys

import pytest
from launch import TIMEOUT_SECONDS

from tfcompress import diagnosis


def test_two_ranks_get_the_same_result():
    finding = diagnosis.exchange_on_two_ranks(TIMEOUT_SECONDS)
    assert finding.state == "ok" and finding.found.startswith("one result, error"), finding.found


@pytest.mark.long
def test_everything_is_found():
    command = [sys.executable, "-m", "tfcompress", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert {finding["state"] for finding in found.values()} <= {"ok", "note"}
    assert "gloo" in found["Horovod"]["found"] and found["two ranks"]["state"] == "ok"
