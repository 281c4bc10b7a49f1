// Random CUDA: statements a line each, so that shrink.h can take them away one by one.
#include "common/prng.h"
#include "fmt/format.h"
#include "tests/differential/random_kernels.h"

namespace qgpu {
namespace {

constexpr int kVariables = 4;

// Atomics on one word commute only among themselves, so each has its own.
constexpr char kPrelude[] =
    "#define ALL 0xffffffff\n#define C_ADD (&c[0])\n#define C_MAX (&c[1])\n#define C_MIN (&c[2])\n#define C_AND "
    "(&c[3])\n"
    "#define C_OR (&c[4])\n#define C_XOR (&c[5])\n#define C_UMAX ((unsigned*)&c[6])\n#define C_INC ((unsigned*)&c[7])\n"
    "__constant__ int table[8] = {3, -1, 0, 7, 0x7fffffff, 100, -65536, 12};\n"
    "__constant__ unsigned char bytes[8] = {0, 255, 1, 128, 127, 9, 64, 2};\n"
    "__device__ __noinline__ int f0(int p, int q) { return p > q ? p - q : (p ^ q) + 1; }\n"
    "__device__ __noinline__ int f1(int p, const int* q) {\n"
    "  for (int j = 0; j < (p & 3); ++j) p += q[j];\n  return p;\n}\n";

class CudaWriter {
 public:
  CudaWriter(uint64_t seed, unsigned features) : random_(seed) {
    for (uint32_t i = random_.Below(3); i > 0; --i) features_ |= 1u << random_.Below(kRandomFeatures);
    features_ &= features;
  }

  RandomKernel Kernel(const std::string& name) {
    text_ = fmt::format("__global__ void {}(int* out, int* c, const int* a, const int* b, int n, int m) {{\n", name);
    Line("int t = threadIdx.x, i = blockIdx.x * blockDim.x + t; //!");
    Line("int* o = out + 2 * i; //!");
    if (Has(kRandomShared)) Line("__shared__ int s[16], u[1]; //!");
    // A thread that is gone leaves its word of s as it was.
    if (!Has(kRandomShared) && OneIn(Has(kRandomWarp) ? 6 : 2)) Line("if (i >= n) return;");
    for (int v = 0; v < kVariables; ++v) {
      Line(fmt::format("{} x{} = {};", OneIn(3) ? "unsigned" : "int", v, Leaf()));
      variables_ = v + 1;
    }
    if (Has(kRandomWide)) Line(fmt::format("long long w = {}, v = x0;", Leaf()));
    if (Has(kRandomLocal)) Line("int l[4] = {(int)x0, (int)x1, 5, i};");
    const int statements = 1 + static_cast<int>(random_.Below(4));
    for (int s = 0; s < statements; ++s) TopStatement();
    Line(fmt::format("o[0] = {};", Expression(2)));
    if (OneIn(2)) Line(fmt::format("o[1] = {};", Has(kRandomWide) ? "(int)(w >> 32)" : Expression(1)));
    return {name, features_, text_ + "}\n"};
  }

 private:
  bool OneIn(uint32_t n) { return random_.Below(n) == 0; }
  bool Has(unsigned feature) const { return (features_ & feature) != 0; }
  // Whether to use a feature of the kernel now.
  bool Uses(unsigned feature, uint32_t one_in) { return Has(feature) && OneIn(one_in); }
  const char* Any(std::initializer_list<const char*> choices) {
    return choices.begin()[random_.Below(static_cast<uint32_t>(choices.size()))];
  }
  void Line(const std::string& line) { text_ += std::string(2 * (depth_ + 1), ' ') + line + "\n"; }
  void Open(const std::string& line) {
    Line(line);
    ++depth_;
  }
  void Close(const char* line = "}") {
    --depth_;
    Line(line);
  }
  std::string Variable() { return fmt::format("x{}", random_.Below(kVariables)); }
  std::string NewCounter() { return fmt::format("j{}", counters_++); }

  std::string Number() {
    const int32_t number = RandomNumber(random_);
    return number == -0x7fffffff - 1 ? "(-0x7fffffff - 1)" : fmt::format("({})", number);
  }

