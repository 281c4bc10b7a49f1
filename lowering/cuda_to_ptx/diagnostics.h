// The compiler's messages, as its user should see them.
#pragma once

#include <string>

namespace qgpu {

struct DiagnosticNames {
  std::string scratch;       // absolute path of the scratch folder
  std::string file;          // what the compiler was told the source is called
  std::string display_name;  // what the user calls it
};

// Replaces the scratch folder and the source's name, drops the compiler's own counts and crash dumps, explains host
// launches (`<<<>>>`), missing headers, and shortens what is longer than 8 KiB.
std::string CleanDiagnostics(const std::string& messages, const DiagnosticNames& names);

// Where the compiler was when it crashed, from its stack dump: "kernel.cu:3:1: current parser token 'x'"; "" if
// unknown.
std::string CrashPlace(const std::string& messages, const DiagnosticNames& names);

}  // namespace qgpu
