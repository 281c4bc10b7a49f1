// Prints docs/formats/isa.md.
#include <cstdio>

#include "cli/isa_document.h"

int main() {
  std::fputs(qgpu::IsaDocument().c_str(), stdout);
  return 0;
}
