#include "tests/differential/instruction_forms.h"

#include <array>
#include <string_view>

#include "fmt/format.h"

namespace qgpu {
namespace {

using Names = std::vector<std::string>;

const Names kAll = {"u16", "s16", "u32", "s32", "u64", "s64"};
const Names kBits = {"b16", "b32", "b64"};
const Names kCompared = {"b16", "b32", "b64", "u16", "s16", "u32", "s32", "u64", "s64"};

std::string Bits(const std::string& type) { return type.substr(1); }

// `text` with T as the type and B as its bits.
std::string With(std::string text, const std::string& type) {
  for (const auto& [from, to] : {std::pair{std::string("$T"), type}, {std::string("$B"), Bits(type)}}) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from)) text.replace(at, 2, to);
  }
  return text;
}

class Forms {
 public:
  std::vector<std::string> Run() {
    Arithmetic();
    Products();
    Carries();
    Logic();
    Fields();
    Bytes();
    Comparisons();
    Moves();
    Conversions();
    return std::move(forms_);
  }

 private:
  void Add(const std::string& form) { forms_.push_back(form); }
  void Each(const Names& types, const std::string& form) {
    for (const std::string& type : types) Add(With(form, type));
  }

  void Arithmetic() {
    for (const char* op : {"add", "sub", "min", "max", "div", "rem"}) {
      Each(kAll, fmt::format("{}.$T {{D$B}}, {{S$B}}, {{S$B}};", op));
    }
    Add("add.sat.s32 {D32}, {S32}, {S32};");
    Add("sub.sat.s32 {D32}, {S32}, {S32};");
    Each(kAll, "sad.$T {D$B}, {S$B}, {S$B}, {S$B};");
    Each({"s16", "s32", "s64"}, "neg.$T {D$B}, {S$B};");
    Each({"s16", "s32", "s64"}, "abs.$T {D$B}, {S$B};");
    // A quotient and what is left, from one loop.
    Each(kAll, "div.$T {D$B}, %x$B, %y$B; rem.$T {D$B}, %x$B, %y$B;");
    for (const char* divisor : {"1", "2", "3", "7", "10", "64", "641", "65535", "2147483647", "2147483648"}) {
      Add(fmt::format("div.u32 {{D32}}, {{S32}}, {};", divisor));
      Add(fmt::format("rem.u32 {{D32}}, {{S32}}, {};", divisor));
    }
    for (const char* divisor : {"-1", "1", "2", "-2", "3", "-5", "7", "1000", "-2147483648", "2147483647", "0"}) {
      Add(fmt::format("div.s32 {{D32}}, {{S32}}, {};", divisor));
      Add(fmt::format("rem.s32 {{D32}}, {{S32}}, {};", divisor));
    }
    for (const char* divisor : {"3", "7", "10", "1000000007", "4096", "9223372036854775807", "0", "1"}) {
      Add(fmt::format("div.u64 {{D64}}, {{S64}}, {};", divisor));
      Add(fmt::format("rem.u64 {{D64}}, {{S64}}, {};", divisor));
      Add(fmt::format("div.s64 {{D64}}, {{S64}}, {};", divisor));
    }
    for (const char* divisor : {"-1", "-10", "64", "-9223372036854775808", "5"}) {
      Add(fmt::format("div.s64 {{D64}}, {{S64}}, {};", divisor));
      Add(fmt::format("rem.s64 {{D64}}, {{S64}}, {};", divisor));
    }
    // 64-bit ones that are known to be small.
    Add("cvt.u64.u32 %x64, {S32}; cvt.u64.u32 %y64, {S32}; div.u64 {D64}, %x64, %y64; rem.u64 {D64}, %x64, %y64;");
    Add("cvt.s64.s32 %x64, {S32}; cvt.s64.s32 %y64, {S32}; div.s64 {D64}, %x64, %y64; rem.s64 {D64}, %x64, %y64;");
  }

