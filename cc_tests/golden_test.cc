// Bytes that older builds wrote must decode to the same values, and the same input must give the
// same bytes. Each registered codec has a frame in golden/; TFC_UPDATE_GOLDEN=1 writes those that
// are missing or different, which is right for a new codec and a new wire format for an old one.
// Folders in it have the files of released versions, which are only decoded and never written.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "contract_inputs.h"
#include "core/hash.h"
#include "core/linear_codec.h"
#include "core/pipeline.h"
#include "core/rows.h"
#include "core/spec.h"
#include "fuzz/frame_fields.h"
#include "golden_files.h"

namespace tfcompress {
namespace {

constexpr uint32_t kElements = 300;
constexpr uint64_t kSeed = 0x1234567890ABCDEF;

// About 60 sixteenths in [-4, 4) among zeros, so that any platform gets the same floats.
std::vector<float> Input() {
  Random random(2024);
  std::vector<float> values(kElements);
  for (float& value : values) {
    const bool is_sent = random.Below(5) == 0;
    value = (static_cast<float>(random.Below(128)) - 64) / 16;
    if (!is_sent) value = 0;
  }
  return values;
}

// The outer product of some rows' and some columns' factors, in sixteenths: a matrix of 30 rows.
constexpr uint32_t kMatrixWidth = 40;

std::vector<float> Matrix() {
  Random random(2026);
  const auto draw_factors = [&](size_t count) {
    std::vector<float> factors(count);
    for (float& factor : factors) {
      const bool is_used = random.Below(4) == 0;
      factor = static_cast<float>(random.Below(15)) - 7;
      if (!is_used) factor = 0;
    }
    return factors;
  };
  const std::vector<float> rows = draw_factors(30), columns = draw_factors(kMatrixWidth);
  std::vector<float> values;
  for (const float row : rows)
    for (const float column : columns) values.push_back(row * column / 16);
  return values;
}

enum class GoldenInput { kVector, kMatrix, kRows };

struct Golden {
  std::string file;  // Without extension.
  std::string spec;
  GoldenInput input = GoldenInput::kVector;
};

// "index_bloom", and "index_bloom_policy_p0" for the choices of a parameter.
template <typename Interface>
void AddGoldens(const std::string& kind, const std::string& before, const std::string& after,
                std::vector<Golden>* goldens) {
  for (const auto& row : Registry<Interface>()) {
    goldens->push_back({kind + "_" + row.name, before + row.name + after});
    for (const ParamSpec& param : row.definition.params) {
      for (const std::string& choice : param.choices) {
        const std::string part = row.name + ":" + param.name + "=" + choice;
        goldens->push_back({kind + "_" + TestName(part), before + part + after});
      }
    }
  }
}

std::vector<Golden> Goldens() {
  std::vector<Golden> goldens;
  for (const auto& row : Registry<Sparsifier>()) {
    goldens.push_back({"sparsifier_" + row.name, row.name + "|raw|raw"});
  }
  AddGoldens<IndexCodec>("index", "nonzero|", "|raw", &goldens);
  AddGoldens<ValueCodec>("value", "nonzero|raw|", "", &goldens);
  AddGoldens<SparseCodec>("joint", "nonzero|", "", &goldens);
  for (const char* value : {"raw", "ecsq", "lossless"}) {
    goldens.push_back({std::string("matrix_rowcol_") + value,
                       std::string("nonzero|rowcol|") + value, GoldenInput::kMatrix});
  }
  goldens.push_back({"rows_raw", "topk|raw|raw", GoldenInput::kRows});
  goldens.push_back({"rows_dense", "dense|raw|fp16", GoldenInput::kRows});
  goldens.push_back({"rows_bloom", "topk|bloom:policy=p0,fpr=0.1|bf16", GoldenInput::kRows});
  return goldens;
}

// The frame of a vector, or of a matrix of this width.
Bytes Encode(const std::string& spec, const std::vector<float>& input = Input(),
             uint32_t width = 0) {
  const auto compressor = Compressor::FromSpec(spec);
  EXPECT_TRUE(compressor.ok()) << compressor.status().message();
  Bytes frame;
  const CodecContext context = {kSeed, SerialExecutor(), Grid{width, 0}};
  const Status status =
      EncodeFrame(*compressor.value(), {input.data(), DType::kFloat32, input.size()}, MemorySlots{},
                  context, &frame);
  EXPECT_TRUE(status.ok()) << status.message();
  return frame;
}

constexpr uint64_t kWidth = 4;

// Encodes 40 of 300 rows, some of them twice, with values of Input.
Bytes EncodeRows(const std::string& spec) {
  Random random(2025);
  const std::vector<float> input = Input();
  std::vector<int32_t> ids(40);
  std::vector<float> values(ids.size() * kWidth);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.Below(kElements));
  for (float& value : values) value = input[random.Below(kElements)];
  ids[7] = ids[3];
  ids[20] = ids[30];
  const auto compressor = Compressor::FromSpec(spec);
  const auto row_sparsifier = ParsePart<Sparsifier>("row sparsifier", "nonzero");
  const RowsView slices = {values.data(), DType::kFloat32, ids.data(), IdType::kInt32,
                           ids.size(),    kWidth,          kElements};
  Bytes frame;
  int64_t num_bytes = 0;
  RowCounts counts{Span<int64_t>(&num_bytes, 1)};
  const Status status = EncodeRowsFrames(*compressor.value(), *row_sparsifier.value().object,
                                         slices, nullptr, {kSeed}, &frame, &counts);
  EXPECT_TRUE(status.ok()) << status.message();
  return frame;
}

Bytes Encode(const Golden& golden) {
  switch (golden.input) {
    case GoldenInput::kVector:
      return Encode(golden.spec);
    case GoldenInput::kMatrix:
      return Encode(golden.spec, Matrix(), kMatrixWidth);
    case GoldenInput::kRows:
      return EncodeRows(golden.spec);
  }
  return {};
}

// Decodes a frame to lines "index value" or "row value ..."; nine digits identify a float.
Status DecodeToText(const Bytes& bytes, std::string* text) {
  ByteReader reader(bytes);
  Frame frame;
  TFC_RETURN_IF_ERROR(ReadFrame(&reader, &frame));
  TFC_RETURN_IF_ERROR(reader.ExpectEnd("packet"));
  std::ostringstream lines;
  lines.precision(9);
  if (frame.header.support == SupportKind::kRows) {
    SparseRows rows;
    const Table table = {frame.header.n, kWidth, frame.header.dtype};
    TFC_RETURN_IF_ERROR(DecodeRowsFrame(frame, table, SerialExecutor(), &rows));
    for (size_t i = 0; i < rows.values.size(); ++i) {
      if (i % kWidth == 0) lines << rows.ids[i / kWidth];
      lines << ' ' << rows.values[i] << (i % kWidth == kWidth - 1 ? "\n" : "");
    }
  } else {
    SparseTensor decoded;
    TFC_RETURN_IF_ERROR(DecodeFrame(frame, SerialExecutor(), &decoded));
    const Support support = decoded.support();
    for (size_t i = 0; i < decoded.values.size(); ++i)
      lines << support[i] << ' ' << decoded.values[i] << '\n';
  }
  *text = lines.str();
  return OkStatus();
}

// Fails unless a file's frame decodes to the text beside it.
void ExpectDecodes(const std::filesystem::path& bytes_path) {
  std::string text;
  const Status status = DecodeToText(ReadFile(bytes_path), &text);
  ASSERT_TRUE(status.ok()) << bytes_path << ": " << status.message();
  const Bytes golden = ReadFile(std::filesystem::path(bytes_path).replace_extension(".txt"));
  EXPECT_EQ(text, std::string(golden.begin(), golden.end())) << bytes_path;
}

class GoldenTest : public testing::TestWithParam<Golden> {};

TEST_P(GoldenTest, DecodesAndReencodesToTheSame) {
  const auto bytes_path = GoldenFolder() / (GetParam().file + ".bin");
  const auto text_path = GoldenFolder() / (GetParam().file + ".txt");
  const Bytes encoded = Encode(GetParam());
  if (Updates()) {
    std::string text;
    ASSERT_TRUE(DecodeToText(encoded, &text).ok());
    WriteFile(bytes_path, encoded);
    WriteFile(text_path, Bytes(text.begin(), text.end()));
  }
  ASSERT_TRUE(std::filesystem::exists(bytes_path))
      << bytes_path << ": run with TFC_UPDATE_GOLDEN=1 and commit it";
  const Bytes golden = ReadFile(bytes_path);
  EXPECT_EQ(encoded, golden) << GetParam().spec << " no longer gives the same bytes";
  ExpectDecodes(bytes_path);
}

TEST(GoldenMatrix, IsEncodedAsOne) {
  const auto num_bytes = [](uint32_t width) {
    const Bytes frame = Encode("nonzero|rowcol|raw", Matrix(), width);
    return GetField<uint32_t>(frame, frame_fields::kNumIndexBytes);
  };
  EXPECT_LT(num_bytes(kMatrixWidth), num_bytes(0) * 3 / 4);
}

// Whatever is registered now: a codec that is renamed or removed still has to decode what it wrote.
TEST(GoldenFiles, EveryVersionsDecode) {
  size_t num_files = 0;
  auto entry = std::filesystem::recursive_directory_iterator(GoldenFolder());
  for (; entry != std::filesystem::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename().string();
    if (name == "corrupt") entry.disable_recursion_pending();
    // Payloads of linear codecs are sums of floats, without a frame: linear_golden_test.cc.
    if (entry->path().extension() != ".bin" || name.rfind("linear_", 0) == 0) continue;
    ExpectDecodes(entry->path());
    ++num_files;
  }
  // While files are written, this may come before the one of a new codec.
  if (!Updates()) EXPECT_GE(num_files, Goldens().size());
}

INSTANTIATE_TEST_SUITE_P(Registry, GoldenTest, testing::ValuesIn(Goldens()),
                         [](const auto& info) { return info.param.file; });

// Hostile frames, each with a correct checksum unless its name says otherwise.
std::vector<std::pair<std::string, Bytes>> CorruptFrames() {
  using namespace frame_fields;
  std::vector<std::pair<std::string, Bytes>> frames;
  const auto add_changed = [&](const std::string& name, Bytes frame, auto change, bool repairs) {
    change(&frame);
    if (repairs) RepairChecksum(&frame);
    frames.emplace_back(name, frame);
  };
  const auto add = [&](const std::string& name, const std::string& spec, auto change,
                       bool repairs = true) { add_changed(name, Encode(spec), change, repairs); };
  const auto add_rows = [&](const std::string& name, auto change) {
    add_changed(name, EncodeRows("topk|raw|raw"), change, true);
  };
  const std::string raw = "nonzero|raw|raw";
  add("bad_checksum", raw, [](Bytes* f) { f->back() ^= 1; }, false);
  add("cut_off", raw, [](Bytes* f) { f->pop_back(); }, false);
  add("trailing_byte", raw, [](Bytes* f) { f->push_back(0); }, false);
  add("header_only", raw, [](Bytes* f) { f->resize(kHeaderBytes); });
  add("version_2", raw, [](Bytes* f) { SetField<uint8_t>(kVersion, 2, f); });
  add("unknown_flags", raw, [](Bytes* f) { SetField<uint8_t>(kFlags, 0x80, f); });
  add("reserved_set", raw, [](Bytes* f) { SetField<uint16_t>(kReserved, 1, f); });
  add("unknown_index_id", raw, [](Bytes* f) { SetField<uint8_t>(kIndexId, 127, f); });
  add("unknown_value_id", raw, [](Bytes* f) { SetField<uint8_t>(kValueId, 127, f); });
  add("k_above_n", raw, [](Bytes* f) { SetField<uint32_t>(kK, kElements + 1, f); });
  add("huge_k", raw, [](Bytes* f) {
    SetField<uint32_t>(kN, 0x7FFFFFFF, f);
    SetField<uint32_t>(kK, 0x7FFFFFFF, f);
  });
  add("lengths_wrap", raw,
      [](Bytes* f) { SetField<uint32_t>(kNumValueBytes, 0xFFFFFFFF - 43, f); });
  add("sections_swapped", "nonzero|raw|fp16", [](Bytes* f) {
    const auto num_index_bytes = GetField<uint32_t>(*f, kNumIndexBytes);
    SetField(kNumIndexBytes, GetField<uint32_t>(*f, kNumValueBytes), f);
    SetField(kNumValueBytes, num_index_bytes, f);
  });
  add("index_unsorted", raw, [](Bytes* f) { SetField<uint32_t>(kHeaderBytes + 4, 0, f); });
  add("index_out_of_range", raw, [](Bytes* f) {
    SetField<uint32_t>(kHeaderBytes + GetField<uint32_t>(*f, kNumIndexBytes) - 4, kElements, f);
  });
  add("value_nan", raw, [](Bytes* f) { SetField<uint32_t>(f->size() - 4, 0x7FC00000, f); });
  add("value_infinite", raw, [](Bytes* f) { SetField<uint32_t>(f->size() - 4, 0xFF800000, f); });
  add("bitmap_too_many_bits", "nonzero|bitmap|raw",
      [](Bytes* f) { SetField<uint8_t>(kHeaderBytes, 0xFF, f); });
  add("bitmap_bits_past_the_end", "nonzero|bitmap|raw",
      [](Bytes* f) { (*f)[kHeaderBytes + GetField<uint32_t>(*f, kNumIndexBytes) - 1] |= 0x80; });
  add("bloom_unknown_policy", "nonzero|bloom|raw",
      [](Bytes* f) { SetField<uint8_t>(kHeaderBytes, 99, f); });
  add("bloom_no_hashes", "nonzero|bloom|raw",
      [](Bytes* f) { SetField<uint8_t>(kHeaderBytes + 1, 0, f); });
  add("bloom_huge_filter", "nonzero|bloom|raw",
      [](Bytes* f) { SetField<uint32_t>(kHeaderBytes + 2, 0xFFFFFFFF, f); });
  add("delta_binary_long_flags", "nonzero|delta_binary|raw",
      [](Bytes* f) { SetField<uint8_t>(kHeaderBytes, 0xFF, f); });
  add("sketchml_huge_counts", "nonzero|sketchml",
      [](Bytes* f) { SetField<uint32_t>(kHeaderBytes + 8, 0xFFFFFFFF, f); });
  add_rows("rows_width_0", [](Bytes* f) { SetField<uint32_t>(kHeaderBytes, 0, f); });
  add_rows("rows_huge_width", [](Bytes* f) { SetField<uint32_t>(kHeaderBytes, 0xFFFFFFFF, f); });
  add_rows("rows_id_out_of_range",
           [](Bytes* f) { SetField<uint32_t>(kHeaderBytes + 4, kElements, f); });
  add_rows("rows_without_index_section", [](Bytes* f) {
    SetField<uint32_t>(kNumValueBytes, static_cast<uint32_t>(f->size() - kHeaderBytes), f);
    SetField<uint32_t>(kNumIndexBytes, 0, f);
  });
  frames.emplace_back("empty", Bytes());
  return frames;
}

TEST(CorruptGolden, EachFrameIsDataLoss) {
  for (const auto& [name, bytes] : CorruptFrames()) {
    const auto path = GoldenFolder() / "corrupt" / (name + ".bin");
    if (Updates()) WriteFile(path, bytes);
    EXPECT_TRUE(std::filesystem::exists(path))
        << path << ": run with TFC_UPDATE_GOLDEN=1 and commit it";
  }
  for (const auto& entry : std::filesystem::directory_iterator(GoldenFolder() / "corrupt")) {
    std::string text;
    EXPECT_EQ(DecodeToText(ReadFile(entry.path()), &text).code(), StatusCode::kDataLoss)
        << entry.path();
  }
}

template <typename Interface>
void ExpectSections(const std::string& kind, const std::string& format) {
  for (const auto& row : Registry<Interface>()) {
    const std::string heading = "\n### " + kind + ": `" + row.name + "`";
    EXPECT_NE(format.find(heading), std::string::npos) << "FORMAT.md has no section" << heading;
  }
}

TEST(Format, DescribesEachCodec) {
  const Bytes bytes = ReadFile(SourceFolder() / "cc_ops" / "FORMAT.md");
  const std::string format(bytes.begin(), bytes.end());
  ASSERT_FALSE(format.empty()) << "cc_ops/FORMAT.md is missing";
  ExpectSections<IndexCodec>("index", format);
  ExpectSections<ValueCodec>("value", format);
  ExpectSections<SparseCodec>("joint", format);
  ExpectSections<LinearCodec>("linear", format);
}

}  // namespace
}  // namespace tfcompress
