#include "model/text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "model/text/jinja/python_text.h"
#include "nlohmann/json.hpp"

namespace qgpu::jinja {
namespace {

absl::Status Error(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::StatusOr<Value> FromJsonAt(const nlohmann::ordered_json& json, int depth) {
  if (depth >= kMostNestedValues) return Error(fmt::format("values nested more than {} deep", kMostNestedValues));
  switch (json.type()) {
    case nlohmann::json::value_t::boolean:
      return Value(json.get<bool>());
    case nlohmann::json::value_t::number_unsigned:
      if (json.get<uint64_t>() > INT64_MAX)
        return Error(fmt::format("the number {} is beyond 64 bits", json.get<uint64_t>()));
      return Value(json.get<int64_t>());
    case nlohmann::json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case nlohmann::json::value_t::number_float:
      return Value(json.get<double>());
    case nlohmann::json::value_t::string:
      return Value(json.get<std::string>());
    case nlohmann::json::value_t::array: {
      std::vector<Value> elements;
      for (const auto& element : json) {
        QGPU_ASSIGN_OR_RETURN(Value value, FromJsonAt(element, depth + 1));
        elements.push_back(std::move(value));
      }
      return Value::MakeList(std::move(elements));
    }
    case nlohmann::json::value_t::object: {
      auto dict = std::make_shared<Dict>();
      for (const auto& [key, element] : json.items()) {
        QGPU_ASSIGN_OR_RETURN(Value value, FromJsonAt(element, depth + 1));
        dict->Set(key, std::move(value));
      }
      return Value(std::shared_ptr<const Dict>(std::move(dict)));
    }
    default:
      return Value::None();
  }
}

template <typename T>
int Sign(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

}  // namespace

Value Value::MakeList(std::vector<Value> elements, bool tuple) {
  int depth = 0;
  for (const Value& element : elements) depth = std::max(depth, element.Depth());
  return Value(std::make_shared<const List>(List{std::move(elements), tuple, depth + 1}));
}

int Value::Depth() const {
  if (IsList()) return std::get<std::shared_ptr<const List>>(value_)->depth;
  if (IsDict()) return AsDict().depth;
  const auto* const object = AsObject<Object>();
  return object == nullptr ? 0 : object->Depth();
}

const std::vector<Value>& Value::AsList() const { return std::get<std::shared_ptr<const List>>(value_)->elements; }
bool Value::IsTuple() const { return IsList() && std::get<std::shared_ptr<const List>>(value_)->tuple; }

bool Value::Truth() const {
  if (IsUndefined() || IsNone()) return false;
  if (IsNumber()) return IsFloat() ? AsDouble() != 0 : AsInteger() != 0;
  if (IsString()) return !AsString().empty();
  if (IsList()) return !AsList().empty();
  if (IsDict()) return !AsDict().entries.empty();
  return true;
}

std::string Value::TypeName() const {
  if (IsUndefined()) return "undefined";
  if (IsNone()) return "None";
  if (IsBool()) return "bool";
  if (IsInteger()) return "int";
  if (IsFloat()) return "float";
  if (IsString()) return "str";
  if (IsList()) return IsTuple() ? "tuple" : "list";
  if (IsDict()) return "dict";
  return AsObject<Object>()->TypeName();
}

absl::Status Budget::ChargeElements(size_t count) {
  return Charge(std::min<size_t>(count, kMostBytes) * sizeof(Value));
}

const Value* Dict::Find(const std::string& key) const {
  const auto index = by_string.find(key);
  return index == by_string.end() ? nullptr : &entries[index->second].second;
}

absl::StatusOr<const Value*> Dict::Find(const Value& key, Budget& budget) const {
  if (key.IsString()) {
    QGPU_RETURN_IF_ERROR(budget.Read(key.AsString().size()));
    return Find(key.AsString());
  }
  if (entries.size() == by_string.size()) return nullptr;
  for (const auto& [own, value] : entries) {
    QGPU_ASSIGN_OR_RETURN(const bool same, Equal(own, key, budget));
    if (same) return &value;
  }
  return nullptr;
}

void Dict::Put(const Value* known, const Value& key, Value value) {
  depth = std::max({depth, key.Depth() + 1, value.Depth() + 1});
  if (known != nullptr) {
    *const_cast<Value*>(known) = std::move(value);
    return;
  }
  if (key.IsString()) by_string[key.AsString()] = entries.size();
  entries.emplace_back(key, std::move(value));
}

void Dict::Set(const std::string& key, Value value) { Put(Find(key), Value(key), std::move(value)); }

absl::Status Dict::Set(const Value& key, Value value, Budget& budget) {
  QGPU_ASSIGN_OR_RETURN(const Value* const known, Find(key, budget));
  Put(known, key, std::move(value));
  return absl::OkStatus();
}

namespace {

absl::StatusOr<bool> EqualLists(const std::vector<Value>& a, const std::vector<Value>& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    QGPU_ASSIGN_OR_RETURN(const bool same, Equal(a[i], b[i], budget));
    if (!same) return false;
  }
  return true;
}

absl::StatusOr<bool> EqualDicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    QGPU_ASSIGN_OR_RETURN(const Value* const other, b.Find(key, budget));
    if (other == nullptr) return false;
    QGPU_ASSIGN_OR_RETURN(const bool same, Equal(value, *other, budget));
    if (!same) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<bool> Equal(const Value& a, const Value& b, Budget& budget) {
  QGPU_RETURN_IF_ERROR(budget.Step());
  if (a.IsNumber() && b.IsNumber()) {
    return a.IsFloat() || b.IsFloat() ? a.AsDouble() == b.AsDouble() : a.AsInteger() == b.AsInteger();
  }
  if (a.IsString() && b.IsString()) {
    if (a.AsString().size() != b.AsString().size()) return false;
    QGPU_RETURN_IF_ERROR(budget.Read(a.AsString().size()));
    return a.AsString() == b.AsString();
  }
  if (a.IsUndefined() && b.IsUndefined()) return true;
  if (a.IsNone() && b.IsNone()) return true;
  if (a.IsList() && b.IsList()) {
    if (a.IsTuple() != b.IsTuple()) return false;
    return EqualLists(a.AsList(), b.AsList(), budget);
  }
  if (a.IsDict() && b.IsDict()) return EqualDicts(a.AsDict(), b.AsDict(), budget);
  const auto *left = a.AsObject<Object>(), *right = b.AsObject<Object>();
  return left != nullptr && left == right;
}

absl::StatusOr<int> Compare(const Value& a, const Value& b, Budget& budget) {
  if (a.IsNumber() && b.IsNumber()) {
    return a.IsFloat() || b.IsFloat() ? Sign(a.AsDouble(), b.AsDouble()) : Sign(a.AsInteger(), b.AsInteger());
  }
  // UTF-8 sorts as its code points do.
  if (a.IsString() && b.IsString()) {
    QGPU_RETURN_IF_ERROR(budget.Read(2 * std::min(a.AsString().size(), b.AsString().size())));
    return Sign(a.AsString(), b.AsString());
  }
  return Error(fmt::format("{} and {} have no order", a.TypeName(), b.TypeName()));
}

namespace {

// Text that is made piece by piece, and paid for before it grows.
struct Writer {
  Budget& budget;
  std::string out = {};

  absl::Status Add(std::string_view text) {
    QGPU_RETURN_IF_ERROR(budget.Grow(text.size()));
    out += text;
    return absl::OkStatus();
  }
};

struct ReprWriter : Writer {
  absl::Status Write(const Value& value) {
    QGPU_RETURN_IF_ERROR(budget.Step());
    if (value.IsUndefined()) return Add("Undefined");
    if (value.IsNone()) return Add("None");
    if (value.IsBool()) return Add(value.AsBool() ? "True" : "False");
    if (value.IsInteger()) return Add(fmt::format("{}", value.AsInteger()));
    if (value.IsFloat()) return Add(Repr(value.AsDouble()));
    if (value.IsSafe()) return Error("the text of a list with a string marked safe is not supported");
    if (value.IsString()) {
      QGPU_RETURN_IF_ERROR(budget.Read(value.AsString().size()));
      return Add(Repr(value.AsString()));
    }
    if (value.IsList()) return WriteList(value.AsList(), value.IsTuple());
    if (value.IsDict()) return WriteDict(value.AsDict());
    return Error(fmt::format("the text of a {} is not supported", value.TypeName()));
  }

  absl::Status WriteList(const std::vector<Value>& list, bool tuple) {
    QGPU_RETURN_IF_ERROR(Add(tuple ? "(" : "["));
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) QGPU_RETURN_IF_ERROR(Add(", "));
      QGPU_RETURN_IF_ERROR(Write(list[i]));
    }
    return Add(!tuple ? "]" : list.size() == 1 ? ",)" : ")");
  }

  absl::Status WriteDict(const Dict& dict) {
    QGPU_RETURN_IF_ERROR(Add("{"));
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (i > 0) QGPU_RETURN_IF_ERROR(Add(", "));
      QGPU_RETURN_IF_ERROR(Write(dict.entries[i].first));
      QGPU_RETURN_IF_ERROR(Add(": "));
      QGPU_RETURN_IF_ERROR(Write(dict.entries[i].second));
    }
    return Add("}");
  }
};

std::string JsonNumber(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return Repr(number);
}

struct JsonWriter : Writer {
  int64_t indent;
  bool sort_keys;

