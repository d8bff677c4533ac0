"""The parts of a spec one at a time, at the NumPy level: for benchmarks and for work on codecs.

Training and `tfcompress.encode` make frames of them. Parts are named as in a spec, such as "topk:ratio=0.01"
or "quantile:buckets=128".
"""

from tfcompress import _core, errors
from tfcompress._core import (
    encode_indices,
    encode_rows,
    encode_values,
    linear_encode,
    linear_recover,
    linear_sizes,
    low_rank_decode,
    low_rank_left,
    low_rank_right,
    select,
)

__all__ = [
    "decode_indices",
    "decode_packet",
    "decode_rows",
    "decode_sum",
    "decode_values",
    "encode_indices",
    "encode_rows",
    "encode_values",
    "linear_encode",
    "linear_recover",
    "linear_sizes",
    "low_rank_decode",
    "low_rank_left",
    "low_rank_right",
    "select",
]

decode_indices = errors.translated()(_core.decode_indices)
decode_packet = errors.translated()(_core.decode)
decode_rows = errors.translated()(_core.decode_rows)
decode_sum = errors.translated()(_core.decode_sum)
decode_values = errors.translated()(_core.decode_values)
