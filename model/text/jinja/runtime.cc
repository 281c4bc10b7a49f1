#include "model/text/jinja/runtime.h"

namespace qgpu::jinja {

absl::StatusOr<std::vector<Value>> CallArguments::Bind(const std::string& function,
                                                       std::initializer_list<std::string_view> parameters,
                                                       size_t required) const {
  std::vector<Value> values(parameters.size());
  std::vector<bool> given(parameters.size());
  if (positional.size() > parameters.size()) {
    return Wrong(fmt::format("{}: {} arguments, of at most {}", function, positional.size(), parameters.size()));
  }
  for (size_t i = 0; i < positional.size(); ++i) {
    values[i] = positional[i];
    given[i] = true;
  }
  for (const auto& [name, value] : named) {
    const auto place = std::find(parameters.begin(), parameters.end(), name);
    const auto index = static_cast<size_t>(place - parameters.begin());
    if (place == parameters.end())
      return Wrong(fmt::format("{}: the argument \"{}\" is not supported", function, name));
    if (given[index]) return Wrong(fmt::format("{}: the argument \"{}\" twice", function, name));
    values[index] = value;
    given[index] = true;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!given[i]) return Wrong(fmt::format("{}: the argument \"{}\" is missing", function, *(parameters.begin() + i)));
  }
  return values;
}

}  // namespace qgpu::jinja
