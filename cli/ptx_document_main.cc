// Prints docs/PTX.md.
#include <cstdio>

#include "cli/ptx_document.h"

int main() {
  std::fputs(qgpu::PtxDocument().c_str(), stdout);
  return 0;
}
