// Prints the results of the codec benchmark as tables, one for each kind of codec.
#ifndef TFCOMPRESS_CC_TESTS_BENCH_TABLE_REPORTER_H_
#define TFCOMPRESS_CC_TESTS_BENCH_TABLE_REPORTER_H_

#include <benchmark/benchmark.h>

#include <map>
#include <string>
#include <vector>

namespace tfcompress {

// Names of the counters that benchmarks set.
inline constexpr char kElementsCounter[] = "n";
inline constexpr char kBitsCounter[] = "bits";    // Bits per sent element.
inline constexpr char kLimitCounter[] = "limit";  // Lower limit of the bits: log2 C(n, k) / k.
inline constexpr char kItemsCounter[] =
    "k";  // Keys or values per iteration; 0 leaves the column empty.

// Collects runs named "kind/codec/density/direction" (direction: encode or decode) and prints one
// line for each codec and density.
class TableReporter : public benchmark::BenchmarkReporter {
 public:
  // Nanoseconds that a memcpy of the dense tensor takes: the unit of two columns.
  explicit TableReporter(double memcpy_ns) : memcpy_ns_(memcpy_ns) {}

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

 private:
  struct Line {
    std::string codec;
    std::string density;
    std::map<std::string, double> ns;     // By direction.
    std::map<std::string, double> items;  // By direction.
    double num_elements = 0;
    double bits = 0;
    double limit = 0;
  };
  void PrintLine(const Line& line) const;

  double memcpy_ns_;
  std::vector<std::string> kinds_;  // In the order of their first run.
  std::map<std::string, std::vector<Line>> lines_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_BENCH_TABLE_REPORTER_H_
