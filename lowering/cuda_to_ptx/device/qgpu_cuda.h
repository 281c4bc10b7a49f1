// clang-format off
// What CUDA code may use without a toolkit: the language's keywords and built-in variables, the integer device functions,
// the few C names that kernels include headers for, and enough of the host API that host code beside a kernel compiles.
// The compiler includes this file before every kernel, and finds it again under the names of the headers it stands for
// (cuda_runtime.h, stdint.h, ...; the list is in cuda_to_ptx.cc).
//
// Device functions are `nodebug`, so that the instructions they become carry the line of the kernel that calls them.
// What is declared here without a body (printf, malloc, vprintf's like) compiles to a call, which the lowering then
// refuses by name and line.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __grid_constant__ __attribute__((grid_constant))
#ifndef __CUDA_ARCH__
#error "qgpu_cuda.h is for the device side only"
#endif
#define __CUDACC__ 1
#define CUDART_VERSION 12000

// A host launch compiles to a call of this function; nobody else may provide it, since host code is not run.
#pragma GCC poison cudaConfigureCall

#define QGPU_DEVICE static __inline__ __attribute__((device, always_inline, nodebug))
#define QGPU_BOTH static __inline__ __attribute__((host, device, always_inline, nodebug))

// --- the C library's types, limits and functions

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef decltype(nullptr) nullptr_t;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __INTMAX_TYPE__ intmax_t;
typedef __UINTMAX_TYPE__ uintmax_t;
typedef int8_t int_least8_t, int_fast8_t;
typedef int16_t int_least16_t;
typedef int32_t int_least32_t;
typedef int64_t int_least64_t;
typedef uint8_t uint_least8_t, uint_fast8_t;
typedef uint16_t uint_least16_t;
typedef uint32_t uint_least32_t;
typedef uint64_t uint_least64_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#define NULL __null
#define offsetof(type, member) __builtin_offsetof(type, member)
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1

#define CHAR_BIT 8
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295U
#define LONG_MAX 9223372036854775807L
#define LONG_MIN (-LONG_MAX - 1L)
#define ULONG_MAX 18446744073709551615UL
#define LLONG_MAX 9223372036854775807LL
#define LLONG_MIN (-LLONG_MAX - 1LL)
#define ULLONG_MAX 18446744073709551615ULL
#define INT8_MIN SCHAR_MIN
#define INT8_MAX SCHAR_MAX
#define UINT8_MAX UCHAR_MAX
#define INT16_MIN SHRT_MIN
#define INT16_MAX SHRT_MAX
#define UINT16_MAX USHRT_MAX
#define INT32_MIN INT_MIN
#define INT32_MAX INT_MAX
#define UINT32_MAX UINT_MAX
#define INT64_MIN LONG_MIN
#define INT64_MAX LONG_MAX
#define UINT64_MAX ULONG_MAX
#define SIZE_MAX ULONG_MAX
#define INT8_C(c) c
#define INT16_C(c) c
#define INT32_C(c) c
#define INT64_C(c) c##L
#define UINT8_C(c) c
#define UINT16_C(c) c
#define UINT32_C(c) c##U
#define UINT64_C(c) c##UL

extern "C" {
__host__ __device__ int printf(const char* format, ...);
__host__ __device__ void* malloc(size_t bytes);
__host__ __device__ void free(void* pointer);
__host__ __device__ void* memcpy(void* to, const void* from, size_t bytes);
__host__ __device__ void* memset(void* to, int value, size_t bytes);
__device__ void __assertfail(const char* expression, const char* file, unsigned line, const char* function,
                             size_t char_bytes) __attribute__((noreturn));
__host__ int puts(const char* text);
__host__ int putchar(int character);
__host__ void* calloc(size_t count, size_t bytes);
__host__ void exit(int status) __attribute__((noreturn));
__host__ void abort() __attribute__((noreturn));
__host__ int atoi(const char* text);
__host__ int rand();
__host__ void srand(unsigned seed);
__host__ size_t strlen(const char* text);
__host__ int strcmp(const char* a, const char* b);
__host__ int memcmp(const void* a, const void* b, size_t bytes);
}

typedef struct qgpu_file FILE;
extern FILE *stdin, *stdout, *stderr;
extern "C" __host__ int fprintf(FILE* file, const char* format, ...);

#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __func__, 1))
#endif

