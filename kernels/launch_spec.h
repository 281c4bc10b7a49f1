// What is asked of every engine: one kernel, its arguments and its launch shape, in CUDA's terms. The oracle's native
// engines, the interpreter and the model all start from this, and all lay the arguments out in the same arena.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/byte_text.h"
#include "common/status.h"

namespace qgpu {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t Count() const { return uint64_t{x} * y * z; }
  bool operator==(const Dim3&) const = default;
};

enum class SourceLanguage { kCuda, kPtx };

struct KernelSource {
  std::string name;  // file name, for messages and line tables
  std::string text;
  SourceLanguage language = SourceLanguage::kCuda;
};

// One kernel parameter. Parameters are matched by `name` when it is not empty, otherwise by position.
struct KernelArgument {
  enum class Kind {
    kBuffer,  // device pointer: `words` is the initial content, one 32-bit word each; may be empty (length zero)
    kScalar,  // passed by value: a number in `scalar`, or any number of `bytes`, such as a struct
  };
  std::string name;
  Kind kind = Kind::kScalar;
  std::vector<uint32_t> words = {};
  bool is_output = false;  // shown to the user; every buffer is compared in any case
  uint64_t scalar = 0;     // two's complement; the parameter's type says how many of its bytes count
  Bytes bytes = {};        // kScalar: the parameter's whole content, little-endian; then `scalar` means nothing
  bool is_raw = false;     // given as bytes, not as numbers: a buffer is shown as bytes, a scalar is in `bytes`
  uint32_t padding = 0;    // kBuffer, is_raw: zero bytes at the end of `words` that are not the user's (0 to 3)

  size_t BufferBytes() const { return 4 * words.size() - padding; }
  static KernelArgument RawBuffer(std::string name, const Bytes& content);
  static KernelArgument RawValue(std::string name, Bytes content);
};

struct LaunchSpec {
  KernelSource source;
  std::string kernel;  // entry name as written in CUDA; empty: the file's only kernel
  Dim3 grid, block;
  std::vector<KernelArgument> arguments;
  uint32_t dynamic_shared_bytes = 0;
  int64_t token_budget = 20000;  // tokens the model may write; the native engines bound time instead
};

// Where the arguments lie. Word 0 (byte addresses 0 to 3) is never given out, so that a null pointer is not valid; the
// buffers follow in the order of the kernel's parameters, without gaps. An empty buffer points at where it would start.
struct Arena {
  std::vector<uint32_t> words;         // initial content of words 0 .. size - 1
  std::vector<uint32_t> byte_address;  // of each argument's buffer; 0 for scalars
};

// The whole memory image that engines must agree on: every word of the arena after the launch, word 0 included.
using MemoryImage = std::vector<uint32_t>;

// Lays out `arguments` (already in parameter order). Never fails on size: each engine refuses what it cannot hold.
// `widest_access` (4, 8 or 16 bytes) is that of the kernel to a buffer: each buffer is aligned to it as far as its size
// is a multiple of it, so that what cudaMalloc aligns is aligned here.
Arena LayOutArena(const std::vector<KernelArgument>& arguments, uint32_t widest_access = 4);

// Arguments in the order of the parameters called `parameter_names`: by name where an argument has one, otherwise by
// position. kInvalidArgument naming the argument that is unknown, given twice, or missing.
absl::StatusOr<std::vector<KernelArgument>> OrderArguments(const std::vector<KernelArgument>& arguments,
                                                           const std::vector<std::string>& parameter_names);

// What a scalar argument gives a parameter of `size` bytes. A number must be the sign or zero extension of so many
// bytes, at most 8, and the parameter a number too, not `is_aggregate`: which member of a struct a number would mean is
// nobody's to guess. Raw bytes go to either, exactly as many as the parameter has. kInvalidArgument saying what does
// not fit.
absl::StatusOr<Bytes> ScalarBytes(const KernelArgument& argument, size_t size, bool is_aggregate);

// Launch specifications as JSON, the form of suites, of the wire, of the store and of --launch. docs/formats/launch.md
// describes it:
//   {"kernel": "saxpy", "grid": [1,1,1], "block": [4,1,1], "token_budget": 20000,
//    "arguments": [{"name": "y", "words": [1, -2, 3], "output": true}, {"name": "a", "value": 7}]}
// Numbers are decimal integers, negative ones in two's complement. The source is not part of it. An argument that is a
// file is refused here: what comes over the wire opens no files.
std::string LaunchSpecToJson(const LaunchSpec& spec);
absl::StatusOr<LaunchSpec> LaunchSpecFromJson(const std::string& json);

// Most bytes that one argument may have, and a launch description as text.
inline constexpr size_t kMaxArgumentBytes = size_t{4} << 20;
inline constexpr size_t kMaxLaunchFileBytes = size_t{32} << 20;

// The launch description of the file at `path`; files that it names lie relative to it. Errors name the file.
absl::StatusOr<LaunchSpec> ReadLaunchSpec(const std::string& path);

}  // namespace qgpu
