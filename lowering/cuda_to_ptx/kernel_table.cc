#include "lowering/cuda_to_ptx/kernel_table.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

namespace qgpu {
namespace {

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '$' || c == '-';
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The identifier at text[0]: plain characters, or a quoted string with \XX escapes. Shortens `text` past it.
std::string TakeName(std::string_view& text) {
  std::string name;
  if (text.empty() || text.front() != '"') {
    while (!text.empty() && IsNameCharacter(text.front())) {
      name += text.front();
      text.remove_prefix(1);
    }
    return name;
  }
  text.remove_prefix(1);
  while (!text.empty() && text.front() != '"') {
    if (text.front() == '\\' && text.size() >= 3 && HexDigit(text[1]) >= 0 && HexDigit(text[2]) >= 0) {
      name += static_cast<char>(HexDigit(text[1]) * 16 + HexDigit(text[2]));
      text.remove_prefix(3);
    } else {
      name += text.front();
      text.remove_prefix(1);
    }
  }
  if (!text.empty()) text.remove_prefix(1);
  return name;
}

// The value after `key` in a metadata node, which ends at a comma or parenthesis outside quotes.
std::string_view Field(std::string_view node, std::string_view key) {
  const size_t at = node.find(key);
  if (at == std::string_view::npos) return {};
  node.remove_prefix(at + key.size());
  bool quoted = false;
  for (size_t i = 0; i < node.size(); ++i) {
    if (node[i] == '"') quoted = !quoted;
    if (!quoted && (node[i] == ',' || node[i] == ')' || node[i] == ' ')) return node.substr(0, i);
  }
  return node;
}

int ToInt(std::string_view digits) {
  int value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// What is needed of an IR module, line by line.
struct IrModule {
  std::map<std::string, std::string_view, std::less<>> definitions;  // name -> the define line from its '('
  std::map<std::string_view, std::string_view> metadata;             // "!12" -> the node
  std::vector<std::string> kernels;
};

IrModule ReadModule(std::string_view ir) {
  IrModule module;
  for (size_t begin = 0; begin < ir.size();) {
    size_t end = ir.find('\n', begin);
    if (end == std::string_view::npos) end = ir.size();
    std::string_view line = ir.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("define ")) {
      line.remove_prefix(std::min(line.size(), line.find('@') + 1));
      const std::string name = TakeName(line);
      module.definitions[name] = line;
    } else if (line.starts_with("!")) {
      const size_t equals = line.find(" = ");
      if (equals == std::string_view::npos) continue;
      std::string_view node = line.substr(equals + 3);
      module.metadata[line.substr(0, equals)] = node;
      if (node.starts_with("!{ptr @") && node.find(", !\"kernel\", i32 1}") != std::string_view::npos) {
        node.remove_prefix(std::string_view("!{ptr @").size());
        module.kernels.push_back(TakeName(node));
      }
    }
  }
  return module;
}

// Splits "(ptr noundef %a, i32 %n) attributes..." at its top level commas.
std::vector<std::string_view> SplitParameters(std::string_view list) {
  std::vector<std::string_view> parts;
  int depth = 0;
  bool quoted = false;
  size_t begin = 1;
  for (size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '(' || c == '[' || c == '{' || c == '<') ++depth;
    if (c == ')' || c == ']' || c == '}' || c == '>') --depth;
    if ((c == ',' && depth == 1) || depth == 0) {
      if (i > begin) parts.push_back(list.substr(begin, i - begin));
      begin = i + 1;
    }
    if (depth == 0) break;
  }
  return parts;
}

CompiledParameter ReadParameter(std::string_view text) {
  while (text.starts_with(" ")) text.remove_prefix(1);
  CompiledParameter parameter;
  const bool by_value = text.find(" byval(") != std::string_view::npos;
  const std::string_view type = text.substr(0, text.find(' '));
  parameter.is_pointer = type == "ptr" && !by_value;
  parameter.type = by_value ? "struct" : type == "ptr" ? "pointer" : std::string(type);
  // The name is last: "%n", or "%0" where the source gives none.
  size_t at = text.rfind('%');
  if (text.ends_with("\"")) at = text.rfind("%\"");
  if (at == std::string_view::npos) return parameter;
  std::string_view rest = text.substr(at + 1);
  const bool numbered = !rest.empty() && rest.find_first_not_of("0123456789") == std::string_view::npos;
  if (!numbered) parameter.name = TakeName(rest);
  return parameter;
}

// Bytes of each parameter of entry `name`, from the backend's ".param .u64 x" and ".param .align 4 .b8 x[8]" lines.
std::optional<std::vector<uint32_t>> ParameterBytes(std::string_view ptx, const std::string& name) {
  const size_t entry = ptx.find(fmt::format("\n.visible .entry {}(", name));
  const size_t weak = ptx.find(fmt::format("\n.weak .entry {}(", name));
  const size_t start = std::min(entry, weak);
  if (start == std::string_view::npos) return std::nullopt;
  const std::string_view list = ptx.substr(start, ptx.find("\n)", start) - start);
  std::vector<uint32_t> bytes;
  for (size_t at = list.find(".param "); at != std::string_view::npos; at = list.find(".param ", at + 1)) {
    std::string_view line = list.substr(at, list.find('\n', at) - at);
    if (const size_t array = line.rfind('['); array != std::string_view::npos) {
      bytes.push_back(static_cast<uint32_t>(ToInt(line.substr(array + 1))));
      continue;
    }
    const std::string_view type = line.substr(7, line.find(' ', 7) - 7);  // ".u64"
    const size_t digits = type.find_first_of("0123456789");
    if (digits == std::string_view::npos) return std::nullopt;
    bytes.push_back(static_cast<uint32_t>(ToInt(type.substr(digits)) / 8));
  }
  return bytes;
}

// Name, file and line from the debug information; kernels without any keep their PTX name.
void ReadPlace(const IrModule& module, std::string_view definition, CompiledKernel& kernel) {
  const auto node = [&](std::string_view id) {
    const auto found = module.metadata.find(id);
    return found == module.metadata.end() ? std::string_view() : found->second;
  };
  const size_t at = definition.rfind("!dbg ");
  if (at == std::string_view::npos) return;
  std::string_view id = definition.substr(at + 5);
  id = id.substr(0, id.find(' '));
  const std::string_view program = node(id);
  std::string_view name = Field(program, "name: ");
  if (!name.empty()) kernel.name = TakeName(name);
  kernel.line = ToInt(Field(program, "line: "));
  std::string_view file = Field(node(Field(program, "file: ")), "filename: ");
  kernel.file = TakeName(file);
}

}  // namespace