namespace std {
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::intptr_t;
using ::nullptr_t;
using ::ptrdiff_t;
using ::size_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;

using ::abort;
using ::atoi;
using ::calloc;
using ::exit;
using ::fprintf;
using ::free;
using ::malloc;
using ::memcmp;
using ::memcpy;
using ::memset;
using ::printf;
using ::puts;
using ::rand;
using ::srand;
using ::strcmp;
using ::strlen;
}  // namespace std

// --- vector types

#define QGPU_VECTOR1(name, type)   \
  struct name##1 {                 \
    type x;                        \
  };                               \
  QGPU_BOTH name##1 make_##name##1(type x) { return name##1{x}; }
#define QGPU_VECTOR2(name, type, bytes)     \
  struct __attribute__((aligned(bytes))) name##2 { \
    type x, y;                              \
  };                                        \
  QGPU_BOTH name##2 make_##name##2(type x, type y) { return name##2{x, y}; }
#define QGPU_VECTOR3(name, type) \
  struct name##3 {               \
    type x, y, z;                \
  };                             \
  QGPU_BOTH name##3 make_##name##3(type x, type y, type z) { return name##3{x, y, z}; }
#define QGPU_VECTOR4(name, type, bytes)     \
  struct __attribute__((aligned(bytes))) name##4 { \
    type x, y, z, w;                        \
  };                                        \
  QGPU_BOTH name##4 make_##name##4(type x, type y, type z, type w) { return name##4{x, y, z, w}; }
#define QGPU_VECTORS(name, type)                                       \
  QGPU_VECTOR1(name, type)                                             \
  QGPU_VECTOR2(name, type, 2 * sizeof(type))                           \
  QGPU_VECTOR3(name, type)                                             \
  QGPU_VECTOR4(name, type, 4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type))

QGPU_VECTORS(char, signed char)
QGPU_VECTORS(uchar, unsigned char)
QGPU_VECTORS(short, short)
QGPU_VECTORS(ushort, unsigned short)
QGPU_VECTORS(int, int)
QGPU_VECTORS(uint, unsigned)
QGPU_VECTORS(long, long)
QGPU_VECTORS(ulong, unsigned long)
QGPU_VECTORS(longlong, long long)
QGPU_VECTORS(ulonglong, unsigned long long)
QGPU_VECTORS(float, float)
QGPU_VECTORS(double, double)

struct dim3 {
  unsigned x, y, z;
  __host__ __device__ __attribute__((nodebug)) constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1)
      : x(x), y(y), z(z) {}
  __host__ __device__ __attribute__((nodebug)) constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  __host__ __device__ __attribute__((nodebug)) constexpr operator uint3() const { return uint3{x, y, z}; }
};

// --- built-in variables

