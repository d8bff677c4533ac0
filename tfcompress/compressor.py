"""The compressor: which parts, and which tensors they are applied to."""

import dataclasses
import enum
import functools
import re
from collections.abc import Callable, Mapping, Sequence

from tfcompress import _core
from tfcompress.horovod_adapter import HorovodAdapter

# What carries a tensor of each dtype bit by bit, for tensors that are not worth compressing.
_PASS_THROUGH = {
    "float32": "dense|raw|raw",
    "float16": "dense|raw|fp16",
    "bfloat16": "dense|raw|bf16",
}
# Dense payloads that all-reduce can sum as they are, and the dtypes in which it does.
_SUMMED_AS = {"dense|raw|raw": None, "dense|raw|fp16": "float16", "dense|raw|bf16": "bfloat16"}
# What carries the rows of a table where the spec's codec is for dense gradients only.
_ROWS = "nonzero|delta_binary|raw"

Exclusion = Sequence[str] | Callable[[str, tuple[int, ...]], bool]


class Transport(enum.Enum):
    """How gradients travel."""

    ALLREDUCE = "all-reduce"  # Horovod sums the gradients as they are, or in half precision.
    PAYLOAD_SUM = "sum of payloads"  # Horovod sums what a linear codec makes of them.
    PACKET = "packet"  # Frames, gathered.


@dataclasses.dataclass(frozen=True, eq=False)
class Compressor(HorovodAdapter):
    """A spec and a policy; immutable. Pass one as `compression=` to our wrappers or to Horovod's.

    State (residuals) is never in here: it belongs to the optimizer, to the tape's variables, or, under
    Horovod's own wrappers, to the pair of compressor and model. Use one compressor a model there.
    Compared and hashed by identity, as Horovod's caches need.

    Attributes:
      spec: The canonical spec, "[memory|]sparsifier|index|value", "[memory|]sparsifier|joint" or
        "[memory|]linear".
      min_elements: Tensors with fewer elements travel uncompressed (default 1024): a header and a
        codec cost more than they save there.
      seed: Seed of the codecs that use randomness. Every step, tensor and rank derives its own.
      exclude: Tensors that travel uncompressed: regular expressions of which one is found in the
        variable's name, such as ("bias", "norm"), or a function of name and shape that says so
        (default: none). Horovod's own wrappers do not tell names: there it has no effect.
      row_sparsifier: Of the rows that the gradient of a table touches (IndexedSlices: embeddings), which
        are sent: a sparsifier that sees the Euclidean norm of each touched row, such as
        "topk:ratio=0.1" (default "dense": all of them). Their ids go through the spec's index codec,
        their values through its value codec; the spec's own sparsifier and memory are for dense
        gradients.
      row_residual: Whether tables have a residual too, which keeps rows that are not sent until they are
        touched again (default False: 4 bytes an element of the whole table, on every rank).
      clip_norm: Local gradient clipping (Deep Gradient Compression 3.2): before anything else, all
        gradients of this compressor in a step are scaled down together so that their Euclidean norm on
        this rank is at most clip_norm / sqrt(ranks); None (default) leaves them. Horovod's own wrappers
        show one gradient at a time: there each is clipped by itself.
      payload_dtype: What a linear codec's payload is cast to for the all-reduce: "float32" (default) or
        "float16", whose range ends at 65,504.

    Raises:
      ValueError: The spec or the row sparsifier is not one (the message lists what is known),
        min_elements is negative, clip_norm is not above 0, a pattern is not a regular expression, or
        `row_residual` is combined with an index codec that loses rows.
    """

    spec: str
    min_elements: int = 1024
    seed: int = 0
    exclude: Exclusion = ()
    row_sparsifier: str = "dense"
    row_residual: bool = False
    clip_norm: float | None = None
    payload_dtype: str = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", _core.canonical_spec(self.spec))
        if self.min_elements < 0:
            raise ValueError(f"min_elements must be at least 0, got {self.min_elements}")
        if self.row_residual and "|bloom" in self.spec:
            raise ValueError("row_residual needs an index codec that loses nothing, not bloom")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm must be above 0, got {self.clip_norm}")
        if self.payload_dtype not in ("float32", "float16"):
            raise ValueError(f"payload_dtype must be float32 or float16, got {self.payload_dtype!r}")
        _check_row_sparsifier(self.row_sparsifier)
        if not callable(self.exclude):
            patterns = (self.exclude,) if isinstance(self.exclude, str) else tuple(self.exclude)
            for pattern in patterns:
                check_pattern(pattern)
            object.__setattr__(self, "exclude", patterns)

    def get_config(self) -> dict:
        """Returns what `from_config` needs; JSON-able unless `exclude` is a function."""
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config: dict) -> "Compressor":
        """Makes a compressor from `get_config()`."""
        return cls(**config)

    @functools.cached_property
    def _description(self) -> dict:
        return _core.describe_spec(self.spec)

    @property
    def transport(self) -> Transport:
        """How gradients travel that the policy does not exempt."""
        if self.spec in _SUMMED_AS:
            return Transport.ALLREDUCE
        return Transport.PAYLOAD_SUM if is_linear(self.spec) else Transport.PACKET

    @property
    def linear(self) -> bool:
        """Whether what travels can be summed, so that Horovod's all-reduce carries it."""
        return self.transport is not Transport.PACKET

    @property
    def wire_dtype(self) -> str | None:
        """Of what all-reduce carries: the dtype it is cast to, or None for the tensor's own."""
        return _SUMMED_AS[self.spec] if self.spec in _SUMMED_AS else self.payload_dtype

    @property
    def num_slots(self) -> int:
        """Number of float32 vectors that the memory keeps for each compressed tensor."""
        return self._description["num_slots"]

    @property
    def memory(self) -> str:
        """The memory's part of the spec."""
        return self._description["memory"]

    def kind(self) -> tuple:
        """Returns what a traced step cannot change: transport, memory, rows, seed, clipping."""
        summed = self.spec if self.transport is Transport.PAYLOAD_SUM else None
        rows = (self.row_sparsifier, self.row_residual)
        return self.transport, summed, self.num_slots, rows, self.seed, self.clip_norm, self.payload_dtype

    def compressor_for(self, name: str) -> "Compressor":
        """Returns itself: it is the policy of all variables."""
        return self

    def compressors(self) -> list["Compressor"]:
        """Returns itself: it is the only one of this policy."""
        return [self]

    def spec_for(self, name: str, dtype: str, shape: Sequence[int | None], is_table: bool = False) -> str:
        """Returns the spec that the policy applies to a tensor.

        Args:
          name: The variable's.
          dtype: "float32", "float16" or "bfloat16".
          shape: Tensors of unknown size are compressed.
          is_table: Whether the spec's codecs are applied to rows (IndexedSlices).
        """
        if not self._passes_through(name, shape):
            return _ROWS if is_table and self.transport is Transport.PAYLOAD_SUM else self.spec
        # The optimizer has no momentum of its own where the memory has it.
        has_momentum = self.memory.startswith("momentum")
        return f"{self.memory}|{_PASS_THROUGH[dtype]}" if has_momentum else _PASS_THROUGH[dtype]

    def slots_for(self, name: str, dtype: str, shape: Sequence[int | None]) -> int:
        """Returns how many memory slots a tensor needs under the policy."""
        return _core.describe_spec(self.spec_for(name, dtype, shape))["num_slots"]

    def _passes_through(self, name: str, shape: Sequence[int | None]) -> bool:
        if None not in shape and functools.reduce(int.__mul__, shape, 1) < self.min_elements:
            return True
        if callable(self.exclude):
            return bool(self.exclude(name, tuple(shape)))
        return any(re.search(pattern, name) for pattern in self.exclude)


