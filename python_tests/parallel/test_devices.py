"""Packets on a GPU: where a graph places them. No GPU is needed to trace it."""

import horovod.tensorflow as hvd
import pytest
import tensorflow as tf
from tensorflow.python.framework import func_graph

import tfcompress as tfc
from tfcompress import devices

SHAPES = ([40, 50], [3000])


def graph_of(exchange: str) -> func_graph.FuncGraph:
    """Returns the graph of a step with a frame for each of two tensors."""
    compressor = tfc.Compressor("residual|topk:ratio=0.1|raw|raw", exchange=exchange)
    weights = [tf.Variable(tf.ones(shape)) for shape in SHAPES]

    @tf.function
    def step():
        with tfc.DistributedGradientTape(tf.GradientTape(), compression=compressor) as tape:
            loss = tf.add_n([tf.reduce_sum(weight * weight) for weight in weights])
        return tape.gradient(loss, weights)

    return step.get_concrete_function().graph


def taken_on_host(graph: func_graph.FuncGraph) -> list[str]:
    """Returns the ops on the host that take bytes of a length that is not known beforehand."""
    return [
        op.name
        for op in graph.get_operations()
        for taken in op.inputs
        if "CPU" in op.device and taken.dtype == tf.uint8
        if taken.shape.num_elements() is None and not is_error(taken)
    ]


def is_error(tensor: tf.Tensor) -> bool:
    """Whether it is what summing shards tells on the host, which is empty unless they are broken."""
    return tensor.op.type == "Tfcompress>SumPieces"


def devices_of_packets(graph: func_graph.FuncGraph) -> list[str]:
    """Returns where packets are sent."""
    sent = [op for op in graph.get_operations() if op.type in ("HorovodAllgather", "HorovodAlltoall")]
    return [op.device.split("device:")[-1] for op in sent if op.inputs[0].dtype == tf.uint8]


@pytest.mark.parametrize(("exchange", "collectives"), [("gather", 1), ("shard", 2)])
def test_packets_on_a_gpu_do_not_come_to_the_host(exchange, collectives, monkeypatch):
    monkeypatch.setattr(devices, "packets", lambda: "GPU:0")
    graph = graph_of(exchange)
    assert taken_on_host(graph) == []
    assert devices_of_packets(graph) == ["GPU:0"] * collectives


@pytest.mark.parametrize(("exchange", "collectives"), [("gather", 1), ("shard", 2)])
def test_packets_on_the_host_are_joined_and_sent_there(exchange, collectives, monkeypatch):
    monkeypatch.setattr(devices, "packets", lambda: devices.HOST)
    graph = graph_of(exchange)
    assert any("concat" in name for name in taken_on_host(graph))
    assert devices_of_packets(graph) == [devices.HOST] * collectives


def test_packets_of_rows_alone_are_on_the_host(monkeypatch):
    monkeypatch.setattr(devices, "packets", lambda: "GPU:0")
    table = tf.Variable(tf.ones([50, 40]))
    compressor = tfc.Compressor("residual|topk:ratio=0.1|raw|raw")

    @tf.function
    def step():
        with tfc.DistributedGradientTape(tf.GradientTape(), compression=compressor) as tape:
            loss = tf.reduce_sum(tf.gather(table, [1, 2]))
        return tape.gradient(loss, [table])

    assert devices_of_packets(step.get_concrete_function().graph) == [devices.HOST]


def test_ranks_that_have_packets_in_different_places_are_told(monkeypatch):
    place = "GPU:0" if hvd.rank() == 1 else devices.HOST
    monkeypatch.setattr(devices, "packets", lambda: place)
    with pytest.raises(ValueError, match="device of packets"):
        graph_of("gather")
