"""The way in through stock Horovod's `compression=` argument.

Horovod calls `compress(tensor)` inside a `tf.cond`, all-reduces what it returns, and calls
`decompress`. Our `compress` does the whole exchange itself, leaves the mean in the context, and gives
Horovod a one to reduce: it comes back as the factor that Average, Sum and predivision apply.
"""

import dataclasses
import weakref
from types import FrameType
from typing import Any

import tensorflow as tf

from tfcompress.policy import Compressor
from tfcompress.route import COMPRESSED_DTYPES, Transport
from tfcompress.state import Parameter
from tfcompress.statistics import Stats, merge, note_use
from tfcompress.step import Step

_adapters: "weakref.WeakKeyDictionary[Compressor, HorovodAdapter]" = weakref.WeakKeyDictionary()
# A compressor that is made while a function is traced is gone after it; its state lives as the function does.
_adapters_in: "weakref.WeakKeyDictionary[tf.Graph, list[HorovodAdapter]]" = weakref.WeakKeyDictionary()


@tf.autograph.experimental.do_not_convert  # As `Step.reduce`.
def adapter_of(compressor: Compressor) -> "HorovodAdapter":
    """Returns the adapter of a compressor; makes it at the first call."""
    if compressor not in _adapters:
        _adapters[compressor] = HorovodAdapter(compressor)
        note_use([compressor], _adapters[compressor])
    return _adapters[compressor]


def refuse_keras_3(frame: FrameType | None) -> None:
    """Raises ValueError where Horovod wraps an optimizer of Keras 3, which then exchanges nothing.

    Args:
      frame: Of a function of Horovod that was called while it wraps.
    """
    while frame is not None and frame.f_globals.get("__name__", "").startswith("horovod."):
        optimizer = frame.f_locals.get("self")
        if hasattr(optimizer, "apply") and hasattr(optimizer, "apply_gradients"):
            raise ValueError(
                "Horovod's DistributedOptimizer exchanges nothing under Keras 3, so each rank would train by "
                "itself: use tfc.DistributedOptimizer(optimizer, compression=...)"
            )
        frame = frame.f_back


class HorovodAdapter:
    """What stock Horovod reaches of a compressor.

    Horovod tells the tensor but not the variable it belongs to. Calls are numbered within the function
    that is being traced, and number i of every trace is the same gradient: TensorFlow traces twice when
    variables are created, and again for other batch sizes. So a compressor with a memory serves one
    model; a second one is refused where its shapes give it away.

    Minimum, maximum, product and Adasum cannot be seen from here and give wrong results. On one rank
    Horovod does not call a compressor, so there is no momentum of its memory.
    """

    def __init__(self, compressor: Compressor) -> None:
        """Takes the compressor, of which it keeps a copy: nothing here keeps the user's alive."""
        self._compressor = dataclasses.replace(compressor)
        self._steps: dict[tuple, Step] = {}
        self._signatures: dict[int, tuple[tf.DType, tf.TensorShape]] = {}
        self._calls_in: weakref.WeakKeyDictionary[tf.Graph, int] = weakref.WeakKeyDictionary()

    @tf.autograph.experimental.do_not_convert  # As `Step.reduce`.
    def compress(self, tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Exchanges a gradient between all ranks of Horovod's global process set.

        Args:
          tensor: A local gradient. Other dtypes than float32, float16 and bfloat16, and tensors below
            `min_elements`, are left to Horovod's all-reduce.

        Returns:
          What Horovod shall all-reduce, and the context that `decompress` needs.

        Raises:
          ValueError: A second model uses this compressor, or its memory is used outside a tf.function.
        """
        if self._is_left_to_horovod(tensor):
            return tf.cast(tensor, self._horovods_dtype(tensor)), tensor.dtype
        parameter, step = self._step_for(tensor)
        [mean] = step.reduce([tensor], [parameter])
        return tf.ones([1], tf.float32), mean

    @tf.autograph.experimental.do_not_convert  # As `Step.reduce`.
    def decompress(self, tensor: tf.Tensor, ctx: Any) -> tf.Tensor:
        """Returns the reduced gradient.

        Args:
          tensor: What Horovod made of the tensor that `compress` returned.
          ctx: The context from `compress`: the mean, or the dtype of a tensor that travelled itself.
        """
        if isinstance(ctx, tf.DType):
            return tf.cast(tensor, ctx)
        return ctx * tf.cast(tensor[0], ctx.dtype)

    def stats(self) -> Stats:
        """Returns what was sent so far, of all gradients."""
        return merge([step.state.stats() for step in self._steps.values()])

    def _is_left_to_horovod(self, tensor: tf.Tensor) -> bool:
        """Whether Horovod's own all-reduce carries a gradient, as it is or in half precision."""
        compressor = self._compressor
        if tensor.dtype.name not in COMPRESSED_DTYPES:
            return True
        # It cannot add bfloat16, and knows nothing of a momentum or a limit that is in here.
        if tensor.dtype == tf.bfloat16 or compressor.has_momentum or compressor.clip_norm is not None:
            return False
        if compressor.transport is Transport.ALLREDUCE:
            return True
        num_elements = tensor.shape.num_elements()
        return num_elements is not None and num_elements < compressor.min_elements

    def _horovods_dtype(self, tensor: tf.Tensor) -> tf.DType:
        """The dtype in which Horovod shall sum a gradient that is left to it."""
        wire_dtype = self._compressor.wire_dtype if tensor.dtype.is_floating else None
        return tf.as_dtype(wire_dtype or tensor.dtype)

    def _step_for(self, tensor: tf.Tensor) -> tuple[Parameter, Step]:
        signature = (tensor.dtype, tensor.shape)
        number = self._next_number(signature)
        known = self._signatures.setdefault(number, signature)
        if self._compressor.num_slots and known != signature:
            raise ValueError(
                f"compressor '{self._compressor.spec}' meets a {tensor.dtype.name} gradient of shape "
                f"{tensor.shape} where it met a {known[0].name} one of shape {known[1]} before: make one "
                "compressor for each model"
            )
        name = f"gradient_{number}"
        key = (number, tensor.dtype, str(tensor.shape))  # Shapes of TF1 have no hash.
        if key not in self._steps:
            self._steps[key] = Step(self._compressor)
        return Parameter(name, name, tensor.shape), self._steps[key]

    def _next_number(self, signature: tuple) -> int:
        """Returns how many calls there were before in the function that is being traced."""
        if tf.executing_eagerly():
            if self._compressor.num_slots:
                raise ValueError(
                    f"the memory of '{self._compressor.spec}' needs to know which gradient is which: call "
                    "Horovod inside a tf.function, or use a spec without memory"
                )
            # Without a memory, gradients of one shape need not be told apart.
            return 0
        function = _traced_function()
        _adapters_in.setdefault(function, []).append(self)
        number = self._calls_in.get(function, 0)
        self._calls_in[function] = number + 1
        return number


def _traced_function() -> tf.Graph:
    """The nearest enclosing graph that is not a branch of a tf.cond."""
    graph = tf.compat.v1.get_default_graph()
    while type(graph).__name__ == "CondBranchFuncGraph":
        graph = graph.outer_graph
    return graph
