#include "model/text/tokenizer_json.h"

#include <utility>

#include "common/json_text.h"
#include "model/base/untrusted_json.h"

namespace qgpu {
namespace {

using nlohmann::json;

// What nlohmann's parser tells, kept as a tree, but for the entries of the two lists. Functions return whether to go
// on.
class Reader : public nlohmann::json_sax<json> {
 public:
  explicit Reader(TokenizerJson& result) : result_(result) {}

  bool null() override { return Scalar(nullptr); }
  bool boolean(bool value) override { return Scalar(value); }
  bool number_integer(number_integer_t value) override { return Scalar(value); }
  bool number_unsigned(number_unsigned_t value) override { return Scalar(value); }
  bool number_float(number_float_t value, const string_t&) override { return Scalar(value); }
  bool binary(binary_t&) override { return Fail("not valid JSON"); }
  bool string(string_t& value) override {
    if (place_ == Place::kMerges) return Merge(value);
    if (place_ == Place::kPair) {
      pair_.push_back(std::move(value));
      return true;
    }
    return Scalar(std::move(value));
  }
  bool key(string_t& name) override {
    if (place_ != Place::kVocabulary && open_.back()->contains(name)) {
      return Fail(fmt::format("key \"{}\" is given twice", PrintableName(name)));
    }
    name_ = std::move(name);
    return true;
  }
  bool start_object(std::size_t) override { return Open(json::object()); }
  bool start_array(std::size_t) override {
    if (place_ != Place::kMerges) return Open(json::array());
    place_ = Place::kPair;
    return true;
  }
  bool end_object() override { return Close(); }
  bool end_array() override {
    if (place_ != Place::kPair) return Close();
    place_ = Place::kMerges;
    if (pair_.size() != 2) return FailMerge("not a pair of strings");
    result_.merges.push_back({std::move(pair_[0]), std::move(pair_[1])});
    pair_.clear();
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    const bool is_range = dynamic_cast<const json::out_of_range*>(&error) != nullptr;
    return Fail(is_range ? "holds a number that is out of range"
                         : fmt::format("not valid JSON from byte {} on", position));
  }

  const std::string& problem() const { return problem_; }

 private:
  enum class Place { kElsewhere, kVocabulary, kMerges, kPair };

  bool Fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }
  bool FailMerge(const char* what) { return Fail(fmt::format("model.merges[{}]: {}", result_.merges.size(), what)); }

  // Where a value goes: the document, or the object or list that is open.
  json& Slot(json value) {
    if (open_.empty()) return result_.document = std::move(value);
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return parent.back();
    }
    return parent[name_] = std::move(value);
  }

  bool Scalar(json value) {
    if (place_ == Place::kMerges) return FailMerge("neither a string nor a pair");
    if (place_ == Place::kPair) return FailMerge("not a pair of strings");
    if (place_ == Place::kElsewhere) {
      Slot(std::move(value));
      return true;
    }
    const absl::StatusOr<int32_t> id = TokenIdIn("model.vocab", value);
    if (!id.ok()) return Fail(std::string(id.status().message()));
    result_.vocabulary.push_back({std::move(name_), *id});
    return true;
  }

  bool Open(json value) {
    if (place_ == Place::kVocabulary)
      return Fail(fmt::format("model.vocab: the id {} is not a whole number", ShownJson(value)));
    if (place_ == Place::kMerges) return FailMerge("neither a string nor a pair");
    if (place_ == Place::kPair) return FailMerge("not a pair of strings");
    if (open_.size() >= static_cast<size_t>(kMaxJsonDepth)) {
      return Fail(fmt::format("nested deeper than {} levels", kMaxJsonDepth));
    }
    const bool in_model = open_.size() == 2 && open_[0]->is_object() && open_[1]->is_object() &&
                          open_[0]->contains("model") && &open_[0]->at("model") == open_[1];
    if (in_model && name_ == "vocab" && value.is_object()) place_ = Place::kVocabulary;
    if (in_model && name_ == "merges" && value.is_array()) place_ = Place::kMerges;
    open_.push_back(&Slot(std::move(value)));
    return true;
  }

  bool Close() {
    place_ = Place::kElsewhere;
    open_.pop_back();
    return true;
  }

  bool Merge(const std::string& text) {
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return FailMerge("not two tokens with one space between");
    }
    result_.merges.push_back({text.substr(0, space), text.substr(space + 1)});
    return true;
  }

  TokenizerJson& result_;
  // From the document inwards. They stay where they are: a list grows only while nothing in it is open.
  std::vector<json*> open_;
  std::string name_;  // of the next value in an object
  Place place_ = Place::kElsewhere;
  std::vector<std::string> pair_;
  std::string problem_;
};

}  // namespace

absl::StatusOr<TokenizerJson> ReadTokenizerJson(std::string_view text) {
  TokenizerJson result;
  Reader reader(result);
  if (!json::sax_parse(text.begin(), text.end(), &reader)) return absl::InvalidArgumentError(reader.problem());
  return result;
}

absl::StatusOr<int32_t> TokenIdIn(const std::string& place, const json& value) {
  const auto refuse = [&](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("{}: the id {} is not {}", place, ShownJson(value), what));
  };
  if (!value.is_number_integer()) return refuse("a whole number");
  const bool good = value.is_number_unsigned() ? value.get<uint64_t>() <= kMaxTokenId
                                               : value.get<int64_t>() >= 0 && value.get<int64_t>() <= kMaxTokenId;
  if (!good) return refuse(fmt::format("between 0 and {}", kMaxTokenId));
  return value.get<int32_t>();
}

std::string ShownJson(const json& value) {
  if (value.is_object() || value.is_array()) return fmt::format("an {}", value.type_name());
  std::string text = JsonText(value);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

}  // namespace qgpu
