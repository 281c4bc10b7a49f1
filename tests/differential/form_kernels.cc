// The kernel around an instruction form, and its launches.
#include "fmt/format.h"
#include "tests/differential/instruction_forms.h"

namespace qgpu {
namespace {

uint32_t OperandWord(SplitMix64& random, bool small) {
  static constexpr uint32_t kEdges[] = {0,          1,          2,          0xffffffff, 0x80000000, 0x7fffffff,
                                        0x80000001, 0xfffffffe, 0xffff,     0x8000,     0x7fff,     0xff,
                                        0x80,       0x7f,       0x10000,    0xffff8000, 0xffffff80, 0x01234567,
                                        0xff00,     0x80ff7f01, 0x55555555, 0xcccccccc, 31,         32};
  switch (random.Below(small ? 6 : 4)) {
    case 0:
      return random.Next32();
    case 1:
      return random.Next32() >> random.Below(32);
    case 2:
    case 3:
      return kEdges[random.Below(std::size(kEdges))];
    default:
      return random.Below(72);
  }
}

// Writes the kernel of a form: what comes before the instruction, it, and what follows.
class KernelWriter {
 public:
  KernelWriter(bool immediate, bool guarded, SplitMix64& random)
      : immediate_(immediate), guarded_(guarded), random_(random) {}

  FormKernel Run(const std::string& form) {
    // Operands that several instructions share.
    for (const char* shared : {"%x16", "%y16", "%x32", "%y32", "%x64", "%y64"}) {
      const std::string name = shared;
      if (form.find(name) == std::string::npos || form.find(fmt::format("cvt.u64.u32 {}", name)) != std::string::npos ||
          form.find(fmt::format("cvt.s64.s32 {}", name)) != std::string::npos) {
        continue;
      }
      LoadSource(name, std::stoi(name.substr(2)));
    }
    if (guarded_) {
      LoadWord("%t");
      before_ += "  setp.ne.u32 %g, %t, 0;\n";
    }
    const size_t last_source = LastSource(form);
    std::string body;
    for (size_t at = 0; at < form.size();) {
      if (form[at] != '{' || form.find_first_of("{}", at + 1) == std::string::npos ||
          form[form.find_first_of("{}", at + 1)] == '{') {
        body += form[at++];
        continue;
      }
      const size_t end = form.find('}', at);
      const std::string operand = form.substr(at + 1, end - at - 1);
      if (operand.find_first_of("DSN") != 0) {
        body += form[at++];
        continue;
      }
      body += immediate_ && at == last_source ? Immediate(operand) : Operand(operand);
      at = end + 1;
    }
    if (guarded_) body = fmt::format("@%g {}", body);
    return {Text(body), sources_, results_};
  }

 private:
  static size_t LastSource(const std::string& form) {
    size_t last = std::string::npos;
    for (size_t at = form.find('{'); at != std::string::npos; at = form.find('{', at + 1)) {
      const char kind = form[at + 1];
      if ((kind == 'S' && form[at + 2] != 'P') || kind == 'N') last = at;
    }
    return last;
  }

  std::string Immediate(const std::string& operand) {
    if (operand[0] == 'N') return fmt::format("{}", random_.Below(random_.Below(2) == 0 ? 72 : 256));
    const uint32_t word = OperandWord(random_, false);
    if (operand.substr(1) == "16") return fmt::format("{}", static_cast<int16_t>(word));
    if (operand.substr(1) == "64") {
      return fmt::format("{}", static_cast<int64_t>(uint64_t{OperandWord(random_, false)} << 32 | word));
    }
    return fmt::format("{}", static_cast<int32_t>(word));
  }

  void LoadWord(const std::string& name) {
    before_ += fmt::format("  ld.global.u32 {}, [%in+{}];\n", name, 4 * words_++);
  }

