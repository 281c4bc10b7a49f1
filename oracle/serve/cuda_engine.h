// native-cuda as the oracle runs it: in a child of its own, because a kernel that goes wrong takes the driver's context
// with it and one that hangs can only be killed.
#pragma once

#include <string>

#include "common/status.h"
#include "kernels/launch_spec.h"
#include "oracle/native_cuda/cuda_device.h"
#include "qgpu/v1/engine_job.pb.h"

namespace qgpu {

// "native-cuda (Tesla T4, compute capability 7.5, ...; PTX 6.4 for sm_75)"; without PTX before anything ran.
std::string CudaWitness(const v1::NativeDevice& device);

v1::NativeDevice ToMessage(const CudaDevice& device);
CudaDevice FromMessage(const v1::NativeDevice& message);

// The child's side: runs the job, or describes the device where the job is a probe. What the kernel does and that
// there is no device are outcomes; kUnavailable where the device failed.
absl::Status RunCudaJob(const v1::EngineJob& job, const LaunchSpec& spec, v1::OracleResult& result);

// The device, asked for in a child: the driver starts there, not in this process. Where there is none, `reason` says
// why it is not run.
struct CudaProbe {
  bool found = false;
  v1::NativeDevice device;
  std::string reason;
};
CudaProbe ProbeCuda(const std::string& program);

}  // namespace qgpu
