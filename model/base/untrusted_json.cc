#include "model/base/untrusted_json.h"

#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "common/file.h"

namespace qgpu {
namespace {

using nlohmann::json;

// Watches the parser: keys of the objects that are open, and how deep it is.
class JsonGuard {
 public:
  // Whether the value may be kept; what lies too deep is dropped at once.
  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    if (depth > kMaxJsonDepth) return Fail(fmt::format("nested deeper than {} levels", kMaxJsonDepth));
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end && !keys_.empty()) keys_.pop_back();
    if (event == json::parse_event_t::key && !keys_.empty()) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) return Fail(fmt::format("key \"{}\" is given twice", PrintableName(key)));
    }
    return true;
  }
  const std::string& problem() const { return problem_; }

 private:
  bool Fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }
  std::vector<std::set<std::string>> keys_;
  std::string problem_;
};

}  // namespace

absl::StatusOr<json> ParseUntrustedJson(std::string_view text) {
  JsonGuard guard;
  try {
    json value = json::parse(text.begin(), text.end(), [&guard](int depth, json::parse_event_t event, json& parsed) {
      return guard(depth, event, parsed);
    });
    if (!guard.problem().empty()) return absl::InvalidArgumentError(guard.problem());
    return value;
  } catch (const json::parse_error& error) {
    return absl::InvalidArgumentError(fmt::format("not valid JSON from byte {} on", error.byte));
  } catch (const json::exception&) {
    return absl::InvalidArgumentError("holds a number that is out of range");
  }
}

absl::StatusOr<std::string> ReadUntrustedText(const std::string& path, size_t max_bytes) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return absl::InvalidArgumentError(fmt::format("{} is not a regular file", path));
  }
  return ReadFile(path, max_bytes);
}

std::string PrintableName(std::string_view name) {
  constexpr size_t kLongest = 120;
  std::string text(name.substr(0, kLongest));
  for (char& c : text) c = c >= ' ' && c <= '~' ? c : '?';
  return name.size() > kLongest ? text + "..." : text;
}

}  // namespace qgpu
