// Methods of strings, dictionaries and lists.
#pragma once

#include <string>

#include "model/text/jinja/runtime.h"

namespace qgpu::jinja {

// Whether Python's type has a method of this name, supported here or not.
bool HasMethod(const Value& value, const std::string& name);

// kInvalidArgument: a method that is not supported, or the wrong arguments.
absl::StatusOr<Value> CallMethod(const BoundMethod& method, const CallArguments& arguments, Budget& budget);

}  // namespace qgpu::jinja
