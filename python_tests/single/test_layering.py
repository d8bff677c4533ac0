"""Who may see whom (CONTRIBUTING.md, "The house"), read from the sources."""

import ast
import functools
import pathlib
import re
import sys

import pytest

import tfcompress as tfc

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
# Files of the core's top folder that stand above the codecs.
ABOVE_CODECS = (
    "compressor linear_compressor frame pipeline encode_frame decode_sum decode_frame frame_codecs packets "
    "pieces rows wire_header encode_rows decode_rows merge_rows spec"
).split()
# What the core is built on besides the standard library.
SYSTEM_LIBRARIES = (
    "<zlib.h> <sys/mman.h> <sys/auxv.h> <asm/hwcap.h> <immintrin.h> <nmmintrin.h> <xmmintrin.h> <arm_acle.h> "
    "<arm_neon.h>"
).split()
# What the sources of each folder include, besides the standard library.
ALLOWED = {
    "core": ('"core/', *SYSTEM_LIBRARIES),
    "cuda": ('"core/', '"cuda/', "<cuda_runtime.h>", "<cuda_fp16.h>", "<cub/cub.cuh>"),
    "pybind": ('"core/', '"pybind/', '"cuda/device_variants.h"', "<pybind11/"),
    "tf": ('"core/', '"tf/', '"tensorflow/', '"absl/'),
}


def includes(path):
    return re.findall(r'^#include ([<"][^>"]+[>"])', path.read_text(), re.MULTILINE)


def sources(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in (".h", ".cc", ".cu"))


def test_there_is_something_to_check():
    assert len(sources(CC_OPS / "core")) > 20 and len(modules()) > 10
    assert all(sources(CC_OPS / folder) for folder in ALLOWED)
    assert {path.name for path in CC_OPS.iterdir() if path.is_dir()} == set(ALLOWED)
    assert {path.name for path in (CC_OPS / "core").iterdir() if path.is_dir()} == set(RANK) - {""}


@pytest.mark.parametrize("path", sources(CC_OPS), ids=lambda p: str(p.relative_to(CC_OPS)))
def test_folders_see_the_standard_library_and_what_the_table_allows(path):
    """Bindings in cuda/, which are built where nvcc is, also see the variants for GPUs."""
    folder, *inner = path.relative_to(CC_OPS).parent.parts
    allowed = ALLOWED[folder]
    if inner == ["cuda"]:
        allowed += ('"cuda/', "<cuda_runtime.h>", "<sys/mman.h>")
    else:
        assert f'"{folder}/cuda/' not in path.read_text()
    for include in includes(path):
        assert re.fullmatch(r"<\w+>", include) or include.startswith(allowed), include


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


def nodes(tree, whole):
    """The nodes of a file; unless `whole` is true, only what runs when it is imported."""
    for node in ast.iter_child_nodes(tree):
        if whole or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from nodes(node, whole)


def imports(path, whole=True):
    """Every module that a file imports, at any depth or only when it is imported itself."""
    for node in nodes(ast.parse(path.read_text()), whole):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            members = (f"{node.module}.{alias.name}" for alias in node.names)
            submodules = {*own_modules(), "tfcompress._core", "tfcompress._cuda"}
            yield from (name if name in submodules else node.module for name in members)


@functools.cache
def own_modules():
    """The package's modules: their files by their names."""
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in modules()}
    return {name.removesuffix(".__init__"): path for name, path in files.items()}


def own_imports(whole):
    """From each module to those of the package that it imports."""
    return {
        name: {other for other in imports(path, whole) if other in own_modules()}
        for name, path in own_modules().items()
    }


def users(*libraries):
    """The package's files that import any of these, relative to the package."""
    found = (p for p in modules() if {name.split(".")[0] for name in imports(p)} & set(libraries))
    return {str(path.relative_to(PACKAGE)) for path in found}


def test_only_comm_and_elastic_import_horovod():
    assert users("horovod") == {"comm.py", "elastic.py"}


def test_who_uses_keras():
    uses = re.compile(r"\b(tf\.keras|tf_keras|keras)\.[a-z]|^ *(from|import) (tf_)?keras\b", re.MULTILINE)
    strings = re.compile(r'""".*?"""|#.*?$|"[^"\n]*"', re.DOTALL | re.MULTILINE)
    found = {str(p.relative_to(PACKAGE)) for p in modules() if uses.search(strings.sub("", p.read_text()))}
    found = {name for name in found if not name.startswith("callbacks/")}
    assert found <= {"keras.py", "keras_objects.py", "loss_scale.py"}


def test_only_ops_loads_the_op_library():
    assert {p.name for p in modules() if "load_op_library" in p.read_text()} == {"ops.py"}


