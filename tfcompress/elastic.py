"""Elastic Horovod: training goes on when ranks die or join.

All else is Horovod's: `hvd.elastic.run`, `CommitStateCallback` of `horovod.tensorflow.keras.elastic`, and
`horovodrun --host-discovery-script`:

    @hvd.elastic.run
    def train(state):
        while state.batch < num_batches:
            step(state.batch)
            state.batch += 1
            if state.batch % 100 == 0:
                state.commit()

    train(tfc.elastic.KerasState(model, batch=0))
"""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfcompress import comm
from tfcompress.accumulation import LocalAccumulator
from tfcompress.broadcast import broadcast_object, broadcast_variables
from tfcompress.keras_objects import innermost, rounds_of, training_variables
from tfcompress.step_state import StepState
from tfcompress.tape import begin_at, counts_of, states_of

try:
    from horovod.common.elastic import ObjectState as _ObjectState
    from horovod.common.exceptions import HorovodInternalError
except ImportError:  # KerasState says so when one is made.
    _ObjectState = object


@dataclasses.dataclass(frozen=True)
class _Commit:
    """What training goes back to.

    Attributes:
      attributes: The state's own, by name.
      variables: Of model and optimizer.
      own: This rank's snapshots: of steps and accumulators, by their ids.
    """

    attributes: dict[str, Any]
    variables: list[np.ndarray]
    own: dict[int, tuple]


class KerasState(_ObjectState):
    """What `hvd.elastic.run` keeps of a model, its optimizer and this rank's residuals.

    Stands for `hvd.elastic.TensorFlowKerasState`, which knows nothing of residuals and fails on Keras 3.

    Model and optimizer are the same on all ranks: a new rank gets them from an old one. Residuals are each
    rank's own. After a failure every surviving rank has those of the commit that model and optimizer go
    back to, so that no update is lost or applied twice. The residuals of a rank that died are lost, and a
    new rank starts with zeros; so it is with the gradients that `backward_passes_per_step` adds up.
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        """Takes what Horovod's state takes.

        Args:
          model: A built Keras model.
          optimizer: Its optimizer (default: the one that it is compiled with), from
            `tfc.DistributedOptimizer`, or a plain one whose gradients come from
            `tfc.DistributedGradientTape`.
          kwargs: Objects to keep and to send to new ranks, such as the number of the batch: they become
            attributes of the state.

        Raises:
          ImportError: Horovod is not installed.
          ValueError: The model is not built, or its optimizer takes local steps.
        """
        comm.horovod()
        if not model.built:
            raise ValueError("the model has no variables yet: call it once, or model.build(input_shape)")
        self.model = model
        self.optimizer = model.optimizer if optimizer is None else optimizer
        if rounds_of(self.optimizer) is not None:
            raise ValueError("tfc.LocalSteps does not work with KerasState: use tfc.DistributedOptimizer")
        self._variables = training_variables(self.model, self.optimizer)
        # By number, the last two at most: a rank may be one ahead of another that fails at that very step.
        self._commits: dict[int, _Commit] = {}
        self._has_failed = False
        super().__init__(bcast_object=broadcast_object, get_rank=comm.ALL_RANKS.rank, **kwargs)

    def save(self) -> None:
        """Copies everything to host memory, on all ranks after the same step.

        `commit` does so too, and looks for new hosts.
        """
        super().save()
        self._add_commit(max(self._commits, default=0) + 1)

    def restore(self) -> None:
        """Goes back to the last commit. Horovod calls it after a failure, and `sync` after that."""
        self._has_failed = True
        if self._commits:
            self._go_back_to(max(self._commits))

    def check_host_updates(self) -> None:
        """Raises Horovod's HostsUpdatedInterrupt on all ranks if hosts were added or removed."""
        super().check_host_updates()
        # All ranks have taken part in a broadcast, so all have made the last commit.
        self._keep(max(self._commits, default=0))

    def sync(self) -> None:
        """Brings all ranks to the same point. Horovod calls it before it calls the training function.

        Raises:
          HorovodInternalError: A rank failed meanwhile; Horovod then restores and synchronises again.
        """
        with _failures_as_horovod_knows_them():
            mine = json.dumps([list(self._commits), self._has_failed]).encode()
            ranks = [json.loads(message) for message in comm.ALL_RANKS.gather_messages(mine)]
            common = min((max(commits) for commits, _ in ranks if commits), default=0)
            self._keep(common)
            if self._commits and any(has_failed for _, has_failed in ranks):
                self._go_back_to(common)
            old_ranks = [rank for rank, (commits, _) in enumerate(ranks) if common in commits]
            self._take_over(old_ranks[0] if old_ranks else 0, is_new=bool(old_ranks) and not self._commits)
        self._has_failed = False
        super().save()
        self._add_commit(common + 1)

    def _add_commit(self, number: int) -> None:
        self._keep(number - 1)
        self._commits[number] = _Commit(
            dict(self._saved_state),
            [variable.numpy() for variable in self._variables],
            {id(holder): holder.snapshot() for holder in self._holders()},
        )

    def _keep(self, number: int) -> None:
        """Forgets all commits but one."""
        self._commits = {key: commit for key, commit in self._commits.items() if key == number}

    def _go_back_to(self, number: int) -> None:
        commit = self._commits[number]
        for variable, value in zip(self._variables, commit.variables, strict=True):
            variable.assign(value)
        for holder in self._holders():
            holder.restore(*commit.own.get(id(holder), (0, {})))
        self._saved_state = dict(commit.attributes)
        super().restore()

    def _take_over(self, root_rank: int, is_new: bool) -> None:
        """Gets from `root_rank` all but what is each rank's own; a new rank starts with zeros there."""
        broadcast_variables(self._variables, root_rank)
        attributes = {name: getattr(self, name) for name in self._saved_state}
        counts = [holder.snapshot()[0] for holder in self._holders()]
        of_tapes = counts_of(self.model.variables)
        attributes, counts, of_tapes = broadcast_object((attributes, counts, of_tapes), root_rank)
        for name, value in attributes.items():
            setattr(self, name, value)
        if is_new:
            # Tapes have made their steps on old ranks only. They come last, and are missing here.
            for holder, count in zip(self._holders(), counts, strict=False):
                holder.restore(count, {})
            begin_at(self.model.variables, of_tapes)

    def _holders(self) -> Sequence[LocalAccumulator | StepState]:
        """All that keep something from step to step which is this rank's own."""
        tapes = states_of(self.model.variables)
        for optimizer in (self.optimizer, innermost(self.optimizer)):
            if hasattr(optimizer, "_tfcompress_step"):
                return [optimizer._tfcompress_step.state, optimizer._tfcompress_accumulator, *tapes]
        return tapes


@contextlib.contextmanager
def _failures_as_horovod_knows_them() -> Iterator[None]:
    """Horovod converts errors of the training function, but not those of `sync`."""
    try:
        yield
    except tf.errors.UnknownError as error:
        raise HorovodInternalError(error) from error
