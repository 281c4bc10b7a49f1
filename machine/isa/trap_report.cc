#include "machine/isa/trap_report.h"

#include "fmt/format.h"

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
  std::string text;
  if (!source_name.ends_with(".ptx") && origin.cuda_line > 0) {
    text = fmt::format("{}:{}", source_name, origin.cuda_line);
  } else if (origin.ptx_line > 0) {
    text = source_name.ends_with(".ptx") ? fmt::format("{}:{}", source_name, origin.ptx_line)
                                         : fmt::format("PTX line {}", origin.ptx_line);
  }
  if (!origin.text.empty()) text += fmt::format("{}({})", text.empty() ? "" : " ", origin.text);
  return text;
}

const SlotOrigin* OriginOf(const TrapReport& trap, const Program& program) {
  if (trap.block < 0 || trap.slot < 0 || trap.slot >= kSlots) return nullptr;
  const auto block = static_cast<size_t>(trap.block);
  return block < program.origins.size() ? &program.origins[block][static_cast<size_t>(trap.slot)] : nullptr;
}

// What the instruction accessed. Where compiled code has checked the address itself, a failed check has left one that
// tells only on which side it was: the end of memory, or 2^28 and more away from 0. Of 8 and 16 bits, the address is
// that of their word.
std::string AddressText(const TrapReport& trap, const Program& program) {
  constexpr uint32_t kFar = uint32_t{1} << 27;
  const SlotOrigin* origin = OriginOf(trap, program);
  const std::string code = origin == nullptr ? "" : origin->text;
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
  const bool is_piece = says(".u8") || says(".s8") || says(".b8") || says("16 ");
  return fmt::format("{}byte address {} (0x{:x})", is_piece ? "the word at " : "", trap.address, trap.address);
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
