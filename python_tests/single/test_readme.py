"""README.md: its tables are true, its snippets run."""

import pathlib
import re
import subprocess
import sys

import tfcompress as tfc

README = (pathlib.Path(__file__).parents[2] / "README.md").read_text()


def test_codec_table_lists_the_registry():
    listed = re.findall(
        r"^\| (memory|sparsifier|index|value|joint|linear) \| `(\w+)` \|", README, re.MULTILINE
    )
    kinds = {
        "memory": tfc.memories(),
        "sparsifier": tfc.sparsifiers(),
        "index": tfc.index_codecs(),
        "value": tfc.value_codecs(),
        "joint": tfc.joint_codecs(),
        "linear": tfc.linear_codecs(),
    }
    assert listed == [(kind, entry.name) for kind, entries in kinds.items() for entry in entries]


def test_preset_table_gives_the_presets_specs():
    rows = re.findall(r"^\| `(\w+)\(.*\)` \| `(\S+)` \|", README, re.MULTILINE)
    assert {name for name, _ in rows} == {
        name
        for name, preset in vars(tfc.Compression).items()
        if not name.startswith("_") and not isinstance(preset, tfc.Compressor)
    }
    for name, spec in rows:
        assert getattr(tfc.Compression, name)().spec == spec.replace("\\|", "|")


def test_numpy_snippet_runs():
    [snippet] = [s for s in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "import numpy" in s]
    output = subprocess.run(
        [sys.executable, "-c", snippet], check=True, capture_output=True, text=True
    ).stdout
    assert "bytes instead of 400000" in output


def test_usage_diff_parses_and_uses_public_names():
    [diff] = re.findall(r"```diff\n(.*?)```", README, re.DOTALL)
    new = "\n".join(line[1:] for line in diff.splitlines() if not line.startswith("-"))
    compile(new, "README.md", "exec")
    for path in re.findall(r"tfc\.([\w.]+)", README):
        found = tfc
        for name in path.split("."):
            found = getattr(found, name)
