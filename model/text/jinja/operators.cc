#include "model/text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "model/text/jinja/methods.h"
#include "model/text/jinja/python_text.h"
#include "model/text/utf8.h"

namespace qgpu::jinja {
namespace {

absl::Status NotDefinedFor(const std::string& sign, const Value& left, const Value& right) {
  return Wrong(fmt::format("\"{}\" is not defined for {} and {}", sign, left.TypeName(), right.TypeName()));
}

absl::Status TooLarge(const std::string& sign) {
  return Wrong(fmt::format("the result of \"{}\" is beyond 64 bits", sign));
}

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

absl::StatusOr<Value> IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  if (base == 0 || base == 1) return Value(exponent == 0 ? int64_t{1} : base);
  if (base == -1) return Value(exponent % 2 == 0 ? int64_t{1} : int64_t{-1});
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) return TooLarge("**");
  }
  return Value(result);
}

absl::StatusOr<Value> IntegerOperation(const std::string& sign, int64_t a, int64_t b) {
  int64_t result = 0;
  if (sign == "+") {
    if (__builtin_add_overflow(a, b, &result)) return TooLarge(sign);
    return Value(result);
  }
  if (sign == "-") {
    if (__builtin_sub_overflow(a, b, &result)) return TooLarge(sign);
    return Value(result);
  }
  if (sign == "*") {
    if (__builtin_mul_overflow(a, b, &result)) return TooLarge(sign);
    return Value(result);
  }
  if (sign == "**") return IntegerPower(a, b);
  if (b == 0) return Wrong("division by zero");
  if (sign == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (a == INT64_MIN && b == -1) return sign == "%" ? absl::StatusOr<Value>(Value(int64_t{0})) : TooLarge(sign);
  if (sign == "//") return Value(FloorDivide(a, b));
  return Value(a - FloorDivide(a, b) * b);
}

absl::StatusOr<Value> FloatOperation(const std::string& sign, double a, double b) {
  if (sign == "+") return Value(a + b);
  if (sign == "-") return Value(a - b);
  if (sign == "*") return Value(a * b);
  if (sign == "**") {
    if (a == 0 && b < 0) return Wrong("0.0 cannot be raised to a negative power");
    if (a < 0 && b != std::floor(b)) return Wrong("complex numbers are not supported");
    return Value(std::pow(a, b));
  }
  if (b == 0) return Wrong("division by zero");
  if (sign == "/") return Value(a / b);
  const double remainder = std::fmod(a, b);
  const double modulo = remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
  if (sign == "%") return Value(modulo == 0 ? std::copysign(0.0, b) : modulo);
  return Value(std::round((a - modulo) / b));
}

// Strings marked safe escape what they are joined with, which is not done here.
absl::Status CheckNotSafe(const Value& left, const Value& right) {
  if (!left.IsSafe() && !right.IsSafe()) return absl::OkStatus();
  return Wrong("joining a string marked safe is not supported");
}

absl::StatusOr<Value> Repeat(const Value& sequence, int64_t times, Budget& budget) {
  const auto count = static_cast<size_t>(std::max<int64_t>(times, 0));
  const size_t size = sequence.IsString() ? sequence.AsString().size() : sequence.AsList().size() * sizeof(Value);
  if (size != 0 && count > static_cast<size_t>(kMostBytes) / size) return budget.Charge(kMostBytes);
  QGPU_RETURN_IF_ERROR(budget.Charge(size * count));
  if (sequence.IsString()) {
    std::string text;
    text.reserve(size * count);
    for (size_t i = 0; size != 0 && i < count; ++i) text += sequence.AsString();
    return Value(std::move(text));
  }
  std::vector<Value> elements;
  for (size_t i = 0; size != 0 && i < count; ++i)
    elements.insert(elements.end(), sequence.AsList().begin(), sequence.AsList().end());
  return Value::MakeList(std::move(elements), sequence.IsTuple());
}

absl::StatusOr<Value> Concatenate(const Value& left, const Value& right, Budget& budget) {
  QGPU_RETURN_IF_ERROR(CheckNotSafe(left, right));
  QGPU_ASSIGN_OR_RETURN(const std::string a, ToText(left, budget));
  QGPU_ASSIGN_OR_RETURN(const std::string b, ToText(right, budget));
  QGPU_RETURN_IF_ERROR(budget.Charge(a.size() + b.size()));
  return Value(a + b);
}

absl::StatusOr<bool> Contains(const Value& container, const Value& item, Budget& budget) {
  if (container.IsString()) {
    QGPU_RETURN_IF_ERROR(CheckDefined(item));
    if (!item.IsString()) return Wrong(fmt::format("a {} cannot be in a string", item.TypeName()));
    QGPU_RETURN_IF_ERROR(budget.Read(container.AsString().size()));
    return FindText(container.AsString(), item.AsString()) != std::string_view::npos;
  }
  if (container.IsDict()) {
    QGPU_ASSIGN_OR_RETURN(const Value* const found, container.AsDict().Find(item, budget));
    return found != nullptr;
  }
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> elements, Elements(container, budget));
  for (const Value& element : elements) {
    QGPU_ASSIGN_OR_RETURN(const bool same, Equal(element, item, budget));
    if (same) return true;
  }
  return false;
}

