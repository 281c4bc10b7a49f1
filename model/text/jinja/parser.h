// Reads a chat template.
#pragma once

#include <string_view>

#include "common/status.h"
#include "model/text/jinja/ast.h"

namespace qgpu::jinja {

// Jinja's syntax with for, if, set, macro (not inside of a loop or macro), raw, break, continue and generation.
// kInvalidArgument with the line: a syntax error, or a construct that is not supported, by its name.
absl::StatusOr<Body> ParseTemplate(std::string_view valid_template);

}  // namespace qgpu::jinja
