// One attempt at packing one basic block, see schedule.h.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "lowering/ptx_to_blocks/pack/schedule.h"

namespace qgpu::lower {

// A write of a phi variable that the basic block must make.
struct Move {
  int variable = -1;
  int value = -1;
  bool may_fuse = false;  // the slot that computes the value may write the variable
};

// Everything about a basic block that does not depend on the attempt.
struct PackingProblem {
  const std::vector<Node>* nodes = nullptr;
  std::vector<Move> moves;
  std::map<int, int> node_of;  // value -> node of this basic block

  // Order in memory: nodes that must be in an earlier machine block; in this or an earlier one; and in an earlier slot
  // or block.
  std::vector<std::vector<int>> strictly_after, not_before, after_slot;
  // Nodes and moves (as -1 - index) that read what a move's variable holds on entry.
  std::vector<std::vector<int>> readers;       // [move]
  std::vector<std::vector<int>> free_readers;  // [move]: readers that do not depend on the move's value
  std::vector<int> height;                     // [node]: longest chain of nodes that depend on it

  bool has_condition = false;
  int condition = -1;  // predicate value of the branch
  bool negate = false;

  // The last machine block of the only predecessor, whose free slots may take what cannot trap.
  const BlockPlan* above = nullptr;
  std::function<bool(int variable)> may_write_above;

  std::function<int(int value)> write_back_cost;
  std::function<int(int variable, int value)> move_cost;
  std::function<Source(int value)> move_source;
  std::function<bool(int value)> live_after;   // some successor reads it
  std::function<bool(int value)> in_register;  // already needed in a register by what was packed before
};

struct PackingStyle {
  std::vector<int> priority;  // [node]
  bool hold = true;           // wait with a fused value until its variable may be overwritten
  bool use_above = true;
  int slot_order = 0;  // which free slots are tried first
};

struct Packing {
  bool complete = false;
  std::vector<BlockPlan> blocks;
  bool has_above = false;  // blocks[0] is `above` with what was added to it
  Place condition;
  bool negate = false;
  std::set<int> read_from_register;
  std::vector<std::pair<int, int>> fused;  // value, variable
  int cost = 0;
};

Packing Pack(const PackingProblem& problem, const PackingStyle& style);

}  // namespace qgpu::lower
