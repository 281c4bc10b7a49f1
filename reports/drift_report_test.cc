// What the reports say of drift: headline, page and drift.csv of one run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "fmt/format.h"
#include "reports/csv.h"
#include "reports/drift_csv.h"
#include "reports/drift_groups.h"
#include "reports/html.h"
#include "reports/html/drift_plots.h"
#include "reports/printable.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ItemRow DriftItem(const std::string& probe, const std::string& text, const std::vector<double>& kl,
                  const std::vector<double>& noise = {}) {
  ItemRow item;
  item.kind = SuiteKind::kDrift;
  item.suite = "drift";
  item.kernel = probe;
  item.case_name = text;
  item.worker = "local";
  item.status = CaseStatus::kPass;
  item.attempts.emplace_back();
  item.attempts[0].status = CaseStatus::kPass;
  item.attempts[0].samples = {{"kl_mean", "nats", kl.empty() ? 0 : kl[0]}};
  item.drift.emplace();
  item.drift->positions = std::ssize(kl);
  item.drift->reference = "base, float32";
  item.drift->merged = "merged";
  for (size_t i = 0; i < kl.size(); ++i) {
    RowDrift row;
    row.kl = kl[i];
    row.base_surprise = row.merged_surprise = 2;
    row.same_top = true;
    row.top_overlap = kTopOverlap;
    item.drift->drift.rows.push_back(row);
    item.drift->predicted.push_back(fmt::format(" w{}", i));
  }
  for (const double value : noise) {
    item.drift->noise.rows.emplace_back();
    item.drift->noise.rows.back().kl = value;
    item.drift->noise.rows.back().base_surprise = 3;
    item.drift->noise.rows.back().merged_surprise = 4;
  }
  return item;
}

RunReport RunOf(const std::vector<ItemRow>& items) {
  RunReport report;
  report.run.id = 7;
  report.run.state = "finished";
  report.run.exit_code = 0;
  NodeRow worker;
  worker.role = "worker";
  worker.name = "local";
  worker.base = "tiny";
  report.nodes.push_back(worker);
  report.items = items;
  return report;
}

// KL of a text in which every ninth position is 0.
std::vector<double> ManyValues(int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(i % 9 == 0 ? 0 : 1e-3 * (1 + std::fabs(std::sin(i))));
  return values;
}

// Whether `tag` is a name and attributes, each NAME="VALUE".
bool IsTag(const std::string& tag) {
  size_t at = 0;
  const auto name = [&] {
    const size_t begin = at;
    while (at < tag.size() && (std::isalnum(tag[at]) || tag[at] == '-')) ++at;
    return at > begin;
  };
  if (!name()) return false;
  while (at < tag.size()) {
    if (tag[at++] != ' ' || !name() || tag.compare(at, 2, "=\"") != 0) return false;
    at = tag.find('"', at + 2);
    if (at++ == std::string::npos) return false;
  }
  return true;
}

