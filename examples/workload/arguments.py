"""The command line of every example."""

import argparse
import pathlib

import tfcompress as tfc


def make_parser(
    description: str, *, epochs: int, batch_size: int, learning_rate: float
) -> argparse.ArgumentParser:
    """Returns the parser of an example's common arguments, with its defaults."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--compression",
        nargs="+",
        default=["topk"],
        metavar="PRESET|SPEC",
        help='one run each: "topk", "topk(ratio=0.001)" or a spec such as '
        '"residual|topk:ratio=0.01|bitmap|quantile" (default: topk)',
    )
    parser.add_argument(
        "--local-steps",
        type=int,
        nargs="+",
        default=[0],
        metavar="H",
        help="one run each: steps of each rank's own between exchanges (tfc.LocalSteps); 0, the default, "
        "exchanges gradients in every step",
    )
    parser.add_argument(
        "--outer",
        type=outer_step,
        nargs="+",
        default=[None],
        metavar="average|RATE:MOMENTUM",
        help="one run each of local steps: the average of what they made (default), or an outer step with "
        "Nesterov's momentum, such as 0.7:0.9",
    )
    parser.add_argument(
        "--feedback-decay",
        type=float,
        default=1.0,
        help="factor of the residuals after each round of local steps (default %(default)s)",
    )
    parser.add_argument("--epochs", type=int, default=epochs, help="epochs of each run (default %(default)s)")
    parser.add_argument(
        "--steps", type=int, help="steps of an epoch, which may take the data again (default: all data, once)"
    )
    parser.add_argument(
        "--warm-up-steps",
        type=int,
        default=3,
        metavar="N",
        help="steps before times are measured: the first ones trace graphs (default %(default)s)",
    )
    parser.add_argument(
        "--batch-size", type=int, default=batch_size, help="batch size of each rank (default %(default)s)"
    )
    parser.add_argument(
        "--learning-rate",
        type=float,
        default=learning_rate,
        help="default: %(default)s on any number of ranks",
    )
    parser.add_argument(
        "--decay", action="store_true", help="lower the learning rate to zero over the run, as a cosine"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of initial weights and shuffling (default %(default)s)"
    )
    parser.add_argument(
        "--data-dir", type=pathlib.Path, help="folder of the real data (default: synthetic or bundled data)"
    )
    parser.add_argument(
        "--preload",
        action="store_true",
        help="make all training batches before the first step, so that times exclude the input pipeline; "
        "every epoch has the same batches",
    )
    parser.add_argument("--output", type=pathlib.Path, help="JSON file for the results")
    parser.add_argument(
        "--dump-gradients", type=pathlib.Path, metavar="DIR", help="folder for gradients of rank 0, as .npz"
    )
    parser.add_argument(
        "--dump-steps",
        type=int,
        nargs="+",
        default=[10],
        metavar="STEP",
        help="steps whose gradients are dumped (default 10)",
    )
    parser.add_argument(
        "--count-interface",
        nargs="+",
        default=[],
        metavar="NAME",
        help="count the traffic of these network interfaces, such as eth0",
    )
    return parser


def outer_step(text: str) -> tfc.OuterStep | None:
    """Returns the outer step of the command line's word for it; None averages."""
    if text == "average":
        return None
    rate, momentum = map(float, text.split(":"))
    return tfc.OuterStep(rate, momentum, nesterov=momentum > 0)
