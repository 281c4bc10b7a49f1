// LLVM IR to code of this process.
#pragma once

#include <memory>

#include "common/status.h"
#include "oracle/native_cpu/translator.h"

namespace llvm::orc {
class LLJIT;
}

namespace qgpu::native {

// Code of one kernel; it stays valid as long as this object.
class JitCode {
 public:
  // Takes the module out of `translation`. kInternal where LLVM refuses.
  static absl::StatusOr<JitCode> Create(Translation* translation);

  CompiledKernel entry() const { return entry_; }

  JitCode(JitCode&&) noexcept;
  JitCode& operator=(JitCode&&) noexcept;
  ~JitCode();

 private:
  JitCode();
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  CompiledKernel entry_ = nullptr;
};

}  // namespace qgpu::native
