// The two calls on text: what RunLaunch is for launches.
#pragma once

#include "grpcpp/server_context.h"
#include "grpcpp/support/sync_stream.h"
#include "qgpu/v1/worker.grpc.pb.h"
#include "worker/text_host.h"
#include "worker/turn_lock.h"

namespace qgpu {

// A conversation from the caller's first turn to its last; it has the worker for itself all that time.
absl::Status Converse(TextHost& host, TurnLock& turns, grpc::ServerContext& context,
                      grpc::ServerReaderWriter<v1::ConverseReply, v1::ConverseRequest>& stream);

absl::Status MeasureDrift(TextHost& host, TurnLock& turns, grpc::ServerContext& context,
                          const v1::MeasureDriftRequest& message, grpc::ServerWriter<v1::MeasureDriftReply>& writer);

}  // namespace qgpu
