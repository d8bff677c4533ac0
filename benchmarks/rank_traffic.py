"""Bytes of a step by the number of ranks, from what an example wrote on each (SKCompress' Figure 14).

    python benchmarks/rank_traffic.py --name linear_models_ranks 1.json 2.json 4.json 8.json

A FILE is the --output of `horovodrun -np N python examples/linear_models.py`, with the same compressors in
each.
"""

import argparse
import json
import pathlib

import options
from convergence import BYTES

# Of an example's result.
SHARED = ("workload", "parameters", "steps", "versions")


def condensed(jobs: list[list[dict]]) -> dict:
    """Returns the bytes of a step of each job's compressors, by ranks.

    Args:
      jobs: The results of an example, a list for each number of ranks.
    """
    rows = [
        {
            "ranks": runs[0]["ranks"],
            "batch_size": runs[0]["batch_size"],
            **{
                run["compression"]: {f"{column}_per_step": run[f"{column}_per_step"] for column in BYTES}
                for run in runs
            },
        }
        for runs in jobs
    ]
    return {**{key: jobs[0][0][key] for key in SHARED}, "rows": sorted(rows, key=lambda row: row["ranks"])}


def parse_arguments() -> argparse.Namespace:
    parser = options.make_parser(__doc__)
    parser.add_argument("--name", required=True, help="name of the results")
    options.add_pages_folder(parser)
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE", help="results of an example")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    jobs = [json.loads(path.read_text()) for path in arguments.files]
    options.save(condensed(jobs), arguments.output, arguments.name)


if __name__ == "__main__":
    main()