// The index that Python means, or nothing.
std::optional<size_t> Index(const Value& key, size_t size) {
  if (!key.IsInteger() && !key.IsBool()) return std::nullopt;
  const int64_t index = key.AsInteger() < 0 ? key.AsInteger() + static_cast<int64_t>(size) : key.AsInteger();
  if (index < 0 || index >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(index);
}

absl::StatusOr<Value> LoopAttribute(const Loop& loop, const std::string& name) {
  const std::vector<Value>& items = loop.items.AsList();
  const auto size = static_cast<int64_t>(items.size());
  if (name == "index") return Value(loop.index + 1);
  if (name == "index0") return Value(loop.index);
  if (name == "revindex") return Value(size - loop.index);
  if (name == "revindex0") return Value(size - loop.index - 1);
  if (name == "first") return Value(loop.index == 0);
  if (name == "last") return Value(loop.index + 1 == size);
  if (name == "length") return Value(size);
  if (name == "depth") return Value(loop.depth);
  if (name == "depth0") return Value(loop.depth - 1);
  if (name == "previtem") return loop.index > 0 ? items[loop.index - 1] : Value::Missing("there is no previous item");
  if (name == "nextitem")
    return loop.index + 1 < size ? items[loop.index + 1] : Value::Missing("there is no next item");
  return Value::Missing(fmt::format("'loop' has no attribute '{}'", name));
}

}  // namespace

absl::Status CheckDefined(const Value& value) {
  if (!value.IsUndefined()) return absl::OkStatus();
  return Wrong(value.WhyUndefined().empty() ? "a value is undefined" : value.WhyUndefined());
}

absl::Status CheckDepth(const Value& value) {
  if (value.Depth() <= kMostNestedValues) return absl::OkStatus();
  return Wrong(fmt::format("values nested more than {} deep", kMostNestedValues));
}

