// Which known name a person meant who typed another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qgpu {

// The known name that is nearest to `typed`: it differs in few letters (one in three at most; a letter left out, added,
// replaced, or two neighbours exchanged), or `typed` is how it begins. Empty where none is near.
std::string NearestName(std::string_view typed, const std::vector<std::string>& known);

// `; did you mean "X"?` with the name in quotes, or empty where none is near.
std::string DidYouMean(std::string_view typed, const std::vector<std::string>& known);

}  // namespace qgpu
