#include "evals/drift/measure.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include "common/file.h"
#include "common/json_text.h"
#include "common/stopwatch.h"
#include "model/base/untrusted_json.h"

namespace qgpu {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kFormat[] = "qgpu drift 1";
constexpr size_t kMaxFileBytes = size_t{1} << 30;

std::vector<TextModel*> Distinct(const DriftModels& models) {
  std::vector<TextModel*> distinct;
  for (TextModel* model : {models.reference, models.merged, models.fine_base, models.coarse_base}) {
    if (model && std::find(distinct.begin(), distinct.end(), model) == distinct.end()) distinct.push_back(model);
  }
  return distinct;
}

// Logits of one chunk, by model.
struct ChunkLogits {
  std::map<TextModel*, std::vector<float>> rows;

  std::span<const float> Row(TextModel* model, int64_t index) const {
    const size_t width = static_cast<size_t>(model->vocabulary());
    return std::span<const float>(rows.at(model)).subspan(index * width, width);
  }
};

absl::Status AtPosition(const absl::Status& status, const std::string& text, int64_t position) {
  const std::string message(status.message());
  return absl::Status(status.code(), fmt::format("text {}, position {}: {}", text, position, message));
}

absl::StatusOr<DriftStatistics> Compare(const ChunkLogits& logits, TextModel* base, TextModel* other,
                                        const DriftTokens& text, int64_t first, int64_t count, const char* other_name) {
  DriftStatistics part;
  for (int64_t i = 0; i < count; ++i) {
    const absl::StatusOr<RowDrift> row =
        CompareRows(logits.Row(base, i), logits.Row(other, i), text.ids[first + i + 1], other_name);
    if (!row.ok()) return AtPosition(row.status(), text.name, first + i);
    QGPU_RETURN_IF_ERROR(part.Append(text.name, first + i, *row));
  }
  return part;
}

// The first thing in which two descriptions of a run differ.
std::string Difference(const json& there, const json& here) {
  for (const auto& [key, value] : here.items()) {
    const json other = there.is_object() && there.contains(key) ? there[key] : json();
    if (other == value) continue;
    const auto shown = [](const json& any) { return PrintableName(JsonText(any)); };
    return fmt::format("its {} is {}, here it is {}", key, shown(other), shown(value));
  }
  return "it says more of its run";
}

absl::StatusOr<DriftStatistics> ReadPart(const json& file, const char* key) {
  if (!file.contains(key)) return absl::InvalidArgumentError(fmt::format("{} is missing", key));
  absl::StatusOr<DriftStatistics> part = DriftStatistics::FromJson(file[key]);
  if (part.ok()) return part;
  return absl::InvalidArgumentError(fmt::format("{}: {}", key, std::string(part.status().message())));
}

// Texts in order, each complete before the next, from position 0.
absl::Status CheckOrder(const DriftStatistics& part, const std::vector<DriftTokens>& texts) {
  for (size_t i = 0; i < part.texts().size(); ++i) {
    const TextDrift& text = part.texts()[i];
    const bool last = i + 1 == part.texts().size();
    const size_t positions = i < texts.size() ? texts[i].ids.size() - 1 : 0;
    if (i >= texts.size() || text.name != texts[i].name || text.first_position != 0 || text.rows.size() > positions ||
        (!last && text.rows.size() != positions)) {
      return absl::InvalidArgumentError(fmt::format("the rows of text {} do not fit its run", i));
    }
  }
  return absl::OkStatus();
}

}  // namespace

DriftMeasurement::DriftMeasurement(ordered_json run, std::vector<DriftTokens> texts, int64_t chunk)
    : run_(std::move(run)), texts_(std::move(texts)), chunk_(chunk) {}

absl::Status DriftMeasurement::Resume(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return absl::OkStatus();
  const auto bad = [&path](const std::string& what) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}; it cannot be taken up, remove it or write to another file", path, what));
  };
  QGPU_ASSIGN_OR_RETURN(const std::string text, ReadUntrustedText(path, kMaxFileBytes));
  const absl::StatusOr<json> file = ParseUntrustedJson(text);
  if (!file.ok()) return bad(std::string(file.status().message()));
  if (!file->is_object() || file->value("format", json()) != kFormat || !file->contains("run")) {
    return bad("not written by qgpu drift");
  }
  const json here = json(run_);
  if ((*file)["run"] != here) {
    return absl::FailedPreconditionError(fmt::format("{} is of another run: {}; remove it or write to another file",
                                                     path, Difference((*file)["run"], here)));
  }
  auto drift = ReadPart(*file, "drift"), noise = ReadPart(*file, "noise_floor");
  for (const auto* part : {&drift, &noise}) {
    if (!part->ok()) return bad(std::string(part->status().message()));
    const absl::Status order = CheckOrder(**part, texts_);
    if (!order.ok()) return bad(std::string(order.message()));
  }
  for (const TextDrift& one : drift->texts()) {
    if (!noise->texts().empty() && noise->Rows(one.name) != drift->Rows(one.name)) {
      return bad("drift and noise_floor have different rows");
    }
  }
  drift_ = *std::move(drift);
  noise_ = *std::move(noise);
  fed_text_ = -1;
  return absl::OkStatus();
}