  void Products() {
    Each(kAll, "mul.lo.$T {D$B}, {S$B}, {S$B};");
    Each(kAll, "mul.hi.$T {D$B}, {S$B}, {S$B};");
    Each(kAll, "mad.lo.$T {D$B}, {S$B}, {S$B}, {S$B};");
    Each(kAll, "mad.hi.$T {D$B}, {S$B}, {S$B}, {S$B};");
    Add("mad.hi.sat.s32 {D32}, {S32}, {S32}, {S32};");
    for (const char* sign : {"u", "s"}) {
      for (const auto& [from, to] : {std::pair{"16", "32"}, {"32", "64"}}) {
        Add(fmt::format("mul.wide.{0}{1} {{D{2}}}, {{S{1}}}, {{S{1}}};", sign, from, to));
        Add(fmt::format("mad.wide.{0}{1} {{D{2}}}, {{S{1}}}, {{S{1}}}, {{S{2}}};", sign, from, to));
      }
      for (const char* part : {"lo", "hi"}) {
        Add(fmt::format("mul24.{}.{}32 {{D32}}, {{S32}}, {{S32}};", part, sign));
        Add(fmt::format("mad24.{}.{}32 {{D32}}, {{S32}}, {{S32}}, {{S32}};", part, sign));
      }
      for (const char* other : {"u", "s"}) {
        Add(fmt::format("dp4a.{}32.{}32 {{D32}}, {{S32}}, {{S32}}, {{S32}};", sign, other));
        Add(fmt::format("dp2a.lo.{}32.{}32 {{D32}}, {{S32}}, {{S32}}, {{S32}};", sign, other));
        Add(fmt::format("dp2a.hi.{}32.{}32 {{D32}}, {{S32}}, {{S32}}, {{S32}};", sign, other));
      }
    }
    Add("mad24.hi.sat.s32 {D32}, {S32}, {S32}, {S32};");
  }

  void Carries() {
    for (const char* op : {"add", "sub"}) {
      for (const char* sign : {"u", "s"}) {
        Each({fmt::format("{}32", sign), fmt::format("{}64", sign)},
             fmt::format("{0}.cc.$T {{D$B}}, {{S$B}}, {{S$B}}; {0}c.cc.$T {{D$B}}, {{S$B}}, {{S$B}};"
                         " {0}c.$T {{D$B}}, {{S$B}}, {{S$B}};",
                         op));
      }
    }
    for (const char* type : {"u32", "s32", "u64", "s64"}) {
      for (const char* part : {"lo", "hi"}) {
        Add(With(fmt::format("mad.{0}.cc.$T {{D$B}}, {{S$B}}, {{S$B}}, {{S$B}}; addc.$T {{D$B}}, 0, 0;", part), type));
        Add(With(fmt::format("add.cc.$T {{D$B}}, {{S$B}}, {{S$B}};"
                             " madc.{0}.cc.$T {{D$B}}, {{S$B}}, {{S$B}}, {{S$B}}; addc.$T {{D$B}}, 0, 0;",
                             part),
                 type));
        Add(With(
            fmt::format("sub.cc.$T {{D$B}}, {{S$B}}, {{S$B}}; madc.{0}.$T {{D$B}}, {{S$B}}, {{S$B}}, {{S$B}};", part),
            type));
      }
    }
    Add("mad.lo.cc.u32 {D32}, %x32, %y32, {S32}; madc.hi.cc.u32 {D32}, %x32, %y32, {S32}; addc.u32 {D32}, 0, 0;");
    Add("setp.ne.u32 %q, {S32}, 0; add.cc.u32 {D32}, {S32}, {S32}; @%q sub.cc.u32 {D32}, {S32}, {S32};"
        " addc.u32 {D32}, 0, 0;");
  }

  void Logic() {
    for (const char* op : {"and", "or", "xor"}) {
      Each(kBits, fmt::format("{}.$T {{D$B}}, {{S$B}}, {{S$B}};", op));
      Add(fmt::format("{}.pred {{DP}}, {{SP}}, {{SP}};", op));
    }
    Each(kBits, "not.$T {D$B}, {S$B};");
    Add("not.pred {DP}, {SP};");
    Each(kBits, "cnot.$T {D$B}, {S$B};");
    for (int table : {0, 1, 0x17, 0x80, 0x96, 0xca, 0xd8, 0xe8, 0xfe, 0xff}) {
      Add(fmt::format("lop3.b32 {{D32}}, {{S32}}, {{S32}}, {{S32}}, {};", table));
    }
    for (const char* combination : {"and", "or"}) {
      Add(fmt::format("lop3.{}.b32 {{D32}}|{{DP}}, {{S32}}, {{S32}}, {{S32}}, 0x2b, {{SP}};", combination));
      Add(fmt::format("lop3.{}.b32 _|{{DP}}, {{S32}}, {{S32}}, {{S32}}, 0x81, !{{SP}};", combination));
    }
    Each(kBits, "shl.$T {D$B}, {S$B}, {N32};");
    Each(kCompared, "shr.$T {D$B}, {S$B}, {N32};");
    for (int amount : {0, 1, 31, 32, 33, 63, 64}) {
      Add(fmt::format("shl.b64 {{D64}}, {{S64}}, {};", amount));
      Add(fmt::format("shr.u64 {{D64}}, {{S64}}, {};", amount));
      Add(fmt::format("shr.s64 {{D64}}, {{S64}}, {};", amount));
    }
    for (const char* mode : {"l.clamp", "l.wrap", "r.clamp", "r.wrap"}) {
      Add(fmt::format("shf.{}.b32 {{D32}}, {{S32}}, {{S32}}, {{N32}};", mode));
    }
  }

