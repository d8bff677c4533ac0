// The sharded exchange on the device: the bytes, sums and slots of core/pieces.h.
#include "core/pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>

#include "contract_inputs.h"
#include "cuda/device_variants.h"
#include "cuda/frame_encoder.h"
#include "cuda/piece_decoder.h"
#include "cuda/pieces.h"
#include "device_encode.h"
#include "device_inputs.h"
#include "device_sums.h"
#include "fuzz/frame_fields.h"

namespace tfcompress {
namespace device {
namespace {

using Vector = std::vector<float>;
using Cuts = std::vector<int64_t>;

constexpr float kNotFinite = std::numeric_limits<float>::quiet_NaN();

// What EncodePieces or EncodeSum makes.
struct EncodedPieces {
  Bytes frames;
  std::vector<int64_t> num_bytes;
  int64_t num_sent = 0;
  Slots slots;
};

// Whether two vectors have the same bits; a device has other NaNs than a CPU.
bool Alike(const Vector& a, const Vector& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const float& x, const float& y) {
    return std::memcmp(&x, &y, sizeof x) == 0 || (std::isnan(x) && std::isnan(y));
  });
}

void ExpectSame(const EncodedPieces& actual, const EncodedPieces& expected) {
  ASSERT_EQ(actual.num_bytes, expected.num_bytes);
  ASSERT_EQ(actual.num_sent, expected.num_sent);
  ASSERT_TRUE(actual.frames == expected.frames) << "the bytes differ";
  ASSERT_TRUE(std::equal(actual.slots.begin(), actual.slots.end(), expected.slots.begin(),
                         expected.slots.end(), Alike))
      << "the slots differ";
}

std::vector<const float*> Pointers(const Slots& slots) {
  std::vector<const float*> pointers;
  for (const Vector& slot : slots) pointers.push_back(slot.data());
  return pointers;
}

std::vector<float*> Pointers(Slots* slots) {
  std::vector<float*> pointers;
  for (Vector& slot : *slots) pointers.push_back(slot.data());
  return pointers;
}

EncodedPieces PiecesOnHost(const Compressor& compressor, const Vector& gradient, const Slots& slots,
                           const Cuts& cuts, int64_t own) {
  EncodedPieces pieces;
  pieces.num_bytes.resize(cuts.size() - 1);
  pieces.slots = slots;
  PieceCounts counts{Span<int64_t>(pieces.num_bytes)};
  const auto before = Pointers(slots);
  const auto after = Pointers(&pieces.slots);
  ExpectOk(EncodePieces(compressor, gradient, cuts, own, {before, Span<float* const>(after)}, {7},
                        &pieces.frames, &counts));
  pieces.num_sent = counts.num_sent;
  return pieces;
}

std::vector<uint64_t> SizesOf(const std::vector<Piece>& pieces) {
  std::vector<uint64_t> sizes;
  for (const Piece& piece : pieces) sizes.push_back(piece.n);
  return sizes;
}

EncodedPieces PiecesOnDevice(const Compressor& compressor, const Vector& gradient,
                             const Slots& slots, const Cuts& cuts, int64_t own,
                             const Stream& stream) {
  EncodedPieces pieces;
  const auto divided = Divide(cuts, own);
  EXPECT_TRUE(divided.ok()) << divided.status().message();
  const std::vector<Piece>& others = divided.value().of_others;
  const DeviceVector<float> gradient_dev(gradient, stream);
  const DeviceSlots vectors(slots, false, stream);
  ExpectOk(KeepOwn(DeviceSpecOf(compressor).value().memory, gradient_dev.data_dev(),
                   vectors.views(), divided.value().own, stream.get()));
  const FrameEncoder encoder =
      FrameEncoder::Make(compressor, DType::kFloat32, SizesOf(others)).value();
  const DeviceVector<unsigned char> workspace(encoder.workspace_bytes());
  std::vector<std::vector<DeviceSlot>> of_pieces;
  std::vector<std::unique_ptr<DeviceVector<unsigned char>>> frames;
  std::vector<FrameInput> inputs;
  for (size_t i = 0; i < others.size(); ++i) {
    of_pieces.push_back(SlotsOf(others[i], vectors.views()));
    frames.push_back(std::make_unique<DeviceVector<unsigned char>>(encoder.max_frame_bytes(i)));
    inputs.push_back(
        {gradient_dev.data_dev() + others[i].begin, of_pieces.back(), 7, frames.back()->buffer()});
  }
  std::vector<EncodeState> states(others.size());
  ExpectOk(encoder.Launch(inputs, workspace.buffer(), stream.get(), states.data()));
  stream.Synchronize();
  pieces.num_bytes.resize(cuts.size() - 1);
  for (size_t i = 0; i < others.size(); ++i) {
    uint64_t num_bytes = 0;
    ExpectOk(FrameEncoder::ReadLength(states[i], &num_bytes));
    pieces.num_bytes[others[i].rank] = static_cast<int64_t>(num_bytes);
    pieces.num_sent += states[i].k;
    const Bytes frame = frames[i]->ToHost(stream);
    pieces.frames.insert(pieces.frames.end(), frame.begin(),
                         frame.begin() + static_cast<std::ptrdiff_t>(num_bytes));
  }
  pieces.slots = vectors.After(stream);
  return pieces;
}

EncodedPieces SumOfPieceOnHost(const Compressor& compressor, const Vector& own, const Slots& slots,
                               Vector others) {
  EncodedPieces pieces;
  pieces.slots = slots;
  const auto vectors = Pointers(&pieces.slots);
  ExpectOk(EncodeSum(compressor, own.data(), Span<float* const>(vectors), Span<float>(others), {9},
                     &pieces.frames, &pieces.num_sent));
  return pieces;
}

EncodedPieces SumOfPieceOnDevice(const Compressor& compressor, const Vector& own,
                                 const Slots& slots, const Vector& others, const Stream& stream) {
  EncodedPieces pieces;
  const auto made =
      FrameEncoder::Make(compressor, DType::kFloat32, others.size(), MemoryRule::kPlainSum);
  EXPECT_TRUE(made.ok()) << made.status().message();
  const FrameEncoder& encoder = made.value();
  const DeviceVector<float> own_dev(own, stream), others_dev(others, stream);
  const DeviceSlots vectors(slots, true, stream);
  const DeviceVector<unsigned char> workspace(encoder.workspace_bytes());
  const DeviceVector<unsigned char> frame(encoder.max_frame_bytes());
  if (slots.empty()) {
    ExpectOk(AddOwnPart(own_dev.data_dev(), own.size(), others_dev.data_dev(), stream.get()));
  }
  EncodeState state;
  const FrameInput input = {others_dev.data_dev(), vectors.views(), 9, frame.buffer()};
  ExpectOk(encoder.Launch({&input, 1}, workspace.buffer(), stream.get(), &state));
  stream.Synchronize();
  uint64_t num_bytes = 0;
  ExpectOk(FrameEncoder::ReadLength(state, &num_bytes));
  pieces.frames = frame.ToHost(stream);
  pieces.frames.resize(num_bytes);
  pieces.num_sent = state.k;
  pieces.slots = vectors.After(stream);
  return pieces;
}

class PiecesOfSomeSpecs : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Device, PiecesOfSomeSpecs, testing::ValuesIn(SomeDeviceSpecs()),
                         [](const auto& info) { return TestName(info.param); });

