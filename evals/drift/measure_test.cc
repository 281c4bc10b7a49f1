// The measurement with models of the tests: against rows compared one by one, ended anywhere and taken up, and with
// files that do not fit.
#include "evals/drift/measure.h"

#include <filesystem>
#include <fstream>

#include "common/file.h"
#include "evals/drift/test_text_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kVocabulary = 11, kChunk = 4;

std::vector<DriftTokens> Texts() {
  std::vector<DriftTokens> texts = {{"a", {}}, {"b", {}}, {"c", {}}};
  SplitMix64 random(8);
  const int sizes[] = {14, 2, 9};  // 13, 1 and 8 positions
  for (int i = 0; i < 3; ++i) {
    for (int k = 0; k < sizes[i]; ++k) texts[i].ids.push_back(random.Below(kVocabulary));
  }
  return texts;
}

class Measure : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/drift_" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".json";
    std::filesystem::remove(path_);
  }
  DriftMeasurement Fresh() const { return DriftMeasurement({{"form", "dense"}, {"chunk", kChunk}}, Texts(), kChunk); }
  DriftModels Models() { return {&base_, &merged_, &base_, &coarse_}; }
  void Finish(DriftMeasurement& measurement) {
    while (!measurement.complete()) {
      const absl::Status status = measurement.RunChunk(Models());
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  static std::string Numbers(const DriftMeasurement& measurement) {
    return measurement.drift().ToJson().dump() + measurement.noise_floor().ToJson().dump();
  }

  std::string path_;
  TestTextModel base_{kVocabulary, 0, 0}, merged_{kVocabulary, 3, 0.1}, coarse_{kVocabulary, 0, 0.5};
};

TEST_F(Measure, IsEveryPositionComparedOnItsOwn) {
  DriftMeasurement measurement = Fresh();
  EXPECT_EQ(measurement.positions(), 22);
  Finish(measurement);
  EXPECT_EQ(measurement.positions_done(), 22);
  DriftStatistics expected;
  TestTextModel base(kVocabulary, 0, 0), merged(kVocabulary, 3, 0.1);
  for (const DriftTokens& text : Texts()) {
    base.Reset();
    merged.Reset();
    for (size_t i = 0; i + 1 < text.ids.size(); ++i) {
      const auto row = CompareRows(*base.Logits({&text.ids[i], 1}), *merged.Logits({&text.ids[i], 1}), text.ids[i + 1]);
      ASSERT_TRUE(expected.Append(text.name, static_cast<int64_t>(i), *row).ok());
    }
  }
  EXPECT_EQ(measurement.drift().ToJson().dump(), expected.ToJson().dump());
  EXPECT_GT(measurement.noise_floor().Summarize().mean, 4 * expected.Summarize().mean);
  EXPECT_EQ(base_.fed, 22) << "a model in several places is fed once";
}

TEST_F(Measure, AModelAgainstItselfIsExactlyZero) {
  DriftMeasurement measurement = Fresh();
  TestTextModel again(kVocabulary, 0, 0);
  while (!measurement.complete()) ASSERT_TRUE(measurement.RunChunk({&base_, &again, nullptr, nullptr}).ok());
  EXPECT_EQ(measurement.drift().Summarize().max, 0);
  EXPECT_EQ(measurement.drift().Summarize().min, 0);
  EXPECT_TRUE(measurement.noise_floor().texts().empty());
}

TEST_F(Measure, EndedAnywhereAndTakenUpGivesTheSameNumbers) {
  DriftMeasurement whole = Fresh();
  Finish(whole);
  for (int chunks = 0; chunks <= 7; ++chunks) {
    std::filesystem::remove(path_);
    DriftMeasurement first = Fresh();
    for (int i = 0; i < chunks; ++i) {
      ASSERT_TRUE(first.RunChunk(Models()).ok());
      ASSERT_TRUE(first.Save(path_).ok());
    }
    DriftMeasurement second = Fresh();
    const absl::Status status = second.Resume(path_);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(second.positions_done(), first.positions_done());
    base_.Logits(std::vector<int64_t>{1, 2, 3}).IgnoreError();  // whatever the models were fed before
    Finish(second);
    EXPECT_EQ(Numbers(second), Numbers(whole)) << "after " << chunks;
  }
}

TEST_F(Measure, ALaunchIsFedToTheMergedModelAloneBeforeEveryText) {
  const std::vector<int64_t> launch = {11, 13, 12};
  DriftMeasurement plain = Fresh(), after = Fresh();
  Finish(plain);
  base_.fed = merged_.fed = 0;
  after.FollowLaunch(launch);
  Finish(after);
  EXPECT_EQ(base_.fed, 22);
  EXPECT_EQ(merged_.fed, 22 + 3 * 3);
  DriftStatistics expected;
  TestTextModel base(kVocabulary, 0, 0), merged(kVocabulary, 3, 0.1);
  for (const DriftTokens& text : Texts()) {
    base.Reset();
    merged.Reset();
    ASSERT_TRUE(merged.Logits(launch).ok());
    for (size_t i = 0; i + 1 < text.ids.size(); ++i) {
      const auto row = CompareRows(*base.Logits({&text.ids[i], 1}), *merged.Logits({&text.ids[i], 1}), text.ids[i + 1]);
      ASSERT_TRUE(expected.Append(text.name, static_cast<int64_t>(i), *row).ok());
    }
  }
  EXPECT_EQ(after.drift().ToJson().dump(), expected.ToJson().dump());
  EXPECT_EQ(after.noise_floor().ToJson().dump(), plain.noise_floor().ToJson().dump());
}

TEST_F(Measure, RowsThatAreKnownElsewhereAreFedInTheSamePiecesAllTheSame) {
  const std::vector<DriftTokens> one = {Texts()[0]};
  const int64_t chunk = 3, positions = static_cast<int64_t>(one[0].ids.size()) - 1;
  DriftMeasurement whole({}, one, chunk);
  Finish(whole);
  const std::vector<RowDrift> expected = whole.drift().texts()[0].rows;
  for (int64_t first = chunk; first < positions; first += chunk) {
    DriftMeasurement rest({}, one, chunk);
    rest.SkipTo(first);
    EXPECT_EQ(rest.positions_done(), first);
    base_.fed = 0;
    Finish(rest);
    EXPECT_EQ(base_.fed, positions);
    const TextDrift& part = rest.drift().texts()[0];
    EXPECT_EQ(part.first_position, first);
    ASSERT_EQ(part.rows.size(), static_cast<size_t>(positions - first));
    for (size_t i = 0; i < part.rows.size(); ++i) EXPECT_EQ(part.rows[i].kl, expected[first + i].kl);
  }
  DriftMeasurement none({}, one, chunk);
  none.SkipTo(positions);
  EXPECT_TRUE(none.complete());
}

TEST_F(Measure, StopsBeforeTheNextForwardPass) {
  DriftMeasurement measurement = Fresh();
  bool stop = false;
  measurement.StopWhen([&stop] { return stop; });
  ASSERT_TRUE(measurement.RunChunk(Models()).ok());
  const int fed = base_.fed;
  stop = true;
  EXPECT_TRUE(absl::IsCancelled(measurement.RunChunk(Models())));
  EXPECT_EQ(base_.fed, fed);
  stop = false;
  DriftMeasurement whole = Fresh();
  Finish(measurement);
  Finish(whole);
  EXPECT_EQ(Numbers(measurement), Numbers(whole));
}

TEST_F(Measure, TheFileOfACompleteRunHasItsSummary) {
  DriftMeasurement measurement = Fresh();
  ASSERT_TRUE(measurement.RunChunk(Models()).ok());
  ASSERT_TRUE(measurement.Save(path_).ok());
  EXPECT_FALSE(json::parse(*ReadFile(path_)).contains("summary"));
  Finish(measurement);
  ASSERT_TRUE(measurement.Save(path_).ok());
  const json file = json::parse(*ReadFile(path_));
  EXPECT_EQ(file["complete"], true);
  EXPECT_EQ(file["summary"]["positions"], 22);
  EXPECT_EQ(file["summary"]["kl_mean"].get<double>(), measurement.drift().Summarize().mean);
}

TEST_F(Measure, AFileOfAnotherRunIsNotTakenUp) {
  DriftMeasurement measurement = Fresh();
  ASSERT_TRUE(measurement.RunChunk(Models()).ok());
  ASSERT_TRUE(measurement.Save(path_).ok());
  DriftMeasurement other({{"form", "split"}, {"chunk", kChunk}}, Texts(), kChunk);
  const absl::Status status = other.Resume(path_);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("its form is \"dense\", here it is \"split\""), HasSubstr("another file")));
  EXPECT_EQ(other.positions_done(), 0);
}

