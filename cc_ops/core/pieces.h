// The sharded exchange: every tensor is cut into pieces, one for each rank, which sums it.
//
// First hop: a rank encodes the pieces of all other ranks (EncodePieces), and keeps its own as it
// is. Second hop: the rank adds what the others sent of its piece (DecodeSum), encodes the sum
// (EncodeSum), and all ranks decode all sums (DecodePieces). A rank sends and decodes about twice
// the bytes of one encoded tensor, whatever the number of ranks.
//
// One slot, the memory's first, holds the error feedback of both hops. Outside the own piece it is
// what the first hop left out of this rank's gradient. In the own piece, which the first hop does
// not code, it is what the second hop left out of the sum: the rank adds it to the next sum, as its
// own part. So over all ranks, gradients + slots before == sum applied + slots after, and nothing
// else is to be stored. With a momentum in the memory the same holds for the velocities that are
// added to the first slot; the own velocity is masked where the frame of the sum has elements.
#ifndef TFCOMPRESS_CORE_PIECES_H_
#define TFCOMPRESS_CORE_PIECES_H_

#include <cstdint>

#include "core/pipeline.h"

namespace tfcompress {

// Fails with InvalidArgument unless `cuts`, num_ranks + 1 of them, ascend from 0 to n. Piece r is
// elements [cuts[r], cuts[r + 1]); one of no elements has no frame.
Status CheckCuts(Span<const int64_t> cuts, uint64_t n);

// What EncodePieces counts.
struct PieceCounts {
  Span<int64_t> num_bytes;  // Of the frame of each piece: num_ranks elements, overwritten.
  int64_t num_sent = 0;     // Elements in the frames.
};

// Compensates the gradient, and appends a frame for each piece but the own one, in their order. The
// slots become what each frame leaves out, and in the own piece the compensated gradient, finite or
// not.
Status EncodePieces(const Compressor& compressor, Span<const float> gradient,
                    Span<const int64_t> cuts, int64_t own, const MemorySlots& slots,
                    const CodecContext& context, Bytes* frames, PieceCounts* counts);

// Adds the rank's own part of its piece to `others`, what the other ranks sent, which it may
// overwrite; appends the frame of the sum. The own part is the first of `slots`, as EncodePieces
// left them, which become what the frame leaves out; without a memory it is `gradient`. `gradient`
// and `slots` point to the piece. Sets `num_sent` to the number of elements in the frame.
Status EncodeSum(const Compressor& compressor, const float* gradient, Span<float* const> slots,
                 Span<float> others, const CodecContext& context, Bytes* frame, int64_t* num_sent);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_PIECES_H_
