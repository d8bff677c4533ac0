// Encodes and decodes joint sections, for the tests of single joint codecs.
#ifndef TFCOMPRESS_CC_TESTS_JOINT_ROUND_TRIP_H_
#define TFCOMPRESS_CC_TESTS_JOINT_ROUND_TRIP_H_

#include <gtest/gtest.h>

#include <vector>

#include "core/codec.h"
#include "values_at.h"

namespace tfcompress {

struct JointSection {
  Bytes section;
  uint32_t k = 0;
  SparseTensor decoded;
};

// Encodes the elements of a support, and decodes them again.
inline JointSection MustEncode(const SparseCodec& codec, const std::vector<float>& dense,
                               const Support& support, const CodecContext& context) {
  JointSection encoded;
  const std::vector<float> values = ValuesAt(support, dense);
  const auto k = codec.Encode(values, support, context, &encoded.section);
  EXPECT_TRUE(k.ok()) << k.status().message();
  encoded.k = k.value();
  encoded.decoded = {support.n(), support.everything(), {}, {}};
  if (encoded.k == 0) return encoded;
  const Status status = codec.Decode(encoded.section, encoded.k, context, &encoded.decoded);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_LE(encoded.section.size(), codec.MaxEncodedBytes(support.n(), encoded.k));
  return encoded;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_JOINT_ROUND_TRIP_H_
