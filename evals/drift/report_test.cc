// Tables and worst positions.
#include "evals/drift/report.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

using testing::HasSubstr;

DriftStatistics Of(std::vector<double> kl) {
  DriftStatistics statistics;
  for (size_t i = 0; i < kl.size(); ++i) {
    RowDrift row;
    row.kl = kl[i];
    EXPECT_TRUE(statistics.Append("prose", static_cast<int64_t>(i), row).ok());
  }
  return statistics;
}

TEST(DriftTable, HasARowForEachTextAndForAll) {
  DriftStatistics two = Of({1e-3});
  RowDrift row;
  row.kl = 3e-3;
  ASSERT_TRUE(two.Append("code", 0, row).ok());
  const std::string table = DriftTable(two, Of({0.25}));
  for (const char* part : {"prose", "1.000e-03", "code", "3.000e-03", "all", "2.000e-03", "noise floor", "2.500e-01"}) {
    EXPECT_THAT(table, HasSubstr(part));
  }
  EXPECT_THAT(DriftTable(two, {}), testing::Not(HasSubstr("noise floor")));
}

TEST(WorstPositions, AreShownWithWhatWasBeforeAndCameNext) {
  DriftMeasurement measurement({}, {{"prose", {'a', 'b', 'c', 'd'}}}, 8);
  class Fixed : public TextModel {
   public:
    explicit Fixed(float last) : last_(last) {}
    void Reset() override {}
    absl::StatusOr<std::vector<float>> Logits(std::span<const int64_t> ids) override {
      std::vector<float> logits(ids.size() * 128, 0.0f);
      logits[128 + 5] = last_;  // of the second position
      return logits;
    }
    absl::Status StreamLogits(std::span<const int64_t>, const LogitsSink&) override { return absl::OkStatus(); }
    absl::Status CheckIds(std::span<const int64_t>) const override { return absl::OkStatus(); }
    int64_t vocabulary() const override { return 128; }

   private:
    float last_;
  } base(0), merged(3);
  ASSERT_TRUE(measurement.RunChunk({&base, &merged, nullptr, nullptr}).ok());
  const auto show = [](const std::vector<int64_t>& ids) { return std::string(ids.begin(), ids.end()); };
  const std::string lines = WorstPositions(measurement, 3, show);
  EXPECT_THAT(lines, HasSubstr("prose 1: \"ab\" then \"c\"\n"));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << "positions without drift are none of the worst";
}

}  // namespace
}  // namespace qgpu
