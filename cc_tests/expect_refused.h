// Helper for tests of specs: expects that a spec is refused with a helpful message.
#ifndef TFCOMPRESS_CC_TESTS_EXPECT_REFUSED_H_
#define TFCOMPRESS_CC_TESTS_EXPECT_REFUSED_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/status.h"

namespace tfcompress {

// Expects InvalidArgument of CompressorType::FromSpec, with a message that names the spec and has
// all of these words.
template <typename CompressorType>
void ExpectSpecRefused(const std::string& spec, const std::vector<std::string>& words) {
  const auto compressor = CompressorType::FromSpec(spec);
  ASSERT_FALSE(compressor.ok()) << spec << " is " << compressor.value()->spec();
  EXPECT_EQ(compressor.status().code(), StatusCode::kInvalidArgument);
  const std::string& message = compressor.status().message();
  EXPECT_NE(message.find("spec '" + spec + "'"), std::string::npos) << message;
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << message << " lacks " << word;
  }
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_EXPECT_REFUSED_H_