  void LoadSource(const std::string& name, int bits) {
    sources_ += 1 + (bits == 64);
    LoadWord(bits == 32 ? name : "%t");
    if (bits == 16) before_ += fmt::format("  cvt.u16.u32 {}, %t;\n", name);
    if (bits == 64) {
      LoadWord("%u");
      before_ += fmt::format("  mov.b64 {}, {{%t, %u}};\n", name);
    }
  }

  std::string Operand(const std::string& operand) {
    const bool is_result = operand[0] == 'D', is_predicate = operand[1] == 'P';
    const int bits = is_predicate ? 1 : std::stoi(operand.substr(1));
    const std::string name =
        fmt::format("%{}{}_{}", is_result ? "d" : "s", is_predicate ? "p" : operand.substr(1), count_++);
    declarations_ += fmt::format("  .reg .{} {};\n", is_predicate ? "pred" : fmt::format("b{}", bits), name);
    if (is_predicate && (!is_result || guarded_)) {
      LoadWord("%t");
      ++sources_;
      before_ += fmt::format("  and.b32 %t, %t, 1;\n  setp.ne.u32 {}, %t, 0;\n", name);
    } else if (!is_result || guarded_) {
      LoadSource(name, bits);
    }
    if (!is_result) return name;
    results_ += 1 + (bits == 64);
    const auto store = [&](const std::string& word) {
      after_ += fmt::format("  st.global.u32 [%out+{}], {};\n", 4 * stored_++, word);
    };
    if (is_predicate) after_ += fmt::format("  selp.u32 %t, 1, 0, {};\n", name);
    if (bits == 16) after_ += fmt::format("  cvt.u32.u16 %t, {};\n", name);
    if (bits == 64) after_ += fmt::format("  mov.b64 {{%t, %u}}, {};\n", name);
    store(bits == 32 ? name : "%t");
    if (bits == 64) store("%u");
    return name;
  }

  std::string Text(const std::string& body) const {
    return fmt::format(
        ".version 8.2\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u64 in)\n{{\n"
        "  .reg .pred %g, %q;\n  .reg .b32 %t, %u, %thread, %x32, %y32;\n  .reg .b16 %x16, %y16;\n  .reg .b8 %b<4>;\n"
        "  .reg .b64 %in, %out, %offset, %x64, %y64;\n{}"
        "  ld.param.u64 %out, [out];\n  ld.param.u64 %in, [in];\n  mov.u32 %thread, %tid.x;\n"
        "  mul.wide.u32 %offset, %thread, {};\n  add.s64 %in, %in, %offset;\n"
        "  mul.wide.u32 %offset, %thread, {};\n  add.s64 %out, %out, %offset;\n{}  {}\n{}  ret;\n}}\n",
        declarations_, 4 * words_, 4 * stored_, before_, body, after_);
  }

  const bool immediate_, guarded_;
  SplitMix64& random_;
  std::string declarations_, before_, after_;
  int count_ = 0, words_ = 0, stored_ = 0, sources_ = 0, results_ = 0;
};

}  // namespace

FormKernel KernelOfForm(const std::string& form, bool immediate, bool guarded, SplitMix64& random) {
  FormKernel kernel = KernelWriter(immediate, guarded, random).Run(form);
  kernel.sources += guarded;
  return kernel;
}

LaunchSpec LaunchOfForm(const FormKernel& kernel, int threads, SplitMix64& random) {
  LaunchSpec spec;
  spec.source = {"form.ptx", kernel.ptx, SourceLanguage::kPtx};
  spec.kernel = std::string("k");
  spec.block.x = static_cast<uint32_t>(threads);
  spec.token_budget = 200000;
  for (const char* name : {"out", "in"}) {
    KernelArgument argument;
    argument.name = name;
    argument.kind = KernelArgument::Kind::kBuffer;
    const int words = threads * (argument.name == "out" ? kernel.results : kernel.sources);
    for (int i = 0; i < words; ++i) {
      const bool is_out = argument.name == "out";
      argument.words.push_back(is_out ? 0xa5a5a5a5 : OperandWord(random, i % 2 == 1));
    }
    spec.arguments.push_back(argument);
  }
  return spec;
}

}  // namespace qgpu
