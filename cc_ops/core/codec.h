// The interfaces of the package: what selects, what codes, what remembers.
//
// The same letters everywhere: n is the number of elements of a gradient (the universe), k of those
// sent (the size of the support). Indices are uint32 and n is at most kMaxElements. All objects are
// immutable and may be used from several threads at once.
//
// Values handed to a codec are finite: the pipeline sends a non-finite tensor as a flag, never
// through a codec. Decoders trust nothing: whatever the bytes, they return a Status or an in-range
// result, and read every parameter they need from the section, never from their own configuration.
#ifndef TFCOMPRESS_CORE_CODEC_H_
#define TFCOMPRESS_CORE_CODEC_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/executor.h"
#include "core/grid.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

inline constexpr uint64_t kMaxElements = (uint64_t{1} << 31) - 1;
// InvalidArgument for more elements than that; `what` has them, e.g. "gradient".
Status CheckNumElements(const char* what, uint64_t n);

// What a codec may use besides its input.
struct CodecContext {
  uint64_t seed = 0;  // Travels in the frame: encoder and decoders see the same one.
  Executor* executor = SerialExecutor();
  Grid grid = {};  // The tensor's shape, for encoders; decoders read what they need.
};

// A borrowed support: a strictly increasing subset of [0, n), or all of it without a list.
class Support {
 public:
  Support(uint32_t n, Span<const uint32_t> indices) : n_(n), indices_(indices) {}
  static Support Everything(uint32_t n) {
    Support support(n, {});
    support.everything_ = true;
    return support;
  }

  uint32_t n() const { return n_; }
  size_t size() const { return everything_ ? n_ : indices_.size(); }
  bool everything() const { return everything_; }
  uint32_t operator[](size_t i) const {
    return everything_ ? static_cast<uint32_t>(i) : indices_[i];
  }
  // The list; only when !everything().
  Span<const uint32_t> indices() const { return indices_; }

 private:
  uint32_t n_;
  Span<const uint32_t> indices_;
  bool everything_ = false;
};

// An owned sparse vector; `indices` is empty when the support is everything.
struct SparseTensor {
  uint32_t n = 0;
  bool everything = false;
  std::vector<uint32_t> indices;
  std::vector<float> values;

  Support support() const { return everything ? Support::Everything(n) : Support(n, indices); }
};

// What receivers know of a support before they have read a byte of it.
enum class Implied {
  kNothing,     // An index codec has to send it.
  kEverything,  // It is all of [0, n). Encoders do not call Select.
  kSeeded,      // It is SeededSupport(n, k, seed), see seeded_support.h.
};

class Collector;
class SparsifierByMagnitude;
struct FloatList;

// Chooses the support of a dense vector.
class Sparsifier {
 public:
  virtual ~Sparsifier() = default;
  // Unless nothing is implied, no index is sent.
  virtual Implied implied() const { return Implied::kNothing; }
  // For one that selects by magnitude: see by_magnitude.h.
  virtual const SparsifierByMagnitude* by_magnitude() const { return nullptr; }
  // Overwrites `indices` with the chosen support, ascending. Deterministic: the same bits for every
  // executor.
  virtual Status Select(Span<const float> dense, const CodecContext& context,
                        std::vector<uint32_t>* indices) const = 0;
};

// What receivers decode of an index section: the encoded support, unless a lossy codec changes it.
struct DecodedIndices {
  std::optional<std::vector<uint32_t>> changed;
  // Whether the values to send are still those of the encoded support, in order (DeepReduce's naive
  // Bloom filter), and not those at the changed indices (P0, P1, P2).
  bool keeps_values = false;

  // Borrows from `encoded` or from this.
  Support support(const Support& encoded) const {
    return changed ? Support(encoded.n(), *changed) : encoded;
  }
  // Whether the values to send are those of the encoded support.
  bool sends_encoded() const { return !changed || keeps_values; }
};

// Codes a strictly increasing subset of [0, n).
class IndexCodec {
 public:
  virtual ~IndexCodec() = default;

  // Appends the section to `out`. An exact codec returns DecodedIndices(); a lossy one always says
  // what Decode will yield, for k as many. The caller has checked the indices: CheckIndices.
  virtual Result<DecodedIndices> Encode(Span<const uint32_t> indices, uint32_t n,
                                        const CodecContext& context, Bytes* out) const = 0;
  // Overwrites `indices` with exactly k strictly increasing indices below n, or fails with
  // DataLoss. Checks k against the section before allocating, where the section bounds it: an exact
  // codec allocates no more than O(k + section.size()), a lossy one no more than O(n).
  virtual Status Decode(ByteSpan section, uint32_t n, uint32_t k, const CodecContext& context,
                        std::vector<uint32_t>* indices) const = 0;
  // Lower bound of the section of k > 0 decoded indices below n, whatever the encoder's parameters:
  // the pipeline refuses a shorter one before anything is allocated.
  virtual uint64_t MinEncodedBytes(uint32_t n, uint32_t k) const = 0;
  // Upper bound of the bytes that Encode appends for k given indices below n.
  virtual uint64_t MaxEncodedBytes(uint32_t n, uint32_t k) const = 0;
};

