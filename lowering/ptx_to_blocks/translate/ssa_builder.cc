#include "lowering/ptx_to_blocks/translate/ssa_builder.h"

namespace qgpu::lower {

SsaBuilder::SsaBuilder(IrFunction* function, std::vector<std::vector<int>> predecessors,
                       std::vector<Type> variable_types)
    : function_(function),
      predecessors_(std::move(predecessors)),
      types_(std::move(variable_types)),
      filled_(predecessors_.size(), false),
      current_(predecessors_.size()) {}

void SsaBuilder::Write(int block, int variable, int value) { current_[block][variable] = value; }

int SsaBuilder::Read(int block, int variable) {
  // Walk up chains of single predecessors without recursion, then give the whole chain the value.
  std::vector<int> chain;
  int value = -1;
  for (int at = block; value < 0;) {
    const auto found = current_[at].find(variable);
    if (found != current_[at].end()) {
      value = found->second;
    } else if (predecessors_[at].size() == 1 && filled_[predecessors_[at][0]] && chain.size() <= filled_.size()) {
      chain.push_back(at);
      at = predecessors_[at][0];
    } else {
      value = ReadFromPredecessors(at, variable);
    }
  }
  for (int at : chain) current_[at][variable] = value;
  return value;
}

int SsaBuilder::ReadFromPredecessors(int block, int variable) {
  int value;
  if (predecessors_[block].empty()) {
    value = function_->Constant(types_[variable], 0);
  } else {
    value = AddPhi(block, variable);
    pending_.push_back({value, block, variable});
  }
  current_[block][variable] = value;
  return value;
}

int SsaBuilder::AddPhi(int block, int variable) {
  IrInstruction phi;
  phi.op = IrOp::kPhi;
  phi.type = types_[variable];
  return function_->Add(block, phi, 0);
}

void SsaBuilder::MarkFilled(int block) { filled_[block] = true; }

void SsaBuilder::Complete(int phi, int block, int variable) {
  for (int predecessor : predecessors_[block]) {
    const int value = Read(predecessor, variable);  // may add phis: no reference into the list across this
    function_->at(phi).args.push_back(value);
    function_->at(phi).phi_blocks.push_back(predecessor);
  }
}

void SsaBuilder::Finish() {
  for (size_t i = 0; i < pending_.size(); ++i) {  // grows
    const Pending pending = pending_[i];
    Complete(pending.phi, pending.block, pending.variable);
  }
}

}  // namespace qgpu::lower
