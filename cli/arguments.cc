#include "cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace qgpu {
namespace {

constexpr std::string_view kZeros = "zeros:";
constexpr std::string_view kInOut = "inout:";
constexpr std::string_view kBytes = "bytes:";

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool ConsumePrefix(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool ParseNumber(std::string_view text, TypedNumber& number) {
  number = {};
  number.negative = ConsumePrefix(text, "-");
  if (!number.negative) ConsumePrefix(text, "+");
  const int base = ConsumePrefix(text, "0x") || ConsumePrefix(text, "0X") ? 16 : 10;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number.magnitude, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return false;
  if (number.magnitude == 0) number.negative = false;
  return !number.negative || number.magnitude <= uint64_t{1} << 63;
}

std::string FormatNumber(const TypedNumber& number) {
  return fmt::format("{}{}", number.negative ? "-" : "", number.magnitude);
}

uint64_t TwosComplement(const TypedNumber& number) { return number.negative ? 0 - number.magnitude : number.magnitude; }

// Whether the number is a signed or an unsigned integer of so many bits (1 to 64).
bool Fits(const TypedNumber& number, int bits) {
  return number.negative ? number.magnitude <= uint64_t{1} << (bits - 1) : bits == 64 || number.magnitude >> bits == 0;
}

std::string Range(int bits) {
  const uint64_t most = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return fmt::format("-{} to {}", uint64_t{1} << (bits - 1), most);
}

absl::Status ArgumentError(const TypedArgument& argument, const std::string& message) {
  return absl::InvalidArgumentError(fmt::format("--arg {}: {}", argument.text, message));
}

bool IsIdentifier(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
  });
}

absl::Status ParseList(std::string_view list, TypedArgument& argument) {
  if (Trim(list).empty()) return absl::OkStatus();
  while (true) {
    const size_t comma = list.find(',');
    const std::string_view item = Trim(list.substr(0, comma));
    TypedNumber number;
    if (!ParseNumber(item, number)) {
      return ArgumentError(argument,
                           fmt::format("value {} (\"{}\") is not an integer; write numbers like 7, -7 or 0x7f",
                                       argument.values.size() + 1, std::string(item)));
    }
    argument.values.push_back(number);
    if (comma == std::string_view::npos) return absl::OkStatus();
    list.remove_prefix(comma + 1);
  }
}

absl::StatusOr<KernelArgument> BindBuffer(const TypedArgument& argument) {
  KernelArgument bound;
  bound.kind = KernelArgument::Kind::kBuffer;
  bound.is_output = argument.is_output;
  for (size_t i = 0; i < argument.values.size(); ++i) {
    if (!Fits(argument.values[i], 32)) {
      return ArgumentError(argument, fmt::format("value {} ({}) is not a 32-bit word: {}", i + 1,
                                                 FormatNumber(argument.values[i]), Range(32)));
    }
    bound.words.push_back(static_cast<uint32_t>(TwosComplement(argument.values[i])));
  }
  return bound;
}

absl::StatusOr<KernelArgument> BindOne(const TypedArgument& argument, const TypedParameter& parameter) {
  using Kind = TypedParameter::Kind;
  const bool is_value = parameter.kind == Kind::kValue || parameter.kind == Kind::kStruct;
  if (argument.is_raw) {
    if (!is_value) return KernelArgument::RawBuffer("", argument.bytes);
    if (argument.bytes.size() == static_cast<size_t>(parameter.bytes)) {
      return KernelArgument::RawValue("", argument.bytes);
    }
    return ArgumentError(argument, fmt::format("{} bytes are given, parameter \"{}\" has {}", argument.bytes.size(),
                                               parameter.name, parameter.bytes));
  }
  if (parameter.kind == Kind::kStruct) {
    return ArgumentError(argument, fmt::format("parameter \"{}\" is a struct of {} bytes, passed by value; give them "
                                               "as {}bytes: and {} hexadecimal digits, padding included",
                                               parameter.name, parameter.bytes,
                                               argument.name.empty() ? "" : argument.name + "=", 2 * parameter.bytes));
  }
  if (parameter.kind == Kind::kPointer || (parameter.kind == Kind::kUnknown && argument.must_be_buffer)) {
    return BindBuffer(argument);
  }
  if (argument.must_be_buffer) {
    return ArgumentError(argument,
                         fmt::format("parameter \"{}\" is a scalar of {} bytes, not a pointer; give one number",
                                     parameter.name, parameter.bytes));
  }
  const int bits = 8 * std::clamp(parameter.bytes, 1, 8);
  if (!Fits(argument.values[0], bits)) {
    return ArgumentError(
        argument, fmt::format("{} does not fit parameter \"{}\" of {} bytes: {}", FormatNumber(argument.values[0]),
                              parameter.name, parameter.bytes, Range(bits)));
  }
  KernelArgument bound;
  bound.kind = KernelArgument::Kind::kScalar;
  bound.scalar = TwosComplement(argument.values[0]);
  return bound;
}

}  // namespace

