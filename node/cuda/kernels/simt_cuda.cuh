#pragma once
// simt.hpp for CUDA.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "node/cuda/kernels/simt_types.hpp"

#define YAMATA_KERNEL __global__
#define YAMATA_DEVICE __device__ __forceinline__
#define YAMATA_BOUNDS(...) __launch_bounds__(__VA_ARGS__)  // threads of a block; least number of blocks per multiprocessor
#define YAMATA_UNROLL _Pragma("unroll")  // before a loop whose counter is a constant in every step, so that arrays stay in registers

namespace yamata::simt {

YAMATA_DEVICE unsigned thread() { return threadIdx.x; }
YAMATA_DEVICE unsigned threads() { return blockDim.x; }
YAMATA_DEVICE unsigned lane() { return threadIdx.x % kWarp; }
YAMATA_DEVICE unsigned warp() { return threadIdx.x / kWarp; }
YAMATA_DEVICE unsigned warps() { return blockDim.x / kWarp; }
YAMATA_DEVICE unsigned block_x() { return blockIdx.x; }
YAMATA_DEVICE unsigned block_y() { return blockIdx.y; }
YAMATA_DEVICE unsigned grid_x() { return gridDim.x; }

YAMATA_DEVICE void sync_block() { __syncthreads(); }
YAMATA_DEVICE void sync_warp() { __syncwarp(); }
template <class I, class N>
YAMATA_DEVICE bool within(I i, N n) {
  return i < n;
}

template <class T>
YAMATA_DEVICE T shuffle_xor(T value, unsigned mask) {
  return __shfl_xor_sync(0xffffffffu, value, static_cast<int>(mask));
}
template <class T>
YAMATA_DEVICE T shuffle(T value, unsigned source) {
  return __shfl_sync(0xffffffffu, value, static_cast<int>(source));
}

/// The dynamic shared memory of the block.
template <class T>
YAMATA_DEVICE T* shared() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return reinterpret_cast<T*>(bytes);
}

/// c + the products of four pairs of signed bytes
YAMATA_DEVICE int dot4(std::uint32_t a, std::uint32_t b, int c) { return __dp4a(static_cast<int>(a), static_cast<int>(b), c); }
YAMATA_DEVICE std::uint32_t byte_permute(std::uint32_t low, std::uint32_t high, std::uint32_t selector) {
  return __byte_perm(low, high, selector);
}
/// a * b + c, rounded once
YAMATA_DEVICE float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
YAMATA_DEVICE float half_to_float(std::uint16_t half) { return __half2float(__ushort_as_half(half)); }
/// Rounds to nearest, ties to even.
YAMATA_DEVICE std::uint16_t float_to_half(float value) { return __half_as_ushort(__float2half_rn(value)); }
/// Without its fraction; 0 for what is no number.
YAMATA_DEVICE int to_int(float value) { return static_cast<int>(value); }
YAMATA_DEVICE float float_of_bits(std::uint32_t bits) { return __uint_as_float(bits); }
YAMATA_DEVICE std::uint32_t bits_of(float value) { return __float_as_uint(value); }
YAMATA_DEVICE double double_of_bits(std::uint64_t bits) { return __longlong_as_double(static_cast<long long>(bits)); }
YAMATA_DEVICE std::uint64_t bits_of_double(double value) { return static_cast<std::uint64_t>(__double_as_longlong(value)); }
YAMATA_DEVICE double square_root(double x) { return __dsqrt_rn(x); }

// A product on tensor cores: d[16][8] = start + a[16][k] * b[k][8] of signed bytes. Of d, lane l holds columns 2(l%4) and 2(l%4) + 1, in
// row l/4 (d[0], d[1]) and row l/4 + 8 (d[2], d[3]). Of each 16 of k, it holds four from 4(l%4) on: of a in rows l/4 and l/4 + 8, of b in
// column l/4.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
/// GPUs before Ampere: shuffles bring the words of the rows and columns that a lane needs.
YAMATA_DEVICE void mma_k16(int (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b0, int start) {
  const unsigned row = lane() / 4 * 4, column = lane() % 4 * 8;
  for (int& sum : d) sum = start;
  for (unsigned k = 0; k < 4; ++k) {
    const std::uint32_t a[2] = {shuffle(a0, row + k), shuffle(a1, row + k)};
    const std::uint32_t b[2] = {shuffle(b0, column + k), shuffle(b0, column + 4 + k)};
    for (unsigned i = 0; i < 4; ++i) d[i] = dot4(a[i / 2], b[i % 2], d[i]);
  }
}
YAMATA_DEVICE void mma_k32(int (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], int start) {
  int half[4];
  mma_k16(half, a[0], a[1], b[0], start);
  mma_k16(d, a[2], a[3], b[1], 0);
  for (unsigned i = 0; i < 4; ++i) d[i] += half[i];
}
#else
YAMATA_DEVICE void mma_k16(int (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b0, int start) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5},{%6},{%7,%7,%7,%7};"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(a0), "r"(a1), "r"(b0), "r"(start));
}
/// k = 32: a[0], a[1], b[0] belong to its first half, a[2], a[3], b[1] to the second.
YAMATA_DEVICE void mma_k32(int (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], int start) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%10,%10,%10};"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(start));
}
#endif

// Copies from global to shared memory that a thread begins, and does not wait for. They are done when wait_copies says so, for this
// thread; for others after a barrier, too.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
/// GPUs before Ampere copy at once.
template <unsigned kBytes>
YAMATA_DEVICE void copy_async(void* to, const void* from) {
  if constexpr (kBytes == 16)
    *static_cast<Words4*>(to) = *static_cast<const Words4*>(from);
  else
    *static_cast<std::uint32_t*>(to) = *static_cast<const std::uint32_t*>(from);
}
YAMATA_DEVICE void commit_copies() {}
template <unsigned kLatest>
YAMATA_DEVICE void wait_copies() {}
#else
/// Of 4 or 16 bytes, aligned to that.
template <unsigned kBytes>
YAMATA_DEVICE void copy_async(void* to, const void* from) {
  const auto shared_to = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_to), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_to), "l"(from) : "memory");
}
/// Ends a group of copies.
YAMATA_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until all groups but the latest kLatest are done.
template <unsigned kLatest>
YAMATA_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLatest) : "memory");
}
#endif

// A flag in mapped memory, with release and acquire semantics for host and device.
YAMATA_DEVICE void store_release(std::uint32_t* flag, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
YAMATA_DEVICE std::uint32_t load_acquire(const std::uint32_t* flag) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

/// Between two reads of a flag for which a kernel waits.
YAMATA_DEVICE void rest() { __nanosleep(200); }

/// Launches kernel(arguments) into the stream. The device's check() reports errors.
template <class Arguments>
void launch(void (*kernel)(Arguments), Grid grid, unsigned threads, std::size_t shared_bytes, LaunchSink* stream,
            const Arguments& arguments) {
  Launch one;
  one.kernel = reinterpret_cast<const void*>(kernel);
  one.grid = grid, one.threads = threads, one.shared_bytes = shared_bytes;
  one.set(arguments);
  stream->put(one);
}

}  // namespace yamata::simt
