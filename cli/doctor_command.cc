#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/doctor.h"

namespace qgpu {

void AddDoctorCommand(CLI::App& app, Action& action) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("doctor", "Say what is installed, what is missing, and what to do about it");
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json, &action] {
    action = [json]() -> absl::StatusOr<ExitCode> {
      const std::vector<Finding> findings = Diagnose(DefaultDoctorPlaces());
      std::fputs((*json ? FindingsToJson(findings) : FormatFindings(findings)).c_str(), stdout);
      return CanRun(findings) ? kExitGood : kExitUsage;
    };
  });
}

}  // namespace qgpu
