// Status and Result<T>, with which the core reports errors. The core never throws (allocation
// failure apart).
//
// InvalidArgument is an error of the caller, DataLoss one of the bytes, Internal one of a device. A
// message says what was expected, what was found, and where. Not absl::Status, because TensorFlow's
// bundled absl is not ABI-stable between releases.
#ifndef TFCOMPRESS_CORE_STATUS_H_
#define TFCOMPRESS_CORE_STATUS_H_

#include <optional>
#include <sstream>
#include <string>
#include <utility>

namespace tfcompress {

enum class StatusCode { kOk = 0, kInvalidArgument, kDataLoss, kInternal };

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // Returns the status with `where` before the message; unchanged if ok.
  Status WithContext(const std::string& where) const {
    return ok() ? *this : Status(code_, where + ": " + message_);
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() { return Status(); }

namespace status_internal {
template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}
}  // namespace status_internal

template <typename... Parts>
Status InvalidArgument(const Parts&... parts) {
  return Status(StatusCode::kInvalidArgument, status_internal::Concat(parts...));
}

template <typename... Parts>
Status DataLoss(const Parts&... parts) {
  return Status(StatusCode::kDataLoss, status_internal::Concat(parts...));
}

template <typename... Parts>
Status Internal(const Parts&... parts) {
  return Status(StatusCode::kInternal, status_internal::Concat(parts...));
}

// A value, or the error status. `value()` may be called only if `ok()`.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by design

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace tfcompress

#define TFC_CONCAT_INNER(a, b) a##b
#define TFC_CONCAT(a, b) TFC_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expr` is a Status that is not ok.
#define TFC_RETURN_IF_ERROR(expr)             \
  do {                                        \
    ::tfcompress::Status tfc_status = (expr); \
    if (!tfc_status.ok()) return tfc_status;  \
  } while (false)

// Declares or assigns `lhs` from a Result, or returns its status.
#define TFC_ASSIGN_OR_RETURN(lhs, expr) \
  TFC_ASSIGN_OR_RETURN_IMPL(TFC_CONCAT(tfc_result_, __LINE__), lhs, expr)
#define TFC_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                              \
  if (!result.ok()) return result.status();          \
  lhs = std::move(result.value())

#endif  // TFCOMPRESS_CORE_STATUS_H_
