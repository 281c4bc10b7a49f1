// JSON that is valid whatever bytes its strings hold: names of files, messages about them. (dump() alone throws.)
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace qgpu {

// `value` as text, in one line or indented; bytes of strings that are no UTF-8 become U+FFFD.
template <typename Json>
std::string JsonText(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

// `text` with what is no UTF-8 replaced by U+FFFD.
inline std::string ValidUtf8(const std::string& text) {
  return nlohmann::json::parse(JsonText(nlohmann::json(text))).get<std::string>();
}

}  // namespace qgpu
