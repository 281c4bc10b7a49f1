// A drift measurement over gRPC: the request from a job, and what the worker streams handed to a sink.
#pragma once

#include "coordinator/run/parties.h"
#include "qgpu/v1/text.pb.h"

namespace qgpu {

v1::MeasureDriftRequest ToMessage(const DriftJob& job);

// Hands one message on. Errors of `sink`; kFailedPrecondition for a message that is none: columns of different lengths,
// a part that is not known, a launch that did not end with DONE. What the numbers may be is the sink's to check.
// `end` is set by the last message.
absl::Status TakeDriftReply(const v1::MeasureDriftReply& reply, DriftSink& sink, std::optional<DriftEnd>& end);

}  // namespace qgpu
