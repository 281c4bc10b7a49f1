#include "model/text/jinja/methods.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "model/text/jinja/operators.h"
#include "model/text/jinja/python_text.h"
#include "model/text/utf8.h"

namespace qgpu::jinja {
namespace {

using Names = std::set<std::string>;
using Result = absl::StatusOr<Value>;

// Everything that Python's types have: a name that is missing here would be looked up as an element.
const Names kStringMethods = {
    "capitalize",   "casefold",   "center",    "count",       "encode",    "endswith",     "expandtabs",   "find",
    "format",       "format_map", "index",     "isalnum",     "isalpha",   "isascii",      "isdecimal",    "isdigit",
    "isidentifier", "islower",    "isnumeric", "isprintable", "isspace",   "istitle",      "isupper",      "join",
    "ljust",        "lower",      "lstrip",    "maketrans",   "partition", "removeprefix", "removesuffix", "replace",
    "rfind",        "rindex",     "rjust",     "rpartition",  "rsplit",    "rstrip",       "split",        "splitlines",
    "startswith",   "strip",      "swapcase",  "title",       "translate", "upper",        "zfill"};
const Names kDictMethods = {"clear", "copy",    "fromkeys",   "get",    "items", "keys",
                            "pop",   "popitem", "setdefault", "update", "values"};
const Names kListMethods = {"append", "clear", "copy",   "count",   "extend", "index",
                            "insert", "pop",   "remove", "reverse", "sort"};
const Names kTupleMethods = {"count", "index"};
const Names kLoopMethods = {"cycle", "changed"};

struct Call {
  const std::string& text;  // of the string whose method it is
  const CallArguments& arguments;
  Budget& budget;

  absl::StatusOr<std::vector<Value>> Bind(const char* name, std::initializer_list<std::string_view> parameters,
                                          size_t required) const {
    return arguments.Bind(name, parameters, required);
  }
};

absl::StatusOr<std::string> StringArgument(const Call& call, const std::string& method, const Value& value) {
  if (value.IsString()) {
    QGPU_RETURN_IF_ERROR(call.budget.Read(value.AsString().size()));
    return value.AsString();
  }
  QGPU_RETURN_IF_ERROR(CheckDefined(value));
  return Wrong(fmt::format("{}: a string expected, not {}", method, value.TypeName()));
}

Result Strip(const Call& call, bool left, bool right) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, call.Bind("strip", {"chars"}, 0));
  std::string_view text = call.text;
  if (bound[0].IsUndefined() || bound[0].IsNone()) {
    if (left) text = StripLeft(text);
    if (right) text = StripRight(text);
    return Value(std::string(text));
  }
  QGPU_ASSIGN_OR_RETURN(const std::string characters, StringArgument(call, "strip", bound[0]));
  QGPU_RETURN_IF_ERROR(call.budget.Read(text.size() * characters.size()));
  const std::u32string set = ToCodePoints(characters);
  if (left) text = StripLeft(text, set);
  if (right) text = StripRight(text, set);
  return Value(std::string(text));
}

// Where `part` is last, or npos. What was compared in vain is counted.
absl::StatusOr<size_t> FindLast(const Call& call, std::string_view text, std::string_view part) {
  if (text.size() < part.size()) return std::string_view::npos;
  size_t compared = 0;
  for (size_t at = text.size() - part.size() + 1; at-- > 0;) {
    const std::string_view here = text.substr(at, part.size());
    const size_t same = std::mismatch(part.begin(), part.end(), here.begin()).first - part.begin();
    if (same == part.size()) return at;
    compared += same;
    if (compared > 4096) {
      QGPU_RETURN_IF_ERROR(call.budget.Read(compared));
      compared = 0;
    }
  }
  return std::string_view::npos;
}

// Words between white space.
std::vector<Value> SplitWords(std::string_view text, int64_t most) {
  std::vector<Value> parts;
  text = StripLeft(text);
  while (!text.empty()) {
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.emplace_back(std::string(StripRight(text)));
      break;
    }
    size_t end = 0;
    for (size_t next = 0; end < text.size(); end = next) {
      if (IsPythonSpace(NextCodePoint(text, next))) break;
    }
    parts.emplace_back(std::string(text.substr(0, end)));
    text = StripLeft(text.substr(end));
  }
  return parts;
}

Result Split(const Call& call, bool from_right) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, call.Bind("split", {"sep", "maxsplit"}, 0));
  if (!bound[1].IsUndefined() && !bound[1].IsInteger()) return Wrong("split: maxsplit is not a whole number");
  const int64_t most = bound[1].IsInteger() ? bound[1].AsInteger() : -1;
  QGPU_RETURN_IF_ERROR(call.budget.ChargeElements(call.text.size()));
  if (bound[0].IsUndefined() || bound[0].IsNone()) {
    if (from_right && most >= 0) return Wrong("rsplit at white space with a limit is not supported");
    return Value::MakeList(SplitWords(call.text, most));
  }
  QGPU_ASSIGN_OR_RETURN(const std::string separator, StringArgument(call, "split", bound[0]));
  if (separator.empty()) return Wrong("split: an empty separator");
  std::vector<Value> parts;
  std::string_view rest = call.text;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    QGPU_ASSIGN_OR_RETURN(const size_t at, from_right ? FindLast(call, rest, separator) : FindText(rest, separator));
    if (at == std::string_view::npos) break;
    const std::string_view before = rest.substr(0, at), behind = rest.substr(at + separator.size());
    parts.emplace_back(std::string(from_right ? behind : before));
    rest = from_right ? before : behind;
  }
  parts.emplace_back(std::string(rest));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return Value::MakeList(std::move(parts));
}

