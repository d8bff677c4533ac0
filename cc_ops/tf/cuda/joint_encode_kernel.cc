#include "tf/cuda/joint_encode_kernel.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "cuda/parts.h"
#include "tf/cuda/device_memory.h"
#include "tf/cuda/joint_encoding.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/cuda/run_on_host.h"
#include "tf/cuda/stream_kernel.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Threads that encode for a stream: what comes while both do is encoded together afterwards.
constexpr int kMostEncodings = 2;

void EncodeOnHost(EncodeCall* call, const Status& reason) {
  EncodedCounts counts;
  int64_t nanoseconds = 0;
  const auto encode = [&] { return call->job.on_host(&counts); };
  call->status = RunOnHost(call->ctx, "encoding '" + call->job.compressor->spec() + "'", reason,
                           encode, &nanoseconds);
  if (call->status.ok()) call->Finish(counts, nanoseconds);
}

// Divides two calls or more into parts of about as many elements: a large one does not keep small
// ones apart.
std::pair<EncodeCalls, EncodeCalls> Halves(EncodeCalls calls) {
  std::stable_sort(calls.begin(), calls.end(), [](const EncodeCall* a, const EncodeCall* b) {
    return a->job.num_elements > b->job.num_elements;
  });
  uint64_t num_elements = 0, num_taken = 0;
  for (const EncodeCall* call : calls) num_elements += call->job.num_elements;
  auto middle = calls.begin();
  do {
    num_taken += (*middle++)->job.num_elements;
  } while (2 * num_taken < num_elements && middle + 1 != calls.end());
  return {{calls.begin(), middle}, {middle, calls.end()}};
}

// Sets the status of each call, but for an error of all; and whether the device can encode them
// together. Frees all memory but that of the outputs.
absl::Status EncodeOnDevice(const EncodeCalls& calls, bool* fits) {
  auto encoding = JointEncoding::Make(calls);
  *fits = encoding.status().code() != StatusCode::kInvalidArgument;
  if (!encoding.ok()) return ToTensorFlow(encoding.status());
  const absl::Status allocated = encoding.value().Allocate();
  *fits = allocated.ok();
  return allocated.ok() ? encoding.value().Run() : allocated;
}

// Encodes calls that are alike, and ends them: in parts where they are too many for one encoding.
void EncodeTogether(const EncodeCalls& calls) {
  bool fits = false;
  const absl::Status status = EncodeOnDevice(calls, &fits);
  if (!fits && calls.size() > 1) {
    const auto [large, small] = Halves(calls);
    EncodeTogether(large);
    EncodeTogether(small);
    return;
  }
  // A codec has no device variant, or the argument is bad and the host refuses it, too.
  const bool is_for_host = !fits && absl::IsInvalidArgument(status);
  if (is_for_host) EncodeOnHost(calls[0], InvalidArgument(status.message()));
  for (EncodeCall* call : calls) {
    if (!status.ok() && !is_for_host) call->status = status;
    call->End();
  }
}

// Removes the first call and those that can be encoded with it.
EncodeCalls TakeAlike(EncodeCalls* calls) {
  EncodeCalls taken = {calls->front()}, others;
  size_t num_frames = taken[0]->job.frames.size();
  for (auto call = calls->begin() + 1; call != calls->end(); ++call) {
    const EncodeJob& job = (*call)->job;
    const bool joins = taken[0]->is_to_encode() && (*call)->is_to_encode() &&
                       (*call)->IsLike(*taken[0]) &&
                       num_frames + job.frames.size() <= device::kMaxParts;
    (joins ? taken : others).push_back(*call);
    if (joins) num_frames += job.frames.size();
  }
  *calls = std::move(others);
  return taken;
}

void Encode(std::vector<EncodeCall>* calls) {
  EncodeCalls left;
  for (EncodeCall& call : *calls) {
    call.status = call.kernel->Read(call.ctx, &call.job);
    left.push_back(&call);
  }
  while (!left.empty()) {
    const EncodeCalls alike = TakeAlike(&left);
    if (alike[0]->is_to_encode()) {
      EncodeTogether(alike);
      continue;
    }
    // It is alone.
    if (alike[0]->status.ok()) alike[0]->Finish({}, 0);
    alike[0]->End();
  }
}

// Calls of one stream that wait for a thread.
class CallQueue {
 public:
  void Add(EncodeCall call) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      calls_.push_back(std::move(call));
      if (num_encodings_ == kMostEncodings) return;
      ++num_encodings_;
    }
    RunWithDevice([this](const absl::Status& status) { Serve(status); });
  }

 private:
  void Serve(const absl::Status& status) {
    for (std::vector<EncodeCall> taken = TakeAll(); !taken.empty(); taken = TakeAll()) {
      if (status.ok()) {
        Encode(&taken);
        continue;
      }
      for (EncodeCall& call : taken) {
        call.status = status;
        call.End();
      }
    }
  }

  // Returns nothing, and counts an encoding less, if no call waits.
  std::vector<EncodeCall> TakeAll() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (calls_.empty()) --num_encodings_;
    return std::exchange(calls_, {});
  }

  std::mutex mutex_;
  std::vector<EncodeCall> calls_;
  int num_encodings_ = 0;
};

// Never destroyed.
CallQueue* QueueOf(cudaStream_t stream) {
  static std::mutex mutex;
  static auto* const queues = new std::map<cudaStream_t, CallQueue>;
  const std::lock_guard<std::mutex> lock(mutex);
  return &(*queues)[stream];
}

}  // namespace

absl::Status OutputFrames(OpKernelContext* ctx, const Bytes& frames) {
  Tensor packet;
  TF_RETURN_IF_ERROR(AllocatePacket(ctx, frames.size(), &packet));
  ctx->set_output(0, packet);
  if (frames.empty()) return absl::OkStatus();
  if (PacketsAreOnDevice()) {
    const cudaStream_t stream = StreamOf(ctx);
    TF_RETURN_IF_ERROR(
        ToTensorFlow(CopyToDevice(frames.data(), frames.size(), packet.data(), stream)));
    return ToTensorFlow(WaitFor(stream));
  }
  std::memcpy(packet.data(), frames.data(), frames.size());
  return absl::OkStatus();
}

void JointEncodeKernel::ComputeAsync(OpKernelContext* ctx, DoneCallback done) {
  QueueOf(StreamOf(ctx))->Add({this, ctx, std::move(done), {}, absl::OkStatus()});
}

}  // namespace tfcompress
