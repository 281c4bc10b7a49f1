#include "tests/link_rules/include_graph.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <sstream>

#include "common/file.h"

namespace qgpu {
namespace {

namespace fs = std::filesystem;

bool IsBelow(const std::string& file, const std::string& prefix) { return file.rfind(prefix, 0) == 0; }

std::vector<std::string> ParseIncludes(const std::string& text) {
  std::vector<std::string> includes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line.compare(hash, 1, "#") != 0) continue;
    const size_t word = line.find("include", hash);
    const size_t open = line.find_first_of("\"<", hash);
    if (word == std::string::npos || open == std::string::npos || word > open) continue;
    const size_t close = line.find_first_of("\">", open + 1);
    if (close != std::string::npos) includes.push_back(line.substr(open + 1, close - open - 1));
  }
  return includes;
}

bool IsTorch(const std::string& name) {
  return IsBelow(name, "torch/") || IsBelow(name, "ATen/") || IsBelow(name, "c10/");
}

bool IsProtobuf(const std::string& name) {
  return IsBelow(name, "google/protobuf/") || IsBelow(name, "grpc") || name.find(".pb.h") != std::string::npos;
}

}  // namespace

absl::StatusOr<IncludeGraph> IncludeGraph::Read(const std::string& root, const std::vector<std::string>& parts) {
  IncludeGraph graph;
  for (const std::string& part : parts) {
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(root) / part, error)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc") continue;
      QGPU_ASSIGN_OR_RETURN(const std::string text, ReadFile(entry.path()));
      graph.includes_[entry.path().lexically_relative(root)] = ParseIncludes(text);
    }
    if (error) return absl::NotFoundError(fmt::format("{}/{}: {}", root, part, error.message()));
  }
  return graph;
}

std::vector<std::string> IncludeGraph::Files() const {
  std::vector<std::string> files;
  for (const auto& [file, includes] : includes_) files.push_back(file);
  return files;
}

std::set<std::string> IncludeGraph::Reaches(const std::string& file) const {
  std::set<std::string> reached;
  std::deque<std::string> open = {file};
  while (!open.empty()) {
    const auto found = includes_.find(open.front());
    open.pop_front();
    if (found == includes_.end()) continue;
    for (const std::string& include : found->second) {
      if (reached.insert(include).second) open.push_back(include);
    }
  }
  return reached;
}

std::string IncludeGraph::Chain(const std::string& file, const std::string& target) const {
  std::map<std::string, std::string> reached_from;
  std::deque<std::string> open = {file};
  while (!open.empty() && reached_from.count(target) == 0) {
    const std::string current = open.front();
    open.pop_front();
    const auto found = includes_.find(current);
    if (found == includes_.end()) continue;
    for (const std::string& include : found->second) {
      if (include != file && reached_from.emplace(include, current).second) open.push_back(include);
    }
  }
  std::string chain = target;
  for (std::string at = target; reached_from.count(at) != 0;) {
    at = reached_from[at];
    chain = at + " > " + chain;
  }
  return chain;
}

std::vector<std::string> Violations(const IncludeGraph& graph, const std::string& from,
                                    const std::vector<std::string>& forbidden) {
  std::vector<std::string> violations;
  for (const std::string& file : graph.Files()) {
    if (!IsBelow(file, from)) continue;
    for (const std::string& include : graph.Reaches(file)) {
      const bool is_forbidden = std::any_of(forbidden.begin(), forbidden.end(),
                                            [&](const std::string& prefix) { return IsBelow(include, prefix); });
      if (is_forbidden) violations.push_back(graph.Chain(file, include));
    }
  }
  return violations;
}

std::vector<std::string> TorchWithProtobuf(const IncludeGraph& graph) {
  std::vector<std::string> violations;
  for (const std::string& file : graph.Files()) {
    const std::set<std::string> reached = graph.Reaches(file);
    const auto torch = std::find_if(reached.begin(), reached.end(), IsTorch);
    const auto protobuf = std::find_if(reached.begin(), reached.end(), IsProtobuf);
    if (torch != reached.end() && protobuf != reached.end()) {
      violations.push_back(graph.Chain(file, *torch) + " and " + graph.Chain(file, *protobuf));
    }
  }
  return violations;
}

}  // namespace qgpu
