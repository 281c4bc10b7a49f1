#include "machine/isa/trap_report.h"

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace qgpu {
namespace {

std::string Triple(const std::array<uint32_t, 3>& position) {
  return fmt::format("({}, {}, {})", position[0], position[1], position[2]);
}

std::array<uint32_t, 3> ThreadPosition(const MachineLaunch& launch, uint32_t thread) {
  return {thread % launch.block[0], thread / launch.block[0] % launch.block[1],
          thread / (launch.block[0] * launch.block[1])};
}

// "k.cu:8 (st.global.u32 [%rd1], %r3)", or what of it is known; "" where nothing is.
std::string Place(const Program& program, const std::string& source_name, int block, int slot) {
  if (block < 0 || block >= static_cast<int>(program.origins.size())) return "";
  const SlotOrigin& origin = program.origins[block][slot];
  std::string text = SourcePlace(origin, source_name);
  if (!origin.text.empty()) text += fmt::format("{}({})", text.empty() ? "" : " ", origin.text);
  return text;
}

const SlotOrigin* OriginOf(const TrapReport& trap, const Program& program) {
  if (trap.block < 0 || trap.slot < 0 || trap.slot >= kSlots) return nullptr;
  const auto block = static_cast<size_t>(trap.block);
  return block < program.origins.size() ? &program.origins[block][static_cast<size_t>(trap.slot)] : nullptr;
}

// Bytes that a PTX instruction accesses at once: 8 for ld.global.v2.u32.
uint32_t AccessBytes(const std::string& code) {
  const size_t name = code.starts_with('@') ? std::min(code.find(' ') + 1, code.size()) : 0;
  const std::string words = code.substr(name, code.find(' ', name) - name) + ".";
  uint32_t vector = 1, element = 4;
  for (size_t begin = 0, end = 0; (end = words.find('.', begin)) != words.npos; begin = end + 1) {
    const std::string word = words.substr(begin, end - begin);
    if (word == "v2" || word == "v4") vector = word == "v2" ? 2 : 4;
    if (word == "u8" || word == "s8" || word == "b8") element = 1;
    if (word == "u16" || word == "s16" || word == "b16") element = 2;
    if (word == "u64" || word == "s64" || word == "b64") element = 8;
  }
  return vector * element;
}

// The addresses of the kernel that a misaligned access of so many bytes may have had that trapped at `address`.
// Compiled code turns a misaligned address of 8 or 16 bytes into one whose low two bits are not 0, by or with its bits
// 2 and 3, for the first of its words only; of one of 2 bytes, it clears bit 1. Words are loaded in any order and
// stored in theirs.
std::vector<uint32_t> BeforeChecks(uint32_t address, uint32_t bytes, bool is_store) {
  std::vector<uint32_t> from;
  for (uint32_t later = bytes; later > 4 && !is_store; later -= 4) from.push_back(address - (later - 4));
  for (uint32_t before = address & ~3u; before < (address & ~3u) + 4; ++before) {
    if (bytes < 4 ? (before & ~2u) == address : (before | (before >> 2 & (bytes / 4 - 1))) == address) {
      from.push_back(before);
    }
  }
  return from;
}

// "byte address 5 (0x5)", "byte address 4 (0x4) or 5 (0x5)", "a byte address from 19 (0x13) to 31 (0x1f)".
std::string AnyOf(const std::vector<uint32_t>& addresses) {
  std::vector<std::string> texts;
  for (const uint32_t address : addresses) texts.push_back(fmt::format("{} (0x{:x})", address, address));
  if (texts.size() > 3) return fmt::format("a byte address from {} to {}", texts.front(), texts.back());
  return fmt::format("byte address {}", fmt::join(texts, " or "));
}

// What the instruction accessed. Where compiled code has checked the address itself, a failed check has left one that
// tells only on which side it was: the end of memory, or 2^28 and more away from 0; or of what low bits it was. Of 8
// and 16 bits, the address is that of their word.
std::string AddressText(const TrapReport& trap, const Program& program) {
  constexpr uint32_t kFar = uint32_t{1} << 27;
  const SlotOrigin* origin = OriginOf(trap, program);
  const std::string code = origin == nullptr ? "" : origin->text;
  const uint32_t bytes = AccessBytes(code);
  if (trap.kind == TrapKind::kMisaligned) {
    return AnyOf(BeforeChecks(trap.address, bytes, code.find("st.") < code.find('[')));
  }
  const auto says = [&](const char* modifier) { return code.find(modifier) != code.npos; };
  if (trap.kind == TrapKind::kOutOfRange) {
    const bool is_far = trap.address >= kFar && trap.address <= 0 - kFar;
    const bool at_end = trap.address == 4 * static_cast<uint32_t>(MachineGeometry{}.memory_words);
    for (const char* space : {"shared", "const", "local"}) {
      if ((is_far || at_end) && says(fmt::format(".{}", space).c_str())) {
        return fmt::format("an address outside of the kernel's {} memory", space);
      }
    }
    if (is_far) return fmt::format("a byte address {}0x{:x}", trap.address >> 31 == 0 ? "above " : "below -", kFar - 1);
  }
  return fmt::format("{}byte address {} (0x{:x})", bytes < 4 ? "the word at " : "", trap.address, trap.address);
}

// PTX's trap is lowered to an access that cannot succeed.
bool IsTrapInstruction(const TrapReport& trap, const Program& program) {
  const SlotOrigin* origin = OriginOf(trap, program);
  return trap.kind == TrapKind::kOutOfRange && origin != nullptr && origin->text.starts_with("trap");
}

}  // namespace

const char* TrapName(TrapKind kind) {
  switch (kind) {
    case TrapKind::kOutOfRange:
      return "address out of range";
    case TrapKind::kMisaligned:
      return "misaligned address";
    case TrapKind::kBarrierDivergence:
      return "barrier divergence";
  }
  return "unknown trap";
}

std::string SourcePlace(const SlotOrigin& origin, const std::string& source_name) {
  const bool is_ptx = source_name.ends_with(".ptx");
  std::string cuda;
  if (origin.cuda_line > 0) {
    const std::string file = origin.cuda_file.empty() && !is_ptx ? source_name : origin.cuda_file;
    cuda = file.empty() ? fmt::format("CUDA line {}", origin.cuda_line) : fmt::format("{}:{}", file, origin.cuda_line);
  }
  if (is_ptx && origin.ptx_line > 0) {
    return fmt::format("{}:{}{}{}", source_name, origin.ptx_line, cuda.empty() ? "" : ", ", cuda);
  }
  if (cuda.empty() && origin.ptx_line > 0) return fmt::format("PTX line {}", origin.ptx_line);
  return cuda;
}

void LocateBarrierDivergence(const MachineLaunch& launch, std::span<const Token> tokens, TrapReport& trap) {
  const std::vector<MachineBlock>& blocks = launch.program.blocks;
  int last_block[kWarps * kLanes];  // that each thread of the thread block ran
  std::fill(std::begin(last_block), std::end(last_block), -1);
  int warp = 0;
  for (const Token token : tokens) {
    if (token.kind == TokenKind::kSwitchWarp) warp = token.warp();
    if (token.kind == TokenKind::kCtaX || token.kind == TokenKind::kCtaY || token.kind == TokenKind::kCtaZ) {
      std::fill(std::begin(last_block), std::end(last_block), -1);
    }
    if (token.kind != TokenKind::kExec || token.block() >= static_cast<int>(blocks.size())) continue;
    int mask = token.mask();
    if (blocks[token.block()].control.serial) mask &= -mask;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (mask >> lane & 1) last_block[warp * kLanes + lane] = token.block();
    }
  }
  trap.block = trap.other_block = -1;
  for (int thread = 0; thread < kWarps * kLanes; ++thread) {
    const int block = last_block[thread];
    if (block < 0 || blocks[block].control.kind != ControlKind::kBarrier) continue;
    const auto position = ThreadPosition(launch, static_cast<uint32_t>(thread));
    if (trap.block < 0) {
      trap.block = block;
      trap.thread = position;
    } else if (blocks[block].control.target != blocks[trap.block].control.target) {
      trap.other_block = block;
      trap.other_thread = position;
      return;
    }
  }
}

std::string DescribeTrap(const TrapReport& trap, const Program& program, const std::string& source_name) {
  const std::string place = Place(program, source_name, trap.block, trap.slot);
  if (IsTrapInstruction(trap, program)) {
    return fmt::format("the kernel executed trap, in thread {} of thread block {}, {}", Triple(trap.thread),
                       Triple(trap.cta), place);
  }
  std::string text = fmt::format("{}: ", TrapName(trap.kind));
  if (trap.kind != TrapKind::kBarrierDivergence) {
    text += fmt::format("{}, by thread {} of thread block {}", AddressText(trap, program), Triple(trap.thread),
                        Triple(trap.cta));
    return place.empty() ? text : text + ", " + place;
  }
  if (trap.other_block < 0) return text + fmt::format("in thread block {}", Triple(trap.cta));
  const auto barrier = [&](int block) {
    const std::string place = Place(program, source_name, block, kSlots);
    return place.empty() ? fmt::format("machine block {}", block) : place;
  };
  return text + fmt::format("thread {} of thread block {} waits at {}, thread {} at {}", Triple(trap.thread),
                            Triple(trap.cta), barrier(trap.block), Triple(trap.other_thread),
                            barrier(trap.other_block));
}

}  // namespace qgpu
