// What a person types for a launch: `--arg a=1,2,3 --arg n=3 --arg out=zeros:4 --block 4`, checked against the kernel's
// parameters and turned into a launch description's arguments.
//
//   NAME=1,-2,0x10    numbers, decimal or hexadecimal, negative ones in two's complement
//   NAME=7            a value for a scalar parameter, a buffer of one word for a pointer
//   NAME=[7]          a buffer in any case; NAME= and NAME=[] are buffers of length zero
//   NAME=zeros:N      an output buffer of N words that starts as zeros
//   NAME=inout:1,2,3  a buffer with content that is an output as well
//   NAME=bytes:0aff00 raw bytes, hexadecimal: what a struct parameter takes, or a buffer of bytes for a pointer
//   1,2,3             the same forms without NAME=, by position
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "kernels/launch_spec.h"

namespace qgpu {

// A number as typed. The magnitude is below 2^64; -2^63 is the least number.
struct TypedNumber {
  uint64_t magnitude = 0;
  bool negative = false;
  bool operator==(const TypedNumber&) const = default;
};

// One --arg before the kernel's parameters are known.
struct TypedArgument {
  std::string text;  // as typed, for messages
  std::string name;  // empty: by position
  std::vector<TypedNumber> values;
  Bytes bytes;                  // is_raw: instead of values
  bool is_raw = false;          // bytes:
  bool must_be_buffer = false;  // brackets, zeros:, inout:, or not exactly one number
  bool is_output = false;
};

// Largest N of zeros:N. No engine holds as many words; it only keeps a slip of the finger from filling memory.
inline constexpr uint64_t kMaxTypedWords = 1 << 20;

// What the command line must know about a kernel's parameter.
struct TypedParameter {
  // kStruct: passed by value, as raw bytes only. kUnknown (PTX without types): the form of the argument decides; raw
  // bytes are a buffer.
  enum class Kind { kPointer, kValue, kStruct, kUnknown };
  std::string name;
  Kind kind = Kind::kUnknown;
  int bytes = 8;
};

// kInvalidArgument naming the argument, the value in it and what is allowed.
absl::StatusOr<TypedArgument> ParseTypedArgument(const std::string& text);

// "4" or "4,2" or "4,2,1"; `flag` names the option in errors. Axes are positive and below 2^31.
absl::StatusOr<Dim3> ParseTypedDim3(const std::string& flag, const std::string& text);

// The arguments in the order of the parameters, each with the parameter's name. kInvalidArgument for a name that is no
// parameter, one given twice or missing, a list for a scalar parameter, a number for a struct, and a number or raw
// bytes that do not fit.
absl::StatusOr<std::vector<KernelArgument>> BindArguments(const std::vector<TypedArgument>& arguments,
                                                          const std::vector<TypedParameter>& parameters);

// The block used when none is given: one thread for each word of the longest buffer, at least 1, at most 32.
Dim3 DefaultBlock(const std::vector<KernelArgument>& arguments);

}  // namespace qgpu