// The first tag that is none, or is closed in another order than opened, with what stands around it; empty: none.
std::string IllFormed(const std::string& page) {
  std::vector<std::string> open;
  for (size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const std::string tag = page.substr(at + 1, page.find('>', at) - at - 1);
    if (tag == "!doctype html") continue;
    if (tag[0] == '/' && !open.empty() && open.back() == tag.substr(1)) {
      open.pop_back();
    } else if (IsTag(tag)) {
      const std::string name = tag.substr(0, tag.find(' '));
      if (name != "meta" && name != "br") open.push_back(name);
    } else {
      return page.substr(at < 100 ? 0 : at - 100, 200);
    }
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

void ExpectWellFormed(const std::string& page) { EXPECT_EQ(IllFormed(page), ""); }

TEST(IllFormedTest, FindsWhatIsWrong) {
  EXPECT_EQ(IllFormed("<!doctype html><p class=\"a\">a<br>b</p>"), "");
  for (const char* page : {"<p>", "</p>", "<p><b></p></b>", "<p class=a></p>", "<p a=\"\"b></p>", "a < b"}) {
    EXPECT_NE(IllFormed(page), "") << page;
  }
}

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string MeanKlOf(const std::vector<ItemRow>& items) { return Headline(RunOf(items))[3].value; }

TEST(MeanKlTest, IsOverAllTextsOfAProbeAndSplitComesFirst) {
  EXPECT_EQ(MeanKlOf({DriftItem("dense-bfloat16", "a", {0.01, 0.03}, {0.01, 0.01}),
                      DriftItem("dense-bfloat16", "b", {0.05}, {0.04}), DriftItem("dense-float32", "a", {1.6e-12}),
                      DriftItem("split-bfloat16", "a", {0, 0}), DriftItem("split-float32", "a", {0})}),
            "0 (split), 1.60e-12 (dense float32), 3.00e-02 (dense bfloat16; base's own 2.00e-02)");
}

TEST(MeanKlTest, OneProbeOfAFormIsNotTheForm) {
  EXPECT_EQ(MeanKlOf({DriftItem("split-float32", "a", {0})}), "0 (split float32)");
  EXPECT_EQ(MeanKlOf({DriftItem("split-float32", "a", {0}), DriftItem("split-bfloat16", "a", {1e-7})}),
            "0 (split float32), 1.00e-07 (split bfloat16)");
  EXPECT_EQ(MeanKlOf({DriftItem("dense-float32-after-launch", "a", {0.25})}),
            "2.50e-01 (dense float32 after a launch)");
}

TEST(MeanKlTest, OnlyCompleteTextsCount) {
  std::vector<ItemRow> items = {DriftItem("split-float32", "a", {0}), DriftItem("dense-float32", "a", {1e-12}),
                                DriftItem("dense-float32", "b", {3e-12})};
  items[2].drift->positions = 2;
  EXPECT_EQ(MeanKlOf(items), "0 (split float32), 1.00e-12 (dense float32; incomplete: 1 of 2 texts)");
  items[1].status = CaseStatus::kTimeout;
  EXPECT_EQ(MeanKlOf(items), "0 (split float32), incomplete (dense float32)");
  items[0].status.reset();
  EXPECT_EQ(MeanKlOf(items), "incomplete (split float32), incomplete (dense float32)");
  items[1].drift.reset();
  EXPECT_EQ(MeanKlOf(items), "incomplete (split float32), incomplete (dense float32)");
}

TEST(MeanKlTest, NumbersThatAreNoneDoNotCount) {
  ItemRow item = DriftItem("dense-float32", "a", {1e-12, std::numeric_limits<double>::quiet_NaN()});
  EXPECT_EQ(MeanKlOf({item}), "incomplete (dense float32)");
  EXPECT_THAT(WriteHtml(RunOf({item})), Not(HasSubstr(">nan<")));
}

TEST(MeanKlTest, ABoundThatIsNotMetIsSaid) {
  ItemRow item = DriftItem("dense-float32", "a", {1e-3});
  item.status = CaseStatus::kFail;
  EXPECT_EQ(MeanKlOf({item, DriftItem("dense-float32", "b", {0})}), "5.00e-04 (dense float32; FAILED)");
  EXPECT_EQ(VerdictExitCode(RunOf({item})), kExitWrong);
}

TEST(MeanKlTest, WorkersAndRepetitionsAreNamedWhereTheyDiffer) {
  std::vector<ItemRow> items = {DriftItem("dense-float32", "a", {1e-12}), DriftItem("dense-float32", "a", {1e-12})};
  items[1].worker = "far";
  EXPECT_EQ(MeanKlOf(items), "1.00e-12 (dense float32)");
  items[1].drift->drift.rows[0].kl = 2e-12;
  EXPECT_EQ(MeanKlOf(items), "local: 1.00e-12 (dense float32); far: 2.00e-12 (dense float32)");
  items[1].worker = "local";
  items[1].repetition = 2;
  EXPECT_EQ(MeanKlOf(items), "1.00e-12 to 2.00e-12 (dense float32)");
}

TEST(HeadlineTest, KernelsCountKernelItemsOnly) {
  RunReport report = RunOf({DriftItem("split-float32", "a", {0})});
  EXPECT_EQ(Headline(report)[0].value, "not run");
  EXPECT_EQ(Count(report).kernels, 0);
  ItemRow kernel;
  kernel.suite = kernel.kernel = "kernels";
  kernel.worker = "local";
  kernel.status = CaseStatus::kPass;
  report.items.push_back(kernel);
  report.items[0].status = CaseStatus::kFail;
  EXPECT_EQ(Headline(report)[0].value, "1/1");
  EXPECT_EQ(Headline(report)[3].measured_on, "base: tiny");
}

TEST(DriftPageTest, OfNothingButZerosNothingIsPlotted) {
  const std::string page =
      WriteHtml(RunOf({DriftItem("split-float32", "a", std::vector<double>(10, 0.0), std::vector<double>(10, 1e-3))}));
  ExpectWellFormed(page);
  EXPECT_THAT(page, HasSubstr("KL is exactly 0 at each of the 10 positions"));
  EXPECT_THAT(page, Not(HasSubstr("KL by position")));
  EXPECT_THAT(page, Not(HasSubstr("Worst positions")));
  EXPECT_THAT(page, HasSubstr("1 of 1 pass"));
}

TEST(DriftPageTest, OnePositionIsATableAndAPlot) {
  const std::string page = WriteHtml(RunOf({DriftItem("dense-float32", "a", {3e-12})}));
  ExpectWellFormed(page);
  EXPECT_THAT(page, HasSubstr("<td class=\"n\">3.00e-12</td>"));
  EXPECT_THAT(page, HasSubstr("aria-label=\"KL by position of "));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf,")));
}

TEST(DriftPageTest, TheNoiseFloorHasABaseOfItsOwn) {
  const std::string page = WriteHtml(RunOf({DriftItem("split-bfloat16", "a", {0, 0}, {1e-3, 1e-3})}));
  const auto perplexities = [](double base, double merged) {
    return fmt::format("<td class=\"n\">{:.5g}</td><td class=\"n\">{:.5g}</td>", std::exp(base), std::exp(merged));
  };
  EXPECT_EQ(CountOf(page, perplexities(2, 2)), 2) << "the text and all together";
  EXPECT_EQ(CountOf(page, perplexities(3, 4)), 2) << "of the noise floor";
}

TEST(DriftPageTest, ALongTextIsReducedAndThatIsSaid) {
  const std::vector<double> values = ManyValues(10000);
  const std::string page = WriteHtml(RunOf({DriftItem("dense-bfloat16", "a", values, values)}));
  ExpectWellFormed(page);
  EXPECT_LT(page.size(), 60000u);
  EXPECT_THAT(page, HasSubstr("Texts of more than 600 positions are drawn in 300 columns"));
  EXPECT_THAT(page, HasSubstr("<td class=\"n\">10,000</td>"));
  // A dot a position up to there.
  const std::string shorter = WriteHtml(RunOf({DriftItem("dense-bfloat16", "a", ManyValues(600))}));
  EXPECT_THAT(shorter, Not(HasSubstr("columns, each")));
  EXPECT_GE(CountOf(shorter, "h0"), 600);
}

TEST(DriftPlotsTest, ZerosHaveALineOfTheirOwn) {
  TextDrift text = DriftItem("dense-float32", "a", {1e-12, 0, 1e-10}).drift->drift;
  PlotScale scale;
  scale.Include(text);
  EXPECT_EQ(scale.least, 1e-12);
  EXPECT_EQ(scale.most, 1e-10);
  EXPECT_THAT(PositionPlot(text, 0, 0, scale), HasSubstr(">0</text>"));
  EXPECT_THAT(DistributionPlot(text, {}, scale), HasSubstr(">0</text>"));
  text.rows[1].kl = -1e-16;
  PlotScale with_negative;
  with_negative.Include(text);
  EXPECT_THAT(PositionPlot(text, 0, 0, with_negative), HasSubstr(">\u22640</text>"));
  text.rows[1].kl = 1e-11;
  PlotScale without;
  without.Include(text);
  EXPECT_FALSE(without.has_zero);
}

TEST(DriftPlotsTest, ADistributionReachesEveryValueAndTheWhole) {
  const TextDrift text = DriftItem("dense-float32", "a", {0.01, 1, 0.1, 0.1}).drift->drift;
  PlotScale scale;
  scale.Include(text);
  const std::string plot = DistributionPlot(text, {}, scale);
  // Shares of 25, 75 and 100 %: three steps up from 0 %.
  const size_t begin = plot.find("class=\"drift\"");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(CountOf(plot.substr(begin), "V"), 3);
  EXPECT_THAT(plot.substr(begin), HasSubstr("V12H"));  // 100 %
}

TEST(DriftPageTest, WorstPositionsHaveTheirContextAndHostileTokensAreHarmless) {
  ItemRow item = DriftItem("dense-float32", "a", {0, 1e-12, 3e-12});
  item.drift->predicted = {"<b>", "\u202e\x01", "</td><script>alert('x')\n\xff"};
  item.case_name = item.drift->merged = "\"><script>";
  item.attempts[0].message = "<img src=x onerror=alert(1)>";
  const std::string page = WriteHtml(RunOf({item}));
  ExpectWellFormed(page);
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;\\u{202e}\\x01</bdi><mark><bdi "
                              "dir=\"ltr\">&lt;/td&gt;&lt;script&gt;alert(&#39;x&#39;)\\n\\xff</bdi></mark>"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("\u202e")));
  EXPECT_LT(page.find("3.00e-12</td><td>&quot;"), page.find("1.00e-12</td><td>&quot;"));  // the worst first
}

