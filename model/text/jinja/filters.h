// The filters and tests of templates that are supported.
#pragma once

#include <string>

#include "model/text/jinja/runtime.h"

namespace qgpu::jinja {

bool IsFilter(const std::string& name);
bool IsTest(const std::string& name);

// kInvalidArgument: a name that is none of these, the wrong arguments, a value that the filter is not defined for.
absl::StatusOr<Value> ApplyFilter(const std::string& name, const Value& value, const CallArguments& arguments,
                                  Budget& budget);
absl::StatusOr<bool> ApplyTest(const std::string& name, const Value& value, const CallArguments& arguments,
                               Budget& budget);

}  // namespace qgpu::jinja
