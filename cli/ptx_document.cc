#include "cli/ptx_document.h"

#include <map>

#include "cli/ptx_forms.h"
#include "fmt/format.h"

namespace qgpu {
namespace {

constexpr char kStart[] =
    R"(<!-- Written by qgpu-ptx-document, which asks the lowering about every form; do not edit. -->
# PTX

What becomes machine blocks. A form is given as a pattern: `{a b}` is one of a and b, `[.a .b]` is nothing or one of them.
Every form that a pattern stands for was lowered in a small kernel when this page was made. Everything else is refused with
the instruction, its PTX line and CUDA line, and what it would need.

PTX of any `.version` and `.target` is read, from clang and from nvcc. What is supported is the integer side of a device of
compute capability 7.5.

How much fits is another question: 32 machine blocks of four instructions, 15 registers a thread, 126 words of memory, 32
threads in a thread block. A kernel that needs more is refused with what it needs.

)";

std::string Code(const std::string& text) { return "`" + text + "`"; }

// "not `a`, `b`: why" for each reason, "" where every form is taken.
std::string Refusals(const PtxForms& row) {
  const std::vector<std::string> forms = ExpandPattern(row.pattern);
  std::map<std::string, std::string> by_reason;
  size_t refused = 0;
  for (const std::string& form : forms) {
    const std::string why = WhyRefused(form, row.operands);
    if (why.empty()) continue;
    ++refused;
    std::string& list = by_reason[why];
    list += (list.empty() ? "" : ", ") + Code(form);
  }
  std::string text;
  for (const auto& [why, list] : by_reason) {
    const bool all = refused == forms.size() && by_reason.size() == 1;
    text += (text.empty() ? "" : "; ") + (all ? "refused: " + why : fmt::format("not {}: {}", list, why));
  }
  return text;
}

std::string Rows(const std::vector<PtxForms>& rows) {
  std::string text = "| instruction | |\n| --- | --- |\n";
  for (const PtxForms& row : rows) {
    const std::string refusals = Refusals(row);
    const char* between = *row.note != '\0' && !refusals.empty() ? "; " : "";
    text += fmt::format("| {} | {}{}{} |\n", Code(row.pattern), row.note, between, refusals);
  }
  return text + "\n";
}

// What a statement that is more than operands says of itself.
std::string Refused(const std::vector<PtxForms>& rows) {
  std::string text = "| instruction | why not |\n| --- | --- |\n";
  for (const PtxForms& row : rows) {
    for (const std::string& form : ExpandPattern(row.pattern)) {
      const std::string operands = row.operands;
      const bool is_whole = operands.find(';') != std::string::npos;
      const std::string shown = is_whole ? operands.substr(0, operands.rfind(';')) : form + " " + operands;
      const std::string why = WhyRefused(form, operands);
      std::string escaped;
      for (const char c : shown) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
      text += fmt::format("| {} | {} |\n", Code(escaped), why.empty() ? "supported" : why);
      if (is_whole) break;
    }
  }
  return text + "\n";
}

}  // namespace

std::string PtxDocument() {
  std::string text = kStart;
  for (const PtxSection& section : IntegerPtx()) text += fmt::format("## {}\n\n{}", section.title, Rows(section.rows));
  text += "## What is refused\n\nExamples of each kind, with the lowering's own words.\n\n";
  for (const PtxSection& section : OtherPtx()) {
    text += fmt::format("### {}\n\n{}", section.title, Refused(section.rows));
  }
  text.pop_back();
  return text;
}

}  // namespace qgpu
