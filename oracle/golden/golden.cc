#include "oracle/golden/golden.h"

#include <algorithm>

#include "common/file.h"
#include "common/sha256.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxTextBytes = 256;
constexpr int kVersion = 1;

// Reads one object of the file: takes its keys one by one and remembers the first thing that is wrong.
class ObjectReader {
 public:
  ObjectReader(const ordered_json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) Fail("", "must be an object");
  }

  // A line of text that can be shown as it is.
  std::string Text(const char* key, bool may_be_empty = false) {
    const ordered_json* field = Take(key);
    if (field == nullptr) return "";
    if (!field->is_string()) return Fail(key, "must be a string"), "";
    const auto& text = field->get_ref<const std::string&>();
    const bool printable =
        std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (text.size() > kMaxTextBytes || !printable || (text.empty() && !may_be_empty)) {
      return Fail(key, fmt::format("must be one line of 1 to {} bytes", kMaxTextBytes)), "";
    }
    return text;
  }
  std::string Hash(const char* key) {
    const std::string text = Text(key);
    const bool is_hash = text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!is_hash) Fail(key, "must be a SHA-256 in 64 lower-case hexadecimal digits");
    return text;
  }
  std::string Time(const char* key) {
    const std::string text = Text(key), pattern = "0000-00-00T00:00:00Z";
    bool is_time = text.size() == pattern.size();
    for (size_t i = 0; is_time && i < text.size(); ++i) {
      is_time = pattern[i] == '0' ? text[i] >= '0' && text[i] <= '9' : text[i] == pattern[i];
    }
    if (!is_time) Fail(key, "must be a time as in 2026-11-30T10:15:00Z");
    return text;
  }
  int Number(const char* key) {
    const ordered_json* field = Take(key);
    if (field == nullptr) return 0;
    if (!field->is_number_unsigned() || field->get<uint64_t>() > 0x7fffffff) {
      return Fail(key, "must be an integer from 0 to 2^31 - 1"), 0;
    }
    return field->get<int>();
  }
  MemoryImage Words(const char* key) {
    MemoryImage words;
    const ordered_json* field = Take(key);
    if (field == nullptr) return words;
    if (!field->is_array() || field->empty()) return Fail(key, "must be a list of at least one word"), words;
    words.reserve(field->size());
    for (const ordered_json& word : *field) {
      if (!word.is_number_unsigned() || word.get<uint64_t>() > 0xffffffff) {
        return Fail(key, "must hold integers from 0 to 2^32 - 1"), MemoryImage();
      }
      words.push_back(word.get<uint32_t>());
    }
    return words;
  }
  const ordered_json& Any(const char* key) {
    static const ordered_json kNone;
    const ordered_json* field = Take(key);
    return field == nullptr ? kNone : *field;
  }

  void Fail(const std::string& key, const std::string& what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(fmt::format("{}{}: {}", place_, key, what));
  }
  // After everything was taken: what went wrong, or a key that nobody knows.
  absl::Status Finish() {
    if (object_.is_object() && object_.size() != taken_.size()) {
      for (const auto& [key, value] : object_.items()) {
        const bool known = std::find(taken_.begin(), taken_.end(), key) != taken_.end();
        if (!known) Fail("", fmt::format("unknown key \"{}\"", key.substr(0, kMaxTextBytes)));
      }
    }
    return status_;
  }

 private:
  const ordered_json* Take(const char* key) {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    if (found == object_.end()) return Fail(key, "is missing"), nullptr;
    taken_.push_back(key);
    return &*found;
  }

  const ordered_json& object_;
  std::string place_;
  std::vector<std::string> taken_;
  absl::Status status_;
};

ordered_json DeviceToJson(const CudaDevice& device) {
  return {{"engine", "native-cuda"},
          {"name", device.name},
          {"compute_capability", device.compute_capability},
          {"cuda_version", device.cuda_version},
          {"driver_version", device.driver_version},
          {"multiprocessors", device.multiprocessors},
          {"sm_clock_khz", device.sm_clock_khz},
          {"memory_clock_khz", device.memory_clock_khz}};
}

absl::StatusOr<CudaDevice> DeviceFromJson(const ordered_json& json, const std::string& place) {
  ObjectReader reader(json, place);
  CudaDevice device;
  if (reader.Text("engine") != "native-cuda") reader.Fail("engine", "must be native-cuda");
  device.name = reader.Text("name");
  device.compute_capability = reader.Text("compute_capability");
  device.cuda_version = reader.Text("cuda_version");
  device.driver_version = reader.Text("driver_version", /*may_be_empty=*/true);
  device.multiprocessors = reader.Number("multiprocessors");
  device.sm_clock_khz = reader.Number("sm_clock_khz");
  device.memory_clock_khz = reader.Number("memory_clock_khz");
  QGPU_RETURN_IF_ERROR(reader.Finish());
  return device;
}

ordered_json ResultToJson(const GoldenResult& result) {
  return {{"case", result.case_id},
          {"entry", result.entry},
          {"source_sha256", result.key.source},
          {"ptx_sha256", result.key.ptx},
          {"launch_sha256", result.key.launch},
          {"ptx_version", result.ptx_version},
          {"ptx_target", result.ptx_target},
          {"memory", result.memory}};
}

absl::StatusOr<GoldenResult> ResultFromJson(const ordered_json& json, const std::string& place) {
  ObjectReader reader(json, place);
  GoldenResult result;
  result.case_id = reader.Text("case");
  result.entry = reader.Text("entry");
  result.key = {reader.Hash("source_sha256"), reader.Hash("ptx_sha256"), reader.Hash("launch_sha256")};
  result.ptx_version = reader.Text("ptx_version");
  result.ptx_target = reader.Text("ptx_target");
  result.memory = reader.Words("memory");
  QGPU_RETURN_IF_ERROR(reader.Finish());
  return result;
}

}  // namespace

