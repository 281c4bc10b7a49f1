// Where everything lies in the machine's one memory of 32-bit words. All of PTX's state spaces share it, and a generic
// address is the same number as the address in the variable's own space:
//
//   word 0 (nobody's) | arena: the buffers | free, scratch taken from its end | local | parameter copies | const |
//   global variables | shared: static, then dynamic | end of memory
//
// Only variables that the kernel mentions take words. Shared memory ends where the memory ends, so that an index that
// is too large is out of range by itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "lowering/ptx/ptx.h"

namespace qgpu::lower {

// Byte addresses from `low` up to, not including, `high`.
struct Window {
  uint32_t low = 0, high = 0;
  bool empty() const { return low == high; }
  bool operator==(const Window&) const = default;
};

struct PlacedVariable {
  ptx::Space space = ptx::Space::kGlobal;
  uint32_t address = 0;  // byte address; in local memory: relative to where the thread's begins
  uint64_t bytes = 0;
};

struct LayoutRequest {
  const ptx::Module* module = nullptr;
  const ptx::Function* kernel = nullptr;                          // with everything it calls inlined
  const std::vector<std::vector<uint8_t>>* parameters = nullptr;  // content of each; nullptr: none is known
  uint32_t threads = 1;                                           // of a thread block
  uint32_t dynamic_shared_bytes = 0;
  uint32_t arena_words = 1;
  uint32_t memory_words = 126;
};

class MemoryLayout {
 public:
  // kInvalidArgument "needs N words: arena .., shared ..; the memory holds 126", kUnimplemented for variables that
  // cannot be (initialised with addresses), with the line.
  static absl::StatusOr<MemoryLayout> Create(const LayoutRequest& request);

  // A variable that an operand names, or a parameter whose address is taken; nullptr: none.
  const PlacedVariable* Find(const ptx::Operand& symbol) const;

  // Empty where the kernel has no variables there.
  Window shared() const { return regions_[kShared].window; }
  Window constant() const { return regions_[kConstant].window; }
  Window parameter_copies() const { return regions_[kParameters].window; }
  Window local() const { return regions_[kLocal].window; }  // of all threads
  uint32_t local_bytes() const { return local_bytes_; }     // of each thread
  uint32_t dynamic_shared_bytes() const { return dynamic_shared_bytes_; }
  uint32_t end() const { return 4 * memory_words_; }

  // Takes `words` free words, zero at the launch's start; gives the byte address of the first. kInvalidArgument where
  // there are not so many.
  absl::StatusOr<uint32_t> TakeScratchWords(uint32_t words);
  uint32_t free_words() const { return free_end_ / 4 - arena_words_; }

  // Writes the variables' initial content into a memory image that begins with the arena.
  void WriteInitialContent(std::vector<uint32_t>* memory) const;

 private:
  // One state space's part of memory.
  struct Region {
    const char* name;
    Window window;
    uint64_t bytes = 0, alignment = 4;
  };
  enum RegionIndex { kShared, kGlobal, kConstant, kParameters, kLocal, kRegions };  // from the end of memory down

  static RegionIndex RegionOf(ptx::Space space);
  void Append(const std::string& key, const ptx::Variable& variable, RegionIndex index);
  absl::Status AppendVariable(const LayoutRequest& request, const ptx::Variable& variable, const std::string& key);
  absl::Status AddContent(const LayoutRequest& request, const ptx::Variable& variable, const std::string& key);
  absl::Status Place(const LayoutRequest& request);
  absl::Status DoesNotFit(uint64_t words) const;
  void AddByte(RegionIndex region, uint64_t offset, uint8_t byte);

  std::map<std::string, PlacedVariable> variables_;  // addresses relative to the region until Place
  Region regions_[kRegions] = {
      {"shared", {}}, {"global variables", {}}, {"const", {}}, {"parameters", {}}, {"local", {}}};
  uint32_t local_bytes_ = 0, dynamic_shared_bytes_ = 0;
  uint32_t arena_words_ = 1, memory_words_ = 0, scratch_words_ = 0;
  uint32_t free_end_ = 4;                                        // byte address
  std::map<std::pair<RegionIndex, uint64_t>, uint8_t> content_;  // by region and offset
};

}  // namespace qgpu::lower