absl::StatusOr<std::vector<CompiledKernel>> ReadKernelTable(const std::string& ir, const std::string& ptx) {
  const IrModule module = ReadModule(ir);
  std::vector<CompiledKernel> kernels;
  for (const std::string& name : module.kernels) {
    const auto definition = module.definitions.find(name);
    if (definition == module.definitions.end()) {
      return absl::InternalError(fmt::format("kernel {} has no definition in the compiler's output", name));
    }
    CompiledKernel kernel;
    kernel.name = kernel.ptx_name = name;
    ReadPlace(module, definition->second, kernel);
    for (const std::string_view parameter : SplitParameters(definition->second)) {
      kernel.parameters.push_back(ReadParameter(parameter));
    }
    const std::optional<std::vector<uint32_t>> bytes = ParameterBytes(ptx, name);
    if (!bytes.has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("kernel {}, line {}: its name cannot be written in PTX; use letters, digits and _", kernel.name,
                      kernel.line));
    }
    if (bytes->size() != kernel.parameters.size()) {
      return absl::InternalError(fmt::format("kernel {} has {} parameters in LLVM IR and {} in PTX", name,
                                             kernel.parameters.size(), bytes->size()));
    }
    for (size_t i = 0; i < bytes->size(); ++i) kernel.parameters[i].bytes = (*bytes)[i];
    kernels.push_back(std::move(kernel));
  }
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const CompiledKernel& a, const CompiledKernel& b) { return a.line < b.line; });
  return kernels;
}

}  // namespace qgpu
