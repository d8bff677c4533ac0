#include "tf/cuda/joint_encode_kernel.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "cuda/device_variants.h"
#include "cuda/encode_state.h"
#include "cuda/frame_encoder.h"
#include "cuda/parts.h"
#include "cuda/resident_blocks.h"
#include "cuda/workspace.h"
#include "tf/cuda/device_memory.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/cuda/run_on_host.h"
#include "tf/cuda/stream_kernel.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Bytes of workspace and frames of calls that are encoded together; a lone one may take as much as
// FrameEncoder allows. The model needs the memory, and what takes as much keeps a GPU busy without
// others.
constexpr uint64_t kMostBytes = uint64_t{512} << 20;
// Threads that encode for a stream: what comes while both do is encoded together afterwards.
constexpr int kMostEncodings = 2;

// A kernel that was called.
struct Call {
  JointEncodeKernel* kernel;
  OpKernelContext* ctx;
  tensorflow::AsyncOpKernel::DoneCallback done;
  EncodeJob job;
  absl::Status status;

  void Read() { status = kernel->Read(ctx, &job); }
  void Finish(const EncodedCounts& counts, int64_t nanoseconds) {
    status = job.finish(counts, nanoseconds);
  }
  // Afterwards the kernel and its context may be gone.
  void End() {
    job = {};
    ctx->SetStatus(status);
    done();
  }
  bool is_to_encode() const { return status.ok() && job.compressor != nullptr; }
  bool IsLike(const Call& other) const {
    return job.compressor->spec() == other.job.compressor->spec() && job.dtype == other.job.dtype &&
           job.rule == other.job.rule;
  }
};

using Calls = std::vector<Call*>;

// Allocates output 0 where packets are; on the host in pinned memory.
absl::Status AllocateFrames(OpKernelContext* ctx, uint64_t num_bytes, Tensor** frames) {
  if (!PacketsAreOnDevice()) return AllocatePinnedOutput(ctx, num_bytes, frames);
  return ctx->allocate_output(0, {static_cast<int64_t>(num_bytes)}, frames);
}

// Of the elements that each reads.
std::vector<int64_t> ShareTimeOf(const Calls& calls, int64_t nanoseconds) {
  std::vector<uint64_t> sizes;
  for (const Call* call : calls) sizes.push_back(call->job.num_elements);
  return ShareTime(nanoseconds, sizes);
}

// Returns nothing where no call has a frame.
Result<std::optional<device::FrameEncoder>> EncoderOf(const Calls& calls) {
  const EncodeJob& first = calls.front()->job;
  std::vector<uint64_t> sizes;
  for (const Call* call : calls) {
    for (const FrameJob& frame : call->job.frames) sizes.push_back(frame.n);
  }
  if (sizes.empty()) {
    TFC_RETURN_IF_ERROR(device::CheckHasCode());
    TFC_RETURN_IF_ERROR(device::DeviceSpecOf(*first.compressor).status());
    return std::optional<device::FrameEncoder>();
  }
  TFC_ASSIGN_OR_RETURN(
      auto encoder, device::FrameEncoder::Make(*first.compressor, first.dtype, sizes, first.rule));
  return std::make_optional(std::move(encoder));
}

void EncodeOnHost(Call* call, const Status& reason) {
  EncodedCounts counts;
  int64_t nanoseconds = 0;
  const auto encode = [&] { return call->job.on_host(&counts); };
  call->status = RunOnHost(call->ctx, "encoding '" + call->job.compressor->spec() + "'", reason,
                           encode, &nanoseconds);
  if (call->status.ok()) call->Finish(counts, nanoseconds);
}

// Encodings of several calls on the device, by the memory and the stream of the first.
class JointEncoding {
 public:
  // The encoder has the frames of all calls, one after the other; null if they have none.
  JointEncoding(const device::FrameEncoder* encoder, const Calls& calls)
      : encoder_(encoder), calls_(calls), ctx_(calls.front()->ctx) {}

