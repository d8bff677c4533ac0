"""Packets of custom codecs: what a rank sends in a step, and the sum of what all of them sent. NumPy only."""

import dataclasses
import time
import zlib
from collections.abc import Sequence

import numpy as np

from tfcompress.custom import CustomCodec

# A packet is a header of int64 numbers and what the codecs made, one after the other. The header has the
# CRC-32 of all that follows it in the packet, whether all gradients were finite, the seed of the first one,
# from which those of others differ alike on all ranks, and the lengths in bytes.
_CHECKSUM, _FINITE, _SEED, _LENGTHS = 0, 1, 2, 3
_NUMBER = np.dtype("<i8")


@dataclasses.dataclass(frozen=True)
class CustomPackets:
    """Encodes and decodes the gradients of a step.

    Attributes:
      codecs: One for each gradient.
      names: Of the gradients, for messages.
    """

    codecs: Sequence[CustomCodec]
    names: Sequence[str]

    @property
    def header_bytes(self) -> int:
        """What a packet has beside what the codecs made."""
        return _NUMBER.itemsize * (_LENGTHS + len(self.codecs))

    def encode(self, seeds: np.ndarray, *vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns this rank's packet.

        Args:
          seeds: int64 [gradients].
          *vectors: float32, one for each gradient. If one is not finite, all stay at home.

        Returns:
          The packet, uint8; the bytes of each gradient in it and the nanoseconds of its encoding, int64.

        Raises:
          TypeError: A codec returned neither bytes nor uint8.
        """
        finite = all(np.isfinite(each).all() for each in vectors)
        parts, times = [np.empty(0, np.uint8)] * len(vectors), np.zeros(len(vectors), np.int64)
        if finite:
            for i, (codec, vector) in enumerate(zip(self.codecs, vectors, strict=True)):
                start = time.perf_counter_ns()
                parts[i] = _as_bytes(codec.encode(vector, int(seeds[i])), codec)
                times[i] = time.perf_counter_ns() - start
        lengths = np.array([each.size for each in parts], np.int64)
        numbers = np.array([finite, seeds[0], *lengths], _NUMBER)
        covered = np.concatenate([numbers.view(np.uint8), *parts])
        checksum = np.array([zlib.crc32(covered.data)], _NUMBER)
        return np.concatenate([checksum.view(np.uint8), covered]), lengths, times

    def decode(
        self, packets: np.ndarray, seeds: np.ndarray, position: int, num_ranks: int, *shapes: np.ndarray
    ) -> list[np.ndarray]:
        """Returns the sums of all ranks' gradients.

        Args:
          packets: uint8, those of all ranks in rank order.
          seeds: Those that this rank encoded with.
          position: Of this rank among them.
          num_ranks: How many there are.
          *shapes: Of the gradients.

        Returns:
          For each gradient the sum, float32; for each what this rank sent, float32; the bytes of each on all
          ranks and the nanoseconds of decoding each, int64; whether everything was finite on all ranks, bool.

        Raises:
          ValueError: A packet is broken, or a codec returned another shape; says whose.
        """
        sums, own = ([np.zeros(shape.tolist(), np.float32) for shape in shapes] for _ in range(2))
        num_bytes, times = np.zeros(len(shapes), np.int64), np.zeros(len(shapes), np.int64)
        all_finite, begin = True, 0
        for sender in range(num_ranks):
            finite, seed, parts, begin = self._read(packets, begin, sender)
            num_bytes += [each.size for each in parts]
            all_finite &= finite
            for i, part in enumerate(parts if finite else []):
                start = time.perf_counter_ns()
                decoded = self._decoded(i, part, sums[i].shape, int(seeds[i] - seeds[0]) + seed, sender)
                sums[i] += decoded
                times[i] += time.perf_counter_ns() - start
                if sender == position:
                    own[i] = decoded
        if begin != packets.size:
            raise ValueError(f"{packets.size - begin} bytes are behind the packets of {num_ranks} ranks")
        all_finite = all_finite and all(np.isfinite(each).all() for each in sums)
        return [*sums, *own, num_bytes, times, np.array(all_finite)]

    def _read(self, packets: np.ndarray, begin: int, sender: int) -> tuple[bool, int, list[np.ndarray], int]:
        """Returns whether all of a rank was finite, its first seed, what it sent, and where that ends."""
        body = begin + self.header_bytes
        if body > packets.size:
            raise ValueError(f"the packet of rank {sender} is missing or cut off")
        header = packets[begin:body].view(_NUMBER)
        lengths = header[_LENGTHS:].tolist()
        end = body + sum(lengths)
        if min(lengths, default=0) < 0 or end > packets.size:
            raise ValueError(f"the packet of rank {sender} is cut off, or its lengths are wrong")
        if zlib.crc32(packets[begin + _NUMBER.itemsize : end].data) != header[_CHECKSUM]:
            raise ValueError(f"the packet of rank {sender} is damaged: its checksum is wrong")
        ends = body + np.cumsum(lengths, dtype=np.int64)
        parts = [packets[last - length : last] for last, length in zip(ends, lengths, strict=True)]
        return bool(header[_FINITE]), int(header[_SEED]), parts, end

    def _decoded(
        self, i: int, part: np.ndarray, shape: tuple[int, ...], seed: int, sender: int
    ) -> np.ndarray:
        decoded = np.asarray(self.codecs[i].decode(part, shape, seed), np.float32)
        if decoded.size != np.prod(shape, dtype=np.int64):
            raise ValueError(
                f"{self.codecs[i]} decoded gradient '{self.names[i]}' of rank {sender} to the shape "
                f"{decoded.shape}, expected {shape}"
            )
        return decoded.reshape(shape)


def _as_bytes(encoded: bytes | np.ndarray, codec: CustomCodec) -> np.ndarray:
    if isinstance(encoded, (bytes, bytearray, memoryview)):
        return np.frombuffer(encoded, np.uint8)
    if isinstance(encoded, np.ndarray) and encoded.dtype == np.uint8:
        return encoded.ravel()
    raise TypeError(f"{codec} must encode to bytes or a uint8 array, got {type(encoded).__name__}")
