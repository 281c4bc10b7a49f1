// How long the tokenizer takes for a text, and for its ids back: tokenizer_bench DIRECTORY TEXT_FILE ROUNDS. Prints
// JSON with the seconds of each round (the process's time on the CPU, one thread) and a hash of the ids.
// bench/tokenizers_bench.py runs it beside the `tokenizers` library.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "common/exit_code.h"
#include "common/file.h"
#include "common/sha256.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

double Seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

absl::StatusOr<nlohmann::json> Run(const std::string& directory, const std::string& file, int rounds) {
  const double start = Seconds();
  QGPU_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Open(directory));
  nlohmann::json report = {
      {"load_s", Seconds() - start}, {"encode_s", nlohmann::json::array()}, {"decode_s", nlohmann::json::array()}};
  QGPU_ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  for (int round = 0; round < rounds; ++round) {
    const double before = Seconds();
    QGPU_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer->Encode(text));
    const double between = Seconds();
    const std::string back = tokenizer->Decode(ids);
    report["encode_s"].push_back(between - before);
    report["decode_s"].push_back(Seconds() - between);
    report["ids"] = ids.size();
    report["ids_sha256"] = Sha256Hex(ids.data(), ids.size() * sizeof ids[0]);
    report["text_sha256"] = Sha256Hex(back);
  }
  return report;
}

}  // namespace
}  // namespace qgpu

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: tokenizer_bench DIRECTORY TEXT_FILE ROUNDS\n");
    return qgpu::kExitUsage;
  }
  const auto report = qgpu::Run(argv[1], argv[2], std::atoi(argv[3]));
  if (report.ok()) {
    std::printf("%s\n", report->dump().c_str());
    return qgpu::kExitGood;
  }
  std::fprintf(stderr, "tokenizer_bench: %s\n", std::string(report.status().message()).c_str());
  return qgpu::ExitCodeFor(report.status());
}
