"""What all routes take and return."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tfcompress import comm, devices
from tfcompress.comm import Ranks
from tfcompress.options import Options
from tfcompress.route import Route
from tfcompress.wire import allgather_bytes, allreduce_bytes


@dataclasses.dataclass(frozen=True)
class Context:
    """The step that gradients are exchanged in.

    Attributes:
      ranks: Who exchanges.
      name: Prefix of the collectives' names.
      options: How the step reduces.
      step: int64 scalar, different at every step and equal on all ranks.
      has_memory: Whether any gradient of the step has a memory or a factor, which a gradient that is not
        finite rolls back.
      packets: The device of packets.
    """

    ranks: Ranks
    name: str
    options: Options
    step: tf.Tensor
    has_memory: bool
    packets: str = dataclasses.field(default_factory=lambda: devices.packets())

    def scale(self) -> tf.Tensor:
        """Returns the factor that the result has over the sum of all ranks: float32 scalar."""
        return 1.0 / self.ranks.number() if self.options.op == comm.AVERAGE else tf.constant(1.0)

    def weight(self) -> tf.Tensor:
        """Returns what the step makes of a one on each rank: float32 scalar."""
        return tf.constant(1.0) if self.options.op == comm.AVERAGE else self.ranks.number()


@dataclasses.dataclass(frozen=True)
class Member:
    """One gradient of an exchange.

    Attributes:
      number: Counts the model's variables in the order of their first appearance.
      name: For statistics and messages.
      dtype: The gradient's.
      shape: Of the dense gradient, as far as it is known.
      is_table: Whether it is IndexedSlices.
      slots: The memory's: float32 of the shape.
      route: How it travels, the same in all steps of a trace.
      spec: What is applied in this step: string scalar.
      spec_of_sums: What the owner of a shard applies to the sum: string scalar.
      factor: The right factor of the last step, where low-rank steps keep it: float32 [rank, columns].
    """

    number: int
    name: str
    dtype: tf.DType
    shape: tf.TensorShape
    is_table: bool
    slots: list[tf.Variable]
    route: Route
    spec: tf.Tensor
    spec_of_sums: tf.Tensor
    factor: tf.Variable | None = None

    @property
    def has_state(self) -> bool:
        """Whether a step changes what the next one begins with."""
        return bool(self.slots) or self.factor is not None


@dataclasses.dataclass(frozen=True)
class Counts:
    """What an exchange moved: int64 [gradients] each.

    Attributes:
      payload_bytes: Of this rank's frames, payloads or gradients, headers and tables included.
      wire_bytes: What the collectives move in and out of this rank.
      encode_nanoseconds: Time of encoding.
      decode_nanoseconds: Time of decoding and summing.
      sent_elements: That this rank sent.
    """

    payload_bytes: tf.Tensor
    wire_bytes: tf.Tensor
    encode_nanoseconds: tf.Tensor
    decode_nanoseconds: tf.Tensor
    sent_elements: tf.Tensor

    def columns(self) -> list[tf.Tensor]:
        """Returns the fields in order."""
        return [getattr(self, field.name) for field in dataclasses.fields(self)]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one exchange yields.

    Attributes:
      gradients: The reduced ones.
      counts: What was moved for each.
      communication_nanoseconds: int64 scalar.
      finite: bool scalar, whether all gradients of all ranks were.
      commit: Updates the memories if the bool scalar that it is called with is true, and rolls back else.
      padding: int64 [2], payload and wire bytes besides those of the gradients (default: none).
    """

    gradients: list[tf.Tensor | tf.IndexedSlices]
    counts: Counts
    communication_nanoseconds: tf.Tensor
    finite: tf.Tensor
    commit: Callable[[tf.Tensor], None]
    padding: tf.Tensor = dataclasses.field(default_factory=lambda: tf.zeros([2], tf.int64))


