// A worker that has no model. It interprets the launch and then cheats in one chosen way; a harness that lets any of
// these pass proves nothing about real workers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/launch_runner.h"

namespace qgpu {

enum class Cheat {
  kNone,      // the right tokens and the right memory: must pass, else the others prove nothing
  kFlipWord,  // one bit of one memory word
  kFlipRegister,
  kWrongToken,  // one token in the middle
  kTruncate,    // leaves out the last token
  kEcho,        // the right memory, but no work: only DONE
  kStale,       // what the launch before this one left
  kNoMemory,    // the right tokens, memory as it was before the launch
  kEndless,     // right tokens, then goes on writing
  kText,        // a token of the base's vocabulary
  kCrash,       // dies
  kCrashOnce,   // dies at its first launch, if $QGPU_CANARY_MARK does not exist; makes that file
  kHang,        // never answers
};
std::optional<Cheat> CheatFromName(const std::string& name);  // "none", "flip-word", ...
std::vector<std::string> CheatNames();

std::unique_ptr<LaunchRunner> MakeCanaryRunner(Cheat cheat);

}  // namespace qgpu