  JsonWriter(Budget& b, int64_t spaces, bool sorted) : Writer{b}, indent(spaces), sort_keys(sorted) {}

  absl::Status Break(int64_t level) {
    if (indent < 0) return absl::OkStatus();
    const auto spaces = static_cast<size_t>(indent * level);
    QGPU_RETURN_IF_ERROR(budget.Grow(spaces + 1));
    out += '\n';
    out.append(spaces, ' ');
    return absl::OkStatus();
  }
  absl::Status Separate(bool first, int64_t level) {
    if (!first) QGPU_RETURN_IF_ERROR(Add(indent >= 0 ? "," : ", "));
    return Break(level);
  }

  absl::Status WriteString(const std::string& text) {
    QGPU_RETURN_IF_ERROR(budget.Read(text.size()));
    return Add(JsonString(text));
  }

  absl::Status WriteKey(const Value& key) {
    if (key.IsString()) return WriteString(key.AsString());
    if (key.IsBool()) return Add(key.AsBool() ? "\"true\"" : "\"false\"");
    if (key.IsNone()) return Add("\"null\"");
    if (key.IsInteger()) return Add(fmt::format("\"{}\"", key.AsInteger()));
    if (key.IsFloat()) return Add(fmt::format("\"{}\"", JsonNumber(key.AsDouble())));
    return Error(fmt::format("tojson: a {} cannot be a key", key.TypeName()));
  }

