"""The compressor: which parts, and which tensors they are applied to."""

import dataclasses
import functools

from tfcompress import _core
from tfcompress.horovod_adapter import HorovodAdapter

# What carries a tensor of each dtype bit by bit, for tensors that are not worth compressing.
_PASS_THROUGH = {
    "float32": "dense|raw|raw",
    "float16": "dense|raw|fp16",
    "bfloat16": "dense|raw|bf16",
}
# Dense payloads that all-reduce can sum, and what Horovod calls them.
_LINEAR = {"dense|raw|raw": None, "dense|raw|fp16": "float16"}


@dataclasses.dataclass(frozen=True, eq=False)
class Compressor(HorovodAdapter):
    """A spec and a policy; immutable. Pass one as `compression=` to our wrappers or to Horovod's.

    State (residuals) is never in here: it belongs to the optimizer, to the tape's variables, or, under
    Horovod's own wrappers, to the pair of compressor and model. Use one compressor a model there.
    Compared and hashed by identity, as Horovod's caches need.

    Attributes:
      spec: The canonical spec, "[memory|]sparsifier|index|value" or "[memory|]sparsifier|joint".
      min_elements: Tensors with fewer elements travel uncompressed (default 1024): a header and a
        codec cost more than they save there.
      seed: Seed of the codecs that use randomness. Every step, tensor and rank derives its own.

    Raises:
      ValueError: The spec is not one (the message lists what is known), or min_elements is negative.
    """

    spec: str
    min_elements: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", _core.canonical_spec(self.spec))
        if self.min_elements < 0:
            raise ValueError(f"min_elements must be at least 0, got {self.min_elements}")

    def get_config(self) -> dict:
        """Returns what `from_config` needs to make an equal compressor; JSON-able."""
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config: dict) -> "Compressor":
        """Makes a compressor from `get_config()`."""
        return cls(**config)

    @property
    def linear(self) -> bool:
        """Whether payloads can be summed, so that Horovod's all-reduce carries them."""
        return self.spec in _LINEAR

    @property
    def wire_dtype(self) -> str | None:
        """Of a linear compressor: the dtype to all-reduce in, or None for the tensor's own."""
        return _LINEAR[self.spec]

    @functools.cached_property
    def num_slots(self) -> int:
        """Number of float32 vectors that the memory keeps for each compressed tensor."""
        return _core.describe_spec(self.spec)["num_slots"]

    def spec_for(self, dtype: str, num_elements: int) -> str:
        """Returns the spec that the policy applies to a tensor.

        Args:
          dtype: "float32", "float16" or "bfloat16".
          num_elements: The tensor's size.
        """
        return self.spec if num_elements >= self.min_elements else _PASS_THROUGH[dtype]

    def slots_for(self, dtype: str, num_elements: int) -> int:
        """Returns how many memory slots a tensor needs under the policy."""
        return self.num_slots if self.spec_for(dtype, num_elements) == self.spec else 0


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