#define QGPU_SREG(name, reg, vector)                                                                        \
  struct qgpu_##name##_t {                                                                                  \
    __declspec(property(get = get_x)) unsigned x;                                                           \
    __declspec(property(get = get_y)) unsigned y;                                                           \
    __declspec(property(get = get_z)) unsigned z;                                                           \
    QGPU_SREG_GETTER(get_x, reg##_x) QGPU_SREG_GETTER(get_y, reg##_y) QGPU_SREG_GETTER(get_z, reg##_z)      \
    __attribute__((device, always_inline, nodebug)) operator vector() const { return vector{x, y, z}; }     \
    __attribute__((device, always_inline, nodebug)) operator QGPU_OTHER_##vector() const { return {x, y, z}; } \
                                                                                                            \
   private:                                                                                                 \
    qgpu_##name##_t() = delete;                                                                             \
    qgpu_##name##_t(const qgpu_##name##_t&) = delete;                                                       \
    void operator=(const qgpu_##name##_t&) const = delete;                                                  \
    qgpu_##name##_t* operator&() const = delete;                                                            \
  };                                                                                                        \
  extern const __attribute__((device, weak)) qgpu_##name##_t name;
#define QGPU_SREG_GETTER(getter, reg)                                          \
  static __inline__ __attribute__((device, always_inline, nodebug)) unsigned getter() { \
    return __nvvm_read_ptx_sreg_##reg();                                       \
  }
#define QGPU_OTHER_uint3 dim3
#define QGPU_OTHER_dim3 uint3
QGPU_SREG(threadIdx, tid, uint3)
QGPU_SREG(blockIdx, ctaid, uint3)
QGPU_SREG(blockDim, ntid, dim3)
QGPU_SREG(gridDim, nctaid, dim3)
static constexpr int warpSize = 32;

// --- integer functions

#define QGPU_MINMAX(a, b, result)                                             \
  QGPU_BOTH result min(a x, b y) { return (result)x < (result)y ? (result)x : (result)y; } \
  QGPU_BOTH result max(a x, b y) { return (result)x > (result)y ? (result)x : (result)y; }
QGPU_MINMAX(int, int, int)
QGPU_MINMAX(unsigned, unsigned, unsigned)
QGPU_MINMAX(int, unsigned, unsigned)
QGPU_MINMAX(unsigned, int, unsigned)
QGPU_MINMAX(long, long, long)
QGPU_MINMAX(unsigned long, unsigned long, unsigned long)
QGPU_MINMAX(long, unsigned long, unsigned long)
QGPU_MINMAX(unsigned long, long, unsigned long)
QGPU_MINMAX(long long, long long, long long)
QGPU_MINMAX(unsigned long long, unsigned long long, unsigned long long)
QGPU_MINMAX(long long, unsigned long long, unsigned long long)
QGPU_MINMAX(unsigned long long, long long, unsigned long long)
QGPU_MINMAX(float, float, float)
QGPU_MINMAX(double, double, double)
QGPU_BOTH unsigned umin(unsigned x, unsigned y) { return x < y ? x : y; }
QGPU_BOTH unsigned umax(unsigned x, unsigned y) { return x > y ? x : y; }
QGPU_BOTH long long llmin(long long x, long long y) { return x < y ? x : y; }
QGPU_BOTH long long llmax(long long x, long long y) { return x > y ? x : y; }
QGPU_BOTH unsigned long long ullmin(unsigned long long x, unsigned long long y) { return x < y ? x : y; }
QGPU_BOTH unsigned long long ullmax(unsigned long long x, unsigned long long y) { return x > y ? x : y; }

QGPU_BOTH int abs(int x) { return x < 0 ? -x : x; }
QGPU_BOTH long abs(long x) { return x < 0 ? -x : x; }
QGPU_BOTH long long abs(long long x) { return x < 0 ? -x : x; }
QGPU_BOTH long labs(long x) { return x < 0 ? -x : x; }
QGPU_BOTH long long llabs(long long x) { return x < 0 ? -x : x; }

QGPU_DEVICE int __popc(unsigned x) { return __builtin_popcount(x); }
QGPU_DEVICE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
QGPU_DEVICE int __clz(int x) { return __builtin_clzg((unsigned)x, 32); }
QGPU_DEVICE int __clzll(long long x) { return __builtin_clzg((unsigned long long)x, 64); }
QGPU_DEVICE int __ffs(int x) { return __builtin_ffs(x); }
QGPU_DEVICE int __ffsll(long long x) { return __builtin_ffsll(x); }
QGPU_DEVICE unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
QGPU_DEVICE unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
QGPU_DEVICE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) { return __nvvm_prmt(x, y, selector & 0x7777); }
QGPU_DEVICE unsigned __fns(unsigned mask, unsigned base, int offset) { return __nvvm_fns(mask, base, offset); }

QGPU_DEVICE int __mulhi(int x, int y) { return __nvvm_mulhi_i(x, y); }
QGPU_DEVICE unsigned __umulhi(unsigned x, unsigned y) { return __nvvm_mulhi_ui(x, y); }
QGPU_DEVICE long long __mul64hi(long long x, long long y) { return __nvvm_mulhi_ll(x, y); }
QGPU_DEVICE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) { return __nvvm_mulhi_ull(x, y); }
QGPU_DEVICE int __mul24(int x, int y) { return __nvvm_mul24_i(x, y); }
QGPU_DEVICE unsigned __umul24(unsigned x, unsigned y) { return __nvvm_mul24_ui(x, y); }
QGPU_DEVICE unsigned __sad(int x, int y, unsigned z) { return __nvvm_sad_i(x, y, z); }
QGPU_DEVICE unsigned __usad(unsigned x, unsigned y, unsigned z) { return __nvvm_sad_ui(x, y, z); }
QGPU_DEVICE int __hadd(int x, int y) { return (x & y) + ((x ^ y) >> 1); }
QGPU_DEVICE int __rhadd(int x, int y) { return (x | y) - ((x ^ y) >> 1); }
QGPU_DEVICE unsigned __uhadd(unsigned x, unsigned y) { return (x & y) + ((x ^ y) >> 1); }
QGPU_DEVICE unsigned __urhadd(unsigned x, unsigned y) { return (x | y) - ((x ^ y) >> 1); }

