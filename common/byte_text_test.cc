#include "common/byte_text.h"

#include "common/prng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

using testing::ElementsAre;

TEST(ByteText, Hexadecimal) {
  EXPECT_EQ(ToHex({0, 255, 18}), "00ff12");
  EXPECT_THAT(FromHex("00ff12").value(), ElementsAre(0, 255, 18));
  EXPECT_THAT(FromHex("0xA 0\nbc").value(), ElementsAre(0xa0, 0xbc));
  EXPECT_THAT(FromHex("").value(), ElementsAre());
  EXPECT_FALSE(FromHex("123").ok());
  EXPECT_FALSE(FromHex("12g4").ok());
  EXPECT_FALSE(FromHex(std::string("12\0"
                                   "34",
                                   5))
                   .ok());
}

// The examples of RFC 4648, section 10.
TEST(ByteText, Base64) {
  const auto text = [](const char* base64) {
    const absl::StatusOr<Bytes> bytes = FromBase64(base64);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.ok() ? std::string(bytes->begin(), bytes->end()) : "";
  };
  EXPECT_EQ(text(""), "");
  EXPECT_EQ(text("Zg=="), "f");
  EXPECT_EQ(text("Zm8="), "fo");
  EXPECT_EQ(text("Zm9v"), "foo");
  EXPECT_EQ(text("Zm9v YmFy"), "foobar");
  EXPECT_THAT(FromBase64("+/8=").value(), ElementsAre(0xfb, 0xff));
  for (const char* bad : {"Z", "Zg", "Zg=", "Zg===", "Zm9v=", "Zg==Zg==", "Zm9?"}) {
    EXPECT_FALSE(FromBase64(bad).ok()) << bad;
  }
}

TEST(ByteText, WordsAreLittleEndian) {
  EXPECT_THAT(ToWords({1, 2, 3, 4, 5}), ElementsAre(0x04030201u, 5u));
  EXPECT_THAT(FromWords({0x04030201u, 5u}, 5), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(FromWords({7}, 9), ElementsAre(7, 0, 0, 0));
  SplitMix64 random(1);
  for (size_t size = 0; size < 40; ++size) {
    Bytes bytes;
    for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<uint8_t>(random.Below(256)));
    EXPECT_EQ(FromWords(ToWords(bytes), size), bytes);
    EXPECT_EQ(FromHex(ToHex(bytes)).value(), bytes);
  }
}

}  // namespace
}  // namespace qgpu