// Decodes values [begin, end) of a section to values[0], values[1], ...: finite numbers, or
// DataLoss. `begin` is a multiple of kDecodeChunk, and end - begin at most that. May be called from
// several threads at once, as long as the section exists.
using ChunkDecoder = std::function<Status(int64_t begin, int64_t end, float* values)>;
inline constexpr int64_t kDecodeChunk = 4096;  // 16 KiB of floats: they stay in a core's L1.

// Encodes values [begin, end) to their place in a section, and takes what they decode to out of
// pending[0], pending[1], ..., unless that is null; values[0], values[1], ... may be the same
// vector. `begin` is a multiple of `chunk`, and end - begin at most that. May be called from
// several threads at once, until something is appended to the section.
struct ChunkEncoder {
  int64_t chunk = kDecodeChunk;
  std::function<void(int64_t begin, int64_t end, const float* values, float* pending)> encode;

  explicit operator bool() const { return encode != nullptr; }
};

// pending[i] -= decoded[i] for 0 <= i < count: what error feedback keeps.
void Subtract(const float* decoded, int64_t count, float* pending);

// Calls body(begin, end) for the chunks of [0, k); the first failure that it returns is returned.
Status ForEachDecodeChunk(int64_t k, Executor* executor,
                          const std::function<Status(int64_t begin, int64_t end)>& body);

// Codes the k values of a support, in the order of their indices. May look at the indices (to hash
// them). A codec that sorts carries its own permutation in its section.
class ValueCodec {
 public:
  virtual ~ValueCodec() = default;

  // The magnitude below which values decode to zero by design: where an index codec codes the
  // support, nothing is sent for them.
  virtual float LeastSent(Span<const float> /*values*/, Executor* /*executor*/) const { return 0; }

  // Appends the section to `out`; values.size() == support.size().
  virtual Status Encode(Span<const float> values, const Support& support,
                        const CodecContext& context, Bytes* out) const;
  // The same, and overwrites `decoded`, of as many elements, with what Decode yields: error
  // feedback takes that out of a memory. A codec that knows it without decoding overrides this.
  virtual Status EncodeAndDecode(Span<const float> values, const Support& support,
                                 const CodecContext& context, Bytes* out,
                                 Span<float> decoded) const;
  // A codec whose chunks of values encode apart from each other, and whatever their indices,
  // appends a section of k values, which the encoder that it returns then fills in: a chunk is
  // encoded, and taken out of a memory, where it was made, in a core's cache. Others return none,
  // and override Encode.
  virtual ChunkEncoder OpenEncoder(uint32_t /*k*/, const CodecContext& /*context*/,
                                   Bytes* /*out*/) const {
    return {};
  }
  // A codec whose values decode apart from each other, and whatever their indices, checks what
  // precedes them in the section, and its length, and sets `decoder`. Then sums and memories take
  // the values chunk by chunk, and no vector holds all of them. Others leave `decoder` empty, and
  // override Decode.
  virtual Status Open(ByteSpan /*section*/, uint32_t /*k*/, ChunkDecoder* /*decoder*/) const {
    return OkStatus();
  }
  // Fills `values`, of size support.size(), with finite numbers, or fails with DataLoss.
  virtual Status Decode(ByteSpan section, const Support& support, const CodecContext& context,
                        Span<float> values) const;
  // Lower bound of the section of k > 0 values, whatever the encoder's parameters: the pipeline
  // refuses a shorter one before anything is allocated.
  virtual uint64_t MinEncodedBytes(uint32_t k) const = 0;
  // Upper bound of the bytes that Encode appends for k values.
  virtual uint64_t MaxEncodedBytes(uint32_t k) const = 0;
  // Largest |decoded - value| that the codec promises for these values; 0 when it is exact. Follows
  // from values and parameters, not from what the codec makes of them.
  virtual double MaxError(Span<const float> values) const = 0;
  // The same for each of the values, where the codec promises more for some than for others.
  virtual void MaxErrors(Span<const float> values, Span<double> errors) const;
};

// The largest of MaxErrors: MaxError of the codecs that override it.
double LargestOfMaxErrors(const ValueCodec& codec, Span<const float> values);

// Codes indices and values together, where they cannot be split into an IndexCodec and a ValueCodec
// (joint/).
class SparseCodec {
 public:
  virtual ~SparseCodec() = default;

