// Inputs and checks of the contract suite, for every codec of the registry.
#ifndef TFCOMPRESS_CC_TESTS_CONTRACT_INPUTS_H_
#define TFCOMPRESS_CC_TESTS_CONTRACT_INPUTS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "core/codec.h"
#include "core/compressor.h"
#include "core/registry.h"
#include "core/status.h"

namespace tfcompress {

// One row of a registry under one setting of its parameters.
template <typename Interface>
struct Setting {
  std::string part;  // As in a spec: "bloom:policy=p2".
  uint8_t id;
  bool is_default;
  std::shared_ptr<const Interface> codec;
};

// Prints a parameter in gtest's messages.
template <typename Interface>
void PrintTo(const Setting<Interface>& setting, std::ostream* out) {
  *out << setting.part;
}

// The tested settings: the defaults, each choice of each parameter, both ends of each range.
std::vector<std::vector<std::pair<std::string, std::string>>> ParameterSettings(
    const std::vector<ParamSpec>& params);

std::string PartText(const std::string& name,
                     const std::vector<std::pair<std::string, std::string>>& given);

template <typename Interface>
std::vector<Setting<Interface>> AllSettings() {
  std::vector<Setting<Interface>> settings;
  for (const auto& row : Registry<Interface>()) {
    for (const auto& given : ParameterSettings(row.definition.params)) {
      const auto params = Params::Parse(row.name, row.definition.params, given);
      const std::string part = PartText(row.name, given);
      if (!params.ok()) {
        ADD_FAILURE() << part << ": " << params.status().message();
        continue;
      }
      settings.push_back({part, row.id, given.empty(), row.definition.make(params.value())});
    }
  }
  return settings;
}

// Converts text to a gtest name: letters, digits and underscores.
std::string TestName(const std::string& text);

struct IndexCase {
  std::string name;
  uint32_t n;
  std::vector<uint32_t> indices;
  uint32_t width = 0;  // Of a matrix.
};

// Supports: at the ends of the universe, empty, full, single, thin, dense, clustered, of several
// blocks; of a matrix.
const std::vector<IndexCase>& IndexCases();
// Supports small enough to try every prefix and every flipped bit.
const std::vector<IndexCase>& SmallIndexCases();

struct ValueCase {
  std::string name;
  std::vector<float> values;
};

// Vectors of finite floats: zeros, equal, one sign, wide range, subnormal, largest, several blocks.
const std::vector<ValueCase>& ValueCases();
const std::vector<ValueCase>& SmallValueCases();

// Draws each index of [0, n) with this probability.
std::vector<uint32_t> RandomSubset(uint32_t n, double probability, uint64_t seed);
// Draws rows and columns of a matrix: the indices of the elements that stand in both.
std::vector<uint32_t> RandomProduct(uint32_t num_rows, uint32_t width, uint64_t seed);
// Roughly normal floats.
std::vector<float> NormalValues(size_t count, uint64_t seed);
// A vector like a gradient: many zeros, heavy tails, values of very different size.
std::vector<float> Gradient(size_t n, uint64_t seed);

// Whether two vectors have the same bits.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b);
// Norm of the error of `decoded`, as a multiple of that of `values`.
double RelativeError(const std::vector<float>& values, const std::vector<float>& decoded);

// Whether Decode yields the encoded indices again.
bool IsExact(const IndexCodec& codec);
// Whether it decodes some values to zero by design, and they are not sent.
bool Narrows(const ValueCodec& codec);

// A spec, and whether it is exact.
struct SpecCase {
  std::string spec;
  std::string memory;
  bool exact;  // Decodes the selected elements bit for bit.
};

inline void PrintTo(const SpecCase& spec, std::ostream* out) { *out << spec.spec; }

// Every legal combination of the registries' rows under their defaults, and SpecsOfEachPart, with
// every memory.
const std::vector<SpecCase>& AllSpecs();
// Each setting of each part once, with the memory `residual`: for tests too slow for AllSpecs.
const std::vector<SpecCase>& SpecsOfEachPart();

// Calls check with every strict prefix of `bytes`, each in memory of its own length, so that the
// address sanitizer sees a read past its end.
void ForEachPrefix(ByteSpan bytes, const std::function<void(const Bytes&)>& check);
// Calls check with every copy of `bytes` that has one flipped bit.
void ForEachBitFlip(ByteSpan bytes, const std::function<void(const Bytes&, size_t bit)>& check);

// Expects an error with these words in its message.
void ExpectError(const Status& status, StatusCode code, const std::string& words);
void ExpectDataLoss(const Status& status, const std::string& words);

// Checks what a decoder returned for bytes that it did not refuse.
void ExpectSubset(const std::vector<uint32_t>& indices, uint32_t n, uint32_t k);
void ExpectFinite(const std::vector<float>& values);
void ExpectSame(const SparseTensor& actual, const SparseTensor& expected);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CONTRACT_INPUTS_H_