TEST_F(Measure, DamagedFilesAreRefused) {
  DriftMeasurement measurement = Fresh();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(measurement.RunChunk(Models()).ok());
  ASSERT_TRUE(measurement.Save(path_).ok());
  const std::string good = *ReadFile(path_);
  const auto refused = [this](const std::string& text) {
    std::ofstream(path_, std::ios::trunc) << text;
    DriftMeasurement taken = Fresh();
    const absl::Status status = taken.Resume(path_);
    EXPECT_EQ(taken.positions_done() == 0, !status.ok());
    return absl::IsInvalidArgument(status);
  };
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused("[]"));
  EXPECT_TRUE(refused("{\"format\": \"qgpu drift 1\"}"));
  for (size_t length : {size_t{1}, good.size() / 3, good.size() / 2, good.size() - 3}) {
    EXPECT_TRUE(refused(good.substr(0, length))) << length;
  }
  const auto edited = [&good](const char* path, const json& value) {
    json file = json::parse(good);
    file[json::json_pointer(path)] = value;
    return file.dump();
  };
  ASSERT_FALSE(refused(edited("/complete", false)));  // good otherwise
  EXPECT_TRUE(refused(edited("/drift/texts/0/name", "z")));
  EXPECT_TRUE(refused(edited("/drift/texts/0/first_position", 1)));
  EXPECT_TRUE(refused(edited("/drift", 0)));
  EXPECT_TRUE(refused(edited("/noise_floor/texts/1", json::object())));
  json fewer = json::parse(good);
  for (auto& column : fewer["noise_floor"]["texts"].back()) {
    if (column.is_array()) column.erase(column.size() - 1);
  }
  EXPECT_TRUE(refused(fewer.dump()));
}