GoldenKey KeyOf(const LaunchSpec& spec, const std::string& ptx, const std::string& entry) {
  LaunchSpec launch = spec;
  launch.kernel = entry;
  launch.token_budget = LaunchSpec().token_budget;
  for (KernelArgument& argument : launch.arguments) argument.is_output = false;
  return {Sha256Hex(spec.source.text), Sha256Hex(ptx), Sha256Hex(LaunchSpecToJson(launch))};
}

std::string GoldenToJson(const GoldenFile& file) {
  const ordered_json suite = {{"name", file.suite}, {"sha256", file.suite_hash}};
  // One result a line, so that two files can be compared line by line.
  std::string text = fmt::format(
      "{{\"format\": \"qgpu-golden\", \"version\": {},\n \"recorded\": {},\n \"recorder\": {},\n \"suite\": {},\n"
      " \"device\": {},\n \"results\": [",
      kVersion, ordered_json(file.recorded).dump(), ordered_json(file.recorder).dump(), suite.dump(),
      DeviceToJson(file.device).dump());
  const char* separator = "\n  ";
  for (const GoldenResult& result : file.results) {
    text += separator + ResultToJson(result).dump();
    separator = ",\n  ";
  }
  return text + "]}\n";
}

absl::StatusOr<GoldenFile> GoldenFromJson(const std::string& json, const std::string& origin) {
  if (json.size() > kMaxGoldenBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} bytes, a golden file has at most {}", origin, json.size(), kMaxGoldenBytes));
  }
  const ordered_json value = ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  const std::string place = origin + ": ";
  if (!value.is_object()) return absl::InvalidArgumentError(place + "not a JSON object");
  ObjectReader reader(value, place);
  GoldenFile file;
  if (reader.Text("format") != "qgpu-golden") reader.Fail("format", "must be qgpu-golden");
  if (reader.Number("version") != kVersion) {
    reader.Fail("version", fmt::format("this program reads version {} only", kVersion));
  }
  file.recorded = reader.Time("recorded");
  file.recorder = reader.Text("recorder");
  const ordered_json &suite = reader.Any("suite"), &device = reader.Any("device"), &results = reader.Any("results");
  if (!results.is_array() || results.size() > kMaxGoldenResults) {
    reader.Fail("results", fmt::format("must be a list of at most {} results", kMaxGoldenResults));
  }
  QGPU_RETURN_IF_ERROR(reader.Finish());
  ObjectReader of_suite(suite, place + "suite.");
  file.suite = of_suite.Text("name");
  file.suite_hash = of_suite.Hash("sha256");
  QGPU_RETURN_IF_ERROR(of_suite.Finish());
  QGPU_ASSIGN_OR_RETURN(file.device, DeviceFromJson(device, place + "device."));
  for (const ordered_json& result : results) {
    const std::string result_place = fmt::format("{}results[{}].", place, file.results.size());
    QGPU_ASSIGN_OR_RETURN(file.results.emplace_back(), ResultFromJson(result, result_place));
  }
  return file;
}

absl::StatusOr<GoldenAnswers> GoldenAnswers::Read(const std::string& path) {
  QGPU_ASSIGN_OR_RETURN(const std::string json, ReadFile(path, kMaxGoldenBytes));
  GoldenAnswers answers;
  answers.path_ = path;
  QGPU_ASSIGN_OR_RETURN(answers.file_, GoldenFromJson(json, path));
  for (size_t i = 0; i < answers.file_.results.size(); ++i) {
    const auto [other, is_new] = answers.by_key_.emplace(answers.file_.results[i].key, i);
    const MemoryImage& memory = answers.file_.results[i].memory;
    if (!is_new && answers.file_.results[other->second].memory != memory) {
      return absl::InvalidArgumentError(
          fmt::format("{}: results[{}] and results[{}] are of the same launch and differ", path, other->second, i));
    }
  }
  answers.witness_ = fmt::format("golden (recorded {} on {}; file {})", answers.file_.recorded,
                                 Describe(answers.file_.device), Sha256Hex(json).substr(0, 12));
  return answers;
}

absl::StatusOr<const GoldenResult*> GoldenAnswers::Find(const LaunchSpec& spec, const std::string& ptx,
                                                        const std::string& entry) const {
  const GoldenKey key = KeyOf(spec, ptx, entry);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    const GoldenResult& result = file_.results[found->second];
    // Buffers may be aligned to 16 bytes; how much that takes depends on the kernel's order.
    const size_t least = LayOutArena(spec.arguments).words.size(), most = least + 3 * spec.arguments.size();
    if (result.memory.size() >= least && result.memory.size() <= most) return &result;
    return absl::InvalidArgumentError(fmt::format("{}: the result of {} has {} words, the launch has {} to {}", path_,
                                                  result.case_id, result.memory.size(), least, most));
  }
  const auto any = [this](const auto& matches) {
    return std::any_of(file_.results.begin(), file_.results.end(),
                       [&](const GoldenResult& result) { return matches(result.key); });
  };
  std::string why = "it has no result for this source";
  if (any([&](const GoldenKey& other) { return other.source == key.source && other.ptx == key.ptx; })) {
    why = "it has this kernel, but not with these arguments and this launch shape";
  } else if (any([&](const GoldenKey& other) { return other.source == key.source; })) {
    why = "it has this source, but compiled to other PTX; record it again with this compiler";
  }
  return absl::NotFoundError(fmt::format("not in the golden file {}: {}", path_, why));
}

}  // namespace qgpu
