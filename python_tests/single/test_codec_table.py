"""docs/codecs.md agrees with the registry; measurements must be there, and are not checked."""

import pathlib
import subprocess
import sys

import tfcompress as tfc

ROOT = pathlib.Path(__file__).parents[2]


def test_the_page_agrees_with_the_registry():
    script = ROOT / "benchmarks" / "codec_table.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True)


def test_every_codec_was_measured():
    page = (ROOT / "docs" / "codecs.md").read_text()
    for entries in (tfc.index_codecs(), tfc.value_codecs(), tfc.joint_codecs(), tfc.linear_codecs()):
        for entry in entries:
            rows = [line for line in page.splitlines() if line.startswith(f"| `{entry.name}")]
            assert len(rows) >= 2, f"{entry.name} stands in no table of measurements"
