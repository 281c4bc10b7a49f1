#include "common/prng.h"
#include "fmt/format.h"
#include "tests/differential/random_kernels.h"

namespace qgpu {
namespace {

class PtxWriter {
 public:
  explicit PtxWriter(uint64_t seed) : random_(seed) {}

  std::string Module(int instructions) {
    text_ =
        ".version 6.4\n.target sm_75\n.address_size 64\n"
        ".visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b, .param .u32 n, .param .u32 m)\n{\n"
        "  .reg .pred %p<5>;\n  .reg .b32 %r<8>;\n  .reg .b64 %rd<6>;\n"
        "  ld.param.u64 %rd0, [out];\n  ld.param.u64 %rd1, [a];\n  ld.param.u64 %rd2, [b];\n"
        "  mov.u32 %r0, %tid.x;\n  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %ntid.x;\n"
        "  mad.lo.u32 %r0, %r1, %r2, %r0;\n  mul.wide.u32 %rd3, %r0, 8;\n  add.s64 %rd0, %rd0, %rd3;\n"
        "  and.b32 %r1, %r0, 7;\n  mul.wide.u32 %rd3, %r1, 4;\n  add.s64 %rd4, %rd1, %rd3;\n"
        "  ld.global.u32 %r1, [%rd4];\n  ld.global.u32 %r2, [%rd2+4];\n"
        "  ld.param.u32 %r3, [n];\n  ld.param.u32 %r4, [m];\n  mov.u32 %r5, %tid.x;\n"
        "  setp.lt.s32 %p0, %r1, %r2;\n  setp.eq.u32 %p1, %r1, %r3;\n  setp.ne.u32 %p2, %r0, 1;\n";
    for (int i = 0; i < instructions; ++i) Instruction();
    if (in_loop_) CloseLoop();
    for (; open_ > 0; --open_) text_ += fmt::format("L{}:\n", labels_ - open_);
    return text_ +
           fmt::format(
               "  st.global.u32 [%rd0], {};\n  selp.u32 %r1, {}, {}, {};\n  st.global.u32 [%rd0+4], %r1;\n  ret;\n}}\n",
               Register(), Register(), Register(), Predicate());
  }

 private:
  std::string Register() { return fmt::format("%r{}", 1 + random_.Below(5)); }
  std::string Predicate() { return fmt::format("%p{}", random_.Below(3)); }
  std::string Operand() { return random_.Below(3) == 0 ? fmt::format("{}", RandomNumber(random_)) : Register(); }
  std::string Amount() { return random_.Below(2) == 0 ? fmt::format("{}", random_.Below(40)) : Operand(); }
  const char* Sign() { return random_.Below(2) == 0 ? "s32" : "u32"; }

  // Also where a branch into the loop skipped the counter's start, it ends.
  void CloseLoop() {
    text_ += fmt::format("  add.s32 %r6, %r6, -1;\n  setp.gt.s32 %p4, %r6, 0;\n  @%p4 bra LOOP{};\n", loops_);
    in_loop_ = false;
  }

  void Instruction() {
    if (random_.Below(12) == 0) {  // skips forward, over what comes until the label
      text_ += fmt::format("  @{}{} bra L{};\n", random_.Below(2) == 0 ? "!" : "", Predicate(), labels_++);
      ++open_;
      return;
    }
    if (open_ > 0 && random_.Below(4) == 0) {
      const int oldest = labels_ - open_;
      if (random_.Below(2) == 0) {  // what follows is the other side
        text_ += fmt::format("  bra L{};\n", labels_++);
        ++open_;
      }
      text_ += fmt::format("L{}:\n", oldest);
      --open_;
    }
    if (!in_loop_ && random_.Below(15) == 0) {
      text_ += fmt::format("  mov.u32 %r6, {};\nLOOP{}:\n", 1 + random_.Below(4), ++loops_);
      in_loop_ = true;
    } else if (in_loop_ && random_.Below(6) == 0) {
      CloseLoop();
    }
    std::string guard;
    if (random_.Below(4) == 0) guard = fmt::format("@{}{} ", random_.Below(2) == 0 ? "!" : "", Predicate());
    text_ += "  " + guard + Body() + "\n";
  }