  // Fails where several calls take more than kMostBytes, or more than is free: they need not wait
  // for memory, since fewer of them take less.
  absl::Status Allocate() {
    if (encoder_ == nullptr) return absl::OkStatus();
    const bool is_alone = calls_.size() == 1;
    size_t num_frames = 0;
    for (const Call* call : calls_) num_frames += call->job.frames.size();
    device::Workspace measure;
    for (size_t i = 0; i < num_frames; ++i) Take(i, &measure);
    if (!is_alone && encoder_->workspace_bytes() + measure.num_bytes() > kMostBytes)
      return absl::ResourceExhaustedError("too much to be encoded together");
    TF_RETURN_IF_ERROR(AllocateOnDevice(ctx_, encoder_->workspace_bytes(), &workspace_, is_alone));
    TF_RETURN_IF_ERROR(AllocateOnDevice(ctx_, measure.num_bytes(), &frames_, is_alone));
    device::Workspace carve(frames_.data_dev);
    for (size_t i = 0; i < num_frames; ++i) frames_dev_.push_back(Take(i, &carve));
    return AllocatePinned(ctx_, num_frames * sizeof(device::EncodeState), &states_owner_);
  }

  // Sets the status of each call, but for an error of all.
  absl::Status Run() {
    int64_t nanoseconds = 0;
    TF_RETURN_IF_ERROR(TimeOnStream(ctx_, [this] { return Launch(); }, &nanoseconds));
    std::vector<EncodedCounts> counts(calls_.size());
    TF_RETURN_IF_ERROR(CopyFrames(&counts));
    const std::vector<int64_t> shares = ShareTimeOf(calls_, nanoseconds);
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (calls_[i]->status.ok()) calls_[i]->Finish(counts[i], shares[i]);
    }
    return absl::OkStatus();
  }

 private:
  unsigned char* Take(size_t i, device::Workspace* frames) const {
    return frames->Take<unsigned char>(encoder_->max_frame_bytes(i));
  }

  device::EncodeState* states() { return static_cast<device::EncodeState*>(states_owner_.data()); }

  absl::Status Launch() {
    std::vector<device::FrameInput> inputs;
    for (size_t i = 0; i < calls_.size(); ++i) {
      const EncodeJob& job = calls_[i]->job;
      if (job.prepare) TF_RETURN_IF_ERROR(ToTensorFlow(job.prepare(StreamOf(ctx_))));
      for (const FrameJob& frame : job.frames) {
        const device::DeviceBuffer buffer = {frames_dev_[inputs.size()],
                                             encoder_->max_frame_bytes(inputs.size())};
        inputs.push_back({frame.gradient_dev, frame.slots, job.seed, buffer});
      }
    }
    if (encoder_ == nullptr) return absl::OkStatus();
    return ToTensorFlow(encoder_->Launch(inputs, workspace_, StreamOf(ctx_), states()));
  }

  absl::Status CopyFrames(std::vector<EncodedCounts>* counts) {
    std::vector<DeviceBytes> copies;
    size_t first = 0;
    for (size_t i = 0; i < calls_.size(); ++i) {
      calls_[i]->status = OutputFramesOf(calls_[i], first, &(*counts)[i], &copies);
      first += calls_[i]->job.frames.size();
    }
    return ToTensorFlow(PacketsAreOnDevice() ? CopyOnDevice(copies, StreamOf(ctx_))
                                             : CopyCompleteToHost(copies));
  }

  // Counts the frames of a call, of which `first` is the first one, and allocates its output.
  absl::Status OutputFramesOf(const Call* call, size_t first, EncodedCounts* counts,
                              std::vector<DeviceBytes>* copies) {
    uint64_t total = 0;
    std::vector<uint64_t> lengths(call->job.frames.size());
    for (size_t i = 0; i < lengths.size(); ++i) {
      const device::EncodeState& state = states()[first + i];
      TF_RETURN_IF_ERROR(ToTensorFlow(device::FrameEncoder::ReadLength(state, &lengths[i])));
      counts->num_bytes.push_back(static_cast<int64_t>(lengths[i]));
      counts->num_sent += state.k;
      total += lengths[i];
    }
    Tensor* frames = nullptr;
    TF_RETURN_IF_ERROR(AllocateFrames(call->ctx, total, &frames));
    auto* to = static_cast<unsigned char*>(frames->data());
    for (size_t i = 0; i < lengths.size(); ++i) {
      copies->push_back({frames_dev_[first + i], lengths[i], to});
      to += lengths[i];
    }
    return absl::OkStatus();
  }

  const device::FrameEncoder* const encoder_;
  const Calls& calls_;
  OpKernelContext* const ctx_;
  OwnedBuffer workspace_, frames_;
  Tensor states_owner_;
  std::vector<unsigned char*> frames_dev_;
};

