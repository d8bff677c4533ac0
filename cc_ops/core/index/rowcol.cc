// rowcol: indices of a matrix in the context of their rows and columns.
//
// Rows and columns are put in classes by the elements that they have, see CountClass. An element of
// a row of class a and a column of class b is chosen with a probability of about 2^(a + b): all
// elements with the same a + b are a group, whose gaps are geometrically distributed. The classes
// travel, then each group's density and its gaps. Where that takes no fewer bytes than one group of
// everything, as for vectors, the latter travels.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "core/bit_io.h"
#include "core/entropy/gap_coder.h"
#include "core/entropy/parts.h"
#include "core/entropy/rans.h"
#include "core/grid.h"
#include "core/radix_sort.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

constexpr int kNumGroups = 2 * kNumCountClasses - 1;

// Where the elements of a group are: row by row, and in a row by ascending column.
struct Groups {
  explicit Groups(const GridClasses& classes) {
    for (const uint8_t b : classes.columns) ++row_size[b];
    std::array<uint64_t, kNumCountClasses> num_rows{};
    for (const uint8_t a : classes.rows) ++num_rows[a];
    for (int a = 1; a < kNumCountClasses; ++a) {
      for (int b = 1; b < kNumCountClasses; ++b) size[a + b] += num_rows[a] * row_size[b];
    }
  }

  // Columns of a class: what a row of class a has in group a + b.
  std::array<uint32_t, kNumCountClasses> row_size{};
  std::array<uint64_t, kNumGroups> size{};
};

using GroupGaps = std::array<std::vector<uint32_t>, kNumGroups>;

GroupGaps FindGaps(const GridClasses& classes, const Groups& groups, const Grid& grid,
                   Span<const uint32_t> indices) {
  std::array<uint32_t, kNumCountClasses> num_columns{};
  std::vector<uint32_t> rank(classes.columns.size());  // Of a column in its class.
  for (size_t j = 0; j < rank.size(); ++j) rank[j] = num_columns[classes.columns[j]]++;
  GroupGaps gaps;
  std::array<uint64_t, kNumGroups> row_begin{};
  std::array<uint64_t, kNumGroups> next{};
  uint32_t current = 0;
  ForEachRow(grid, indices, [&](const GridRow& row) {
    for (; current < row.row; ++current) {
      const int a = classes.rows[current];
      if (a == 0) continue;
      for (int b = 1; b < kNumCountClasses; ++b) row_begin[a + b] += groups.row_size[b];
    }
    const int row_class = classes.rows[row.row];
    for (size_t i = row.begin; i < row.end; ++i) {
      const uint32_t column = indices[i] - row.first;
      const int group = row_class + classes.columns[column];
      const uint64_t position = row_begin[group] + rank[column];
      gaps[group].push_back(static_cast<uint32_t>(position - next[group]));
      next[group] = position + 1;
    }
  });
  return gaps;
}

void PutClasses(const std::vector<uint8_t>& classes, RansEncoder* coder) {
  std::array<NibbleModel, kNumCountClasses> models;  // By the class before.
  int previous = 0;
  for (const uint8_t c : classes) {
    coder->Put(c, &models[previous]);
    previous = c;
  }
}

std::vector<uint8_t> GetClasses(uint64_t count, RansDecoder* coder) {
  std::array<NibbleModel, kNumCountClasses> models;
  std::vector<uint8_t> classes(count);
  int previous = 0;
  for (uint8_t& c : classes) c = previous = coder->Get(&models[previous]);
  return classes;
}

// Classes of many more rows and columns than elements do not pay.
bool MayPay(const Grid& grid, uint32_t n, uint32_t k) {
  constexpr uint64_t kClassesAnElement = 8;
  return grid.width > 1 && grid.width < n && grid.NumRows(n) + grid.width <= kClassesAnElement * k;
}

// The information of one out of C(num_elements, num_chosen), about.
double IdealBits(uint64_t num_elements, uint64_t num_chosen) {
  const double share = static_cast<double>(num_chosen) / static_cast<double>(num_elements);
  if (share <= 0 || share >= 1) return 0;
  return -static_cast<double>(num_elements) *
         (share * std::log2(share) + (1 - share) * std::log2(1 - share));
}

double IdealBits(const std::vector<uint8_t>& classes) {
  std::array<uint64_t, kNumCountClasses> counts{};
  for (const uint8_t c : classes) ++counts[c];
  double bits = 0;
  for (const uint64_t count : counts) {
    if (count > 0) bits += count * std::log2(static_cast<double>(classes.size()) / count);
  }
  return bits;
}

// The indices as those of a vector: one group.
void PutVector(Span<const uint32_t> indices, uint32_t n, Bytes* out) {
  std::vector<uint32_t> gaps(indices.begin(), indices.end());
  for (size_t i = gaps.size(); i-- > 1;) gaps[i] -= gaps[i - 1] + 1;
  RansEncoder coder(out);
  coder.PutNumber(0);  // Columns.
  GapCoder().Put(n, gaps, &coder);
  coder.Finish(RansLanes(indices.size()));
}

