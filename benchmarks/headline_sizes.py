"""Sizes and errors of whole frames on sparse gradients: what the papers' methods and ours send.

    python benchmarks/headline_sizes.py 20newsgroups/step_000010.npz synthetic/step_000002.npz

The files are what examples/linear_models.py wrote with --dump-gradients. A pair counts 12 bytes uncompressed,
an int32 and a float64, as in SKCompress and FastSGD; frames count with headers.
"""

import argparse

import numpy as np
import options
import rich.progress
from comparison.gradients import Rows, find_files
from paper_sizes import SKETCHES, encoded, error_of, read_vectors

PAIR_BYTES = 12
# Of what is not zero.
CODECS = (
    "raw|raw",
    "delta_adaptive|raw",
    f"skcompress:{SKETCHES['128 buckets a sign, 2 rows, d/5 columns']}",
    f"skcompress:{SKETCHES['256 buckets a sign']}",
    "delta_flag:flag_bits=2|log:base=1.1,tau=0",
    "delta_flag:flag_bits=2|log:base=1.1,tau=128",
    "delta_adaptive|quantile:buckets=128",
    "delta_adaptive|block_int:bits=4,block=256,levels=square",
    "rowcol|block_int:bits=4,block=256,levels=square",
    "delta_adaptive|block_int:bits=3,block=64",
    "rowcol|ecsq:snr=25",
    "rowcol|ecsq:snr=15",
    "rowcol|ecsq:snr=10",
    "rowcol|ecsq:snr=5",
)


def measure(name: str, sent: Rows, codecs: str) -> dict:
    _, decoded, frame = encoded(sent, codecs)
    return {
        "gradient": name,
        "spec": f"nonzero|{codecs}",
        "frame_bytes": len(frame),
        "times_fewer_than_12_bytes_a_pair": PAIR_BYTES * len(sent.keys) / len(frame),
        "error": error_of(sent.dense(), decoded),
        "not_zero": int(np.count_nonzero(decoded)),
    }


def parse_arguments() -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    options.add_pages_folder(parser)
    options.add_dumps(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    vectors = read_vectors(find_files(arguments.files))
    rows = [
        measure(name, sent, codecs)
        for codecs in rich.progress.track(CODECS, "codecs")
        for name, sent in vectors
    ]
    gradients = {name: [sent.num_rows, len(sent.keys)] for name, sent in vectors}
    options.save({"gradients": gradients, "rows": rows}, arguments.output, "headline_sizes")
    for row in rows:
        fewer, error = row["times_fewer_than_12_bytes_a_pair"], row["error"]
        print(f"{row['gradient']}, {row['spec']}: {fewer:.1f} times, error {error:.2g}")


if __name__ == "__main__":
    main()