// Divides two calls or more into parts of about as many elements: a large one does not keep small
// ones apart.
std::pair<Calls, Calls> Halves(Calls calls) {
  std::stable_sort(calls.begin(), calls.end(), [](const Call* a, const Call* b) {
    return a->job.num_elements > b->job.num_elements;
  });
  uint64_t num_elements = 0, num_taken = 0;
  for (const Call* call : calls) num_elements += call->job.num_elements;
  auto middle = calls.begin();
  do {
    num_taken += (*middle++)->job.num_elements;
  } while (2 * num_taken < num_elements && middle + 1 != calls.end());
  return {{calls.begin(), middle}, {middle, calls.end()}};
}

// Encodes calls that are alike, and ends them: in parts where they are too many for one encoding.
void EncodeTogether(const Calls& calls) {
  const auto encoder = EncoderOf(calls);
  bool fits = encoder.status().code() != StatusCode::kInvalidArgument;
  if (!fits && calls.size() == 1) {
    // Either a codec has no device variant, or the argument is bad and the host refuses it, too.
    EncodeOnHost(calls[0], encoder.status());
    calls[0]->End();
    return;
  }
  absl::Status status = ToTensorFlow(encoder.status());
  if (status.ok()) {
    JointEncoding encoding(encoder.value() ? &*encoder.value() : nullptr, calls);
    status = encoding.Allocate();
    fits = status.ok();
    if (fits) status = encoding.Run();
  }
  if (!fits && calls.size() > 1) {
    const auto [large, small] = Halves(calls);
    EncodeTogether(large);
    EncodeTogether(small);
    return;
  }
  for (Call* call : calls) {
    if (!status.ok()) call->status = status;
    call->End();
  }
}

// Removes the first call and those that can be encoded with it.
Calls TakeAlike(Calls* calls) {
  Calls taken = {calls->front()}, others;
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

void Encode(std::vector<Call>* calls) {
  Calls left;
  for (Call& call : *calls) {
    call.Read();
    left.push_back(&call);
  }
  while (!left.empty()) {
    const Calls alike = TakeAlike(&left);
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
  void Add(Call call) {
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
    for (std::vector<Call> taken = TakeAll(); !taken.empty(); taken = TakeAll()) {
      if (status.ok()) {
        Encode(&taken);
        continue;
      }
      for (Call& call : taken) {
        call.status = status;
        call.End();
      }
    }
  }

  // Returns nothing, and counts an encoding less, if no call waits.
  std::vector<Call> TakeAll() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (calls_.empty()) --num_encodings_;
    return std::exchange(calls_, {});
  }

  std::mutex mutex_;
  std::vector<Call> calls_;
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
  Tensor* output;
  TF_RETURN_IF_ERROR(AllocateFrames(ctx, frames.size(), &output));
  if (frames.empty()) return absl::OkStatus();
  if (PacketsAreOnDevice()) {
    const cudaStream_t stream = StreamOf(ctx);
    TF_RETURN_IF_ERROR(
        ToTensorFlow(CopyToDevice(frames.data(), frames.size(), output->data(), stream)));
    return ToTensorFlow(WaitFor(stream));
  }
  std::memcpy(output->data(), frames.data(), frames.size());
  return absl::OkStatus();
}

void JointEncodeKernel::ComputeAsync(OpKernelContext* ctx, DoneCallback done) {
  QueueOf(StreamOf(ctx))->Add({this, ctx, std::move(done), {}, absl::OkStatus()});
}

}  // namespace tfcompress
