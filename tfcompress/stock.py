"""Lets a compressor be passed to stock Horovod's `compression=` argument.

Horovod calls `compress(tensor)` inside a `tf.cond`, all-reduces what it returns, and calls
`decompress`. Our `compress` does the whole exchange itself, leaves the mean in the context, and gives
Horovod a one to reduce: it comes back as the factor that Average, Sum and predivision apply. The payload of
a linear codec is what Horovod reduces, with that one at its end.
"""

import weakref

import tensorflow as tf

try:
    from horovod.tensorflow.compression import Compressor as _HorovodCompressor
except ImportError:  # Without Horovod the codecs still work, and nobody asks what this derives from.
    _HorovodCompressor = object


class HorovodAdapter(_HorovodCompressor):
    """The part of a compressor that stock Horovod calls.

    Horovod tells the tensor but not the variable it belongs to. Calls are numbered within the function
    that is being traced, and number i of every trace is the same gradient: TensorFlow traces twice when
    variables are created, and again for other batch sizes. So a compressor with a memory serves one
    model; a second one is refused where its shapes give it away.

    Minimum, maximum, product and Adasum cannot be seen from here and give wrong results. On one rank
    Horovod does not call a compressor, so there is no momentum of its memory.
    """

    def compress(self, tensor: tf.Tensor) -> tuple[tf.Tensor, object]:
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
        number, aggregator = self._aggregator_for(tensor)
        encoded = aggregator.begin_sum(tensor, f"gradient_{number}")
        if encoded is not None:
            carried = tf.concat([encoded.payload, tf.ones([1], tf.float32)], axis=0)
            return tf.cast(carried, self.payload_dtype), (aggregator, encoded)
        [mean] = aggregator.aggregate([tensor], [f"gradient_{number}"])
        return tf.ones([1], tf.float32), mean

    def decompress(self, tensor: tf.Tensor, ctx: object) -> tf.Tensor:
        """Returns the reduced gradient.

        Args:
          tensor: What Horovod made of the tensor that `compress` returned.
          ctx: The context from `compress`: the mean, the dtype of a tensor that travelled itself, or an
            encoded gradient and its aggregator.
        """
        if isinstance(ctx, tf.DType):
            return tf.cast(tensor, ctx)
        if isinstance(ctx, tuple):
            aggregator, encoded = ctx
            reduced = tf.cast(tensor, tf.float32)
            return aggregator.finish_sum(encoded, reduced[:-1], reduced[-1] / aggregator.num_ranks())
        return ctx * tf.cast(tensor[0], ctx.dtype)

    def _is_left_to_horovod(self, tensor: tf.Tensor) -> bool:
        """Whether Horovod's own all-reduce carries a gradient, as it is or in half precision."""
        if tensor.dtype not in (tf.float32, tf.float16, tf.bfloat16):
            return True
        # It has no bfloat16, and knows nothing of a momentum that is in here.
        if tensor.dtype == tf.bfloat16 or self.memory.startswith("momentum"):
            return False
        if self._is_allreduced():
            return self.wire_dtype != "bfloat16"
        num_elements = tensor.shape.num_elements()
        return num_elements is not None and num_elements < self.min_elements

    def _horovods_dtype(self, tensor: tf.Tensor) -> tf.DType:
        """The dtype in which Horovod shall sum a gradient that is left to it."""
        half = self._is_allreduced() and tensor.dtype.is_floating and self.wire_dtype == "float16"
        return tf.float16 if half else tensor.dtype

    def _is_allreduced(self) -> bool:
        from tfcompress.compressor import Transport  # That module derives from this one.

        return self.transport is Transport.ALLREDUCE

    def _aggregator_for(self, tensor: tf.Tensor) -> tuple[int, "GradientAggregator"]:  # noqa: F821
        from tfcompress.aggregator import GradientAggregator  # It imports this module's subclass.

        state = self.__dict__.setdefault("_adapter_state", _AdapterState())
        number = state.next_number(self, tensor)
        if number == len(state.aggregators):
            state.aggregators.append(GradientAggregator(self))
            state.signatures.append((tensor.dtype, tensor.shape))
        if state.signatures[number] != (tensor.dtype, tensor.shape):
            dtype, shape = state.signatures[number]
            raise ValueError(
                f"compressor '{self.spec}' meets a {tensor.dtype.name} gradient of shape {tensor.shape} "
                f"where it met a {dtype.name} one of shape {shape} before: make one compressor for each model"
            )
        return number, state.aggregators[number]

    def _tfcompress_stats(self) -> "Stats":  # noqa: F821
        from tfcompress.statistics import merge

        state = self.__dict__.get("_adapter_state")
        parts = [aggregator.stats() for aggregator in state.aggregators] if state else []
        return merge(parts)


class _AdapterState:
    """Aggregators of one tensor each, in the order of the calls within a trace."""

    def __init__(self) -> None:
        self.aggregators: list = []
        self.signatures: list[tuple[tf.DType, tf.TensorShape]] = []
        self._eager: list[int] = []
        self._calls_in = weakref.WeakKeyDictionary()

    def next_number(self, compressor: "HorovodAdapter", tensor: tf.Tensor) -> int:
        """Returns how many calls there were before in the function that is being traced."""
        if tf.executing_eagerly():
            if compressor.num_slots > 0:
                raise ValueError(
                    f"the memory of '{compressor.spec}' needs to know which gradient is which: call Horovod "
                    "inside a tf.function, or use a spec without memory"
                )
            return self._eager_number(tensor)
        function = _traced_function()
        number = self._calls_in.get(function, 0)
        self._calls_in[function] = number + 1
        return number

    def _eager_number(self, tensor: tf.Tensor) -> int:
        """Without a memory, gradients of one shape need not be told apart."""
        signature = (tensor.dtype, tensor.shape)
        known = [i for i in self._eager if self.signatures[i] == signature]
        if not known:
            self._eager.append(len(self.aggregators))
        return known[0] if known else self._eager[-1]


def _traced_function() -> tf.Graph:
    """The nearest enclosing graph that is not a branch of a tf.cond."""
    graph = tf.compat.v1.get_default_graph()
    while type(graph).__name__ == "CondBranchFuncGraph":
        graph = graph.outer_graph
    return graph
