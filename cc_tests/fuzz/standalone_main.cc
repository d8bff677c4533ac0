// Runs a fuzzer without libFuzzer, which gcc does not have.
//   frame_fuzzer FILE|FOLDER...             replays files
//   frame_fuzzer [-runs=N] [-seed=S]        feeds N mutations of the golden frames
//                [-save=FILE]               keeps the current input there, for a crash
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/hash.h"
#include "core/span.h"
#include "frame_fields.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tfcompress {
namespace {

Bytes ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

// The *.bin files of a folder and of those in it, in a fixed order; or the file itself.
std::vector<Bytes> ReadInputs(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {ReadFile(path)};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Bytes> inputs;
  for (const auto& file : files) inputs.push_back(ReadFile(file));
  return inputs;
}

void FlipBits(Random* random, Bytes* bytes) {
  for (uint32_t i = 1 + random->Below(8); i > 0; --i) {
    (*bytes)[random->Below(bytes->size())] ^= static_cast<unsigned char>(1u << random->Below(8));
  }
}

// Numbers that lie at the edges of what a length, a count or a float can be.
void WriteEdge(Random* random, Bytes* bytes) {
  static const uint32_t edges[] = {0,          1,          2,          0xFF,
                                   0xFFFF,     0x10000,    0x7FFFFFFF, 0x80000000,
                                   0xFFFFFFFF, 0x7F800000, 0x7FC00000, 0x7F7FFFFF};
  const uint32_t edge = edges[random->Below(sizeof(edges) / sizeof(edges[0]))];
  const size_t num_bytes = size_t{1} << random->Below(3);
  if (bytes->size() < num_bytes) return;
  const size_t offset = random->Below(static_cast<uint32_t>(bytes->size() - num_bytes + 1));
  std::copy_n(reinterpret_cast<const unsigned char*>(&edge), num_bytes, bytes->begin() + offset);
}

// The head of one input and the tail of another.
void Splice(const Bytes& other, Random* random, Bytes* bytes) {
  bytes->resize(random->Below(static_cast<uint32_t>(bytes->size() + 1)));
  const size_t begin = random->Below(static_cast<uint32_t>(other.size() + 1));
  bytes->insert(bytes->end(), other.begin() + begin, other.end());
}

void Mutate(const std::vector<Bytes>& inputs, Random* random, Bytes* bytes) {
  const Bytes& other = inputs[random->Below(static_cast<uint32_t>(inputs.size()))];
  for (uint32_t i = 1 + random->Below(3); i > 0; --i) {
    if (bytes->empty()) bytes->push_back(0);
    switch (random->Below(6)) {
      case 0:
      case 1:
        FlipBits(random, bytes);
        break;
      case 2:
        WriteEdge(random, bytes);
        break;
      case 3:
        bytes->resize(random->Below(static_cast<uint32_t>(bytes->size() + 1)));
        break;
      case 4:
        Splice(other, random, bytes);
        break;
      case 5:  // Sections of one codec under the header of another.
        std::copy_n(other.begin(),
                    std::min({other.size(), bytes->size(), frame_fields::kHeaderBytes}),
                    bytes->begin());
        break;
    }
  }
  // Also the reader as a packet then gets past the checksum.
  if (bytes->size() >= frame_fields::kHeaderBytes && random->Below(2) == 0) RepairChecksum(bytes);
}

// As libFuzzer's -timeout: the signal ends the process.
constexpr unsigned kMaxSeconds = 60;

void Run(const Bytes& input) {
  alarm(kMaxSeconds);
  LLVMFuzzerTestOneInput(input.data(), input.size());
  alarm(0);
}

int RunMutations(int64_t num_runs, uint64_t seed, const std::string& save_path) {
  const auto folder = std::filesystem::path(TFC_SOURCE_DIR) / "cc_tests" / "golden";
  const std::vector<Bytes> inputs = ReadInputs(folder);
  if (inputs.empty()) {
    std::fprintf(stderr, "no golden frames in %s\n", folder.c_str());
    return 1;
  }
  Random random(seed);
  for (int64_t run = 0; run < num_runs; ++run) {
    Bytes input = inputs[random.Below(static_cast<uint32_t>(inputs.size()))];
    Mutate(inputs, &random, &input);
    if (!save_path.empty()) {
      std::ofstream(save_path, std::ios::binary)
          .write(reinterpret_cast<const char*>(input.data()), input.size());
    }
    Run(input);
  }
  std::printf("%lld mutations of %zu inputs\n", static_cast<long long>(num_runs), inputs.size());
  return 0;
}

}  // namespace
}  // namespace tfcompress

int main(int argc, char** argv) {
  int64_t num_runs = 20000;
  uint64_t seed = 1;
  std::string save_path;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("-runs=", 0) == 0) {
      num_runs = std::atoll(argv[i] + 6);
    } else if (argument.rfind("-seed=", 0) == 0) {
      seed = std::strtoull(argv[i] + 6, nullptr, 10);
    } else if (argument.rfind("-save=", 0) == 0) {
      save_path = argument.substr(6);
    } else {
      paths.push_back(argument);
    }
  }
  if (paths.empty()) return tfcompress::RunMutations(num_runs, seed, save_path);
  size_t num_inputs = 0;
  for (const std::string& path : paths) {
    for (const tfcompress::Bytes& input : tfcompress::ReadInputs(path)) {
      tfcompress::Run(input);
      ++num_inputs;
    }
  }
  std::printf("replayed %zu inputs\n", num_inputs);
  return 0;
}
