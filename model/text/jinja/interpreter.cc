#include "model/text/jinja/interpreter.h"

#include <algorithm>

#include "model/text/jinja/builtins.h"
#include "model/text/jinja/filters.h"
#include "model/text/jinja/methods.h"
#include "model/text/jinja/operators.h"

namespace qgpu::jinja {

namespace {

using Kind = Expression::Kind;

struct Scope {
  const Scope* parent;
  std::map<std::string, Value> variables = {};
};

enum class Flow { kNext, kBreak, kContinue };

class Interpreter {
 public:
  explicit Interpreter(const std::vector<std::pair<std::string, Value>>& variables) : root_{nullptr} {
    for (const char* const name : kBuiltins) root_.variables[name] = Value(std::make_shared<Builtin>(name));
    for (const auto& [name, value] : variables) root_.variables[name] = value;
  }
  // Namespaces may hold themselves.
  ~Interpreter() {
    for (const auto& space : namespaces_) space->attributes.clear();
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  absl::StatusOr<std::string> Run(const Body& body) {
    std::string out;
    QGPU_ASSIGN_OR_RETURN(const Flow flow, RunBody(body, root_, out));
    (void)flow;  // the parser lets no break out of its loop
    return out;
  }

 private:
  using Result = absl::StatusOr<Value>;

  // The first error that passes here gets its line.
  absl::Status AtLine(absl::Status status, int line) {
    if (status.ok() || located_) return status;
    located_ = true;
    return absl::Status(status.code(), fmt::format("line {}: {}", line, std::string(status.message())));
  }

  absl::StatusOr<Flow> RunBody(const Body& body, Scope& scope, std::string& out) {
    for (const auto& statement : body) {
      absl::StatusOr<Flow> flow = RunStatement(*statement, scope, out);
      if (!flow.ok()) return AtLine(flow.status(), statement->line);
      if (*flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  absl::Status Write(std::string_view text, std::string& out) {
    if (out.size() + text.size() > kMostOutput)
      return Wrong(fmt::format("the text is longer than {} MiB", kMostOutput >> 20));
    out += text;
    return absl::OkStatus();
  }

  absl::StatusOr<Flow> RunStatement(const Statement& statement, Scope& scope, std::string& out) {
    QGPU_RETURN_IF_ERROR(budget_.Step());
    switch (statement.kind) {
      case Statement::Kind::kText:
        QGPU_RETURN_IF_ERROR(Write(statement.text, out));
        return Flow::kNext;
      case Statement::Kind::kPrint: {
        QGPU_ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expression, scope));
        QGPU_ASSIGN_OR_RETURN(const std::string text, ToText(value, budget_));
        QGPU_RETURN_IF_ERROR(Write(text, out));
        return Flow::kNext;
      }
      case Statement::Kind::kIf:
        for (const Branch& branch : statement.branches) {
          QGPU_ASSIGN_OR_RETURN(const Value test, Evaluate(*branch.test, scope));
          if (test.Truth()) return RunBody(branch.body, scope, out);
        }
        return RunBody(statement.otherwise, scope, out);
      case Statement::Kind::kFor:
        return RunFor(statement, scope, out);
      case Statement::Kind::kSet:
        QGPU_RETURN_IF_ERROR(RunSet(statement, scope));
        return Flow::kNext;
      case Statement::Kind::kMacro:
        scope.variables[statement.text] = Value(std::make_shared<MacroObject>(statement));
        return Flow::kNext;
      case Statement::Kind::kGeneration: {
        Scope inner{&scope};
        return RunBody(statement.body, inner, out);
      }
      case Statement::Kind::kBreak:
        return Flow::kBreak;
      case Statement::Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNext;
  }

  absl::Status Assign(const Statement& statement, const Value& value, Scope& scope) {
    if (!statement.unpacks) {
      scope.variables[statement.targets[0]] = value;
      return absl::OkStatus();
    }
    QGPU_ASSIGN_OR_RETURN(const std::vector<Value> elements, Elements(value, budget_));
    if (elements.size() != statement.targets.size()) {
      return Wrong(fmt::format("{} values for {} variables", elements.size(), statement.targets.size()));
    }
    for (size_t i = 0; i < elements.size(); ++i) scope.variables[statement.targets[i]] = elements[i];
    return absl::OkStatus();
  }

  absl::StatusOr<Flow> RunFor(const Statement& statement, Scope& scope, std::string& out) {
    QGPU_ASSIGN_OR_RETURN(const Value over, Evaluate(*statement.expression, scope));
    QGPU_ASSIGN_OR_RETURN(std::vector<Value> items, Elements(over, budget_));
    if (statement.filter != nullptr) {
      std::vector<Value> kept;
      for (const Value& item : items) {
        Scope inner{&scope};
        QGPU_RETURN_IF_ERROR(Assign(statement, item, inner));
        QGPU_ASSIGN_OR_RETURN(const Value keeps, Evaluate(*statement.filter, inner));
        if (keeps.Truth()) kept.push_back(item);
      }
      items = std::move(kept);
    }
    const auto loop = std::make_shared<Loop>();
    loop->items = Value::MakeList(std::move(items));
    loop->depth = 1;
    const auto count = static_cast<int64_t>(loop->items.AsList().size());
    for (loop->index = 0; loop->index < count; ++loop->index) {
      QGPU_RETURN_IF_ERROR(budget_.Step());
      Scope inner{&scope};
      inner.variables["loop"] = Value(std::static_pointer_cast<Object>(loop));
      QGPU_RETURN_IF_ERROR(Assign(statement, loop->items.AsList()[loop->index], inner));
      QGPU_ASSIGN_OR_RETURN(const Flow flow, RunBody(statement.body, inner, out));
      if (flow == Flow::kBreak) break;
    }
    loop->last_changed = Value();  // may hold the loop itself
    if (count > 0 || statement.otherwise.empty()) return Flow::kNext;
    Scope inner{&scope};
    return RunBody(statement.otherwise, inner, out);
  }

  absl::Status RunSet(const Statement& statement, Scope& scope) {
    Value value;
    if (statement.expression != nullptr) {
      QGPU_ASSIGN_OR_RETURN(value, Evaluate(*statement.expression, scope));
    } else {
      std::string text;
      Scope inner{&scope};
      QGPU_RETURN_IF_ERROR(RunBody(statement.body, inner, text).status());
      QGPU_RETURN_IF_ERROR(budget_.Charge(text.size()));
      value = Value(std::move(text));
    }
    if (statement.attribute.empty()) return Assign(statement, value, scope);
    const Value target = Lookup(statement.targets[0], scope);
    auto* const space = target.AsObject<Namespace>();
    if (space == nullptr)
      return Wrong(fmt::format("\"{}\" is no namespace, its attributes cannot be set", statement.targets[0]));
    return SetAttribute(*space, statement.attribute, value);
  }

  static Value Lookup(const std::string& name, const Scope& scope) {
    for (const Scope* s = &scope; s != nullptr; s = s->parent) {
      const auto variable = s->variables.find(name);
      if (variable != s->variables.end()) return variable->second;
    }
    return Value::Missing(fmt::format("'{}' is undefined", name));
  }

  Result Evaluate(const Expression& expression, const Scope& scope) {
    absl::Status step = budget_.Step();
    if (!step.ok()) return AtLine(step, expression.line);
    Result value = EvaluateKind(expression, scope);
    if (!value.ok()) return AtLine(value.status(), expression.line);
    return value;
  }

  Result EvaluateKind(const Expression& e, const Scope& scope) {
    switch (e.kind) {
      case Kind::kConstant:
        return e.constant;
      case Kind::kName:
        return Lookup(e.name, scope);
      case Kind::kList:
      case Kind::kTuple:
        return MakeList(e, scope);
      case Kind::kDict:
        return MakeDict(e, scope);
      case Kind::kUnary: {
        QGPU_ASSIGN_OR_RETURN(const Value operand, Evaluate(*e.operands[0], scope));
        return UnaryOperation(e.name, operand);
      }
      case Kind::kBinary: {
        QGPU_ASSIGN_OR_RETURN(const Value left, Evaluate(*e.operands[0], scope));
        QGPU_ASSIGN_OR_RETURN(const Value right, Evaluate(*e.operands[1], scope));
        return BinaryOperation(e.name, left, right, budget_);
      }
      case Kind::kLogic: {
        QGPU_ASSIGN_OR_RETURN(const Value left, Evaluate(*e.operands[0], scope));
        if (left.Truth() == (e.name == "or")) return left;
        return Evaluate(*e.operands[1], scope);
      }
      case Kind::kCompare:
        return Comparison(e, scope);
      case Kind::kCondition: {
        QGPU_ASSIGN_OR_RETURN(const Value test, Evaluate(*e.operands[1], scope));
        if (test.Truth()) return Evaluate(*e.operands[0], scope);
        if (e.operands[2] == nullptr) return Value::Missing("the condition is false and there is no else");
        return Evaluate(*e.operands[2], scope);
      }
      default:
        return EvaluateAccess(e, scope);
    }
  }

  Result EvaluateAccess(const Expression& e, const Scope& scope) {
    if (e.kind == Kind::kFilter) return RunFilter(e, scope);
    QGPU_ASSIGN_OR_RETURN(const Value operand, Evaluate(*e.operands[0], scope));
    switch (e.kind) {
      case Kind::kAttribute:
        return GetAttribute(operand, e.name);
      case Kind::kSubscript: {
        QGPU_ASSIGN_OR_RETURN(const Value key, Evaluate(*e.operands[1], scope));
        return GetElement(operand, key, budget_);
      }
      case Kind::kSlice: {
        Value bounds[3] = {Value::None(), Value::None(), Value::None()};
        for (int i = 0; i < 3; ++i) {
          if (e.operands[i + 1] == nullptr) continue;
          QGPU_ASSIGN_OR_RETURN(bounds[i], Evaluate(*e.operands[i + 1], scope));
        }
        return GetSlice(operand, bounds[0], bounds[1], bounds[2], budget_);
      }
      case Kind::kTest: {
        QGPU_ASSIGN_OR_RETURN(const CallArguments arguments, EvaluateArguments(e, scope));
        QGPU_ASSIGN_OR_RETURN(const bool passes, ApplyTest(e.name, operand, arguments, budget_));
        return Value(passes);
      }
      default: {
        QGPU_ASSIGN_OR_RETURN(const CallArguments arguments, EvaluateArguments(e, scope));
        return Call(operand, arguments);
      }
    }
  }

  Result RunFilter(const Expression& e, const Scope& scope) {
    QGPU_ASSIGN_OR_RETURN(const Value operand, Evaluate(*e.operands[0], scope));
    QGPU_ASSIGN_OR_RETURN(const CallArguments arguments, EvaluateArguments(e, scope));
    QGPU_ASSIGN_OR_RETURN(Value value, ApplyFilter(e.name, operand, arguments, budget_));
    QGPU_RETURN_IF_ERROR(CheckDepth(value));
    return value;
  }

  Result MakeList(const Expression& e, const Scope& scope) {
    std::vector<Value> elements;
    QGPU_RETURN_IF_ERROR(budget_.ChargeElements(e.operands.size()));
    for (const ExpressionPtr& operand : e.operands) {
      QGPU_ASSIGN_OR_RETURN(Value element, Evaluate(*operand, scope));
      elements.push_back(std::move(element));
    }
    Value list = Value::MakeList(std::move(elements), e.kind == Kind::kTuple);
    QGPU_RETURN_IF_ERROR(CheckDepth(list));
    return list;
  }

  static absl::Status CheckKey(const Value& key) {
    if (key.IsString() || key.IsNumber() || key.IsNone()) return absl::OkStatus();
    return Wrong(fmt::format("a {} as the key of a dictionary is not supported", key.TypeName()));
  }

  Result MakeDict(const Expression& e, const Scope& scope) {
    auto dict = std::make_shared<Dict>();
    QGPU_RETURN_IF_ERROR(budget_.ChargeElements(2 * e.operands.size()));
    for (size_t i = 0; i < e.operands.size(); i += 2) {
      QGPU_ASSIGN_OR_RETURN(const Value key, Evaluate(*e.operands[i], scope));
      QGPU_RETURN_IF_ERROR(CheckKey(key));
      QGPU_ASSIGN_OR_RETURN(Value value, Evaluate(*e.operands[i + 1], scope));
      QGPU_RETURN_IF_ERROR(dict->Set(key, std::move(value), budget_));
    }
    Value value(std::shared_ptr<const Dict>(std::move(dict)));
    QGPU_RETURN_IF_ERROR(CheckDepth(value));
    return value;
  }

  Result Comparison(const Expression& e, const Scope& scope) {
    QGPU_ASSIGN_OR_RETURN(Value left, Evaluate(*e.operands[0], scope));
    for (size_t i = 0; i < e.names.size(); ++i) {
      QGPU_ASSIGN_OR_RETURN(Value right, Evaluate(*e.operands[i + 1], scope));
      QGPU_ASSIGN_OR_RETURN(const bool holds, CompareOperation(e.names[i], left, right, budget_));
      if (!holds) return Value(false);
      left = std::move(right);
    }
    return Value(true);
  }

  absl::StatusOr<CallArguments> EvaluateArguments(const Expression& e, const Scope& scope) {
    CallArguments arguments;
    for (const Argument& argument : e.arguments) {
      QGPU_ASSIGN_OR_RETURN(Value value, Evaluate(*argument.value, scope));
      if (argument.name.empty()) {
        arguments.positional.push_back(std::move(value));
      } else {
        arguments.named.emplace_back(argument.name, std::move(value));
      }
    }
    return arguments;
  }

  Result Call(const Value& function, const CallArguments& arguments) {
    QGPU_RETURN_IF_ERROR(CheckDefined(function));
    if (const auto* const method = function.AsObject<BoundMethod>()) {
      QGPU_ASSIGN_OR_RETURN(Value value, CallMethod(*method, arguments, budget_));
      QGPU_RETURN_IF_ERROR(CheckDepth(value));
      return value;
    }
    if (const auto* const macro = function.AsObject<MacroObject>()) return CallMacro(macro->macro, arguments);
    if (const auto* const builtin = function.AsObject<Builtin>())
      return CallBuiltin(builtin->name, arguments, namespaces_, budget_);
    return Wrong(fmt::format("a {} cannot be called", function.TypeName()));
  }

  Result CallMacro(const Statement& macro, const CallArguments& arguments) {
    if (calls_ >= kMostCalls) return Wrong(fmt::format("more than {} macros inside each other", kMostCalls));
    if (arguments.positional.size() > macro.parameters.size()) {
      return Wrong(fmt::format("macro {}: {} arguments, of at most {}", macro.text, arguments.positional.size(),
                               macro.parameters.size()));
    }
    Scope scope{&root_};
    for (size_t i = 0; i < arguments.positional.size(); ++i)
      scope.variables[macro.parameters[i].first] = arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
      const auto has_name = [&name = name](const auto& parameter) { return parameter.first == name; };
      if (std::none_of(macro.parameters.begin(), macro.parameters.end(), has_name)) {
        return Wrong(fmt::format("macro {}: no parameter \"{}\"", macro.text, name));
      }
      if (!scope.variables.emplace(name, value).second)
        return Wrong(fmt::format("macro {}: the argument \"{}\" twice", macro.text, name));
    }
    for (const auto& [name, fallback] : macro.parameters) {
      if (scope.variables.count(name) != 0) continue;
      Value value = Value::Missing(fmt::format("parameter '{}' was not provided", name));
      if (fallback != nullptr) {
        QGPU_ASSIGN_OR_RETURN(value, Evaluate(*fallback, scope));
      }
      scope.variables[name] = std::move(value);
    }
    std::string text;
    ++calls_;
    QGPU_RETURN_IF_ERROR(RunBody(macro.body, scope, text).status());
    --calls_;
    QGPU_RETURN_IF_ERROR(budget_.Charge(text.size()));
    return Value(std::move(text));
  }

  Scope root_;
  Budget budget_;
  Namespaces namespaces_;
  int calls_ = 0;
  bool located_ = false;
};

}  // namespace

absl::StatusOr<std::string> Render(const Body& body, const std::vector<std::pair<std::string, Value>>& variables) {
  return Interpreter(variables).Run(body);
}

}  // namespace qgpu::jinja