absl::StatusOr<Value> BinaryOperation(const std::string& sign, const Value& left, const Value& right, Budget& budget) {
  if (sign == "~") return Concatenate(left, right, budget);
  QGPU_RETURN_IF_ERROR(CheckDefined(left));
  QGPU_RETURN_IF_ERROR(CheckDefined(right));
  if (left.IsNumber() && right.IsNumber()) {
    return left.IsFloat() || right.IsFloat() ? FloatOperation(sign, left.AsDouble(), right.AsDouble())
                                             : IntegerOperation(sign, left.AsInteger(), right.AsInteger());
  }
  if (sign == "+" && left.IsString() && right.IsString()) return Concatenate(left, right, budget);
  if (sign == "+" && left.IsList() && right.IsList() && left.IsTuple() == right.IsTuple()) {
    QGPU_RETURN_IF_ERROR(budget.ChargeElements(left.AsList().size() + right.AsList().size()));
    std::vector<Value> elements = left.AsList();
    elements.insert(elements.end(), right.AsList().begin(), right.AsList().end());
    return Value::MakeList(std::move(elements), left.IsTuple());
  }
  const auto is_count = [](const Value& value) { return value.IsInteger() || value.IsBool(); };
  const auto is_sequence = [](const Value& value) { return (value.IsString() && !value.IsSafe()) || value.IsList(); };
  if (sign == "*" && is_sequence(left) && is_count(right)) return Repeat(left, right.AsInteger(), budget);
  if (sign == "*" && is_count(left) && is_sequence(right)) return Repeat(right, left.AsInteger(), budget);
  if (sign == "%" && left.IsString()) return Wrong("formatting with \"%\" is not supported");
  return NotDefinedFor(sign, left, right);
}

absl::StatusOr<Value> UnaryOperation(const std::string& sign, const Value& operand) {
  if (sign == "not") return Value(!operand.Truth());
  QGPU_RETURN_IF_ERROR(CheckDefined(operand));
  if (!operand.IsNumber()) return Wrong(fmt::format("\"{}\" is not defined for {}", sign, operand.TypeName()));
  if (operand.IsFloat()) return Value(sign == "-" ? -operand.AsDouble() : operand.AsDouble());
  if (sign == "-" && operand.AsInteger() == INT64_MIN) return TooLarge(sign);
  return Value(sign == "-" ? -operand.AsInteger() : operand.AsInteger());
}

absl::StatusOr<bool> CompareOperation(const std::string& sign, const Value& left, const Value& right, Budget& budget) {
  if (sign == "==" || sign == "!=") {
    QGPU_ASSIGN_OR_RETURN(const bool same, Equal(left, right, budget));
    return same == (sign == "==");
  }
  if (sign == "in") return Contains(right, left, budget);
  if (sign == "not in") {
    QGPU_ASSIGN_OR_RETURN(const bool contains, Contains(right, left, budget));
    return !contains;
  }
  QGPU_RETURN_IF_ERROR(CheckDefined(left));
  QGPU_RETURN_IF_ERROR(CheckDefined(right));
  if (left.IsNumber() && right.IsNumber() && (std::isnan(left.AsDouble()) || std::isnan(right.AsDouble())))
    return false;
  QGPU_ASSIGN_OR_RETURN(const int order, Compare(left, right, budget));
  if (sign == "<") return order < 0;
  if (sign == "<=") return order <= 0;
  return sign == ">" ? order > 0 : order >= 0;
}

absl::StatusOr<Value> GetAttribute(const Value& value, const std::string& name) {
  QGPU_RETURN_IF_ERROR(CheckDefined(value));
  if (name.rfind("__", 0) == 0) return Wrong(fmt::format("the attribute \"{}\" is not allowed", name));
  if (HasMethod(value, name)) return Value(std::make_shared<BoundMethod>(value, name));
  if (const auto* const space = value.AsObject<Namespace>()) {
    const auto attribute = space->attributes.find(name);
    if (attribute != space->attributes.end()) return attribute->second;
  }
  if (const auto* const loop = value.AsObject<Loop>()) return LoopAttribute(*loop, name);
  if (value.IsDict()) {
    if (const Value* const element = value.AsDict().Find(name)) return *element;
  }
  return Value::Missing(fmt::format("'{} object' has no attribute '{}'", value.TypeName(), name));
}

