"""`list`: what specs and presets can name."""

import argparse
import dataclasses
import inspect

from tfcompress.catalogue import KINDS, Entry
from tfcompress.cli import console, presets

_DESCRIPTION = """List sparsifiers, codecs, memories and presets.

A spec is "[memory|]sparsifier|index|value", "[memory|]sparsifier|joint" or "[memory|]linear"; each part is
name[:key=value,...], and a key that is left out has the default."""


def add_parser(subcommands: argparse._SubParsersAction) -> None:
    """Adds the subcommand."""
    parser = console.add_subparser(subcommands, "list", _DESCRIPTION)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Lists the registry and the presets."""
    described = _describe_presets()
    if arguments.json:
        registry = {
            kind.lower().replace(" ", "_"): [dataclasses.asdict(entry) for entry in entries()]
            for kind, entries in KINDS.items()
        }
        console.print_json({**registry, "presets": described})
    else:
        for kind, entries in KINDS.items():
            _print_entries(kind, entries())
        if described is not None:
            _print_presets(described)
    if described is None:
        console.note("presets are not listed: they need TensorFlow, which is missing")


def _describe_presets() -> list[dict] | None:
    """Returns name, arguments, spec and transport of every preset, or None without TensorFlow."""
    compression = presets.compression_module()
    if compression is None:
        return None
    rows = []
    for name, preset in vars(compression.Compression).items():
        if name.startswith("_"):
            continue
        is_attribute = isinstance(preset, compression.Compressor)
        compressor = preset if is_attribute else getattr(compression.Compression, name)()
        rows.append(
            {
                "name": name,
                "arguments": {} if is_attribute else _defaults(getattr(compression.Compression, name)),
                "spec": compressor.spec,
                "transport": compressor.transport.value,
            }
        )
    return rows


def _defaults(preset: object) -> dict[str, object]:
    parameters = inspect.signature(preset).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is not each.VAR_KEYWORD}


def _print_entries(kind: str, entries: list[Entry]) -> None:
    table = console.make_table(kind, "name", "what", "parameters", "error", "bytes", "GPU", text=6)
    for entry in entries:
        parameters = "\n".join(f"{p.name}={p.default}  {p.range}: {p.doc}" for p in entry.parameters)
        table.add_row(entry.name, entry.doc, parameters, entry.error, entry.cost, entry.device or "-")
    console.print_table(table)


def _print_presets(described: list[dict]) -> None:
    table = console.make_table("Presets", "name", "arguments", "spec", "travels as", text=4)
    for preset in described:
        defaults = ", ".join(f"{name}={value!r}" for name, value in preset["arguments"].items())
        table.add_row(preset["name"], defaults, preset["spec"], preset["transport"])
    console.print_table(table)