def is_linear(spec: str) -> bool:
    """Whether payloads of a spec are summed instead of framed."""
    return _core.describe_spec(spec)["linear"]


def _check_row_sparsifier(part: str) -> None:
    index = "raw" if part == "dense" else "delta_binary"
    try:
        _core.canonical_spec(f"{part}|{index}|raw")
    except ValueError as error:
        raise ValueError(f"row_sparsifier {part!r}: {error}") from error


class PerVariable:
    """Different compressors for different variables; what a mapping given as `compression=` becomes."""

    def __init__(self, compressors: Mapping[str, Compressor], default: Compressor) -> None:
        """Takes the compressors.

        Args:
          compressors: From regular expressions to compressors. The first one that is found in a
            variable's name decides.
          default: For variables that match none.

        Raises:
          ValueError: A key is not a regular expression.
          TypeError: A value is not a `Compressor`.
        """
        for pattern, compressor in compressors.items():
            check_pattern(pattern)
            check_compressor(compressor)
        self._compressors = dict(compressors)
        self._default = default

    def compressor_for(self, name: str) -> Compressor:
        """Returns the compressor of the variable of this name."""
        for pattern, compressor in self._compressors.items():
            if re.search(pattern, name):
                return compressor
        return self._default

    def compressors(self) -> list[Compressor]:
        """Returns those that variables may get."""
        return [*self._compressors.values(), self._default]

    def get_config(self) -> dict:
        """Returns the configurations by pattern; "" is the default's."""
        return {
            **{pattern: compressor.get_config() for pattern, compressor in self._compressors.items()},
            "": self._default.get_config(),
        }


Policy = Compressor | PerVariable


def as_policy(compression: object) -> Policy:
    """Returns a policy for what a user gave as `compression=`: a compressor, or {pattern: compressor}.

    Raises:
      TypeError: It is neither; says the mend.
    """
    if isinstance(compression, PerVariable):
        return compression
    if isinstance(compression, Mapping):
        return PerVariable(compression, default=Compressor("dense|raw|raw"))
    check_compressor(compression)
    return compression


def check_pattern(pattern: str) -> None:
    """Raises ValueError unless `pattern` is a regular expression."""
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error


def check_compressor(compression: object) -> None:
    """Raises TypeError, with the mend, unless `compression` is a `Compressor`."""
    if isinstance(compression, Compressor):
        return
    hint = ""
    if callable(compression):
        hint = "; presets other than none and fp16 are functions: call it"
    raise TypeError(
        f"compression must be a tfc.Compressor such as tfc.Compression.topk(), got {compression!r}{hint}"
    )
