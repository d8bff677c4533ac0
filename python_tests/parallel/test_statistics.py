"""What is counted: bytes, elements, norms of residuals, and that times enclose what they measure."""

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from stepping import Stepper

import tfcompress as tfc


class Source:
    """As an optimizer: something whose statistics `tfc.stats` reads."""

    def __init__(self, compressor):
        self._tfcompress_step = Stepper(compressor)

    def step(self, arrays, names=None):
        tensors = [tf.convert_to_tensor(array) for array in arrays]
        return self._tfcompress_step.run(tensors, names or [f"g{i}" for i in range(len(tensors))])


def gradients(rng, *sizes):
    return [rng.standard_normal(size).astype(np.float32) for size in sizes]


@pytest.mark.parametrize("spec", ["residual|topk:ratio=0.01|delta_binary|fp16", "nonzero|bloom|raw"])
def test_sent_elements_are_those_in_the_frames(rng, spec):
    compressor = tfc.Compressor(spec)
    arrays = [array * (rng.random(array.size) < 0.3) for array in gradients(rng, 5000, 7, 2000)]
    frames = [tfc.encode(a, compressor.route("", "float32", a.shape).spec) for a in arrays]
    source = Source(compressor)
    source.step(arrays)
    stats = tfc.stats(source)
    assert [t.sent_elements for t in stats.tensors] == [tfc.inspect(frame)[0]["k"] for frame in frames]
    assert [t.elements for t in stats.tensors] == [5000, 7, 2000]
    assert stats.tensors[1].density == 1.0
    assert 0.0 < stats.total.density == stats.total.sent_elements / 7007 < 0.5


def test_uncompressed_tensors_send_all_their_elements(rng):
    rows = tf.IndexedSlices(tf.ones([2, 3]), tf.constant([0, 5]), tf.constant([9, 3]))
    stepper = Stepper(tfc.Compression.fp16)
    stepper.run([rows, *map(tf.constant, gradients(rng, 3000))], ["rows", "dense"])
    assert [t.sent_elements for t in stepper.state.stats().tensors] == [6, 3000]
    assert stepper.state.stats().total.density == 1.0


def test_a_gradient_that_is_not_finite_sends_no_element(rng):
    source = Source(tfc.Compression.topk(0.1))
    [array] = gradients(rng, 2000)
    array[3] = np.nan
    source.step([array])
    assert tfc.stats(source).total.sent_elements == 0
    assert tfc.stats(source).total.residual_norm == 0.0


def test_residual_norms(rng):
    source = Source(tfc.Compression.topk(0.1))
    for _ in range(3):
        source.step(gradients(rng, 2000, 7, 3000))
    memories = source._tfcompress_step.state.memories.by_name()
    slots = [memories.get(f"g{i}", []) for i in range(3)]
    assert [len(owned) for owned in slots] == [1, 0, 1]
    expected = [np.linalg.norm(owned[0].numpy().astype(np.float64)) if owned else 0.0 for owned in slots]
    stats = tfc.stats(source)
    assert expected[0] > 1.0
    np.testing.assert_allclose([t.residual_norm for t in stats.tensors], expected, rtol=1e-5)
    np.testing.assert_allclose(stats.total.residual_norm, np.linalg.norm(expected), rtol=1e-5)
    assert f"; residual norm {stats.total.residual_norm:.3g}, " in stats.summary()

    slots[0][0].assign(tf.fill([2000], np.nan))
    norms = [t.residual_norm for t in tfc.stats(source).tensors]
    assert np.isnan(norms[0]) and norms[1:] == [t.residual_norm for t in stats.tensors[1:]]
    assert np.isnan(tfc.stats(source).total.residual_norm)
    # What was read before does not change, and counters alone need no pass over the residuals.
    assert stats.total.residual_norm > 0
    assert tfc.stats(source, residual_norms=False).total.residual_norm is None