#define QGPU_ASM3(name, result, a, b, c, instruction)                                     \
  QGPU_DEVICE result name(a x, b y, c z) {                                                \
    result value;                                                                         \
    asm(instruction " %0, %1, %2, %3;" : "=r"(value) : "r"(x), "r"(y), "r"(z));            \
    return value;                                                                         \
  }
QGPU_ASM3(__funnelshift_l, unsigned, unsigned, unsigned, unsigned, "shf.l.wrap.b32")
QGPU_ASM3(__funnelshift_lc, unsigned, unsigned, unsigned, unsigned, "shf.l.clamp.b32")
QGPU_ASM3(__funnelshift_r, unsigned, unsigned, unsigned, unsigned, "shf.r.wrap.b32")
QGPU_ASM3(__funnelshift_rc, unsigned, unsigned, unsigned, unsigned, "shf.r.clamp.b32")
QGPU_ASM3(__dp4a, int, int, int, int, "dp4a.s32.s32")
QGPU_ASM3(__dp4a, unsigned, unsigned, unsigned, unsigned, "dp4a.u32.u32")
QGPU_ASM3(__dp2a_lo, int, int, int, int, "dp2a.lo.s32.s32")
QGPU_ASM3(__dp2a_lo, unsigned, unsigned, unsigned, unsigned, "dp2a.lo.u32.u32")
QGPU_ASM3(__dp2a_hi, int, int, int, int, "dp2a.hi.s32.s32")
QGPU_ASM3(__dp2a_hi, unsigned, unsigned, unsigned, unsigned, "dp2a.hi.u32.u32")
// The same for vectors of their pieces.
#define QGPU_DOT(name, result, a, b)                                               \
  QGPU_DEVICE result name(a x, b y, result z) {                                    \
    result first, second;                                                          \
    __builtin_memcpy(&first, &x, 4);                                               \
    __builtin_memcpy(&second, &y, 4);                                              \
    return name(first, second, z);                                                 \
  }
QGPU_DOT(__dp4a, int, char4, char4)
QGPU_DOT(__dp4a, unsigned, uchar4, uchar4)
QGPU_DOT(__dp2a_lo, int, short2, char4)
QGPU_DOT(__dp2a_lo, unsigned, ushort2, uchar4)
QGPU_DOT(__dp2a_hi, int, short2, char4)
QGPU_DOT(__dp2a_hi, unsigned, ushort2, uchar4)

// --- barriers, fences, votes and shuffles

QGPU_DEVICE void __syncwarp(unsigned mask = 0xffffffff) { __nvvm_bar_warp_sync(mask); }
QGPU_DEVICE int __syncthreads_count(int predicate) { return __nvvm_bar0_popc(predicate); }
QGPU_DEVICE int __syncthreads_and(int predicate) { return __nvvm_bar0_and(predicate); }
QGPU_DEVICE int __syncthreads_or(int predicate) { return __nvvm_bar0_or(predicate); }
QGPU_DEVICE void __threadfence_block() { __nvvm_membar_cta(); }
QGPU_DEVICE void __threadfence() { __nvvm_membar_gl(); }
QGPU_DEVICE void __threadfence_system() { __nvvm_membar_sys(); }
QGPU_DEVICE void __trap() { __builtin_trap(); }

