#include "model/text/jinja/filters.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "model/text/jinja/methods.h"
#include "model/text/jinja/operators.h"
#include "model/text/jinja/python_text.h"

namespace qgpu::jinja {
namespace {

using Result = absl::StatusOr<Value>;
using Names = std::initializer_list<std::string_view>;

struct Filter {
  const std::string& name;
  const Value& value;
  const CallArguments& arguments;
  Budget& budget;

  absl::StatusOr<std::vector<Value>> Bind(Names parameters, size_t required = 0) const {
    return arguments.Bind(name, parameters, required);
  }
  absl::Status NoArguments() const { return Bind({}).status(); }
  absl::StatusOr<std::vector<Value>> All() const { return Elements(value, budget); }
};

// A string method on the text of any value, as most filters on strings are.
Result AsMethod(const Filter& f, const char* method) {
  if (f.value.IsSafe()) return Wrong(fmt::format("{}: strings marked safe are not supported", f.name));
  QGPU_ASSIGN_OR_RETURN(const std::string text, ToText(f.value, f.budget));
  return CallMethod(BoundMethod(Value(text), method), f.arguments, f.budget);
}

Result LengthOf(const Filter& f) {
  QGPU_RETURN_IF_ERROR(f.NoArguments());
  if (f.value.IsUndefined()) return Value(int64_t{0});
  if (f.value.IsString()) return Value(Length(f.value.AsString()));
  if (f.value.IsList()) return Value(static_cast<int64_t>(f.value.AsList().size()));
  if (f.value.IsDict()) return Value(static_cast<int64_t>(f.value.AsDict().entries.size()));
  return Wrong(fmt::format("a {} has no length", f.value.TypeName()));
}

Result ToJsonFilter(const Filter& f) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, f.Bind({"ensure_ascii", "indent", "separators", "sort_keys"}));
  if (bound[0].Truth()) return Wrong("tojson: ensure_ascii is not supported");
  if (!bound[2].IsUndefined() && !bound[2].IsNone()) return Wrong("tojson: separators are not supported");
  int64_t indent = -1;
  if (bound[1].IsInteger()) {
    indent = bound[1].AsInteger();
    if (indent < 0 || indent > 64) return Wrong("tojson: indent is not between 0 and 64");
  } else if (!bound[1].IsUndefined() && !bound[1].IsNone()) {
    return Wrong("tojson: indent is not a whole number");
  }
  QGPU_ASSIGN_OR_RETURN(std::string text, ToJson(f.value, indent, bound[3].Truth(), f.budget));
  return Value(std::move(text));
}

Result DefaultFilter(const Filter& f) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, f.Bind({"default_value", "boolean"}));
  if (!f.value.IsUndefined() && !(bound[1].Truth() && !f.value.Truth())) return f.value;
  const bool given = !f.arguments.positional.empty() || !bound[0].IsUndefined();
  return given ? bound[0] : Value("");
}

Result FirstOrLast(const Filter& f, bool first) {
  QGPU_RETURN_IF_ERROR(f.NoArguments());
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> elements, f.All());
  if (elements.empty()) return Value::Missing("there is no first item, the sequence is empty");
  return first ? elements.front() : elements.back();
}

// An attribute as filters take it: "a.b.0", or an index.
Result AttributeOf(Value value, const Value& path, Budget& budget) {
  if (path.IsInteger()) return GetElement(value, path, budget);
  if (!path.IsString()) return Wrong("an attribute is a string or a whole number");
  std::string_view rest = path.AsString();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = !part.empty() && parsed.ec == std::errc() && parsed.ptr == part.data() + part.size();
    QGPU_ASSIGN_OR_RETURN(value, GetElement(value, is_index ? Value(index) : Value(part), budget));
    if (dot == std::string_view::npos) return value;
    rest = rest.substr(dot + 1);
  }
}

Result JoinFilter(const Filter& f) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, f.Bind({"d", "attribute"}));
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> elements, f.All());
  QGPU_ASSIGN_OR_RETURN(const std::string separator, ToText(bound[0], f.budget));
  std::string text;
  for (size_t i = 0; i < elements.size(); ++i) {
    Value element = elements[i];
    if (!bound[1].IsUndefined() && !bound[1].IsNone()) {
      QGPU_ASSIGN_OR_RETURN(element, AttributeOf(element, bound[1], f.budget));
    }
    QGPU_ASSIGN_OR_RETURN(const std::string part, ToText(element, f.budget));
    QGPU_RETURN_IF_ERROR(f.budget.Charge(part.size() + separator.size()));
    text += (i == 0 ? "" : separator) + part;
  }
  return Value(std::move(text));
}

