// What a chat template computes with: Python's values, as far as templates have them. Strings, lists and dictionaries
// cannot be changed once made, so they are shared freely.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/status.h"
#include "model/text/jinja/budget.h"
#include "nlohmann/json_fwd.hpp"

namespace qgpu::jinja {

class Value;
struct List;
struct Dict;

// A value with behaviour of its own: a namespace, the `loop`, a macro, a bound method.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string TypeName() const = 0;  // for messages
  virtual int Depth() const { return 1; }
};

struct Undefined {
  std::string reason;  // why there is no value, for messages
};
struct String {
  std::shared_ptr<const std::string> text;  // valid UTF-8
  bool safe = false;                        // marked by the filter `safe`
};

class Value {
 public:
  Value() : value_(Undefined{}) {}  // undefined, without name
  static Value None() { return Value(nullptr); }
  static Value Missing(std::string reason) { return Value(Undefined{std::move(reason)}); }
  explicit Value(bool value) : value_(value) {}
  explicit Value(int64_t value) : value_(value) {}
  explicit Value(double value) : value_(value) {}
  explicit Value(std::string text) : value_(String{std::make_shared<const std::string>(std::move(text)), false}) {}
  explicit Value(const char* text) : Value(std::string(text)) {}
  explicit Value(String text) : value_(std::move(text)) {}
  explicit Value(std::shared_ptr<const List> list) : value_(std::move(list)) {}
  explicit Value(std::shared_ptr<const Dict> dict) : value_(std::move(dict)) {}
  explicit Value(std::shared_ptr<Object> object) : value_(std::move(object)) {}
  static Value MakeList(std::vector<Value> elements, bool tuple = false);

  bool IsUndefined() const { return Is<Undefined>(); }
  bool IsNone() const { return Is<std::nullptr_t>(); }
  bool IsBool() const { return Is<bool>(); }
  bool IsInteger() const { return Is<int64_t>(); }
  bool IsFloat() const { return Is<double>(); }
  bool IsString() const { return Is<String>(); }
  bool IsList() const { return Is<std::shared_ptr<const List>>(); }  // or a tuple
  bool IsDict() const { return Is<std::shared_ptr<const Dict>>(); }
  bool IsNumber() const { return IsBool() || IsInteger() || IsFloat(); }

  // Only where the test above holds.
  bool AsBool() const { return std::get<bool>(value_); }
  int64_t AsInteger() const { return IsBool() ? int64_t{AsBool()} : std::get<int64_t>(value_); }
  double AsDouble() const { return IsFloat() ? std::get<double>(value_) : static_cast<double>(AsInteger()); }
  const std::string& AsString() const { return *std::get<String>(value_).text; }
  bool IsSafe() const { return IsString() && std::get<String>(value_).safe; }
  const std::vector<Value>& AsList() const;
  bool IsTuple() const;
  const Dict& AsDict() const { return *std::get<std::shared_ptr<const Dict>>(value_); }
  const std::string& WhyUndefined() const { return std::get<Undefined>(value_).reason; }

  template <typename T>
  T* AsObject() const {  // nullptr if it is no such object
    const auto* object = std::get_if<std::shared_ptr<Object>>(&value_);
    return object == nullptr ? nullptr : dynamic_cast<T*>(object->get());
  }

  int Depth() const;             // of lists in lists, and so on; 0 for what holds nothing
  bool Truth() const;            // Python's bool()
  std::string TypeName() const;  // Python's name of the type, for messages

 private:
  explicit Value(std::nullptr_t) : value_(nullptr) {}
  explicit Value(Undefined undefined) : value_(std::move(undefined)) {}
  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(value_);
  }

  std::variant<Undefined, std::nullptr_t, bool, int64_t, double, String, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      value_;
};

// What holds others knows how deep they are nested, so that nobody has to walk too deep.
inline constexpr int kMostNestedValues = 100;

struct List {
  std::vector<Value> elements;
  bool tuple = false;
  int depth = 1;
};

// In the order of insertion.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  absl::flat_hash_map<std::string, size_t> by_string;  // where the string keys are
  int depth = 1;

  const Value* Find(const std::string& key) const;  // nullptr if there is none
  absl::StatusOr<const Value*> Find(const Value& key, Budget& budget) const;
  void Set(const std::string& key, Value value);
  absl::Status Set(const Value& key, Value value, Budget& budget);

 private:
  void Put(const Value* known, const Value& key, Value value);
};

// All that walk over values count every value and the text they make. None walks deeper than kMostNestedValues.
absl::StatusOr<bool> Equal(const Value& a, const Value& b, Budget& budget);
// -1, 0 or 1 for numbers and for strings. kInvalidArgument: the two have no order.
absl::StatusOr<int> Compare(const Value& a, const Value& b, Budget& budget);

// str(): what is printed. repr() inside of lists. kInvalidArgument: an object that has no text.
absl::StatusOr<std::string> ToText(const Value& value, Budget& budget);
absl::StatusOr<std::string> ToRepr(const Value& value, Budget& budget);
// json.dumps(value, ensure_ascii=False), with indent if that is 0 or more. kInvalidArgument: not a JSON value.
absl::StatusOr<std::string> ToJson(const Value& value, int64_t indent, bool sort_keys, Budget& budget);

// kInvalidArgument: nested too deeply, a whole number beyond 64 bits.
absl::StatusOr<Value> FromJson(const nlohmann::ordered_json& json);

}  // namespace qgpu::jinja
