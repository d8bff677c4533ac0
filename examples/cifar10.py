"""Residual and dense networks on CIFAR-10; ResNet-20 and DenseNet40-K12 are those that DeepReduce trains.

    horovodrun -np 2 python examples/cifar10.py --compression none topk "deepreduce(value='qsgd')"
    horovodrun -np 2 python examples/cifar10.py --data-dir cifar-10-batches-bin --model densenet40
    horovodrun -np 2 python examples/cifar10.py --model resnet50 --batch-size 8 --epochs 1 --steps 10

The one of SKCompress' section 7.7, on eight GPUs:

    horovodrun -np 8 python examples/cifar10.py --data-dir cifar-10-batches-bin --model resnet18 \
        --optimizer adam --learning-rate 0.003 --batch-size 64 --compression none "skcompress(16)"

--data-dir is the folder or the archive of CIFAR-10 as published, binary or Python version, or sheets of
images (see workload/cifar.py). Without it the images are synthetic. ResNet-50 has the shape for ImageNet, 224
x 224 pixels and 1,000 classes, and always trains on synthetic images: it is meant for timing.

Batch normalisation uses the batch of its own rank. Its moving averages, which only tests use, are averaged
over the ranks before each test; the bytes of that are not reported.

The optimizer applies the weight decay, to all weights and equally on all ranks. It is not part of the
gradients, so that neither the residual nor the momentum in a compressor's memory changes it. --weight-decay
1e-4 shrinks weights as fast as a term of that factor in the loss does with momentum 0.9. Adam multiplies them
by 1 - learning rate * weight decay in a step, as AdamW does.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import densenet
import horovod.tensorflow as hvd
import keras
import resnet
import tensorflow as tf
import workload
from workload import cifar, images

import tfcompress as tfc

MOMENTUM = 0.9
IMAGENET_SIZE, IMAGENET_NUM_CLASSES = 224, 1000
TEST_BATCH_SIZE = 200


def resnet50(shape: tuple[int, int, int], num_classes: int) -> keras.Model:
    """Returns Keras's own ResNet-50, untrained, with logits as output."""
    return keras.applications.ResNet50(
        weights=None, input_shape=shape, classes=num_classes, classifier_activation=None
    )


MODELS = {
    "resnet20": resnet.resnet20,
    "densenet40": densenet.densenet40,
    "resnet18": resnet.resnet18,
    "resnet50": resnet50,
}
# Make the optimizer's maker from the weight decay. A term in the loss would pass through the momentum, which
# multiplies it by 1 / (1 - momentum).
OPTIMIZERS = {
    "momentum": lambda decay: workload.sgd(MOMENTUM, decay / (1 - MOMENTUM)),
    "adam": lambda decay: workload.adam(weight_decay=decay),
}


def parse_arguments() -> argparse.Namespace:
    parser = workload.make_parser(__doc__, epochs=2, batch_size=32, learning_rate=0.05)
    parser.add_argument("--model", choices=MODELS, default="resnet20", help="default: %(default)s")
    parser.add_argument(
        "--images",
        type=int,
        help="made-up images to train with, a quarter as many to test with (default 2000, of ImageNet's "
        "shape 128)",
    )
    parser.add_argument(
        "--weight-decay", type=float, default=1e-4, help="weight decay; see above (default %(default)s)"
    )
    parser.add_argument(
        "--optimizer",
        choices=OPTIMIZERS,
        default="momentum",
        help="adam needs a lower --learning-rate than the default (default: %(default)s)",
    )
    arguments = parser.parse_args()
    if arguments.model == "resnet50" and arguments.data_dir:
        parser.error(
            "--model resnet50 trains on synthetic images of ImageNet's shape only: leave --data-dir out"
        )
    return arguments


def load(arguments: argparse.Namespace) -> tuple[cifar.Images, cifar.Images]:
    """Returns (images, labels) to train with and to test with; images uint8 [m, height, width, 3]."""
    if arguments.data_dir:
        try:
            return cifar.read(arguments.data_dir)
        except (OSError, ValueError) as error:
            raise SystemExit(f"--data-dir: {error}") from error
    if arguments.model == "resnet50":
        return made_up(arguments.images or 128, IMAGENET_SIZE, IMAGENET_NUM_CLASSES, arguments.seed)
    return made_up(arguments.images or 2000, cifar.SIZE, cifar.NUM_CLASSES, arguments.seed)


def made_up(num_train: int, size: int, num_classes: int, seed: int) -> tuple[cifar.Images, cifar.Images]:
    pixels, labels = images.synthetic(num_train + num_train // 4, size, num_classes, seed)
    return (pixels[:num_train], labels[:num_train]), (pixels[num_train:], labels[num_train:])


def make_task(arguments: argparse.Namespace, compressor: tfc.Compressor) -> workload.Task:
    train, test = load(arguments)
    normalise = images.normaliser(train[0])
    batches = workload.batches(train, arguments).map(lambda pixels, labels: (normalise(pixels), labels))
    batches = images.augment(batches, arguments.seed + hvd.rank())
    test_images, test_labels = (workload.share(array) for array in test)
    tests = tf.data.Dataset.from_tensor_slices(test_images).batch(TEST_BATCH_SIZE).map(normalise)

    def evaluate(model: keras.Model) -> dict[str, tuple[float, float]]:
        tfc.callbacks.average_moving_statistics(model)
        predicted = model.predict(tests, verbose=0).argmax(axis=1)
        return {"test_accuracy": ((predicted == test_labels).sum(), len(test_labels))}

    num_classes = IMAGENET_NUM_CLASSES if arguments.model == "resnet50" else cifar.NUM_CLASSES
    return workload.Task(
        model=MODELS[arguments.model](train[0].shape[1:], num_classes),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        make_optimizer=OPTIMIZERS[arguments.optimizer](arguments.weight_decay),
        train=batches.prefetch(tf.data.AUTOTUNE),
        evaluate=evaluate,
    )


if __name__ == "__main__":
    workload.run(parse_arguments(), make_task)
