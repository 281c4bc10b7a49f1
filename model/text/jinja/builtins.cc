#include "model/text/jinja/builtins.h"

#include "model/text/jinja/operators.h"

namespace qgpu::jinja {

namespace {

using Result = absl::StatusOr<Value>;
constexpr int64_t kLongestRange = 100'000;  // Jinja's own

Result Range(const CallArguments& arguments, Budget& budget) {
  int64_t bounds[3] = {0, 0, 1};
  const std::vector<Value>& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty())
    return Wrong("range: one to three whole numbers expected");
  for (size_t i = 0; i < given.size(); ++i) {
    QGPU_RETURN_IF_ERROR(CheckDefined(given[i]));
    if (!given[i].IsInteger() && !given[i].IsBool()) return Wrong("range: one to three whole numbers expected");
    bounds[given.size() == 1 ? 1 : i] = given[i].AsInteger();
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) return Wrong("range: the step is 0");
  std::vector<Value> numbers;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(numbers.size()) == kLongestRange)
      return Wrong(fmt::format("range: more than {} numbers", kLongestRange));
    numbers.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  QGPU_RETURN_IF_ERROR(budget.ChargeElements(numbers.size()));
  return Value::MakeList(std::move(numbers));
}

}  // namespace

absl::Status SetAttribute(Namespace& space, const std::string& name, const Value& value) {
  if (name.rfind('_', 0) == 0) return Wrong(fmt::format("the attribute \"{}\" of a namespace is not allowed", name));
  space.attributes[name] = value;
  return absl::OkStatus();
}

absl::StatusOr<Value> CallBuiltin(const std::string& name, const CallArguments& arguments, Namespaces& namespaces,
                                  Budget& budget) {
  if (name == "range") return Range(arguments, budget);
  if (name == "raise_exception") {
    QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, arguments.Bind(name, {"message"}, 1));
    QGPU_ASSIGN_OR_RETURN(const std::string message, ToText(bound[0], budget));
    return Wrong(fmt::format("the template refuses this: {}", message));
  }
  if (name == "strftime_now") return Wrong("strftime_now is not supported: what is rendered would depend on the time");
  // namespace(..) and dict(..): of a dictionary and arguments by name.
  auto dict = std::make_shared<Dict>();
  if (arguments.positional.size() > 1 || (arguments.positional.size() == 1 && !arguments.positional[0].IsDict())) {
    return Wrong(fmt::format("{}: a dictionary and arguments by name expected", name));
  }
  if (!arguments.positional.empty()) *dict = arguments.positional[0].AsDict();
  QGPU_RETURN_IF_ERROR(budget.ChargeElements(4 * (dict->entries.size() + arguments.named.size())));
  for (const auto& [key, value] : arguments.named) dict->Set(key, value);
  if (name == "dict") {
    Value value(std::shared_ptr<const Dict>(std::move(dict)));
    QGPU_RETURN_IF_ERROR(CheckDepth(value));
    return value;
  }
  const auto space = std::make_shared<Namespace>();
  namespaces.push_back(space);
  for (const auto& [key, value] : dict->entries) {
    if (!key.IsString()) return Wrong("namespace: names are strings");
    QGPU_RETURN_IF_ERROR(SetAttribute(*space, key.AsString(), value));
  }
  return Value(std::static_pointer_cast<Object>(space));
}

}  // namespace qgpu::jinja
