#pragma once
// Calls of device kernels whose results are compared with those of the scalar kernels of the CPU.
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "node/cpu/cpu_unit.hpp"
#include "node/cuda/device/device.hpp"
#include "tests/finish.hpp"
#include "tests/node/cpu/kernels/support.hpp"

namespace yamata::cuda {

inline const cpu::KernelTable& scalar() { return cpu::kernels(cpu::Isa::kScalar); }

/// The reference: one thread with the scalar kernels.
inline void compute_on_core(const Op& op) {
  CpuUnit unit({-1}, cpu::Isa::kScalar);
  unit.start(std::span(&op, 1), nullptr);
  finish(unit);
}

inline std::vector<float> reals(std::int64_t count, unsigned seed) {
  cpu::Random random(seed);
  return cpu::random_floats(random, static_cast<std::size_t>(count));
}

/// Memory that kernels read or write: that of the emulated device ends where a page begins that nobody may touch.
template <class T>
struct Array {
  std::shared_ptr<std::byte> memory;
  std::size_t count = 0;
  T* data() const { return reinterpret_cast<T*>(memory.get()); }
  std::vector<T> values() const { return {data(), data() + count}; }
};

class TestDevice {
 public:
  /// The emulated device, or the one that YAMATA_TEST_DEVICE names.
  TestDevice();
  ~TestDevice();
  static bool emulated();
  Device& device() const { return *device_; }
  const DeviceKernels& kernels() const { return device_->kernels(); }
  Stream stream() const { return device_->stream(); }
  void finish() const { device_->synchronize(); }

  /// `count` times `fill`.
  template <class T>
  Array<T> array(std::size_t count, T fill) const {
    Array<T> out{allocate(count * sizeof(T)), count};
    std::fill_n(out.data(), count, fill);
    return out;
  }
  template <class T>
  Array<T> array(const std::vector<T>& values) const {
    Array<T> out{allocate(values.size() * sizeof(T)), values.size()};
    if (!values.empty()) std::memcpy(out.data(), values.data(), values.size() * sizeof(T));
    return out;
  }

 private:
  std::shared_ptr<std::byte> allocate(std::size_t bytes) const;
  std::unique_ptr<Device> device_;
};

/// Activations quantized on the device.
struct DeviceActivations {
  DeviceActivations(const TestDevice& device, std::int64_t rows, std::int64_t cols);
  Array<std::int8_t> values;
  Array<float> scales;
  Array<std::int16_t> sub_sums;
  DeviceRows rows;
  /// Whether they are what the CPU has.
  bool equal(const cpu::Activations& expected) const;
};

/// A call, and whether its results are the CPU's to the bit.
struct Scene {
  std::string name;
  std::function<bool(const TestDevice&)> holds;
};

struct ProductShape {
  TensorType type;
  std::int64_t rows, cols, tokens;
  std::int64_t begin = 0, end = -1;  ///< rows that are multiplied with; -1: all
  bool add = false;
};
bool product_holds(const TestDevice& device, const ProductShape& shape);
/// Three matrices at once.
bool products_hold_together(const TestDevice& device, TensorType type, std::int64_t tokens);

/// What makes inputs, moves rows, fills the cache and attends, in shapes that no tile divides.
std::vector<Scene> row_scenes();
std::vector<Scene> residual_scenes();
std::vector<Scene> cache_scenes();
std::vector<Scene> state_scenes();
/// Products small enough to be computed some hundred times.
std::vector<Scene> product_scenes();
/// All of them.
std::vector<Scene> all_scenes();

}  // namespace yamata::cuda
