// Stacks for fibers: mapped once, with an unmapped page below, and used again by the next thread block.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/stack_context.hpp>
#include <new>
#include <vector>

namespace qgpu::native {

class StackPool {
 public:
  explicit StackPool(size_t stack_bytes)
      : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), bytes_((stack_bytes + page_ - 1) / page_ * page_ + page_) {}
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  // Every stack must have come back.
  ~StackPool() {
    for (void* base : free_) munmap(base, bytes_);
  }

  // Throws std::bad_alloc.
  boost::context::stack_context Allocate() {
    void* base;
    if (!free_.empty()) {
      base = free_.back();
      free_.pop_back();
    } else {
      free_.reserve(++stacks_);
      base = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (base == MAP_FAILED) throw std::bad_alloc();
      mprotect(base, page_, PROT_NONE);
    }
    boost::context::stack_context stack;
    stack.size = bytes_;
    stack.sp = static_cast<char*>(base) + bytes_;
    return stack;
  }
  void Deallocate(const boost::context::stack_context& stack) noexcept {
    free_.push_back(static_cast<char*>(stack.sp) - bytes_);
  }

 private:
  size_t page_, bytes_, stacks_ = 0;
  std::vector<void*> free_;
};

// What Boost.Context takes; copies share the pool.
struct PooledStack {
  StackPool* pool;
  boost::context::stack_context allocate() { return pool->Allocate(); }
  void deallocate(boost::context::stack_context& stack) noexcept { pool->Deallocate(stack); }
};

}  // namespace qgpu::native
