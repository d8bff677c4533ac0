// What value codecs share that code elements in the context of their rows and columns: the grid in
// the section, and the prediction of signs.
#ifndef TFCOMPRESS_CORE_VALUE_GRID_CONTEXTS_H_
#define TFCOMPRESS_CORE_VALUE_GRID_CONTEXTS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "core/codec.h"
#include "core/entropy/rans.h"
#include "core/grid.h"

namespace tfcompress {

// Elements up to the last of a support.
inline uint32_t NumSpanned(const Support& support) {
  return support.size() == 0 ? 0 : support[support.size() - 1] + 1;
}

// The grid for the contexts of a support; unknown where too few elements are to pay for them.
inline Grid ContextGrid(const Grid& grid, const Support& support) {
  constexpr size_t kLeastElements = 64;
  return support.size() >= kLeastElements && grid.width <= NumSpanned(support) ? grid : Grid();
}

// The elements [begin, end) of a support and of its grid, as a support and a grid of their own.
struct SupportPart {
  Support support;
  Grid grid;

  static SupportPart Of(const Support& support, const Grid& grid, int64_t begin, int64_t end) {
    const auto count = static_cast<uint32_t>(end - begin);
    if (support.everything()) return {Support::Everything(count), grid.From(begin)};
    return {Support(support.n(), support.indices().subspan(begin, count)), grid};
  }
};

inline void PutGrid(const Grid& grid, RansEncoder* coder) {
  coder->PutNumber(grid.width);
  coder->PutNumber(grid.first_column);
}

// Fails with DataLoss where the columns are more than the elements that the support spans.
inline Status GetGrid(const char* what, const Support& support, RansDecoder* coder, Grid* grid) {
  grid->width = coder->GetNumber();
  grid->first_column = coder->GetNumber();
  if (grid->width > NumSpanned(support) || (grid->known() && grid->first_column >= grid->width))
    return DataLoss(what, ": ", grid->width, " columns of ", NumSpanned(support), " elements");
  return OkStatus();
}

// Models of signs that are those of an outer product: a sign is expected from those of its row and
// its column so far.
class SignContexts {
 public:
  // A row has at most `num_elements` elements.
  SignContexts(uint32_t width, size_t num_elements)
      : columns_(width), row_(std::min<size_t>(width, num_elements)) {}

  // Calls code(i, column, model of whether a sign is other than expected, whether a negative one is
  // expected) for the elements of a row, which returns the sign: -1, 1, or 0 for an element without
  // a sign. Rows come in ascending order.
  template <typename Code>
  void VisitRow(const GridRow& row, Support support, const Code& code) {
    int* const columns = columns_.data();
    Element* const elements = row_.data();
    int64_t agreement = 0;  // Of the row so far with the columns.
    for (size_t i = row.begin; i < row.end; ++i) {
      const uint32_t column = support[i] - row.first;
      const int column_sign = columns[column];
      const int64_t vote = agreement * column_sign;
      const int strength = (vote != 0) + (std::abs(vote) > kWeakVote);
      const int sign = code(i, column, &models_[strength], vote < 0);
      agreement += ((column_sign > 0) - (column_sign < 0)) * sign;
      elements[i - row.begin] = {column, sign};
    }
    // Adds the row to the columns' signs, turned so that it agrees with them.
    const int turn = agreement < 0 ? -1 : 1;
    for (size_t j = 0; j < row.end - row.begin; ++j)
      columns[elements[j].column] += turn * elements[j].sign;
  }

 private:
  struct Element {
    uint32_t column;
    int sign;
  };
  static constexpr int kWeakVote = 4;

  std::array<BitModel, 3> models_;  // By the strength of the vote.
  std::vector<int> columns_;        // Sums of signs.
  std::vector<Element> row_;
};

// Calls code(i, row, column, sign model, whether a negative sign is expected) for the elements of a
// support, which returns the sign, as for SignContexts. Without a grid, each element is a row by
// itself, of column 0, and there is one sign model.
template <typename Code>
void ForEachInContext(const Grid& grid, const Support& support, const Code& code) {
  if (!grid.known()) {
    BitModel signs;
    for (size_t i = 0; i < support.size(); ++i) code(i, static_cast<uint32_t>(i), 0, &signs, false);
    return;
  }
  SignContexts signs(grid.width, support.size());
  ForEachRow(grid, support, [&](const GridRow& row) {
    signs.VisitRow(row, support,
                   [&](size_t i, uint32_t column, BitModel* sign_model, bool expects_negative) {
                     return code(i, row.row, column, sign_model, expects_negative);
                   });
  });
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_GRID_CONTEXTS_H_
