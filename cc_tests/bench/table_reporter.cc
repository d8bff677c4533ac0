#include "table_reporter.h"

#include <cstdio>
#include <sstream>

namespace tfcompress {
namespace {

constexpr char kDirections[][7] = {"encode", "decode"};

double CounterOf(const benchmark::BenchmarkReporter::Run& run, const char* name) {
  const auto found = run.counters.find(name);
  return found == run.counters.end() ? 0 : found->second.value;
}

void PrintCell(bool has_value, int width, int precision, double value) {
  if (has_value) {
    std::printf("%*.*f", width, precision, value);
  } else {
    std::printf("%*s", width, "");
  }
}

}  // namespace

bool TableReporter::ReportContext(const Context& context) {
  std::printf(
      "%d CPUs at %.0f MHz, 1 thread, gcc-compatible %s; memcpy of the dense tensor: %.2f ms\n",
      context.cpu_info.num_cpus, context.cpu_info.cycles_per_second / 1e6, __VERSION__,
      memcpy_ns_ / 1e6);
  return true;
}

void TableReporter::ReportRuns(const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    if (run.error_occurred) {
      std::printf("%s: %s\n", run.benchmark_name().c_str(), run.error_message.c_str());
      continue;
    }
    if (run.run_type != Run::RT_Iteration) continue;
    std::istringstream name(run.run_name.function_name);
    std::string kind, codec, density, direction;
    std::getline(name, kind, '/');
    std::getline(name, codec, '/');
    std::getline(name, density, '/');
    std::getline(name, direction, '/');
    if (lines_.find(kind) == lines_.end()) kinds_.push_back(kind);
    std::vector<Line>& lines = lines_[kind];
    if (lines.empty() || lines.back().codec != codec || lines.back().density != density) {
      lines.push_back({codec, density, {}, {}, 0, 0, 0});
    }
    Line& line = lines.back();
    line.ns[direction] = run.GetAdjustedRealTime();
    line.items[direction] = CounterOf(run, kItemsCounter);
    line.num_elements = CounterOf(run, kElementsCounter);
    line.bits = CounterOf(run, kBitsCounter);
    line.limit = CounterOf(run, kLimitCounter);
  }
}

void TableReporter::PrintLine(const Line& line) const {
  std::printf("%-52s %7s", line.codec.c_str(), line.density.c_str());
  for (const char* direction : kDirections) {
    const auto found = line.ns.find(direction);
    const bool has_value = found != line.ns.end();
    const double ns = has_value ? found->second : 1;
    const double items = has_value ? line.items.at(direction) : 0;
    PrintCell(has_value, 11, 2, ns / line.num_elements);
    PrintCell(has_value, 9, 2, ns / memcpy_ns_);
    PrintCell(items > 0, 8, 0, 1e3 * items / ns);
  }
  PrintCell(line.bits > 0, 9, 2, line.bits);
  PrintCell(line.limit > 0, 9, 2, line.limit);
  std::printf("\n");
}

void TableReporter::Finalize() {
  for (const std::string& kind : kinds_) {
    std::printf("\n%-52s %7s%11s%9s%8s%11s%9s%8s%9s%9s\n", kind.c_str(), "density", "enc ns/n",
                "memcpys", "M k/s", "dec ns/n", "memcpys", "M k/s", "bits/k", "limit");
    for (const Line& line : lines_[kind]) PrintLine(line);
  }
}

}  // namespace tfcompress
