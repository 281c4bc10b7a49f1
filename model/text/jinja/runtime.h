// What rendering shares: limits that a template cannot get around, arguments of calls, the kinds of objects.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/text/jinja/ast.h"
#include "model/text/jinja/budget.h"
#include "model/text/jinja/value.h"

namespace qgpu::jinja {

inline constexpr size_t kMostOutput = size_t{64} << 20;  // bytes of a rendered text
inline constexpr int kMostCalls = 40;                    // macros inside each other

// The arguments of a call.
struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // One value for each parameter, undefined where none is given. `required` of them must be. kInvalidArgument: one too
  // many, an unknown or doubled name, one that is missing.
  absl::StatusOr<std::vector<Value>> Bind(const std::string& function,
                                          std::initializer_list<std::string_view> parameters, size_t required) const;
};

class Namespace : public Object {
 public:
  std::string TypeName() const override { return "namespace"; }
  std::map<std::string, Value> attributes;
};

class Loop : public Object {
 public:
  std::string TypeName() const override { return "loop"; }
  int Depth() const override { return items.Depth() + 1; }
  Value items;  // a list
  int64_t index = 0, depth = 1;
  Value last_changed;  // what loop.changed saw last: a list
};

class MacroObject : public Object {
 public:
  explicit MacroObject(const Statement& statement) : macro(statement) {}
  std::string TypeName() const override { return "macro"; }
  const Statement& macro;
};

// A method of a value: message.items.
class BoundMethod : public Object {
 public:
  BoundMethod(Value value, std::string method) : self(std::move(value)), name(std::move(method)) {}
  std::string TypeName() const override { return "method"; }
  int Depth() const override { return self.Depth() + 1; }
  Value self;
  std::string name;
};

// A function that is always there: range, namespace, dict, raise_exception, strftime_now.
class Builtin : public Object {
 public:
  explicit Builtin(std::string function) : name(std::move(function)) {}
  std::string TypeName() const override { return "function"; }
  std::string name;
};

inline absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

}  // namespace qgpu::jinja
