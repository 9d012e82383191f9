#pragma once
// A stream synchronizes with the host without a CUDA call, by flags in memory that both map.
#include "node/cuda/kernels/arithmetic.hpp"
#include "node/cuda/kernels/device_kernels.hpp"

namespace yamata::cuda {
namespace {

YAMATA_KERNEL void YAMATA_BOUNDS(simt::kWarp) raise(const FlagArgs a) {
  if (simt::thread() == 0) simt::store_release(a.flag, 1);
}

YAMATA_KERNEL void YAMATA_BOUNDS(simt::kWarp) await(const FlagArgs a) {
  if (simt::thread() != 0) return;
  while (simt::load_acquire(a.flag) == 0) simt::rest();
}

void raise_flag(const FlagArgs& a, Stream stream) { simt::launch(&raise, {1, 1}, simt::kWarp, 0, stream, a); }
void await_flag(const FlagArgs& a, Stream stream) { simt::launch(&await, {1, 1}, simt::kWarp, 0, stream, a); }

}  // namespace
}  // namespace yamata::cuda