Result StartsOrEnds(const Call& call, bool starts) {
  const char* const name = starts ? "startswith" : "endswith";
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, call.Bind(name, {"prefix"}, 1));
  const std::vector<Value> candidates = bound[0].IsTuple() ? bound[0].AsList() : std::vector<Value>{bound[0]};
  QGPU_RETURN_IF_ERROR(call.budget.Steps(candidates.size()));
  for (const Value& candidate : candidates) {
    QGPU_ASSIGN_OR_RETURN(const std::string part, StringArgument(call, name, candidate));
    if (call.text.size() < part.size()) continue;
    if (call.text.compare(starts ? 0 : call.text.size() - part.size(), part.size(), part) == 0) return Value(true);
  }
  return Value(false);
}

Result RemoveAffix(const Call& call, bool prefix) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, call.Bind("removeprefix", {"prefix"}, 1));
  QGPU_ASSIGN_OR_RETURN(const std::string affix, StringArgument(call, "removeprefix", bound[0]));
  if (call.text.size() < affix.size()) return Value(call.text);
  const size_t rest = call.text.size() - affix.size();
  if (call.text.compare(prefix ? 0 : rest, affix.size(), affix) != 0) return Value(call.text);
  return Value(prefix ? call.text.substr(affix.size()) : call.text.substr(0, rest));
}

Result Replace(const Call& call) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, call.Bind("replace", {"old", "new", "count"}, 2));
  QGPU_ASSIGN_OR_RETURN(const std::string from, StringArgument(call, "replace", bound[0]));
  QGPU_ASSIGN_OR_RETURN(const std::string to, StringArgument(call, "replace", bound[1]));
  if (from.empty()) return Wrong("replace: an empty string to replace is not supported");
  if (!bound[2].IsUndefined() && !bound[2].IsNone() && !bound[2].IsInteger())
    return Wrong("replace: count is not a whole number");
  int64_t left = bound[2].IsInteger() && bound[2].AsInteger() >= 0 ? bound[2].AsInteger() : INT64_MAX;
  std::string text;
  size_t at = 0;
  for (size_t found = 0; left > 0 && (found = FindText(call.text, from, at)) != std::string::npos; --left) {
    text.append(call.text, at, found - at);
    text += to;
    at = found + from.size();
    if (text.size() > static_cast<size_t>(kMostBytes)) break;
  }
  text.append(call.text, at);
  QGPU_RETURN_IF_ERROR(call.budget.Charge(text.size()));
  return Value(std::move(text));
}

Result Join(const Call& call) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, call.Bind("join", {"iterable"}, 1));
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> elements, Elements(bound[0], call.budget));
  std::string text;
  for (size_t i = 0; i < elements.size(); ++i) {
    QGPU_ASSIGN_OR_RETURN(const std::string part, StringArgument(call, "join", elements[i]));
    QGPU_RETURN_IF_ERROR(call.budget.Charge(part.size() + call.text.size()));
    text += (i == 0 ? "" : call.text) + part;
  }
  return Value(std::move(text));
}

Result Find(const Call& call, bool last) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, call.Bind("find", {"sub"}, 1));
  QGPU_ASSIGN_OR_RETURN(const std::string part, StringArgument(call, "find", bound[0]));
  QGPU_ASSIGN_OR_RETURN(const size_t at, last ? FindLast(call, call.text, part) : FindText(call.text, part));
  return Value(at == std::string::npos ? int64_t{-1} : Length(std::string_view(call.text).substr(0, at)));
}

Result Count(const Call& call) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, call.Bind("count", {"sub"}, 1));
  QGPU_ASSIGN_OR_RETURN(const std::string part, StringArgument(call, "count", bound[0]));
  if (part.empty()) return Value(Length(call.text) + 1);
  int64_t count = 0;
  for (size_t at = FindText(call.text, part); at != std::string::npos; at = FindText(call.text, part, at + part.size()))
    ++count;
  return Value(count);
}

Result Changed(const Call& call, std::string (*change)(std::string_view)) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, call.Bind("upper", {}, 0));
  std::string text = change(call.text);
  QGPU_RETURN_IF_ERROR(call.budget.Charge(text.size()));
  return Value(std::move(text));
}

