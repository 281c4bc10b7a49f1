// Module level: directives, variables, function headers, and which CUDA line everything comes from.
#include <algorithm>
#include <climits>

#include "lowering/ptx/parser.h"

namespace qgpu::ptx {
namespace {

std::optional<Space> SpaceOfDirective(std::string_view word) {
  for (Space space : {Space::kGlobal, Space::kShared, Space::kConst, Space::kLocal, Space::kParam, Space::kReg}) {
    if (word == SpaceName(space)) return space;
  }
  return std::nullopt;
}

// ".v2" gives 2; 0 for other words.
int VectorLength(std::string_view word) { return word == "v2" ? 2 : word == "v4" ? 4 : word == "v8" ? 8 : 0; }

bool IsOpaqueType(std::string_view word) { return word == "texref" || word == "surfref" || word == "samplerref"; }

}  // namespace

absl::StatusOr<Module> ParsePtx(const std::string& name, std::string_view text) {
  if (text.size() > kMaxPtxBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}:1: the file has {} bytes, the limit is {}", name, text.size(), kMaxPtxBytes));
  }
  return Parser(name, text).Parse();
}

absl::StatusOr<Module> Parser::Parse() {
  const absl::Status status = ParseModule();
  if (!lexer_.status().ok()) return lexer_.status();
  if (!status.ok()) return status;
  AssignCudaLines();
  return std::move(module_);
}

bool Parser::TakeIf(std::string_view punctuation) {
  if (!Peek().Is(punctuation)) return false;
  lexer_.Take();
  return true;
}

absl::Status Parser::Unexpected(const std::string& expected) const {
  const Token& token = Peek();
  if (token.kind == Token::Kind::kEnd) return ErrorHere(fmt::format("expected {}, but the file ends", expected));
  const std::string_view text = token.text.substr(0, 40);
  return ErrorHere(
      fmt::format("expected {} instead of '{}{}'", expected, token.kind == Token::Kind::kDot ? "." : "", text));
}

absl::Status Parser::Expect(std::string_view punctuation) {
  if (TakeIf(punctuation)) return absl::OkStatus();
  return Unexpected(fmt::format("'{}'", punctuation));
}

absl::StatusOr<std::string_view> Parser::ExpectName(const std::string& what) {
  if (Peek().kind != Token::Kind::kIdentifier) return Unexpected(what);
  return lexer_.Take().text;
}

absl::StatusOr<uint64_t> Parser::ExpectInteger(const std::string& what) {
  if (Peek().kind != Token::Kind::kInteger) return Unexpected(what);
  return lexer_.Take().value;
}