  std::string Leaf() {
    switch (random_.Below(9)) {
      case 0:
        return Number();
      case 1:
        return "n";
      case 2:
        return "m";
      case 3:
        return "i";
      case 4:
        return fmt::format("a[{} & 7]", OneIn(2) ? "i" : "n");
      case 5:
        return fmt::format("b[{}]", random_.Below(8));
      default:
        return variables_ < kVariables ? Number() : Variable();
    }
  }

  // An expression of the kernel's features; "" for none.
  std::string Special(int depth) {
    const auto e = [&] { return Expression(depth - 1); };
    if (Uses(kRandomDivision, 4)) {
      return fmt::format("({0}({1}) {2} {0}({3}))", Any({"(unsigned)", "(int)"}), e(), Any({"/", "%"}), e());
    }
    if (Uses(kRandomNarrow, 5)) {
      return fmt::format("((const {}*){})[({}) & {}]", Any({"signed char", "unsigned char", "short", "unsigned short"}),
                         Any({"a", "b"}), e(), Any({"3", "15"}));
    }
    if (Uses(kRandomLocal, 5)) return fmt::format("l[({}) & 3]", e());
    if (Uses(kRandomFar, 4)) {  // the first word, or where no engine has memory
      return fmt::format("a[(({}) & {}) * {}]", e(), Any({"1", "7"}), Any({"100", "0x1000000", "-0x1000000"}));
    }
    if (Uses(kRandomConstant, 5)) return fmt::format("{}[({}) & 7]", Any({"table", "bytes"}), e());
    if (Uses(kRandomCalls, 5)) return OneIn(3) ? fmt::format("f1({}, b)", e()) : fmt::format("f0({}, {})", e(), e());
    if (Uses(kRandomWide, 5)) {
      return Any({"(int)w", "(int)(w >> 32)", "(int)(w >> (x0 & 63))", "(w < v)", "(v == 0)", "(int)min(w, v)"});
    }
    return "";
  }

  std::string Expression(int depth) {
    if (depth == 0 || OneIn(5)) return Leaf();
    if (const std::string special = Special(depth); !special.empty()) return special;
    const auto e = [&] { return Expression(depth - 1); };
    switch (random_.Below(14)) {
      case 0:
        return fmt::format("({} << ({} & 31))", e(), e());
      case 1:
        return fmt::format("({}({}) >> ({} & 31))", Any({"(int)", "(unsigned)"}), e(), e());
      case 2:
        return fmt::format("__{}((int)({}), (int)({}))", Any({"mulhi", "mul24"}), e(), e());
      case 3:
        return fmt::format("({} ? {} : {})", Condition(depth - 1), e(), e());
      case 4:
      case 5:
        return fmt::format("{0}({1}({2}), {1}({3}))", Any({"min", "max"}), Any({"(int)", "(unsigned)"}), e(), e());
      case 6:
        return fmt::format("a[({}) & 7]", e());
      case 7:
        if (OneIn(3)) {
          return fmt::format("({}({}) {} {})", Any({"(unsigned)", "(int)"}), e(), Any({"/", "%"}),
                             3 + random_.Below(9));
        }
        return fmt::format("{}({})", Any({"~", "-", "!"}), e());
      case 8:
        return fmt::format("{}({})", Any({"__popc", "__clz", "__brev", "__ffs"}), e());
      case 9:
        return OneIn(2)
                   ? fmt::format("abs((int)({}))", e())
                   : fmt::format("({})({})", Any({"short", "unsigned char", "unsigned short", "signed char"}), e());
      default:
        return fmt::format("({} {} {})", e(), Any({"+", "-", "*", "&", "|", "^", "+", "*"}), e());
    }
  }

  std::string Condition(int depth) {
    if (depth > 0 && OneIn(4)) {
      return fmt::format("({} {} {})", Condition(depth - 1), Any({"&&", "||"}), Condition(depth - 1));
    }
    const char* cast = OneIn(3) ? "(unsigned)" : "(int)";
    return fmt::format("({}({}) {} {}({}))", cast, Expression(depth), Any({"<", "<=", ">", ">=", "==", "!="}), cast,
                       Leaf());
  }

  // What every thread of the thread block gets to.
  void TopStatement() {
    if (Uses(kRandomShared, 2)) return Shared();
    if (Uses(kRandomWarp, 2)) return Warp();
    if ((Has(kRandomShared) || Has(kRandomWarp)) && OneIn(6)) {
      Open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", NewCounter(), OneIn(2) ? "(n & 3)" : "3"));
      Has(kRandomShared) ? Shared() : Warp();
      Line(fmt::format("{} += {};", Variable(), Expression(1)));
      return Close();
    }
    Statement(0);
  }

