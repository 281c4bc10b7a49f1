#include "common/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

extern char** environ;

namespace qgpu {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Settings replace variables of the same name.
std::vector<std::string> Environment(const std::vector<std::string>& settings) {
  std::vector<std::string> variables = settings;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text(*variable);
    const std::string name = text.substr(0, text.find('=') + 1);
    const bool is_set = std::any_of(settings.begin(), settings.end(),
                                    [&](const std::string& setting) { return setting.rfind(name, 0) == 0; });
    if (!is_set) variables.push_back(text);
  }
  return variables;
}

}  // namespace

absl::StatusOr<pid_t> SpawnProgram(const std::string& program, const std::vector<std::string>& arguments,
                                   const std::vector<std::string>& settings, const ChildFiles& files) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (files.in < 0) {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  } else {
    posix_spawn_file_actions_adddup2(&actions, files.in, STDIN_FILENO);
  }
  if (files.out >= 0) posix_spawn_file_actions_adddup2(&actions, files.out, STDOUT_FILENO);
  if (files.err >= 0) posix_spawn_file_actions_adddup2(&actions, files.err, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> words = {program}, variables = Environment(settings);
  words.insert(words.end(), arguments.begin(), arguments.end());
  pid_t child = -1;
  const int error =
      posix_spawn(&child, program.c_str(), &actions, &attributes, Pointers(words).data(), Pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return child;
  return absl::UnavailableError(fmt::format("cannot start {}: {}", program, std::strerror(error)));
}

}  // namespace qgpu
