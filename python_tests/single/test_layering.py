"""Who may see whom (CONTRIBUTING.md, "The house"), read from the sources."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CC_OPS = ROOT / "cc_ops"
PACKAGE = ROOT / "tfcompress"

# Rank of each folder of the core; a file sees lower ranks and its own folder's helpers.
RANK = {
    "": 0,
    "entropy": 1,
    "sketch": 1,
    "sparsify": 2,
    "index": 2,
    "value": 2,
    "joint": 2,
    "memory": 2,
    "linear": 3,
}
# What the core is built on besides the standard library.
COMPRESSION_LIBRARIES = {"zlib.h"}
# Files of the core's top folder that stand above the codecs.
ABOVE_CODECS = {
    "compressor",
    "linear_compressor",
    "frame",
    "pipeline",
    "product_codec",
    "encode_frame",
    "decode_sum",
    "decode_frame",
    "frame_codecs",
    "packets",
    "rows",
    "wire_header",
    "encode_rows",
    "decode_rows",
    "merge_rows",
    "spec",
}


def includes(path):
    return re.findall(r'^#include ([<"][^>"]+[>"])', path.read_text(), re.MULTILINE)


def sources(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in (".h", ".cc", ".cu"))


def test_there_is_something_to_check():
    assert len(sources(CC_OPS / "core")) > 20 and len(modules()) > 10


@pytest.mark.parametrize("path", sources(CC_OPS / "core"), ids=lambda p: str(p.relative_to(CC_OPS)))
def test_core_sees_itself_and_the_standard_library(path):
    for include in includes(path):
        name = include[1:-1]
        if include.startswith("<"):
            # The standard library has no dots or slashes; the intrinsics end in intrin.h.
            is_standard = "/" not in name and ("." not in name or name.endswith("intrin.h"))
            assert is_standard or name in COMPRESSION_LIBRARIES, include
        else:
            assert name.startswith("core/"), include


@pytest.mark.parametrize("path", sources(CC_OPS / "core"), ids=lambda p: str(p.relative_to(CC_OPS)))
def test_core_folders_see_only_lower_ones(path):
    folder = path.parent.name if path.parent != CC_OPS / "core" else ""
    for include in includes(path):
        if not include.startswith('"core/'):
            continue
        target = include[1:-1].removeprefix("core/")
        target_folder, _, target_file = target.rpartition("/")
        if folder == "":
            assert target_folder == "", f"{include}: the top of the core names no single codec or sketch"
        elif target_folder == folder:
            assert (path.parent / target_file).exists()
        else:
            assert RANK[target_folder] < RANK[folder], include
            assert pathlib.Path(target_file).stem not in ABOVE_CODECS, include


def test_no_codec_includes_a_codec():
    """Helpers shared within a folder have no registry definition of their own."""
    for folder in ("sparsify", "index", "value", "joint", "memory", "linear"):
        for path in (CC_OPS / "core" / folder).glob("*.cc"):
            for include in includes(path):
                if include.startswith(f'"core/{folder}/'):
                    helper = CC_OPS / include[1:-1]
                    assert "Definition<" not in helper.read_text()
                    source = helper.with_suffix(".cc")
                    assert not source.exists() or "Definition<" not in source.read_text()


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("tf", ("core/", "tf/", "tensorflow/", "absl/")),
        ("pybind", ("core/", "pybind/", "pybind11/", "cuda/device_variants.h")),
    ],
)
def test_bindings_see_the_core_and_their_framework(folder, allowed):
    """Those in cuda/, which are built where nvcc is, also see the variants for GPUs."""
    paths = sources(CC_OPS / folder)
    assert paths
    for path in paths:
        seen = allowed
        if path.parent.name == "cuda":
            seen += ("cuda/", "cuda_runtime.h")
        else:
            assert f'"{folder}/cuda/' not in path.read_text()
        for include in includes(path):
            name = include[1:-1]
            standard = include.startswith("<") and "/" not in name and "." not in name
            assert standard or name.startswith(seen), f"{path.name}: {include}"


@pytest.mark.parametrize("path", sources(CC_OPS / "cuda"), ids=lambda p: p.name)
def test_cuda_sees_the_core_the_runtime_and_cub(path):
    """The core and the bindings may not see it: the tests above allow them no "cuda/"."""
    for include in includes(path):
        name = include[1:-1]
        standard = include.startswith("<") and "/" not in name and "." not in name
        assert standard or name.startswith(("core/", "cuda/")) or name in ("cuda_runtime.h", "cub/cub.cuh")


def test_the_tables_of_variants_need_no_cuda():
    """The bindings compile them on every machine."""
    seen, unread = set(), ["cuda/device_variants.h", "cuda/device_variants.cc"]
    while unread:
        name = unread.pop()
        seen.add(name)
        unread += {i[1:-1] for i in includes(CC_OPS / name) if i.startswith('"')} - seen - set(unread)
    assert "cuda/value_spec.h" in seen
    for name in seen:
        assert not [include for include in includes(CC_OPS / name) if include.endswith(".h>")], name


@pytest.mark.parametrize("path", sources(CC_OPS / "cuda"), ids=lambda p: p.name)
def test_cuda_is_the_same_for_a_device_and_for_the_emulator(path):
    conditions = re.findall(r"^ *#if.*", path.read_text(), re.MULTILINE)
    assert [line for line in conditions if not line.startswith("#ifndef TFCOMPRESS_CUDA_")] == []


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def imports(path):
    """Every module that a file imports, at any depth."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize(
    ("module", "importers"),
    [
        ("horovod", {"elastic.py", "exchange.py", "horovod_adapter.py"}),
        ("keras", set()),
        ("tf_keras", set()),
    ],
)
def test_who_imports_what(module, importers):
    found = {p.name for p in modules() if any(name.split(".")[0] == module for name in imports(p))}
    assert found == importers


def test_only_callbacks_use_keras_through_tensorflow():
    found = {p.relative_to(PACKAGE).parts[0] for p in modules() if "tf.keras." in p.read_text()}
    assert found <= {"callbacks", "loss_scale.py", "optimizer.py"}


def test_only_ops_loads_the_op_library():
    assert {p.name for p in modules() if "load_op_library" in p.read_text()} == {"ops.py"}


def users(*libraries):
    """The package's files that import any of these, relative to the package."""
    found = (p for p in modules() if {name.split(".")[0] for name in imports(p)} & set(libraries))
    return {str(path.relative_to(PACKAGE)) for path in found}


def test_numpy_level_modules_need_no_tensorflow():
    top = {"__init__.py", "__main__.py", "_version.py", "catalogue.py", "cuda.py", "frames.py", "measure.py"}
    command_line = {f"cli/{path.name}" for path in (PACKAGE / "cli").glob("*.py")}
    assert len(command_line) > 5
    assert not (top | command_line) & users("tensorflow")


def test_only_the_command_line_needs_its_extra():
    assert users("rich") == {"cli/console.py"}
    assert users("matplotlib") == {"cli/figures.py"}


def test_only_main_starts_the_command_line():
    outside = [path for path in modules() if path.parent != PACKAGE / "cli"]
    assert [p.name for p in outside if any("tfcompress.cli" in name for name in imports(p))] == [
        "__main__.py"
    ]
