// One input for everything that reads PTX: the parser, the lowering, and native-cpu's translation. Whatever the bytes
// are, each ends with a value or an error.
#pragma once

#include <string>

namespace qgpu {

struct PtxFuzzOutcome {
  bool parsed = false, lowered = false, translated = false;  // translated: native-cpu took it as well
};

// Parses `text`; where that succeeds, lowers its first kernel for a small launch with arguments made to its parameters,
// interprets a few tokens of it, and compiles and runs it on native-cpu within tight limits. Aborts when a stage
// contradicts itself: a lowered launch that is not valid.
PtxFuzzOutcome FuzzPtx(const std::string& text, bool with_native = true);

}  // namespace qgpu
