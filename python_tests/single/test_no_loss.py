"""What benchmarks/no_loss.py trains and what it makes of the results, without training."""

import json
import sys

import no_loss
import pytest

import tfcompress as tfc

SHARED = ("workload", "ranks", "parameters", "epochs", "steps", "batch_size", "learning_rate", "decay")


def run(name, seed, accuracy, wire_bytes=1000.0):
    return {
        **dict.fromkeys(SHARED, 1),
        "versions": {},
        "compression": name,
        "spec": name,
        "seed": seed,
        "metrics": {"test_accuracy": accuracy},
        "replicas_identical": True,
        "milliseconds": {},
        "step_ms_median": 1.0,
        "curve": [{"loss": 0.5, "metrics": {"test_accuracy": accuracy}}],
        **{f"{column}_per_step": wire_bytes for column in ("payload_bytes", "wire_bytes", "dense_bytes")},
    }


def save(folder, study, name, runs):
    (folder / study).mkdir(parents=True, exist_ok=True)
    (folder / study / f"{name}.json").write_text(json.dumps(runs))


def start(monkeypatch, folder, *words):
    own = ["--runs", str(folder), "--output", str(folder / "docs")]
    monkeypatch.setattr(sys, "argv", ["no_loss.py", *own, *words])
    no_loss.main()


def test_the_compressors_of_all_studies_are_known():
    for study in no_loss.STUDIES.values():
        assert study.compression[0] == "none"
        for compression in study.compression:
            tfc.make_compressor(compression)


def test_a_job_trains_what_has_no_result_of_the_seed_yet(tmp_path, monkeypatch):
    save(tmp_path, "ncf", "seed_1_from_0", [run("none", 1, 0.5), run("int8", 1, 0.5)])
    jobs = []
    monkeypatch.setattr(no_loss, "run_example", lambda *arguments: jobs.append(arguments))
    words = ["--study", "ncf", "--data-dir", str(tmp_path), "--compression", "none", "int8", "int4"]
    start(monkeypatch, tmp_path, *words, "--seeds", "2")
    compressions = [arguments[arguments.index("--compression") + 1 :] for _, _, arguments, _ in jobs]
    assert compressions == [["int4"], ["none", "int8", "int4"]]
    assert [arguments[arguments.index("--seed") + 1] for _, _, arguments, _ in jobs] == ["1", "2"]
    assert [output.name for *_, output in jobs] == ["seed_1_from_2.json", "seed_2_from_0.json"]


def test_differences_are_those_to_the_same_seeds(tmp_path, monkeypatch):
    save(tmp_path, "ncf", "a", [run("none", 1, 0.5), run("int8", 1, 0.75, 250.0)])
    save(tmp_path, "ncf", "b", [run("none", 2, 1.0)])
    save(tmp_path, "lstm", "a", [run("int8", 1, 0.75)])  # Has no baseline yet.
    start(monkeypatch, tmp_path, "--seeds", "0")
    result = json.loads((tmp_path / "docs" / "results" / "no_loss_ncf.json").read_text())
    assert "1 to 2 seeds" in result["title"]
    found = {row["compression"]: (row["mean"], row["difference"], row["ratio"]) for row in result["rows"]}
    assert found == {"none": (0.75, 0, 1), "int8": (0.75, 0.25, 4)}
    assert not (tmp_path / "docs" / "results" / "no_loss_lstm.json").exists()
    assert (tmp_path / "docs" / "figures" / "no_loss.png").stat().st_size > 10_000


def test_long_trainings_are_five_times_as_long(tmp_path, monkeypatch):
    long = {name: each for name, each in no_loss.STUDIES.items() if name.endswith(no_loss.LONG)}
    assert len(long) == 5
    for name, each in long.items():
        short = no_loss.STUDIES[name.removesuffix(no_loss.LONG)]
        assert each.arguments == f"{short.arguments} --epochs 10" and "--epochs 2" in short.arguments
        assert set(each.compression) < set(short.compression)
    save(tmp_path, "ncf_long", "a", [run("none", 1, 0.5), run("int8", 1, 0.75, 250.0)])
    start(monkeypatch, tmp_path, "--seeds", "0")
    figures = [path.name for path in (tmp_path / "docs" / "figures").iterdir()]
    assert figures == ["no_loss_long.png"]


def test_training_needs_data(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        start(monkeypatch, tmp_path)
    assert "--data-dir is needed" in capsys.readouterr().err