TEST_F(Measure, LogitsThatAreNoNumbersNameTheirPosition) {
  merged_.bad_at = 6;
  DriftMeasurement measurement = Fresh();
  ASSERT_TRUE(measurement.RunChunk(Models()).ok());
  const absl::Status status = measurement.RunChunk(Models());
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("text a, position 6: the merged model's logit of id 13 is inf"));
  EXPECT_EQ(measurement.positions_done(), 4);
  merged_.bad_at = -1;
  coarse_.bad_at = 5;
  EXPECT_THAT(std::string(measurement.RunChunk(Models()).message()),
              HasSubstr("text a, position 5: the coarser base's logit of id 10 is inf"));
  coarse_.bad_at = -1;  // the measurement goes on from where it was
  Finish(measurement);
  DriftMeasurement whole = Fresh();
  Finish(whole);
  EXPECT_EQ(Numbers(measurement), Numbers(whole));
}

TEST_F(Measure, AnErrorOfTheModelIsPassedOn) {
  coarse_.fail_at = 5;
  DriftMeasurement measurement = Fresh();
  ASSERT_TRUE(measurement.RunChunk(Models()).ok());
  const absl::Status status = measurement.RunChunk(Models());
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("text a, position 4: no memory"));
}

TEST(DriftContext, IsCutAtTheEnds) {
  const DriftTokens text = {"a", {10, 11, 12, 13}};
  EXPECT_THAT(DriftContext(text, 0), ElementsAre(10, 11));
  EXPECT_THAT(DriftContext(text, 2), ElementsAre(10, 11, 12, 13));
  DriftTokens longer = {"b", {}};
  for (int i = 0; i < 100; ++i) longer.ids.push_back(i);
  EXPECT_EQ(DriftContext(longer, 50).front(), 38);
  EXPECT_EQ(DriftContext(longer, 50).back(), 51);
}

}  // namespace
}  // namespace qgpu
