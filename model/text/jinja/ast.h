// A chat template as a tree. Every node knows its line, for messages.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/text/jinja/value.h"

namespace qgpu::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;
struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

struct Argument {
  std::string name;  // empty: by position
  ExpressionPtr value;
};

struct Expression {
  enum class Kind {
    kConstant,  // constant
    kName,      // name
    kList,      // operands; kTuple likewise
    kTuple,
    kDict,       // operands: key, value, key, value, ...
    kUnary,      // name: "-", "+", "not"; one operand
    kBinary,     // name: "+", "-", "*", "/", "//", "%", "**", "~"; two operands
    kLogic,      // name: "and", "or"; two operands, the second only where needed
    kCompare,    // operands, and between them the signs in `names`: "==", ..., "in", "not in"
    kCondition,  // operands: value, test, and, if there is an else, the other value
    kAttribute,  // operands[0].name
    kSubscript,  // operands[0][operands[1]]
    kSlice,      // operands[0][operands[1]:operands[2]:operands[3]], any of the last three may be null
    kCall,       // operands[0](arguments)
    kFilter,     // operands[0] | name(arguments)
    kTest,       // operands[0] is name(arguments)
  };
  Kind kind;
  int line;
  std::string name = {};
  Value constant = {};
  std::vector<ExpressionPtr> operands = {};
  std::vector<std::string> names = {};
  std::vector<Argument> arguments = {};
  int height = 1;  // of the tree below
};

struct Branch {
  ExpressionPtr test;
  Body body;
};

struct Statement {
  enum class Kind {
    kText,        // text
    kPrint,       // expression
    kIf,          // branches, otherwise
    kFor,         // targets in expression [if filter]: body, otherwise
    kSet,         // targets = expression; or name.attribute = expression; or, without expression, the body's text
    kMacro,       // name(parameters): body
    kGeneration,  // body
    kBreak,
    kContinue,
  };
  Kind kind;
  int line;
  std::string text = {};  // also the macro's name
  ExpressionPtr expression = {}, filter = {};
  std::vector<std::string> targets = {};
  bool unpacks = false;        // several targets, or one with a comma
  std::string attribute = {};  // of the namespace targets[0]
  std::vector<Branch> branches = {};
  std::vector<std::pair<std::string, ExpressionPtr>> parameters = {};  // with defaults, or null
  Body body = {}, otherwise = {};
};

}  // namespace qgpu::jinja
