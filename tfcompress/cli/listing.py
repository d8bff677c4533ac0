"""`list`: what specs and presets can name."""

import argparse
import dataclasses
import inspect
from collections.abc import Callable

import tfcompress as tfc
from tfcompress.catalogue import KINDS, Entry
from tfcompress.cli import console
from tfcompress.cli.coding import preset_names

_DESCRIPTION = """List sparsifiers, codecs, memories and presets.

A spec is "[memory|]sparsifier|index|value", "[memory|]sparsifier|joint" or "[memory|]linear"; each part is
name[:key=value,...], and a key that is left out has the default."""
# Keywords of the policy, of which most presets take those of `topk`.
_POLICY = {field.name: field.default for field in dataclasses.fields(tfc.Compressor) if field.name != "spec"}


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
        _print_presets(described)


def _describe_presets() -> list[dict]:
    """Returns name, arguments, spec and transport of every preset."""
    rows = []
    for name in preset_names():
        preset = getattr(tfc.Compression, name)
        is_attribute = isinstance(preset, tfc.Compressor)
        compressor = preset if is_attribute else preset()
        is_one = isinstance(compressor, tfc.Compressor)  # `auto` and `sparse` are several.
        rows.append(
            {
                "name": name,
                "arguments": {} if is_attribute else _defaults(preset),
                "spec": compressor.spec,
                "transport": compressor.transport.value if is_one else "",
            }
        )
    return rows


def _defaults(preset: Callable) -> dict[str, object]:
    """Returns the defaults of a preset's own arguments, and of keywords of the policy where they differ."""
    defaults = {each.name: each.default for each in inspect.signature(preset).parameters.values()}
    return {name: value for name, value in defaults.items() if name not in _POLICY or _POLICY[name] != value}


def _print_entries(kind: str, entries: list[Entry]) -> None:
    table = console.make_table(kind, "name", "what", "parameters", "error", "bytes", "GPU", text=6)
    for entry in entries:
        parameters = "\n".join(f"{p.name}={p.default}  {p.range}: {p.doc}" for p in entry.parameters)
        table.add_row(entry.name, entry.doc, parameters, entry.error, entry.cost, entry.device or "-")
    console.print_table(table)


def _print_presets(described: list[dict]) -> None:
    common = ", ".join(name for name in inspect.signature(tfc.Compression.topk).parameters if name in _POLICY)
    caption = f"most functions also take {common}; those whose payloads are summed, payload_dtype"
    headings = ("name", "arguments", "spec", "travels as")
    table = console.make_table("Presets", *headings, caption=caption, text=4)
    for preset in described:
        defaults = ", ".join(f"{name}={value!r}" for name, value in preset["arguments"].items())
        table.add_row(preset["name"], defaults, preset["spec"], preset["transport"])
    console.print_table(table)
