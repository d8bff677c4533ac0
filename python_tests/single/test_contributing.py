"""Takes the steps of CONTRIBUTING.md's "Add a codec" in a copy of the tree, linked from what was built.

Only the new file and the registry are compiled; all other objects of the tests and of `_core` are the tree's.
"""

import filecmp
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BUILD = ROOT / "build" / "release"
DOCUMENT = (ROOT / "CONTRIBUTING.md").read_text()
SECTION = DOCUMENT[DOCUMENT.index("## Add a codec") : DOCUMENT.index("## Tests")]
# What the steps change, or read.
COPIED = ("README.md", "docs", "benchmarks", "tfcompress", "cc_ops", "cc_tests/golden")
PYTHON_TESTS = ("test_codec_table.py", "test_readme.py")


def blocks(language, comment):
    """The fenced blocks, by the path in their first line."""
    return dict(re.findall(rf"```{language}\n{comment}\n(.*?)```", SECTION, re.DOTALL))


def last_command(target):
    """The command that makes `target`, in words."""
    commands = ["ninja", "-C", str(BUILD), "-t", "commands", target]
    listed = subprocess.run(commands, check=True, capture_output=True, text=True).stdout
    return shlex.split(listed.splitlines()[-1].removeprefix(": && ").removesuffix(" && :"))


def link(target, output, objects):
    """Links what Ninja links to `target`, with objects in front of the core, whose own are then left out."""
    command = last_command(target)
    command[command.index("-o") + 1] = str(output)
    [place] = [i for i, word in enumerate(command) if word.endswith("libtfc_core.a")]
    subprocess.run([*command[:place], *map(str, objects), *command[place:]], check=True, cwd=BUILD)


def compile_source(tree, source):
    """Compiles a source of the copy as the tree's registry is, without an optimiser."""
    command = last_command("CMakeFiles/tfc_core.dir/cc_ops/core/registry.cc.o")
    flags = [word for word in command if re.match(r"-(std|f|D)", word)]
    output = source.with_suffix(".o")
    include = f"-I{tree / 'cc_ops'}"
    subprocess.run(["c++", *flags, include, "-O0", "-c", "-o", output, source], check=True)
    return output


def insert_rows(registry, rows):
    """The documented declaration and row, where the document says."""
    declaration, row = [line for line in rows.splitlines() if line.strip()]
    source = registry.read_text().replace(
        "namespace tfcompress {\n", f"namespace tfcompress {{\n{declaration}\n", 1
    )
    table = re.search(r"RegistryRow<IndexCodec>>\{\n(.*?)  \};\n", source, re.DOTALL)
    registry.write_text(source[: table.end(1)] + row + "\n" + source[table.end(1) :])


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the tree in which the steps up to the golden file were taken."""
    tests = BUILD / "cc_tests" / "core_tests"
    if not tests.exists() or shutil.which("ninja") is None:
        pytest.skip(f"no {tests}: `make test` builds it, by Ninja")
    tree = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, tree / name)
    for shared_object in (tree / "tfcompress").glob("_core.*"):
        shared_object.unlink()

    sources = blocks("cpp", r"// (\S+)")
    assert set(sources) == {"cc_ops/core/index/varint.cc", "cc_ops/core/registry.cc"}
    new, registry = (tree / path for path in sources)
    new.write_text(sources["cc_ops/core/index/varint.cc"])
    insert_rows(registry, sources["cc_ops/core/registry.cc"])
    [(page, text)] = blocks("markdown", r"<!-- (\S+) -->").items()
    with (tree / page).open("a") as file:
        file.write("\n" + text)

    objects = [compile_source(tree, source) for source in (new, registry)]
    (tree / "build" / "release" / "cc_tests").mkdir(parents=True)
    link("core_tests", tree / "build" / "release" / "cc_tests" / "core_tests", objects)
    [built] = (ROOT / "tfcompress").glob("_core.*.so")
    link("_core", tree / "tfcompress" / built.name, objects)
    return tree


def run(tree, *command, **options):
    environment = {**os.environ, "TFC_SOURCE_DIR": str(tree), "PYTHONPATH": str(tree)}
    return subprocess.run(command, cwd=tree, env=environment, text=True, capture_output=True, **options)


def documented(pattern):
    [command] = re.findall(rf"`({pattern}[^`]*)`", SECTION)
    return command


def test_the_steps_are_all_that_a_codec_takes(tree):
    golden = tree / "cc_tests" / "golden"
    written = run(tree, "bash", "-c", documented("TFC_UPDATE_GOLDEN=1"))
    assert written.returncode == 0, written.stdout
    changes = filecmp.dircmp(ROOT / "cc_tests" / "golden", golden)
    assert (changes.left_only, changes.diff_files) == ([], [])
    assert changes.right_only == ["index_varint.bin", "index_varint.txt"]

    suite = run(tree, "build/release/cc_tests/core_tests", "--gtest_filter=*varint*:*Golden*:Format.*")
    assert suite.returncode == 0, suite.stdout[-5000:]
    for contract in (
        "IndexContract",
        "ExactIndexCodec",
        "CompressorContract",
        "HostileFrame",
        "RowsContract",
    ):
        assert re.search(rf"OK.*{contract}.*varint", suite.stdout), contract

    command = shlex.split(documented("python "))
    pages = run(tree, sys.executable, *command[1:])
    assert pages.returncode == 0, pages.stderr
    rows = (tree / "docs" / "codecs.md").read_text().splitlines()
    assert sum("`varint`" in row for row in rows) == 2  # The registry's facts, the measurements.

    shutil.copytree(ROOT / "python_tests", tree / "python_tests")
    files = [f"python_tests/single/{name}" for name in PYTHON_TESTS]
    tests = run(tree, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files)
    assert tests.returncode == 0, tests.stdout[-5000:]


def test_the_example_of_the_section_is_what_the_codec_writes(tree):
    [[text]] = [re.findall(r"Indices 3 and 200 are `(.*?)`", SECTION)]
    program = "from tfcompress import codecs; import numpy as np; "
    program += "print(codecs.encode_indices('varint', np.uint32([3, 200]), 300)[0].hex(' '))"
    written = run(tree, sys.executable, "-c", program)
    assert written.stdout.strip().upper() == text, written.stderr
