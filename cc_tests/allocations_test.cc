// How often the usual paths allocate: a few times a frame, whatever the size of the tensor.
#include <gtest/gtest.h>

#include "contract_inputs.h"
#include "core/pipeline.h"
#include "fuzz/allocation_meter.h"

namespace tfcompress {
namespace {

struct PathCase {
  std::string spec;
  uint64_t most;  // Allocations of a frame.
};

void PrintTo(const PathCase& path, std::ostream* out) { *out << path.spec; }

class FrameAllocations : public testing::TestWithParam<PathCase> {
 protected:
  // Of one frame, appended to `frame`.
  uint64_t Count(size_t n, Bytes* frame) const {
    const auto compressor = Compressor::FromSpec(GetParam().spec).value();
    const std::vector<float> gradient = NormalValues(n, 1);
    std::vector<float> residual(n);
    float* const slots[] = {residual.data()};
    const Span<float* const> used(slots, static_cast<size_t>(compressor->memory().num_slots()));
    const GradientView view = {gradient.data(), DType::kFloat32, n};
    const uint64_t before = AllocationMeter::Count();
    const Status status = EncodeFrame(*compressor, view, used, {1}, frame);
    const uint64_t count = AllocationMeter::Count() - before;
    EXPECT_TRUE(status.ok()) << status.message();
    return count;
  }
};

TEST_P(FrameAllocations, AreFewAndDoNotGrowWithTheTensor) {
  for (const size_t n : {1 << 18, 1 << 20, 1 << 22}) {
    Bytes frame;
    frame.reserve(8 * n);
    EXPECT_LE(Count(n, &frame), GetParam().most) << n << " elements";
  }
}

// A buffer that is not kept grows a few times.
TEST_P(FrameAllocations, OfANewBufferAreFewToo) {
  Bytes frame;
  EXPECT_LE(Count(1 << 20, &frame), GetParam().most + 6);
}

INSTANTIATE_TEST_SUITE_P(UsualPaths, FrameAllocations,
                         testing::Values(PathCase{"topk|delta_binary|raw", 24},
                                         PathCase{"residual|topk|delta_binary|raw", 28},
                                         PathCase{"threshold:tau=2|delta_binary|raw", 18},
                                         PathCase{"dense|raw|qsgd", 4},
                                         PathCase{"residual|dense|raw|qsgd", 10},
                                         PathCase{"dense|raw|raw", 4}),
                         [](const auto& info) { return TestName(info.param.spec); });

}  // namespace
}  // namespace tfcompress
