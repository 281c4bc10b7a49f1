// Python's operators on values.
#pragma once

#include <string>
#include <vector>

#include "model/text/jinja/runtime.h"

namespace qgpu::jinja {

// All: kInvalidArgument if the operation is not defined on these types, the result is beyond 64 bits or the budget, or
// an operand is undefined.
absl::StatusOr<Value> BinaryOperation(const std::string& sign, const Value& left, const Value& right, Budget& budget);
absl::StatusOr<Value> UnaryOperation(const std::string& sign, const Value& operand);
absl::StatusOr<bool> CompareOperation(const std::string& sign, const Value& left, const Value& right, Budget& budget);

// value.name: a method, an attribute of an object, else value["name"], else undefined.
absl::StatusOr<Value> GetAttribute(const Value& value, const std::string& name);
// value[key]: an element, else, for a string, value.key, else undefined.
absl::StatusOr<Value> GetElement(const Value& value, const Value& key, Budget& budget);
absl::StatusOr<Value> GetSlice(const Value& value, const Value& start, const Value& stop, const Value& step,
                               Budget& budget);

// What a loop over the value runs through.
absl::StatusOr<std::vector<Value>> Elements(const Value& value, Budget& budget);

absl::Status CheckDefined(const Value& value);
absl::Status CheckDepth(const Value& value);

}  // namespace qgpu::jinja
