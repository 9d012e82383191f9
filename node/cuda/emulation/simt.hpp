#pragma once
// simt.hpp for the emulated device: the threads are fibers of a Block.
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "node/cpu/kernels/kernels.hpp"
#include "node/cuda/emulation/block.hpp"
#include "node/cuda/emulation/injected_faults.hpp"
#include "node/cuda/kernels/simt_types.hpp"

#define YAMATA_KERNEL
#define YAMATA_DEVICE inline
#define YAMATA_BOUNDS(...)
#define YAMATA_UNROLL

namespace yamata::simt {

inline unsigned thread() { return Block::current().thread(); }
inline unsigned threads() { return Block::current().threads(); }
inline unsigned lane() { return thread() % kWarp; }
inline unsigned warp() { return thread() / kWarp; }
inline unsigned warps() { return threads() / kWarp; }
inline unsigned block_x() { return Block::current().block_x(); }
inline unsigned block_y() { return Block::current().block_y(); }
inline unsigned grid_x() { return Block::current().grid_x(); }

inline void sync_block(injected::Site where = injected::Site::current()) {
  if (!injected::removed(where)) Block::current().sync_block();
}
inline void sync_warp(injected::Site where = injected::Site::current()) {
  if (!injected::removed(where)) Block::current().sync_warp();
}
/// i < n: a bounds check of a kernel.
inline bool within(std::int64_t i, std::int64_t n, injected::Site where = injected::Site::current()) {
  return i < n || injected::removed(where);
}

template <class T>
T shuffle(T value, unsigned source) {
  Block::Words words{};
  static_assert(sizeof(T) <= sizeof words);
  std::memcpy(words.data(), &value, sizeof value);
  std::memcpy(&value, Block::current().exchange(words)[source % kWarp].data(), sizeof value);
  return value;
}
template <class T>
T shuffle_xor(T value, unsigned mask) {
  return shuffle(value, lane() ^ mask);
}

template <class T>
T* shared() {
  return reinterpret_cast<T*>(Block::current().shared());
}

inline int dot4(std::uint32_t a, std::uint32_t b, int c) {
  for (int i = 0; i < 32; i += 8) c += static_cast<std::int8_t>(a >> i) * static_cast<std::int8_t>(b >> i);
  return c;
}
inline std::uint32_t byte_permute(std::uint32_t low, std::uint32_t high, std::uint32_t selector) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(high) << 32 | low;
  std::uint32_t out = 0;
  for (int i = 0; i < 4; ++i) out |= static_cast<std::uint32_t>(bytes >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
  return out;
}
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float half_to_float(std::uint16_t half) { return cpu::f16_to_f32(half); }
inline std::uint16_t float_to_half(float value) { return cpu::f32_to_f16(value); }
/// 0 for NaN and for what does not fit; a device saturates the latter. Inputs of a run that was left may be any bits.
inline int to_int(float value) { return std::abs(value) < 2147483648.0f ? static_cast<int>(value) : 0; }
inline float float_of_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
inline double double_of_bits(std::uint64_t bits) { return std::bit_cast<double>(bits); }
inline std::uint64_t bits_of_double(double value) { return std::bit_cast<std::uint64_t>(value); }
inline double square_root(double x) { return std::sqrt(x); }

namespace detail {

/// Adds a product over k = 16. The words of matrix a begin at word `a` of each lane, those of matrix b at word `b`.
inline void add_k16(int (&d)[4], const Block::Words* words, unsigned a, unsigned b) {
  const unsigned group = lane() / 4, pair = lane() % 4 * 2;
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned k = 0; k < 4; ++k) d[i] = dot4(words[group * 4 + k][a + i / 2], words[(pair + i % 2) * 4 + k][b], d[i]);
  }
}

}  // namespace detail

inline void mma_k16(int (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b0, int start) {
  for (int& sum : d) sum = start;
  detail::add_k16(d, Block::current().exchange({a0, a1, b0}), 0, 2);
}
inline void mma_k32(int (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], int start) {
  for (int& sum : d) sum = start;
  const Block::Words* words = Block::current().exchange({a[0], a[1], a[2], a[3], b[0], b[1]});
  detail::add_k16(d, words, 0, 4);
  detail::add_k16(d, words, 2, 5);
}

template <unsigned kBytes>
void copy_async(void* to, const void* from) {
  static_assert(kBytes == 4 || kBytes == 16);
  if (reinterpret_cast<std::uintptr_t>(to) % kBytes != 0 || reinterpret_cast<std::uintptr_t>(from) % kBytes != 0)
    throw std::logic_error("a kernel copies to, or from, an address that is not aligned");
  Block::current().copy_later(to, from, kBytes);
}
inline void commit_copies() { Block::current().commit_copies(); }
template <unsigned kLatest>
void wait_copies(injected::Site where = injected::Site::current()) {
  if (!injected::removed(where)) Block::current().wait_copies(kLatest);
}

inline void store_release(std::uint32_t* flag, std::uint32_t value) { __atomic_store_n(flag, value, __ATOMIC_RELEASE); }
inline std::uint32_t load_acquire(const std::uint32_t* flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }

/// Between two reads of a flag for which a kernel waits.
inline void rest() { std::this_thread::yield(); }

/// Runs the kernel on this thread.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), Grid grid, unsigned threads, std::size_t shared_bytes, std::nullptr_t, Parameters... arguments) {
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> arguments;
  } call{kernel, {arguments...}};
  const auto body = [](void* pointer) {
    const Call& c = *static_cast<const Call*>(pointer);
    std::apply(c.kernel, c.arguments);
  };
  Block::current().run({grid.x, grid.y, threads, shared_bytes}, body, &call);
}

/// Launches kernel(arguments) into the stream.
template <class Arguments>
void launch(void (*kernel)(Arguments), Grid grid, unsigned threads, std::size_t shared_bytes, LaunchSink* stream,
            const Arguments& arguments) {
  Launch one;
  one.kernel = reinterpret_cast<const void*>(kernel);
  one.run = [](const Launch& l) {
    Arguments its;
    std::memcpy(&its, l.arguments, sizeof its);
    launch(reinterpret_cast<void (*)(Arguments)>(const_cast<void*>(l.kernel)), l.grid, l.threads, l.shared_bytes, nullptr, its);
  };
  one.grid = grid, one.threads = threads, one.shared_bytes = shared_bytes;
  one.set(arguments);
  stream->put(one);
}

}  // namespace yamata::simt