// The indices as those of a matrix.
class Matrix {
 public:
  Matrix(Span<const uint32_t> indices, uint32_t n, const Grid& grid)
      : grid_(grid),
        classes_(GridClasses::Of(grid, n, indices)),
        groups_(classes_),
        gaps_(FindGaps(classes_, groups_, grid, indices)) {}

  double ideal_bits() const {
    double bits = IdealBits(classes_.rows) + IdealBits(classes_.columns);
    for (int g = 0; g < kNumGroups; ++g) {
      if (groups_.size[g] > 0) bits += IdealBits(groups_.size[g], gaps_[g].size());
    }
    return bits;
  }

  void Put(Bytes* out) const {
    RansEncoder coder(out);
    coder.PutNumber(grid_.width);
    coder.PutNumber(grid_.first_column);
    PutClasses(classes_.columns, &coder);
    PutClasses(classes_.rows, &coder);
    GapCoder gap_coder;
    size_t k = 0;
    for (int g = 0; g < kNumGroups; ++g) {
      if (groups_.size[g] > 0) gap_coder.Put(groups_.size[g], gaps_[g], &coder);
      k += gaps_[g].size();
    }
    coder.Finish(RansLanes(k));
  }

 private:
  Grid grid_;
  GridClasses classes_;
  Groups groups_;
  GroupGaps gaps_;
};

// Converts positions in group g to indices, in place, and returns how many are outside [0, n).
uint64_t PlaceGroup(int g, const Grid& grid, uint32_t n, const GridClasses& classes,
                    const Groups& groups,
                    const std::array<std::vector<uint32_t>, kNumCountClasses>& columns,
                    Span<uint32_t> positions) {
  // Elements of the group in a row of class a, if it has any.
  std::array<uint32_t, kNumCountClasses> row_size{};
  for (int a = std::max(1, g - kNumCountClasses + 1); a < std::min(g, kNumCountClasses); ++a)
    row_size[a] = groups.row_size[g - a];
  uint64_t num_outside = 0;
  uint64_t row = 0;
  uint64_t row_begin = 0;
  for (uint32_t& position : positions) {
    while (position - row_begin >= row_size[classes.rows[row]])
      row_begin += row_size[classes.rows[row++]];
    const uint32_t column = columns[g - classes.rows[row]][position - row_begin];
    const uint64_t index = row * grid.width + column - grid.first_column;
    num_outside += index >= n;  // Also where it is negative.
    position = static_cast<uint32_t>(index);
  }
  return num_outside;
}

// Fills the front of `indices`, and says how many there are.
Status DecodeMatrix(const Grid& grid, uint32_t n, RansDecoder* coder, Span<uint32_t> indices,
                    size_t* num_found) {
  GridClasses classes;
  classes.columns = GetClasses(grid.width, coder);
  classes.rows = GetClasses(grid.NumRows(n), coder);
  const Groups groups(classes);
  std::array<std::vector<uint32_t>, kNumCountClasses> columns;  // By class.
  for (int b = 0; b < kNumCountClasses; ++b) columns[b].reserve(groups.row_size[b]);
  for (uint32_t j = 0; j < grid.width; ++j) columns[classes.columns[j]].push_back(j);

  uint64_t num_outside = 0;
  GapCoder gap_coder;
  for (int g = 0; g < kNumGroups; ++g) {
    if (groups.size[g] == 0) continue;
    const Span<uint32_t> rest = indices.subspan(*num_found, indices.size() - *num_found);
    size_t num_chosen;
    TFC_RETURN_IF_ERROR(gap_coder.Get(groups.size[g], coder, rest, &num_chosen));
    num_outside += PlaceGroup(g, grid, n, classes, groups, columns, rest.subspan(0, num_chosen));
    *num_found += num_chosen;
  }
  if (num_outside > 0)
    return DataLoss("rowcol: ", num_outside, " indices are outside [0, ", n, ")");
  return OkStatus();
}

// Appends the indices of a part, of n elements.
void PutPart(Span<const uint32_t> indices, uint32_t n, const Grid& grid, Bytes* out) {
  const auto k = static_cast<uint32_t>(indices.size());
  if (!MayPay(grid, n, k)) return PutVector(indices, n, out);
  // Codes both where it is not clear which one is shorter: where models have much to learn, or the
  // difference is small.
  const Matrix matrix(indices, n, grid);
  const double matrix_bits = matrix.ideal_bits();
  const double vector_bits = IdealBits(n, k);
  constexpr double kManyBits = 1 << 14;
  constexpr double kLearningBits = 1 << 10;  // More than the models of a matrix take to learn.
  constexpr double kClearlyShorter = 0.85;
  const size_t begin = out->size();
  if (vector_bits < kManyBits || vector_bits > kClearlyShorter * matrix_bits) matrix.Put(out);
  const size_t as_matrix = out->size() - begin;
  if (matrix_bits + kLearningBits > kClearlyShorter * vector_bits) PutVector(indices, n, out);
  const size_t as_vector = out->size() - begin - as_matrix;
  if (as_matrix > 0 && as_vector > 0) {
    const bool takes_matrix = as_matrix < as_vector;
    const auto first = out->begin() + static_cast<ptrdiff_t>(begin);
    const auto middle = first + static_cast<ptrdiff_t>(as_matrix);
    takes_matrix ? out->erase(middle, out->end()) : out->erase(first, middle);
  }
}

