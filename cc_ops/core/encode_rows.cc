#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "core/finite.h"
#include "core/float_mode.h"
#include "core/frame_codecs.h"
#include "core/merge_rows.h"
#include "core/rows.h"
#include "core/spec.h"

namespace tfcompress {
namespace {

Status CheckSizes(const RowsView& slices) {
  if (slices.width < 1) return InvalidArgument("a row must have at least one element, got 0");
  const auto check = [](const char* what, uint64_t size) {
    if (size <= kMaxElements) return OkStatus();
    return InvalidArgument(size, " ", what, " are above the limit of ", kMaxElements);
  };
  TFC_RETURN_IF_ERROR(check("rows", slices.num_rows));
  TFC_RETURN_IF_ERROR(check("elements of a row", slices.width));
  return check("slices", slices.num_slices);
}

template <typename Id>
Status ReadIds(const RowsView& slices, Span<uint32_t> ids) {
  const Id* given = static_cast<const Id*>(slices.ids);
  for (size_t i = 0; i < ids.size(); ++i) {
    // A negative id becomes one that is too large.
    if (static_cast<uint64_t>(given[i]) >= slices.num_rows) {
      return InvalidArgument("slice ", i, " belongs to row ", given[i], ", outside [0, ",
                             slices.num_rows, ")");
    }
    ids[i] = static_cast<uint32_t>(given[i]);
  }
  return OkStatus();
}

Status MergeSlices(const RowsView& slices, Executor* executor, SparseRows* merged) {
  std::vector<uint32_t> ids(slices.num_slices);
  TFC_RETURN_IF_ERROR(slices.id_type == IdType::kInt32
                          ? ReadIds<int32_t>(slices, Span<uint32_t>(ids))
                          : ReadIds<int64_t>(slices, Span<uint32_t>(ids)));
  std::vector<float> widened;
  const Span<const float> values = ViewAsFloat(
      slices.values, slices.dtype, slices.num_slices * slices.width, executor, &widened);
  AddRows(ids, values, slices.width, slices.num_rows, /*scale=*/1.0f, executor, merged);
  return OkStatus();
}

// Calls body(element of `rows`, element of `table`) for every element of the rows.
template <typename Rows, typename Body>
void ForEachElement(Rows& rows, uint64_t width, float* table, Executor* executor,
                    const Body& body) {
  ForEachRowBlock(executor, rows.ids.size(), width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      auto* own = rows.values.data() + row * width;
      float* target = table + rows.ids[row] * width;
      for (uint64_t column = 0; column < width; ++column) body(own[column], target[column]);
    }
  });
}

// Finite: a norm that is too large for a float becomes the largest one.
std::vector<float> Norms(const SparseRows& rows, uint64_t width, Executor* executor) {
  std::vector<float> norms(rows.ids.size());
  ForEachRowBlock(executor, norms.size(), width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* values = rows.values.data() + row * width;
      double sum_of_squares = 0;
      for (uint64_t column = 0; column < width; ++column) {
        sum_of_squares += static_cast<double>(values[column]) * values[column];
      }
      constexpr double kLargest = std::numeric_limits<float>::max();
      norms[row] = static_cast<float>(std::min(std::sqrt(sum_of_squares), kLargest));
    }
  });
  return norms;
}

// The rows at these positions, ascending.
SparseRows RowsAt(Span<const uint32_t> positions, const SparseRows& rows, uint64_t width,
                  Executor* executor) {
  SparseRows taken = {{}, std::vector<float>(positions.size() * width)};
  taken.ids.resize(positions.size());
  ForEachRowBlock(executor, positions.size(), width, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      taken.ids[i] = rows.ids[positions[i]];
      std::copy_n(rows.values.data() + positions[i] * width, width,
                  taken.values.data() + i * width);
    }
  });
  return taken;
}

// The rows to send: `touched` itself, or some of it in `storage`.
Status ChooseRows(const Sparsifier& sparsifier, const SparseRows& touched, uint64_t width,
                  const CodecContext& context, SparseRows* storage, const SparseRows** chosen) {
  *chosen = &touched;
  if (sparsifier.implied() == Implied::kEverything) return OkStatus();
  std::vector<uint32_t> positions;
  TFC_RETURN_IF_ERROR(
      sparsifier.Select(Norms(touched, width, context.executor), context, &positions));
  if (positions.size() == touched.ids.size()) return OkStatus();
  *storage = RowsAt(positions, touched, width, context.executor);
  *chosen = storage;
  return OkStatus();
}

// Takes the rows of which the value codec would decode every element to zero out of `chosen`: as
// for a dense tensor, nothing is sent for them (FastSGD 3.2, phase 3).
void NarrowRows(const ValueCodec& value, uint64_t width, Executor* executor, SparseRows* storage,
                const SparseRows** chosen) {
  const SparseRows& rows = **chosen;
  if (rows.values.size() > kMaxElements) return;
  const float least = value.LeastSent(rows.values, executor);
  if (least == 0) return;
  const auto is_sent = [=](float element) { return std::fabs(element) >= least; };
  std::vector<uint32_t> kept;
  for (uint32_t row = 0; row < rows.ids.size(); ++row) {
    const float* const elements = rows.values.data() + row * width;
    if (std::any_of(elements, elements + width, is_sent)) kept.push_back(row);
  }
  if (kept.size() == rows.ids.size()) return;
  *storage = RowsAt(kept, rows, width, executor);
  *chosen = storage;
}

