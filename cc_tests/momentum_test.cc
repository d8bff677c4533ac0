// The memory `momentum`: Deep Gradient Compression 3.1 and 3.2.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "contract_inputs.h"
#include "make_part.h"

namespace tfcompress {
namespace {

using Floats = std::vector<float>;

constexpr float kDecay = 0.5f;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

std::unique_ptr<const Memory> Momentum(const std::string& nesterov = "0") {
  return MakePart<Memory>("momentum", {{"rate", "0.5"}, {"nesterov", nesterov}});
}

struct State {
  Floats residual;
  Floats velocity;
};

// Compensates into separate slots; returns whether the memory reports the vector as finite.
bool Compensate(const Memory& memory, const Floats& gradient, const State& before, State* after,
                Executor* executor = SerialExecutor()) {
  *after = {Floats(gradient.size(), 9.0f), Floats(gradient.size(), 9.0f)};
  const std::vector<const float*> from = {before.residual.data(), before.velocity.data()};
  const std::vector<float*> to = {after->residual.data(), after->velocity.data()};
  bool finite = false;
  const Span<const float> sent = memory.Compensate(gradient, {from, to}, {0, executor}, &finite);
  EXPECT_EQ(sent.data(), finite ? after->residual.data() : nullptr);
  EXPECT_EQ(sent.size(), finite ? gradient.size() : 0u);
  return finite;
}

bool CompensateInPlace(const Memory& memory, const Floats& gradient, State* state) {
  const std::vector<float*> slots = {state->residual.data(), state->velocity.data()};
  bool finite = false;
  memory.Compensate(gradient, {Span<float* const>(slots), slots}, {}, &finite);
  return finite;
}

void Update(const Memory& memory, const SparseTensor& decoded, State* state) {
  const std::vector<float*> slots = {state->residual.data(), state->velocity.data()};
  memory.Update(decoded.support(), decoded.values, {Span<float* const>(slots), slots}, {});
}

TEST(Momentum, AccumulatesVelocities) {
  const State before = {{10, 20, -1}, {4, -8, 0}};
  State after;
  ASSERT_TRUE(Compensate(*Momentum(), {1, 2, 0.25f}, before, &after));
  EXPECT_EQ(after.velocity, (Floats{3, -2, 0.25f}));
  EXPECT_EQ(after.residual, (Floats{13, 18, -0.75f}));
}

TEST(Momentum, LooksAheadAsNesterovDoes) {
  const State before = {{10, 20, -1}, {4, -8, 0}};
  State after;
  ASSERT_TRUE(Compensate(*Momentum("1"), {2, 4, 0.5f}, before, &after));
  EXPECT_EQ(after.velocity, (Floats{3, -2, 0.25f}));
  EXPECT_EQ(after.residual, (Floats{15, 22, -0.25f}));
}

TEST(Momentum, ClearsVelocityAndWhatWasDecodedAtTheSupport) {
  State state = {{10, 20, 30, 40}, {1, 2, 3, 4}};
  Update(*Momentum(), {4, false, {1, 3}, {20, 39.5f}}, &state);
  EXPECT_EQ(state.residual, (Floats{10, 0, 30, 0.5f}));
  EXPECT_EQ(state.velocity, (Floats{1, 0, 3, 0}));
}

TEST(Momentum, KeepsTheVelocityWhereEverythingIsSent) {
  for (const SparseTensor& decoded :
       {SparseTensor{3, true, {}, {1, 2, 2.5f}}, SparseTensor{3, false, {0, 1, 2}, {1, 2, 2.5f}}}) {
    State state = {{1, 2, 3}, {4, 5, 6}};
    Update(*Momentum(), decoded, &state);
    EXPECT_EQ(state.residual, (Floats{0, 0, 0.5f}));
    EXPECT_EQ(state.velocity, (Floats{4, 5, 6}));
  }
}

// If everything is sent, the sum of what is sent equals the updates of SGD with momentum.
TEST(Momentum, SendsWhatAnOptimizerWouldApply) {
  for (const bool nesterov : {false, true}) {
    const auto memory = Momentum(nesterov ? "1" : "0");
    State state = {{0}, {0}};
    float velocity = 0;
    for (float gradient : {1.0f, -3.0f, 2.0f, 0.5f}) {
      velocity = kDecay * velocity + gradient;
      const float applied = nesterov ? kDecay * velocity + gradient : velocity;
      ASSERT_TRUE(CompensateInPlace(*memory, {gradient}, &state));
      EXPECT_EQ(state.residual[0], applied);
      Update(*memory, {1, true, {}, {state.residual[0]}}, &state);
      EXPECT_EQ(state.residual[0], 0);
    }
  }
}

TEST(Momentum, IsTheSameInPlaceAndForEveryExecutor) {
  const size_t n = kBlockElements + 1001;
  const Floats gradient = Gradient(n, 1);
  const State before = {Gradient(n, 2), Gradient(n, 3)};
  ThreadExecutor threads(3);
  for (const std::string nesterov : {"0", "1"}) {
    const auto memory = Momentum(nesterov);
    State after, parallel, in_place = before;
    ASSERT_TRUE(Compensate(*memory, gradient, before, &after));
    ASSERT_TRUE(Compensate(*memory, gradient, before, &parallel, &threads));
    ASSERT_TRUE(CompensateInPlace(*memory, gradient, &in_place));
    for (const State* other : {&parallel, &in_place}) {
      EXPECT_TRUE(SameBits(other->residual, after.residual));
      EXPECT_TRUE(SameBits(other->velocity, after.velocity));
    }
  }
}

TEST(Momentum, LeavesBothSlotsWhereASumIsNotFinite) {
  const State before = {{-0.0f, 1, kLargest}, {2, -0.0f, kLargest}};
  for (const std::string nesterov : {"0", "1"}) {
    // The last gradient is finite; only the sum overflows.
    for (const Floats& gradient : {Floats{0, kNaN, -kLargest}, Floats{kInfinity, 0, -kLargest},
                                   Floats{0, -kInfinity, -kLargest}, Floats{0, 0, kLargest}}) {
      State after, in_place = before;
      EXPECT_FALSE(Compensate(*Momentum(nesterov), gradient, before, &after));
      EXPECT_FALSE(CompensateInPlace(*Momentum(nesterov), gradient, &in_place));
      for (const State* state : {&after, &in_place}) {
        EXPECT_TRUE(SameBits(state->residual, before.residual));
        EXPECT_TRUE(SameBits(state->velocity, before.velocity));
      }
    }
  }
}

TEST(Momentum, RateZeroIsErrorFeedback) {
  const auto memory = MakePart<Memory>("momentum", {{"rate", "0"}});
  const auto residual = MakePart<Memory>("residual");
  const Floats gradient = Gradient(500, 1);
  const State before = {Gradient(500, 2), Gradient(500, 3)};
  State after;
  ASSERT_TRUE(Compensate(*memory, gradient, before, &after));
  for (size_t i = 0; i < gradient.size(); ++i) {
    ASSERT_EQ(after.residual[i], gradient[i] + before.residual[i]);
  }
  EXPECT_EQ(memory->num_slots(), residual->num_slots() + 1);
}

}  // namespace
}  // namespace tfcompress
