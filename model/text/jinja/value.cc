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
        dict->Set(Value(key), std::move(value));
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

const Value* Dict::Find(const Value& key) const {
  if (key.IsString()) {
    const auto index = by_string.find(key.AsString());
    return index == by_string.end() ? nullptr : &entries[index->second].second;
  }
  for (const auto& [own, value] : entries) {
    if (!own.IsString() && Equal(own, key)) return &value;
  }
  return nullptr;
}

void Dict::Set(const Value& key, Value value) {
  depth = std::max({depth, key.Depth() + 1, value.Depth() + 1});
  if (const Value* const known = Find(key)) {
    *const_cast<Value*>(known) = std::move(value);
    return;
  }
  if (key.IsString()) by_string[key.AsString()] = entries.size();
  entries.emplace_back(key, std::move(value));
}

bool Equal(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    return a.IsFloat() || b.IsFloat() ? a.AsDouble() == b.AsDouble() : a.AsInteger() == b.AsInteger();
  }
  if (a.IsString() && b.IsString()) return a.AsString() == b.AsString();
  if (a.IsUndefined() && b.IsUndefined()) return true;
  if (a.IsNone() && b.IsNone()) return true;
  if (a.IsList() && b.IsList()) {
    return a.IsTuple() == b.IsTuple() &&
           std::equal(a.AsList().begin(), a.AsList().end(), b.AsList().begin(), b.AsList().end(), Equal);
  }
  if (a.IsDict() && b.IsDict()) {
    const Dict &left = a.AsDict(), &right = b.AsDict();
    return left.entries.size() == right.entries.size() &&
           std::all_of(left.entries.begin(), left.entries.end(), [&](const auto& entry) {
             const Value* const other = right.Find(entry.first);
             return other != nullptr && Equal(entry.second, *other);
           });
  }
  const auto *left = a.AsObject<Object>(), *right = b.AsObject<Object>();
  return left != nullptr && left == right;
}

absl::StatusOr<int> Compare(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    return a.IsFloat() || b.IsFloat() ? Sign(a.AsDouble(), b.AsDouble()) : Sign(a.AsInteger(), b.AsInteger());
  }
  // UTF-8 sorts as its code points do.
  if (a.IsString() && b.IsString()) return Sign(a.AsString(), b.AsString());
  return Error(fmt::format("{} and {} have no order", a.TypeName(), b.TypeName()));
}

absl::StatusOr<std::string> ToText(const Value& value) {
  if (value.IsString()) return value.AsString();
  if (value.IsUndefined()) return "";
  return ToRepr(value);
}

absl::StatusOr<std::string> ToRepr(const Value& value) {
  if (value.IsUndefined()) return "Undefined";
  if (value.IsNone()) return "None";
  if (value.IsBool()) return value.AsBool() ? "True" : "False";
  if (value.IsInteger()) return fmt::format("{}", value.AsInteger());
  if (value.IsFloat()) return Repr(value.AsDouble());
  if (value.IsSafe()) return Error("the text of a list with a string marked safe is not supported");
  if (value.IsString()) return Repr(value.AsString());
  if (value.IsList()) {
    std::string text = value.IsTuple() ? "(" : "[";
    for (const Value& element : value.AsList()) {
      if (text.size() > 1) text += ", ";
      QGPU_ASSIGN_OR_RETURN(const std::string part, ToRepr(element));
      text += part;
    }
    if (value.IsTuple()) return text + (value.AsList().size() == 1 ? ",)" : ")");
    return text + "]";
  }
  if (value.IsDict()) {
    std::string text = "{";
    for (const auto& [key, element] : value.AsDict().entries) {
      if (text.size() > 1) text += ", ";
      QGPU_ASSIGN_OR_RETURN(const std::string left, ToRepr(key));
      QGPU_ASSIGN_OR_RETURN(const std::string right, ToRepr(element));
      text += left + ": " + right;
    }
    return text + "}";
  }
  return Error(fmt::format("the text of a {} is not supported", value.TypeName()));
}

namespace {

std::string JsonNumber(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return Repr(number);
}

struct JsonWriter {
  int64_t indent;
  bool sort_keys;
  std::string out = {};

  void Break(int64_t level) {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<size_t>(indent * level), ' ');
  }
  void Separate(bool first, int64_t level) {
    if (!first) out += indent >= 0 ? "," : ", ";
    Break(level);
  }

  absl::StatusOr<std::string> Key(const Value& key) const {
    if (key.IsString()) return JsonString(key.AsString());
    if (key.IsBool()) return std::string(key.AsBool() ? "\"true\"" : "\"false\"");
    if (key.IsNone()) return std::string("\"null\"");
    if (key.IsInteger()) return fmt::format("\"{}\"", key.AsInteger());
    if (key.IsFloat()) return fmt::format("\"{}\"", JsonNumber(key.AsDouble()));
    return Error(fmt::format("tojson: a {} cannot be a key", key.TypeName()));
  }

  absl::Status Write(const Value& value, int64_t level) {
    if (value.IsNone()) {
      out += "null";
    } else if (value.IsBool()) {
      out += value.AsBool() ? "true" : "false";
    } else if (value.IsInteger()) {
      out += fmt::format("{}", value.AsInteger());
    } else if (value.IsFloat()) {
      out += JsonNumber(value.AsDouble());
    } else if (value.IsString()) {
      out += JsonString(value.AsString());
    } else if (value.IsList()) {
      return WriteList(value.AsList(), level);
    } else if (value.IsDict()) {
      return WriteDict(value.AsDict(), level);
    } else {
      return Error(fmt::format("tojson: {} is no JSON value", value.TypeName()));
    }
    return absl::OkStatus();
  }

  absl::Status WriteList(const std::vector<Value>& list, int64_t level) {
    out += "[";
    for (size_t i = 0; i < list.size(); ++i) {
      Separate(i == 0, level + 1);
      QGPU_RETURN_IF_ERROR(Write(list[i], level + 1));
    }
    if (!list.empty()) Break(level);
    out += "]";
    return absl::OkStatus();
  }

  absl::Status WriteDict(const Dict& dict, int64_t level) {
    std::vector<std::pair<Value, Value>> entries = dict.entries;
    if (sort_keys) {
      const bool strings =
          std::all_of(entries.begin(), entries.end(), [](const auto& e) { return e.first.IsString(); });
      if (!strings) return Error("tojson: only string keys can be sorted");
      std::sort(entries.begin(), entries.end(),
                [](const auto& a, const auto& b) { return a.first.AsString() < b.first.AsString(); });
    }
    out += "{";
    for (size_t i = 0; i < entries.size(); ++i) {
      Separate(i == 0, level + 1);
      QGPU_ASSIGN_OR_RETURN(const std::string key, Key(entries[i].first));
      out += key + ": ";
      QGPU_RETURN_IF_ERROR(Write(entries[i].second, level + 1));
    }
    if (!entries.empty()) Break(level);
    out += "}";
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<std::string> ToJson(const Value& value, int64_t indent, bool sort_keys) {
  JsonWriter writer{indent, sort_keys};
  QGPU_RETURN_IF_ERROR(writer.Write(value, 0));
  return std::move(writer.out);
}

absl::StatusOr<Value> FromJson(const nlohmann::ordered_json& json) { return FromJsonAt(json, 0); }

}  // namespace qgpu::jinja