Status GetPart(ByteSpan code, uint32_t n, Executor* executor, std::vector<uint32_t>* indices) {
  const auto k = static_cast<uint32_t>(indices->size());
  RansDecoder coder(RansLanes(k), code);
  size_t num_found = 0;
  Grid grid;
  grid.width = coder.GetNumber();
  if (grid.known()) {
    grid.first_column = coder.GetNumber();
    if (!MayPay(grid, n, k) || grid.first_column >= grid.width)
      return DataLoss("rowcol: ", grid.width, " columns of ", n, " elements");
    TFC_RETURN_IF_ERROR(DecodeMatrix(grid, n, &coder, Span<uint32_t>(*indices), &num_found));
    RadixSort(0, BitsFor(n), executor, indices);
  } else {
    TFC_RETURN_IF_ERROR(GapCoder().Get(n, &coder, Span<uint32_t>(*indices), &num_found));
  }
  if (num_found != k) return DataLoss("rowcol: ", num_found, " indices, ", k, " expected");
  return coder.ExpectEnd("rowcol");
}

// Where the parts of a tensor begin, and n: each is a tensor by itself, which ends where the next
// one begins.
std::vector<uint32_t> PartBounds(const std::vector<uint32_t>& firsts, uint32_t n) {
  std::vector<uint32_t> bounds = {0};
  bounds.insert(bounds.end(), firsts.begin(), firsts.end());
  bounds.push_back(n);
  return bounds;
}

class RowcolIndexCodec : public IndexCodec {
 public:
  Result<DecodedIndices> Encode(Span<const uint32_t> indices, uint32_t n,
                                const CodecContext& context, Bytes* out) const override {
    if (NumParts(indices.size()) == 1) {
      PutPart(indices, n, context.grid, out);
      return DecodedIndices();
    }
    std::vector<uint32_t> firsts;
    for (size_t i = kPartItems; i < indices.size(); i += kPartItems) firsts.push_back(indices[i]);
    ByteWriter(out).WriteArray(Span<const uint32_t>(firsts));
    const std::vector<uint32_t> bounds = PartBounds(firsts, n);
    const auto put = [&](int64_t part, int64_t begin, int64_t end, Bytes* code) {
      const uint32_t first = bounds[part];
      std::vector<uint32_t> shifted(indices.begin() + begin, indices.begin() + end);
      for (uint32_t& index : shifted) index -= first;
      PutPart(shifted, bounds[part + 1] - first, context.grid.From(first), code);
    };
    EncodeParts(indices.size(), context.executor, put, out);
    return DecodedIndices();
  }

  Status Decode(ByteSpan section, uint32_t n, uint32_t k, const CodecContext& context,
                std::vector<uint32_t>* indices) const override {
    TFC_RETURN_IF_ERROR(CheckSectionBytes("rowcol", section, MinEncodedBytes(n, k)));
    indices->resize(k);
    if (NumParts(k) == 1) return GetPart(section, n, context.executor, indices);
    ByteReader reader(section);
    std::vector<uint32_t> firsts;
    TFC_RETURN_IF_ERROR(reader.ReadArray("first indices", NumParts(k) - 1, &firsts));
    const std::vector<uint32_t> bounds = PartBounds(firsts, n);
    if (std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) != bounds.end())
      return DataLoss("rowcol: first indices of parts do not ascend");
    const auto get = [&](int64_t part, int64_t begin, int64_t end, ByteSpan code) {
      const uint32_t first = bounds[part];
      std::vector<uint32_t> shifted(end - begin);
      TFC_RETURN_IF_ERROR(GetPart(code, bounds[part + 1] - first, SerialExecutor(), &shifted));
      std::transform(shifted.begin(), shifted.end(), indices->begin() + begin,
                     [first](uint32_t index) { return index + first; });
      return OkStatus();
    };
    return DecodeParts("rowcol", k, context.executor, &reader, get);
  }

  uint64_t MinEncodedBytes(uint32_t, uint32_t k) const override {
    const uint64_t num_parts = NumParts(k);
    return (num_parts - 1) * 2 * sizeof(uint32_t) +
           std::max<uint64_t>(num_parts * sizeof(uint32_t), NibbleModel::MinBytes(k));
  }
  // The bytes of one group: a gap has at most two symbols and a half, of 12 bits, by its model, and
  // 29 bits below them.
  uint64_t MaxEncodedBytes(uint32_t, uint32_t k) const override {
    return 48 * NumParts(k) + uint64_t{8} * k;
  }
};

}  // namespace

Definition<IndexCodec> RowcolIndex() {
  return {"Gaps among elements of alike rows and columns, by adaptive models and rANS.",
          {},
          Make<RowcolIndexCodec>,
          "exact",
          "at most log2 C(n, k) and 1 %; on matrices less, by the data"};
}

}  // namespace tfcompress
