"""The parts that a spec can name, read from the core's registry."""

import dataclasses
from collections.abc import Callable
from typing import Any

from tfcompress import _core


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One `key=value` of a spec part.

    Attributes:
      name: The key.
      kind: "float", "int" or "choice".
      default: The value used where the key is left out, as text.
      range: The allowed values, as text, such as "(0, 1]" or "p0, p1".
      doc: One line.
    """

    name: str
    kind: str
    default: str
    range: str
    doc: str


@dataclasses.dataclass(frozen=True)
class Entry:
    """One sparsifier, codec or memory.

    Attributes:
      name: The name that a spec uses.
      id: The number that stands for it in a frame.
      doc: One line with the paper's section.
      parameters: Its parameters, in the order of the canonical spec.
      error: What differs after decoding, and by how much at most.
      cost: Bytes on the wire, as a formula of n and k.
      device: "yes" where there is a variant for GPUs (docs/cuda.md), which of its choices where some have
        one, or nothing.
    """

    name: str
    id: int
    doc: str
    parameters: tuple[Parameter, ...]
    error: str
    cost: str
    device: str


def sparsifiers() -> list[Entry]:
    """Returns what can choose the elements to send."""
    return _entries("sparsifiers")


def index_codecs() -> list[Entry]:
    """Returns what can code the indices of the elements sent."""
    return _entries("index_codecs")


def value_codecs() -> list[Entry]:
    """Returns what can code the values of the elements sent."""
    return _entries("value_codecs")


def joint_codecs() -> list[Entry]:
    """Returns what codes indices and values together."""
    return _entries("joint_codecs")


def linear_codecs() -> list[Entry]:
    """Returns what makes payloads that an all-reduce sums; a linear spec is `[memory|]linear`."""
    return _entries("linear_codecs")


def memories() -> list[Entry]:
    """Returns what can be carried from step to step."""
    return _entries("memories")


# All of the above, by their headings in tables.
KINDS: dict[str, Callable[[], list[Entry]]] = {
    "Sparsifiers": sparsifiers,
    "Index codecs": index_codecs,
    "Value codecs": value_codecs,
    "Joint codecs": joint_codecs,
    "Linear codecs": linear_codecs,
    "Memories": memories,
}


def describe_spec(spec: str) -> dict[str, Any]:
    """Returns what a spec consists of.

    Args:
      spec: "[memory|]sparsifier|index|value", "[memory|]sparsifier|joint" or "[memory|]linear".

    Returns:
      `spec`, in canonical form: every parameter is written out, the memory `none` is left out. `linear`,
      whether all-reduce sums its payloads. `memory`, and `num_slots`, the float32 vectors that it keeps for a
      tensor. `sparsifier`, `index`, `value` and `joint`, None where the spec has no such part. `everything`,
      whether all elements are sent. `takes_rows`, whether its codecs take sparse rows. Of a linear spec also
      `codec`, its last part, `exact`, whether recovered values are exact, `rank`, that of the factors of
      matrices, 0 for codecs that have none, and `warm_start`, whether steps begin with those of the last one.

    Raises:
      ValueError: The spec is not one; names the known parts.
    """
    return _core.describe_spec(spec)


def is_spec(text: str) -> bool:
    """Returns whether text looks like a spec, not like a preset: it has parts, or one part's parameters."""
    return "(" not in text and ("|" in text or ":" in text)


def _entries(kind: str) -> list[Entry]:
    return [
        Entry(
            row["name"],
            row["id"],
            row["doc"],
            tuple(map(_parameter, row["parameters"])),
            row["error"],
            row["cost"],
            row["device"],
        )
        for row in _core.registry(kind)
    ]


def _parameter(row: dict) -> Parameter:
    if row["kind"] == "choice":
        allowed = ", ".join(row["choices"])
    else:
        form = ".0f" if row["kind"] == "int" else "g"
        left, right = "(" if row["min_open"] else "[", ")" if row["max_open"] else "]"
        allowed = f"{left}{row['min']:{form}}, {row['max']:{form}}{right}"
    return Parameter(row["name"], row["kind"], row["default"], allowed, row["doc"])
