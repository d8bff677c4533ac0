// The spec parser: Compressor::FromSpec and Params.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/compressor.h"
#include "core/linear_codec.h"
#include "core/registry.h"
#include "expect_refused.h"

namespace tfcompress {
namespace {

std::string Canonical(const std::string& spec) {
  const auto compressor = Compressor::FromSpec(spec);
  return compressor.ok() ? compressor.value()->spec() : "error: " + compressor.status().message();
}

template <typename Interface>
std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& row : Registry<Interface>()) names.push_back(row.name);
  return names;
}

TEST(Spec, TheDesignsExampleIsItsOwnCanonicalForm) {
  const std::string spec = "residual|topk:ratio=0.01|bloom:policy=p2,fpr=0.001|dexp";
  EXPECT_EQ(Canonical(spec), spec);
  EXPECT_EQ(Canonical("residual|topk|bloom|dexp"), spec);
}

TEST(Spec, WritesEveryParameterInTheOrderOfItsDefinition) {
  EXPECT_EQ(Canonical("topk:ratio=1e-2|bloom:fpr=0.0010,policy=p0|raw"),
            "topk:ratio=0.01|bloom:policy=p0,fpr=0.001|raw");
}

TEST(Spec, LeavesOutTheMemoryNone) {
  EXPECT_EQ(Canonical("none|dense|raw|raw"), "dense|raw|raw");
  EXPECT_EQ(Canonical("dense|raw|raw"), "dense|raw|raw");
  EXPECT_EQ(Canonical("none|nonzero|sketchml"), Canonical("nonzero|sketchml"));
}

TEST(Spec, DistinguishesJointCodecsFromIndexAndValue) {
  const auto joint = Compressor::FromSpec("residual|nonzero|sketchml");
  ASSERT_TRUE(joint.ok()) << joint.status().message();
  EXPECT_EQ(joint.value()->support_kind(), SupportKind::kJoint);
  EXPECT_EQ(joint.value()->index_id(), 0);
  EXPECT_EQ(joint.value()->value_id(), FindByName<SparseCodec>("sketchml")->id);
  EXPECT_EQ(joint.value()->memory().num_slots(), 1);

  const auto product = Compressor::FromSpec("nonzero|bitmap|bf16");
  ASSERT_TRUE(product.ok()) << product.status().message();
  EXPECT_EQ(product.value()->support_kind(), SupportKind::kIndexSection);
  EXPECT_EQ(product.value()->index_id(), FindByName<IndexCodec>("bitmap")->id);
  EXPECT_EQ(product.value()->value_id(), FindByName<ValueCodec>("bf16")->id);
  EXPECT_EQ(product.value()->memory().num_slots(), 0);

  const auto everything = Compressor::FromSpec("dense|raw|fp16");
  ASSERT_TRUE(everything.ok()) << everything.status().message();
  EXPECT_EQ(everything.value()->support_kind(), SupportKind::kEverything);
  EXPECT_EQ(everything.value()->index_id(), 0);
}

TEST(Spec, ListsTheKnownNamesWhereOneIsUnknown) {
  ExpectSpecRefused<Compressor>("residue|topk|raw|raw", Names<Memory>());
  ExpectSpecRefused<Compressor>("residual|top|raw|raw", Names<Sparsifier>());
  ExpectSpecRefused<Compressor>("topk|row|raw", Names<IndexCodec>());
  ExpectSpecRefused<Compressor>("topk|raw|rare", Names<ValueCodec>());
  ExpectSpecRefused<Compressor>("topk|sketchxl", Names<SparseCodec>());
  ExpectSpecRefused<Compressor>("TopK|raw|raw", Names<Sparsifier>());
  ExpectSpecRefused<Compressor>("topk |raw|raw", Names<Sparsifier>());
}

