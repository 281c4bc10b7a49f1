#include "oracle/native_cpu/runtime.h"

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <chrono>
#include <cstring>
#include <new>
#include <string>

#include "oracle/native_cpu/stack_pool.h"
#include "oracle/native_cpu/warp_ops.h"

namespace qgpu::native {
namespace {

using boost::context::fiber;

constexpr int64_t kSliceBranches = 4096;

enum class ThreadState { kNew, kReady, kAtBarrier, kAtWarpOp, kDone };

struct Thread {
  ThreadContext context = {};
  ThreadState state = ThreadState::kNew;
  fiber self, scheduler;
  int64_t granted = 0;
  uint32_t instruction = 0;  // where it waits
  BarrierOp barrier = BarrierOp::kNone;
  WarpOp warp_op = WarpOp::kSync;
  uint32_t members = 0;
  uint32_t predicate = 0;  // brought to a barrier
  WarpLane lane;           // brought to a warp operation
};

}  // namespace

uint64_t WindowOf(MemorySpace space) {
  switch (space) {
    case MemorySpace::kShared:
      return kSharedWindow;
    case MemorySpace::kLocal:
      return kLocalWindow;
    case MemorySpace::kConst:
      return kConstWindow;
    case MemorySpace::kParam:
      return kParamWindow;
    case MemorySpace::kGeneric:
    case MemorySpace::kGlobal:
      return 0;
  }
  return 0;
}

// Runs the thread blocks of one launch, one after another.
class BlockRunner {
 public:
  BlockRunner(CompiledKernel kernel, const Footprint& footprint, const LaunchShape& shape,
              const NativeCpuLimits& limits, std::vector<uint32_t>* arena)
      : kernel_(kernel),
        footprint_(footprint),
        shape_(shape),
        limits_(limits),
        arena_(arena),
        global_variables_(footprint.global_variables),
        stacks_(footprint.stack_bytes),
        threads_(shape.block.Count()),
        shared_(footprint.shared_bytes + shape.dynamic_shared_bytes),
        local_(threads_.size() * footprint.local_bytes),
        param_(threads_.size() * footprint.param_bytes),
        deadline_(std::chrono::steady_clock::now() + std::chrono::milliseconds(limits.wall_ms)) {}

  RunResult Run();

  // What the callbacks do.
  void* Access(Thread& thread, MemorySpace space, uint64_t address, uint32_t bytes, bool is_store,
               uint32_t instruction);
  uint32_t EndOfSlice(Thread& thread, uint32_t instruction);
  uint32_t WaitAtBarrier(Thread& thread, BarrierOp operation, bool predicate, uint32_t instruction);
  uint32_t WarpOperation(Thread& thread, WarpOp operation, uint32_t members, const WarpLane& lane,
                         uint32_t instruction);
  void Stop(NativeEnd end, const Thread& thread, int64_t instruction);
  Thread& Of(ThreadContext* context) { return threads_[context->index]; }

 private:
  void RunBlock(const uint32_t (&ctaid)[3]);
  void PrepareThread(uint32_t index, const uint32_t (&ctaid)[3]);
  void Resume(Thread& thread);
  void Yield(Thread& thread, ThreadState state);
  bool ResolveWarps();
  bool ResolveBarrier();
  void ReportDeadlock();
  bool OverLimit();
  void GrantSlice(Thread& thread);
  std::pair<uint8_t*, uint64_t> SpaceBytes(Thread& thread, MemorySpace* space, uint64_t* address);