# Modules without TensorFlow and Horovod, and the command line with them.
LIGHT = (
    "__main__ _version auto build_horovod catalogue codecs costs cuda diagnosis errors frames measure "
    "op_library paper_presets plan policy presets resolution route schedule tuner wire"
).split()
LIGHT += [f"cli.{path.stem}" for path in (PACKAGE / "cli").glob("[a-z]*.py")]
# Imports within functions, which close no circle when modules are imported.
LATE = {
    ("tfcompress.__main__", "tfcompress.cli"),  # Says what is missing where rich is.
    ("tfcompress.cli.plotting", "tfcompress.cli.figures"),  # The same of matplotlib.
    ("tfcompress.cli.setting", "tfcompress.job"),  # A job has TensorFlow; links that are described need none.
    ("tfcompress.policy", "tfcompress.stock"),  # A policy needs no TensorFlow.
    ("tfcompress.loading", "tfcompress.ops"),  # Each part is loaded by itself.
    ("tfcompress.loading", "tfcompress.comm"),
}


@pytest.mark.parametrize("name", ["tfcompress", *(f"tfcompress.{name}" for name in LIGHT)])
def test_light_modules_need_no_tensorflow(name):
    """Also not by what they import."""
    graph, seen, unread = own_imports(whole=False), set(), {name}
    while unread:
        module = unread.pop()
        seen.add(module)
        unread |= graph[module] - seen
        libraries = {each.split(".")[0] for each in imports(own_modules()[module], whole=False)}
        assert not libraries & {"tensorflow", "horovod", "keras", "tf_keras"}, f"{name} through {module}"


def test_imports_have_no_circle():
    graph = own_imports(whole=False)
    assert len(graph) > 30 and sum(map(len, graph.values())) > 50
    while leaves := {name for name, needed in graph.items() if not needed}:
        graph = {name: needed - leaves for name, needed in graph.items() if name not in leaves}
    assert graph == {}, "these are in circles, or import what is in one"


def test_imports_within_functions_are_known():
    early, all_of_them = own_imports(whole=False), own_imports(whole=True)
    assert {(name, other) for name in early for other in all_of_them[name] - early[name]} == LATE


PROGRAMS = [
    *(ROOT / "examples").rglob("*.py"),
    *(ROOT / "benchmarks").rglob("*.py"),
    *(PACKAGE / "cli").glob("*.py"),
]


@pytest.mark.parametrize("path", sorted(PROGRAMS), ids=lambda p: str(p.relative_to(ROOT)))
def test_programs_use_public_names(path):
    """What `tfcompress.__all__` lists, and what its modules have without an underscore."""
    public = set(tfc.__all__)
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "tfcompress"]
            assert all(name == "tfcompress" or name.split(".")[1] in public for name in names), names
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tfcompress":
            parts = [[*node.module.split("."), alias.name] for alias in node.names]
            allowed = public | {"cli"} if PACKAGE in path.parents else public
            assert all(part[1] in allowed and not part[-1].startswith("_") for part in parts), parts
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            assert owner != "tfc" or node.attr in public, ast.unparse(node)
            is_private = node.attr.startswith("_tfcompress") or re.fullmatch(
                r"tfc\.\w+\._\w+", ast.unparse(node)
            )
            assert not is_private, ast.unparse(node)


# What a source file names in its anonymous namespace: types, constants and functions.
OWN_NAME = re.compile(
    r"^(?:class|struct) (\w+)|^constexpr [\w:<> ]+?[ *](k\w+)|^using (\w+) ="
    r"|^[\w:<>&*, ]+? \*?(\w+)\([^;{]*\) (?:const )?\{",
    re.MULTILINE,
)


@pytest.mark.parametrize("folder", ["tf", "pybind"])
def test_names_of_a_file_alone_are_nowhere_else(folder):
    """Wheels compile each of these folders as one translation unit."""
    users_of = {}
    for path in (CC_OPS / folder).glob("*.cc"):
        for block in re.findall(
            r"^namespace \{\n(.*?)^\}  // namespace$", path.read_text(), re.DOTALL | re.MULTILINE
        ):
            for groups in OWN_NAME.findall(block):
                users_of.setdefault("".join(groups), set()).add(path.name)
    assert len(users_of) > 30
    assert {name: files for name, files in users_of.items() if len(files) > 1} == {}


def test_the_builder_of_horovod_needs_nothing_of_the_package():
    """Set-up runs it as a file, before the package is there."""
    needed = {name.split(".")[0] for name in imports(PACKAGE / "build_horovod.py")}
    assert "argparse" in needed and needed <= {*sys.stdlib_module_names}


def test_only_the_command_line_needs_its_extra():
    assert users("rich") == {"cli/console.py"}
    assert users("matplotlib") == {"cli/figures.py"}


def test_only_main_starts_the_command_line():
    outside = [path for path in modules() if path.parent != PACKAGE / "cli"]
    assert [p.name for p in outside if any("tfcompress.cli" in name for name in imports(p))] == [
        "__main__.py"
    ]
