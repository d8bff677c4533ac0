"""The page of the compatibility matrix."""

import sys

import matrix
import pytest


def row(tensorflow, python, keras, failure=""):
    names = ("tensorflow", "python", "keras", "failure", "sources")
    return dict(zip(names, (tensorflow, python, keras, failure, "commit a"), strict=True))


def test_versions_are_those_of_the_list():
    assert matrix.PYTHONS["2.15.1"] == ("3.10", "3.11")
    assert matrix.PYTHONS["2.21.0"] == ("3.10", "3.11", "3.12", "3.13")
    minors = [version.split(".")[1] for version in matrix.PYTHONS]
    assert minors == [str(minor) for minor in range(15, 22)]


def test_the_page_tells_what_works_what_fails_and_what_there_is_not():
    rows = [
        row("2.15.1", "3.11", "Keras 2"),
        row("2.21.0", "3.11", "tf_keras", "horovodrun ...\nImportError: no such thing\n"),
        row("2.21.0", "3.11", "Keras 3"),
        row("2.21.0", "3.13", "Keras 3"),
        row("2.16.2", "3.12", "tf_keras", "Exit code: 1\n"),
    ]
    page = matrix.page(rows)
    assert "| TensorFlow | Python 3.11 | Python 3.12 | Python 3.13 |" in page
    assert "| 2.15.1 | Keras 2: works | no wheels | no wheels |" in page
    assert "| 2.21.0 | Keras 3: works, tf_keras: fails | not tried | Keras 3: works |" in page
    assert "- TensorFlow 2.16.2, Python 3.12, tf_keras: `Exit code: 1`" in page
    assert matrix.CAVEAT in page
    assert "- TensorFlow 2.21.0, Python 3.11, tf_keras: `ImportError: no such thing`" in page
    assert matrix.page([*rows[:1], row("2.21.0", "3.10", "Keras 3")]).count("not tried") == 2


def test_the_page_tells_what_the_wheels_were_built_of():
    rows = [row("2.20.0", "3.12", "Keras 3"), row("2.20.0", "3.12", "tf_keras")]
    assert "Wheels of all pairs were built of commit a;" in matrix.page(rows)
    others = [{**row("2.21.0", python, "Keras 3"), "sources": "commit b"} for python in ("3.12", "3.13")]
    page = matrix.page([*others, *rows])
    assert "Wheels of TensorFlow 2.20.0, Python 3.12 were built of commit a;" in page
    assert page.index("commit a") < page.index("Wheels of all other pairs were built of commit b;")


def test_a_pair_without_a_wheel_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(matrix, "WHEELS", tmp_path)
    with pytest.raises(matrix.SetupError, match="no wheel for Python 3.12 in .*make wheels"):
        matrix.Pair("2.21.0", "3.12").wheel  # noqa: B018


def test_what_has_run_with_the_same_wheel_is_not_run_again(monkeypatch, tmp_path):
    for name in ("WHEELS", "FOLDER"):
        monkeypatch.setattr(matrix, name, tmp_path)
    monkeypatch.setattr(matrix, "RESULTS", tmp_path / "rows.json")
    monkeypatch.setattr(matrix, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(matrix, "interpreters", lambda wanted: dict.fromkeys(wanted, sys.executable))
    prepared, trained = [], []
    monkeypatch.setattr(matrix, "prepare", lambda pair, python: prepared.append(pair))
    monkeypatch.setattr(matrix, "train", lambda pair, keras: trained.append(keras))
    (tmp_path / "tfcompress-0.1.0-cp312-cp312-manylinux.whl").write_text("wheel")
    (tmp_path / "sources-3.12").write_text("commit a\n")
    arguments = matrix.parse_arguments(["--tensorflow", "2.21.0", "2.15.1", "--python", "3.12"])
    for expected in (1, 1):
        rows = matrix.run_all(arguments)
        assert len(prepared) == expected and trained == ["Keras 3", "tf_keras"]
    assert [(each["failure"], each["sources"]) for each in rows] == [("", "commit a")] * 2
    (tmp_path / "tfcompress-0.1.0-cp312-cp312-manylinux.whl").write_text("another")
    matrix.run_all(arguments)
    assert len(prepared) == 2