QGPU_DEVICE int __all_sync(unsigned mask, int predicate) { return __nvvm_vote_all_sync(mask, predicate); }
QGPU_DEVICE int __any_sync(unsigned mask, int predicate) { return __nvvm_vote_any_sync(mask, predicate); }
QGPU_DEVICE int __uni_sync(unsigned mask, int predicate) { return __nvvm_vote_uni_sync(mask, predicate); }
QGPU_DEVICE unsigned __ballot_sync(unsigned mask, int predicate) { return __nvvm_vote_ballot_sync(mask, predicate); }
QGPU_DEVICE unsigned __activemask() {
  unsigned mask;
  asm volatile("activemask.b32 %0;" : "=r"(mask));
  return mask;
}
QGPU_DEVICE unsigned __match_any_sync(unsigned mask, unsigned value) { return __nvvm_match_any_sync_i32(mask, value); }
QGPU_DEVICE unsigned __match_any_sync(unsigned mask, int value) { return __nvvm_match_any_sync_i32(mask, value); }
QGPU_DEVICE unsigned __match_all_sync(unsigned mask, unsigned value, int* predicate) {
  return __nvvm_match_all_sync_i32p(mask, value, predicate);
}
QGPU_DEVICE unsigned __match_all_sync(unsigned mask, int value, int* predicate) {
  return __nvvm_match_all_sync_i32p(mask, value, predicate);
}
#define QGPU_MATCH64(type)                                                                  \
  QGPU_DEVICE unsigned __match_any_sync(unsigned mask, type value) {                        \
    return (unsigned)__nvvm_match_any_sync_i64(mask, value);                                \
  }                                                                                         \
  QGPU_DEVICE unsigned __match_all_sync(unsigned mask, type value, int* predicate) {        \
    return (unsigned)__nvvm_match_all_sync_i64p(mask, value, predicate);                    \
  }
QGPU_MATCH64(long)
QGPU_MATCH64(unsigned long)
QGPU_MATCH64(long long)
QGPU_MATCH64(unsigned long long)
QGPU_DEVICE void __brkpt() { asm volatile("brkpt;"); }

// `clamp` is the lane number's limit inside a segment, the last operand's low bits.
#define QGPU_SHUFFLE(name, builtin, clamp, second)                                                        \
  QGPU_DEVICE int name(unsigned mask, int value, second lane, int width = warpSize) {                     \
    return __nvvm_shfl_sync_##builtin##_i32(mask, value, lane, ((warpSize - width) << 8) | clamp);        \
  }                                                                                                       \
  QGPU_DEVICE unsigned name(unsigned mask, unsigned value, second lane, int width = warpSize) {           \
    return (unsigned)name(mask, (int)value, lane, width);                                                 \
  }                                                                                                       \
  QGPU_DEVICE float name(unsigned mask, float value, second lane, int width = warpSize) {                 \
    return __builtin_bit_cast(float, name(mask, __builtin_bit_cast(int, value), lane, width));            \
  }                                                                                                       \
  QGPU_DEVICE unsigned long long name(unsigned mask, unsigned long long value, second lane, int width = warpSize) { \
    const unsigned low = name(mask, (unsigned)value, lane, width);                                        \
    const unsigned high = name(mask, (unsigned)(value >> 32), lane, width);                               \
    return (unsigned long long)high << 32 | low;                                                          \
  }                                                                                                       \
  QGPU_DEVICE long long name(unsigned mask, long long value, second lane, int width = warpSize) {         \
    return (long long)name(mask, (unsigned long long)value, lane, width);                                 \
  }                                                                                                       \
  QGPU_DEVICE long name(unsigned mask, long value, second lane, int width = warpSize) {                   \
    return (long)name(mask, (unsigned long long)value, lane, width);                                      \
  }                                                                                                       \
  QGPU_DEVICE unsigned long name(unsigned mask, unsigned long value, second lane, int width = warpSize) { \
    return (unsigned long)name(mask, (unsigned long long)value, lane, width);                             \
  }
QGPU_SHUFFLE(__shfl_sync, idx, 0x1f, int)
QGPU_SHUFFLE(__shfl_up_sync, up, 0, unsigned)
QGPU_SHUFFLE(__shfl_down_sync, down, 0x1f, unsigned)
QGPU_SHUFFLE(__shfl_xor_sync, bfly, 0x1f, int)

// --- memory

QGPU_DEVICE int __ldg(const int* p) { return __nvvm_ldg_i(p); }
QGPU_DEVICE unsigned __ldg(const unsigned* p) { return __nvvm_ldg_ui(p); }
QGPU_DEVICE long __ldg(const long* p) { return __nvvm_ldg_l(p); }
QGPU_DEVICE unsigned long __ldg(const unsigned long* p) { return __nvvm_ldg_ul(p); }
QGPU_DEVICE long long __ldg(const long long* p) { return __nvvm_ldg_ll(p); }
QGPU_DEVICE unsigned long long __ldg(const unsigned long long* p) { return __nvvm_ldg_ull(p); }
QGPU_DEVICE short __ldg(const short* p) { return __nvvm_ldg_s(p); }
QGPU_DEVICE unsigned short __ldg(const unsigned short* p) { return __nvvm_ldg_us(p); }
QGPU_DEVICE char __ldg(const char* p) { return (char)__nvvm_ldg_c(p); }
QGPU_DEVICE signed char __ldg(const signed char* p) { return __nvvm_ldg_sc(p); }
QGPU_DEVICE unsigned char __ldg(const unsigned char* p) { return __nvvm_ldg_uc(p); }
QGPU_DEVICE float __ldg(const float* p) { return __nvvm_ldg_f(p); }
QGPU_DEVICE double __ldg(const double* p) { return __nvvm_ldg_d(p); }
#define QGPU_LDG2(name, type, builtin)                                \
  QGPU_DEVICE name##2 __ldg(const name##2 * p) {                      \
    typedef type vector __attribute__((ext_vector_type(2)));          \
    const vector v = __nvvm_ldg_##builtin##2((const vector*)p);       \
    return name##2{v[0], v[1]};                                       \
  }
