#include "cli/isa_document.h"

#include <algorithm>
#include <vector>

#include "fmt/format.h"
#include "machine/isa/isa.h"
#include "machine/isa/token.h"

namespace qgpu {
namespace {

// Text of a table cell: a bar would end it.
std::string Cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\|");
  return text;
}

std::string SlotsOf(Op op) {
  std::string slots;
  for (int slot = 0; slot < kSlots; ++slot) {
    if (SlotCanExecute(slot, op)) slots += fmt::format("{}{}", slots.empty() ? "" : " ", slot);
  }
  return slots;
}

std::string GeometryTable() {
  const MachineGeometry geometry;
  std::string text = "| default geometry | |\n| --- | --- |\n";
  const auto row = [&](const char* what, uint64_t value) { text += fmt::format("| {} | {} |\n", what, value); };
  row("lanes of a machine warp", geometry.lanes);
  row("resident machine warps", geometry.warps);
  row("threads of a thread block, at most", geometry.max_threads());
  row("registers of a lane, and a zero", geometry.registers - 1);
  row("predicates of a lane, and \"always\"", geometry.predicates - 1);
  row("instruction slots of a machine block", geometry.slots);
  row("machine blocks of the program ROM", geometry.blocks);
  row("memory words of 32 bits, word 0 never given out", geometry.memory_words);
  row("parameter words", geometry.parameter_words);
  text += fmt::format("| thread blocks of a grid, at most | {} x {} x {} |\n", kMaxGridX, kMaxGridY, kMaxGridZ);
  row("machine token ids", MachineVocabularySize());
  return text;
}

std::string OpTable() {
  std::string text = "| code | op | slots | writes | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const OpInfo& info : AllOps()) {
    const bool writes_nothing = info.op == Op::kNop || info.op == Op::kSt;
    const char* writes = writes_nothing ? "-" : WritesPredicate(info.op) ? "predicate" : "register";
    text += fmt::format("| `{:06b}` | `{}` | {} | {} | {} |\n", static_cast<int>(info.op), info.name, SlotsOf(info.op),
                        writes, Cell(info.meaning));
  }
  return text;
}

std::string TokenTable() {
  std::string text = "| token | ids | first id | first | last |\n| --- | --- | --- | --- | --- |\n";
  std::vector<Token> tokens;
  for (int id = 0; id < MachineVocabularySize(); ++id) {
    const auto token = TokenFromId(id);
    if (token.ok()) tokens.push_back(*token);
  }
  for (size_t first = 0; first < tokens.size();) {
    size_t end = first;
    while (end < tokens.size() && tokens[end].kind == tokens[first].kind) ++end;
    text += fmt::format("| {} | {} | {} | `{}` | `{}` |\n", TokenKindName(tokens[first].kind), end - first, first,
                        Cell(FormatToken(tokens[first])), Cell(FormatToken(tokens[end - 1])));
    first = end;
  }
  return text;
}

}  // namespace

std::string IsaDocument() {
  std::string text =
      "# The machine's instructions and tokens\n\n"
      "Written by `build/bin/qgpu-isa-document` from the tables in `machine/isa/`; do not edit (a test compares).\n\n"
      "One forward pass runs one machine block for the lanes of a mask: the slots in order, then the control row. "
      "Loads "
      "see memory as it was before the pass. R is a slot's result, P its predicate, g its guard; A, B and C are its "
      "sources.\n\n";
  text += GeometryTable();
  text +=
      "\n## Slot, 64 bits, low bit first\n\n"
      "`op 6 | dst 4 | A 5 | B 6 | C 5 | guard 5 | negate 1 | immediate 32`\n\n"
      "- Sources: 0 is zero (for B: the immediate), 1 to 15 registers of the lane, 16, 17 and 18 the results of the "
      "slots one, two and three before. B only: 32 to 63 the special words ctaid x y z (32 to 34), parameter words (35 "
      "to 59), laneid (60), tid x y z (61 to 63).\n"
      "- Guards: 0 always, 1 to 15 a predicate of the lane as it was before the pass, 16 + s the predicate of slot s "
      "of "
      "this pass; `negate` inverts.\n\n"
      "## Control row, low bit first\n\n"
      "`condition 5 | negate 1 | kind 2 | target 6 | fall-through 6 | serial 1 | yield 1`\n\n"
      "- The condition is coded like a guard. Where it holds: kind 0 goes to the target, 1 ends the thread, 2 waits at "
      "the barrier and goes on at the target. Where not, the lane goes to the fall-through.\n"
      "- serial: the block runs for the lowest lane of the mask only; yield: the next ready warp goes first.\n\n"
      "## Ops\n\n";
  text += OpTable();
  text += "\n## Tokens\n\nIds count from 0 and follow the base model's own vocabulary.\n\n";
  text += TokenTable();
  return text;
}

}  // namespace qgpu
