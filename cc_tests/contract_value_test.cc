// The contract of ValueCodec, for every row and setting of the registry.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "contract_inputs.h"
#include "core/float_order.h"
#include "core/hash.h"
#include "core/spec.h"

namespace tfcompress {
namespace {

using ValueSetting = Setting<ValueCodec>;

constexpr uint64_t kValueSeed = 42;
constexpr uint32_t kGap = 7;  // Between the indices of a sparse support.

class ValueContract : public testing::TestWithParam<ValueSetting> {
 protected:
  const ValueCodec& codec() const { return *GetParam().codec; }
  const ValueCodec& decoder() const { return *DecoderById<ValueCodec>(GetParam().id); }

  // Makes a support of k indices, which `storage` owns.
  static Support SparseSupport(size_t k, std::vector<uint32_t>* storage) {
    storage->resize(k);
    for (size_t i = 0; i < k; ++i) (*storage)[i] = static_cast<uint32_t>(kGap * i + 3);
    return Support(static_cast<uint32_t>(kGap * k + 4), *storage);
  }

  Bytes Encode(const ValueCase& input, const Support& support,
               Executor* executor = SerialExecutor()) const {
    Bytes section;
    const Status status = codec().Encode(input.values, support, {kValueSeed, executor}, &section);
    EXPECT_TRUE(status.ok()) << status.message();
    return section;
  }

  // Decodes into NaN, so that an element that is not written fails the test.
  Status Decode(ByteSpan section, const Support& support, std::vector<float>* values,
                Executor* executor = SerialExecutor()) const {
    values->assign(support.size(), std::numeric_limits<float>::quiet_NaN());
    return decoder().Decode(section, support, {kValueSeed, executor}, Span<float>(*values));
  }

  void ExpectErrorOrFinite(const Bytes& section, const Support& support) const {
    std::vector<float> values;
    const Status status = Decode(section, support, &values);
    if (status.ok()) {
      ExpectFinite(values);
    } else {
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.message();
    }
  }

