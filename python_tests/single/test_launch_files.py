"""Files of `examples/launch` for Kubernetes and SLURM, as far as they can be checked without a cluster."""

import pathlib
import re
import subprocess
import sys

import pytest
import yaml  # Horovod needs it, so that it is there.

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES / "launch"))

import start_rank  # noqa: E402


@pytest.fixture
def parse(monkeypatch):
    """Returns what start_rank.py reads in a command and in variables of a launcher, and in no others."""
    for name in (*start_rank.RANK_VARIABLES, *start_rank.SIZE_VARIABLES):
        monkeypatch.delenv(name, raising=False)

    def parse(words, **variables):
        python, program, *arguments = words
        assert (python, program) == ("python", "start_rank.py")
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        parsed = start_rank.parse_arguments(arguments)
        assert parsed.command[0] == "python" and (EXAMPLES / parsed.command[1]).exists()
        return parsed

    return parse


def test_pods_of_the_job_are_the_ranks_and_find_the_first(parse):
    service, job = yaml.safe_load_all((EXAMPLES / "launch" / "job.yaml").read_text())
    assert (service["kind"], job["kind"]) == ("Service", "Job")
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    last = str(spec["completions"] - 1)
    parsed = parse(container["command"] + container["args"], JOB_COMPLETION_INDEX=last, **variables)
    assert spec["completionMode"] == "Indexed"
    assert spec["parallelism"] == spec["completions"] == parsed.size  # Ranks wait for each other.
    assert (parsed.rank, parsed.ranks_per_host) == (parsed.size - 1, 1)
    # Only a headless service gives pods names: <job>-<index>.<service>.
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert parsed.address == f"{job['metadata']['name']}-0.{pod['subdomain']}"


def test_tasks_of_the_batch_job_are_the_ranks(parse, monkeypatch, tmp_path):
    batch = EXAMPLES / "launch" / "job.sbatch"
    for name, script in {"scontrol": "echo first; echo second", "srun": 'echo "$@"'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "first,second")
    started = subprocess.run(["bash", str(batch)], capture_output=True, text=True, check=True).stdout
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", batch.read_text(), re.MULTILINE))
    per_host = int(options["ntasks-per-node"])
    size = int(options["nodes"]) * per_host
    parsed = parse(started.split(), SLURM_PROCID=str(size - 1), SLURM_NTASKS=str(size))
    assert (parsed.rank, parsed.size, parsed.ranks_per_host) == (size - 1, size, per_host)
    assert parsed.address == "first"