#define QGPU_LDG4(name, type, builtin)                                \
  QGPU_DEVICE name##4 __ldg(const name##4 * p) {                      \
    typedef type vector __attribute__((ext_vector_type(4)));          \
    const vector v = __nvvm_ldg_##builtin##4((const vector*)p);       \
    return name##4{v[0], v[1], v[2], v[3]};                           \
  }
QGPU_LDG2(char, signed char, sc)
QGPU_LDG2(uchar, unsigned char, uc)
QGPU_LDG2(short, short, s)
QGPU_LDG2(ushort, unsigned short, us)
QGPU_LDG2(int, int, i)
QGPU_LDG2(uint, unsigned, ui)
QGPU_LDG2(longlong, long long, ll)
QGPU_LDG2(ulonglong, unsigned long long, ull)
QGPU_LDG4(char, signed char, sc)
QGPU_LDG4(uchar, unsigned char, uc)
QGPU_LDG4(short, short, s)
QGPU_LDG4(ushort, unsigned short, us)
QGPU_LDG4(int, int, i)
QGPU_LDG4(uint, unsigned, ui)

// What only hints at caches.
#define QGPU_CACHED_LOAD(name) \
  template <typename T>        \
  QGPU_DEVICE T name(const T* p) { return *p; }
QGPU_CACHED_LOAD(__ldca)
QGPU_CACHED_LOAD(__ldcg)
QGPU_CACHED_LOAD(__ldcs)
QGPU_CACHED_LOAD(__ldlu)
template <typename T>
QGPU_DEVICE T __ldcv(const T* p) { return *(const volatile T*)p; }
template <typename T>
struct qgpu_same {
  typedef T type;
};
#define QGPU_CACHED_STORE(name) \
  template <typename T>         \
  QGPU_DEVICE void name(T* p, typename qgpu_same<T>::type v) { *p = v; }
QGPU_CACHED_STORE(__stwb)
QGPU_CACHED_STORE(__stcg)
QGPU_CACHED_STORE(__stcs)
QGPU_CACHED_STORE(__stwt)

QGPU_DEVICE unsigned __isGlobal(const void* p) { return __nvvm_isspacep_global(p); }
QGPU_DEVICE unsigned __isShared(const void* p) { return __nvvm_isspacep_shared(p); }
QGPU_DEVICE unsigned __isConstant(const void* p) { return __nvvm_isspacep_const(p); }
QGPU_DEVICE unsigned __isLocal(const void* p) { return __nvvm_isspacep_local(p); }
#define QGPU_CVTA(space)                                                      \
  QGPU_DEVICE size_t __cvta_generic_to_##space(const void* p) {               \
    size_t address;                                                           \
    asm("cvta.to." #space ".u64 %0, %1;" : "=l"(address) : "l"(p));           \
    return address;                                                           \
  }                                                                           \
  QGPU_DEVICE void* __cvta_##space##_to_generic(size_t address) {             \
    void* p;                                                                  \
    asm("cvta." #space ".u64 %0, %1;" : "=l"(p) : "l"(address));              \
    return p;                                                                 \
  }
QGPU_CVTA(global)
QGPU_CVTA(shared)
QGPU_CVTA(local)
QGPU_DEVICE size_t __cvta_generic_to_constant(const void* p) {
  size_t address;
  asm("cvta.to.const.u64 %0, %1;" : "=l"(address) : "l"(p));
  return address;
}
QGPU_DEVICE void* __cvta_constant_to_generic(size_t address) {
  void* p;
  asm("cvta.const.u64 %0, %1;" : "=l"(p) : "l"(address));
  return p;
}

