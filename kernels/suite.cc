#include "kernels/suite.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "common/file.h"
#include "common/nearest.h"
#include "common/sha256.h"
#include "embedded/qgpu_kernel_files.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::json;

constexpr int kSuiteVersion = 1;
constexpr size_t kMaxSuiteBytes = size_t{16} << 20;

// A place in a suite file: "suites/kernels.json: kernel dot: case demo".
absl::Status SuiteError(const std::string& place, const std::string& message) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", place, message));
}

// Checks that `value` is an object with no keys but `known`, and that `required` are there.
absl::Status CheckKeys(const std::string& place, const json& value, const std::vector<const char*>& required,
                       const std::vector<const char*>& optional) {
  if (!value.is_object()) return SuiteError(place, "must be a JSON object");
  for (const char* key : required) {
    if (!value.contains(key)) return SuiteError(place, fmt::format("lacks \"{}\"", key));
  }
  for (const auto& [key, ignored] : value.items()) {
    const auto is_key = [&key = key](const char* known) { return key == known; };
    if (std::none_of(required.begin(), required.end(), is_key) &&
        std::none_of(optional.begin(), optional.end(), is_key)) {
      return SuiteError(place, fmt::format("unknown key \"{}\"", key));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TextField(const std::string& place, const json& value, const char* key) {
  const json& field = value.at(key);
  if (!field.is_string() || field.get_ref<const std::string&>().empty()) {
    return SuiteError(place, fmt::format("\"{}\" must be a non-empty string", key));
  }
  return field.get<std::string>();
}

// Names stand in reports, in file names and in filters.
absl::StatusOr<std::string> NameField(const std::string& place, const json& value, const char* key) {
  QGPU_ASSIGN_OR_RETURN(std::string name, TextField(place, value, key));
  for (const char c : name) {
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c != '-') {
      return SuiteError(place, fmt::format("\"{}\" is \"{}\"; names are of a-z, 0-9, _ and -", key, name));
    }
  }
  return name;
}

absl::StatusOr<KernelCase::Expect> ExpectField(const std::string& place, const json& value) {
  if (!value.contains("expect") || value["expect"] == "result") return KernelCase::Expect::kResult;
  if (value["expect"] == "trap") return KernelCase::Expect::kTrap;
  if (value["expect"] == "refusal") return KernelCase::Expect::kRefusal;
  return SuiteError(place, "\"expect\" must be \"result\", \"trap\" or \"refusal\"");
}

std::string CaseHash(const KernelCase& kernel_case) {
  const json content = {{"kernel", kernel_case.kernel},
                        {"case", kernel_case.case_name},
                        {"source", Sha256Hex(kernel_case.spec.source.text)},
                        {"launch", LaunchSpecToJson(kernel_case.spec)},
                        {"expect", static_cast<int>(kernel_case.expect)},
                        {"expect_text", kernel_case.expect_text}};
  return Sha256Hex(content.dump());
}

absl::StatusOr<KernelCase> ParseCase(const std::string& kernel_place, const json& value, const KernelCase& base) {
  QGPU_RETURN_IF_ERROR(CheckKeys(kernel_place + ": case", value, {"name", "launch"}, {"expect", "expect_text"}));
  KernelCase result = base;
  QGPU_ASSIGN_OR_RETURN(result.case_name, NameField(kernel_place + ": case", value, "name"));
  const std::string place = fmt::format("{}: case {}", kernel_place, result.case_name);
  absl::StatusOr<LaunchSpec> launch = LaunchSpecFromJson(value["launch"].dump());
  if (!launch.ok()) return SuiteError(place, std::string(launch.status().message()));
  launch->source = base.spec.source;
  if (launch->kernel.empty()) launch->kernel = base.spec.kernel;
  result.spec = std::move(launch).value();
  QGPU_ASSIGN_OR_RETURN(result.expect, ExpectField(place, value));
  if (value.contains("expect_text")) {
    if (result.expect == KernelCase::Expect::kResult) {
      return SuiteError(place, "\"expect_text\" needs \"expect\": \"trap\" or \"refusal\"");
    }
    QGPU_ASSIGN_OR_RETURN(result.expect_text, TextField(place, value, "expect_text"));
  }
  result.hash = CaseHash(result);
  return result;
}

absl::Status ParseKernel(const std::string& origin, const json& value, const KernelSourceReader& read_source,
                         KernelSuite& suite) {
  const std::string list_place = fmt::format("{}: \"kernels\"", origin);
  QGPU_RETURN_IF_ERROR(CheckKeys(list_place, value, {"kernel", "source", "cases"}, {"entry"}));
  KernelCase base;
  base.suite = suite.name;
  QGPU_ASSIGN_OR_RETURN(base.kernel, NameField(list_place, value, "kernel"));
  const std::string place = fmt::format("{}: kernel {}", origin, base.kernel);
  for (const KernelCase& earlier : suite.cases) {
    if (earlier.kernel == base.kernel) return SuiteError(place, "is given twice");
  }
  QGPU_ASSIGN_OR_RETURN(base.spec.source.name, TextField(place, value, "source"));
  base.spec.source.language = base.spec.source.name.ends_with(".ptx") ? SourceLanguage::kPtx : SourceLanguage::kCuda;
  base.spec.kernel = base.kernel;
  if (value.contains("entry")) {
    QGPU_ASSIGN_OR_RETURN(base.spec.kernel, TextField(place, value, "entry"));
  }
  absl::StatusOr<std::string> text = read_source(base.spec.source.name);
  if (!text.ok()) return SuiteError(place, std::string(text.status().message()));
  base.spec.source.text = std::move(text).value();
  const json& cases = value["cases"];
  if (!cases.is_array() || cases.empty()) return SuiteError(place, "\"cases\" must be a list of at least one case");
  std::set<std::string> names;
  for (const json& entry : cases) {
    QGPU_ASSIGN_OR_RETURN(KernelCase parsed, ParseCase(place, entry, base));
    if (!names.insert(parsed.case_name).second) {
      return SuiteError(place, fmt::format("case {} is given twice", parsed.case_name));
    }
    suite.cases.push_back(std::move(parsed));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> EmbeddedFile(const std::string& name) {
  for (const kernel_files::File& file : kernel_files::Files()) {
    if (file.name == name) return std::string(file.text);
  }
  return absl::NotFoundError(fmt::format("no embedded file {}", name));
}

absl::StatusOr<KernelSuite> LoadSuiteFile(const std::string& path) {
  QGPU_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxSuiteBytes));
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (value.is_object() && value.contains("sources") && value["sources"].is_string()) {
    folder /= value["sources"].get<std::string>();
  }
  return ParseSuite(text, path, [&folder](const std::string& name) { return ReadFile((folder / name).string()); });
}

}  // namespace

std::vector<std::string> KernelSuite::KernelNames() const {
  std::vector<std::string> names;
  for (const KernelCase& kernel_case : cases) {
    if (names.empty() || names.back() != kernel_case.kernel) names.push_back(kernel_case.kernel);
  }
  return names;
}

absl::StatusOr<KernelSuite> ParseSuite(const std::string& json_text, const std::string& origin,
                                       const KernelSourceReader& read_source) {
  json value;
  try {
    value = json::parse(json_text);
  } catch (const json::exception& error) {
    return SuiteError(origin, fmt::format("not JSON: {}", error.what()));
  }
  QGPU_RETURN_IF_ERROR(CheckKeys(origin, value, {"suite", "version", "kernels"}, {"sources"}));
  if (!value["version"].is_number_integer() || value["version"] != kSuiteVersion) {
    return SuiteError(origin, fmt::format("suite format version {}; this program reads version {}",
                                          value["version"].dump(), kSuiteVersion));
  }
  if (value.contains("sources")) {
    QGPU_RETURN_IF_ERROR(TextField(origin, value, "sources").status());
  }
  KernelSuite suite;
  QGPU_ASSIGN_OR_RETURN(suite.name, NameField(origin, value, "suite"));
  if (!value["kernels"].is_array() || value["kernels"].empty()) {
    return SuiteError(origin, "\"kernels\" must be a list of at least one kernel");
  }
  for (const json& kernel : value["kernels"]) {
    QGPU_RETURN_IF_ERROR(ParseKernel(origin, kernel, read_source, suite));
  }
  std::string content = suite.name + "\n";
  for (const KernelCase& kernel_case : suite.cases) {
    content += fmt::format("{} {}\n", kernel_case.Id(), kernel_case.hash);
  }
  suite.hash = Sha256Hex(content);
  return suite;
}

absl::StatusOr<KernelSuite> LoadSuite(const std::string& name_or_path, const std::vector<std::string>& other_names) {
  if (name_or_path.ends_with(".json")) return LoadSuiteFile(name_or_path);
  const absl::StatusOr<std::string> text = EmbeddedFile(name_or_path + ".json");
  if (text.ok()) return ParseSuite(*text, name_or_path, EmbeddedKernelSource);
  std::vector<std::string> known = other_names;
  for (const std::string& name : EmbeddedSuiteNames()) known.push_back(name);
  return absl::NotFoundError(fmt::format("no suite \"{}\"; there are: {}; or give the path of a .json file{}",
                                         name_or_path, fmt::join(known, ", "), DidYouMean(name_or_path, known)));
}

std::vector<std::string> EmbeddedSuiteNames() {
  std::vector<std::string> names;
  for (const kernel_files::File& file : kernel_files::Files()) {
    if (file.name.ends_with(".json")) names.emplace_back(file.name.substr(0, file.name.size() - 5));
  }
  return names;
}

absl::StatusOr<std::string> EmbeddedKernelSource(const std::string& file_name) {
  if (file_name.ends_with(".json")) return absl::NotFoundError(fmt::format("{} is not a kernel", file_name));
  return EmbeddedFile(file_name);
}

}  // namespace qgpu
