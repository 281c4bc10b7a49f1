// What the Python tests of this folder call: our side of each comparison, one subcommand a call.
//
//   peer_tool logits DIR IDS TYPE MODES OUT  logits of each line of ids in file IDS, for TYPE float32, bfloat16 or
//                                            float16 and each of MODES ("prefill step 7,1,64"; the last: passes of
//                                            those lengths); OUT gets tensors "<line>.<mode>"
//   peer_tool random-base DIR CONFIG SEED TYPE
//   peer_tool export-synthetic BASE OUT TYPE TRACE    writes the embedded base, and the dense export of a synthetic
//                                            digital circuit on it; TRACE gets the prompt's and the launch's token ids,
//                                            a line each, as our own executor writes them in split form
//   peer_tool export-machine BASE OUT TYPE TRACE      the same for the machine's own circuit and the dot demo, the
//   trace
//                                            as the reference interpreter writes it
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "common/exit_code.h"
#include "common/file.h"
#include "model/base/random_base.h"
#include "model/base/safetensors.h"
#include "model/forward/torch/torch_executor.h"
#include "model/merge/export.h"
#include "model/merge/test_circuit.h"
#include "model/weights/build_circuit.h"
#include "model/weights/synthetic_circuit.h"
#include "tests/dense/suite_traces.h"

