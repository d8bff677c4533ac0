"""Talks to other ranks. With `elastic`, the only module that imports Horovod."""

import functools
import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

AVERAGE = "average"
SUM = "sum"

# Dtypes that Horovod does not know, and that are gathered and broadcast as their bytes.
TRAVEL_AS_BYTES = ("bfloat16", "int16", "uint16", "uint32", "uint64", "complex64", "complex128")


@functools.cache
def horovod() -> ModuleType:
    """Returns `horovod.tensorflow`; raises ImportError, saying what is missing, where there is none."""
    try:
        import horovod.tensorflow as hvd
    except ImportError as error:
        raise ImportError(
            "training on several ranks needs Horovod with TensorFlow support, which is not installed "
            f"or does not load ({error}). The codecs work without it. To build and install it for this "
            "TensorFlow: python -m tfcompress.build_horovod"
        ) from error
    return hvd


def gathers_on_gpus() -> bool:
    """Whether Horovod is there, has NCCL, and was built to gather and exchange with it what is on GPUs."""
    from tensorflow.python.framework import kernels  # Has no public name.

    try:
        if not horovod().nccl_built():
            return False
    except Exception:  # Whatever a broken Horovod raises is told where it is used.
        return False
    return all(
        any(kernel.device_type == "GPU" for kernel in kernels.get_registered_kernels_for_op(op).kernel)
        for op in ("HorovodAllgather", "HorovodAlltoall")
    )


def leads() -> bool:
    """Whether this process is rank 0, or the only one as far as it knows."""
    try:
        hvd = horovod()
    except ImportError:
        return True
    return not hvd.is_initialized() or hvd.rank() == 0


def talks_eagerly() -> bool:
    """Whether ranks can talk while a function is traced; in a TF1-style graph they cannot."""
    with tf.init_scope():
        return tf.executing_eagerly()


def is_compiled_by_xla() -> bool:
    """Whether the function that is being traced is compiled by XLA, which has no Horovod."""
    if tf.executing_eagerly():
        return False
    from tensorflow.python.ops import control_flow_util  # Has no public name.

    return control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def is_elastic() -> bool:
    """Whether the number of ranks may change while the program runs."""
    return os.environ.get("HOROVOD_ELASTIC") == "1"


def reduction(op: object) -> str:
    """Returns AVERAGE or SUM for a Horovod reduction op, one of these words, or None (average).

    Raises:
      ValueError: Another reduction: compressed gradients can be summed and averaged only.
    """
    if op is None or op == AVERAGE:
        return AVERAGE
    if op == SUM:
        return SUM
    if not isinstance(op, str):
        hvd = horovod()
        if op == hvd.Average:
            return AVERAGE
        if op == hvd.Sum:
            return SUM
    raise ValueError(
        f"op must be hvd.Average or hvd.Sum, got {op!r}: minima, maxima, products and Adasum of "
        "compressed gradients are not defined"
    )


