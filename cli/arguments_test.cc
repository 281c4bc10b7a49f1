#include "cli/arguments.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = TypedParameter::Kind;

TypedArgument Parse(const std::string& text) {
  auto argument = ParseTypedArgument(text);
  EXPECT_TRUE(argument.ok()) << argument.status();
  return argument.ok() ? *argument : TypedArgument{};
}

std::string ParseError(const std::string& text) {
  auto argument = ParseTypedArgument(text);
  EXPECT_FALSE(argument.ok()) << text;
  EXPECT_EQ(argument.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(argument.status().message());
}

std::vector<KernelArgument> Bind(const std::vector<std::string>& texts, const std::vector<TypedParameter>& parameters) {
  std::vector<TypedArgument> typed;
  for (const std::string& text : texts) typed.push_back(Parse(text));
  auto bound = BindArguments(typed, parameters);
  EXPECT_TRUE(bound.ok()) << bound.status();
  return bound.ok() ? *bound : std::vector<KernelArgument>(parameters.size());
}

std::string BindError(const std::vector<std::string>& texts, const std::vector<TypedParameter>& parameters) {
  std::vector<TypedArgument> typed;
  for (const std::string& text : texts) typed.push_back(Parse(text));
  auto bound = BindArguments(typed, parameters);
  EXPECT_EQ(bound.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(bound.status().message());
}

const std::vector<TypedParameter> kSaxpy = {{"y", Kind::kPointer, 8}, {"a", Kind::kValue, 4}};

TEST(ParseTypedArgument, NumbersOfEveryForm) {
  const TypedArgument argument = Parse("a=1,-2, 0x10 ,-0x80000000,+7,18446744073709551615,-9223372036854775808");
  EXPECT_EQ(argument.name, "a");
  EXPECT_FALSE(argument.is_output);
  EXPECT_TRUE(argument.must_be_buffer);
  EXPECT_THAT(argument.values, ElementsAre(TypedNumber{1, false}, TypedNumber{2, true}, TypedNumber{16, false},
                                           TypedNumber{0x80000000u, true}, TypedNumber{7, false},
                                           TypedNumber{~uint64_t{0}, false}, TypedNumber{uint64_t{1} << 63, true}));
}

TEST(ParseTypedArgument, BuffersOfLengthZeroAndOne) {
  EXPECT_TRUE(Parse("a=").must_be_buffer);
  EXPECT_THAT(Parse("a=[]").values, IsEmpty());
  EXPECT_FALSE(Parse("a=5").must_be_buffer);
  EXPECT_TRUE(Parse("a=[5]").must_be_buffer);
}

TEST(ParseTypedArgument, OutputsAreDeclared) {
  EXPECT_TRUE(Parse("out=zeros:3").is_output);
  EXPECT_EQ(Parse("zeros:3").values.size(), 3u);
  EXPECT_EQ(Parse("zeros:0").values.size(), 0u);
  EXPECT_TRUE(Parse("y=inout:1,2").is_output);
  EXPECT_TRUE(Parse("y=inout:5").must_be_buffer);
}

TEST(ParseTypedArgument, ErrorsNameTheValue) {
  EXPECT_THAT(ParseError("a=1,2x,3"), HasSubstr("value 2 (\"2x\") is not an integer"));
  EXPECT_THAT(ParseError("a=1,,3"), HasSubstr("value 2 (\"\")"));
  EXPECT_THAT(ParseError("a=1,2,"), HasSubstr("value 3 (\"\")"));
  EXPECT_THAT(ParseError("a=1.5"), HasSubstr("\"1.5\""));
  EXPECT_THAT(ParseError("a=0x"), HasSubstr("\"0x\""));
  EXPECT_THAT(ParseError("a=--1"), HasSubstr("\"--1\""));
  EXPECT_THAT(ParseError("a=18446744073709551616"), HasSubstr("not an integer"));
  EXPECT_THAT(ParseError("a=-9223372036854775809"), HasSubstr("not an integer"));
  EXPECT_THAT(ParseError("a=[1,2"), HasSubstr("closing ]"));
  EXPECT_THAT(ParseError("=1"), HasSubstr("not a parameter name"));
  EXPECT_THAT(ParseError("a b=1"), HasSubstr("not a parameter name"));
  EXPECT_THAT(ParseError("a=zeros:-1"), HasSubstr("zeros: needs"));
  EXPECT_THAT(ParseError("a=zeros:"), HasSubstr("zeros: needs"));
  EXPECT_THAT(ParseError("a=zeros:1048577"), HasSubstr("from 0 to 1048576"));
}

TEST(BindArguments, ThePlainNumberFollowsTheParameter) {
  const auto bound = Bind({"a=-3", "y=-1"}, kSaxpy);
  EXPECT_EQ(bound[0].name, "y");
  EXPECT_EQ(bound[0].kind, KernelArgument::Kind::kBuffer);
  EXPECT_THAT(bound[0].words, ElementsAre(0xffffffffu));
  EXPECT_EQ(bound[1].name, "a");
  EXPECT_EQ(bound[1].kind, KernelArgument::Kind::kScalar);
  EXPECT_EQ(bound[1].scalar, static_cast<uint64_t>(-3));
}

TEST(BindArguments, ByPosition) {
  const auto bound = Bind({"zeros:2", "0xffffffff"}, kSaxpy);
  EXPECT_THAT(bound[0].words, ElementsAre(0u, 0u));
  EXPECT_TRUE(bound[0].is_output);
  EXPECT_EQ(bound[1].scalar, 0xffffffffu);
}

TEST(BindArguments, WithoutTypesTheFormDecides) {
  const std::vector<TypedParameter> unknown = {{"p0", Kind::kUnknown, 8}, {"p1", Kind::kUnknown, 8}};
  const auto bound = Bind({"[5]", "5"}, unknown);
  EXPECT_EQ(bound[0].kind, KernelArgument::Kind::kBuffer);
  EXPECT_EQ(bound[1].kind, KernelArgument::Kind::kScalar);
}

TEST(BindArguments, EdgesOfTheRanges) {
  EXPECT_THAT(Bind({"y=-2147483648,4294967295", "a=1"}, kSaxpy)[0].words, ElementsAre(0x80000000u, 0xffffffffu));
  const std::vector<TypedParameter> byte = {{"b", Kind::kValue, 1}};
  EXPECT_EQ(Bind({"b=255"}, byte)[0].scalar, 255u);
  EXPECT_EQ(Bind({"b=-128"}, byte)[0].scalar, static_cast<uint64_t>(-128));
  EXPECT_THAT(BindError({"b=256"}, byte), HasSubstr("-128 to 255"));
  EXPECT_THAT(BindError({"b=-129"}, byte), HasSubstr("-128 to 255"));
  const std::vector<TypedParameter> wide = {{"w", Kind::kValue, 8}};
  EXPECT_EQ(Bind({"w=18446744073709551615"}, wide)[0].scalar, ~uint64_t{0});
}

TEST(BindArguments, StructsTakeTheirBytes) {
  const std::vector<TypedParameter> parameters = {
      {"p", Kind::kPointer, 8}, {"s", Kind::kStruct, 4}, {"n", Kind::kValue, 2}};
  const auto bound = Bind({"p=bytes:0a0B0c", "s=bytes:0100 ffff", "n=bytes:feff"}, parameters);
  EXPECT_EQ(bound[0].kind, KernelArgument::Kind::kBuffer);
  EXPECT_THAT(bound[0].words, ElementsAre(0x0c0b0au));
  EXPECT_EQ(bound[0].BufferBytes(), 3u);
  EXPECT_EQ(bound[1].kind, KernelArgument::Kind::kScalar);
  EXPECT_EQ(bound[1].name, "s");
  EXPECT_TRUE(bound[1].is_raw);
  EXPECT_THAT(bound[1].bytes, ElementsAre(1, 0, 0xff, 0xff));
  EXPECT_THAT(bound[2].bytes, ElementsAre(0xfe, 0xff));
  // A number may be what the struct's only member holds, or not: it is not guessed.
  EXPECT_THAT(
      BindError({"p=", "s=5", "n=1"}, parameters),
      HasSubstr("--arg s=5: parameter \"s\" is a struct of 4 bytes, passed by value; give them as s=bytes: and 8 "
                "hexadecimal digits"));
  EXPECT_THAT(BindError({"p=", "s=1,2", "n=1"}, parameters), HasSubstr("\"s\" is a struct"));
  EXPECT_THAT(BindError({"p=", "s=bytes:0102", "n=1"}, parameters),
              HasSubstr("2 bytes are given, parameter \"s\" has 4"));
  EXPECT_THAT(BindError({"p=", "s=bytes:01020304", "n=bytes:01"}, parameters), HasSubstr("\"n\" has 2"));
  EXPECT_THAT(ParseError("s=bytes:012"), HasSubstr("--arg s=bytes:012: "));
  const std::vector<TypedParameter> unknown = {{"p0", Kind::kUnknown, 8}};
  EXPECT_EQ(Bind({"bytes:0102030405060708"}, unknown)[0].kind, KernelArgument::Kind::kBuffer);
}

TEST(BindArguments, ErrorsNameParameterAndRemedy) {
  EXPECT_THAT(BindError({"y=1,4294967296", "a=1"}, kSaxpy), HasSubstr("value 2 (4294967296) is not a 32-bit word"));
  EXPECT_THAT(BindError({"y=-2147483649", "a=1"}, kSaxpy), HasSubstr("value 1 (-2147483649)"));
  EXPECT_THAT(BindError({"y=1", "a=4294967296"}, kSaxpy), HasSubstr("does not fit parameter \"a\" of 4 bytes"));
  EXPECT_THAT(BindError({"y=1", "a=1,2"}, kSaxpy), HasSubstr("\"a\" is a scalar"));
  EXPECT_THAT(BindError({"y=1", "b=1"}, kSaxpy), HasSubstr("no parameter \"b\"; its parameters are: y, a"));
  EXPECT_THAT(BindError({"y=1"}, kSaxpy), HasSubstr("--arg a="));
  EXPECT_THAT(BindError({"y=1", "y=2"}, kSaxpy), HasSubstr("given twice"));
  EXPECT_THAT(BindError({"1", "2", "3"}, kSaxpy), HasSubstr("3 arguments given, the kernel has 2"));
}

TEST(ParseTypedDim3, OneToThreePositiveNumbers) {
  EXPECT_EQ(ParseTypedDim3("--grid", "4").value(), (Dim3{4, 1, 1}));
  EXPECT_EQ(ParseTypedDim3("--grid", "4,2,3").value(), (Dim3{4, 2, 3}));
  for (const char* text : {"", "0", "-1", "1,2,3,4", "1,", "x", "2147483648"}) {
    EXPECT_THAT(std::string(ParseTypedDim3("--grid", text).status().message()), HasSubstr("--grid")) << text;
  }
}

TEST(DefaultBlock, OneThreadAWordWithinTheLimits) {
  EXPECT_EQ(DefaultBlock({}), (Dim3{1, 1, 1}));
  EXPECT_EQ(DefaultBlock(Bind({"y=", "a=1"}, kSaxpy)), (Dim3{1, 1, 1}));
  EXPECT_EQ(DefaultBlock(Bind({"y=1,2,3", "a=1"}, kSaxpy)), (Dim3{3, 1, 1}));
  EXPECT_EQ(DefaultBlock(Bind({"y=zeros:33", "a=1"}, kSaxpy)), (Dim3{32, 1, 1}));
}

}  // namespace
}  // namespace qgpu