@pytest.mark.parametrize("exchange", ["gather", "shard"])
@pytest.mark.parametrize("memory", ["residual", "momentum"])
@pytest.mark.parametrize("traced", [False, True])
def test_the_compression_error_is_that_of_the_step_measured_last(rng, memory, exchange, traced):
    make = tfc.Compression.topk if memory == "residual" else tfc.Compression.dgc
    source = Source(make(0.1, exchange=exchange))
    step = tf.function(source.step) if traced else source.step
    for number in range(1, 8):
        arrays = [tf.constant(array) for array in gradients(rng, 2000, 3000)]
        memories = source._tfcompress_step.state.memories.by_name()
        before = [[slot.numpy() for slot in memories[f"g{i}"]] for i in range(2)] if number == 4 else None
        step(arrays)
        if number == 4:
            slots = zip(arrays, before, strict=True)
            added = [a.numpy() + sum(0.9 * velocity for velocity in own[1:]) for a, own in slots]
            compensated = [own[0] + each for own, each in zip(before, added, strict=True)]
            after = [source._tfcompress_step.state.memories.by_name()[f"g{i}"][0].numpy() for i in range(2)]
    stats = tfc.stats(source)
    everything = [*zip(added, compensated, after, strict=True)]
    everything.append([np.concatenate(arrays) for arrays in (added, compensated, after)])
    for tensor, norms in zip([*stats.tensors, stats.total], everything, strict=True):
        of_added, of_compensated, of_residual = map(np.linalg.norm, norms)
        assert tensor.compression_error == pytest.approx(of_residual / of_compensated, rel=1e-4)
        assert tensor.residual_ratio == pytest.approx(of_residual / of_added, rel=1e-4)
        assert tensor.delay_steps == 10.0
    # No pass over the residuals: counters alone have them, too.
    assert tfc.stats(source, residual_norms=False).total.compression_error == stats.total.compression_error


def test_the_compression_error_needs_a_memory_and_a_dense_gradient(rng):
    rows = tf.IndexedSlices(tf.ones([2, 600]), tf.constant([0, 5]), tf.constant([9, 600]))
    stepper = Stepper(
        {
            "dense": tfc.Compression.topk(0.1),
            "qsgd": tfc.Compression.qsgd(),
            "rows": tfc.Compression.topk(0.1),
        }
    )
    stepper.run(
        [rows, *map(tf.constant, gradients(rng, 3000, 3000, 7))], ["rows", "dense", "qsgd", "dense_small"]
    )
    errors = [tensor.compression_error for tensor in stepper.state.stats().tensors]
    assert 0.5 < errors[1] < 1.0 and [errors[0], *errors[2:]] == [None] * 3


def test_the_compression_error_is_that_of_the_stage(rng):
    source = Source(tfc.Schedule([(2, tfc.Compression.none)], then=tfc.Compression.topk(0.1)))
    step = tf.function(source.step)
    errors = []
    for _ in range(4):
        step([tf.constant(array) for array in gradients(rng, 2000)])
        errors.append(source._tfcompress_step.state.stats().total.compression_error)
    assert errors[:3] == [0.0] * 3 and 0.5 < errors[3] < 1.0


def test_a_step_that_is_not_finite_is_not_measured(rng):
    source = Source(tfc.Compression.topk(0.1))
    arrays = gradients(rng, 2000)
    source.step(arrays)
    before = tfc.stats(source).total
    arrays[0][3] = np.nan
    source.step(arrays)
    assert tfc.stats(source).total.compression_error == before.compression_error > 0


def test_the_difference_of_two_readings(rng):
    source = Source(tfc.Compressor("nonzero|bitmap|raw"))
    before_all = tfc.stats(source)
    source.step(gradients(rng, 2000, 3000))
    before = tfc.stats(source)
    sparse = [np.where(np.arange(a.size) < 10, a, 0) for a in gradients(rng, 2000, 3000)]
    for _ in range(2):
        source.step(sparse)
    after = tfc.stats(source)
    part = after.since(before)
    assert part.total.steps == 2 and after.since(before_all).total == after.total
    assert [t.sent_elements for t in part.tensors] == [20, 20]
    assert part.total.payload_bytes == after.total.payload_bytes - before.total.payload_bytes
    assert part.total.wire_bytes == after.total.wire_bytes - before.total.wire_bytes
    assert part.total.communication_nanoseconds + before.total.communication_nanoseconds == (
        after.total.communication_nanoseconds
    )
    assert part.total.ratio > 5 > before.total.ratio