TEST_P(PiecesOfSomeSpecs, AreEncodedToTheSameBytes) {
  const Stream stream;
  const auto compressor = Parse(GetParam());
  Cuts cuts = {0, 300, 300, 600, 900, 1000};
  for (int64_t i = 1; i <= 15; ++i) cuts.push_back(1000 + 2 * i);  // More than a chunk of a table.
  for (int64_t own : {0, 1, 4}) {
    Vector gradient = Gradient(1030, 5);
    if (own == 4) gradient[700] = kNotFinite;  // Of another's piece.
    if (own == 0) gradient[7] = kNotFinite;    // Of the own piece, which nobody looks at.
    const Slots slots = SomeSlots(*compressor, 1030);
    const EncodedPieces expected = PiecesOnHost(*compressor, gradient, slots, cuts, own);
    const EncodedPieces actual = PiecesOnDevice(*compressor, gradient, slots, cuts, own, stream);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(actual, expected)) << GetParam() << ", rank " << own;
  }
}

TEST_P(PiecesOfSomeSpecs, HaveSumsThatAreEncodedToTheSameBytes) {
  const Stream stream;
  const auto compressor = Parse(GetParam());
  for (bool finite : {true, false}) {
    const Vector own = Gradient(700, 6);
    Vector others = NormalValues(700, 8);
    if (!finite) others[600] = kNotFinite;
    const Slots slots = SomeSlots(*compressor, 700);
    const EncodedPieces expected = SumOfPieceOnHost(*compressor, own, slots, others);
    const EncodedPieces actual = SumOfPieceOnDevice(*compressor, own, slots, others, stream);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(actual, expected)) << GetParam();
  }
}

