#include <map>

#include "model/text/jinja/filters.h"
#include "model/text/jinja/operators.h"

namespace qgpu::jinja {
namespace {

using Check = bool (*)(const Value&);

bool IsWhole(const Value& value) { return value.IsInteger(); }

// Tests without arguments. Undefined is empty text to Python: it has a length and elements, so it is a sequence.
const std::map<std::string, Check>& PlainTests() {
  static const std::map<std::string, Check> tests = {
      {"defined", [](const Value& v) { return !v.IsUndefined(); }},
      {"undefined", [](const Value& v) { return v.IsUndefined(); }},
      {"none", [](const Value& v) { return v.IsNone(); }},
      {"string", [](const Value& v) { return v.IsString(); }},
      {"mapping", [](const Value& v) { return v.IsDict(); }},
      {"sequence", [](const Value& v) { return v.IsString() || v.IsList() || v.IsDict() || v.IsUndefined(); }},
      {"iterable",
       [](const Value& v) {
         return v.IsString() || v.IsList() || v.IsDict() || v.IsUndefined() || v.AsObject<Loop>() != nullptr;
       }},
      {"number", [](const Value& v) { return v.IsNumber(); }},
      {"integer", IsWhole},
      {"float", [](const Value& v) { return v.IsFloat(); }},
      {"boolean", [](const Value& v) { return v.IsBool(); }},
      {"true", [](const Value& v) { return v.IsBool() && v.AsBool(); }},
      {"false", [](const Value& v) { return v.IsBool() && !v.AsBool(); }},
      {"callable",
       [](const Value& v) {
         return v.IsUndefined() || v.AsObject<MacroObject>() || v.AsObject<BoundMethod>() || v.AsObject<Builtin>() ||
                v.AsObject<Loop>();
       }},
  };
  return tests;
}

// Tests that compare with one argument, and the sign they stand for.
const std::map<std::string, std::string>& ComparingTests() {
  static const std::map<std::string, std::string> tests = {
      {"eq", "=="}, {"equalto", "=="}, {"ne", "!="},         {"lt", "<"},  {"lessthan", "<"},
      {"le", "<="}, {"gt", ">"},       {"greaterthan", ">"}, {"ge", ">="}, {"in", "in"}};
  return tests;
}

absl::StatusOr<bool> Divisible(const Value& value, const CallArguments& arguments, int64_t divisor, int64_t remainder,
                               Budget& budget) {
  Value by(divisor);
  if (divisor == 0) {
    QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, arguments.Bind("divisibleby", {"num"}, 1));
    by = bound[0];
  }
  QGPU_ASSIGN_OR_RETURN(const Value rest, BinaryOperation("%", value, by, budget));
  return Equal(rest, Value(remainder), budget);
}

}  // namespace

bool IsTest(const std::string& name) {
  return PlainTests().count(name) != 0 || ComparingTests().count(name) != 0 || name == "odd" || name == "even" ||
         name == "divisibleby";
}

absl::StatusOr<bool> ApplyTest(const std::string& name, const Value& value, const CallArguments& arguments,
                               Budget& budget) {
  if (const auto compare = ComparingTests().find(name); compare != ComparingTests().end()) {
    QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, arguments.Bind(name, {"other"}, 1));
    return CompareOperation(compare->second, value, bound[0], budget);
  }
  if (name == "divisibleby") return Divisible(value, arguments, 0, 0, budget);
  const absl::StatusOr<std::vector<Value>> none = arguments.Bind(name, {}, 0);
  if (!none.ok()) return none.status();
  if (name == "odd" || name == "even") return Divisible(value, arguments, 2, name == "odd" ? 1 : 0, budget);
  const auto plain = PlainTests().find(name);
  if (plain == PlainTests().end()) return Wrong(fmt::format("the test \"{}\" is not supported", name));
  return plain->second(value);
}

}  // namespace qgpu::jinja
