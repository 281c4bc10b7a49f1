// The text side of a worker that has no model: it makes up rows that a good worker could have sent, and then cheats in
// one chosen way. Nobody can tell made-up rows from measured ones; what can be told is everything else.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/text_host.h"

namespace qgpu {

enum class DriftCheat {
  kNone,         // rows within every bound: must pass, else the others prove nothing
  kMissing,      // leaves out the last position
  kOutOfOrder,   // the second chunk first
  kTooMany,      // one position more
  kNotANumber,   // a KL that is none
  kNegative,     // a KL that cannot be
  kLikely,       // a probability above 1
  kNoRows,       // nothing between start and end
  kNoNoise,      // without the noise floor
  kDrifts,       // a KL above every bound
  kShare,        // machine ids that take a noticeable share
  kWrongLaunch,  // one token of the launch before the text
  kShortLaunch,  // without the launch's last token
  kDieOnce,      // dies after its first chunk, if $QGPU_CANARY_MARK does not exist; makes that file
  kSlow,         // right, with a pause after every chunk
};
std::optional<DriftCheat> DriftCheatFromName(const std::string& name);  // "none", "missing", ...

// `id` makes the measurement another one.
std::unique_ptr<TextHost> MakeCanaryText(DriftCheat cheat, const std::string& id = "");

}  // namespace qgpu
