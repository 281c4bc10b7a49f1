#include "common/command_line.h"

#include <algorithm>

#include "common/nearest.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

TEST(NearestName, DiffersInFewLetters) {
  const std::vector<std::string> known = {"run", "trace", "disasm", "dynamic-shared", "drift"};
  EXPECT_EQ(NearestName("rn", known), "run");
  EXPECT_EQ(NearestName("rune", known), "run");
  EXPECT_EQ(NearestName("rnu", known), "run") << "neighbours exchanged are one difference";
  EXPECT_EQ(NearestName("trcae", known), "trace");
  EXPECT_EQ(NearestName("disasn", known), "disasm");
  EXPECT_EQ(NearestName("dynamic", known), "dynamic-shared") << "how a name begins";
  EXPECT_EQ(NearestName("frob", known), "");
  EXPECT_EQ(NearestName("", known), "");
  EXPECT_EQ(NearestName("d", known), "");
  EXPECT_EQ(NearestName("a", {"b"}), "") << "no letter of it is right";
  EXPECT_EQ(DidYouMean("trce", known), "; did you mean \"trace\"?");
  EXPECT_EQ(DidYouMean("frob", known), "");
}

// A program with two commands, one of which passes options on, and a hidden one.
class UnknownWordTest : public testing::Test {
 protected:
  UnknownWordTest() {
    app_.require_subcommand(1);
    app_.add_option("--golden", text_);
    CLI::App* run = app_.add_subcommand("run", "");
    run->add_option("file", text_)->required();
    run->add_option("--block", text_);
    CLI::App* record = app_.add_subcommand("record", "")->fallthrough();
    record->add_option("--time-limit", text_);
    app_.add_subcommand("run-job", "")->group("");
  }

  std::string Parse(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());
    try {
      app_.parse(arguments);
    } catch (const CLI::ParseError& error) {
      std::string unknown = UnknownWord("prog", app_);
      return unknown.empty() ? error.what() : unknown;
    }
    return "parsed";
  }

  CLI::App app_{"A program", "prog"};
  std::string text_;
};

TEST_F(UnknownWordTest, NamesACommand) {
  EXPECT_EQ(Parse({"frob"}), "prog: unknown command \"frob\"; there are: run, record");
  EXPECT_EQ(Parse({"rcord", "--time-limit", "3"}), "prog: unknown command \"rcord\"; did you mean \"record\"?");
  EXPECT_EQ(Parse({"run-jop"}), "prog: unknown command \"run-jop\"; there are: run, record") << "one is hidden";
  EXPECT_EQ(Parse({}), "A subcommand is required");
}

TEST_F(UnknownWordTest, NamesAnOption) {
  EXPECT_EQ(Parse({"run", "--blok", "4", "k.cu"}), "prog run: unknown option \"--blok\"; did you mean \"--block\"?");
  EXPECT_EQ(Parse({"run", "--blok=4"}), "prog run: unknown option \"--blok\"; did you mean \"--block\"?");
  EXPECT_EQ(Parse({"run", "k.cu", "-block"}), "prog run: unknown option \"-block\"; did you mean \"--block\"?");
  EXPECT_EQ(Parse({"run", "k.cu", "--frob"}), "prog run: unknown option \"--frob\"");
  EXPECT_EQ(Parse({"--goldn", "x", "run", "k.cu"}), "prog: unknown option \"--goldn\"; did you mean \"--golden\"?");
  EXPECT_EQ(Parse({"record", "--goldn", "x"}), "prog: unknown option \"--goldn\"; did you mean \"--golden\"?");
  EXPECT_EQ(Parse({"record", "--time-limt", "x"}),
            "prog: unknown option \"--time-limt\"; did you mean \"--time-limit\"?");
}

TEST_F(UnknownWordTest, NamesAnArgument) {
  EXPECT_EQ(Parse({"run", "k.cu", "other.cu"}), "prog run: unexpected argument \"other.cu\"");
  EXPECT_EQ(Parse({"record", "other.cu"}), "prog: unexpected argument \"other.cu\"");
  EXPECT_EQ(Parse({"run", "--block", "4"}), "file is required");
  EXPECT_EQ(Parse({"run", "k.cu"}), "parsed");
}

}  // namespace
}  // namespace qgpu