TEST(Spec, ListsTheKnownParametersWhereOneIsUnknown) {
  ExpectSpecRefused<Compressor>("topk|bloom:fp=0.1|raw", {"'fp'", "'bloom'", "policy, fpr"});
  ExpectSpecRefused<Compressor>("topk|raw:size=1|raw", {"'size'", "it has none"});
  ExpectSpecRefused<Compressor>("topk:|raw|raw", {"key=value"});
  ExpectSpecRefused<Compressor>("topk:ratio|raw|raw", {"'ratio'", "key=value"});
  ExpectSpecRefused<Compressor>("topk:ratio=0.1,|raw|raw", {"key=value"});
  ExpectSpecRefused<Compressor>("topk:ratio=0.1,ratio=0.2|raw|raw", {"'ratio'", "given twice"});
  ExpectSpecRefused<Compressor>("topk:ratio=0.1,ratio=0.1|raw|raw", {"given twice"});
}

TEST(Spec, RefusesValuesOutOfRange) {
  for (const char* ratio : {"0", "-0.1", "1.1", "1e400", "inf", "nan", "-inf", "", " 0.1", "0.1 ",
                            "0,1", "0.1x", "0x1p-3", "+0.1", "half"}) {
    const auto compressor = Compressor::FromSpec("topk:ratio=" + std::string(ratio) + "|raw|raw");
    EXPECT_FALSE(compressor.ok()) << ratio;
  }
  ExpectSpecRefused<Compressor>("topk:ratio=2|raw|raw", {"'ratio'", "'topk'", "(0, 1]", "'2'"});
  ExpectSpecRefused<Compressor>("topk|bloom:policy=p3|raw",
                                {"'policy'", "naive, p0, p1, p2", "'p3'"});
  EXPECT_EQ(Canonical("topk:ratio=1|raw|raw"), "topk:ratio=1|raw|raw");
}

TEST(Spec, RefusesWrongNumbersOfParts) {
  ExpectSpecRefused<Compressor>("", {"has 1 parts", "[memory|]sparsifier|index|value"});
  ExpectSpecRefused<Compressor>("topk", {"has 1 parts"});
  ExpectSpecRefused<Compressor>("residual|topk", {"has 2 parts"});
  ExpectSpecRefused<Compressor>("none|topk|raw|raw|raw", {"has 5 parts"});
  ExpectSpecRefused<Compressor>("topk|raw|raw|raw", Names<Memory>());
  ExpectSpecRefused<Compressor>("||", Names<Sparsifier>());
  ExpectSpecRefused<Compressor>("topk|raw", {"'raw' is an index codec and needs a value codec"});
  ExpectSpecRefused<Compressor>("residual|topk|bitmap",
                                {"'bitmap' is an index codec and needs a value codec"});
}

TEST(Spec, RefusesPartsThatDoNotFit) {
  ExpectSpecRefused<Compressor>("dense|bitmap|raw", {"'dense'", "'raw'", "'bitmap'"});
  ExpectSpecRefused<Compressor>("topk|sketchml|raw", {"'sketchml'", "stands alone"});
  ExpectSpecRefused<Compressor>("topk|raw|sketchml", {"'sketchml'", "stands alone"});
}

Result<Params> ParseNumber(ParamKind kind, const std::string& text) {
  ParamSpec spec{"x", kind, "1", "", -1e18, 1e18};
  return Params::Parse("part", {spec}, {{"x", text}});
}

TEST(Params, WritesNumbersInTheirShortestExactForm) {
  const std::vector<std::pair<std::string, std::string>> texts = {
      {"0.1", "0.1"},       {"1e-3", "0.001"},      {"0.30000000000000004", "0.30000000000000004"},
      {"1000000", "1e+06"}, {"1234567", "1234567"}, {"-0.5", "-0.5"},
      {"00.10", "0.1"},     {"1e-300", "1e-300"},   {"0.333333333333333333", "0.3333333333333333"},
  };
  for (const auto& [text, expected] : texts) {
    const auto params = ParseNumber(ParamKind::kFloat, text);
    ASSERT_TRUE(params.ok()) << params.status().message();
    EXPECT_EQ(params.value().ToString(), "x=" + expected);
    const auto again = ParseNumber(ParamKind::kFloat, expected);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again.value().Float("x"), params.value().Float("x"));
  }
}

