#include "common/command_line.h"

#include <algorithm>
#include <iostream>
#include <vector>

#include "common/nearest.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace qgpu {
namespace {

constexpr const char* kMoreHelp = "Run with --help for more information.";

// Names without dashes, of the options that could have stood where `app` found the word.
std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  for (const CLI::App* command : app.get_subcommands()) {
    if (!command->get_fallthrough()) continue;
    const std::vector<std::string> more = OptionNames(*command);
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::string Describe(const std::string& program, const CLI::App& app, const std::string& word) {
  if (word.starts_with('-')) {
    const std::string option = word.substr(0, word.find('='));
    const std::string name = option.substr(std::min(option.find_first_not_of('-'), option.size()));
    const std::string nearest = NearestName(name, OptionNames(app));
    return fmt::format("{}: unknown option \"{}\"{}", program, option,
                       nearest.empty() ? "" : fmt::format("; did you mean \"--{}\"?", nearest));
  }
  const std::vector<std::string> commands = CommandNames(app);
  if (commands.empty() || !app.get_subcommands().empty()) {
    return fmt::format("{}: unexpected argument \"{}\"", program, word);
  }
  const std::string meant = DidYouMean(word, commands);
  return fmt::format("{}: unknown command \"{}\"{}", program, word,
                     meant.empty() ? fmt::format("; there are: {}", fmt::join(commands, ", ")) : meant);
}

}  // namespace

std::string UnknownWord(const std::string& program, const CLI::App& app) {
  for (const std::string& word : app.remaining()) {
    if (word != "--") return Describe(program, app, word);
  }
  for (const CLI::App* command : app.get_subcommands()) {
    const std::string unknown = UnknownWord(program + " " + command->get_name(), *command);
    if (!unknown.empty()) return unknown;
  }
  return "";
}

ExitCode EndOfParse(const std::string& program, const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success)) {
    const std::string unknown = UnknownWord(program, app);
    if (!unknown.empty()) {
      fmt::print(stderr, "{}\n{}\n", unknown, kMoreHelp);
      return kExitUsage;
    }
  }
  return app.exit(error, std::cout, std::cerr) == 0 ? kExitGood : kExitUsage;
}

}  // namespace qgpu