Result IntFilter(const Filter& f) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, f.Bind({"default"}));
  const Value fallback = bound[0].IsUndefined() ? Value(int64_t{0}) : bound[0];
  QGPU_RETURN_IF_ERROR(CheckDefined(f.value));
  double number = 0;
  if (f.value.IsInteger() || f.value.IsBool()) return Value(f.value.AsInteger());
  if (f.value.IsFloat()) {
    number = f.value.AsDouble();
  } else if (f.value.IsString()) {
    const std::string text(StripLeft(StripRight(f.value.AsString())));
    int64_t whole = 0;
    const size_t sign = !text.empty() && text[0] == '+' ? 1 : 0;
    const auto parsed = std::from_chars(text.data() + sign, text.data() + text.size(), whole);
    if (parsed.ptr == text.data() + text.size() && !text.empty()) {
      if (parsed.ec == std::errc()) return Value(whole);
      if (parsed.ec == std::errc::result_out_of_range) return Wrong("int: the number is beyond 64 bits");
    }
    char* end = nullptr;
    number = std::strtod(text.c_str(), &end);
    if (text.empty() || end != text.c_str() + text.size() || text.find_first_of("xXpP") != std::string::npos)
      return fallback;
  } else {
    return fallback;
  }
  if (!std::isfinite(number)) return fallback;
  if (std::fabs(number) >= 0x1.0p63) return Wrong("int: the number is beyond 64 bits");
  return Value(static_cast<int64_t>(number));
}

Result FloatFilter(const Filter& f) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, f.Bind({"default"}));
  const Value fallback = bound[0].IsUndefined() ? Value(0.0) : bound[0];
  QGPU_RETURN_IF_ERROR(CheckDefined(f.value));
  if (f.value.IsNumber()) return Value(f.value.AsDouble());
  if (!f.value.IsString()) return fallback;
  const std::string text(StripLeft(StripRight(f.value.AsString())));
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const bool good =
      !text.empty() && end == text.c_str() + text.size() && text.find_first_of("xXpP(") == std::string::npos;
  return good ? Value(number) : fallback;
}

Result ItemsFilter(const Filter& f) {
  QGPU_RETURN_IF_ERROR(f.NoArguments());
  if (f.value.IsUndefined()) return Value::MakeList({});
  if (!f.value.IsDict()) return Wrong(fmt::format("items: a dictionary expected, not {}", f.value.TypeName()));
  return CallMethod(BoundMethod(f.value, "items"), {}, f.budget);
}

Result ReverseFilter(const Filter& f) {
  QGPU_RETURN_IF_ERROR(f.NoArguments());
  QGPU_ASSIGN_OR_RETURN(std::vector<Value> elements, f.All());
  std::reverse(elements.begin(), elements.end());
  if (!f.value.IsString()) return Value::MakeList(std::move(elements));
  std::string text;
  for (const Value& element : elements) text += element.AsString();
  return Value(std::move(text));
}

// The arguments behind the first `count`.
CallArguments Behind(const CallArguments& arguments, size_t count) {
  CallArguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(std::min(count, rest.positional.size())));
  return rest;
}

Result MapFilter(const Filter& f) {
  QGPU_ASSIGN_OR_RETURN(std::vector<Value> elements, f.All());
  const bool by_attribute = f.arguments.positional.empty();
  std::vector<Value> bound;
  if (by_attribute) {
    QGPU_ASSIGN_OR_RETURN(bound, f.Bind({"attribute", "default"}));
  } else if (!f.arguments.positional[0].IsString()) {
    return Wrong("map: the name of a filter expected");
  }
  for (Value& element : elements) {
    QGPU_RETURN_IF_ERROR(f.budget.Step());
    if (by_attribute) {
      QGPU_ASSIGN_OR_RETURN(element, AttributeOf(element, bound[0], f.budget));
      if (element.IsUndefined() && !bound[1].IsUndefined()) element = bound[1];
    } else {
      QGPU_ASSIGN_OR_RETURN(
          element, ApplyFilter(f.arguments.positional[0].AsString(), element, Behind(f.arguments, 1), f.budget));
    }
  }
  return Value::MakeList(std::move(elements));
}

