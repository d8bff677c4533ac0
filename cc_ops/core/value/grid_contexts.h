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

  // Calls code(model of whether a sign is other than expected, whether a negative one is expected),
  // which returns the sign: -1, 1, or 0 for an element without a sign. Elements come row by row,
  // and in a row by ascending column.
  template <typename Code>
  void Visit(uint32_t row, uint32_t column, const Code& code) {
    if (row != current_) Begin(row);
    const int column_sign = columns_[column];
    const int64_t vote = int64_t{agreement_} * column_sign;
    const int strength = (vote != 0) + (std::abs(vote) > kWeakVote);
    const int sign = code(&models_[strength], vote < 0);
    agreement_ += ((column_sign > 0) - (column_sign < 0)) * sign;
    row_[num_in_row_++] = {column, sign};
  }

 private:
  struct Element {
    uint32_t column;
    int sign;
  };
  static constexpr int kWeakVote = 4;

  // Adds the row to the columns' signs, turned so that it agrees with them, and begins the next.
  void Begin(uint32_t row) {
    const int turn = agreement_ < 0 ? -1 : 1;
    for (size_t j = 0; j < num_in_row_; ++j) columns_[row_[j].column] += turn * row_[j].sign;
    num_in_row_ = 0;
    agreement_ = 0;
    current_ = row;
  }

  std::array<BitModel, 3> models_;  // By the strength of the vote.
  std::vector<int> columns_;        // Sums of signs.
  std::vector<Element> row_;
  size_t num_in_row_ = 0;
  int agreement_ = 0;  // Of the row so far with the columns.
  uint32_t current_ = 0;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_GRID_CONTEXTS_H_
