#include "oracle/native_cpu/jit.h"

#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"

namespace qgpu::native {
namespace {

absl::Status JitError(llvm::Error error) {
  return absl::InternalError(fmt::format("native-cpu: LLVM: {}", llvm::toString(std::move(error))));
}

// No optimisation: most kernels run for less time than it would take.
llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> CreateJit() {
  [[maybe_unused]] static const bool initialized = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  auto target = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!target) return target.takeError();
  target->setCodeGenOptLevel(llvm::CodeGenOptLevel::None);
  return llvm::orc::LLJITBuilder()
      .setJITTargetMachineBuilder(std::move(*target))
      .setLinkProcessSymbolsByDefault(false)
      .setPlatformSetUp(llvm::orc::setUpInactivePlatform)
      .create();
}

}  // namespace

JitCode::JitCode() = default;
JitCode::JitCode(JitCode&&) noexcept = default;
JitCode& JitCode::operator=(JitCode&&) noexcept = default;
JitCode::~JitCode() = default;

absl::StatusOr<JitCode> JitCode::Create(Translation* translation) {
  auto jit = CreateJit();
  if (!jit) return JitError(jit.takeError());
  JitCode code;
  code.jit_ = std::move(*jit);
  translation->module->setDataLayout(code.jit_->getDataLayout());
  llvm::orc::SymbolMap symbols;
  for (const auto& [name, address] : HostFunctions()) {
    symbols[code.jit_->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                                 llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  }
  if (auto error = code.jit_->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols)))) {
    return JitError(std::move(error));
  }
  llvm::orc::ThreadSafeModule module(std::move(translation->module), std::move(translation->context));
  if (auto error = code.jit_->addIRModule(std::move(module))) return JitError(std::move(error));
  auto entry = code.jit_->lookup(translation->entry);
  if (!entry) return JitError(entry.takeError());
  code.entry_ = entry->toPtr<CompiledKernel>();
  return code;
}

}  // namespace qgpu::native
