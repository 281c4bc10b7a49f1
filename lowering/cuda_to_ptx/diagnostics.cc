#include "lowering/cuda_to_ptx/diagnostics.h"

#include <string_view>
#include <vector>

namespace qgpu {
namespace {

constexpr size_t kMaxBytes = 8 << 10;

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string WithUserNames(std::string line, const DiagnosticNames& names) {
  ReplaceAll(line, names.scratch + "/", "");
  for (const std::string_view prefix : {"", "In file included from ", "fatal error: error in backend: "}) {
    const std::string before = std::string(prefix) + names.file + ":";
    if (line.starts_with(before)) {
      return std::string(prefix) + names.display_name + ":" + line.substr(before.size());
    }
  }
  return line;
}

// "2 errors generated when compiling for sm_75."
bool IsCount(const std::string& line) {
  return !line.empty() && line.front() >= '0' && line.front() <= '9' && line.find(" generated") != std::string::npos &&
         line.find(':') == std::string::npos;
}

}  // namespace

std::string CleanDiagnostics(const std::string& messages, const DiagnosticNames& names) {
  std::string clean;
  for (const std::string& raw : Lines(messages)) {
    if (raw.starts_with("PLEASE submit a bug report") || raw.starts_with("Stack dump:")) break;
    if (IsCount(raw)) continue;
    std::string line = WithUserNames(raw, names);
    ReplaceAll(
        line, "use of undeclared identifier cudaConfigureCall",
        "host code is not run, and so is no launch <<<...>>>; remove it, and give the launch's shape with --grid "
        "and --block");
    if (line.find("file not found") != std::string::npos && line.find("fatal error: '") != std::string::npos) {
      line += "\n    (only the headers that come with qgpu can be included; a kernel is one file)";
    }
    if (clean.size() + line.size() > kMaxBytes) {
      clean += "(more messages left out)\n";
      break;
    }
    clean += line + "\n";
  }
  while (clean.ends_with("\n")) clean.pop_back();
  return clean;
}

std::string CrashPlace(const std::string& messages, const DiagnosticNames& names) {
  std::string place;
  for (const std::string& raw : Lines(messages)) {
    // "2.\tkernel.cu:3:1: current parser token 'x'": the last such line is the innermost.
    const size_t tab = raw.find(".\t");
    if (tab == std::string::npos || tab > 3) continue;
    const std::string line = WithUserNames(raw.substr(tab + 2), names);
    if (line.starts_with(names.display_name + ":")) place = line;
  }
  return place;
}

}  // namespace qgpu
