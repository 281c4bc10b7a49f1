#include "tests/differential/mixed_forms.h"

#include "fmt/format.h"

namespace qgpu {
namespace {

class Writer {
 public:
  Writer(const std::vector<std::string>& forms, SplitMix64& random) : forms_(forms), random_(random) {}

  FormKernel Run(int count) {
    text_ =
        ".version 8.2\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u64 in)\n{\n"
        "  .reg .pred %p<4>, %q;\n  .reg .b8 %b<4>;\n  .reg .b16 %s<3>;\n  .reg .b32 %r<4>, %t, %u, %count;\n"
        "  .reg .b64 %d<3>, %in, %out, %offset;\n"
        "  ld.param.u64 %out, [out];\n  ld.param.u64 %in, [in];\n  mov.u32 %t, %tid.x;\n"
        "  mul.wide.u32 %offset, %t, 40;\n  add.s64 %in, %in, %offset;\n"
        "  mul.wide.u32 %offset, %t, 32;\n  add.s64 %out, %out, %offset;\n";
    for (int i = 0; i < 4; ++i) text_ += fmt::format("  ld.global.u32 %r{}, [%in+{}];\n", i, 4 * i);
    for (int i = 0; i < 2; ++i) {
      text_ +=
          fmt::format("  ld.global.u32 %t, [%in+{}];\n  ld.global.u32 %u, [%in+{}];\n  mov.b64 %d{}, {{%t, %u}};\n",
                      16 + 8 * i, 20 + 8 * i, i);
    }
    text_ +=
        "  cvt.u64.u32 %d2, %r0;\n  ld.global.u32 %t, [%in+32];\n  mov.b32 {%s0, %s1}, %t;\n  cvt.u16.u32 %s2, %r1;\n"
        "  ld.global.u32 %t, [%in+36];\n  mov.u32 %count, 0;\n";
    for (int i = 0; i < 4; ++i) {
      text_ += fmt::format("  and.b32 %u, %t, {};\n  setp.ne.u32 %p{}, %u, 0;\n", 1 << i, i);
    }
    for (int i = 0; i < count; ++i) Step();
    if (in_loop_) CloseLoop();
    if (open_) text_ += fmt::format("L{}:\n", labels_);
    text_ +=
        "  st.global.u32 [%out], %r0;\n  st.global.u32 [%out+4], %r1;\n  cvt.u32.u16 %t, %s0;\n"
        "  add.u32 %t, %t, %r2;\n  st.global.u32 [%out+8], %t;\n  selp.u32 %t, 1, 0, %p0;\n"
        "  selp.u32 %u, 2, 0, %p1;\n  add.u32 %t, %t, %u;\n  st.global.u32 [%out+12], %t;\n";
    for (int i = 0; i < 2; ++i) {
      text_ +=
          fmt::format("  mov.b64 {{%t, %u}}, %d{};\n  st.global.u32 [%out+{}], %t;\n  st.global.u32 [%out+{}], %u;\n",
                      i, 16 + 8 * i, 20 + 8 * i);
    }
    return {text_ + "  ret;\n}\n", 10, 8};
  }

 private:
  void CloseLoop() {
    text_ += fmt::format(
        "  add.u32 %count, %count, 1;\n  setp.lt.u32 %q, %count, {};\n  @%q bra LOOP{};\n  mov.u32 %count, 0;\n",
        2 + random_.Below(3), loops_);
    in_loop_ = false;
  }

  void Step() {
    const uint32_t what = random_.Below(8);
    if (what == 0 && !open_) {
      text_ += fmt::format("  @{}%p{} bra L{};\n", random_.Below(2) == 0 ? "!" : "", random_.Below(4), ++labels_);
      open_ = true;
    } else if (what == 1 && open_) {
      text_ += fmt::format("L{}:\n", labels_);
      open_ = false;
    } else if (what == 2 && !in_loop_ && !open_) {
      text_ += fmt::format("LOOP{}:\n", ++loops_);
      in_loop_ = true;
    } else if (what == 3 && in_loop_ && !open_) {
      CloseLoop();
    }
    Form(forms_[random_.Below(static_cast<uint32_t>(forms_.size()))]);
  }

  std::string Register(const std::string& operand) {
    if (operand[1] == 'P') return fmt::format("%p{}", random_.Below(4));
    const std::string bits = operand.substr(1);
    if (operand[0] != 'D' && random_.Below(4) == 0) {
      return fmt::format("{}", operand[0] == 'N' || random_.Below(2) == 0 ? static_cast<int>(random_.Below(72))
                                                                          : -static_cast<int>(random_.Below(30000)));
    }
    if (bits == "16") return fmt::format("%s{}", random_.Below(3));
    return bits == "32" ? fmt::format("%r{}", random_.Below(4)) : fmt::format("%d{}", random_.Below(3));
  }

  void Form(std::string form) {
    for (const auto& [from, to] : {std::pair{"%x16", "%s0"},
                                   {"%y16", "%s1"},
                                   {"%x32", "%r0"},
                                   {"%y32", "%r1"},
                                   {"%x64", "%d0"},
                                   {"%y64", "%d1"}}) {
      for (size_t at = form.find(from); at != std::string::npos; at = form.find(from)) form.replace(at, 4, to);
    }
    std::string body;
    for (size_t at = 0; at < form.size();) {
      const bool is_operand = form[at] == '{' && at + 1 < form.size() && std::string("DSN").find(form[at + 1]) < 3;
      if (!is_operand) {
        body += form[at++];
        continue;
      }
      const size_t end = form.find('}', at);
      body += Register(form.substr(at + 1, end - at - 1));
      at = end + 1;
    }
    if (random_.Below(5) == 0) body = fmt::format("@%p{} {}", random_.Below(4), body);
    text_ += fmt::format("  {}\n", body);
  }

  const std::vector<std::string>& forms_;
  SplitMix64& random_;
  std::string text_;
  int labels_ = 0, loops_ = 0;
  bool open_ = false, in_loop_ = false;
};

}  // namespace

FormKernel MixedKernel(const std::vector<std::string>& forms, int count, SplitMix64& random) {
  return Writer(forms, random).Run(count);
}

}  // namespace qgpu