  void Fields() {
    Each({"u32", "s32", "u64", "s64"}, "bfe.$T {D$B}, {S$B}, {N32}, {N32};");
    Each({"b32", "b64"}, "bfi.$T {D$B}, {S$B}, {S$B}, {N32}, {N32};");
    Add("bfe.u64 {D64}, {S64}, 20, 30;");
    Add("bfe.s64 {D64}, {S64}, 40, 30;");
    Add("bfi.b64 {D64}, {S64}, {S64}, 28, 9;");
    for (const char* shift : {"", "shiftamt."}) {
      Each({"u32", "s32", "u64", "s64"}, fmt::format("bfind.{}$T {{D32}}, {{S$B}};", shift));
    }
    for (const char* mode : {"clamp", "wrap"}) {
      Add(fmt::format("bmsk.{}.b32 {{D32}}, {{N32}}, {{N32}};", mode));
      Add(fmt::format("szext.{}.u32 {{D32}}, {{S32}}, {{N32}};", mode));
      Add(fmt::format("szext.{}.s32 {{D32}}, {{S32}}, {{N32}};", mode));
    }
    Add("fns.b32 {D32}, {S32}, {N32}, {N32};");
    Each({"b32", "b64"}, "popc.$T {D32}, {S$B};");
    Each({"b32", "b64"}, "clz.$T {D32}, {S$B};");
    Each({"b32", "b64"}, "brev.$T {D$B}, {S$B};");
  }

