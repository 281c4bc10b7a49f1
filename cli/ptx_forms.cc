#include "cli/ptx_forms.h"

#include <optional>
#include <set>

#include "fmt/format.h"
#include "lowering/compile.h"
#include "lowering/ptx/ptx.h"

namespace qgpu {
namespace {

// The class of registers for a type's name, '\0' for none.
char ClassOf(const std::string& type) {
  const std::optional<ptx::TypeInfo> info = ptx::LookUpType(type);
  if (!info.has_value()) return '\0';
  return info->bits == 1 ? 'p' : info->bits <= 16 ? 'h' : info->bits == 32 ? 'r' : 'q';
}

// The classes of the first and of the last type in "cvt.u64.s32".
std::pair<char, char> TypesOf(const std::string& form) {
  char first = 'r', last = 'r';
  bool any = false;
  for (size_t at = form.find('.'); at != std::string::npos;) {
    const size_t end = form.find('.', at + 1);
    if (const char type = ClassOf(form.substr(at + 1, end == std::string::npos ? end : end - at - 1)); type != '\0') {
      if (!any) first = type;
      last = type;
      any = true;
    }
    at = end;
  }
  return {first, last};
}

std::string Statements(const std::string& form, const std::string& operands) {
  const auto [first, last] = TypesOf(form);
  const char wide = last == 'h' ? 'r' : 'q';
  const bool is_whole = operands.find(';') != std::string::npos;
  std::string text = is_whole ? "" : form + " ";
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] != '$') {
      text += operands[i];
      continue;
    }
    const char code = operands[++i];
    if (code == 'M') {
      text += form;
    } else {
      text += std::string("%") + (code == 'D' ? first : code == 'T' ? last : wide);
    }
  }
  return is_whole ? text : text + ";";
}

// The registers in `text`, as "r3".
std::set<std::string> Registers(const std::string& text) {
  std::set<std::string> registers;
  for (size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1)) {
    if (at + 2 < text.size() && std::string("phrq").find(text[at + 1]) != std::string::npos &&
        std::isdigit(static_cast<unsigned char>(text[at + 2]))) {
      registers.insert(text.substr(at + 1, 2));
    }
  }
  return registers;
}

// A kernel whose registers come from memory and go back there, so that nothing is known and nothing is without use.
std::string Module(const std::string& statements) {
  std::string before, after;
  int offset = 0;
  for (const std::string& reg : Registers(statements)) {
    const int at = 8 * offset++;
    if (reg[0] == 'q') {
      before += fmt::format("  ld.global.u64 %{}, [%out+{}];\n", reg, at);
      after += fmt::format("  st.global.u64 [%out+{}], %{};\n", at, reg);
    } else if (reg[0] == 'p') {
      before += fmt::format("  ld.global.u32 %x, [%out+{}];\n  setp.ne.u32 %{}, %x, 0;\n", at, reg);
      after += fmt::format("  selp.u32 %x, 1, 0, %{};\n  st.global.u32 [%out+{}], %x;\n", reg, at);
    } else {
      const char* type = reg[0] == 'h' ? "u16" : "u32";
      before += fmt::format("  ld.global.{} %{}, [%out+{}];\n", type, reg, at);
      after += fmt::format("  st.global.{} [%out+{}], %{};\n", type, at, reg);
    }
  }
  return ".version 8.0\n.target sm_75\n.address_size 64\n.const .align 8 .b32 c[4] = {1, 2, 3, 4};\n"
         ".func (.param .b32 result) f(.param .b32 x) {\n  .reg .b32 %y;\n  ld.param.b32 %y, [x];\n"
         "  add.s32 %y, %y, 1;\n  st.param.b32 [result], %y;\n  ret;\n}\n"
         ".visible .entry k(.param .u64 o, .param .u64 n, .param .align 4 .b8 v[12])\n{\n"
         "  .reg .pred %p<8>;\n  .reg .b16 %h<8>;\n  .reg .b32 %r<8>;\n  .reg .b64 %q<8>;\n  .reg .b32 %x;\n"
         "  .reg .b64 %out;\n  .shared .align 16 .b8 s[32];\n  .local .align 16 .b8 l[16];\n"
         "  .reg .f16 %e<4>;\n  .reg .f32 %f<4>;\n  .reg .f64 %g<4>;\n  ld.param.u64 %out, [o];\n" +
         before + "  " + statements + "\n" + after + "  ret;\n}\n";
}

}  // namespace

std::vector<std::string> ExpandPattern(const std::string& pattern) {
  const size_t open = pattern.find_first_of("{[");
  if (open == std::string::npos) return {pattern};
  const bool is_choice = pattern[open] == '{';
  const size_t close = pattern.find(is_choice ? '}' : ']', open);
  std::vector<std::string> choices;
  if (!is_choice) choices.push_back("");
  for (size_t at = open + 1; at < close;) {
    const size_t end = std::min(pattern.find(' ', at), close);
    choices.push_back(pattern.substr(at, end - at));
    at = end + 1;
  }
  std::vector<std::string> forms;
  for (const std::string& choice : choices) {
    for (const std::string& form : ExpandPattern(pattern.substr(0, open) + choice + pattern.substr(close + 1))) {
      forms.push_back(form);
    }
  }
  return forms;
}

std::string PtxOfForm(const std::string& form, const std::string& operands) {
  return Module(Statements(form, operands));
}

std::string WhyRefused(const std::string& form, const std::string& operands) {
  LaunchSpec spec;
  spec.block.x = 8;
  spec.arguments = {KernelArgument::RawBuffer("", Bytes(96, 1)), KernelArgument::RawValue("", Bytes(8, 1)),
                    KernelArgument::RawValue("", Bytes(12, 1))};
  const absl::StatusOr<LoweredKernel> lowered = CompilePtxKernel("form.ptx", PtxOfForm(form, operands), spec);
  if (lowered.ok()) return "";
  const std::string message(lowered.status().message());
  constexpr std::string_view kRefusal = "not supported by the machine's lowering";
  const size_t refusal = message.find(kRefusal);
  if (refusal != std::string::npos) {
    const size_t why = message.find_first_not_of(": ", refusal + kRefusal.size());
    return why == std::string::npos ? "not supported" : message.substr(why);
  }
  // "form.ptx:LINE: INSTRUCTION;: what"
  const size_t instruction = message.find(";: ");
  return instruction == std::string::npos ? message : message.substr(instruction + 3);
}

}  // namespace qgpu
