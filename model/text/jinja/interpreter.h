// Runs a chat template.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/text/jinja/ast.h"

namespace qgpu::jinja {

// The text of the template with these variables. kInvalidArgument with the line: an error of the template, what it
// raises itself (raise_exception), something that is not supported, a limit of runtime.h.
absl::StatusOr<std::string> Render(const Body& body, const std::vector<std::pair<std::string, Value>>& variables);

}  // namespace qgpu::jinja