  void Shared() {
    const std::string x = Variable();
    Open("{");
    if (OneIn(3)) {
      Line("if (t == 0) u[0] = n; //!");
      Line("__syncthreads(); //!");
      Line(fmt::format("{}(&u[0], {});", Any({"atomicAdd", "atomicMax", "atomicXor", "atomicOr"}), Expression(1)));
      Line("__syncthreads(); //!");
      Line(fmt::format("{} += u[0];", x));
    } else {
      Line(fmt::format("s[t] = {}; //!", Expression(1)));
      Line("__syncthreads(); //!");
      if (OneIn(3)) {
        Open("for (int d = 8; d > 0; d >>= 1) {");
        Line(fmt::format("if (t < d && t + d < blockDim.x) s[t] {} s[t + d]; //!", Any({"+=", "^=", "|="})));
        Line("__syncthreads(); //!");
        Close();
        Line(fmt::format("{} += s[0];", x));
      } else if (OneIn(2)) {
        Line(fmt::format("{} ^= s[blockDim.x - 1 - t]; //!", x));
      } else {
        Line(fmt::format("{} += s[min(({}) & 15, (int)blockDim.x - 1)]; //!", x, Expression(1)));
      }
    }
    Line("__syncthreads(); //!");
    Close();
  }

  void Warp() {
    const std::string x = Variable(), y = Variable();
    switch (random_.Below(7)) {
      case 0:
        return Line(fmt::format("{} = __shfl_xor_sync(ALL, {}, {});", x, y, Any({"1", "2", "3", "4", "8"})));
      case 1:
        return Line(fmt::format("{} += __shfl_{}_sync(ALL, {}, {}, {});", x, Any({"down", "up"}), y,
                                Any({"1", "2", "4", "(n & 7)"}), Any({"2", "4", "8", "32"})));
      case 2:
        return Line(
            fmt::format("{} ^= __shfl_sync(ALL, {}, {}, {});", x, y, OneIn(2) ? "0" : Expression(1), Any({"4", "32"})));
      case 3:
        return Line(fmt::format("{} += __ballot_sync(ALL, {});", x, Condition(1)));
      case 4:
        return Line(fmt::format("{} += {}(ALL, {});", x, Any({"__any_sync", "__all_sync"}), Condition(1)));
      case 5:
        return Line(fmt::format("{} += __match_any_sync(ALL, ({}) & 3);", x, y));
      default:
        return Line(fmt::format("{} += {};", x, Any({"__syncthreads_count(x0 > n)", "__syncthreads_or(x1 == 0)"})));
    }
  }

