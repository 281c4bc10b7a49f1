// Strings as Python has them: sequences of code points, with Python's idea of white space, case and printing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace qgpu::jinja {

bool IsPythonSpace(char32_t code_point);  // str.isspace

std::string_view StripLeft(std::string_view valid);
std::string_view StripRight(std::string_view valid);
// The code points in `characters` instead of white space.
std::string_view StripLeft(std::string_view valid, std::u32string_view characters);
std::string_view StripRight(std::string_view valid, std::u32string_view characters);

// Where `part` begins in text, from `from` on, or npos: in linear time, which std::string's find does not promise.
size_t FindText(std::string_view text, std::string_view part, size_t from = 0);

int64_t Length(std::string_view valid);  // in code points

std::string Upper(std::string_view valid);
std::string Lower(std::string_view valid);
std::string Capitalize(std::string_view valid);

std::string Repr(std::string_view valid);  // with quotes and escapes
std::string Repr(double number);
std::string JsonString(std::string_view valid);  // json.dumps, ensure_ascii=False

}  // namespace qgpu::jinja
