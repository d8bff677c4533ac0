"""What all callbacks of this package are."""

import tensorflow as tf


class Callback(tf.keras.callbacks.Callback):
    """A callback for models of TensorFlow's own Keras, and for those of tf_keras beside it.

    tf_keras asks its callbacks what they are for; those of Keras 3 do not say.
    """

    def _implements_train_batch_hooks(self) -> bool:
        return True

    def _implements_test_batch_hooks(self) -> bool:
        return False

    def _implements_predict_batch_hooks(self) -> bool:
        return False