// The rows of one owner: `rows` itself where there is no other, or some of it in `storage`.
const SparseRows* RowsOf(size_t owner, size_t num_owners, const SparseRows& rows, uint64_t width,
                         Executor* executor, SparseRows* storage) {
  if (num_owners == 1) return &rows;
  std::vector<uint32_t> positions;
  for (size_t row = 0; row < rows.ids.size(); ++row) {
    if (rows.ids[row] % num_owners == owner) positions.push_back(static_cast<uint32_t>(row));
  }
  *storage = RowsAt(positions, rows, width, executor);
  return storage;
}

// The encoding of one frame: what is given, and what becomes of it.
struct RowsEncoding {
  const Compressor& compressor;
  const CodecContext& context;
  uint64_t width;
  bool wants_decoded;
  const SparseRows* touched;
  const SparseRows* chosen;
  FrameHeader header;
  SparseRows decoded;  // What receivers decode, where it is wanted.
};

// Specs that imply the support name no index codec.
const IndexCodec& RowIdCodec(const Compressor& compressor, uint8_t* id) {
  if (compressor.support_kind() == SupportKind::kIndexSection) {
    *id = compressor.index_id();
    return *compressor.index();
  }
  static const auto* const row = FindByName<IndexCodec>("delta_binary");
  *id = row->id;
  return *DecoderById<IndexCodec>(row->id);
}

// Returns the length of the index section.
Result<uint64_t> EncodeProduct(RowsEncoding* rows, Bytes* out) {
  if (rows->chosen->ids.empty()) return uint64_t{0};
  const size_t begin = out->size();
  ByteWriter(out).Write(static_cast<uint32_t>(rows->width));
  TFC_RETURN_IF_ERROR(CheckIndices(rows->chosen->ids, rows->header.n));
  const IndexCodec& index = RowIdCodec(rows->compressor, &rows->header.index_id);
  TFC_ASSIGN_OR_RETURN(const DecodedIndices decoded,
                       index.Encode(rows->chosen->ids, rows->header.n, rows->context, out));
  const Support sent = decoded.support(Support(rows->header.n, rows->chosen->ids));
  const uint64_t num_index_bytes = out->size() - begin;
  const uint64_t num_values = sent.size() * rows->width;
  if (num_values > kMaxElements) {
    return InvalidArgument(sent.size(), " rows of ", rows->width,
                           " elements are above the limit of ", kMaxElements, " elements");
  }
  rows->header.k = static_cast<uint32_t>(sent.size());

  SparseRows gathered;
  const bool as_chosen = decoded.sends_encoded();
  if (!as_chosen) {
    gathered = GatherRows(*rows->touched, {sent.indices().begin(), sent.indices().end()},
                          rows->width, rows->context.executor);
  }
  const Span<const float> values = as_chosen ? rows->chosen->values : gathered.values;
  if (rows->wants_decoded) {
    rows->decoded.ids.assign(sent.indices().begin(), sent.indices().end());
  }
  CodecContext context = rows->context;
  if (rows->width > 1) context.grid.width = static_cast<uint32_t>(rows->width);
  TFC_RETURN_IF_ERROR(EncodeValues(*rows->compressor.value(), values,
                                   Support::Everything(static_cast<uint32_t>(num_values)), context,
                                   out, rows->wants_decoded ? &rows->decoded.values : nullptr));
  return num_index_bytes;
}

Status EncodeJoint(RowsEncoding* rows, Bytes* out) {
  static const auto nonzero = ParsePart<Sparsifier>("sparsifier", "nonzero");
  const SparseRows& chosen = *rows->chosen;
  const auto width = static_cast<uint32_t>(rows->width);
  std::vector<uint32_t> indices;  // At first within `chosen`.
  TFC_RETURN_IF_ERROR(nonzero.value().object->Select(chosen.values, rows->context, &indices));
  if (indices.empty()) return OkStatus();
  std::vector<float> values(indices.size());
  ForEachBlock(rows->context.executor, indices.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      values[i] = chosen.values[indices[i]];
      indices[i] = chosen.ids[indices[i] / width] * width + indices[i] % width;
    }
  });
  TFC_RETURN_IF_ERROR(CheckIndices(indices, rows->header.n));
  const SparseCodec& joint = *rows->compressor.joint();
  const size_t begin = out->size();
  TFC_ASSIGN_OR_RETURN(rows->header.k,
                       joint.Encode(values, Support(rows->header.n, indices), rows->context, out));
  if (!rows->wants_decoded || rows->header.k == 0) return OkStatus();
  const ByteSpan section(out->data() + begin, out->size() - begin);
  SparseTensor decoded{rows->header.n, false, {}, {}};
  TFC_RETURN_IF_ERROR(joint.Decode(section, rows->header.k, rows->context, &decoded));
  rows->decoded = ToRows(decoded, width);
  return OkStatus();
}

