// Text of others (a kernel's, a model's, a machine's) made safe to look at.
#pragma once

#include <string>
#include <string_view>

namespace qgpu {

// The text with all that does not show as itself written out: "\n", "\t", "\r", "\x01" and other control characters,
// "\u{202e}" for marks that turn the direction of writing, spaces of no width, unassigned code points and the like, and
// "\xff" for bytes that are no UTF-8. The result is valid UTF-8 in one line and comes back unchanged.
std::string Printable(std::string_view text);
// The same of every line of it: a compiler's messages stay readable.
std::string PrintableLines(std::string_view text);

}  // namespace qgpu
