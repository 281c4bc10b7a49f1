#include "cli/token_ids.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "model/base/untrusted_json.h"

namespace qgpu {
namespace {

constexpr std::string_view kSeparators = ", \t\r\n";

absl::Status Refuse(const std::string& why) {
  return absl::InvalidArgumentError(
      fmt::format("the input is no list of token ids: {}; give numbers, [1, 2] or {{\"ids\": [1, 2]}}", why));
}

absl::StatusOr<std::vector<int64_t>> ParseJsonIds(std::string_view text) {
  absl::StatusOr<nlohmann::json> json = ParseUntrustedJson(text);
  if (!json.ok()) return Refuse(std::string(json.status().message()));
  const nlohmann::json* list = &*json;
  if (list->is_object()) {
    if (!list->contains("ids")) return Refuse("an object without \"ids\"");
    list = &list->at("ids");
  }
  if (!list->is_array()) return Refuse("\"ids\" is no list");
  std::vector<int64_t> ids;
  for (const nlohmann::json& id : *list) {
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > INT64_MAX)) {
      return Refuse(fmt::format("number {} is {}", ids.size() + 1,
                                id.is_primitive() ? PrintableName(id.dump(-1, ' ', true)) : id.type_name()));
    }
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ParseTokenIds(std::string_view text) {
  std::vector<int64_t> ids;
  size_t at = text.find_first_not_of(kSeparators);
  if (at != text.npos && (text[at] == '[' || text[at] == '{')) return ParseJsonIds(text);
  while (at != text.npos) {
    const size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    int64_t id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || stop != word.data() + word.size()) {
      return Refuse(fmt::format("number {} is \"{}\"", ids.size() + 1, PrintableName(word)));
    }
    ids.push_back(id);
    at = text.find_first_not_of(kSeparators, end);
  }
  return ids;
}

}  // namespace qgpu