// select, reject, selectattr, rejectattr.
Result SelectFilter(const Filter& f, bool keeps, bool by_attribute) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> elements, f.All());
  const size_t skipped = by_attribute ? 1 : 0;
  if (f.arguments.positional.size() < skipped)
    return Wrong(fmt::format("{}: the name of an attribute expected", f.name));
  const bool has_test = f.arguments.positional.size() > skipped;
  if (has_test && !f.arguments.positional[skipped].IsString())
    return Wrong(fmt::format("{}: the name of a test expected", f.name));
  const CallArguments rest = Behind(f.arguments, skipped + 1);
  std::vector<Value> kept;
  for (const Value& element : elements) {
    QGPU_RETURN_IF_ERROR(f.budget.Step());
    Value tested = element;
    if (by_attribute) {
      QGPU_ASSIGN_OR_RETURN(tested, AttributeOf(element, f.arguments.positional[0], f.budget));
    }
    bool passes = tested.Truth();
    if (has_test) {
      QGPU_ASSIGN_OR_RETURN(passes, ApplyTest(f.arguments.positional[skipped].AsString(), tested, rest, f.budget));
    }
    if (passes == keeps) kept.push_back(element);
  }
  return Value::MakeList(std::move(kept));
}

Result StringFilter(const Filter& f) {
  QGPU_RETURN_IF_ERROR(f.NoArguments());
  if (f.value.IsString()) return f.value;
  QGPU_ASSIGN_OR_RETURN(std::string text, ToText(f.value, f.budget));
  return Value(std::move(text));
}

Result SafeFilter(const Filter& f) {
  QGPU_ASSIGN_OR_RETURN(const Value text, StringFilter(f));
  return Value(String{std::make_shared<const std::string>(text.AsString()), /*safe=*/true});
}

Result ListFilter(const Filter& f) {
  QGPU_RETURN_IF_ERROR(f.NoArguments());
  QGPU_ASSIGN_OR_RETURN(std::vector<Value> elements, f.All());
  return Value::MakeList(std::move(elements));
}

Result AbsFilter(const Filter& f) {
  QGPU_RETURN_IF_ERROR(f.NoArguments());
  QGPU_ASSIGN_OR_RETURN(const Value positive, UnaryOperation("+", f.value));
  return !f.value.IsFloat() && f.value.AsInteger() >= 0 ? positive
         : f.value.IsFloat()                            ? Result(Value(std::fabs(f.value.AsDouble())))
                                                        : UnaryOperation("-", f.value);
}

const std::map<std::string, std::function<Result(const Filter&)>>& Filters() {
  static const std::map<std::string, std::function<Result(const Filter&)>> filters = {
      {"trim", [](const Filter& f) { return AsMethod(f, "strip"); }},
      {"upper", [](const Filter& f) { return AsMethod(f, "upper"); }},
      {"lower", [](const Filter& f) { return AsMethod(f, "lower"); }},
      {"capitalize", [](const Filter& f) { return AsMethod(f, "capitalize"); }},
      {"replace", [](const Filter& f) { return AsMethod(f, "replace"); }},
      {"length", LengthOf},
      {"count", LengthOf},
      {"tojson", ToJsonFilter},
      {"default", DefaultFilter},
      {"d", DefaultFilter},
      {"first", [](const Filter& f) { return FirstOrLast(f, true); }},
      {"last", [](const Filter& f) { return FirstOrLast(f, false); }},
      {"join", JoinFilter},
      {"int", IntFilter},
      {"float", FloatFilter},
      {"items", ItemsFilter},
      {"reverse", ReverseFilter},
      {"map", MapFilter},
      {"select", [](const Filter& f) { return SelectFilter(f, true, false); }},
      {"reject", [](const Filter& f) { return SelectFilter(f, false, false); }},
      {"selectattr", [](const Filter& f) { return SelectFilter(f, true, true); }},
      {"rejectattr", [](const Filter& f) { return SelectFilter(f, false, true); }},
      {"string", StringFilter},
      {"safe", SafeFilter},
      {"list", ListFilter},
      {"abs", AbsFilter},
  };
  return filters;
}

}  // namespace

bool IsFilter(const std::string& name) { return Filters().count(name) != 0; }

absl::StatusOr<Value> ApplyFilter(const std::string& name, const Value& value, const CallArguments& arguments,
                                  Budget& budget) {
  const auto filter = Filters().find(name);
  if (filter == Filters().end()) return Wrong(fmt::format("the filter \"{}\" is not supported", name));
  QGPU_RETURN_IF_ERROR(budget.Read(value.IsString() ? value.AsString().size() : 0));
  return filter->second({name, value, arguments, budget});
}

}  // namespace qgpu::jinja
