"""Follows CONTRIBUTING.md's "Add a codec" literally, against the core as it was built."""

import json
import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CORE = ROOT / "cc_ops" / "core"
BUILD = ROOT / "build" / "release"

USE_IT = """
#include <cstdio>
#include "core/compressor.h"
#include "core/pipeline.h"
using namespace tfcompress;
int main() {
  auto compressor = Compressor::FromSpec("topk:ratio=0.25|varint|raw");
  if (!compressor.ok()) return std::puts(compressor.status().message().c_str()), 1;
  std::vector<float> gradient(4000);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>((i * 7919) % 1009)
  - 500; Bytes frame;
  const GradientView view{gradient.data(), DType::kFloat32, gradient.size()};
  const Status encoded = EncodeFrame(*compressor.value(), view, MemorySlots{}, CodecContext{}, &frame);
  if (!encoded.ok()) return std::puts(encoded.message().c_str()), 1;
  std::vector<float> sum(gradient.size());
  const std::vector<SumTarget> targets{{sum.data(), DType::kFloat32, sum.size()}};
  const Status decoded = DecodeSum(frame, 1, 1.0f, targets, SerialExecutor(), {});
  if (!decoded.ok()) return std::puts(decoded.message().c_str()), 1;
  int num_sent = 0;
  for (size_t i = 0; i < sum.size(); ++i) {
    if (sum[i] != 0 && sum[i] != gradient[i]) return std::puts("a value changed"), 1;
    num_sent += sum[i] != 0;
  }
  std::printf("sent %d in %zu bytes\\n", num_sent, frame.size());
}
"""


def code_blocks():
    """The fenced C++ blocks, by the path in their first line."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    blocks = re.findall(r"```cpp\n// (\S+)\n(.*?)```", text, re.DOTALL)
    return {path: body for path, body in blocks}


def registry_with(rows):
    """registry.cc with the documented declaration and row put where the document says."""
    declaration, row = [line for line in rows.splitlines() if line.strip()]
    source = (CORE / "registry.cc").read_text()
    source = source.replace("namespace tfcompress {\n", f"namespace tfcompress {{\n{declaration}\n", 1)
    table = re.search(r"RegistryRow<IndexCodec>>\{\n", source)
    return source[: table.end()] + row + "\n" + source[table.end() :]


def compile_command():
    """The command that compiled the core's registry, less the names of files, without an optimiser."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    (entry,) = [entry for entry in commands if entry["file"] == str(CORE / "registry.cc")]
    command = shlex.split(entry["command"])
    return [*command[: command.index("-o")], "-O0"]


def test_the_worked_example_compiles_and_runs(tmp_path):
    library = BUILD / "libtfc_core.a"
    if not library.exists():
        pytest.skip(f"no {library}: `make setup` builds it")
    blocks = code_blocks()
    assert set(blocks) == {"cc_ops/core/index/varint.cc", "cc_ops/core/registry.cc"}
    sources = {
        "varint.cc": blocks["cc_ops/core/index/varint.cc"],
        "registry.cc": registry_with(blocks["cc_ops/core/registry.cc"]),
        "main.cc": USE_IT,
    }
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    # This registry stands before the library, whose own is then not linked.
    inputs = [*(str(tmp_path / name) for name in sources), str(library)]
    example = str(tmp_path / "example")
    subprocess.run([*compile_command(), "-pthread", "-o", example, *inputs, "-lz"], check=True)
    result = subprocess.run([example], check=True, capture_output=True, text=True)
    assert re.match(r"sent 1000 in \d+ bytes", result.stdout) or "sent 99" in result.stdout, result.stdout