  CompiledKernel kernel_;
  const Footprint& footprint_;
  const LaunchShape& shape_;
  const NativeCpuLimits& limits_;
  std::vector<uint32_t>* arena_;
  std::vector<uint8_t> global_variables_;
  StackPool stacks_;  // outlives the threads
  std::vector<Thread> threads_;
  std::vector<uint8_t> shared_, local_, param_;
  std::chrono::steady_clock::time_point deadline_;
  bool stopped_ = false;
  int64_t branches_ = 0;
  RunResult result_;
};

void BlockRunner::Stop(NativeEnd end, const Thread& thread, int64_t instruction) {
  if (stopped_) return;
  stopped_ = true;
  result_.end = end;
  result_.instruction = instruction;
  std::copy_n(thread.context.ctaid, 3, result_.block.begin());
  std::copy_n(thread.context.tid, 3, result_.thread.begin());
}

void BlockRunner::Resume(Thread& thread) { thread.self = std::move(thread.self).resume(); }

void BlockRunner::Yield(Thread& thread, ThreadState state) {
  thread.state = state;
  thread.scheduler = std::move(thread.scheduler).resume();
}

// Whether a limit of the launch is used up; says which.
bool BlockRunner::OverLimit() {
  if (branches_ >= limits_.backward_branches) {
    result_.detail = "backward branches";
  } else if (std::chrono::steady_clock::now() > deadline_) {
    result_.detail = "time";
  } else {
    return false;
  }
  return true;
}

void BlockRunner::GrantSlice(Thread& thread) {
  thread.granted = std::clamp<int64_t>(limits_.backward_branches - branches_, 1, kSliceBranches);
  thread.context.slice = thread.granted;
}

void BlockRunner::PrepareThread(uint32_t index, const uint32_t (&ctaid)[3]) {
  Thread& thread = threads_[index];
  ThreadContext& context = thread.context;
  const Dim3 &block = shape_.block, &grid = shape_.grid;
  context.tid[0] = index % block.x;
  context.tid[1] = index / block.x % block.y;
  context.tid[2] = index / block.x / block.y;
  std::copy_n(ctaid, 3, context.ctaid);
  for (auto [target, dim] : {std::pair(context.ntid, &block), std::pair(context.nctaid, &grid)}) {
    target[0] = dim->x;
    target[1] = dim->y;
    target[2] = dim->z;
  }
  context.laneid = index % kWarpLanes;
  context.warpid = index / kWarpLanes;
  context.nwarpid = static_cast<uint32_t>((threads_.size() + kWarpLanes - 1) / kWarpLanes);
  context.dynamic_shared_bytes = shape_.dynamic_shared_bytes;
  context.total_shared_bytes = static_cast<uint32_t>(shared_.size());
  context.param = param_.data() + size_t{index} * footprint_.param_bytes;
  context.runner = this;
  context.index = index;
  std::copy(shape_.parameters.begin(), shape_.parameters.end(), context.param);
  ++branches_;  // so that a launch of very many threads ends as well
  GrantSlice(thread);
  thread.state = ThreadState::kNew;
  thread.self = fiber(std::allocator_arg, PooledStack{&stacks_}, [this, &thread](fiber&& scheduler) {
    thread.scheduler = std::move(scheduler);
    kernel_(&thread.context);
    if (thread.granted > 0) branches_ += thread.granted - std::max<int64_t>(thread.context.slice, 0);
    thread.state = ThreadState::kDone;
    return std::move(thread.scheduler);
  });
}

void BlockRunner::RunBlock(const uint32_t (&ctaid)[3]) {
  if (OverLimit()) {
    Stop(NativeEnd::kTimeout, threads_[0], -1);
    std::copy_n(ctaid, 3, result_.block.begin());
    result_.thread = {0, 0, 0};
    return;
  }
  std::fill(shared_.begin(), shared_.end(), uint8_t{0});
  std::fill(local_.begin(), local_.end(), uint8_t{0});
  std::fill(param_.begin(), param_.end(), uint8_t{0});
  // All fibers exist before the first one runs: running out of memory for stacks must not leave a half-run thread.
  for (uint32_t index = 0; index < threads_.size(); ++index) PrepareThread(index, ctaid);
  for (bool live = true; live && !stopped_;) {
    bool progress = false;
    live = false;
    for (Thread& thread : threads_) {
      if (stopped_) break;
      if (thread.state == ThreadState::kNew || thread.state == ThreadState::kReady) {
        thread.state = ThreadState::kReady;
        progress = true;
        Resume(thread);
      }
      live |= thread.state != ThreadState::kDone;
    }
    if (!live || stopped_) break;
    progress |= ResolveWarps();
    if (!stopped_) progress |= ResolveBarrier();
    if (!progress && !stopped_) ReportDeadlock();
  }
  // After a stop, every callback ends its thread.
  for (Thread& thread : threads_) {
    while (thread.state != ThreadState::kNew && thread.state != ThreadState::kDone) Resume(thread);
  }
}

// Lets go the warp operations whose members have all arrived.
bool BlockRunner::ResolveWarps() {
  bool progress = false;
  for (size_t first = 0; first < threads_.size(); first += kWarpLanes) {
    const size_t lanes = std::min<size_t>(kWarpLanes, threads_.size() - first);
    for (size_t leader = 0; leader < lanes; ++leader) {
      const Thread& waiting = threads_[first + leader];
      if (waiting.state != ThreadState::kAtWarpOp) continue;
      uint32_t active = 0;
      bool complete = true;
      std::array<WarpLane, kWarpLanes> values;
      for (size_t lane = 0; lane < lanes; ++lane) {
        const Thread& member = threads_[first + lane];
        if ((waiting.members >> lane & 1) == 0 || member.state == ThreadState::kDone) continue;
        complete &= member.state == ThreadState::kAtWarpOp && member.instruction == waiting.instruction &&
                    member.members == waiting.members;
        active |= 1u << lane;
        values[lane] = member.lane;
      }
      if (!complete) continue;
      ResolveWarpOp(waiting.warp_op, active, &values);
      for (size_t lane = 0; lane < lanes; ++lane) {
        if ((active >> lane & 1) == 0) continue;
        Thread& member = threads_[first + lane];
        member.context.warp_result = values[lane].result;
        member.context.warp_predicate = values[lane].predicate;
        member.state = ThreadState::kReady;
      }
      progress = true;
    }
  }
  return progress;
}

// Lets the block go on when all live threads wait at the same barrier; stops at different ones.
bool BlockRunner::ResolveBarrier() {
  const Thread* first = nullptr;
  uint64_t live = 0, trues = 0;
  for (const Thread& thread : threads_) {
    if (thread.state == ThreadState::kDone) continue;
    if (thread.state != ThreadState::kAtBarrier) return false;
    if (first == nullptr) first = &thread;
    if (thread.instruction != first->instruction) {
      Stop(NativeEnd::kBarrierDivergence, *first, first->instruction);
      result_.other_instruction = thread.instruction;
      std::copy_n(thread.context.tid, 3, result_.other_thread.begin());
      return false;
    }
    ++live;
    trues += thread.predicate;
  }
  if (first == nullptr) return false;
  for (Thread& thread : threads_) {
    if (thread.state != ThreadState::kAtBarrier) continue;
    thread.context.warp_result = thread.barrier == BarrierOp::kPopulation ? trues
                                 : thread.barrier == BarrierOp::kAnd      ? trues == live
                                                                          : trues != 0;
    thread.state = ThreadState::kReady;
  }
  return true;
}

void BlockRunner::ReportDeadlock() {
  const Thread *first = nullptr, *other = nullptr;
  for (const Thread& thread : threads_) {
    if (thread.state == ThreadState::kDone) continue;
    if (first == nullptr) first = &thread;
    if (other == nullptr && thread.instruction != first->instruction) other = &thread;
  }
  Stop(NativeEnd::kDeadlock, *first, first->instruction);
  if (other == nullptr) return;
  result_.other_instruction = other->instruction;
  std::copy_n(other->context.tid, 3, result_.other_thread.begin());
}

RunResult BlockRunner::Run() {
  for (uint32_t z = 0; z < shape_.grid.z && !stopped_; ++z) {
    for (uint32_t y = 0; y < shape_.grid.y && !stopped_; ++y) {
      for (uint32_t x = 0; x < shape_.grid.x && !stopped_; ++x) {
        RunBlock({x, y, z});
      }
    }
  }
  result_.backward_branches = branches_;
  return result_;
}

// The bytes of a state space; a generic address is turned into one of its space.
std::pair<uint8_t*, uint64_t> BlockRunner::SpaceBytes(Thread& thread, MemorySpace* space, uint64_t* address) {
  if (*space == MemorySpace::kGeneric) {
    *space = MemorySpace::kGlobal;
    for (MemorySpace window : {MemorySpace::kShared, MemorySpace::kLocal, MemorySpace::kConst, MemorySpace::kParam}) {
      if (*address >= WindowOf(window)) *space = window;
    }
    *address -= WindowOf(*space);
  }
  switch (*space) {
    case MemorySpace::kShared:
      return {shared_.data(), shared_.size()};
    case MemorySpace::kLocal:
      return {local_.data() + size_t{thread.context.index} * footprint_.local_bytes, footprint_.local_bytes};
    case MemorySpace::kConst:
      return {const_cast<uint8_t*>(footprint_.const_variables.data()), footprint_.const_variables.size()};
    case MemorySpace::kParam:
      return {thread.context.param, footprint_.param_bytes};
    case MemorySpace::kGeneric:
    case MemorySpace::kGlobal:
      break;
  }
  if (*address >= kGlobalVariableBase) {
    *address -= kGlobalVariableBase;
    return {global_variables_.data(), global_variables_.size()};
  }
  return {reinterpret_cast<uint8_t*>(arena_->data()), 4 * std::min<uint64_t>(arena_->size(), limits_.memory_words)};
}

void* BlockRunner::Access(Thread& thread, MemorySpace space, uint64_t address, uint32_t bytes, bool is_store,
                          uint32_t instruction) {
  if (stopped_) return nullptr;
  const uint64_t address_in_ptx = address;
  const MemorySpace space_in_ptx = space;
  const auto [base, size] = SpaceBytes(thread, &space, &address);
  const bool is_null = base == reinterpret_cast<uint8_t*>(arena_->data()) && address < 4;
  const bool out_of_range = is_null || address > size || bytes > size - address;
  const bool read_only = is_store && space == MemorySpace::kConst;
  const bool misaligned = address_in_ptx % bytes != 0;  // counts before the range, as on the machine
  if (!out_of_range && !read_only && !misaligned) return base + address;
  Stop(misaligned ? NativeEnd::kMisaligned : NativeEnd::kOutOfRange, thread, instruction);
  result_.address = address_in_ptx;
  result_.bytes = bytes;
  result_.space = space_in_ptx;
  if (read_only && !misaligned) result_.detail = "constant memory is read-only";
  return nullptr;
}

uint32_t BlockRunner::EndOfSlice(Thread& thread, uint32_t instruction) {
  if (stopped_) return kEnded;
  branches_ += thread.granted;
  thread.granted = 0;
  if (OverLimit()) {
    Stop(NativeEnd::kTimeout, thread, instruction);
    return kEnded;
  }
  GrantSlice(thread);
  Yield(thread, ThreadState::kReady);
  return stopped_ ? kEnded : kReturned;
}

uint32_t BlockRunner::WaitAtBarrier(Thread& thread, BarrierOp operation, bool predicate, uint32_t instruction) {
  if (stopped_) return kEnded;
  thread.barrier = operation;
  thread.predicate = predicate ? 1 : 0;
  thread.instruction = instruction;
  Yield(thread, ThreadState::kAtBarrier);
  return stopped_ ? kEnded : kReturned;
}

uint32_t BlockRunner::WarpOperation(Thread& thread, WarpOp operation, uint32_t members, const WarpLane& lane,
                                    uint32_t instruction) {
  if (stopped_) return kEnded;
  if ((members >> thread.context.laneid & 1) == 0) {
    Stop(NativeEnd::kDeadlock, thread, instruction);
    result_.detail = "the thread's own lane is not in the member mask";
    return kEnded;
  }
  thread.warp_op = operation;
  thread.members = members;
  thread.lane = lane;
  thread.instruction = instruction;
  Yield(thread, ThreadState::kAtWarpOp);
  return stopped_ ? kEnded : kReturned;
}

RunResult RunGrid(CompiledKernel kernel, const Footprint& footprint, const LaunchShape& shape,
                  const NativeCpuLimits& limits, std::vector<uint32_t>* arena) {
  const size_t words = arena->size();
  arena->resize(std::max<size_t>(words, limits.memory_words));
  const RunResult result = BlockRunner(kernel, footprint, shape, limits, arena).Run();
  arena->resize(words);
  return result;
}

void* AccessMemory(ThreadContext* thread, uint32_t space, uint64_t address, uint32_t bytes, uint32_t is_store,
                   uint32_t instruction) {
  return thread->runner->Access(thread->runner->Of(thread), static_cast<MemorySpace>(space), address, bytes,
                                is_store != 0, instruction);
}

uint32_t EndOfSlice(ThreadContext* thread, uint32_t instruction) {
  return thread->runner->EndOfSlice(thread->runner->Of(thread), instruction);
}

uint32_t WaitAtBarrier(ThreadContext* thread, uint32_t operation, uint32_t predicate, uint32_t instruction) {
  return thread->runner->WaitAtBarrier(thread->runner->Of(thread), static_cast<BarrierOp>(operation), predicate != 0,
                                       instruction);
}

uint32_t RunWarpOp(ThreadContext* thread, uint32_t operation, uint64_t value, uint32_t lane, uint32_t clamp,
                   uint32_t members, uint32_t instruction) {
  WarpLane values;
  values.value = value;
  values.lane = lane;
  values.clamp = clamp;
  return thread->runner->WarpOperation(thread->runner->Of(thread), static_cast<WarpOp>(operation), members, values,
                                       instruction);
}

uint32_t RaiseTrap(ThreadContext* thread, uint32_t instruction) {
  thread->runner->Stop(NativeEnd::kTrap, thread->runner->Of(thread), instruction);
  return kEnded;
}

}  // namespace qgpu::native
