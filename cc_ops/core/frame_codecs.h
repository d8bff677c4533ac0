// Finds the codecs that a frame's header names.
#ifndef TFCOMPRESS_CORE_FRAME_CODECS_H_
#define TFCOMPRESS_CORE_FRAME_CODECS_H_

#include "core/codec.h"
#include "core/frame.h"
#include "core/status.h"

namespace tfcompress {

// The codecs of a frame that is not joint; they live for the whole process.
struct FrameCodecs {
  const IndexCodec* index;  // Null if the support is everything.
  const ValueCodec* value;
};

// Fails with DataLoss for an unknown id.
Result<FrameCodecs> FindCodecs(const FrameHeader& header);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_FRAME_CODECS_H_