  // Loops over arrays as everybody writes them: LLVM turns them into pointers that walk.
  void WalkArrays() {
    const std::string j = NewCounter(), x = Variable(), count = OneIn(2) ? "(n & 7)" : "(m & 7)";
    switch (random_.Below(4)) {
      case 0:
        return Line(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {2} += a[{0}] * b[{0}];", j, count, x));
      case 1:
        return Line(
            fmt::format("for (int {0} = {1} - 1; {0} >= 0; --{0}) {2} = {2} * {3} + a[{0}];", j, count, x, Leaf()));
      case 2:
        return Line(
            fmt::format("for (int {0} = i & 3; {0} < 8; {0} += 2) {2} = max((int){2}, a[{0}] ^ {0});", j, count, x));
      default:
        return Line(
            fmt::format("for (const int* p{0} = a; p{0} != a + {1}; ++p{0}) {2} ^= *p{0} + b[1];", j, count, x));
    }
  }

  // A statement of the kernel's features, if one is wanted.
  bool SpecialStatement() {
    if (Uses(kRandomAtomics, 3)) {
      const char* with = Any({"atomicAdd(C_ADD", "atomicMax(C_MAX", "atomicMin(C_MIN", "atomicAnd(C_AND",
                              "atomicOr(C_OR", "atomicXor(C_XOR", "atomicMax(C_UMAX", "atomicInc(C_INC"});
      const bool is_inc = std::string(with) == "atomicInc(C_INC";
      Line(fmt::format("{}, {});", with, is_inc ? "5" : Expression(1)));
    } else if (Uses(kRandomWide, 3)) {
      Line(fmt::format("{} {} {}({});", Any({"w", "v"}), Any({"=", "+=", "-=", "*=", "^=", "&=", "|="}),
                       Any({"", "(unsigned)", "(long long)x1 * "}), Expression(1)));
    } else if (Uses(kRandomWide, 4)) {
      Line(fmt::format("w {} ({} & 63);", Any({"<<=", ">>="}), Expression(1)));
    } else if (Uses(kRandomNarrow, 3)) {
      Line(OneIn(2) ? fmt::format("((signed char*)o)[{}] = {};", random_.Below(8), Expression(1))
                    : fmt::format("((short*)o)[({}) & 3] = {};", Expression(1), Expression(1)));
    } else if (Uses(kRandomLocal, 3)) {
      Line(fmt::format("l[({}) & 3] {} {};", Expression(1), Any({"=", "+="}), Expression(1)));
    } else if (Uses(kRandomFar, 6)) {
      Line(fmt::format("if (({}) & 1) o[{}] = {};", Expression(1), Any({"200", "0x10000000", "-0x8000000"}),
                       Expression(1)));
    } else if (Uses(kRandomSwitch, 2)) {
      Open(fmt::format("switch (({}) & 7) {{", Expression(1)));
      for (uint32_t k = 0, count = 2 + random_.Below(4); k < count; ++k) {
        Line(fmt::format("case {}: {} {} {};{}", k, Variable(), Any({"=", "+="}), Expression(1),
                         OneIn(5) ? "" : " break;"));
      }
      Close();
    } else {
      return false;
    }
    return true;
  }

  void Statement(int nesting) {
    if (SpecialStatement()) return;
    if (nesting < 2 && OneIn(6)) return WalkArrays();
    const uint32_t kind = random_.Below(nesting >= 2 ? 4 : 10);
    if (kind == 3) return Line(fmt::format("o[{}] = {};", random_.Below(2), Expression(1)));
    if (kind < 4) return Line(fmt::format("{} {} {};", Variable(), Any({"=", "+="}), Expression(2)));
    const std::string counter = NewCounter();
    if (kind < 6) {
      Open(fmt::format("if ({}) {{", Condition(1)));
    } else if (kind == 6) {
      Open(fmt::format("for (int {0} = 0; {0} < ({1} & 7); ++{0}) {{", counter, Leaf()));
    } else if (kind == 7) {
      Open(fmt::format("for (int {0} = {1} & 7; {0} > 0; {0} -= {2}) {{", counter, Leaf(), 1 + random_.Below(2)));
    } else if (kind == 8) {
      Line(fmt::format("int {} = {} & 7;", counter, Leaf()));
      Open("do {");
    } else {
      Open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", counter, 2 + random_.Below(20)));
    }
    if (kind >= 6 && OneIn(2)) Line(fmt::format("{} += a[{} & 7] * {};", Variable(), counter, Leaf()));
    if (kind >= 6 && OneIn(4)) Line(fmt::format("if ({}) {};", Condition(0), OneIn(2) ? "break" : "continue"));
    const int count = 1 + static_cast<int>(random_.Below(2));
    for (int s = 0; s < count; ++s) Statement(nesting + 1);
    if (kind == 5) {
      --depth_;
      Open("} else {");
      Statement(nesting + 1);
    }
    Close(kind == 8 ? fmt::format("}} while (--{} > 0);", counter).c_str() : "}");
  }

  SplitMix64 random_;
  unsigned features_ = 0;
  std::string text_;
  int depth_ = 0, counters_ = 0, variables_ = 0;
};

}  // namespace

const char* RandomFeatureName(int bit) {
  static constexpr const char* names[kRandomFeatures] = {"shared", "atomics",  "warp",  "wide",   "division", "narrow",
                                                         "local",  "constant", "calls", "switch", "far"};
  return names[bit];
}

RandomCudaFile RandomCuda(uint64_t seed, int count, unsigned features) {
  RandomCudaFile file;
  file.prelude = kPrelude;
  file.source = {fmt::format("random{}.cu", seed), file.prelude, SourceLanguage::kCuda};
  for (int k = 0; k < count; ++k) {
    file.kernels.push_back(CudaWriter(seed * 1000 + static_cast<uint64_t>(k), features).Kernel(fmt::format("k{}", k)));
    file.source.text += file.kernels.back().text;
  }
  return file;
}

}  // namespace qgpu
