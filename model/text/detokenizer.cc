#include "model/text/detokenizer.h"

#include "model/text/utf8.h"

namespace qgpu {

std::string StreamingDetokenizer::Push(int32_t id) {
  if (skip_special_ && tokenizer_->IsSpecial(id)) return "";
  held_ += tokenizer_->Bytes(id);
  std::string text;
  size_t at = 0;
  while (at < held_.size()) {
    const std::string_view rest = std::string_view(held_).substr(at);
    const Utf8Front front = ReadUtf8Front(rest);
    if (front.kind == Utf8Front::Kind::kCut) break;
    text += front.kind == Utf8Front::Kind::kWhole ? rest.substr(0, front.size) : kReplacementCharacter;
    at += front.size;
  }
  held_.erase(0, at);
  return text;
}

std::string StreamingDetokenizer::Finish() {
  const bool cut = !held_.empty();
  held_.clear();
  return cut ? std::string(kReplacementCharacter) : "";
}

}  // namespace qgpu
