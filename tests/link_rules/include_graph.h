// Which files of the tree include which, followed through the project's own headers.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/status.h"

namespace qgpu {

class IncludeGraph {
 public:
  // Reads every .h and .cc below `root`'s folders `parts`. Paths are relative to `root`, as includes are.
  static absl::StatusOr<IncludeGraph> Read(const std::string& root, const std::vector<std::string>& parts);

  std::vector<std::string> Files() const;
  // Everything that `file` includes, directly or through project headers: project paths and the names of others.
  std::set<std::string> Reaches(const std::string& file) const;
  // Chain of includes from `file` to `target`, "a.cc > b.h > c.h", for messages.
  std::string Chain(const std::string& file, const std::string& target) const;

 private:
  std::map<std::string, std::vector<std::string>> includes_;
};

// Files below `from` that reach a file below one of `forbidden`: one line each, with the chain.
std::vector<std::string> Violations(const IncludeGraph& graph, const std::string& from,
                                    const std::vector<std::string>& forbidden);

// Files that reach both torch's headers and those of protobuf or gRPC.
std::vector<std::string> TorchWithProtobuf(const IncludeGraph& graph);

}  // namespace qgpu