def join(outcomes: Mapping[tuple[int, ...], Outcome]) -> Outcome:
    """Returns the outcome of several exchanges of one step.

    Args:
      outcomes: By the positions of their gradients; together they are all positions of the step.
    """
    if len(outcomes) == 1:
        [outcome] = outcomes.values()
        return outcome

    def commit(succeeded: tf.Tensor) -> None:
        for outcome in outcomes.values():
            outcome.commit(succeeded)

    order = np.argsort([i for positions in outcomes for i in positions]).tolist()
    gradients = [gradient for outcome in outcomes.values() for gradient in outcome.gradients]
    columns = zip(*[outcome.counts.columns() for outcome in outcomes.values()], strict=True)
    return Outcome(
        [gradients[i] for i in order],
        Counts(*[tf.gather(tf.concat(column, axis=0), order) for column in columns]),
        tf.add_n([outcome.communication_nanoseconds for outcome in outcomes.values()]),
        tf.reduce_all(tf.stack([outcome.finite for outcome in outcomes.values()])),
        commit,
        tf.add_n([outcome.padding for outcome in outcomes.values()]),
    )


def call_python(
    function: Callable, arguments: Sequence[tf.Tensor], dtypes: Sequence[tf.DType], shapes: Sequence
) -> list[tf.Tensor]:
    """Calls a Python function on arrays when the step runs; its results have these dtypes and shapes."""
    results = tf.nest.flatten(tf.numpy_function(function, arguments, dtypes))  # One alone comes bare.
    return [tf.ensure_shape(each, shape) for each, shape in zip(results, shapes, strict=True)]


def seeds_of(context: Context, members: Sequence[Member]) -> list[tf.Tensor]:
    """Returns seeds that differ between steps, gradients and ranks; the core hashes them: int64 scalars."""
    lanes = [(member.route.seed * 0x9E37 + member.number) % (1 << 16) for member in members]
    own = context.step * tf.constant(1 << 32, tf.int64) + tf.cast(context.ranks.rank_tensor(), tf.int64)
    return tf.unstack(own + tf.constant([lane << 16 for lane in lanes], tf.int64))


def num_packet_bytes(packet: tf.Tensor, device: str) -> tf.Tensor:
    """Returns the length of frames or a packet that are on a device, int64 scalar, without copying them."""
    with tf.device(device):
        return tf.size(packet, out_type=tf.int64)


def num_bytes(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    """Returns the bytes of a gradient, int64 scalar."""
    if isinstance(gradient, tf.IndexedSlices):
        return num_bytes(gradient.values) + num_bytes(gradient.indices)
    if gradient.shape.is_fully_defined():
        return tf.constant(gradient.shape.num_elements() * gradient.dtype.size, tf.int64)
    return tf.size(gradient, out_type=tf.int64) * gradient.dtype.size


def num_elements(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    """Returns the elements of a gradient, of a table those of its slices, int64 scalar."""
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    return tf.size(values, out_type=tf.int64)


def allreduce_wire_bytes(payload: tf.Tensor, ranks: Ranks) -> tf.Tensor:
    """Returns what a ring all-reduce of so many bytes moves in and out of a rank, int64."""
    return allreduce_bytes(payload, tf.cast(ranks.size_tensor(), tf.int64))


def dense_columns(gradients: Sequence[tf.Tensor | tf.IndexedSlices], ranks: Ranks) -> list[tf.Tensor]:
    """Returns what is counted of gradients as they are, int64 [gradients] each.

    These are their bytes, those that Horovod would move in and out of this rank for them, and elements.
    """
    own = tf.stack([num_bytes(gradient) for gradient in gradients])
    elements = tf.stack([num_elements(gradient) for gradient in gradients])
    are_rows = [isinstance(gradient, tf.IndexedSlices) for gradient in gradients]
    if not any(are_rows):
        return [own, allreduce_wire_bytes(own, ranks), elements]
    size = tf.cast(ranks.size_tensor(), tf.int64)
    wire = tf.where(are_rows, allgather_bytes(own, size * own), allreduce_wire_bytes(own, ranks))
    return [own, wire, elements]


def all_finite(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    """Returns whether all elements are finite, bool scalar."""
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    return tf.reduce_all(tf.math.is_finite(values)) if values.dtype.is_floating else tf.constant(True)


def poisoned(values: tf.Tensor, finite: tf.Tensor) -> tf.Tensor:
    """Returns values where `finite` is true, and NaN in all places else."""
    return tf.cond(
        finite, lambda: values, lambda: tf.fill(tf.shape(values), tf.cast(float("nan"), values.dtype))
    )