  void ExpectWithinMaxError(const ValueCase& input, const Support& support) const {
    std::vector<float> decoded;
    const Bytes section = Encode(input, support);
    EXPECT_LE(section.size(), codec().MaxEncodedBytes(static_cast<uint32_t>(support.size())));
    EXPECT_TRUE(support.size() == 0 ||
                section.size() >= decoder().MinEncodedBytes(static_cast<uint32_t>(support.size())));
    const Status status = Decode(section, support, &decoded);
    ASSERT_TRUE(status.ok()) << status.message();
    ExpectFinite(decoded);
    std::vector<double> max_errors(decoded.size());
    codec().MaxErrors(input.values, Span<double>(max_errors));
    for (size_t i = 0; i < decoded.size(); ++i) {
      ASSERT_TRUE(std::isfinite(max_errors[i]));
      const double error =
          std::fabs(static_cast<double>(decoded[i]) - static_cast<double>(input.values[i]));
      ASSERT_LE(error, max_errors[i])
          << "value " << i << ": " << input.values[i] << " became " << decoded[i];
    }
  }
};

TEST_P(ValueContract, DecodesWithinItsMaxErrorAndItsBound) {
  for (const ValueCase& input : ValueCases()) {
    SCOPED_TRACE(input.name);
    std::vector<uint32_t> storage;
    ExpectWithinMaxError(input, SparseSupport(input.values.size(), &storage));
    ExpectWithinMaxError(input, Support::Everything(static_cast<uint32_t>(input.values.size())));
  }
}

TEST_P(ValueContract, AppendsToWhatIsThere) {
  for (const ValueCase& input : SmallValueCases()) {
    const Support support = Support::Everything(static_cast<uint32_t>(input.values.size()));
    Bytes expected = Encode(input, support);
    std::vector<float> expected_values;
    ASSERT_TRUE(Decode(expected, support, &expected_values).ok());
    const Bytes prefix = {1, 2, 3};
    Bytes out = prefix;
    ASSERT_TRUE(codec().Encode(input.values, support, {kValueSeed}, &out).ok());
    expected.insert(expected.begin(), prefix.begin(), prefix.end());
    EXPECT_EQ(out, expected) << input.name;
    std::vector<float> values;  // Decoded from unaligned bytes.
    ASSERT_TRUE(Decode(ByteSpan(out.data() + 3, out.size() - 3), support, &values).ok());
    EXPECT_EQ(values, expected_values) << input.name;
  }
}

TEST_P(ValueContract, EncodeAndDecodeYieldsTheSectionAndItsValues) {
  for (const ValueCase& input : ValueCases()) {
    SCOPED_TRACE(input.name);
    std::vector<uint32_t> storage;
    const Support support = SparseSupport(input.values.size(), &storage);
    Bytes expected = Encode(input, support);
    std::vector<float> expected_values;
    ASSERT_TRUE(Decode(expected, support, &expected_values).ok());
    const Bytes prefix = {1, 2, 3};
    Bytes out = prefix;
    std::vector<float> values(support.size(), std::numeric_limits<float>::quiet_NaN());
    ASSERT_TRUE(codec()
                    .EncodeAndDecode(input.values, support, {kValueSeed}, &out, Span<float>(values))
                    .ok());
    expected.insert(expected.begin(), prefix.begin(), prefix.end());
    EXPECT_EQ(out, expected);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(FloatBits(values[i]), FloatBits(expected_values[i])) << "value " << i;
  }
}

TEST_P(ValueContract, DoesNotDependOnTheExecutor) {
  ThreadExecutor threads(3);
  for (const ValueCase& input : ValueCases()) {
    SCOPED_TRACE(input.name);
    std::vector<uint32_t> storage;
    const Support support = SparseSupport(input.values.size(), &storage);
    const Bytes section = Encode(input, support);
    EXPECT_EQ(Encode(input, support), section);
    EXPECT_EQ(Encode(input, support, &threads), section);
    std::vector<float> serial, parallel;
    ASSERT_TRUE(Decode(section, support, &serial).ok());
    ASSERT_TRUE(Decode(section, support, &parallel, &threads).ok());
    EXPECT_EQ(parallel, serial);
  }
}

TEST_P(ValueContract, AnyPrefixOrExtensionIsDataLoss) {
  for (const ValueCase& input : SmallValueCases()) {
    SCOPED_TRACE(input.name);
    std::vector<uint32_t> storage;
    const Support support = SparseSupport(input.values.size(), &storage);
    const auto expect_data_loss = [&](const Bytes& bytes) {
      std::vector<float> values;
      EXPECT_EQ(Decode(bytes, support, &values).code(), StatusCode::kDataLoss)
          << bytes.size() << " bytes";
    };
    Bytes section = Encode(input, support);
    ForEachPrefix(section, expect_data_loss);
    section.push_back(0);
    expect_data_loss(section);
  }
}

TEST_P(ValueContract, AnyFlippedBitIsAnErrorOrFinite) {
  for (const ValueCase& input : SmallValueCases()) {
    SCOPED_TRACE(input.name);
    std::vector<uint32_t> storage;
    const Support support = SparseSupport(input.values.size(), &storage);
    ForEachBitFlip(Encode(input, support), [&](const Bytes& flipped, size_t bit) {
      SCOPED_TRACE(bit);
      ExpectErrorOrFinite(flipped, support);
    });
  }
}

TEST_P(ValueContract, AWrongCountOrNoiseIsAnErrorOrFinite) {
  for (const ValueCase& input : SmallValueCases()) {
    SCOPED_TRACE(input.name);
    const auto k = static_cast<uint32_t>(input.values.size());
    const Bytes section = Encode(input, Support::Everything(k));
    for (uint32_t other_k : {0u, 1u, k - 1, k + 1, 2 * k, 1u << 20}) {
      if (other_k != k) ExpectErrorOrFinite(section, Support::Everything(other_k));
    }
  }
  Random random(7);
  for (int i = 0; i < 2000; ++i) {
    Bytes noise(random.Below(128));
    for (unsigned char& byte : noise) byte = static_cast<unsigned char>(random.Next32());
    if (i % 2 == 0) {
      for (size_t j = 0; j < noise.size() && j < 8; ++j) noise[j] = j % 4 == 0 ? noise[j] % 16 : 0;
    }
    ExpectErrorOrFinite(noise, Support::Everything(random.Below(40)));
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, ValueContract, testing::ValuesIn(AllSettings<ValueCodec>()),
                         [](const auto& info) { return TestName(info.param.part); });

// dexp and poly promise no more than the range of a sign for one value. For all of them, a curve
// that is fitted by least squares errs no more than the constant that fits best.
class CurveContract : public ValueContract {};

TEST_P(CurveContract, ErrsNoMoreThanTheMeanOfASign) {
  for (const ValueCase& input : ValueCases()) {
    SCOPED_TRACE(input.name);
    const Support all = Support::Everything(static_cast<uint32_t>(input.values.size()));
    std::vector<float> decoded;
    ASSERT_TRUE(Decode(Encode(input, all), all, &decoded).ok());
    for (const bool negative : {false, true}) {
      double count = 0, mean = 0, variance = 0, error = 0;
      for (float value : input.values) {
        if (IsNegative(value) != negative) continue;
        ++count;
        mean += (value - mean) / count;
      }
      for (size_t i = 0; i < decoded.size(); ++i) {
        if (IsNegative(input.values[i]) != negative) continue;
        ASSERT_FALSE(negative ? decoded[i] > 0 : decoded[i] < 0) << "value " << i;
        const double from_mean = input.values[i] - mean;
        const double from_curve = double{input.values[i]} - decoded[i];
        variance += from_mean * from_mean / count;
        error += from_curve * from_curve / count;
      }
      EXPECT_LE(error, variance * 1.0001 + 0x1p-250) << (negative ? "negative" : "nonnegative");
    }
  }
}

std::vector<ValueSetting> CurveSettings() {
  std::vector<ValueSetting> curves;
  for (const ValueSetting& setting : AllSettings<ValueCodec>()) {
    const std::string name = NameOf(setting.part);
    if (name == "dexp" || name == "poly") curves.push_back(setting);
  }
  return curves;
}

INSTANTIATE_TEST_SUITE_P(Registry, CurveContract, testing::ValuesIn(CurveSettings()),
                         [](const auto& info) { return TestName(info.param.part); });

}  // namespace
}  // namespace tfcompress