Status CheckJoint(const Compressor& compressor, const RowsView& slices) {
  if (!compressor.joint()->takes_rows()) {
    return InvalidArgument("the codec of '", compressor.spec(),
                           "' codes every element of a dense tensor and takes no rows: make the "
                           "gradient dense (sparse_as_dense=True) or choose another codec");
  }
  if (slices.num_rows * slices.width > kMaxElements) {
    return InvalidArgument("the joint codec of '", compressor.spec(), "' numbers the elements of ",
                           slices.num_rows, " rows of ", slices.width,
                           ", which are more than its limit of ", kMaxElements,
                           ": choose an index and a value codec instead");
  }
  return OkStatus();
}

// Appends the frame, and sets `decoded` to what receivers decode, where a residual wants it. Adds
// the elements of the frame to `num_sent`.
Status EncodeFrameOfRows(RowsEncoding* rows, Bytes* frames, int64_t* num_sent) {
  const bool is_joint = rows->header.support == SupportKind::kJoint;
  SparseRows narrowed;
  const auto append_sections = [&]() -> Result<uint64_t> {
    if (is_joint) {
      TFC_RETURN_IF_ERROR(EncodeJoint(rows, frames));
      return uint64_t{0};
    }
    NarrowRows(*rows->compressor.value(), rows->width, rows->context.executor, &narrowed,
               &rows->chosen);
    return EncodeProduct(rows, frames);
  };
  TFC_RETURN_IF_ERROR(AppendFrame(append_sections, &rows->header, frames));
  *num_sent += static_cast<int64_t>(rows->header.k * (is_joint ? 1 : rows->width));
  return OkStatus();
}

FrameHeader HeaderOf(const Compressor& compressor, const RowsView& slices, uint64_t seed) {
  const bool is_joint = compressor.support_kind() == SupportKind::kJoint;
  FrameHeader header;
  header.dtype = slices.dtype;
  header.support = is_joint ? SupportKind::kJoint : SupportKind::kRows;
  header.n = static_cast<uint32_t>(slices.num_rows * (is_joint ? slices.width : 1));
  header.value_id = compressor.value_id();
  header.seed = seed;
  return header;
}

}  // namespace

Status EncodeRowsFrames(const Compressor& compressor, const Sparsifier& row_sparsifier,
                        const RowsView& slices, float* residual, const CodecContext& context,
                        Bytes* frames, RowCounts* counts) {
  const FloatModeScope mode;
  const size_t num_owners = counts->num_bytes.size();
  const uint64_t width = slices.width;
  if (num_owners < 1) return InvalidArgument("rows need an owner");
  TFC_RETURN_IF_ERROR(CheckSizes(slices));
  if (compressor.joint() != nullptr) TFC_RETURN_IF_ERROR(CheckJoint(compressor, slices));

  SparseRows touched, storage;
  TFC_RETURN_IF_ERROR(MergeSlices(slices, context.executor, &touched));
  if (residual != nullptr) {
    ForEachElement(touched, width, residual, context.executor,
                   [](float& merged, const float& kept) { merged += kept; });
  }
  FrameHeader header = HeaderOf(compressor, slices, context.seed);
  header.nonfinite = !AllFinite(touched.values, context.executor);
  const SparseRows* chosen = &touched;
  if (!header.nonfinite) {
    TFC_RETURN_IF_ERROR(ChooseRows(row_sparsifier, touched, width, context, &storage, &chosen));
  }
  counts->num_sent = 0;
  std::vector<SparseRows> decoded;
  for (size_t owner = 0; owner < num_owners; ++owner) {
    SparseRows own, own_chosen;
    const auto of_owner = [&](const SparseRows& rows, SparseRows* some) {
      return RowsOf(owner, num_owners, rows, width, context.executor, some);
    };
    RowsEncoding rows = {compressor, context, width,  residual != nullptr,
                         nullptr,    nullptr, header, {}};
    rows.touched = of_owner(touched, &own);
    rows.chosen = chosen == &touched ? rows.touched : of_owner(*chosen, &own_chosen);
    const size_t begin = frames->size();
    TFC_RETURN_IF_ERROR(EncodeFrameOfRows(&rows, frames, &counts->num_sent));
    counts->num_bytes[owner] = static_cast<int64_t>(frames->size() - begin);
    decoded.push_back(std::move(rows.decoded));
  }

  if (residual == nullptr || header.nonfinite) return OkStatus();
  ForEachElement(touched, width, residual, context.executor,
                 [](const float& compensated, float& kept) { kept = compensated; });
  for (const SparseRows& rows : decoded) {
    ForEachElement(rows, width, residual, context.executor,
                   [](const float& sent, float& kept) { kept -= sent; });
  }
  return OkStatus();
}

}  // namespace tfcompress
