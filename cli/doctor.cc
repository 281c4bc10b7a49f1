#include "cli/doctor.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "common/json_text.h"
#include "common/version.h"
#include "fmt/format.h"
#include "oracle/native_cuda/cuda_driver.h"

namespace qgpu {
namespace {

namespace fs = std::filesystem;

constexpr char kSetup[] = "scripts/setup.sh";

Finding Found(const std::string& name, bool required, const std::string& detail) {
  return {name, Finding::State::kFound, required, detail, ""};
}

Finding Missing(const std::string& name, bool required, const std::string& lost, const std::string& remedy) {
  return {name, Finding::State::kMissing, required, lost, remedy};
}

std::optional<std::string> FindProgram(const std::string& search_path, const std::string& program) {
  std::stringstream folders(search_path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0 && fs::is_regular_file(candidate)) return candidate;
  }
  return std::nullopt;
}

// The line of `PROGRAM --version` that holds `word`, or "".
std::string VersionLine(const std::string& program, const std::string& word) {
  std::string command = "'";  // in single quotes for the shell, which end only at one of their kind
  for (char c : program) command += c == '\'' ? std::string("'\\''") : std::string(1, c);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((command + "' --version 2>/dev/null").c_str(), "r"), pclose);
  if (pipe == nullptr) return "";
  char line[512];
  std::string found;
  while (std::fgets(line, sizeof(line), pipe.get()) != nullptr) {
    const std::string text(line);
    if (found.empty() && text.find(word) != std::string::npos)
      found = text.substr(0, text.find_last_not_of("\r\n") + 1);
  }
  return found;
}

Finding ProgramFinding(const DoctorPlaces& places, const std::string& program, const std::string& word, bool required,
                       const std::string& lost, const std::string& remedy) {
  const auto path = FindProgram(places.search_path, program);
  if (!path) return Missing(program, required, lost, remedy);
  const std::string version = VersionLine(*path, word);
  if (version.empty()) return Missing(program, required, fmt::format("{} does not answer --version", *path), remedy);
  return Found(program, required, fmt::format("{} ({})", version, *path));
}

Finding CircuitFinding(const DoctorPlaces& places) {
  const std::string hash = CircuitFileHash(places.circuit);
  if (hash == "none") {
    return Missing("circuit", true, fmt::format("{} cannot be read", places.circuit),
                   "scripts/build.sh makes it; or give another with --circuit FILE or QGPU_CIRCUIT");
  }
  return Found("circuit", true, fmt::format("{} ({})", hash, places.circuit));
}

Finding LandlockFinding() {
#ifdef SYS_landlock_create_ruleset
  const long abi = syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, 1u /* LANDLOCK_CREATE_RULESET_VERSION */);
  if (abi > 0)
    return Found("landlock", false, fmt::format("ABI {}: the compiler is confined to its scratch folder", abi));
#endif
  return Missing("landlock", false, "the sandboxed compiler is confined by the other means only",
                 "a kernel of version 5.13 or newer with Landlock enabled (lsm=landlock)");
}

Finding SeccompFinding() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("Seccomp:", 0) == 0) return Found("seccomp", false, "the compiler cannot open sockets");
  }
  return Missing("seccomp", false, "the sandboxed compiler is confined by the other means only",
                 "a kernel with CONFIG_SECCOMP_FILTER");
}

Finding LibtorchFinding() {
#ifdef QGPU_HAS_TORCH
  return Found("libtorch", false, "linked: " QGPU_HAS_TORCH);
#else
  return Missing("libtorch", false, "this build has no torch executor and no dense export",
                 fmt::format("run {}, then cmake -DQGPU_TORCH=ON", kSetup));
#endif
}

// Modules are looked up by the metadata folder that pip leaves, "transformers-5.24.0.dist-info".
Finding ModuleFinding(const DoctorPlaces& places, const std::string& module, const std::string& lost,
                      const std::string& remedy) {
  std::error_code ignored;
  for (const auto& lib : fs::directory_iterator(places.environment + "/lib", ignored)) {
    for (const auto& entry : fs::directory_iterator(lib.path() / "site-packages", ignored)) {
      const std::string file = entry.path().filename();
      if (file.rfind(module + "-", 0) == 0 && entry.path().extension() == ".dist-info") {
        const std::string version = file.substr(module.size() + 1, file.size() - module.size() - 11);
        return Found("python " + module, false, fmt::format("{} ({})", version, places.environment));
      }
    }
  }
  return Missing("python " + module, false, lost, remedy);
}

