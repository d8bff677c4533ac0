"""How a step reduces gradients: what Horovod's wrappers take beside `compression`."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from tfcompress import comm


@dataclasses.dataclass(frozen=True)
class Options:
    """How a step reduces: the arguments of Horovod's wrappers.

    Attributes:
      op: hvd.Average (default) or hvd.Sum.
      gradient_predivide_factor: Splits the division of an average in two: 1/f before the sum, f/size
        after it. Only what all-reduce sums can overflow: it changes nothing for frames.
      process_set: The hvd.ProcessSet whose ranks exchange; None for all.
      num_groups: Groups in which Horovod reduces uncompressed gradients, and packets of compressed ones;
        0: as Horovod likes, and one packet.
      sparse_as_dense: Whether IndexedSlices become dense gradients first.
      scale_local_gradients: Whether gradients of local variables are divided by the number of ranks
        where `op` is average, as Horovod does.
      hierarchical: Whether the ranks of a host sum among each other first, and hosts exchange the sums.

    Raises:
      ValueError: Arguments do not go together.
    """

    op: Any = None
    gradient_predivide_factor: float = 1.0
    process_set: Any = None
    num_groups: int = 0
    sparse_as_dense: bool = False
    scale_local_gradients: bool = True
    hierarchical: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "op", comm.reduction(self.op))
        if self.gradient_predivide_factor != 1.0 and self.op != comm.AVERAGE:
            raise ValueError("gradient_predivide_factor is for op=hvd.Average")
        if self.gradient_predivide_factor <= 0:
            raise ValueError(
                f"gradient_predivide_factor must be above 0, got {self.gradient_predivide_factor}"
            )
        if self.num_groups < 0:
            raise ValueError(f"num_groups must be at least 0, got {self.num_groups}")
        if self.hierarchical and self.process_set is not None:
            raise ValueError("hierarchical=True makes process sets of all ranks: leave out process_set")

    @classmethod
    def of_horovod(
        cls,
        name: str | None = None,
        device_dense: str = "",
        device_sparse: str = "",
        groups: int | Sequence | None = None,
        **options: Any,
    ) -> "Options":
        """Takes what programs that were written for Horovod pass.

        Args:
          name: Comes before `compression` in Horovod's order, as the devices do; not used.
          device_dense: Not used.
          device_sparse: Not used.
          groups: A number of groups, or a list of lists of variables, of which the number counts; None leaves
            `num_groups`.
          options: The attributes.

        Raises:
          TypeError: Something else stands where a name or device should be.
          ValueError: Arguments do not go together.
        """
        for argument in (name, device_dense, device_sparse):
            if argument is not None and not isinstance(argument, str):
                raise TypeError(
                    f"pass compression={argument!r} by its name: the order of arguments is Horovod's"
                )
        if groups is not None:
            options["num_groups"] = groups if isinstance(groups, int) else len(groups)
        return cls(**options)

    def describe(self) -> dict:
        """Returns what must be equal on all ranks; the process set is the ranks that compare."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del fields["process_set"]
        return fields
