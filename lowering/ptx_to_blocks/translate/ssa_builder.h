// Assignments to named variables, block after block, into SSA values: the on-the-fly construction of Braun et al.,
// "Simple and Efficient Construction of Static Single Assignment Form" (2013). Blocks are filled in an order in which
// each comes after at least one predecessor; a block whose predecessors are not all filled gets phis that are completed
// by Finish.
#pragma once

#include <map>
#include <vector>

#include "lowering/ptx_to_blocks/ir/ir.h"

namespace qgpu::lower {

class SsaBuilder {
 public:
  // `predecessors` of every block that will be filled.
  SsaBuilder(IrFunction* function, std::vector<std::vector<int>> predecessors, std::vector<Type> variable_types);

  void Write(int block, int variable, int value);
  // The variable's value at the present end of `block`. A variable that was never written is 0.
  int Read(int block, int variable);
  // No more writes to `block` follow.
  void MarkFilled(int block);
  // Completes the phis of blocks with back edges; every block is filled.
  void Finish();

 private:
  int ReadFromPredecessors(int block, int variable);
  int AddPhi(int block, int variable);
  void Complete(int phi, int block, int variable);

  IrFunction* function_;
  std::vector<std::vector<int>> predecessors_;
  std::vector<Type> types_;
  std::vector<bool> filled_;
  std::vector<std::map<int, int>> current_;  // [block][variable]
  struct Pending {
    int phi, block, variable;
  };
  std::vector<Pending> pending_;
};

}  // namespace qgpu::lower