// --- atomic operations: of the device, and with the names' suffixes _block (scope cta) and _system (sys)

#define QGPU_ATOMICS(suffix, scope, ptx_scope)                                                                 \
  QGPU_DEVICE int atomicAdd##suffix(int* p, int v) { return __nvvm_atom_##scope##add_gen_i(p, v); }            \
  QGPU_DEVICE unsigned atomicAdd##suffix(unsigned* p, unsigned v) {                                            \
    return (unsigned)__nvvm_atom_##scope##add_gen_i((int*)p, (int)v);                                          \
  }                                                                                                            \
  QGPU_DEVICE unsigned long long atomicAdd##suffix(unsigned long long* p, unsigned long long v) {              \
    return (unsigned long long)__nvvm_atom_##scope##add_gen_ll((long long*)p, (long long)v);                   \
  }                                                                                                            \
  QGPU_DEVICE float atomicAdd##suffix(float* p, float v) { return __nvvm_atom_##scope##add_gen_f(p, v); }      \
  QGPU_DEVICE double atomicAdd##suffix(double* p, double v) { return __nvvm_atom_##scope##add_gen_d(p, v); }   \
  QGPU_DEVICE int atomicSub##suffix(int* p, int v) { return atomicAdd##suffix(p, -v); }                        \
  QGPU_DEVICE unsigned atomicSub##suffix(unsigned* p, unsigned v) { return atomicAdd##suffix(p, 0u - v); }     \
  QGPU_DEVICE int atomicExch##suffix(int* p, int v) { return __nvvm_atom_##scope##xchg_gen_i(p, v); }          \
  QGPU_DEVICE unsigned atomicExch##suffix(unsigned* p, unsigned v) {                                           \
    return (unsigned)__nvvm_atom_##scope##xchg_gen_i((int*)p, (int)v);                                         \
  }                                                                                                            \
  QGPU_DEVICE unsigned long long atomicExch##suffix(unsigned long long* p, unsigned long long v) {             \
    return (unsigned long long)__nvvm_atom_##scope##xchg_gen_ll((long long*)p, (long long)v);                  \
  }                                                                                                            \
  QGPU_DEVICE float atomicExch##suffix(float* p, float v) {                                                    \
    return __builtin_bit_cast(float, atomicExch##suffix((int*)p, __builtin_bit_cast(int, v)));                 \
  }                                                                                                            \
  QGPU_ATOMIC_ORDER(atomicMin##suffix, scope##min)                                                             \
  QGPU_ATOMIC_ORDER(atomicMax##suffix, scope##max)                                                             \
  QGPU_DEVICE unsigned atomicInc##suffix(unsigned* p, unsigned limit) {                                        \
    return __nvvm_atom_##scope##inc_gen_ui(p, limit);                                                          \
  }                                                                                                            \
  QGPU_DEVICE unsigned atomicDec##suffix(unsigned* p, unsigned limit) {                                        \
    return __nvvm_atom_##scope##dec_gen_ui(p, limit);                                                          \
  }                                                                                                            \
  QGPU_DEVICE int atomicCAS##suffix(int* p, int old, int v) { return __nvvm_atom_##scope##cas_gen_i(p, old, v); } \
  QGPU_DEVICE unsigned atomicCAS##suffix(unsigned* p, unsigned old, unsigned v) {                              \
    return (unsigned)__nvvm_atom_##scope##cas_gen_i((int*)p, (int)old, (int)v);                                \
  }                                                                                                            \
  QGPU_DEVICE unsigned long long atomicCAS##suffix(unsigned long long* p, unsigned long long old,              \
                                                   unsigned long long v) {                                     \
    return (unsigned long long)__nvvm_atom_##scope##cas_gen_ll((long long*)p, (long long)old, (long long)v);   \
  }                                                                                                            \
  QGPU_DEVICE unsigned short atomicCAS##suffix(unsigned short* p, unsigned short old, unsigned short v) {      \
    unsigned short before;                                                                                     \
    asm volatile("atom" ptx_scope ".cas.b16 %0, [%1], %2, %3;"                                                 \
                 : "=h"(before)                                                                                \
                 : "l"(p), "h"(old), "h"(v)                                                                    \
                 : "memory");                                                                                  \
    return before;                                                                                             \
  }                                                                                                            \
  QGPU_ATOMIC_LOGIC(atomicAnd##suffix, scope##and)                                                             \
  QGPU_ATOMIC_LOGIC(atomicOr##suffix, scope##or)                                                               \
  QGPU_ATOMIC_LOGIC(atomicXor##suffix, scope##xor)
#define QGPU_ATOMIC_ORDER(name, builtin)                                                                       \
  QGPU_DEVICE int name(int* p, int v) { return __nvvm_atom_##builtin##_gen_i(p, v); }                          \
  QGPU_DEVICE unsigned name(unsigned* p, unsigned v) { return __nvvm_atom_##builtin##_gen_ui(p, v); }          \
  QGPU_DEVICE long long name(long long* p, long long v) { return __nvvm_atom_##builtin##_gen_ll(p, v); }       \
  QGPU_DEVICE unsigned long long name(unsigned long long* p, unsigned long long v) {                           \
    return __nvvm_atom_##builtin##_gen_ull(p, v);                                                              \
  }
#define QGPU_ATOMIC_LOGIC(name, builtin)                                                                       \
  QGPU_DEVICE int name(int* p, int v) { return __nvvm_atom_##builtin##_gen_i(p, v); }                          \
  QGPU_DEVICE unsigned name(unsigned* p, unsigned v) {                                                         \
    return (unsigned)__nvvm_atom_##builtin##_gen_i((int*)p, (int)v);                                           \
  }                                                                                                            \
  QGPU_DEVICE unsigned long long name(unsigned long long* p, unsigned long long v) {                           \
    return (unsigned long long)__nvvm_atom_##builtin##_gen_ll((long long*)p, (long long)v);                    \
  }
QGPU_ATOMICS(, , "")
QGPU_ATOMICS(_block, cta_, ".cta")
QGPU_ATOMICS(_system, sys_, ".sys")

QGPU_DEVICE void __nanosleep(unsigned nanoseconds) { asm volatile("nanosleep.u32 %0;" : : "r"(nanoseconds)); }

// --- the host API, so that host code beside a kernel compiles (it is not run)

enum cudaError { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 };
typedef enum cudaError cudaError_t;
enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4
};
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
extern "C" {
__host__ cudaError_t cudaMalloc(void** pointer, size_t bytes);
__host__ cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags = 1);
__host__ cudaError_t cudaMallocHost(void** pointer, size_t bytes);
__host__ cudaError_t cudaFree(void* pointer);
__host__ cudaError_t cudaFreeHost(void* pointer);
__host__ cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
__host__ cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                     cudaStream_t stream = 0);
__host__ cudaError_t cudaMemset(void* to, int value, size_t bytes);
__host__ cudaError_t cudaDeviceSynchronize();
__host__ cudaError_t cudaDeviceReset();
__host__ cudaError_t cudaSetDevice(int device);
__host__ cudaError_t cudaGetDeviceCount(int* count);
__host__ cudaError_t cudaGetLastError();
__host__ cudaError_t cudaPeekAtLastError();
__host__ const char* cudaGetErrorString(cudaError_t error);
__host__ const char* cudaGetErrorName(cudaError_t error);
__host__ cudaError_t cudaStreamCreate(cudaStream_t* stream);
__host__ cudaError_t cudaStreamSynchronize(cudaStream_t stream);
__host__ cudaError_t cudaStreamDestroy(cudaStream_t stream);
__host__ cudaError_t cudaEventCreate(cudaEvent_t* event);
__host__ cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = 0);
__host__ cudaError_t cudaEventSynchronize(cudaEvent_t event);
__host__ cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t stop);
__host__ cudaError_t cudaEventDestroy(cudaEvent_t event);
}
template <typename T>
__host__ cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  return cudaMalloc((void**)pointer, bytes);
}
template <typename T>
__host__ cudaError_t cudaMallocManaged(T** pointer, size_t bytes, unsigned flags = 1) {
  return cudaMallocManaged((void**)pointer, bytes, flags);
}
template <typename T>
__host__ cudaError_t cudaMallocHost(T** pointer, size_t bytes) {
  return cudaMallocHost((void**)pointer, bytes);
}
template <typename T>
__host__ cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, size_t bytes, size_t offset = 0,
                                        cudaMemcpyKind kind = cudaMemcpyHostToDevice);
template <typename T>
__host__ cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                          cudaMemcpyKind kind = cudaMemcpyDeviceToHost);
