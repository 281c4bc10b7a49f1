// PTX as a syntax tree: what a .ptx file says, with names resolved and source lines attached, and no opinion on which
// instructions anybody can run. Entry point: ParsePtx. Both the machine's lowering and the native-cpu oracle start here
// and share nothing else.
//
// Scopes are resolved by the parser: a body is one flat list of instructions, and where an inner `{ }` declares a name
// that the function already has, the later one is renamed ("%p" becomes "%p@2"), so names are unique per function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace qgpu::ptx {

inline constexpr size_t kMaxPtxBytes = size_t{4} << 20;  // far above any kernel, small enough to parse in a second
inline constexpr int kMaxNesting = 64;                   // of scopes, braces and parentheses
inline constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 31;

// A fundamental type, written without its dot ("u32", "b64", "pred", "f32", "f16x2").
struct TypeInfo {
  enum class Kind { kUnsigned, kSigned, kBits, kFloat, kPredicate };
  Kind kind;
  int bits;  // 1 for pred
};
// nullopt for anything that is not a fundamental type.
std::optional<TypeInfo> LookUpType(std::string_view type);

enum class Space { kReg, kGlobal, kShared, kConst, kLocal, kParam };
// "global", "shared", ...
std::string_view SpaceName(Space space);

struct Operand {
  enum class Kind {
    kRegister,  // declared by .reg: `index` into Function::registers
    kSpecial,   // special register, with its component: "%tid.x"
    kInteger,   // `value`: literals, constant expressions and WARP_SZ (32), 64-bit two's complement
    kFloat,     // 0f3f800000, 0d..., 1.5: `value` holds the bits of the single or double
    kSymbol,    // variable, parameter or function: `name`, plus `value` bytes; `index` into Function::variables where
                // it is one of those, otherwise -1
    kLabel,     // label of this function: `index` into Function::labels
    kTargets,   // name of a .branchtargets list: `index` into Function::branch_targets
    kAddress,   // [base + value]: elements[0] is the base (kRegister, kSymbol or kSpecial), or no element: absolute;
                // more elements only for textures: [tex, {a, b}]
    kVector,    // {a, b}: elements
    kPair,      // p|q: two elements
    kSink,      // _
    kList,      // (a, b) of a call: elements, maybe none
  };
  Kind kind = Kind::kInteger;
  std::string name;       // unique name of a register, special register, symbol or label
  std::string component;  // "x" of a vector register, "b0" or "h1" of a video instruction; usually empty
  int index = -1;
  uint64_t value = 0;
  bool negated = false;      // !p
  bool is_unsigned = false;  // of an integer: the expression's PTX type is .u64
  bool is_double = false;    // of a float
  std::vector<Operand> elements;
};

// Where an instruction comes from. `line` is in PTX's .file `file`; `cuda_line` is the line in .file `cuda_file`, the
// source file of the function: for code that was inlined from another one, the line of the call where .loc tells it,
// otherwise the latest known line of the function's file. 0: unknown.
struct SourceLocation {
  int ptx_line = 0;
  int file = 0, line = 0, column = 0;
  int cuda_file = 0, cuda_line = 0;
};

struct Instruction {
  std::optional<Operand> guard;        // @p or @!p: a kRegister with `negated`
  std::string opcode;                  // "setp"
  std::vector<std::string> modifiers;  // {"lt", "s32"}
  std::vector<Operand> operands;
  SourceLocation location;

  bool Has(std::string_view modifier) const;
  // "setp.lt.s32"
  std::string FullName() const;
};

// A register that the body uses. Declarations such as %r<1000> give one entry per register used.
struct Register {
  std::string name;
  std::string type;  // "b32", "pred", ...
  int vector = 1;    // 2 or 4 for .v2, .v4
};

struct Label {
  std::string name;
  int instruction = 0;  // index of the instruction it stands before; instructions.size() at the end
  int ptx_line = 0;
};

// name: .branchtargets L1, L2;  (targets are indices into Function::labels)
struct BranchTargets {
  std::string name;
  std::vector<int> targets;
  int ptx_line = 0;
};

