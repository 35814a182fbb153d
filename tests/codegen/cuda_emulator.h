// What CUDA text finds where g++ compiles it as plain C++.
typedef unsigned uint32_t; typedef unsigned long long uint64_t;
struct Index { unsigned x, y, z; };
extern "C" {
  extern Index threadIdx, blockIdx, gridDim; extern unsigned char emulator_slots[1024][8];
  void __syncthreads(); void emulator_warp(); int emulator_thread();
}
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __restrict__ __restrict
#define __shared__ static
#define FUNCTION(name) extern "C" double name(double); extern "C" float name##f(float);
FUNCTION(exp) FUNCTION(exp2) FUNCTION(expm1) FUNCTION(log) FUNCTION(log1p) FUNCTION(log2) FUNCTION(sqrt) FUNCTION(sin) FUNCTION(cos)
FUNCTION(tan) FUNCTION(tanh) FUNCTION(erf) FUNCTION(floor) FUNCTION(ceil) FUNCTION(trunc) FUNCTION(fabs) FUNCTION(rint)
#define FUNCTION2(name) extern "C" double name(double, double); extern "C" float name##f(float, float);
FUNCTION2(pow) FUNCTION2(fmod)
extern "C" double fma(double, double, double); extern "C" float fmaf(float, float, float);
static inline float __uint_as_float(uint32_t u) { float f; __builtin_memcpy(&f, &u, 4); return f; }
static inline uint32_t __float_as_uint(float f) { uint32_t u; __builtin_memcpy(&u, &f, 4); return u; }
static inline double __longlong_as_double(uint64_t u) { double f; __builtin_memcpy(&f, &u, 8); return f; }
#define ALONE(name, sign) static inline float __f##name##_rn(float a, float b) { volatile float c = a sign b; return c; } \
  static inline double __d##name##_rn(double a, double b) { volatile double c = a sign b; return c; }
ALONE(add, +) ALONE(sub, -) ALONE(mul, *)
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
template <class T> static inline T __shfl_xor_sync(unsigned, T v, int d) {
  const int me = emulator_thread();
  __builtin_memcpy(emulator_slots[me], &v, sizeof v); emulator_warp();
  T r; __builtin_memcpy(&r, emulator_slots[(me & ~31) | ((me ^ d) & 31)], sizeof v); emulator_warp();
  return r;
}
