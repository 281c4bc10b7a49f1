#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fmt/format.h"
#include "reports/csv.h"
#include "reports/html.h"
#include "reports/rows.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ItemRow Item(const std::string& kernel, const std::string& name, std::optional<CaseStatus> status, int64_t tokens) {
  ItemRow item;
  item.suite = "kernels";
  item.kernel = kernel;
  item.case_name = name;
  item.worker = "local";
  item.status = status;
  if (!status.has_value()) return item;
  AttemptRow attempt;
  attempt.id = kernel + name;
  attempt.status = *status;
  if (tokens > 0) {
    attempt.launch.emplace();
    attempt.launch->tokens = tokens;
    attempt.launch->positions_checked = tokens;
    attempt.launch->end = "done";
    attempt.samples = {{"decode", "ms", 500}, {"read", "ms", 0.25}};
  }
  item.attempts.push_back(attempt);
  return item;
}

RunReport TwoKernels() {
  RunReport report;
  report.run.id = 7;
  report.run.exit_code = 0;
  report.run.state = "finished";
  report.items = {Item("dot", "small", CaseStatus::kPass, 20), Item("dot", "empty", CaseStatus::kPass, 10),
                  Item("gcd", "one", CaseStatus::kPass, 70)};
  return report;
}

std::string Kernels(const RunReport& report) { return Headline(report)[0].value; }

TEST(RowsTest, AKernelPassesWhenEveryItemOfItDoes) {
  RunReport report = TwoKernels();
  EXPECT_EQ(Kernels(report), "2/2");
  report.items[1].status = CaseStatus::kInfra;
  EXPECT_EQ(Kernels(report), "1/2");
  report.items[1].status.reset();
  EXPECT_EQ(Kernels(report), "1/2");
  const Totals totals = Count(report);
  EXPECT_EQ(totals.items, 3);
  EXPECT_EQ(totals.items_finished, 2);
  EXPECT_EQ(totals.tokens, 100);
  EXPECT_DOUBLE_EQ(totals.decode_seconds, 1.5);
}

TEST(RowsTest, FiguresThatDoNotExistAreNotRun) {
  const auto headline = Headline(TwoKernels());
  ASSERT_EQ(headline.size(), 4u);
  EXPECT_EQ(headline[1].name + " " + headline[1].value, "chat not run");
  EXPECT_EQ(headline[2].name + " " + headline[2].value, "advanced not run");
  EXPECT_EQ(headline[3].name + " " + headline[3].value, "mean KL not run");
}

TEST(RowsTest, LaunchesThatWereNotTimedHaveNoPartInTheSpeed) {
  RunReport report = TwoKernels();
  report.items[0].attempts[0].samples.clear();
  EXPECT_EQ(Count(report).tokens, 100);
  EXPECT_EQ(Count(report).decoded_tokens, 80);
  EXPECT_EQ(Count(report).decode_seconds, 1);
  EXPECT_THAT(WriteHtml(report), HasSubstr("<div class=\"figure\">80 tokens/s</div>"));
}

TEST(RowsTest, ExitCodes) {
  RunReport report = TwoKernels();
  EXPECT_EQ(VerdictExitCode(report), kExitGood);
  const std::pair<CaseStatus, ExitCode> codes[] = {
      {CaseStatus::kFail, kExitWrong},           {CaseStatus::kError, kExitUsage},
      {CaseStatus::kUnsupported, kExitUsage},    {CaseStatus::kTimeout, kExitInfrastructure},
      {CaseStatus::kCrash, kExitInfrastructure}, {CaseStatus::kInfra, kExitInfrastructure}};
  for (const auto& [status, code] : codes) {
    report.items[0].status = status;
    EXPECT_EQ(VerdictExitCode(report), code) << CaseStatusName(status);
  }
  report.items[1].status = CaseStatus::kFail;  // a wrong answer stays one, whatever else happened
  EXPECT_EQ(VerdictExitCode(report), kExitWrong);
  EXPECT_EQ(VerdictExitCode(RunReport()), kExitInfrastructure);
  RunReport unfinished = TwoKernels();
  unfinished.items[2].status.reset();
  EXPECT_EQ(VerdictExitCode(unfinished), kExitInfrastructure);
}

TEST(RowsTest, StatusNamesGoBothWays) {
  for (CaseStatus status : kAllCaseStatuses) EXPECT_EQ(CaseStatusFromName(CaseStatusName(status)), status);
  EXPECT_FALSE(CaseStatusFromName("skipped").has_value());
}

