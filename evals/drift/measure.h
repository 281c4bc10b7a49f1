// Base and merged model fed the same ids of a text, chunk by chunk, and compared at every position. The measurement is
// a file that is written anew after every chunk: a run that ends early is taken up by the next one.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "evals/drift/statistics.h"
#include "evals/drift/texts.h"
#include "model/forward/text_model.h"
#include "nlohmann/json.hpp"

namespace qgpu {

// Models fed in step. The noise floor is the base compared with itself in a coarser type; null: it is not measured.
// A model may stand in several places and is then fed once.
struct DriftModels {
  TextModel* reference = nullptr;
  TextModel* merged = nullptr;
  TextModel* fine_base = nullptr;
  TextModel* coarse_base = nullptr;
};

class DriftMeasurement {
 public:
  // `run` says all that the numbers depend on; a file of another run is not taken up.
  DriftMeasurement(nlohmann::ordered_json run, std::vector<DriftTokens> texts, int64_t chunk);

  // What happens to the merged model alone before every text, after its Reset: a launch of the same conversation. Part
  // of what `run` has to say.
  void BeforeEveryText(std::function<absl::Status(TextModel& merged)> beginning) { beginning_ = std::move(beginning); }
  // The same where these ids are fed.
  void FollowLaunch(std::vector<int64_t> merged_ids);

  // Rows of the first text before `position`, a multiple of the chunk, are known elsewhere: they are fed as ever, but
  // there are no rows of them here. For a measurement that has not begun; Resume is not for it.
  void SkipTo(int64_t position) { skipped_ = position; }
  // Asked before every forward pass; RunChunk is kCancelled once it is true.
  void StopWhen(std::function<bool()> is_cancelled) { is_cancelled_ = std::move(is_cancelled); }

  // Takes up what `path` holds, if it exists. kFailedPrecondition: of another run, saying in what; kInvalidArgument:
  // not written by Save, or damaged.
  absl::Status Resume(const std::string& path);
  // Replaces the file at once.
  absl::Status Save(const std::string& path) const;

  bool complete() const;
  int64_t positions_done() const;
  int64_t positions() const;
  int64_t feed_ns() const { return feed_ns_; }  // spent in the models

  // The next chunk: every model fed, every position compared. After a Resume the earlier chunks of its text are fed
  // again first, in the same pieces, so that the numbers are those of a run in one go. An error leaves the measurement
  // as it was; logits that are no numbers and their like name text and position.
  absl::Status RunChunk(const DriftModels& models);

  const DriftStatistics& drift() const { return drift_; }
  const DriftStatistics& noise_floor() const { return noise_; }  // nothing in it where it was not measured
  const std::vector<DriftTokens>& texts() const { return texts_; }
  const nlohmann::ordered_json& run() const { return run_; }

 private:
  struct Place {
    size_t text = 0;
    int64_t position = 0;
  };
  Place NextPlace() const;
  int64_t PositionsOf(size_t text) const { return static_cast<int64_t>(texts_[text].ids.size()) - 1; }
  absl::Status Prepare(const DriftModels& models, const Place& place);
  absl::Status CheckNotCancelled() const;
  absl::StatusOr<std::vector<float>> Feed(TextModel& model, std::span<const int64_t> ids);

  nlohmann::ordered_json run_;
  std::vector<DriftTokens> texts_;
  int64_t chunk_;
  std::function<absl::Status(TextModel&)> beginning_;
  std::function<bool()> is_cancelled_;
  int64_t skipped_ = 0, feed_ns_ = 0;
  DriftStatistics drift_, noise_;
  // Where the models stand: nowhere (text -1) before the first chunk and after an error.
  int64_t fed_text_ = -1, fed_positions_ = 0;
};

// Ids around a position, for reports: some before, the position's own, and the one that was to be predicted.
std::vector<int64_t> DriftContext(const DriftTokens& text, int64_t position);

}  // namespace qgpu