namespace qgpu {
namespace {

absl::StatusOr<DataType> ParseType(const std::string& name) {
  for (DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
    if (name == DataTypeName(type)) return type;
  }
  return absl::InvalidArgumentError("unknown type " + name);
}

std::vector<int64_t> Numbers(std::string text) {
  for (char& c : text) c = c == ',' ? ' ' : c;
  std::istringstream stream(text);
  std::vector<int64_t> numbers;
  for (int64_t number; stream >> number;) numbers.push_back(number);
  return numbers;
}

// Lengths of the passes that feed `count` ids; the last length repeats.
std::vector<int64_t> PassLengths(const std::string& mode, int64_t count) {
  const std::vector<int64_t> wanted = mode == "prefill" ? std::vector<int64_t>{count}
                                      : mode == "step"  ? std::vector<int64_t>{1}
                                                        : Numbers(mode);
  std::vector<int64_t> lengths;
  for (int64_t done = 0; done < count; done += lengths.back()) {
    lengths.push_back(std::min(wanted[std::min(lengths.size(), wanted.size() - 1)], count - done));
  }
  return lengths;
}

absl::Status WriteLogits(const std::vector<std::string>& args) {
  QGPU_ASSIGN_OR_RETURN(const DataType type, ParseType(args[3]));
  QGPU_ASSIGN_OR_RETURN(const std::unique_ptr<TextModel> model, LoadTextModel(args[1], type));
  QGPU_ASSIGN_OR_RETURN(const std::string text, ReadFile(args[2]));
  std::vector<std::vector<int64_t>> sequences;
  std::istringstream lines(text), words(args[4]);
  for (std::string line; std::getline(lines, line);) sequences.push_back(Numbers(line));
  const std::vector<std::string> modes{std::istream_iterator<std::string>(words), {}};

  std::vector<SafetensorsWriter::Tensor> tensors;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const int64_t count = static_cast<int64_t>(sequences[i].size());
    for (const std::string& mode : modes)
      tensors.push_back({fmt::format("{}.{}", i, mode), {count, model->vocabulary()}});
  }
  QGPU_ASSIGN_OR_RETURN(const auto writer, SafetensorsWriter::Create(args[5], tensors));
  for (const std::vector<int64_t>& ids : sequences) {
    for (const std::string& mode : modes) {
      model->Reset();
      int64_t at = 0;
      for (int64_t length : PassLengths(mode, static_cast<int64_t>(ids.size()))) {
        QGPU_ASSIGN_OR_RETURN(const std::vector<float> logits,
                              model->Logits({ids.data() + at, static_cast<size_t>(length)}));
        QGPU_RETURN_IF_ERROR(writer->Append(logits.data(), logits.size()));
        at += length;
      }
    }
  }
  return writer->Finish().status();
}

absl::Status WriteBase(const std::vector<std::string>& args) {
  QGPU_ASSIGN_OR_RETURN(const std::string config, ReadFile(args[2]));
  QGPU_ASSIGN_OR_RETURN(const ModelShape shape, ParseModelShape(config));
  return WriteRandomBase(args[1], shape, std::strtoull(args[3].c_str(), nullptr, 10),
                         args[4] == "float32" ? StoredType::kFloat32 : StoredType::kBFloat16);
}

std::string Line(const std::vector<int32_t>& machine_ids, int64_t first_machine_token) {
  std::string line;
  for (int32_t id : machine_ids) line += fmt::format("{} ", first_machine_token + id);
  return line + "\n";
}

absl::Status ExportSynthetic(const std::vector<std::string>& args) {
  constexpr uint64_t kCircuitSeed = 34;  // of a circuit whose free run visits 26 ids
  constexpr int kSteps = 120;
  QGPU_ASSIGN_OR_RETURN(const DataType type, ParseType(args[3]));
  const ModelShape shape = EmbeddedBaseShape();
  const Circuit circuit = WithFreeTextFlag(MakeDigitalCircuit({.base_hidden = 257, .id_bits = 8}, kCircuitSeed));
  QGPU_RETURN_IF_ERROR(WriteRandomBase(args[1], shape, kEmbeddedBaseSeed));

  ExportOptions options;
  options.type = type;
  options.shard_bytes = 4 << 20;
  options.token_text = [](int32_t id) { return fmt::format("<|test_{}|>", id); };
  options.done_id = 1;
  QGPU_RETURN_IF_ERROR(ExportDense(circuit, args[1], args[2], options));

  QGPU_ASSIGN_OR_RETURN(const auto executor,
                        MakeTorchExecutor(circuit, args[1], ModelForm::kSplit, DataType::kFloat32));
  const std::vector<int32_t> prompt = {0, 3, 14, 15};
  QGPU_ASSIGN_OR_RETURN(std::vector<int32_t> next, executor->Feed(prompt));
  std::vector<int32_t> trace = {next.back()};
  while (trace.size() < kSteps) {
    QGPU_ASSIGN_OR_RETURN(next, executor->Feed({&trace.back(), 1}));
    trace.push_back(next[0]);
  }
  return WriteFileAtomically(args[4], Line(prompt, shape.vocabulary) + Line(trace, shape.vocabulary));
}

absl::Status ExportMachine(const std::vector<std::string>& args) {
  QGPU_ASSIGN_OR_RETURN(const DataType type, ParseType(args[3]));
  const ModelShape shape = EmbeddedBaseShape();
  QGPU_ASSIGN_OR_RETURN(const BuiltCircuit built, BuildCircuit(static_cast<int>(shape.hidden)));
  QGPU_RETURN_IF_ERROR(WriteRandomBase(args[1], shape, kEmbeddedBaseSeed));
  ExportOptions options;
  options.type = type;
  QGPU_RETURN_IF_ERROR(ExportDense(built.circuit, args[1], args[2], options));
  QGPU_ASSIGN_OR_RETURN(const SuiteTrace demo, DotDemo());
  std::vector<int32_t> prompt, trace;
  for (Token token : demo.host) prompt.push_back(TokenToId(token));
  for (Token token : demo.trace) trace.push_back(TokenToId(token));
  return WriteFileAtomically(args[4], Line(prompt, shape.vocabulary) + Line(trace, shape.vocabulary));
}

absl::Status Run(const std::vector<std::string>& args) {
  if (args.size() == 6 && args[0] == "logits") return WriteLogits(args);
  if (args.size() == 5 && args[0] == "random-base") return WriteBase(args);
  if (args.size() == 5 && args[0] == "export-synthetic") return ExportSynthetic(args);
  if (args.size() == 5 && args[0] == "export-machine") return ExportMachine(args);
  return absl::InvalidArgumentError("usage: see the top of peer_tool.cc");
}

}  // namespace
}  // namespace qgpu

int main(int argc, char** argv) {
  const absl::Status status = qgpu::Run({argv + 1, argv + argc});
  if (!status.ok()) fmt::print(stderr, "peer_tool: {}\n", status.ToString());
  return qgpu::ExitCodeFor(status);
}
