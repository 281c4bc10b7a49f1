#include "tests/canary/canary_text.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "common/prng.h"
#include "common/sha256.h"
#include "machine/interpreter/interpreter.h"
#include "machine/isa/token.h"
#include "tests/canary/host_tokens.h"

namespace qgpu {
namespace {

constexpr std::pair<const char*, DriftCheat> kCheats[] = {
    {"none", DriftCheat::kNone},
    {"missing", DriftCheat::kMissing},
    {"out-of-order", DriftCheat::kOutOfOrder},
    {"too-many", DriftCheat::kTooMany},
    {"not-a-number", DriftCheat::kNotANumber},
    {"negative", DriftCheat::kNegative},
    {"likely", DriftCheat::kLikely},
    {"no-rows", DriftCheat::kNoRows},
    {"no-noise", DriftCheat::kNoNoise},
    {"drifts", DriftCheat::kDrifts},
    {"share", DriftCheat::kShare},
    {"wrong-launch", DriftCheat::kWrongLaunch},
    {"short-launch", DriftCheat::kShortLaunch},
    {"die-once", DriftCheat::kDieOnce},
    {"slow", DriftCheat::kSlow},
};

bool IsFirstTimeEver() {
  const char* mark = std::getenv("QGPU_CANARY_MARK");
  if (mark == nullptr || access(mark, F_OK) == 0) return false;
  std::ofstream(mark) << "died\n";
  return true;
}

// A row that depends on its place alone, whatever was measured before it.
RowDrift MadeUp(const std::string& measurement, int64_t position, double kl) {
  SplitMix64 random(std::hash<std::string>()(measurement) + static_cast<uint64_t>(position));
  RowDrift row;
  row.kl = kl * random.Uniform();
  row.base_surprise = 1 + random.Uniform();
  row.merged_surprise = row.base_surprise + row.kl;
  row.same_top = random.Below(10) != 0;
  row.top_overlap = 3 + static_cast<int>(random.Below(3));
  return row;
}

class CanaryText final : public TextHost {
 public:
  CanaryText(DriftCheat cheat, std::string id) : cheat_(cheat), id_(std::move(id)) {}

  std::vector<std::string> DriftProbes() const override {
    std::vector<std::string> names;
    for (const DriftProbe& probe : AllDriftProbes()) names.push_back(probe.Name());
    return names;
  }
  absl::StatusOr<std::unique_ptr<TextConversation>> StartConversation() override {
    return absl::UnimplementedError("the canary does not talk");
  }

  absl::StatusOr<int64_t> MeasureDrift(const DriftRequest& request, const DriftCallbacks& callbacks) override {
    DriftBeginning start;
    const int64_t bytes = std::ssize(request.text);
    start.positions = request.positions > 0 ? std::min(request.positions, bytes - 1) : bytes - 1;
    start.measurement = Sha256Hex(fmt::format("{} {} {} {} {}", id_, request.probe.Name(), Sha256Hex(request.text),
                                              start.positions, request.chunk));
    start.token_source = "bytes";
    start.reference = "made up";
    start.merged = "made up too";
    start.has_noise_floor = cheat_ != DriftCheat::kNoNoise;
    if (!request.measurement.empty() && request.measurement != start.measurement) {
      return absl::AbortedError("this worker measures something else now");
    }
    QGPU_RETURN_IF_ERROR(callbacks.on_start(start));
    if (!request.host_ids.empty()) QGPU_RETURN_IF_ERROR(Launch(request, callbacks));
    if (cheat_ == DriftCheat::kNoRows) return 5;
    const int64_t end = start.positions + (cheat_ == DriftCheat::kTooMany) - (cheat_ == DriftCheat::kMissing);
    const int64_t skipped = cheat_ == DriftCheat::kOutOfOrder ? request.chunk : 0;
    for (int64_t first = request.first_position + skipped; first < end; first += request.chunk) {
      QGPU_RETURN_IF_ERROR(
          callbacks.on_rows(Piece(request.probe, request.text, start, first, std::min(first + request.chunk, end))));
      if (cheat_ == DriftCheat::kDieOnce && IsFirstTimeEver()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // so that the chunk is on its way
        std::abort();
      }
      if (cheat_ == DriftCheat::kSlow) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (callbacks.is_cancelled()) return absl::CancelledError("cancelled");
    }
    return 1'000'000;
  }

 private:
  absl::Status Launch(const DriftRequest& request, const DriftCallbacks& callbacks) const {
    QGPU_ASSIGN_OR_RETURN(const MachineLaunch launch, LaunchFromHostTokens(request.host_ids));
    const MachineRun run = Interpret(launch, request.token_budget);
    std::vector<int32_t> ids;
    for (const Token token : run.tokens) ids.push_back(TokenToId(token));
    if (cheat_ == DriftCheat::kWrongLaunch) ids[ids.size() / 2] ^= 1;
    if (cheat_ == DriftCheat::kShortLaunch) ids.pop_back();
    if (!callbacks.on_tokens(ids)) return absl::CancelledError("stopped");
    return callbacks.on_launch_end(run.end);
  }

  DriftPiece Piece(const DriftProbe& probe, const std::string& text, const DriftBeginning& start, int64_t first,
                   int64_t end) const {
    const double most = probe.form == DriftProbe::Form::kSplit ? 0 : probe.bfloat16 ? 1e-2 : 1e-12;
    DriftPiece piece;
    piece.first_position = first;
    for (int64_t position = first; position < end; ++position) {
      RowDrift& row = piece.drift.emplace_back(MadeUp(start.measurement, position, most));
      if (position == 1) Cheat(row);
      if (start.has_noise_floor) piece.noise_floor.push_back(MadeUp(start.measurement + "noise", position, 1e-2));
      piece.predicted.push_back(text.substr(std::min<size_t>(position + 1, text.size() - 1), 1));
    }
    return piece;
  }

  void Cheat(RowDrift& row) const {
    if (cheat_ == DriftCheat::kNotANumber) row.kl = std::nan("");
    if (cheat_ == DriftCheat::kNegative) row.kl = -1;
    if (cheat_ == DriftCheat::kLikely) row.machine_share = 1.5;
    if (cheat_ == DriftCheat::kDrifts) row.kl = 100;
    if (cheat_ == DriftCheat::kShare) row.machine_share = 1e-3;
  }

  DriftCheat cheat_;
  std::string id_;
};

}  // namespace

std::optional<DriftCheat> DriftCheatFromName(const std::string& name) {
  for (const auto& [known, cheat] : kCheats) {
    if (name == known) return cheat;
  }
  return std::nullopt;
}

std::unique_ptr<TextHost> MakeCanaryText(DriftCheat cheat, const std::string& id) {
  return std::make_unique<CanaryText>(cheat, id);
}

}  // namespace qgpu