absl::StatusOr<Value> GetElement(const Value& value, const Value& key, Budget& budget) {
  QGPU_RETURN_IF_ERROR(CheckDefined(value));
  if (value.IsDict()) {
    QGPU_ASSIGN_OR_RETURN(const Value* const element, value.AsDict().Find(key, budget));
    if (element != nullptr) return *element;
  }
  if (value.IsList()) {
    if (const auto index = Index(key, value.AsList().size())) return value.AsList()[*index];
  }
  if (value.IsString() && (key.IsInteger() || key.IsBool())) {
    QGPU_RETURN_IF_ERROR(budget.Charge(value.AsString().size() * 4));
    const std::u32string code_points = ToCodePoints(value.AsString());
    if (const auto index = Index(key, code_points.size())) return Value(FromCodePoints(code_points.substr(*index, 1)));
  }
  if (key.IsString()) {
    QGPU_RETURN_IF_ERROR(budget.Read(4 * key.AsString().size()));
    return GetAttribute(value, key.AsString());
  }
  QGPU_ASSIGN_OR_RETURN(const std::string text, ToRepr(key, budget));
  return Value::Missing(fmt::format("'{} object' has no element {}", value.TypeName(), text));
}

absl::StatusOr<Value> GetSlice(const Value& value, const Value& start, const Value& stop, const Value& step,
                               Budget& budget) {
  QGPU_RETURN_IF_ERROR(CheckDefined(value));
  if (!value.IsString() && !value.IsList()) return Wrong(fmt::format("a {} has no slices", value.TypeName()));
  for (const Value* const part : {&start, &stop, &step}) {
    if (!part->IsNone() && !part->IsInteger() && !part->IsBool()) return Wrong("a slice's bounds are whole numbers");
  }
  QGPU_RETURN_IF_ERROR(
      budget.Charge(value.IsString() ? 8 * value.AsString().size() : sizeof(Value) * value.AsList().size()));
  const std::u32string code_points = value.IsString() ? ToCodePoints(value.AsString()) : std::u32string();
  const auto size = static_cast<int64_t>(value.IsString() ? code_points.size() : value.AsList().size());
  const int64_t stride = step.IsNone() ? 1 : step.AsInteger();
  if (stride == 0) return Wrong("a slice's step cannot be 0");
  const int64_t lowest = stride > 0 ? 0 : -1, highest = stride > 0 ? size : size - 1;
  const auto bound = [&](const Value& part, int64_t fallback) {
    if (part.IsNone()) return fallback;
    const int64_t index = part.AsInteger() < 0 ? part.AsInteger() + size : part.AsInteger();
    return std::clamp(index, lowest, highest);
  };
  const int64_t first = bound(start, stride > 0 ? lowest : highest), last = bound(stop, stride > 0 ? highest : lowest);
  std::u32string text;
  std::vector<Value> elements;
  for (int64_t i = first; stride > 0 ? i < last : i > last;) {
    value.IsString() ? text.push_back(code_points[i]) : elements.push_back(value.AsList()[i]);
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  if (value.IsString()) return Value(FromCodePoints(text));
  return Value::MakeList(std::move(elements), value.IsTuple());
}

absl::StatusOr<std::vector<Value>> Elements(const Value& value, Budget& budget) {
  if (value.IsUndefined()) return std::vector<Value>();
  if (value.IsList()) {
    QGPU_RETURN_IF_ERROR(budget.ChargeElements(value.AsList().size()));
    return value.AsList();
  }
  std::vector<Value> elements;
  if (value.IsDict()) {
    QGPU_RETURN_IF_ERROR(budget.ChargeElements(value.AsDict().entries.size()));
    for (const auto& [key, element] : value.AsDict().entries) elements.push_back(key);
    return elements;
  }
  if (value.IsString()) {
    QGPU_RETURN_IF_ERROR(budget.ChargeElements(4 * value.AsString().size()));
    const std::string& text = value.AsString();
    for (size_t at = 0; at < text.size(); at += Utf8Length(text[at]))
      elements.emplace_back(text.substr(at, Utf8Length(text[at])));
    return elements;
  }
  return Wrong(fmt::format("a {} has no elements to run through", value.TypeName()));
}

}  // namespace qgpu::jinja