Finding DriverFinding(const DoctorPlaces& places) {
  const auto missing = [](const absl::Status& status) {
    return Missing("CUDA driver", false,
                   fmt::format("{}; kernels cannot be compared with an NVIDIA GPU, native-cpu is the ground truth here",
                               std::string(status.message())),
                   "an NVIDIA GPU with its driver; the CUDA toolkit is not needed");
  };
  const auto driver = CudaDriver::Load(places.cuda_driver);
  if (!driver.ok()) return missing(driver.status());
  const auto device = driver->FirstDevice();
  if (!device.ok()) return missing(device.status());
  return Found("CUDA driver", false, fmt::format("native-cuda runs on {}", Describe(*device)));
}

Finding LoopbackFinding() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  if (fd >= 0) close(fd);
  if (bound) return Found("loopback", false, "127.0.0.1 accepts listening sockets");
  return Missing("loopback", false, "run-suite cannot start its worker and its oracle", "bring the interface lo up");
}

Finding MemoryFinding() {
  std::ifstream meminfo("/proc/meminfo");
  uint64_t available_kib = 0;
  for (std::string key, rest; meminfo >> key;) {
    if (key == "MemAvailable:") {
      meminfo >> available_kib;
      break;
    }
    std::getline(meminfo, rest);
  }
  const double gib = static_cast<double>(available_kib) / (1 << 20);
  const std::string detail = fmt::format("{:.1f} GiB available, {} cores", gib, std::thread::hardware_concurrency());
  if (gib >= 4) return Found("memory", false, detail);
  return Missing("memory", false,
                 detail + "; a launch under the sparse executor is kept within 4 GiB, the dense form takes up to 12",
                 "close other programs");
}

}  // namespace

DoctorPlaces DefaultDoctorPlaces() {
  const char* path = std::getenv("PATH");
  DoctorPlaces places;
  places.search_path = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  places.circuit = DefaultCircuitPath();
  places.environment = QGPU_SOURCE_DIR "/.venv";
  return places;
}

std::vector<Finding> Diagnose(const DoctorPlaces& places) {
  const std::string tests = fmt::format("{} --tests", kSetup);
  return {
      CircuitFinding(places),
      ProgramFinding(places, "clang-19", "version 19", true, "CUDA files cannot be compiled (PTX files can be run)",
                     fmt::format("apt-get install clang-19 libclang-common-19-dev, or {}", kSetup)),
      LandlockFinding(),
      SeccompFinding(),
      LoopbackFinding(),
      MemoryFinding(),
      LibtorchFinding(),
      DriverFinding(places),
      ProgramFinding(places, "ptxas", "release", false, "the test that assembles our PTX for sm_75 is skipped",
                     "NVIDIA's CUDA toolkit"),
      ProgramFinding(places, "nvcc", "release", false, "the kernels are not compiled with NVIDIA's compiler as well",
                     "NVIDIA's CUDA toolkit"),
      ModuleFinding(places, "torch", "the tests that compare with the transformers library cannot run", tests),
      ModuleFinding(places, "transformers", "the tests that compare with the transformers library cannot run", tests),
  };
}

std::string FormatFindings(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    const bool found = finding.state == Finding::State::kFound;
    const char* word = found ? "ok" : finding.required ? "MISSING" : "missing";
    text += fmt::format("{:<8} {:<20} {}\n", word, finding.name, finding.detail);
    if (!found) text += fmt::format("{:<8} {:<20}   remedy: {}\n", "", "", finding.remedy);
  }
  return text;
}

std::string FindingsToJson(const std::vector<Finding>& findings) {
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"name", finding.name},
                    {"found", finding.state == Finding::State::kFound},
                    {"required", finding.required},
                    {"detail", finding.detail},
                    {"remedy", finding.remedy}});
  }
  return JsonText(nlohmann::json{{"schema_version", 1}, {"can_run", CanRun(findings)}, {"findings", list}}, 2) + "\n";
}

bool CanRun(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    if (finding.required && finding.state == Finding::State::kMissing) return false;
  }
  return true;
}

}  // namespace qgpu
