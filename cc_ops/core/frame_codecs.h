// The codecs of a frame that is not joint: an index codec and a value codec side by side, index
// section before value section. They compose freely, because a lossy index codec says what it
// decodes to.
#ifndef TFCOMPRESS_CORE_FRAME_CODECS_H_
#define TFCOMPRESS_CORE_FRAME_CODECS_H_

#include <vector>

#include "core/codec.h"
#include "core/frame.h"
#include "core/status.h"

namespace tfcompress {

// They live for the whole process.
struct FrameCodecs {
  const IndexCodec* index;  // Null without an index section.
  const ValueCodec* value;
};

// Finds those that a header names. Fails with DataLoss for an unknown id.
Result<FrameCodecs> FindCodecs(const FrameHeader& header);

// Refuses sections that cannot hold k of n indices and `num_values` values, before anything is
// allocated for them.
Status CheckSections(const FrameCodecs& codecs, const FrameSections& sections, uint32_t n,
                     uint32_t k, uint32_t num_values);

// Appends the value section of `values`; with `decoded`, overwrites it with what Decode yields.
Status EncodeValues(const ValueCodec& value, Span<const float> values, const Support& support,
                    const CodecContext& context, Bytes* out, std::vector<float>* decoded);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_FRAME_CODECS_H_
