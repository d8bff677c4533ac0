"""The outer step: what becomes of the difference that a round of local steps has made."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class OuterStep:
    """SGD on the mean difference of a round, the "outer optimizer" of DiLoCo and FedOpt's server.

    With a the weights that all ranks had when the round began, and d the mean over ranks of a less a rank's
    weights, the "pseudo-gradient": v = momentum * v + d, and the ranks go on from a - rate * v; with
    `nesterov` from a - rate * (d + momentum * v). PyTorch's form of SGD: a rate applies to the whole
    velocity. Without momentum and at rate 1 that is the mean of the ranks' weights.

    Attributes:
      rate: Above 0, default 1.
      momentum: In [0, 1), default 0; above, one more vector of the model's size on every rank.
      nesterov: Default False.

    Raises:
      ValueError: A number is outside its range, or `nesterov` comes without momentum.
    """

    rate: float = 1.0
    momentum: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise ValueError(f"the outer rate must be above 0, got {self.rate}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"the outer momentum must be at least 0 and below 1, got {self.momentum}")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov=True needs an outer momentum above 0")

    @property
    def averages(self) -> bool:
        """Whether the ranks go on from the mean of their weights."""
        return self.rate == 1 and not self.momentum