absl::Status Parser::ParseModule() {
  while (Peek().kind != Token::Kind::kEnd) {
    if (TakeIf(";")) continue;
    if (Peek().kind != Token::Kind::kDot) return Unexpected("a directive");
    QGPU_RETURN_IF_ERROR(ParseModuleDirective(Peek()));
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseModuleDirective(const Token& directive) {
  const std::string_view word = directive.text;
  if (word == "version") {
    lexer_.Take();
    if (Peek().kind != Token::Kind::kFloat) return Unexpected("a version such as 6.4");
    module_.version = lexer_.Take().text;
    return absl::OkStatus();
  }
  if (word == "target") return ParseTarget();
  if (word == "address_size") {
    lexer_.Take();
    QGPU_ASSIGN_OR_RETURN(const uint64_t bits, ExpectInteger("32 or 64"));
    if (bits != 32 && bits != 64) return ErrorHere(fmt::format("address size {} is neither 32 nor 64", bits));
    module_.address_size = static_cast<int>(bits);
    return absl::OkStatus();
  }
  if (word == "file") return ParseFile();
  if (word == "loc") {
    lexer_.Take();
    return ParseLoc();
  }
  if (word == "section") {
    lexer_.Take();
    if (Peek().kind == Token::Kind::kDot || Peek().kind == Token::Kind::kIdentifier) lexer_.Take();
    while (Peek().kind == Token::Kind::kDot) lexer_.Take();
    return SkipBalanced("{", "}");
  }
  if (word == "pragma" || word == "alias") {
    while (Peek().kind != Token::Kind::kEnd && !Peek().Is(";")) lexer_.Take();
    return Expect(";");
  }
  return ParseLinkage();
}

absl::Status Parser::ParseTarget() {
  lexer_.Take();
  QGPU_ASSIGN_OR_RETURN(module_.target, ExpectName("a target such as sm_75"));
  while (TakeIf(",")) {
    QGPU_ASSIGN_OR_RETURN(const std::string_view option, ExpectName("a target option"));
    module_.target_options.emplace_back(option);
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseFile() {
  lexer_.Take();
  QGPU_ASSIGN_OR_RETURN(const uint64_t number, ExpectInteger("a file number"));
  if (Peek().kind != Token::Kind::kString) return Unexpected("a file name in quotes");
  module_.files.push_back({static_cast<int>(std::min<uint64_t>(number, INT_MAX)), std::string(lexer_.Take().text)});
  while (TakeIf(",")) {  // time stamp and size
    QGPU_RETURN_IF_ERROR(ExpectInteger("an integer").status());
  }
  return absl::OkStatus();
}

absl::Status Parser::SkipBalanced(std::string_view open, std::string_view close) {
  QGPU_RETURN_IF_ERROR(Expect(open));
  for (int depth = 1; depth > 0;) {
    if (Peek().kind == Token::Kind::kEnd) return Unexpected(fmt::format("'{}'", close));
    const Token token = lexer_.Take();
    if (token.Is(open)) ++depth;
    if (token.Is(close)) --depth;
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseLinkage() {
  Variable linkage;
  while (Peek().kind == Token::Kind::kDot) {
    const std::string_view word = Peek().text;
    if (word == "visible") {
      linkage.is_visible = true;
    } else if (word == "extern") {
      linkage.is_extern = true;
    } else if (word == "weak" || word == "common") {
      linkage.is_weak = true;
    } else {
      break;
    }
    lexer_.Take();
  }
  if (Peek().kind != Token::Kind::kDot) return Unexpected("a function or a variable");
  if (Peek().IsDot("entry") || Peek().IsDot("func")) {
    return ParseFunction(lexer_.Take().text == "entry", linkage);
  }
  const std::optional<Space> space = SpaceOfDirective(Peek().text);
  if (!space || *space == Space::kReg || *space == Space::kParam) {
    return ErrorHere(fmt::format("unknown directive '.{}'", Peek().text));
  }
  lexer_.Take();
  return ParseModuleVariables(*space, linkage);
}

// What precedes the names of variables: alignment, vector length and type, in any order that occurs.
absl::StatusOr<Variable> Parser::ParseVariableHead(Space space) {
  Variable variable;
  variable.space = space;
  variable.ptx_line = Peek().line;
  bool in_pointer = false;  // after .ptr, .align and a space describe what the parameter points at
  while (Peek().kind == Token::Kind::kDot) {
    const Token word = lexer_.Take();
    if (word.text == "align") {
      QGPU_ASSIGN_OR_RETURN(const uint64_t alignment, ExpectInteger("an alignment"));
      if (alignment == 0 || alignment > 4096 || (alignment & (alignment - 1)) != 0) {
        return lexer_.Error(word.line, fmt::format("alignment {} is not a power of two up to 4096", alignment));
      }
      if (!in_pointer) variable.alignment = static_cast<int>(alignment);
    } else if (word.text == "ptr") {
      in_pointer = true;
    } else if (in_pointer && SpaceOfDirective(word.text)) {
      continue;
    } else if (word.text == "attribute") {
      QGPU_RETURN_IF_ERROR(SkipBalanced("(", ")"));
    } else if (const int vector = VectorLength(word.text); vector != 0) {
      variable.vector = vector;
    } else if (LookUpType(word.text) || IsOpaqueType(word.text)) {
      if (!variable.type.empty()) return lexer_.Error(word.line, "a variable has one type");
      variable.type = word.text;
    } else {
      return lexer_.Error(word.line, fmt::format("unknown type or attribute '.{}'", word.text));
    }
  }
  if (variable.type.empty()) return Unexpected("a type");
  return variable;
}

// Name, array dimensions and initialiser of one variable.
absl::Status Parser::ParseDeclarator(Variable* variable) {
  variable->ptx_line = Peek().line;
  QGPU_ASSIGN_OR_RETURN(variable->name, ExpectName("a name"));
  uint64_t bytes = variable->Bytes();
  while (TakeIf("[")) {
    uint64_t dimension = 0;
    if (!Peek().Is("]")) {
      QGPU_ASSIGN_OR_RETURN(const Constant size, ParseConstant(1, 0));
      dimension = size.bits;
    } else if (!variable->dimensions.empty()) {
      return ErrorHere("only the first dimension of an array may be left out");
    }
    QGPU_RETURN_IF_ERROR(Expect("]"));
    if (variable->dimensions.size() >= 8) return ErrorHere("an array has at most 8 dimensions");
    if (dimension > kMaxVariableBytes || bytes * std::max<uint64_t>(dimension, 1) > kMaxVariableBytes) {
      return ErrorHere(fmt::format("{} takes more than {} bytes", variable->name, kMaxVariableBytes));
    }
    bytes *= std::max<uint64_t>(dimension, 1);
    variable->dimensions.push_back(dimension);
  }
  if (TakeIf("=")) return ParseInitializers(variable);
  return absl::OkStatus();
}

absl::Status Parser::ParseInitializers(Variable* variable) {
  if (!Peek().Is("{")) {
    QGPU_ASSIGN_OR_RETURN(Initializer value, ParseInitializer());
    variable->initializers.push_back(std::move(value));
    return absl::OkStatus();
  }
  const bool is_open_ended = !variable->dimensions.empty() && variable->dimensions[0] == 0;
  std::vector<uint64_t> strides;  // elements that one step at each brace depth moves by
  uint64_t stride = static_cast<uint64_t>(variable->vector);
  for (auto dimension = variable->dimensions.rbegin(); dimension != variable->dimensions.rend(); ++dimension) {
    strides.insert(strides.begin(), stride);
    stride *= *dimension;
  }
  if (variable->vector > 1) strides.push_back(1);
  const uint64_t total = stride;
  uint64_t next = 0, end = 0;
  std::vector<uint64_t> starts;  // of the open braces
  do {
    if (TakeIf("{")) {
      if (starts.size() > strides.size()) return ErrorHere("initialiser nested deeper than its array");
      starts.push_back(next);
      continue;
    }
    QGPU_ASSIGN_OR_RETURN(Initializer value, ParseInitializer());
    value.element = next++;
    end = std::max(end, next);
    if (!is_open_ended && end > total) {
      return ErrorHere(fmt::format("{} has {} elements, fewer than its initialisers", variable->name, total));
    }
    variable->initializers.push_back(std::move(value));
    while (!starts.empty() && TakeIf("}")) {
      if (starts.size() > 1) next = starts.back() + strides[starts.size() - 2];
      end = std::max(end, next);
      starts.pop_back();
    }
    if (starts.empty()) break;
    QGPU_RETURN_IF_ERROR(Expect(","));
  } while (true);
  if (is_open_ended) {
    variable->dimensions[0] = (end + strides[0] - 1) / strides[0];
    if (variable->Bytes() > kMaxVariableBytes) return ErrorHere(variable->name + " is too large");
  }
  return absl::OkStatus();
}

// A constant, a float, a symbol with an offset, generic(symbol), or mask(symbol).
absl::StatusOr<Initializer> Parser::ParseInitializer() {
  Initializer initializer;
  if (Peek().kind != Token::Kind::kIdentifier || Peek().IsWord("WARP_SZ")) {
    if (Peek().kind == Token::Kind::kInteger && lexer_.PeekSecond().Is("(")) {
      initializer.mask = lexer_.Take().value;
      lexer_.Take();
    } else {
      QGPU_ASSIGN_OR_RETURN(initializer.value, ParseConstantOperand());
      return initializer;
    }
  } else if (Peek().IsWord("generic") && lexer_.PeekSecond().Is("(")) {
    initializer.generic = true;
    lexer_.Take();
    lexer_.Take();
  }
  const bool in_parentheses = initializer.generic || initializer.mask != 0;
  initializer.value.kind = Operand::Kind::kSymbol;
  QGPU_ASSIGN_OR_RETURN(initializer.value.name, ExpectName("a symbol"));
  if (!in_parentheses) {
    QGPU_ASSIGN_OR_RETURN(initializer.value.value, ParseOffset());
    return initializer;
  }
  QGPU_ASSIGN_OR_RETURN(const uint64_t inside, ParseOffset());
  QGPU_RETURN_IF_ERROR(Expect(")"));
  QGPU_ASSIGN_OR_RETURN(const uint64_t outside, ParseOffset());
  initializer.value.value = inside + outside;
  return initializer;
}

absl::Status Parser::ParseModuleVariables(Space space, const Variable& linkage) {
  if (TakeIf("[")) {  // bank number of old .const[n]
    QGPU_RETURN_IF_ERROR(ExpectInteger("a bank number").status());
    QGPU_RETURN_IF_ERROR(Expect("]"));
  }
  QGPU_ASSIGN_OR_RETURN(const Variable head, ParseVariableHead(space));
  do {
    Variable variable = head;
    variable.is_extern = linkage.is_extern;
    variable.is_visible = linkage.is_visible;
    variable.is_weak = linkage.is_weak;
    QGPU_RETURN_IF_ERROR(ParseDeclarator(&variable));
    if (!module_names_.insert(variable.name).second) {
      return lexer_.Error(variable.ptx_line, fmt::format("{} is declared twice", variable.name));
    }
    module_.variables.push_back(std::move(variable));
  } while (TakeIf(","));
  return Expect(";");
}

absl::Status Parser::ParseParameterList(std::vector<Variable>* parameters) {
  QGPU_RETURN_IF_ERROR(Expect("("));
  if (TakeIf(")")) return absl::OkStatus();
  std::unordered_set<std::string> names;
  do {
    if (!Peek().IsDot("param") && !Peek().IsDot("reg")) return Unexpected("a parameter");
    const Space space = lexer_.Take().text == "reg" ? Space::kReg : Space::kParam;
    QGPU_ASSIGN_OR_RETURN(Variable parameter, ParseVariableHead(space));
    QGPU_RETURN_IF_ERROR(ParseDeclarator(&parameter));
    if (!names.insert(parameter.name).second && parameter.name != "_") {
      return lexer_.Error(parameter.ptx_line, fmt::format("{} is declared twice", parameter.name));
    }
    parameters->push_back(std::move(parameter));
  } while (TakeIf(","));
  return Expect(")");
}

absl::Status Parser::ParseFunctionDirectives(Function* function) {
  while (Peek().kind == Token::Kind::kDot) {
    Directive directive;
    directive.name = lexer_.Take().text;
    if (directive.name == "pragma") {
      while (Peek().kind == Token::Kind::kString || Peek().Is(",")) lexer_.Take();
      QGPU_RETURN_IF_ERROR(Expect(";"));
    }
    while (Peek().kind == Token::Kind::kInteger) {
      directive.values.push_back(lexer_.Take().value);
      if (!TakeIf(",")) break;
    }
    function->directives.push_back(std::move(directive));
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseFunction(bool is_entry, const Variable& linkage) {
  Function function;
  function.is_entry = is_entry;
  function.is_extern = linkage.is_extern;
  function.is_visible = linkage.is_visible;
  function.is_weak = linkage.is_weak;
  if (Peek().IsDot("attribute")) {
    lexer_.Take();
    QGPU_RETURN_IF_ERROR(SkipBalanced("(", ")"));
  }
  if (!is_entry && Peek().Is("(")) QGPU_RETURN_IF_ERROR(ParseParameterList(&function.return_parameters));
  function.ptx_line = Peek().line;
  QGPU_ASSIGN_OR_RETURN(function.name, ExpectName("a function name"));
  if (Peek().Is("(")) QGPU_RETURN_IF_ERROR(ParseParameterList(&function.parameters));
  QGPU_RETURN_IF_ERROR(ParseFunctionDirectives(&function));
  current_chain_ = 0;
  chain_of_.emplace_back();
  if (TakeIf(";")) {
    function.is_declaration = true;
  } else {
    QGPU_RETURN_IF_ERROR(ParseBody(&function));
  }
  return AddFunction(std::move(function));
}

absl::Status Parser::AddFunction(Function function) {
  const auto [known, is_new] = function_index_.try_emplace(function.name, module_.functions.size());
  if (is_new) {
    if (!module_names_.insert(function.name).second) {
      return lexer_.Error(function.ptx_line, fmt::format("{} is declared twice", function.name));
    }
    module_.functions.push_back(std::move(function));
    return absl::OkStatus();
  }
  std::vector<int> chains = std::move(chain_of_.back());
  chain_of_.pop_back();
  Function& earlier = module_.functions[known->second];
  if (function.is_declaration) return absl::OkStatus();
  if (!earlier.is_declaration) {
    return lexer_.Error(function.ptx_line, fmt::format("{} is defined twice", function.name));
  }
  earlier = std::move(function);
  chain_of_[known->second] = std::move(chains);
  return absl::OkStatus();
}

// A function's own file is the one that its first .loc names, behind all calls. An instruction's CUDA line is that of
// the innermost position in this file on its chain of calls, otherwise the latest one before it.
void Parser::AssignCudaLines() {
  for (size_t f = 0; f < module_.functions.size(); ++f) {
    const auto first = std::find_if(chain_of_[f].begin(), chain_of_[f].end(), [](int chain) { return chain != 0; });
    if (first == chain_of_[f].end()) continue;
    const int own_file = chains_[*first].back().file;
    int cuda_line = 0;
    std::vector<Instruction>& instructions = module_.functions[f].instructions;
    for (size_t i = 0; i < instructions.size(); ++i) {
      const InlineChain& chain = chains_[chain_of_[f][i]];
      const auto own = std::find_if(chain.begin(), chain.end(), [&](const Position& position) {
        return position.file == own_file && position.line != 0;
      });
      if (own != chain.end()) cuda_line = own->line;
      if (cuda_line != 0) instructions[i].location.cuda_file = own_file;
      instructions[i].location.cuda_line = cuda_line;
    }
  }
}

}  // namespace qgpu::ptx
