"""Gives all ranks what one of them has."""

import weakref
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfcompress.comm import TRAVEL_AS_BYTES, horovod

_TRAVEL_AS_THEY_ARE = ("float16", "float32", "float64", "int32", "int64", "bool", "uint8", "int8")

# Broadcasts in each function that is being traced; they may be pending together.
_num_broadcasts: "weakref.WeakKeyDictionary[tf.Graph, int]" = weakref.WeakKeyDictionary()


def broadcast_variables(variables: Sequence[tf.Variable], root_rank: int) -> None:
    """Overwrites variables on all ranks with those of `root_rank`, whatever their numeric dtype.

    Raises:
      TypeError: A variable has a dtype that cannot travel, such as string; nothing was broadcast.
    """
    for variable in variables:
        if variable.dtype.name not in _TRAVEL_AS_THEY_ARE + TRAVEL_AS_BYTES:
            raise TypeError(f"variable '{variable.name}' of dtype {variable.dtype.name} cannot be broadcast")

    call = _number_in_function(_num_broadcasts)

    # Together, in one function. By position: names may differ, where a rank has built more than others.
    @tf.function(autograph=False)
    def broadcast() -> None:
        for number, variable in enumerate(variables):
            variable.assign(_broadcast(variable, root_rank, f"tfcompress_{call}_{number}"))

    broadcast()


def _number_in_function(counts: "weakref.WeakKeyDictionary[tf.Graph, int]") -> int:
    """Returns how many calls there were before in the outermost function that is being traced; 0 eagerly."""
    if tf.executing_eagerly():
        return 0
    graph = tf.compat.v1.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None and graph.outer_graph.building_function:
        graph = graph.outer_graph
    number = counts.get(graph, 0)
    counts[graph] = number + 1
    return number


def _broadcast(variable: tf.Variable, root_rank: int, name: str) -> tf.Tensor:
    own = variable.read_value()
    travels_as_bytes = variable.dtype.name in TRAVEL_AS_BYTES
    carried = tf.bitcast(own, tf.uint8) if travels_as_bytes else own
    root = horovod().broadcast(carried, root_rank, name=f"HorovodBroadcast_{name}", ignore_name_scope=True)
    return tf.bitcast(root, variable.dtype) if travels_as_bytes else root


def broadcast_object(value: Any, root_rank: int = 0) -> Any:
    """Returns what `root_rank` passed: anything that can be pickled."""
    return horovod().broadcast_object(value, root_rank=root_rank)
