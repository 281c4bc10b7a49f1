// Unicode as the reference implementation of these tokenizers sees it. The `tokenizers` library splits text by the
// classes of Unicode 16 and normalises it by the data of Unicode 9; Debian's PCRE2 is at Unicode 14, its ICU at 15. So
//
//   - NFC is ICU's, restricted to the characters that Unicode 9 has: composition and order of those never change;
//   - a character whose class PCRE2 does not know is replaced, in what PCRE2 gets to see, by an old one of the same
//     class and the same length in UTF-8. unicode_stand_ins.inc holds those; scripts/unicode_stand_ins.py makes it.
#pragma once

#include <string>
#include <string_view>

namespace qgpu {

// Valid UTF-8 in Normalization Form C. False and `out` untouched if it is in that form already.
bool NormalizeNfc(std::string_view valid, std::string& out);

// The text with every character that PCRE2 10.42 would misjudge replaced. False and `out` untouched if there is none.
bool ReplaceByStandIns(std::string_view valid, std::string& out);

bool IsWordCharacter(char32_t code_point);  // \w of the `regex` crate: letters, marks, digits, connectors, joiners
bool IsWhiteSpace(char32_t code_point);     // \s: property White_Space

}  // namespace qgpu
