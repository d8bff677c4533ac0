"""What compression keeps back, beside what there was to send: measured in few steps, of dense gradients."""

from collections.abc import Sequence

import tensorflow as tf

from tfcompress.devices import HOST
from tfcompress.routes.base import Member, Outcome
from tfcompress.routes.memory import compensate
from tfcompress.state import Gradient

# What is measured of each tensor: the step, 0 before the first measurement, and sums of squares in it. These
# are of what the memory adds in the step (the gradient, with a momentum the velocity), of the compensated
# vector (that and the residual before), and of the residual after. Then elements, and those that were sent.
COLUMNS = ("step", "added", "compensated", "residual", "elements", "sent_elements")

# Steps whose numbers are multiples of it are measured, and those that are powers of two.
_INTERVAL = 128


def _is_measured(step: tf.Tensor) -> tf.Tensor:
    """Whether the step of this number, int64 scalar from 1 on, is measured: bool scalar."""
    return tf.equal(step % _INTERVAL, 0) | tf.equal(tf.bitwise.bitwise_and(step, step - 1), 0)


class Measurement:
    """The norms of one step, which is measured or not: no other step passes over the elements."""

    def __init__(self, members: Sequence[Member], gradients: Sequence[Gradient], step: tf.Tensor) -> None:
        """Takes the norms before the exchange.

        Rows of tables are left out: those that nobody touches wait for other reasons. So are residuals that
        are parts of what several ranks sum first, and matrices of which low-rank factors are sent: these have
        a part of every element in every step, and their errors do not tell how long anything waits.

        Args:
          members: What is known of each gradient.
          gradients: The local ones, as they are exchanged.
          step: Its number from 1 on, int64 scalar.
        """
        self._members = members
        self._positions = [
            i
            for i, member in enumerate(members)
            if member.slots
            and not (member.is_table or member.route.rank)
            and member.slots[0].shape == member.shape
        ]
        if not self._positions:
            return
        measured = [(members[i], gradients[i]) for i in self._positions]

        def measure() -> tf.Tensor:
            norms = []
            for member, gradient in measured:
                _, [compensated, *_] = compensate(member, gradient)
                has_momentum = len(member.slots) > 1
                added = compensated - member.slots[0] if has_momentum else tf.cast(gradient, tf.float32)
                norms += [_square(added), _square(compensated)]
            return tf.stack(norms)

        with tf.device(HOST):
            self._step = tf.identity(step)
            self._is_measured = _is_measured(self._step)
        self._before = tf.cond(self._is_measured, measure, lambda: tf.zeros([2 * len(measured)], tf.float64))

    def end(self, outcome: Outcome) -> tf.Tensor:
        """Takes the norms of the residuals, which the step has updated, unless a gradient was not finite.

        Args:
          outcome: Of the exchange, committed.

        Returns:
          float64 [gradients, columns]; the columns are zero where nothing was measured.
        """
        shape = [len(self._members), len(COLUMNS)]
        if not self._positions:
            return tf.zeros(shape, tf.float64)
        slots = [self._members[i].slots[0] for i in self._positions]
        elements = tf.constant([slot.shape.num_elements() for slot in slots], tf.float64)
        sent = outcome.counts.sent_elements

        def measure() -> tf.Tensor:
            after = tf.stack([_square(slot) for slot in slots])
            steps = tf.fill(tf.shape(after), tf.cast(self._step, tf.float64))
            before = tf.unstack(tf.reshape(self._before, [-1, 2]), axis=1)
            own = tf.cast(tf.gather(sent, self._positions), tf.float64)
            rows = tf.stack([steps, *before, after, elements, own], axis=1)
            return tf.scatter_nd([[i] for i in self._positions], rows, shape)

        return tf.cond(self._is_measured & outcome.finite, measure, lambda: tf.zeros(shape, tf.float64))


def _square(vector: tf.Tensor | tf.Variable) -> tf.Tensor:
    """The sum of squares of a float32 vector: float64 scalar. One pass, no temporary of its size."""
    return 2.0 * tf.cast(tf.nn.l2_loss(vector), tf.float64)