absl::StatusOr<TypedArgument> ParseTypedArgument(const std::string& text) {
  TypedArgument argument;
  argument.text = text;
  std::string_view rest = text;
  if (const size_t equals = rest.find('='); equals != std::string_view::npos) {
    argument.name = std::string(Trim(rest.substr(0, equals)));
    if (!IsIdentifier(argument.name)) {
      return ArgumentError(argument, fmt::format("\"{}\" is not a parameter name; write --arg NAME=VALUES or, by "
                                                 "position, --arg VALUES",
                                                 argument.name));
    }
    rest.remove_prefix(equals + 1);
  }
  rest = Trim(rest);
  if (ConsumePrefix(rest, kZeros)) {
    TypedNumber count;
    if (!ParseNumber(rest, count) || count.negative || count.magnitude > kMaxTypedWords) {
      return ArgumentError(argument, fmt::format("zeros: needs a number of words from 0 to {}", kMaxTypedWords));
    }
    argument.is_output = argument.must_be_buffer = true;
    argument.values.resize(count.magnitude);
    return argument;
  }
  if (ConsumePrefix(rest, kBytes)) {
    absl::StatusOr<Bytes> bytes = FromHex(rest);
    if (!bytes.ok()) return ArgumentError(argument, std::string(bytes.status().message()));
    argument.bytes = *std::move(bytes);
    argument.is_raw = true;
    return argument;
  }
  if (ConsumePrefix(rest, kInOut)) argument.is_output = argument.must_be_buffer = true;
  if (!rest.empty() && rest.front() == '[') {
    if (rest.back() != ']') return ArgumentError(argument, "the closing ] is missing");
    rest = rest.substr(1, rest.size() - 2);
    argument.must_be_buffer = true;
  }
  QGPU_RETURN_IF_ERROR(ParseList(rest, argument));
  if (argument.values.size() != 1) argument.must_be_buffer = true;
  return argument;
}

absl::StatusOr<Dim3> ParseTypedDim3(const std::string& flag, const std::string& text) {
  Dim3 dim;
  uint32_t* axes[3] = {&dim.x, &dim.y, &dim.z};
  std::string_view rest = text;
  for (int axis = 0;; ++axis) {
    const size_t comma = rest.find(',');
    TypedNumber number;
    if (axis == 3 || !ParseNumber(Trim(rest.substr(0, comma)), number) || number.negative || number.magnitude == 0 ||
        number.magnitude > 0x7fffffff) {
      return absl::InvalidArgumentError(fmt::format(
          "{} {}: one to three positive integers are expected, such as {} 4 or {} 4,2,1", flag, text, flag, flag));
    }
    *axes[axis] = static_cast<uint32_t>(number.magnitude);
    if (comma == std::string_view::npos) return dim;
    rest.remove_prefix(comma + 1);
  }
}

absl::StatusOr<std::vector<KernelArgument>> BindArguments(const std::vector<TypedArgument>& arguments,
                                                          const std::vector<TypedParameter>& parameters) {
  // OrderArguments knows the rules of names and positions; the position typed travels through it as the scalar.
  std::vector<KernelArgument> unordered;
  for (size_t i = 0; i < arguments.size(); ++i) {
    unordered.emplace_back();
    unordered.back().name = arguments[i].name;
    unordered.back().scalar = i;
  }
  std::vector<std::string> names;
  for (const TypedParameter& parameter : parameters) names.push_back(parameter.name);
  QGPU_ASSIGN_OR_RETURN(const std::vector<KernelArgument> ordered, OrderArguments(unordered, names));

  std::vector<KernelArgument> bound;
  for (size_t i = 0; i < ordered.size(); ++i) {
    QGPU_ASSIGN_OR_RETURN(KernelArgument argument, BindOne(arguments[ordered[i].scalar], parameters[i]));
    argument.name = parameters[i].name;
    bound.push_back(std::move(argument));
  }
  return bound;
}

Dim3 DefaultBlock(const std::vector<KernelArgument>& arguments) {
  size_t longest = 1;
  for (const KernelArgument& argument : arguments) longest = std::max(longest, argument.words.size());
  return Dim3{static_cast<uint32_t>(std::min<size_t>(longest, 32)), 1, 1};
}

}  // namespace qgpu