  absl::Status Write(const Value& value, int64_t level) {
    QGPU_RETURN_IF_ERROR(budget.Step());
    if (value.IsNone()) return Add("null");
    if (value.IsBool()) return Add(value.AsBool() ? "true" : "false");
    if (value.IsInteger()) return Add(fmt::format("{}", value.AsInteger()));
    if (value.IsFloat()) return Add(JsonNumber(value.AsDouble()));
    if (value.IsString()) return WriteString(value.AsString());
    if (value.IsList()) return WriteList(value.AsList(), level);
    if (value.IsDict()) return WriteDict(value.AsDict(), level);
    return Error(fmt::format("tojson: {} is no JSON value", value.TypeName()));
  }

  absl::Status WriteList(const std::vector<Value>& list, int64_t level) {
    QGPU_RETURN_IF_ERROR(Add("["));
    for (size_t i = 0; i < list.size(); ++i) {
      QGPU_RETURN_IF_ERROR(Separate(i == 0, level + 1));
      QGPU_RETURN_IF_ERROR(Write(list[i], level + 1));
    }
    if (!list.empty()) QGPU_RETURN_IF_ERROR(Break(level));
    return Add("]");
  }

  absl::StatusOr<std::vector<const std::pair<Value, Value>*>> Entries(const Dict& dict) {
    std::vector<const std::pair<Value, Value>*> entries;
    size_t bytes = 0;
    QGPU_RETURN_IF_ERROR(budget.Steps(dict.entries.size()));
    for (const auto& entry : dict.entries) {
      entries.push_back(&entry);
      if (sort_keys && !entry.first.IsString()) return Error("tojson: only string keys can be sorted");
      bytes += sort_keys ? entry.first.AsString().size() : 0;
    }
    if (!sort_keys) return entries;
    for (size_t n = entries.size(); n > 1; n /= 2) QGPU_RETURN_IF_ERROR(budget.Read(2 * bytes));
    std::sort(entries.begin(), entries.end(),
              [](const auto* a, const auto* b) { return a->first.AsString() < b->first.AsString(); });
    return entries;
  }

  absl::Status WriteDict(const Dict& dict, int64_t level) {
    QGPU_ASSIGN_OR_RETURN(const auto entries, Entries(dict));
    QGPU_RETURN_IF_ERROR(Add("{"));
    for (size_t i = 0; i < entries.size(); ++i) {
      QGPU_RETURN_IF_ERROR(Separate(i == 0, level + 1));
      QGPU_RETURN_IF_ERROR(WriteKey(entries[i]->first));
      QGPU_RETURN_IF_ERROR(Add(": "));
      QGPU_RETURN_IF_ERROR(Write(entries[i]->second, level + 1));
    }
    if (!entries.empty()) QGPU_RETURN_IF_ERROR(Break(level));
    return Add("}");
  }
};

}  // namespace

absl::StatusOr<std::string> ToText(const Value& value, Budget& budget) {
  if (value.IsUndefined()) return "";
  if (!value.IsString()) return ToRepr(value, budget);
  QGPU_RETURN_IF_ERROR(budget.Read(value.AsString().size()));
  return value.AsString();
}

absl::StatusOr<std::string> ToRepr(const Value& value, Budget& budget) {
  ReprWriter writer{{budget}};
  QGPU_RETURN_IF_ERROR(writer.Write(value));
  return std::move(writer.out);
}

absl::StatusOr<std::string> ToJson(const Value& value, int64_t indent, bool sort_keys, Budget& budget) {
  JsonWriter writer(budget, indent, sort_keys);
  QGPU_RETURN_IF_ERROR(writer.Write(value, 0));
  return std::move(writer.out);
}

absl::StatusOr<Value> FromJson(const nlohmann::ordered_json& json) { return FromJsonAt(json, 0); }

}  // namespace qgpu::jinja
