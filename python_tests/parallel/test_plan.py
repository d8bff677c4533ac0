"""`tfcompress plan` run by the ranks of a job."""

import json

import horovod.tensorflow as hvd
import numpy as np

from tfcompress import cli, wire
from tfcompress.cli import planning


def test_ranks_measure_the_job_that_they_are(rng, tmp_path, capsys):
    np.save(tmp_path / "step.npy", rng.standard_normal((70, 70)).astype(np.float32))
    cli.main(["plan", str(tmp_path / "step.npy"), "--repeat", "1", "--json"])
    written = capsys.readouterr().out
    if hvd.rank() > 0:
        assert written == ""
        return
    found = json.loads(written)
    assert found["ranks"] == hvd.size() and found["bandwidth_bits_per_second"] is None
    assert found["latency_ms"] is None
    lines = [found["links"][each] for each in ("allreduce", "alltoall", "allgather")]
    assert all(line["latency"] + line["seconds_per_byte"] > 0 for line in lines)
    rows = {row["name"]: row for row in found["results"]}
    assert set(rows) == {*planning.DENSE, *planning.SPARSE}
    assert rows["none"]["wire_bytes"] == wire.allreduce_bytes(4 * 70 * 70, hvd.size())
    assert min(row["communication_ms"] for row in rows.values()) > 0
