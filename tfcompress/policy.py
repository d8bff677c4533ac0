"""What to apply to which variable, and when: compressors and patterns of names. Pure data, no TensorFlow."""

import dataclasses
import functools
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tfcompress import _core, frames
from tfcompress.custom import CustomCodec
from tfcompress.notices import warn_once
from tfcompress.route import PASS_THROUGH, Route, Transport, facts_of, has_smaller_factors, is_known

# Specs that Horovod's all-reduce carries, and the dtypes in which it does; None: the gradient's own.
_ALLREDUCED = {"dense|raw|raw": None, "dense|raw|fp16": "float16"}
# What a codec in Python stands for.
_CUSTOM = ("dense|raw|raw", "residual|dense|raw|raw")
# Codecs of sparse rows where the compressor's own takes dense gradients only, or is not one of the core.
_ROWS = "nonzero|delta_binary|raw"
# Sparsifiers that choose rows by their norms as they choose elements by their magnitudes.
_ROW_SPARSIFIERS = ("topk", "threshold")

# How frames travel: to all ranks, to the rank that sums them, or as moves fewer bytes.
_EXCHANGES = ("gather", "shard", "auto")
# The least numbers of ranks on which sharding moves fewer bytes: of frames that do not grow with what is
# summed, and of others, whose elements or rows ranks have in common only in part (docs/convergence.md, "Rows
# of tables"; docs/papers.md, FastSGD's Figure 9).
_LEAST_SHARDING, _LEAST_SHARDING_UNIONS = 3, 4
# Sparsifiers whose sums have the elements of all ranks.
_OF_UNIONS = ("nonzero", "threshold")
# Elements of the vector whose frames tell how much larger those of a `return_spec` are.
_SIZED_ELEMENTS = 1 << 14

# A gradient's name, dtype name, shape, and whether it is rows of a table.
Described = tuple[str, str, tuple[int | None, ...], bool]
Exclusion = Sequence[str] | Callable[[str, tuple[int | None, ...]], bool]


