"""The documentation site: the guides' programs run, and every public name is in the API reference."""

import functools
import pathlib
import pydoc
import re
import shlex
import subprocess

import pytest
from pages import DOCS, PAGES, changed_programs_of, commands_of, programs_of

import tfcompress as tfc
from tfcompress import cli

ROOT = pathlib.Path(__file__).parents[2]
WITH_CHANGES = [page for page in (ROOT / "README.md", *DOCS.rglob("*.md")) if changed_programs_of(page)]


@pytest.fixture
def _no_policy_is_left():
    import keras

    yield
    keras.mixed_precision.set_global_policy("float32")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.usefixtures("_no_policy_is_left")
def test_blocks_of_a_page_run_one_after_another(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs = programs_of(page)
    assert 0 < len(programs) == page.read_text().count("```python")
    names = {"__name__": "__main__"}
    for block in programs:
        if not block.reason:  # Line numbers of tracebacks are the page's.
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
    for block in commands_of(page):
        for line in block.text.splitlines():
            program, *arguments = shlex.split(line, comments=True) or [""]
            if program == "tfcompress" and not block.reason:
                cli.main(arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_a_page_are_those_of_a_shell(page):
    for block in commands_of(page):
        done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), block


@pytest.mark.parametrize("page", WITH_CHANGES, ids=lambda page: page.stem)
def test_changes_of_a_program_leave_one_that_compiles_with_public_names(page):
    [program] = changed_programs_of(page)
    compile(program, str(page), "exec")
    for path in re.findall(r"\btfc\.([\w.]+)", page.read_text()):
        functools.reduce(getattr, path.split("."), tfc)


def test_the_readme_shows_what_changes():
    assert ROOT / "README.md" in WITH_CHANGES


def test_the_api_reference_has_every_public_name():
    entries = re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    documented = [pydoc.locate(entry) for entry in entries]
    assert all(each is not None for each in documented)
    for module, names in ((tfc, tfc.__all__), (tfc.callbacks, tfc.callbacks.__all__)):
        missing = [name for name in names if not any(getattr(module, name) is each for each in documented)]
        # What the first is depends on whether TensorFlow is loaded, so no module defines it under its name.
        assert set(missing) <= {"DataLossError"}, "add entries to docs/api.md"
    assert re.search(r"^### DataLossError$", (DOCS / "api.md").read_text(), re.MULTILINE)


def test_the_api_reference_has_every_function_on_parts_of_specs():
    page = (DOCS / "api.md").read_text()
    [members] = re.findall(r"^::: tfcompress\.codecs$.*?^ +members:\n((?: +- \w+\n)+)", page, re.M | re.S)
    assert sorted(re.findall(r"\w+", members)) == sorted(tfc.codecs.__all__)
    assert all(getattr(tfc.codecs, name).__doc__ for name in tfc.codecs.__all__)


def test_the_citation_has_the_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (\S+)$", citation, re.MULTILINE)[1] == tfc.__version__
    assert f"## [{tfc.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
