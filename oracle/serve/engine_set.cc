#include "oracle/serve/engine_set.h"

#include <sys/utsname.h>

#include "oracle/serve/cuda_engine.h"
#include "oracle/serve/engines.h"
#include "proto/convert.h"
#include "proto/host_info.h"

namespace qgpu {
namespace {

std::string NativeCpuWitness() {
  const HostInfo host = ThisHost();
  utsname names;
  const std::string architecture = uname(&names) == 0 ? names.machine : "unknown architecture";
  return fmt::format("{} ({}, {})", kEngineNativeCpu, architecture == "x86_64" ? "x86-64" : architecture,
                     host.processor);
}

v1::EngineJobReply Answer(v1::OracleOutcome outcome, const std::string& message) {
  v1::EngineJobReply reply;
  reply.mutable_result()->set_outcome(outcome);
  reply.mutable_result()->set_message(message);
  return reply;
}

}  // namespace

void EngineSet::Add(const std::string& name, const std::string& witness, bool is_native, const std::string& not_run) {
  v1::Engine& engine = engines_.emplace_back();
  engine.set_name(name);
  engine.set_witness(witness);
  engine.set_is_native(is_native);
  engine.set_not_run(not_run);
}

absl::StatusOr<std::unique_ptr<EngineSet>> EngineSet::Make(const std::string& program, const EngineChoice& choice) {
  std::unique_ptr<EngineSet> set(new EngineSet(program));
  const CudaProbe cuda = ProbeCuda(program);
  set->Add(kEngineNativeCuda, cuda.found ? CudaWitness(cuda.device) : kEngineNativeCuda, true, cuda.reason);
  set->Add(kEngineNativeCpu, NativeCpuWitness(), true, "");
  if (!choice.golden.empty()) {
    QGPU_ASSIGN_OR_RETURN(set->golden_, GoldenAnswers::Read(choice.golden));
    set->Add(kEngineGolden, set->golden_->witness(), true, "");
  }
  set->Add(kEngineInterpreter, "interpreter of machine blocks", false, "");
  QGPU_RETURN_IF_ERROR(set->Choose(choice));
  return set;
}

absl::Status EngineSet::Choose(const EngineChoice& choice) {
  std::string name = choice.native;
  if (name == "auto") {
    name = golden_.has_value() ? kEngineGolden : engines_[0].not_run().empty() ? kEngineNativeCuda : kEngineNativeCpu;
  } else if (golden_.has_value() && name != kEngineGolden) {
    return absl::InvalidArgumentError(fmt::format("a golden file is given, and so is the engine {}; choose one", name));
  }
  if (name == kEngineGolden && !golden_.has_value()) {
    return absl::InvalidArgumentError("the engine golden needs a golden file (--golden FILE)");
  }
  for (v1::Engine& engine : engines_) {
    if (engine.name() != name || !engine.is_native()) continue;
    if (!engine.not_run().empty()) {
      return absl::FailedPreconditionError(fmt::format("{}: not run: {}", name, engine.not_run()));
    }
    engine.set_answers_native(true);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format("no native engine is called {}", name));
}

const v1::Engine& EngineSet::native() const {
  for (const v1::Engine& engine : engines_) {
    if (engine.answers_native()) return engine;
  }
  return engines_.back();
}

v1::EngineJobReply EngineSet::AnswerFromGolden(const LaunchSpec& spec, const PtxSource& source) const {
  const auto found = golden_->Find(spec, source.ptx, source.entry);
  if (!found.ok()) return Answer(v1::ORACLE_OUTCOME_NOT_RUN, std::string(found.status().message()));
  v1::EngineJobReply reply;
  v1::OracleResult& result = *reply.mutable_result();
  result.set_outcome(v1::ORACLE_OUTCOME_DONE);
  result.mutable_memory()->Add((*found)->memory.begin(), (*found)->memory.end());
  *result.mutable_device() = ToMessage(golden_->file().device);
  result.mutable_device()->set_ptx_version((*found)->ptx_version);
  result.mutable_device()->set_ptx_target((*found)->ptx_target);
  return reply;
}

absl::StatusOr<v1::EngineJobReply> EngineSet::Run(const std::string& name, const v1::OracleRunRequest& request) {
  const v1::Engine* engine = nullptr;
  for (const v1::Engine& one : engines_) {
    if (one.name() == name) engine = &one;
  }
  if (engine == nullptr) return absl::InvalidArgumentError("no engine is called " + name);
  QGPU_ASSIGN_OR_RETURN(const LaunchSpec spec, FromMessage(request));
  if (!engine->not_run().empty()) return Answer(v1::ORACLE_OUTCOME_NOT_RUN, engine->not_run());
  const auto source = cache_.Get(spec);
  if (absl::IsInvalidArgument(source.status()) || absl::IsUnimplemented(source.status())) {
    return Answer(v1::ORACLE_OUTCOME_REFUSED, std::string(source.status().message()));
  }
  QGPU_RETURN_IF_ERROR(source.status());
  v1::EngineJobReply reply;
  if (name == kEngineGolden) {
    reply = AnswerFromGolden(spec, *source);
  } else {
    processes_.acquire();
    auto run = RunInChild(program_, MakeJob(name, request, *source));
    processes_.release();
    QGPU_ASSIGN_OR_RETURN(reply, std::move(run));
    // There was a device when this oracle started.
    if (reply.result().outcome() == v1::ORACLE_OUTCOME_NOT_RUN) {
      return absl::UnavailableError(fmt::format("{}: {}", name, reply.result().message()));
    }
  }
  if (reply.result().witness().empty()) reply.mutable_result()->set_witness(engine->witness());
  return reply;
}

}  // namespace qgpu
