// The functions that are always there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/text/jinja/runtime.h"

namespace qgpu::jinja {

inline constexpr const char* kBuiltins[] = {"range", "namespace", "dict", "raise_exception", "strftime_now"};

using Namespaces = std::vector<std::shared_ptr<Namespace>>;

// Calls one of kBuiltins. A namespace that is made is added to `namespaces`. kInvalidArgument: the wrong arguments,
// what the template raises, a limit.
absl::StatusOr<Value> CallBuiltin(const std::string& name, const CallArguments& arguments, Namespaces& namespaces,
                                  Budget& budget);

// kInvalidArgument: the name begins with an underscore.
absl::Status SetAttribute(Namespace& space, const std::string& name, const Value& value);

}  // namespace qgpu::jinja