int CountLines(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

TEST(CsvTest, OneRowForEachAttemptWithUnitsInColumnNames) {
  RunReport report = TwoKernels();
  report.items[0].attempts.push_back(report.items[0].attempts[0]);
  report.items.push_back(Item("gcd", "two", std::nullopt, 0));
  const std::string csv = WriteCsv(report);
  EXPECT_EQ(CountLines(csv), 1 + 4 + 1);
  EXPECT_THAT(csv.substr(0, csv.find('\r')), HasSubstr("message,decode_ms,read_ms"));
  EXPECT_THAT(csv, HasSubstr("7,kernels,gcd,one,local,1,1,pass,done,70,0,0,70,0,,,not known,,,,500,0.25\r\n"));
  EXPECT_THAT(csv, HasSubstr("7,kernels,gcd,two,local,1,0,not run,,,,,,,,,not known,,,,,\r\n"));
}

TEST(CsvTest, QuotesWhatNeedsIt) {
  RunReport report = TwoKernels();
  report.items[0].attempts[0].message = "a \"b\", c\nd";
  EXPECT_THAT(WriteCsv(report), HasSubstr("\"a \"\"b\"\", c\nd\""));
}

TEST(HtmlTest, FailuresComeFirstWithPositionAndValues) {
  RunReport report = TwoKernels();
  report.run.exit_code = 1;
  ItemRow& bad = report.items[2];
  bad.status = bad.attempts[0].status = CaseStatus::kFail;
  bad.attempts[0].message = "<script>alert(1)</script>";
  LaunchRow& launch = *bad.attempts[0].launch;
  launch.odd_one_out = "model";
  launch.token_difference = TokenDifference{17, "EXEC(3, 0b1111)", "DONE"};
  launch.word_difference = DifferingWord{"word 5 (byte 20)", 5, 9u, 0xffffffffu, 0xffffffffu, 40};
  const std::string page = WriteHtml(report);
  EXPECT_THAT(page, HasSubstr("position 17: expected <code>EXEC(3, 0b1111)</code>, the model wrote <code>DONE</code>"));
  EXPECT_THAT(page, HasSubstr("word 5 (byte 20), written at position 40"));
  EXPECT_THAT(page, HasSubstr("<code>-1</code> <span class=\"muted\">0xffffffff</span>"));
  EXPECT_LT(page.find("Not passed (1)"), page.find("Every launch</h2>"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("wrong answers"));
}

TEST(HtmlTest, ShowsPublishedFiguresAndNeedsNothingFromElsewhere) {
  const std::string page = WriteHtml(TwoKernels());
  EXPECT_THAT(page, HasSubstr("<td><div class=\"figure\">2/2</div>"));
  EXPECT_THAT(page,
              HasSubstr("qwenGPU: <b>49/49</b> <span class=\"muted\">Tesla T4 against its reference interpreter"));
  EXPECT_THAT(page, HasSubstr("<div class=\"figure\">67 tokens/s</div>"));
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr("Not passed")));
  EXPECT_THAT(page, Not(HasSubstr("Missing")));
}

TEST(HtmlTest, SaysWithWhatTheKernelsWereCompared) {
  RunReport report = TwoKernels();
  NodeRow worker;
  worker.role = "worker";
  worker.name = "local";
  worker.base = "tiny";
  report.nodes.push_back(worker);
  EXPECT_EQ(Headline(report)[0].measured_on, "base: tiny; native witness: none");
  EXPECT_THAT(WriteHtml(report), HasSubstr("In this run nothing native took part."));
  for (ItemRow& item : report.items) item.attempts[0].launch->native_witness = "native-cpu (x86-64, Xeon)";
  EXPECT_EQ(Headline(report)[0].measured_on, "base: tiny; native witness: native-cpu (x86-64, Xeon)");
  EXPECT_THAT(WriteHtml(report), HasSubstr("compared with native-cpu (x86-64, Xeon): no GPU took part"));
  report.items[0].attempts[0].launch->native_witness = "native-cuda (Tesla T4, driver 550)";
  EXPECT_THAT(WriteHtml(report), HasSubstr("only some launches were compared with a GPU"));
  for (ItemRow& item : report.items) item.attempts[0].launch->native_witness = "native-cuda (Tesla T4, driver 550)";
  EXPECT_THAT(WriteHtml(report), HasSubstr("compared with native-cuda (Tesla T4, driver 550).</td>"));
}

TEST(HtmlTest, AnInterruptedRunShowsWhatIsMissing) {
  RunReport report = TwoKernels();
  report.run.state = "interrupted";
  report.run.exit_code = -1;
  report.items.push_back(Item("gcd", "two", std::nullopt, 0));
  report.items.push_back(Item("gcd", "three", std::nullopt, 0));
  report.items.back().attempts.push_back({});
  const std::string page = WriteHtml(report);
  EXPECT_THAT(page, HasSubstr("Missing (2)"));
  EXPECT_THAT(page, HasSubstr("2 of 5 items have no result"));
  EXPECT_THAT(page, HasSubstr("<td>gcd/two</td><td>local</td><td class=\"n\">1</td><td>not begun</td>"));
  EXPECT_THAT(page, HasSubstr("<td>tried 1 time, the last ended with infra</td>"));
  EXPECT_THAT(page, HasSubstr("interrupted: nothing can be concluded"));
  EXPECT_THAT(page, Not(HasSubstr("Not passed")));
  EXPECT_THAT(WriteHtml(RunReport()), HasSubstr("The run has no items"));
  EXPECT_EQ(Headline(RunReport())[0].value, "not run");
}

TEST(ReportsTest, FormatsAgreeOnTheCounts) {
  const RunReport report = TwoKernels();
  const std::string page = WriteHtml(report), csv = WriteCsv(report);
  EXPECT_THAT(page, HasSubstr("kernels " + Kernels(report)));
  int passes = 0;
  for (size_t at = csv.find(",pass,"); at != std::string::npos; at = csv.find(",pass,", at + 1)) ++passes;
  EXPECT_EQ(passes, Count(report).count(CaseStatus::kPass));
  EXPECT_THAT(page, HasSubstr(fmt::format("{} pass", passes)));
}

}  // namespace
}  // namespace qgpu