class Ranks:
    """The ranks that exchange with each other: a Horovod process set, or all of them."""

    def __init__(self, process_set: Any = None) -> None:
        """Takes what Horovod's wrappers take as `process_set`.

        Args:
          process_set: An `hvd.ProcessSet`, or None for all ranks.

        Raises:
          TypeError: Another object.
        """
        if process_set is not None and not hasattr(process_set, "process_set_id"):
            raise TypeError(f"process_set must be an hvd.ProcessSet, got {process_set!r}")
        self._process_set = process_set

    def size(self) -> int:
        """Returns the number of ranks now.

        Raises:
          ImportError: Horovod is not installed.
          RuntimeError: `hvd.init()` has not been called.
          ValueError: This rank does not belong to the process set.
        """
        hvd = horovod()
        if not hvd.is_initialized():
            raise RuntimeError("Horovod is not initialised: call hvd.init() before the first step")
        if self._process_set is None:
            return hvd.size()
        if not self._process_set.included():
            raise ValueError(
                f"rank {hvd.rank()} is not in the process set {self._process_set.ranks}: only its ranks can "
                "use an optimizer or tape that was made for it"
            )
        return self._process_set.size()

    def may_exchange(self) -> bool:
        """Whether there is, or may come to be, another rank."""
        return self.size() > 1 or is_elastic()

    def rank(self) -> int:
        """Returns this process's number within the ranks, now."""
        return horovod().rank() if self._process_set is None else self._process_set.rank()

    def size_tensor(self) -> tf.Tensor:
        """Returns the number of ranks when the graph runs, int32 scalar: elastic jobs change it."""
        if not is_elastic():
            return tf.constant(self.size(), tf.int32)
        return horovod().size_op(process_set_id=self._set().process_set_id)

    def number(self) -> tf.Tensor:
        """Returns the number of ranks when the graph runs, float32 scalar."""
        return tf.cast(self.size_tensor(), tf.float32)

    def rank_tensor(self) -> tf.Tensor:
        """Returns this process's number among all ranks when the graph runs, int32 scalar."""
        return horovod().rank_op() if is_elastic() else tf.constant(horovod().rank(), tf.int32)

    def position_tensor(self) -> tf.Tensor:
        """Returns this process's number within the ranks when the graph runs, int32 scalar."""
        return self.rank_tensor() if self._process_set is None else tf.constant(self.rank(), tf.int32)

    def alltoall_packet(self, packet: tf.Tensor, splits: tf.Tensor, name: str) -> tf.Tensor:
        """Sends each rank its part of a packet; returns what all ranks sent this one, in rank order.

        Args:
          packet: uint8 or float32, the parts end to end.
          splits: int32 [ranks], elements of each part.
          name: Equal on all ranks and unique among pending collectives.
        """
        # An all-to-all's own prefix is not among those by which the elastic mode recognises failures: it
        # would take this one for the end of training.
        received, _ = horovod().alltoall(
            packet,
            splits=splits,
            name=f"HorovodAllgather_{name}",
            ignore_name_scope=True,
            process_set=self._set(),
        )
        return tf.stop_gradient(received)

    def allgather_packet(self, packet: tf.Tensor, name: str) -> tf.Tensor:
        """Concatenates the packets of all ranks in rank order.

        Args:
          packet: uint8 or float32, of any length on each rank.
          name: Equal on all ranks and unique among pending collectives.
        """
        return tf.stop_gradient(self._allgather(packet, name))

    def allreduce(
        self,
        tensors: Sequence[tf.Tensor | tf.IndexedSlices],
        op: str,
        name: str,
        predivide_factor: float = 1.0,
        wire_dtypes: Sequence[str | None] | None = None,
        num_groups: int = 0,
    ) -> list[tf.Tensor | tf.IndexedSlices]:
        """Sums or averages tensors by Horovod's own all-reduce, uncompressed but for `wire_dtypes`.

        IndexedSlices travel as Horovod carries them: by all-gather of rows. Complex tensors, which
        Horovod does not know, travel as pairs of reals; bfloat16, which it cannot add, as float32.

        Args:
          tensors: Any dtypes that Horovod carries.
          op: AVERAGE or SUM.
          name: Equal on all ranks and unique among pending collectives.
          predivide_factor: Splits the division of an average: 1/f before the sum, f/size after it.
          wire_dtypes: For each tensor, the dtype that it is cast to for the transport if it is of a
            floating-point type, or None (default: for all).
          num_groups: Number of groups whose tensors Horovod reduces together; 0 leaves it to Horovod.
        """
        results: list = [None] * len(tensors)
        sparse = [i for i, tensor in enumerate(tensors) if isinstance(tensor, tf.IndexedSlices)]
        for i in sparse:
            results[i] = self._allreduce_rows(tensors[i], op, f"{name}_{i}")
        positions = [i for i in range(len(tensors)) if i not in set(sparse)]
        wires = wire_dtypes or [None] * len(tensors)
        carried = {i: _to_transport(tensors[i], wires[i]) for i in positions}
        reduced = self._allreduce_dense(list(carried.values()), op, predivide_factor, name, num_groups)
        for i, tensor in zip(positions, reduced, strict=True):
            results[i] = _from_transport(tensor, tensors[i].dtype)
        return results

    def _allreduce_rows(self, tensor: tf.IndexedSlices, op: str, name: str) -> tf.IndexedSlices:
        """As Horovod reduces IndexedSlices, but with names that are ours, and for every dtype."""
        dtype = tensor.dtype
        if dtype.name in TRAVEL_AS_BYTES:
            gathered = self._allgather(tf.bitcast(tensor.values, tf.uint8), f"{name}_values")
            values = tf.bitcast(gathered, dtype)
        else:
            values = self._allgather(tensor.values, f"{name}_values")
        if op == AVERAGE:
            values = tf.cast(values / tf.cast(self.size_tensor(), dtype), dtype)
        indices = self._allgather(tensor.indices, f"{name}_indices")
        return tf.IndexedSlices(values, indices, tensor.dense_shape)

    def _allreduce_dense(
        self, tensors: Sequence[tf.Tensor], op: str, predivide_factor: float, name: str, num_groups: int
    ) -> list[tf.Tensor]:
        options = {"op": _horovod_op(op), "ignore_name_scope": True, "process_set": self._set()}
        if predivide_factor != 1.0:
            options |= {"prescale_factor": 1 / predivide_factor, "postscale_factor": predivide_factor}
        if not num_groups:
            return [
                horovod().allreduce(tensor, name=f"HorovodAllreduce_{name}_{i}", **options)
                for i, tensor in enumerate(tensors)
            ]
        results: list = [None] * len(tensors)
        for number, group in enumerate(_groups(tensors, num_groups)):
            reduced = horovod().grouped_allreduce(
                [tensors[i] for i in group], name=f"HorovodAllreduce_{name}_group_{number}", **options
            )
            for i, tensor in zip(group, reduced, strict=True):
                results[i] = tensor
        return results

    def all_true(self, flag: tf.Tensor, name: str) -> tf.Tensor:
        """Returns whether a bool scalar is true on every rank."""
        [num_true] = self.allreduce([tf.cast(flag, tf.int32)], SUM, name)
        return tf.equal(num_true, self.size_tensor())

    def largest(self, number: tf.Tensor, name: str) -> tf.Tensor:
        """Returns the largest of the numbers of all ranks, a scalar of the same dtype.

        Args:
          number: Scalar.
          name: Equal on all ranks and unique among pending collectives.
        """
        return tf.reduce_max(self._allgather(number[tf.newaxis], name))

    def gather_messages(self, message: bytes) -> list[bytes]:
        """Returns every rank's message, in rank order. Runs eagerly, also while a function is traced."""
        framed = np.frombuffer(len(message).to_bytes(8, "little") + message, np.uint8)
        with tf.init_scope():
            gathered = horovod().allgather(tf.constant(framed), process_set=self._set()).numpy().tobytes()
        messages = []
        while gathered:
            end = 8 + int.from_bytes(gathered[:8], "little")
            messages.append(gathered[8:end])
            gathered = gathered[end:]
        return messages

    def find_difference(self, variables: Sequence[tf.Variable], name: str) -> tf.Tensor:
        """Returns the position of the first variable that differs between ranks, -1 if none: int32 scalar.

        Args:
          variables: The same list on all ranks.
          name: Equal on all ranks and unique among pending collectives.
        """
        mine = tf.stack([_checksum(variable) for variable in variables])
        gathered = self._allgather(mine[tf.newaxis], f"{name}_checksums")
        differs = tf.reduce_any(
            tf.not_equal(gathered, gathered[:1]), axis=0
        )  # `!=` is not, in TF1-style graphs.
        return tf.where(
            tf.reduce_any(differs), tf.argmax(tf.cast(differs, tf.int8), output_type=tf.int32), -1
        )

    def _allgather(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        # Horovod's elastic mode recognises failures by this prefix of the op's name.
        return horovod().allgather(
            tensor, name=f"HorovodAllgather_{name}", ignore_name_scope=True, process_set=self._set()
        )

    def _set(self) -> Any:
        return self._process_set or horovod().global_process_set


ALL_RANKS = Ranks()


def _horovod_op(op: str) -> Any:
    return horovod().Average if op == AVERAGE else horovod().Sum


def in_runs(positions: Sequence[int], num_runs: int) -> list[Sequence[int]]:
    """Cuts positions into at most so many runs, which are about equally long."""
    length = -(-len(positions) // num_runs)
    return [positions[i : i + length] for i in range(0, len(positions), max(length, 1))]


def _groups(tensors: Sequence[tf.Tensor], num_groups: int) -> list[list[int]]:
    """Cuts the positions of `tensors` into runs of about equal length, of one dtype each."""
    groups: dict[tuple[int, tf.DType], list[int]] = {}
    for number, run in enumerate(in_runs(range(len(tensors)), num_groups)):
        for i in run:
            groups.setdefault((number, tensors[i].dtype), []).append(i)
    return list(groups.values())


def _to_transport(tensor: tf.Tensor, wire_dtype: str | None) -> tf.Tensor:
    if tensor.dtype.is_complex:
        return tf.stack([tf.math.real(tensor), tf.math.imag(tensor)])
    return tf.cast(tensor, transport_dtype(tensor.dtype, wire_dtype))


def _from_transport(tensor: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return tf.complex(tensor[0], tensor[1]) if dtype.is_complex else tf.cast(tensor, dtype)


def transport_dtype(dtype: tf.DType, wire_dtype: str | None) -> tf.DType:
    """Returns the dtype in which Horovod's all-reduce carries a dense tensor of `dtype`.

    Args:
      dtype: The tensor's.
      wire_dtype: What floating-point tensors are cast to, or None.
    """
    if dtype.is_floating and wire_dtype is not None:
        return tf.as_dtype(wire_dtype)
    return tf.float32 if dtype == tf.bfloat16 else dtype  # Horovod's all-reduce has no bfloat16.


def _checksum(variable: tf.Variable) -> tf.Tensor:
    """A sum of a variable's words: int32 scalar, equal for equal variables."""
    if variable.dtype == tf.bool:
        return tf.reduce_sum(tf.cast(variable, tf.int32))
    words = tf.int32 if variable.dtype.size % 4 == 0 else tf.uint8
    return tf.reduce_sum(tf.cast(tf.bitcast(variable.read_value(), words), tf.int32))