  // Whether it codes rows of a table, which has too many elements to spend time or bytes on each.
  virtual bool takes_rows() const { return true; }
  // Appends the section of values[i] at support[i] to `out`, and returns how many elements Decode
  // will yield; if that is none, nothing was appended. Indices as for IndexCodec::Encode.
  virtual Result<uint32_t> Encode(Span<const float> values, const Support& support,
                                  const CodecContext& context, Bytes* out) const = 0;
  // Fills `out`, whose n and everything are given, with k elements, or fails with DataLoss.
  virtual Status Decode(ByteSpan section, uint32_t k, const CodecContext& context,
                        SparseTensor* out) const = 0;
  // Lower bound of the section for k > 0 decoded of n elements, whatever the encoder's parameters.
  virtual uint64_t MinEncodedBytes(uint32_t n, uint32_t k) const = 0;
  // Upper bound of the bytes that Encode appends for a support of k of n elements.
  virtual uint64_t MaxEncodedBytes(uint32_t n, uint32_t k) const = 0;
};

// What a step does to what is pending before it chooses what to send.
enum class Compensation {
  kOfGradient,  // The memory's own rule: a gradient comes in.
  kPlainSum,    // Addition: the vector is a sum of what other ranks' memories let go; see pieces.h.
};

// The memory's vectors of one tensor, before a step and after it. after[i] is before[i], to update
// in place, or overlaps none of them: then the caller can still drop the step.
struct MemorySlots {
  Span<const float* const> before;
  Span<float* const> after;
  Compensation compensation = Compensation::kOfGradient;

  size_t size() const { return after.size(); }
};

// Elements compensated at a time: gradient, slots, result and what is found in it stay in L1.
inline constexpr int64_t kCompensateChunk = 1024;

// Is shown a vector while it is made: elements [begin, end), which are made[0], made[1], ...,
// right after they were made. `begin` is a multiple of `chunk`, and end - begin at most that. From
// several threads at once. A collector finds elements in the very loop that makes them.
struct ChunkVisitor {
  int64_t chunk = kCompensateChunk;
  std::function<void(int64_t begin, int64_t end, const float* made)> visit;
  Collector* collector = nullptr;
};

// What is carried from step to step for one tensor: `num_slots` float vectors of n elements that
// start as zeros and that the caller stores. The first one, if any, has what is pending.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual int num_slots() const = 0;
  // The vector to compress: `gradient` itself or slots.after[0], which may be the same vector. When
  // any of its elements would not be finite, `finite` is false, the result is empty, and
  // slots.after is as slots.before. The visitor, if any, is shown chunks of the result that are
  // finite, and may change them in slots.after.
  Span<const float> Compensate(Span<const float> gradient, const MemorySlots& slots,
                               const CodecContext& context, bool* finite,
                               const ChunkVisitor& visitor = {}) const;
  // Makes `count` elements of that vector, from `begin` on, and of all slots after the step, finite
  // or not.
  void CompensateRange(Span<const float> gradient, const MemorySlots& slots, int64_t begin,
                       int64_t count) const;
  // Stores the elements of that vector at `positions`, before it is made.
  void CompensateAt(Span<const uint32_t> positions, Span<const float> gradient,
                    const MemorySlots& slots, float* elements) const;
  // Takes what was sent out of what is pending in slots.after: the values that receivers decode of
  // Compensate's result, and their support.
  void Update(const Support& sent, Span<const float> values, const MemorySlots& slots,
              const CodecContext& context) const;
  // The same where everything was sent, as `section`.
  static Status UpdateAll(const ValueCodec& value, ByteSpan section, uint32_t n,
                          const MemorySlots& slots, const CodecContext& context);

 protected:
  static constexpr int kMaxSlots = 2;

  // Makes elements [first, first + count) of the result, slots.after[0] where there are slots, says
  // whether they are all finite, and lists what `list` looks for, unless it is null. The pointers
  // are those of the first of these elements. See MakeElements.
  virtual bool CompensateChunk(const float* gradient, const float* const* before,
                               float* const* after, int64_t count, uint32_t first,
                               FloatList* list) const = 0;
  // The rule of a residual, and of all memories for sums: adds to what is pending.
  static bool AddChunk(const float* gradient, const float* const* before, float* const* after,
                       int64_t count, uint32_t first, FloatList* list);
  // Clears what the other slots hold of sent elements.
  virtual void ForgetSent(const Support& /*sent*/, const MemorySlots& /*slots*/,
                          const CodecContext& /*context*/) const {}

 private:
  // Makes a chunk of the result and of the slots, as `slots` says.
  bool MakeChunk(const MemorySlots& slots, const float* gradient, const float* const* before,
                 float* const* after, int64_t count, uint32_t first = 0,
                 FloatList* list = nullptr) const;
};

// Fails with DataLoss for a section of less than `least` bytes; `what` names it, "index section".
Status CheckSectionBytes(const char* what, ByteSpan section, uint64_t least);

// Fails with InvalidArgument unless `indices` is strictly increasing and below n.
Status CheckIndices(Span<const uint32_t> indices, uint32_t n);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_CODEC_H_