// Sums of two tensors on two ranks: rank 0 has the first tensor and a part of the second.
const std::vector<Cuts> kCuts = {{0, 400, 400}, {0, 100, 500}};

Bytes SumsOf(const std::string& spec, const std::vector<Vector>& tensors) {
  Bytes packets;
  for (size_t rank = 0; rank < 2; ++rank) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto begin = tensors[i].begin() + kCuts[i][rank];
      const auto end = tensors[i].begin() + kCuts[i][rank + 1];
      if (begin != end) Append(spec, {Vector(begin, end), DType::kFloat32}, 1, &packets);
    }
  }
  return packets;
}

struct DecodedSums {
  Status status;
  std::vector<Vector> sums;
  std::vector<DecodeStats> stats;
};

DecodedSums DecodedOnHost(const Bytes& packets) {
  DecodedSums decoded{OkStatus(), {Vector(400), Vector(500)}, std::vector<DecodeStats>(2)};
  std::vector<CutTensor> tensors;
  for (size_t i = 0; i < 2; ++i) tensors.push_back({decoded.sums[i].data(), kCuts[i]});
  decoded.status =
      DecodePieces(packets, 0.5f, tensors, SerialExecutor(), Span<DecodeStats>(decoded.stats));
  return decoded;
}

DecodedSums DecodedOnDevice(const Bytes& packets, const Stream& stream) {
  DecodedSums decoded{OkStatus(), {}, std::vector<DecodeStats>(2)};
  const DeviceVector<float> first(400), second(500);
  const std::vector<CutTensor> tensors = {{first.data_dev(), kCuts[0]},
                                          {second.data_dev(), kCuts[1]}};
  const auto made = PieceDecoder::Make(packets, tensors);
  decoded.status = made.status();
  if (!made.ok()) return decoded;
  const DeviceVector<unsigned char> packets_dev(packets, stream);
  const DeviceVector<unsigned char> workspace(made.value().workspace_bytes());
  std::vector<std::max_align_t> host(made.value().host_bytes() / sizeof(std::max_align_t) + 1);
  ExpectOk(made.value().Launch(packets_dev.data_dev(), 0.5f, workspace.buffer(), stream.get(),
                               host.data()));
  stream.Synchronize();
  decoded.status = made.value().Report(host.data(), Span<DecodeStats>(decoded.stats));
  decoded.sums = {first.ToHost(stream), second.ToHost(stream)};
  return decoded;
}