// One initialised element of a variable; elements that are not mentioned are zero.
struct Initializer {
  uint64_t element = 0;  // flat index into the array
  Operand value;         // kInteger, kFloat, or kSymbol with `value` as byte offset
  bool generic = false;  // generic(symbol)
  uint64_t mask = 0;     // 0xff00(symbol): the mask; 0: none
};

struct Variable {
  Space space = Space::kGlobal;
  std::string name;
  std::string type;                  // element type
  int vector = 1;                    // 2 or 4 for .v2, .v4
  int alignment = 0;                 // bytes, as written; 0: natural, Align() gives the one that applies
  std::vector<uint64_t> dimensions;  // empty: a scalar; 0 in front: size unknown (extern .shared a[])
  std::vector<Initializer> initializers;
  bool is_extern = false, is_visible = false, is_weak = false;
  int ptx_line = 0;

  uint64_t Elements() const;  // product of dimensions
  uint64_t Bytes() const;     // at most kMaxVariableBytes
  int Align() const;          // bytes
};

// .maxntid 128, 1, 1 and its like.
struct Directive {
  std::string name;  // "maxntid"
  std::vector<uint64_t> values;
};

struct Function {
  bool is_entry = false;
  bool is_declaration = false;  // no body
  bool is_extern = false, is_visible = false, is_weak = false;
  std::string name;
  std::vector<Variable> parameters;         // Space::kParam, or kReg in the old style
  std::vector<Variable> return_parameters;  // of a .func
  std::vector<Directive> directives;
  std::vector<Register> registers;
  std::vector<Variable> variables;  // .local, .shared, .param, ... of the body, with unique names
  std::vector<Label> labels;
  std::vector<BranchTargets> branch_targets;
  std::vector<std::string> call_prototypes;  // names of .callprototype and .calltargets
  std::vector<Instruction> instructions;
  int ptx_line = 0;

  const Variable* FindVariable(std::string_view variable) const;    // of the body
  const Variable* FindParameter(std::string_view parameter) const;  // parameters and return parameters
};

struct File {
  int number = 0;
  std::string path;
};

struct Module {
  std::string name;                         // of the PTX file, for messages
  std::string version, target;              // "6.4", "sm_75"
  std::vector<std::string> target_options;  // what follows the architecture
  int address_size = 32;                    // PTX's default; 64 in practice
  std::vector<Variable> variables;
  std::vector<File> files;
  std::vector<Function> functions;  // a definition replaces its earlier declaration

  const Function* FindFunction(std::string_view function) const;
  const Variable* FindVariable(std::string_view variable) const;
  // The name of .file `number` without folders; empty where there is none.
  std::string FileName(int number) const;
};

// Bytes of the widest access that may reach a buffer, through a global or a generic address: 4, 8 or 16. Every engine
// lays the buffers out for it, see LayOutArena.
uint32_t WidestBufferAccess(const Module& module);

// The tree of `text`. kInvalidArgument "NAME:LINE: what is wrong" for anything that is not PTX syntax, for undeclared
// registers and labels that a branch names, for names declared twice, and for the limits above. Never fails on an
// unknown opcode. Ends for every text, in time linear in its length times its nesting.
absl::StatusOr<Module> ParsePtx(const std::string& name, std::string_view text);

// The entry called `name` in PTX, or whose name as written in CUDA is `name` ("f", "space::f", "f<int>", or just the
// last part of it); empty: the only entry with a body. kInvalidArgument listing the entries there are.
absl::StatusOr<const Function*> FindKernel(const Module& module, const std::string& name);

// The instruction as PTX, on one line: "@!%p1 ld.global.u32 %r1, [%rd2+4];".
std::string ToString(const Instruction& instruction);
std::string ToString(const Operand& operand);

// "NAME:PTXLINE" or "NAME:PTXLINE (CUDA line N)": how messages name a place.
std::string Place(const Module& module, const SourceLocation& location);

}  // namespace qgpu::ptx
