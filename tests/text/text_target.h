// One input for everything that reads text: tokenizer.json, chat templates, prompts. Whatever the bytes are, each ends
// with a value or an error.
#pragma once

#include <string>

namespace qgpu {

// Each aborts when the code contradicts itself, and says whether the input was taken.
bool FuzzTokenizerFile(const std::string& json);  // and, if it is one, encodes and decodes with it
bool FuzzText(const std::string& text);           // there and back with a small tokenizer
bool FuzzChatTemplate(const std::string& source);

}  // namespace qgpu