absl::Status DriftMeasurement::Save(const std::string& path) const {
  ordered_json file = {{"format", kFormat}, {"run", run_}, {"complete", complete()}};
  if (complete()) {
    file["summary"] = SummaryToJson(drift_.Summarize());
    file["noise_floor_summary"] = SummaryToJson(noise_.Summarize());
  }
  file["drift"] = drift_.ToJson();
  file["noise_floor"] = noise_.ToJson();
  return WriteFileAtomically(path, JsonText(file) + "\n");
}

DriftMeasurement::Place DriftMeasurement::NextPlace() const {
  for (size_t text = 0; text < texts_.size(); ++text) {
    const int64_t known = drift_.Rows(texts_[text].name) + (text == 0 ? skipped_ : 0);
    if (known < PositionsOf(text)) return {text, known};
  }
  return {texts_.size(), 0};
}

bool DriftMeasurement::complete() const { return NextPlace().text == texts_.size(); }

int64_t DriftMeasurement::positions_done() const {
  int64_t done = skipped_;
  for (const DriftTokens& text : texts_) done += drift_.Rows(text.name);
  return done;
}

int64_t DriftMeasurement::positions() const {
  int64_t all = 0;
  for (size_t text = 0; text < texts_.size(); ++text) all += PositionsOf(text);
  return all;
}

void DriftMeasurement::FollowLaunch(std::vector<int64_t> merged_ids) {
  beginning_ = nullptr;
  if (merged_ids.empty()) return;
  beginning_ = [ids = std::move(merged_ids)](TextModel& merged) {
    return merged.StreamLogits(ids, [](std::span<const float>) { return absl::OkStatus(); });
  };
}

absl::Status DriftMeasurement::CheckNotCancelled() const {
  return is_cancelled_ && is_cancelled_() ? absl::CancelledError("the measurement was stopped") : absl::OkStatus();
}

absl::Status DriftMeasurement::Prepare(const DriftModels& models, const Place& place) {
  if (fed_text_ == static_cast<int64_t>(place.text) && fed_positions_ == place.position) return absl::OkStatus();
  const std::vector<int64_t>& ids = texts_[place.text].ids;
  for (TextModel* model : Distinct(models)) {
    model->Reset();
    if (model == models.merged && beginning_) QGPU_RETURN_IF_ERROR(beginning_(*model));
    for (int64_t at = 0; at < place.position; at += chunk_) {
      const int64_t count = std::min(chunk_, place.position - at);
      QGPU_RETURN_IF_ERROR(CheckNotCancelled());
      const Stopwatch watch;
      QGPU_RETURN_IF_ERROR(model->StreamLogits(std::span<const int64_t>(ids).subspan(at, count),
                                               [](std::span<const float>) { return absl::OkStatus(); }));
      feed_ns_ += watch.ns();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> DriftMeasurement::Feed(TextModel& model, std::span<const int64_t> ids) {
  QGPU_RETURN_IF_ERROR(CheckNotCancelled());
  const Stopwatch watch;
  auto rows = model.Logits(ids);
  feed_ns_ += watch.ns();
  if (rows.ok() && rows->size() != ids.size() * static_cast<size_t>(model.vocabulary())) {
    return absl::InternalError("a model gave another number of logits");
  }
  return rows;
}

absl::Status DriftMeasurement::RunChunk(const DriftModels& models) {
  const Place place = NextPlace();
  if (place.text == texts_.size()) return absl::OkStatus();
  const DriftTokens& text = texts_[place.text];
  const int64_t count = std::min(chunk_, PositionsOf(place.text) - place.position);
  const absl::Status prepared = Prepare(models, place);
  fed_text_ = -1;
  if (!prepared.ok()) return AtPosition(prepared, text.name, place.position);

  ChunkLogits logits;
  for (TextModel* model : Distinct(models)) {
    auto rows = Feed(*model, std::span<const int64_t>(text.ids).subspan(place.position, count));
    if (!rows.ok()) return AtPosition(rows.status(), text.name, place.position);
    logits.rows[model] = *std::move(rows);
  }
  QGPU_ASSIGN_OR_RETURN(const DriftStatistics drift,
                        Compare(logits, models.reference, models.merged, text, place.position, count, "merged model"));
  DriftStatistics noise;
  if (models.fine_base && models.coarse_base) {
    QGPU_ASSIGN_OR_RETURN(
        noise, Compare(logits, models.fine_base, models.coarse_base, text, place.position, count, "coarser base"));
  }
  DriftStatistics both = noise_;
  QGPU_RETURN_IF_ERROR(both.Merge(noise));
  QGPU_RETURN_IF_ERROR(drift_.Merge(drift));
  noise_ = std::move(both);
  fed_text_ = static_cast<int64_t>(place.text);
  fed_positions_ = place.position + count;
  return absl::OkStatus();
}

std::vector<int64_t> DriftContext(const DriftTokens& text, int64_t position) {
  constexpr int64_t kBefore = 12;
  const auto begin = text.ids.begin();
  const int64_t size = static_cast<int64_t>(text.ids.size());
  return {begin + std::clamp<int64_t>(position - kBefore, 0, size), begin + std::clamp<int64_t>(position + 2, 0, size)};
}

}  // namespace qgpu