TEST(DriftPageTest, AnIncompleteTextIsShownAsOne) {
  std::vector<ItemRow> items = {DriftItem("dense-float32", "a", {1e-12}), DriftItem("dense-float32", "b", {2e-12}),
                                DriftItem("dense-float32", "c", {})};
  items[1].drift->positions = 1500;
  items[1].status.reset();
  items[2].drift.reset();
  items[2].status.reset();
  const std::string page = WriteHtml(RunOf(items));
  ExpectWellFormed(page);
  EXPECT_THAT(page, HasSubstr("the 1 complete of 3"));
  EXPECT_THAT(page, HasSubstr("<td>1 of 1,500 positions measured</td>"));
  EXPECT_THAT(page, HasSubstr("<td class=\"n\">1 of 1,500</td>"));
  EXPECT_THAT(page, HasSubstr("Missing (2)"));
  items.erase(items.begin());
  EXPECT_THAT(WriteHtml(RunOf(items)), HasSubstr("No text is complete: nothing is plotted."));
}

TEST(DriftCsvTest, OneRowForEachPositionWithUnitsInColumnNames) {
  std::vector<ItemRow> items = {DriftItem("dense-bfloat16", "a", {0.5, 0}, {0.25, 0.125}),
                                DriftItem("split-float32", "b", {0})};
  items[0].drift->predicted[1] = "a,\"\n";
  items[1].drift->positions = 3;
  const std::string csv = WriteDriftCsv(RunOf(items));
  EXPECT_EQ(CountOf(csv, "\r\n"), 1 + 3);
  EXPECT_EQ(CountOf(csv, "\n"), 1 + 3);
  EXPECT_THAT(csv, HasSubstr("position,kl_nats,machine_share,"));
  EXPECT_THAT(csv, HasSubstr(",noise_kl_nats,noise_base_surprise_nats,noise_surprise_nats,noise_same_top1_boolean,"));
  EXPECT_THAT(csv, HasSubstr("7,drift,dense-bfloat16,a,local,1,tiny,,1,0,0.5,0,2,2,1,5,0.25,3,4,0,0, w0\r\n"));
  EXPECT_THAT(csv, HasSubstr("7,drift,dense-bfloat16,a,local,1,tiny,,1,1,0,0,2,2,1,5,0.125,3,4,0,0,\"a,\"\"\\n\"\r\n"));
  EXPECT_THAT(csv, HasSubstr("7,drift,split-float32,b,local,1,tiny,,0,0,0,0,2,2,1,5,,,,,, w0\r\n"));
}

