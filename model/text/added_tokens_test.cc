#include "model/text/added_tokens.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

std::vector<std::string> Parts(const AddedToken& token, const std::string& text, std::string_view in) {
  AddedTokenFinder finder;
  finder.Add(text, token);
  std::vector<std::string> parts;
  finder.Cut(in, /*skip_special=*/false, {}, [&](const AddedToken* found, std::string_view part) {
    parts.push_back((found != nullptr ? "token:" : "") + std::string(part));
  });
  return parts;
}

// The first of two tokens takes the white space that is the second, of which nothing is left.
TEST(AddedTokens, NothingIsLeftOfATokenWhoseTextIsTaken) {
  AddedToken both, right;
  both.lstrip = both.rstrip = right.rstrip = true;
  EXPECT_THAT(Parts(both, "  ", "a    b"), testing::ElementsAre("a", "token:    ", "b"));
  EXPECT_THAT(Parts(both, "  ", "a    "), testing::ElementsAre("a", "token:    "));
  EXPECT_THAT(Parts(both, "  ", "a     b"), testing::ElementsAre("a", "token:     ", "b"));
  EXPECT_THAT(Parts(right, "  ", "a    b"), testing::ElementsAre("a", "token:    ", "token:  ", "b"));
}

}  // namespace
}  // namespace qgpu
