"""How one gradient travels. Pure data, no TensorFlow."""

import dataclasses
import enum
import functools
import math
from collections.abc import Sequence
from typing import TypeGuard

from tfcompress import _core
from tfcompress.custom import CustomCodec

# Specs that carry a tensor of each dtype bit by bit, for tensors that are not worth compressing.
PASS_THROUGH = {
    "float32": "dense|raw|raw",
    "float16": "dense|raw|fp16",
    "bfloat16": "dense|raw|bf16",
}
COMPRESSED_DTYPES = tuple(PASS_THROUGH)


class Transport(enum.Enum):
    """How a gradient travels."""

    ALLREDUCE = "all-reduce"  # Horovod sums the gradients as they are, or in half precision.
    GATHER = "gather"  # Each rank's frame travels to all ranks, which decode and sum.
    SHARD = "shard"  # Each rank sums a shard of all gradients, and sends the encoded sum to all ranks.
    SHARD_ROWS = "rows by owner"  # Each rank sums rows of tables, and sends the encoded sums to all ranks.
    LINEAR = "sum of payloads"  # Horovod sums the payloads of a linear codec.
    LOW_RANK = "sums of low-rank factors"  # Horovod sums left factors of matrices, then right factors.
    CUSTOM = "gather of what a codec in Python makes"  # As GATHER, without frames.

    @property
    def is_linear(self) -> bool:
        """Whether what a linear codec makes is summed."""
        return self in (Transport.LINEAR, Transport.LOW_RANK)

    @property
    def is_sharded(self) -> bool:
        """Whether each rank sums a part for all."""
        return self in (Transport.SHARD, Transport.SHARD_ROWS)


@dataclasses.dataclass(frozen=True)
class Route:
    """What happens to one gradient in one stage of a schedule.

    Attributes:
      transport: How it travels.
      spec: What is applied, its memory included.
      wire_dtype: The dtype in which all-reduce carries the gradient or payload; None for its own.
      row_sparsifier: What chooses among the rows of a table; "dense" elsewhere.
      seed: See `Compressor`.
      clip_norm: See `Compressor`.
      bypasses_memory: Whether the memory, which is empty, is left alone.
      return_spec: What is applied to sums of shards, the memory included; "" for `spec`.
      codec: In Python, which stands for the codecs of the spec.
    """

    transport: Transport
    spec: str
    wire_dtype: str | None = None
    row_sparsifier: str = "dense"
    seed: int = 0
    clip_norm: float | None = None
    bypasses_memory: bool = False
    return_spec: str = ""
    codec: CustomCodec | None = None

    @property
    def compresses(self) -> bool:
        """Whether fewer bytes than the gradient's are meant to travel."""
        if self.transport is Transport.ALLREDUCE:
            return self.wire_dtype is not None
        return self.codec is not None or not self.spec.endswith("dense|raw|raw")

    def signature(self) -> "Route":
        """Returns what a traced step cannot change: all but the specs of frames, inputs of the ops."""
        return dataclasses.replace(self, spec="", return_spec="") if self.carries_frames else self

    def with_memory(self, memory: str) -> "Route":
        """Returns the route with a memory in front of what is applied."""
        returned = f"{memory}|{self.return_spec}" if self.return_spec else ""
        return dataclasses.replace(self, spec=f"{memory}|{self.spec}", return_spec=returned)

    @property
    def spec_of_sums(self) -> str:
        """What the owner of a shard applies to the sum."""
        return self.return_spec or self.spec

    @property
    def rank(self) -> int:
        """The rank of the factors, where such are summed; 0 elsewhere."""
        return facts_of(self.spec)["rank"] if self.transport is Transport.LOW_RANK else 0

    @property
    def keeps_factor(self) -> bool:
        """Whether a step begins with the right factor of the one before."""
        return self.transport is Transport.LOW_RANK and facts_of(self.spec)["warm_start"]

    @property
    def carries_frames(self) -> bool:
        """Whether the gradient travels in frames."""
        return self.transport is Transport.GATHER or self.transport.is_sharded


def is_known(shape: Sequence[int | None]) -> TypeGuard[Sequence[int]]:
    """Returns whether all dimensions of a shape are known."""
    return None not in shape


def payload_elements(spec: str, elements: int) -> int:
    """Returns how many numbers a linear codec sends of a vector, exact values in a second round included.

    Args:
      spec: Of a linear codec that is not low-rank.
      elements: Of the vector.
    """
    sizes = _core.linear_sizes(spec, elements)
    return sizes["payload"] + (0 if facts_of(spec)["exact"] else sizes["candidates"])


def has_smaller_payload(spec: str, elements: int) -> bool:
    """Returns whether a linear codec sends fewer numbers than a vector has, which else travels as it is."""
    return payload_elements(spec, elements) < elements


def matrix_of(shape: Sequence[int]) -> tuple[int, int]:
    """Returns rows and columns of a tensor as a matrix: columns are its last dimension, of kernels outputs.

    Args:
      shape: Of at least one dimension.
    """
    return math.prod(shape[:-1]), shape[-1]


def factor_elements(shape: Sequence[int], rank: int) -> int:
    """Returns how many elements both low-rank factors of a tensor have.

    Args:
      shape: The tensor's, of at least one dimension.
      rank: Vectors of each factor.
    """
    return rank * sum(matrix_of(shape))


def has_smaller_factors(shape: Sequence[int], rank: int) -> bool:
    """Returns whether low-rank factors have fewer elements than their tensor, which else travels as it is.

    Args:
      shape: The tensor's.
      rank: Vectors of each factor.
    """
    return len(shape) >= 2 and factor_elements(shape, rank) < math.prod(shape)


@functools.lru_cache(maxsize=1024)
def facts_of(spec: str) -> dict:
    """Returns what `tfc.describe_spec` does."""
    return _core.describe_spec(spec)