@dataclasses.dataclass(frozen=True, eq=False)
class Compressor:
    """A spec, and the tensors that it is applied to; immutable.

    Pass one as `compression=` to the wrappers of this package or to Horovod's. State (residuals) is never in
    here: it belongs to the optimizer, to the tape's variables, or, under Horovod's own wrappers, to the pair
    of compressor and model. Compared and hashed by identity, as Horovod's caches need.

    Attributes:
      spec: The canonical spec, "[memory|]sparsifier|index|value", "[memory|]sparsifier|joint" or
        "[memory|]linear".
      min_elements: Tensors with fewer elements travel uncompressed (default 1024): a header and a
        codec cost more than they save there.
      seed: Seed of the codecs that use randomness. Every step, tensor and rank derives its own.
      exclude: Tensors that travel uncompressed: regular expressions of which one is found in the
        variable's name, such as ("bias$", "norm"), or a function of name and shape that says so
        (default: none). Horovod's own wrappers do not tell names: there it has no effect.
      row_sparsifier: Which of the rows that the gradient of a table touches (IndexedSlices: embeddings) are
        sent: a sparsifier that sees the Euclidean norm of each touched row, such as "topk:ratio=0.1", or
        "dense" for all. Default: the spec's own top-k or threshold where rows have a residual, else "dense".
        Row ids go through the spec's index codec, rows through its value codec.
      row_residual: Whether tables have a residual too, which keeps rows that are not sent until they are
        touched again: 4 bytes an element of the whole table, on every rank. Default: True where the spec
        has a residual and a top-k or threshold sparsifier, its index codec loses no row, and
        `row_sparsifier` is left out. With a `row_sparsifier` and no residual, what is not sent is lost.
      clip_norm: Local gradient clipping (Deep Gradient Compression 3.2): before anything else, all
        gradients of a step that have this limit, whatever their compressor, are scaled down together so that
        their Euclidean norm on this rank is at most clip_norm / sqrt(ranks); None (default) leaves them.
        Horovod's own wrappers show one gradient at a time: there each is clipped by itself.
      exchange: How frames travel. "gather" (default): every rank gets the frames of all ranks and decodes
        them; a rank moves and decodes as many frames as there are ranks. "shard": each rank sums a shard of
        all gradients and sends the sum, encoded again, to all: a rank moves and decodes about two frames,
        whatever the number of ranks; a residual takes up what the second encoding leaves out, too. "auto":
        what moves fewer bytes: "gather" on two ranks, on three where frames grow with what is summed (rows
        of tables, `nonzero`, `threshold`), and on up to 1 + c where those of `return_spec` are c times as
        large; "shard" on more and in elastic jobs, which may become larger. Rows of tables are sharded by
        their numbers: row r is summed by rank r % ranks. What all-reduce carries is not affected.
      payload_dtype: The dtype of a linear codec's payload in the all-reduce: "float32" (default) or
        "float16", whose range ends at 65,504.
      min_dimensions: Tensors of fewer dimensions travel uncompressed (default 0), as biases and scales do
        that many elements depend on: 2 for them.
      codec: A `tfc.CustomCodec`, written in Python, that stands for the codecs of the spec, which is
        "[residual|]dense|raw|raw" then. Every rank decodes what all others send; rows of tables travel
        through "nonzero|delta_binary|raw".
      return_spec: What the owner of a shard applies to the sum, "sparsifier|index|value" or
        "sparsifier|joint" (default: the same as to gradients). Of a sum of many ranks' largest elements twice
        as many are large: top-k of as few costs accuracy (docs/convergence.md).
      takes_momentum: Whether the memory, `residual` or `momentum`, takes the momentum of an optimizer that
        `tfc.DistributedOptimizer` wraps. If not (default), or if there is none, it is the spec's; a momentum
        of the memory beside one of the optimizer is refused.
      leaves_sgd_momentum: Whether `takes_momentum` is not for SGD, which keeps its own (default: no). The
        memory forgets the velocity of what it sends (DGC 3.2), so that less arrives where much is sent: a
        step of Adam does not follow that scale, and one of SGD does.

    Raises:
      ValueError: The spec or the row sparsifier is not one (the message lists what is known),
        min_elements is negative, clip_norm is not above 0, a pattern is not a regular expression,
        `row_residual` is combined with an index codec that loses rows, "shard" with a linear codec,
        `takes_momentum` with no memory, or `codec` with another spec or exchange.
    """

    spec: str
    min_elements: int = 1024
    seed: int = 0
    exclude: Exclusion = ()
    row_sparsifier: str | None = None
    row_residual: bool | None = None
    clip_norm: float | None = None
    exchange: str = "gather"
    payload_dtype: str = "float32"
    min_dimensions: int = 0
    takes_momentum: bool = False
    return_spec: str | None = None
    codec: CustomCodec | None = None
    leaves_sgd_momentum: bool = False

    def __post_init__(self) -> None:
        set_field = functools.partial(object.__setattr__, self)
        set_field("spec", _core.canonical_spec(self.spec))
        if self.min_elements < 0:
            raise ValueError(f"min_elements must be at least 0, got {self.min_elements}")
        if self.row_residual and self._loses_rows():
            raise ValueError("row_residual needs an index codec that loses nothing, not bloom")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm must be above 0, got {self.clip_norm}")
        if self.payload_dtype not in ("float32", "float16"):
            raise ValueError(f"payload_dtype must be float32 or float16, got {self.payload_dtype!r}")
        if self.exchange not in _EXCHANGES:
            raise ValueError(f"exchange must be one of {', '.join(_EXCHANGES)}, got {self.exchange!r}")
        if self.codec is not None and (self.spec not in _CUSTOM or self.exchange != "gather"):
            raise ValueError(
                f"a codec in Python stands for those of {' or '.join(_CUSTOM)} and is gathered, got "
                f"'{self.spec}' and exchange={self.exchange!r}"
            )
        if self.exchange == "shard" and facts_of(self.spec)["linear"]:
            raise ValueError(
                f"'{self.spec}' cannot be sharded: that takes a codec of frames, not a linear one, whose "
                "payloads are summed; use exchange='gather'"
            )
        if self.return_spec is not None:
            set_field("return_spec", _check_return_spec(self.return_spec))
        if self.takes_momentum and self.memory_kind == "none":
            raise ValueError(f"'{self.spec}' has no memory that could take a momentum")
        if self.row_sparsifier is not None:
            _check_row_sparsifier(self.row_sparsifier)
        if not callable(self.exclude):
            patterns = (self.exclude,) if isinstance(self.exclude, str) else tuple(self.exclude)
            for pattern in patterns:
                check_pattern(pattern)
            set_field("exclude", patterns)

    def get_config(self) -> dict:
        """Returns what `from_config` needs; JSON-able but for `codec` and an `exclude` that is a function."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_config(cls, config: dict) -> "Compressor":
        """Makes a compressor from `get_config()`."""
        return cls(**config)

    def compress(self, tensor: object) -> tuple[object, object]:
        """Exchanges a gradient for stock Horovod, which calls this; see `tfcompress.stock`."""
        from tfcompress import stock  # Needs TensorFlow and Horovod, which a policy does not.

        return stock.adapter_of(self).compress(tensor)

    def decompress(self, tensor: object, ctx: object) -> object:
        """Returns the reduced gradient to stock Horovod, which calls this; see `tfcompress.stock`."""
        from tfcompress import stock

        return stock.adapter_of(self).decompress(tensor, ctx)

    def __hash__(self) -> int:
        # All that Horovod's optimizer does with a compressor under Keras 3: keys of its caches are hashed.
        caller = sys._getframe(1)
        if caller.f_globals.get("__name__") == "horovod.tensorflow.util":
            from tfcompress import stock

            stock.refuse_keras_3(caller)
        return object.__hash__(self)

    @property
    def transport(self) -> Transport:
        """How gradients travel that are neither small nor excluded."""
        if self.codec is not None:
            return Transport.CUSTOM
        if self.spec in _ALLREDUCED:
            return Transport.ALLREDUCE
        if facts_of(self.spec)["linear"]:
            return Transport.LOW_RANK if facts_of(self.spec)["rank"] else Transport.LINEAR
        return Transport.SHARD if self.exchange == "shard" else Transport.GATHER

    def transport_on(self, num_ranks: int | None, is_table: bool = False) -> Transport:
        """Returns how gradients travel on so many ranks; None in elastic jobs, where the number changes."""
        is_open = self.exchange == "auto" and self.transport is Transport.GATHER
        shards = is_open and (num_ranks is None or num_ranks >= self._least_sharding(is_table))
        transport = Transport.SHARD if shards else self.transport
        return Transport.SHARD_ROWS if is_table and transport is Transport.SHARD else transport

    @property
    def is_summed(self) -> bool:
        """Whether Horovod's all-reduce sums what travels."""
        return self.transport is Transport.ALLREDUCE or self.transport.is_linear

    @property
    def wire_dtype(self) -> str | None:
        """The dtype that gradients are cast to for the all-reduce that carries them; None for their own."""
        return _ALLREDUCED.get(self.spec)

    @property
    def memory(self) -> str:
        """The memory's part of the spec, such as "residual"."""
        return facts_of(self.spec)["memory"]

    @property
    def memory_kind(self) -> str:
        """The memory's name: "none", "residual" or "momentum"."""
        return self.memory.partition(":")[0]

    @property
    def has_momentum(self) -> bool:
        """Whether the memory keeps velocities."""
        return self.memory_kind == "momentum"

    @property
    def num_slots(self) -> int:
        """Number of float32 vectors that the memory keeps for each compressed tensor."""
        return facts_of(self.spec)["num_slots"]

    @property
    def is_sparse(self) -> bool:
        """Whether a step applies some elements of a gradient and not others."""
        return self.transport is not Transport.ALLREDUCE and not facts_of(self.spec)["everything"]

    @property
    def keeps_rows(self) -> bool:
        """Whether tables have a residual; follows from the spec where `row_residual` is None."""
        if self.row_residual is not None:
            return self.row_residual
        return self.row_sparsifier is None and self._own_row_sparsifier() is not None

    @property
    def rows_chosen_by(self) -> str:
        """The sparsifier of rows; follows from the spec where `row_sparsifier` is None."""
        if self.row_sparsifier is not None:
            return self.row_sparsifier
        return (self._own_row_sparsifier() if self.keeps_rows else None) or "dense"

    def compressor_for(self, name: str) -> "Compressor":
        """Returns itself: it is the policy of all variables."""
        return self

    def compressors(self) -> list["Compressor"]:
        """Returns itself: it is the only one of this policy."""
        return [self]

    def route(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int | None],
        is_table: bool = False,
        num_ranks: int | None = None,
    ) -> Route:
        """Returns how one gradient travels.

        Args:
          name: The variable's.
          dtype: The gradient's, such as "float32".
          shape: The variable's; None for a dimension that is not known.
          is_table: Whether the gradient is IndexedSlices.
          num_ranks: Of the exchange; None where it may change.
        """
        transport = self.transport_on(num_ranks, is_table)
        framed = transport if transport.is_sharded else Transport.GATHER
        route = functools.partial(Route, seed=self.seed, clip_norm=self.clip_norm)
        if dtype not in PASS_THROUGH or self.transport is Transport.ALLREDUCE:
            clip_norm = self.clip_norm if dtype in PASS_THROUGH else None
            return Route(
                Transport.ALLREDUCE, "dense|raw|raw", self.wire_dtype, clip_norm=clip_norm, seed=self.seed
            )
        factors = transport is Transport.LOW_RANK and not is_table
        if self._passes_through(name, shape) or (factors and not self._factors_are_smaller(shape)):
            # Where the memory has the momentum, the optimizer has none for small tensors either.
            memory = "" if is_table or not self.has_momentum else f"{self.memory}|"
            if factors:  # Their traffic must not grow with the number of ranks either.
                return route(Transport.ALLREDUCE, f"{memory}dense|raw|raw")
            return route(framed, memory + PASS_THROUGH[dtype])
        if is_table:
            return route(framed, self._row_spec(), row_sparsifier=self.rows_chosen_by)
        if transport is Transport.SHARD and self.return_spec is not None:
            bare = route(transport, _without_memory(self.spec), return_spec=self.return_spec)
            return bare if self.memory_kind == "none" else bare.with_memory(self.memory)
        wire_dtype = self.payload_dtype if self.transport.is_linear else None
        return route(transport, self.spec, wire_dtype, codec=self.codec)

    def memory_for(self, route: Route, is_table: bool) -> tuple[str, int]:
        """Returns the kind of memory that a gradient needs on a route, and its number of slots."""
        if is_table:
            passes = not route.carries_frames or route.spec in PASS_THROUGH.values()
            return ("residual", 1) if self.keeps_rows and not passes else ("none", 0)
        description = facts_of(route.spec)
        return description["memory"].partition(":")[0], description["num_slots"]

    def _passes_through(self, name: str, shape: Sequence[int | None]) -> bool:
        if is_known(shape) and math.prod(shape) < self.min_elements:
            return True
        if len(shape) < self.min_dimensions:
            return True
        if callable(self.exclude):
            return bool(self.exclude(name, tuple(shape)))
        return any(re.search(pattern, name) for pattern in self.exclude)

    def _factors_are_smaller(self, shape: Sequence[int | None]) -> bool:
        """Whether low-rank factors have fewer elements than a tensor; also if its shape is not known."""
        return not is_known(shape) or has_smaller_factors(shape, facts_of(self.spec)["rank"])

    def _least_sharding(self, is_table: bool) -> int:
        """Returns the least number of ranks on which sharding moves fewer bytes than gathering."""
        are_unions = is_table or (facts_of(self.spec)["sparsifier"] or "").startswith(_OF_UNIONS)
        least = _LEAST_SHARDING_UNIONS if are_unions else _LEAST_SHARDING
        if is_table or self.return_spec is None:
            return least
        # Of R ranks, one moves 2 (R - 1) frames, or 2 (R - 1) / R of a frame and of the frame of the sum.
        growth = _growth_of_sums(_without_memory(self.spec), self.return_spec)
        return max(least, 2 + math.floor(round(growth, 1)))  # Rounded: alike on all kinds of processors.

    def _loses_rows(self) -> bool:
        return "|bloom" in self.spec

    def _own_row_sparsifier(self) -> str | None:
        """The spec's sparsifier, where it may choose rows: where the residual keeps what is left out."""
        is_kept = self.memory_kind == "residual" and not self.is_summed
        if not is_kept:
            return None
        sparsifier = facts_of(self.spec)["sparsifier"]
        chooses = sparsifier.partition(":")[0] in _ROW_SPARSIFIERS
        return sparsifier if chooses and not self._loses_rows() else None

    def _row_spec(self) -> str:
        if self.transport.is_linear or self.codec is not None:
            return _ROWS
        if not facts_of(self.spec)["takes_rows"]:
            warn_once(
                f"the codec of '{self.spec}' takes dense gradients only: sparse rows (IndexedSlices) travel "
                f"through '{_ROWS}' instead; sparse_as_dense=True makes them dense"
            )
            return _ROWS
        return self.spec


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
          TypeError: A value or `default` is not a `Compressor`.
        """
        self._compressors = {}
        for pattern, compressor in compressors.items():
            check_pattern(pattern)
            self._compressors[pattern] = as_compressor(compressor)
        self._default = as_compressor(default)

    def compressor_for(self, name: str) -> Compressor:
        """Returns the compressor of the variable of this name."""
        for pattern, compressor in self._compressors.items():
            if re.search(pattern, name):
                return compressor
        return self._default

    def mapped(self, change: Callable[[Compressor], Compressor]) -> "PerVariable":
        """Returns a policy with changed compressors, for the same variables."""
        changed = {pattern: change(each) for pattern, each in self._compressors.items()}
        return PerVariable(changed, change(self._default))

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


def _without_memory(spec: str) -> str:
    return spec if facts_of(spec)["memory"] == "none" else spec.partition("|")[2]


@functools.cache
def _growth_of_sums(spec: str, return_spec: str) -> float:
    """Returns how many times as large frames of sums are as those of gradients."""
    values = np.random.default_rng(0).standard_normal((_SIZED_ELEMENTS // 64, 64), np.float32)
    return len(frames.encode(values, return_spec)) / len(frames.encode(values, spec))


def _check_return_spec(spec: str) -> str:
    """Returns the canonical spec; raises ValueError unless sums can be encoded by it."""
    described = facts_of(_core.canonical_spec(spec))
    if described["linear"] or described["memory"] != "none":
        raise ValueError(
            f"return_spec '{spec}' must be a sparsifier and codecs of frames, without a memory: that of the "
            "spec keeps what sums leave out"
        )
    return _core.canonical_spec(spec)


def _check_row_sparsifier(part: str) -> None:
    index = "raw" if part == "dense" else "delta_binary"
    try:
        _core.canonical_spec(f"{part}|{index}|raw")
    except ValueError as error:
        raise ValueError(f"row_sparsifier {part!r}: {error}") from error


def check_pattern(pattern: str) -> None:
    """Raises ValueError unless `pattern` is a regular expression."""
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error


# What Horovod's own compressors are here, by the names of their classes.
_HOROVODS = {"NoneCompressor": "dense|raw|raw", "FP16Compressor": "dense|raw|fp16"}


def as_compressor(compression: object) -> Compressor:
    """Returns a compressor for one of ours, or for `hvd.Compression.none` and `hvd.Compression.fp16`.

    Raises:
      TypeError: Another object; the message says what to pass.
    """
    if isinstance(compression, Compressor):
        return compression
    name = getattr(compression, "__name__", "")
    if getattr(compression, "__module__", "").startswith("horovod.") and name in _HOROVODS:
        return Compressor(_HOROVODS[name])
    hint = "; presets other than none, fp16 and bf16 are functions: call it" if callable(compression) else ""
    raise TypeError(
        f"compression must be a tfc.Compressor such as tfc.Compression.topk(), got {compression!r}{hint}"
    )


def as_policy(compression: object) -> Policy:
    """Returns a policy for a compressor, or for {pattern: compressor}.

    Raises:
      TypeError: Another object; the message says what to pass.
    """
    if isinstance(compression, PerVariable):
        return compression
    if isinstance(compression, Mapping):
        return PerVariable(compression, default=Compressor("dense|raw|raw"))
    return as_compressor(compression)