def test_table_and_summary_show_what_was_counted(rng):
    source = Source(tfc.Compression.topk(0.01))
    source.step(gradients(rng, 5000, 7), ["layer/kernel", "layer/bias"])
    stats = tfc.stats(source)
    header, kernel, bias, total = str(stats).splitlines()
    assert header.split()[0] == "tensor" and len({len(header), len(kernel), len(bias), len(total)}) == 1
    assert [row.split()[0] for row in (kernel, bias, total)] == ["layer/kernel", "layer/bias", "total"]
    assert kernel.split()[1:3] == ["20000", str(stats.tensors[0].payload_bytes)]
    assert f"payload {stats.total.payload_bytes:,} of 20,028 B" in stats.summary()
    assert "\n" not in stats.summary()


@pytest.mark.parametrize("preset", ["topk", "none"])
@pytest.mark.parametrize("traced", [False, True])
def test_communication_is_timed(rng, preset, traced):
    compressor = tfc.Compression.none if preset == "none" else tfc.Compression.topk(0.1)
    source = Source(compressor)
    step = tf.function(source.step) if traced else source.step
    step([tf.constant(array) for array in gradients(rng, 5000, 7)])
    assert tfc.stats(source).total.communication_nanoseconds > 0


def test_timing_starts_when_the_packet_is_ready(rng):
    """By the graph: the first clock waits for the packet, the exchange for the first clock."""
    source = Source(tfc.Compression.topk(0.1))
    traced = tf.function(source.step).get_concrete_function([tf.TensorSpec([5000])])
    [gather] = [op for op in traced.graph.get_operations() if op.type == "HorovodAllgather"]
    packet = gather.inputs[0].op
    [start] = [op for op in gather.control_inputs if op.type == "Timestamp"]
    [end] = [op for op in traced.graph.get_operations() if op.type == "Timestamp" and op is not start]

    def waits_for(op, other, seen):
        if op is other:
            return True
        if op in seen:
            return False
        seen.add(op)
        return any(waits_for(o, other, seen) for o in [*op.control_inputs, *(i.op for i in op.inputs)])

    assert waits_for(start, packet, set()) and waits_for(end, gather, set())


def test_all_reduced_gradients_do_not_wait_for_the_clock(rng):
    """The communication of one gradient overlaps the backward pass of the next."""
    source = Source(tfc.Compression.none)
    traced = tf.function(source.step).get_concrete_function([tf.TensorSpec([50]), tf.TensorSpec([60])])
    reductions = [op for op in traced.graph.get_operations() if op.type == "HorovodAllreduce"]
    assert len(reductions) == 2
    for op in reductions:
        assert not op.control_inputs and len(op.inputs) == 1
        assert all(o.type != "Timestamp" for o in op.inputs[0].op.control_inputs)


def test_a_wrapper_of_the_optimizer_has_its_statistics(rng):
    source = Source(tfc.Compression.topk(0.1))
    source.step(gradients(rng, 5000))

    class LossScale:
        inner_optimizer = source

    assert tfc.stats(LossScale()).total == tfc.stats(source).total
    assert hvd.size() > 1 and tfc.stats(LossScale()).total.steps == 1


def test_a_tape_made_anew_at_every_step_warns_once(rng, recwarn):
    variable = tf.Variable(tf.zeros([20_000]))
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * rng.standard_normal(20_000).astype(np.float32))
        tape = tfc.DistributedGradientTape(tape, compression=tfc.Compression.topk(0.0005))
        assert tfc.stats(tape).total.steps == 0  # Of this tape nothing yet.
        tape.gradient(loss, [variable])
        assert tfc.stats(tape).total.compression_error > 0.9875
    told = [each for each in recwarn if issubclass(each.category, tfc.AccuracyWarning)]
    assert len(told) == (hvd.rank() == 0)