TEST_P(PiecesOfSomeSpecs, AreDecodedToTheSameSums) {
  const Stream stream;
  for (bool finite : {true, false}) {
    std::vector<Vector> tensors = {Gradient(400, 1), Gradient(500, 2)};
    if (!finite) tensors[1][50] = kNotFinite;  // Of its first piece.
    const Bytes packets = SumsOf(GetParam(), tensors);
    const DecodedSums expected = DecodedOnHost(packets), actual = DecodedOnDevice(packets, stream);
    ASSERT_TRUE(expected.status.ok()) << expected.status.message();
    ASSERT_TRUE(actual.status.ok()) << actual.status.message();
    ASSERT_TRUE(SameBits(actual.sums, expected.sums)) << GetParam();
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(actual.stats[i].num_bytes, expected.stats[i].num_bytes);
      EXPECT_EQ(actual.stats[i].finite, finite || i == 0);
    }
  }
}

TEST(Pieces, OfEmptyTensorsNeedNoMemory) {
  const Stream stream;
  const std::vector<int64_t> cuts = {0, 0, 0};
  const std::vector<CutTensor> tensors = {{nullptr, cuts}, {nullptr, cuts}};
  const auto made = PieceDecoder::Make({}, tensors);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made.value().host_bytes(), 0u);
  ExpectOk(made.value().Launch(nullptr, 1.0f, {}, stream.get(), nullptr));
  std::vector<DecodeStats> stats(2);
  ExpectOk(made.value().Report(nullptr, Span<DecodeStats>(stats)));
  EXPECT_TRUE(stats[0].finite);
}

TEST(Pieces, NameTheRankAndTheTensorOfABrokenFrame) {
  const Stream stream;
  const std::string spec = "none|dense|raw|block_int";
  const Bytes packets = SumsOf(spec, {Gradient(400, 1), Gradient(500, 2)});
  Bytes changed = packets;
  changed.back() ^= 1;  // Of rank 1's only frame, that of tensor 1.
  Bytes shortened(packets.begin(), packets.end() - 1);
  for (const Bytes& broken : {changed, shortened}) {
    for (const Status& status :
         {DecodedOnHost(broken).status, DecodedOnDevice(broken, stream).status}) {
      ExpectDataLoss(status, "rank 1, tensor 1");
    }
  }
}

TEST(Pieces, NameTheRankOfABrokenFrameWhereOneSentNone) {
  const Stream stream;
  Bytes packets;
  for (int rank = 1; rank < 3; ++rank)
    Append("none|dense|raw|block_int", {Gradient(400, rank), DType::kFloat32}, 1, &packets);
  packets.back() ^= 1;
  const DeviceVector<float> sum(400);
  const SumTarget target = {sum.data_dev(), DType::kFloat32, 400};
  const int64_t position = 0;
  const auto made = SumDecoder::Make({packets, 3, 1, 0}, {&position, 1}, {&target, 1});
  ASSERT_TRUE(made.ok()) << made.status().message();
  const DeviceVector<unsigned char> packets_dev(packets, stream);
  const DeviceVector<unsigned char> workspace(made.value().workspace_bytes());
  const Status status =
      made.value().DecodeSum(packets_dev.data_dev(), 1.0f, workspace.buffer(), stream.get(), {});
  ExpectDataLoss(status, "rank 2, tensor 0");
}

TEST(Pieces, RefuseWhatTheCoreRefuses) {
  EXPECT_EQ(Divide({0, 3, 2, 5}, 0).status().code(), StatusCode::kInvalidArgument);
  const Stream stream;
  const auto made = FrameEncoder::Make(*Parse("momentum:rate=0.9|topk|raw|raw"), DType::kFloat32,
                                       100, MemoryRule::kPlainSum);
  ASSERT_TRUE(made.ok());
  const DeviceVector<float> others(Gradient(100, 1), stream);
  const DeviceSlots apart({Vector(100), Vector(100)}, false, stream);
  const DeviceVector<unsigned char> workspace(made.value().workspace_bytes());
  const DeviceVector<unsigned char> frame(made.value().max_frame_bytes());
  EncodeState state;
  const FrameInput input = {others.data_dev(), apart.views(), 1, frame.buffer()};
  ExpectError(made.value().Launch({&input, 1}, workspace.buffer(), stream.get(), &state),
              StatusCode::kInvalidArgument, "in place");
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
