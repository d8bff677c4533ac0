// Payloads of older builds: the same input must give the same floats, and the same sum the same
// elements. Each linear codec has a payload in golden/; TFC_UPDATE_GOLDEN=1 writes them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "contract_inputs.h"
#include "core/hash.h"
#include "core/linear_compressor.h"
#include "golden_files.h"

namespace tfcompress {
namespace {

constexpr int64_t kElements = 300;
constexpr uint64_t kSeed = 0x1234567890ABCDEF;

struct Golden {
  std::string file;  // Without extension.
  std::string spec;
};

const std::vector<Golden>& Goldens() {
  static const auto* goldens = new std::vector<Golden>{
      {"linear_count_sketch", "count_sketch:rows=3,columns=40,k=5,candidates=3"},
      {"linear_count_sketch_heavymix", "count_sketch:rows=3,columns=40,k=15,recovery=heavymix"},
      {"linear_shared_randomk", "shared_randomk:ratio=0.1"},
      {"linear_powersgd", "powersgd"},
  };
  return *goldens;
}

// Sixteenths, whose sums have no rounding; some of them large.
std::vector<float> Input() {
  Random random(2026);
  std::vector<float> values(kElements);
  for (float& value : values) {
    value = (static_cast<float>(random.Below(128)) - 64) / 16;
    if (random.Below(40) == 0) value *= 20;
  }
  return values;
}

Bytes Encode(const LinearCodec& codec) {
  std::vector<float> payload(codec.PayloadSize(kElements));
  EXPECT_TRUE(codec.Encode(Input(), {kSeed}, Span<float>(payload)).ok());
  Bytes bytes(4 * payload.size());
  std::memcpy(bytes.data(), payload.data(), bytes.size());
  return bytes;
}

// Recovers a payload to lines "index value"; nine digits identify a float.
std::string RecoverToText(const LinearCodec& codec, const Bytes& bytes) {
  std::vector<float> payload(bytes.size() / 4);
  std::memcpy(payload.data(), bytes.data(), 4 * payload.size());
  std::vector<uint32_t> indices;
  std::vector<float> values;
  const Status status = codec.Recover(payload, kElements, {kSeed}, &indices, &values);
  EXPECT_TRUE(status.ok()) << status.message();
  std::ostringstream lines;
  lines.precision(9);
  for (size_t i = 0; i < indices.size(); ++i) lines << indices[i] << ' ' << values[i] << '\n';
  return lines.str();
}

class LinearGoldenTest : public testing::TestWithParam<Golden> {};

TEST_P(LinearGoldenTest, GivesAndRecoversTheSame) {
  const auto bytes_path = GoldenFolder() / (GetParam().file + ".bin");
  const auto text_path = GoldenFolder() / (GetParam().file + ".txt");
  const auto compressor = LinearCompressor::FromSpec(GetParam().spec);
  ASSERT_TRUE(compressor.ok()) << compressor.status().message();
  const LinearCodec& codec = compressor.value()->codec();
  const Bytes encoded = Encode(codec);
  if (Updates()) {
    const std::string text = RecoverToText(codec, encoded);
    WriteFile(bytes_path, encoded);
    WriteFile(text_path, Bytes(text.begin(), text.end()));
  }
  ASSERT_TRUE(std::filesystem::exists(bytes_path))
      << bytes_path << ": run with TFC_UPDATE_GOLDEN=1 and commit it";
  const Bytes golden = ReadFile(bytes_path);
  const Bytes golden_text = ReadFile(text_path);
  EXPECT_EQ(encoded, golden) << GetParam().spec << " no longer gives the same payload";
  EXPECT_EQ(RecoverToText(codec, golden), std::string(golden_text.begin(), golden_text.end()));
}

INSTANTIATE_TEST_SUITE_P(Registry, LinearGoldenTest, testing::ValuesIn(Goldens()),
                         [](const auto& info) { return info.param.file; });

TEST(LinearGolden, CoversTheRegistry) {
  for (const auto& row : Registry<LinearCodec>()) {
    EXPECT_TRUE(std::any_of(Goldens().begin(), Goldens().end(), [&](const Golden& golden) {
      return golden.file == "linear_" + row.name;
    })) << row.name;
  }
}

}  // namespace
}  // namespace tfcompress