TEST(Params, IntegersAreWhole) {
  ASSERT_TRUE(ParseNumber(ParamKind::kInt, "42").ok());
  EXPECT_EQ(ParseNumber(ParamKind::kInt, "42").value().Int("x"), 42);
  EXPECT_EQ(ParseNumber(ParamKind::kInt, "1e3").value().Int("x"), 1000);
  EXPECT_EQ(ParseNumber(ParamKind::kInt, "1e6").value().ToString(), "x=1000000");
  const std::string message = ParseNumber(ParamKind::kInt, "1.5").status().message();
  EXPECT_NE(message.find("must be an integer in [-1e+18, 1e+18], got '1.5'"), std::string::npos)
      << message;
}

TEST(Params, RangesMayBeOpenAboveAndOfOddNumbers) {
  ParamSpec below_one{"x", ParamKind::kFloat, "0", "", 0, 1};
  below_one.max_open = true;
  EXPECT_TRUE(Params::Parse("part", {below_one}, {{"x", "0.999999"}}).ok());
  const auto one = Params::Parse("part", {below_one}, {{"x", "1"}});
  EXPECT_NE(one.status().message().find("a number in [0, 1), got '1'"), std::string::npos);
  ParamSpec odd{"x", ParamKind::kInt, "1", "", -3, 9};
  odd.odd = true;
  for (const char* text : {"-3", "-1", "9"}) {
    EXPECT_TRUE(Params::Parse("part", {odd}, {{"x", text}}).ok()) << text;
  }
  for (const char* text : {"-2", "0", "8", "2.5", "11"}) {
    const auto refused = Params::Parse("part", {odd}, {{"x", text}});
    EXPECT_NE(refused.status().message().find("an odd integer in [-3, 9]"), std::string::npos);
  }
}

// Checks the registry's descriptions: specs and docs are generated from them.
template <typename Interface>
void CheckRegistry() {
  std::vector<bool> is_used(256);
  for (const auto& row : Registry<Interface>()) {
    EXPECT_GT(row.id, 0) << row.name;
    EXPECT_LT(row.id, 128) << row.name << ": 128 and above are for users' own builds";
    EXPECT_FALSE(is_used[row.id]) << row.name << " repeats id " << int{row.id};
    is_used[row.id] = true;
    EXPECT_EQ(FindByName<Interface>(row.name), &row) << row.name << " is not unique";
    EXPECT_EQ(row.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"),
              std::string::npos)
        << row.name;
    EXPECT_FALSE(row.definition.doc.empty()) << row.name;
    EXPECT_EQ(row.definition.doc.find('\n'), std::string::npos) << row.name;
    for (const ParamSpec& param : row.definition.params)
      EXPECT_FALSE(param.doc.empty()) << row.name << param.name;
    const auto params = Params::Parse(row.name, row.definition.params, {});
    ASSERT_TRUE(params.ok()) << params.status().message();
    EXPECT_NE(row.definition.make(params.value()), nullptr);
  }
}

TEST(Registry, IsSound) {
  CheckRegistry<Memory>();
  CheckRegistry<Sparsifier>();
  CheckRegistry<IndexCodec>();
  CheckRegistry<ValueCodec>();
  CheckRegistry<SparseCodec>();
  CheckRegistry<LinearCodec>();
}

TEST(Registry, NamesAreUniqueAcrossKinds) {
  // The parser distinguishes memories from sparsifiers, and joint from index codecs, by name.
  for (const std::string& memory : Names<Memory>())
    EXPECT_EQ(FindByName<Sparsifier>(memory), nullptr) << memory;
  for (const std::string& joint : Names<SparseCodec>()) {
    EXPECT_EQ(FindByName<IndexCodec>(joint), nullptr) << joint;
    EXPECT_EQ(FindByName<ValueCodec>(joint), nullptr) << joint;
  }
}

TEST(Registry, DecodersAreFoundById) {
  for (const auto& row : Registry<IndexCodec>())
    EXPECT_NE(DecoderById<IndexCodec>(row.id), nullptr) << row.name;
  for (const auto& row : Registry<ValueCodec>())
    EXPECT_NE(DecoderById<ValueCodec>(row.id), nullptr) << row.name;
  for (const auto& row : Registry<SparseCodec>())
    EXPECT_NE(DecoderById<SparseCodec>(row.id), nullptr) << row.name;
  EXPECT_EQ(DecoderById<IndexCodec>(0), nullptr);
  EXPECT_EQ(DecoderById<ValueCodec>(255), nullptr);
}

}  // namespace
}  // namespace tfcompress
