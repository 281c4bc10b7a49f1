// The subcommands on text, with streams to read from and print to so that a test can be their user.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "model/forward/executor.h"
#include "model/forward/text_model.h"

namespace qgpu {

void AddTokenizeCommand(CLI::App& app, Action& action, std::istream& in, std::ostream& out);
void AddDetokenizeCommand(CLI::App& app, Action& action, std::istream& in, std::ostream& out);

// What loads the model of a folder: libtorch's, or a test's.
using TextModelLoader = std::function<absl::StatusOr<std::unique_ptr<TextModel>>(
    const std::string& directory, DataType type, const std::string& device)>;
// generate_command.cc
void AddGenerateCommand(CLI::App& app, Action& action, std::istream& in, std::ostream& out, TextModelLoader load);

// All of a stream: a text as the tokenizer takes it. kInvalidArgument: more than kMaxTextBytes.
absl::StatusOr<std::string> ReadText(std::istream& in);

// float32, bfloat16 or float16 by its name; float32 for any other.
DataType DataTypeNamed(const std::string& name);

}  // namespace qgpu
