#include "model/text/jinja/parser.h"

#include <set>

#include "model/text/jinja/expression_parser.h"

namespace qgpu::jinja {
namespace {

using Kind = Statement::Kind;

constexpr int kMostNesting = 40;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}

  absl::StatusOr<Body> Run() {
    QGPU_ASSIGN_OR_RETURN(Body body, Until({}));
    return body;
  }

 private:
  using StatementPtr = std::unique_ptr<Statement>;
  using Result = absl::StatusOr<StatementPtr>;

  StatementPtr Make(Kind kind) const { return std::make_unique<Statement>(Statement{kind, tokens_.Peek().line}); }
  absl::Status EndOfTag() { return tokens_.Expect(Token::Kind::kBlockEnd, "", "the end of the tag"); }

  // Statements up to a block tag with one of these names, whose "{%" and name are read; up to the end if there are
  // none.
  absl::StatusOr<Body> Until(const std::set<std::string>& ends) {
    Body body;
    if (++nesting_ > kMostNesting) return tokens_.Error("blocks nested too deeply");
    while (true) {
      const Token& token = tokens_.Peek();
      if (token.kind == Token::Kind::kEnd) {
        if (!ends.empty())
          return tokens_.Error(fmt::format("\"{}\" expected, not the end of the template", *ends.rbegin()));
        break;
      }
      if (token.kind == Token::Kind::kText) {
        body.push_back(Make(Kind::kText));
        body.back()->text = tokens_.Next().text;
        continue;
      }
      tokens_.Next();
      if (token.kind == Token::Kind::kPrintBegin) {
        body.push_back(Make(Kind::kPrint));
        QGPU_ASSIGN_OR_RETURN(body.back()->expression, expressions_.Tuple(true));
        QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kPrintEnd, "", "\"}}\""));
        continue;
      }
      if (tokens_.Peek().kind == Token::Kind::kName && ends.count(tokens_.Peek().text) != 0) break;
      QGPU_ASSIGN_OR_RETURN(StatementPtr statement, Block());
      body.push_back(std::move(statement));
    }
    --nesting_;
    return body;
  }

  // One block statement, behind its "{%".
  Result Block() {
    const Token& name = tokens_.Peek();
    if (name.kind != Token::Kind::kName) return tokens_.Error("the name of a statement expected");
    if (name.text == "if") return If();
    if (name.text == "for") return For();
    if (name.text == "set") return Set();
    if (name.text == "macro") return Macro();
    if (name.text == "generation") return Generation();
    if (name.text == "break" || name.text == "continue") {
      if (loops_ == 0) return tokens_.Error(fmt::format("\"{}\" outside of a loop", name.text));
      StatementPtr statement = Make(name.text == "break" ? Kind::kBreak : Kind::kContinue);
      tokens_.Next();
      QGPU_RETURN_IF_ERROR(EndOfTag());
      return statement;
    }
    return tokens_.Error(fmt::format("the statement \"{}\" is not supported", name.text));
  }

  Result If() {
    StatementPtr statement = Make(Kind::kIf);
    while (true) {
      tokens_.Next();  // if, elif
      Branch branch;
      QGPU_ASSIGN_OR_RETURN(branch.test, expressions_.Tuple(false));
      QGPU_RETURN_IF_ERROR(EndOfTag());
      QGPU_ASSIGN_OR_RETURN(branch.body, Until({"elif", "else", "endif"}));
      statement->branches.push_back(std::move(branch));
      if (!tokens_.IsName("elif")) break;
    }
    if (tokens_.SkipName("else")) {
      QGPU_RETURN_IF_ERROR(EndOfTag());
      QGPU_ASSIGN_OR_RETURN(statement->otherwise, Until({"endif"}));
    }
    tokens_.Next();
    QGPU_RETURN_IF_ERROR(EndOfTag());
    return statement;
  }

  absl::Status Targets(Statement& statement) {
    const bool bracket = tokens_.SkipOperator("(");
    do {
      if (!statement.targets.empty() && tokens_.Peek().kind != Token::Kind::kName) break;
      const Token& name = tokens_.Peek();
      QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kName, "", "the name of a variable"));
      static const std::set<std::string> reserved = {"true", "false", "none", "True", "False", "None"};
      if (reserved.count(name.text) != 0) return tokens_.Error(fmt::format("\"{}\" cannot be set", name.text));
      statement.targets.push_back(name.text);
      statement.unpacks = statement.unpacks || tokens_.IsOperator(",");
    } while (tokens_.SkipOperator(","));
    return bracket ? tokens_.Expect(Token::Kind::kOperator, ")", "\")\"") : absl::OkStatus();
  }

  Result For() {
    StatementPtr statement = Make(Kind::kFor);
    tokens_.Next();
    QGPU_RETURN_IF_ERROR(Targets(*statement));
    for (const std::string& target : statement->targets) {
      if (target == "loop") return tokens_.Error("\"loop\" cannot be a loop's variable");
    }
    QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kName, "in", "\"in\""));
    QGPU_ASSIGN_OR_RETURN(statement->expression, expressions_.Tuple(false));
    if (tokens_.SkipName("if")) {
      QGPU_ASSIGN_OR_RETURN(statement->filter, expressions_.Full());
    }
    if (tokens_.IsName("recursive")) return tokens_.Error("recursive loops are not supported");
    QGPU_RETURN_IF_ERROR(EndOfTag());
    ++loops_;
    QGPU_ASSIGN_OR_RETURN(statement->body, Until({"else", "endfor"}));
    --loops_;
    if (tokens_.SkipName("else")) {
      QGPU_RETURN_IF_ERROR(EndOfTag());
      QGPU_ASSIGN_OR_RETURN(statement->otherwise, Until({"endfor"}));
    }
    tokens_.Next();
    QGPU_RETURN_IF_ERROR(EndOfTag());
    return statement;
  }

  Result Set() {
    StatementPtr statement = Make(Kind::kSet);
    tokens_.Next();
    QGPU_RETURN_IF_ERROR(Targets(*statement));
    if (tokens_.SkipOperator(".")) {
      const Token& name = tokens_.Peek();
      QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kName, "", "the name of an attribute"));
      if (statement->unpacks) return tokens_.Error("setting several attributes at once is not supported");
      statement->attribute = name.text;
    }
    if (tokens_.SkipOperator("=")) {
      QGPU_ASSIGN_OR_RETURN(statement->expression, expressions_.Tuple(true));
      QGPU_RETURN_IF_ERROR(EndOfTag());
      return statement;
    }
    if (tokens_.IsOperator("|")) return tokens_.Error("a filter on a block of \"set\" is not supported");
    if (statement->unpacks) return tokens_.Error("\"=\" expected");
    QGPU_RETURN_IF_ERROR(EndOfTag());
    // The block is a scope of its own, out of which no loop can be left.
    const int loops = std::exchange(loops_, 0);
    ++scopes_;
    QGPU_ASSIGN_OR_RETURN(statement->body, Until({"endset"}));
    --scopes_;
    loops_ = loops;
    tokens_.Next();
    QGPU_RETURN_IF_ERROR(EndOfTag());
    return statement;
  }

  Result Macro() {
    StatementPtr statement = Make(Kind::kMacro);
    if (loops_ > 0 || scopes_ > 0) return tokens_.Error("a macro inside of a loop, macro or block is not supported");
    tokens_.Next();
    statement->text = tokens_.Peek().text;
    QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kName, "", "the name of the macro"));
    QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kOperator, "(", "\"(\""));
    std::set<std::string> names;
    while (!tokens_.IsOperator(")")) {
      if (!statement->parameters.empty())
        QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kOperator, ",", "\",\" or \")\""));
      if (tokens_.IsOperator(")")) break;
      const std::string name = tokens_.Peek().text;
      QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kName, "", "the name of a parameter"));
      if (!names.insert(name).second) return tokens_.Error(fmt::format("the parameter \"{}\" twice", name));
      ExpressionPtr fallback;
      if (tokens_.SkipOperator("=")) {
        QGPU_ASSIGN_OR_RETURN(fallback, expressions_.Full());
      } else if (!statement->parameters.empty() && statement->parameters.back().second != nullptr) {
        return tokens_.Error("a parameter without default after one with");
      }
      statement->parameters.emplace_back(name, std::move(fallback));
    }
    tokens_.Next();
    QGPU_RETURN_IF_ERROR(EndOfTag());
    ++scopes_;
    QGPU_ASSIGN_OR_RETURN(statement->body, Until({"endmacro"}));
    --scopes_;
    tokens_.Next();
    QGPU_RETURN_IF_ERROR(EndOfTag());
    return statement;
  }

  // Hugging Face's mark around what an assistant writes: nothing but its content.
  Result Generation() {
    StatementPtr statement = Make(Kind::kGeneration);
    tokens_.Next();
    QGPU_RETURN_IF_ERROR(EndOfTag());
    const int loops = std::exchange(loops_, 0);
    ++scopes_;
    QGPU_ASSIGN_OR_RETURN(statement->body, Until({"endgeneration"}));
    --scopes_;
    loops_ = loops;
    tokens_.Next();
    QGPU_RETURN_IF_ERROR(EndOfTag());
    return statement;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int nesting_ = 0;
  int loops_ = 0;   // around this place, inside of the innermost scope that cannot be left
  int scopes_ = 0;  // macros and blocks around this place
};

}  // namespace

absl::StatusOr<Body> ParseTemplate(std::string_view valid_template) {
  QGPU_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(valid_template));
  return Parser(std::move(tokens)).Run();
}

}  // namespace qgpu::jinja