  std::string Body() {
    static constexpr const char* arithmetic[] = {"add.{}", "sub.{}", "mul.lo.{}", "min.{}", "max.{}"};
    static constexpr const char* logic[] = {"and.b32", "or.b32", "xor.b32"};
    static constexpr const char* unary[] = {"neg.s32", "abs.s32",  "not.b32",   "popc.b32",
                                            "clz.b32", "brev.b32", "bfind.s32", "bfind.u32"};
    static constexpr const char* compare[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    static constexpr const char* boolean[] = {"and", "or", "xor"};
    const std::string d = Register();
    switch (random_.Below(17)) {
      case 0:
      case 1:
        return fmt::format("{} {}, {}, {};", fmt::format(fmt::runtime(arithmetic[random_.Below(5)]), Sign()), d,
                           Register(), Operand());
      case 2:
        return random_.Below(3) == 0 ? fmt::format("mul.hi.{} {}, {}, {};", Sign(), d, Register(), Operand())
                                     : fmt::format("mad.{}.{} {}, {}, {}, {};", random_.Below(4) == 0 ? "hi" : "lo",
                                                   Sign(), d, Register(), Operand(), Operand());
      case 3:
        return fmt::format("{} {}, {}, {};", logic[random_.Below(3)], d, Register(), Operand());
      case 4:
        return fmt::format("{} {}, {};", unary[random_.Below(8)], d, Register());
      case 5:
        return fmt::format("shl.b32 {}, {}, {};", d, Operand(), Amount());
      case 6:
        return fmt::format("shr.{} {}, {}, {};", Sign(), d, Operand(), Amount());
      case 7:
        return fmt::format("shf.{}.{}.b32 {}, {}, {}, {};", random_.Below(2) == 0 ? "l" : "r",
                           random_.Below(2) == 0 ? "wrap" : "clamp", d, Operand(), Register(), Amount());
      case 8:
        return fmt::format("bfe.{} {}, {}, {}, {};", Sign(), d, Register(), Amount(), Amount());
      case 9:
        return fmt::format("bfi.b32 {}, {}, {}, {}, {};", d, Register(), Operand(), Amount(), Amount());
      case 10:
        return fmt::format("lop3.b32 {}, {}, {}, {}, {};", d, Register(), Register(), Register(), random_.Below(256));
      case 11:
        return fmt::format("setp.{}.{} {}, {}, {};", compare[random_.Below(6)], Sign(), Predicate(), Register(),
                           Operand());
      case 12:
        return fmt::format("setp.{}.{}.{} {}, {}, {}, {}{};", compare[random_.Below(6)], boolean[random_.Below(3)],
                           Sign(), random_.Below(2) == 0 ? Predicate() : Predicate() + "|%p3", Register(), Operand(),
                           random_.Below(2) == 0 ? "!" : "", Predicate());
      case 13:
        return fmt::format("selp.b32 {}, {}, {}, {};", d, Operand(), Operand(), Predicate());
      case 14:
        return fmt::format("{}.pred {}, {}, {};", boolean[random_.Below(3)], Predicate(), Predicate(), Predicate());
      case 15:
        return random_.Below(2) == 0 ? fmt::format("set.{}.u32.{} {}, {}, {};", compare[random_.Below(6)], Sign(), d,
                                                   Register(), Operand())
                                     : fmt::format("slct.u32.s32 {}, {}, {}, {};", d, Operand(), Operand(), Register());
      default:
        return random_.Below(2) == 0 ? fmt::format("st.global.u32 [%rd0+{}], {};", 4 * random_.Below(2), Operand())
                                     : fmt::format("ld.global.u32 {}, [%rd0+{}];", d, 4 * random_.Below(2));
    }
  }

  SplitMix64 random_;
  std::string text_;
  int open_ = 0, labels_ = 0, loops_ = 0;
  bool in_loop_ = false;
};

}  // namespace

std::string RandomPtxSource(uint64_t seed, int instructions) { return PtxWriter(seed).Module(instructions); }

std::string WithShuffledLines(const std::string& ptx, uint64_t seed) {
  constexpr size_t kFirstBodyLine = 8;  // after the declarations
  std::vector<std::string> lines;
  for (size_t at = 0; at < ptx.size();) {
    const size_t end = ptx.find('\n', at);
    lines.push_back(ptx.substr(at, end - at + 1));
    at = end + 1;
  }
  SplitMix64 random(seed);
  const auto any = [&] {
    return kFirstBodyLine + random.Below(static_cast<uint32_t>(lines.size() - kFirstBodyLine - 1));
  };
  for (uint32_t edits = 1 + random.Below(4); edits > 0; --edits) {
    const size_t line = any();
    switch (random.Below(3)) {
      case 0:
        lines.erase(lines.begin() + static_cast<long>(line));
        break;
      case 1:
        lines.insert(lines.begin() + static_cast<long>(any()), std::string(lines[line]));
        break;
      default:
        std::swap(lines[line], lines[any()]);
    }
  }
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

}  // namespace qgpu