  void Bytes() {
    Add("prmt.b32 {D32}, {S32}, {S32}, {S32};");
    for (const char* selector : {"0x3210", "0x0123", "0x7654", "0x5410", "0x8f0a", "0x4444", "0x1032", "0x9b12"}) {
      Add(fmt::format("prmt.b32 {{D32}}, {{S32}}, {{S32}}, {};", selector));
    }
    for (const char* mode : {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) {
      Add(fmt::format("prmt.b32.{} {{D32}}, {{S32}}, {{S32}}, {{S32}};", mode));
    }
  }

  void Comparisons() {
    int form = 0;
    const auto compare = [&](const std::string& comparison, const std::string& type) {
      static const char* const kBoolean[] = {"and", "or", "xor"};
      Add(With(fmt::format("setp.{}.$T {{DP}}, {{S$B}}, {{S$B}};", comparison), type));
      Add(With(fmt::format("setp.{}.{}.$T {{DP}}|{{DP}}, {{S$B}}, {{S$B}}, {}{{SP}};", comparison, kBoolean[form % 3],
                           form % 2 == 0 ? "" : "!"),
               type));
      const char* result = form % 2 == 0 ? "u32" : "s32";
      Add(With(fmt::format("set.{}.{}.$T {{D32}}, {{S$B}}, {{S$B}};", comparison, result), type));
      Add(With(fmt::format("set.{}.{}.{}.$T {{D32}}, {{S$B}}, {{S$B}}, {}{{SP}};", comparison, kBoolean[form % 3],
                           result, form % 2 == 0 ? "!" : ""),
               type));
      ++form;
    };
    for (const char* comparison : {"eq", "ne"}) {
      for (const std::string& type : kCompared) compare(comparison, type);
    }
    for (const char* comparison : {"lt", "le", "gt", "ge"}) {
      for (const std::string& type : kAll) compare(comparison, type);
    }
    for (const char* comparison : {"lo", "ls", "hi", "hs"}) {
      for (const char* type : {"u16", "u32", "u64"}) compare(comparison, type);
    }
    Add("setp.lt.s64 {DP}, {S64}, 0;");
    Add("setp.ge.s64 {DP}, {S64}, 0;");
    Add("setp.gt.u64 {DP}, {S64}, 4294967295;");
    Each(kCompared, "selp.$T {D$B}, {S$B}, {S$B}, {SP};");
    Each(kCompared, "slct.$T.s32 {D$B}, {S$B}, {S$B}, {S32};");
  }

  void Moves() {
    Each(kCompared, "mov.$T {D$B}, {S$B};");
    Add("mov.pred {DP}, {SP};");
    Add("mov.pred {DP}, !{SP};");
    Add("and.pred {DP}, !{SP}, {SP};");
    Add("xor.pred {DP}, {SP}, !{SP};");
    Add("setp.lt.s32 {DP}|_, {S32}, {S32};");
    for (const char* results : {"%q|{DP}", "{DP}|%q"}) {  // the guard is a result
      Add(fmt::format("setp.ne.u32 %q, {{S32}}, 0; @%q setp.lt.s32 {}, {{S32}}, {{S32}};", results));
    }
    Add("setp.ge.and.u32 _|{DP}, {S32}, {S32}, !{SP};");
    Add("selp.b32 {D32}, {S32}, {S32}, !{SP};");
    Add("mov.b64 {D64}, {{S32}, 5};");
    Add("mov.b32 {D32}, {{S16}, {S16}};");
    Add("mov.b64 {D64}, {{S32}, {S32}};");
    Add("mov.b64 {D64}, {{S16}, {S16}, {S16}, {S16}};");
    Add("mov.b32 {{D16}, {D16}}, {S32};");
    Add("mov.b64 {{D32}, {D32}}, {S64};");
    Add("mov.b64 {{D16}, {D16}, {D16}, {D16}}, {S64};");
    Add("mov.b64 {_, {D32}}, {S64};");
  }

  // From and to every type, registers of their width and wider ones.
  void Conversions() {
    static const Names types = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"};
    int form = 0;
    for (const std::string& to : types) {
      for (const std::string& from : types) {
        const int to_bits = std::stoi(Bits(to)), from_bits = std::stoi(Bits(from));
        const bool sign = to[0] == 's',
                   holds_all = sign == (from[0] == 's') ? to_bits >= from_bits : sign && to_bits > from_bits;
        for (const int result : {16, 32, 64}) {
          if (result < to_bits) continue;
          const int source = std::max(from_bits, std::array{16, 32, 64}[static_cast<size_t>(form++ % 3)]);
          Add(fmt::format("cvt.{}.{} {{D{}}}, {{S{}}};", to, from, result, source));
          if (!holds_all) Add(fmt::format("cvt.sat.{}.{} {{D{}}}, {{S{}}};", to, from, result, source));
        }
      }
    }
    for (const char* sign : {"u", "s"}) {  // registers of 8 bits
      Add(fmt::format("cvt.{0}8.{0}32 %b0, {{S32}}; cvt.{0}32.{0}8 {{D32}}, %b0;", sign));
      Add(fmt::format("cvt.{0}8.s64 %b0, {{S64}}; cvt.s16.{0}8 {{D16}}, %b0; cvt.{0}64.s8 {{D64}}, %b0;", sign));
      Add(fmt::format("cvt.sat.{0}8.s32 %b0, {{S32}}; cvt.u64.{0}8 {{D64}}, %b0;", sign));
    }
    Add("mov.b16 {%b0, %b1}, {S16}; mov.b16 {D16}, {%b1, %b0}; mov.b32 {D32}, {%b0, %b0, %b1, %b0};");
    Add("mov.b32 {%b0, %b1, %b2, %b3}, {S32}; mov.b32 {D32}, {%b3, %b2, %b1, %b0};");
    Add("cvt.pack.sat.u16.s32 {D32}, {S32}, {S32};");
    Add("cvt.pack.sat.s16.s32 {D32}, {S32}, {S32};");
    for (const char* to : {"u8", "s8", "u4", "s4", "u2", "s2"}) {
      Add(fmt::format("cvt.pack.sat.{}.s32.b32 {{D32}}, {{S32}}, {{S32}}, {{S32}};", to));
    }
  }

  std::vector<std::string> forms_;
};

}  // namespace

std::vector<std::string> AllInstructionForms() { return Forms().Run(); }

}  // namespace qgpu
