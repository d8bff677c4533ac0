"""What callbacks require of the model that they are given to."""

from typing import Any

from tfcompress import comm, keras_objects
from tfcompress.checkpoint import find_state


def require_distributed(model: Any) -> None:
    """Raises ValueError where `fit` would train several ranks apart.

    That is certain where Keras's own training step applies gradients through an optimizer that exchanges
    none. A model with a training step of its own may use a tape.
    """
    if comm.ALL_RANKS.size() == 1 or keras_objects.has_own_train_step(model):
        return
    if model.built and not model.trainable_variables:
        return
    optimizer = model.optimizer
    if find_state(optimizer) is not None or keras_objects.horovod_synchronises(optimizer):
        return
    raise ValueError(
        f"the model was compiled with a plain {type(optimizer).__name__}, so each rank would train by "
        "itself: compile it with tfc.DistributedOptimizer(optimizer, compression=...); load a saved model "
        "with tfc.load_model(path, compression=...), not with keras.models.load_model. Horovod's own "
        "DistributedOptimizer does not exchange under Keras 3"
    )