TEST(ReportsTest, FormatsAgreeOnDriftItems) {
  std::vector<ItemRow> items = {DriftItem("dense-float32", "a", {1e-12, 2e-12}), DriftItem("dense-float32", "b", {0.5}),
                                DriftItem("dense-float32", "c", {1e-12})};
  items[1].status = items[1].attempts[0].status = CaseStatus::kFail;
  items[2].status.reset();
  items[2].attempts.clear();
  items[2].drift.reset();
  const RunReport report = RunOf(items);
  const Totals totals = Count(report);
  const std::string page = WriteHtml(report), csv = WriteCsv(report), positions = WriteDriftCsv(report);
  EXPECT_EQ(totals.items, 3);
  EXPECT_EQ(totals.items_finished, 2);
  EXPECT_EQ(CountOf(csv, ",pass,"), totals.count(CaseStatus::kPass));
  EXPECT_EQ(CountOf(csv, ",fail,"), totals.count(CaseStatus::kFail));
  EXPECT_EQ(CountOf(csv, ",not run,"), totals.items - totals.items_finished);
  EXPECT_THAT(csv, HasSubstr("kl_mean_nats"));
  EXPECT_THAT(page, HasSubstr("3 items, 2 finished, 1 pass, 1 fail"));
  EXPECT_THAT(page, HasSubstr("1 of 3 pass"));
  EXPECT_EQ(CountOf(positions, "\r\n") - 1, DriftGroups(report)[0].drift.positions);
}

TEST(PrintableTest, WritesOutWhatDoesNotShow) {
  EXPECT_EQ(Printable("plain na\u00efve \u4e2d\u6587 \U0001f600"), "plain na\u00efve \u4e2d\u6587 \U0001f600");
  EXPECT_EQ(Printable("a\n\t\r\x01\x7f"), "a\\n\\t\\r\\x01\\x7f");
  EXPECT_EQ(Printable(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(PrintableLines("\ta\n\n\x1b[31mb\n"), "\\ta\n\n\\x1b[31mb\n");
  EXPECT_EQ(PrintableLines("one"), "one");
  EXPECT_EQ(Printable("\u0085\u00a0\u200b\u200f\u2028\u202e\u2066\ufeff"),
            "\\u{85}\\u{a0}\\u{200b}\\u{200f}\\u{2028}\\u{202e}\\u{2066}\\u{feff}");
  EXPECT_EQ(Printable("\U000e0041"), "\\u{e0041}");
  EXPECT_EQ(Printable("\xe4\xb8 \xff\xc0\x80"), "\\xe4\\xb8 \\xff\\xc0\\x80");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  const std::string shown = Printable("\u202e\n");
  EXPECT_EQ(Printable(shown), shown);
}

}  // namespace
}  // namespace qgpu