Result StringMethod(const std::string& name, const Call& call) {
  static const std::map<std::string, std::function<Result(const Call&)>> methods = {
      {"strip", [](const Call& c) { return Strip(c, true, true); }},
      {"lstrip", [](const Call& c) { return Strip(c, true, false); }},
      {"rstrip", [](const Call& c) { return Strip(c, false, true); }},
      {"split", [](const Call& c) { return Split(c, false); }},
      {"rsplit", [](const Call& c) { return Split(c, true); }},
      {"startswith", [](const Call& c) { return StartsOrEnds(c, true); }},
      {"endswith", [](const Call& c) { return StartsOrEnds(c, false); }},
      {"removeprefix", [](const Call& c) { return RemoveAffix(c, true); }},
      {"removesuffix", [](const Call& c) { return RemoveAffix(c, false); }},
      {"replace", Replace},
      {"join", Join},
      {"find", [](const Call& c) { return Find(c, false); }},
      {"rfind", [](const Call& c) { return Find(c, true); }},
      {"count", Count},
      {"upper", [](const Call& c) { return Changed(c, Upper); }},
      {"lower", [](const Call& c) { return Changed(c, Lower); }},
      {"capitalize", [](const Call& c) { return Changed(c, Capitalize); }},
  };
  const auto method = methods.find(name);
  if (method == methods.end()) return Wrong(fmt::format("the method \"{}\" of strings is not supported", name));
  return method->second(call);
}

Result DictMethod(const Dict& dict, const Value& self, const std::string& name, const CallArguments& arguments,
                  Budget& budget) {
  if (name == "get") {
    QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, arguments.Bind("get", {"key", "default"}, 1));
    QGPU_ASSIGN_OR_RETURN(const Value* const found, dict.Find(bound[0], budget));
    return found != nullptr                                            ? *found
           : bound[1].IsUndefined() && arguments.positional.size() < 2 ? Value::None()
                                                                       : bound[1];
  }
  if (name == "copy") return self;
  QGPU_RETURN_IF_ERROR(budget.ChargeElements(3 * dict.entries.size()));
  std::vector<Value> elements;
  for (const auto& [key, value] : dict.entries) {
    elements.push_back(name == "keys" ? key : name == "values" ? value : Value::MakeList({key, value}, /*tuple=*/true));
  }
  if (name != "keys" && name != "values" && name != "items") {
    return Wrong(fmt::format("the method \"{}\" of dictionaries is not supported", name));
  }
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, arguments.Bind(name, {}, 0));
  return Value::MakeList(std::move(elements));
}

Result ListMethod(const Value& self, const std::string& name, const CallArguments& arguments, Budget& budget) {
  if (name == "copy" && arguments.positional.empty()) return self;
  if (name != "count" && name != "index")
    return Wrong(fmt::format("the method \"{}\" of lists is not supported", name));
  QGPU_ASSIGN_OR_RETURN(const std::vector<Value> bound, arguments.Bind(name, {"value"}, 1));
  int64_t count = 0;
  for (size_t i = 0; i < self.AsList().size(); ++i) {
    QGPU_ASSIGN_OR_RETURN(const bool same, Equal(self.AsList()[i], bound[0], budget));
    if (!same) continue;
    if (name == "index") return Value(static_cast<int64_t>(i));
    ++count;
  }
  if (name == "index") return Wrong("index: the list has no such element");
  return Value(count);
}

Result LoopMethod(Loop& loop, const std::string& name, const CallArguments& arguments, Budget& budget) {
  if (!arguments.named.empty()) return Wrong(fmt::format("loop.{}: arguments by name", name));
  if (name == "cycle") {
    if (arguments.positional.empty()) return Wrong("loop.cycle: no items to cycle through");
    return arguments.positional[static_cast<size_t>(loop.index) % arguments.positional.size()];
  }
  const Value seen = Value::MakeList(arguments.positional);
  QGPU_RETURN_IF_ERROR(CheckDepth(seen));
  QGPU_ASSIGN_OR_RETURN(const bool same, Equal(loop.last_changed, seen, budget));
  loop.last_changed = seen;
  return Value(!same);
}

}  // namespace

bool HasMethod(const Value& value, const std::string& name) {
  if (value.IsString()) return kStringMethods.count(name) != 0;
  if (value.IsDict()) return kDictMethods.count(name) != 0;
  if (value.IsList()) return (value.IsTuple() ? kTupleMethods : kListMethods).count(name) != 0;
  return value.AsObject<Loop>() != nullptr && kLoopMethods.count(name) != 0;
}

absl::StatusOr<Value> CallMethod(const BoundMethod& method, const CallArguments& arguments, Budget& budget) {
  const Value& self = method.self;
  if (self.IsSafe()) return Wrong("methods of a string marked safe are not supported");
  if (self.IsString()) {
    QGPU_RETURN_IF_ERROR(budget.Charge(self.AsString().size()));
    return StringMethod(method.name, {self.AsString(), arguments, budget});
  }
  if (self.IsDict()) return DictMethod(self.AsDict(), self, method.name, arguments, budget);
  if (self.IsList()) return ListMethod(self, method.name, arguments, budget);
  return LoopMethod(*self.AsObject<Loop>(), method.name, arguments, budget);
}

}  // namespace qgpu::jinja
