#pragma once
// The compute units that must keep the contract: add a maker for a new one.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "node/cpu/cpu_unit.hpp"
#include "node/spin_wait.hpp"
#include "node/units/split_unit.hpp"
#ifdef YAMATA_EMULATED_DEVICE
#include "node/cuda/cuda_unit.hpp"
#include "node/cuda/emulation/emulated_device.hpp"
#endif
#ifdef YAMATA_CUDA
#include "node/cuda/cuda_device.hpp"
#include "node/cuda/cuda_unit.hpp"
#endif

namespace yamata::unit_contract {

struct UnitMaker {
  std::string name;
  int threads;
  std::function<std::unique_ptr<ComputeUnit>()> make;
  bool leaves_at_barriers = false;  ///< it only stops at synchronizations of its parts, not at every operation
};

inline std::unique_ptr<ComputeUnit> cpu_unit(cpu::Isa isa, int threads) {
  return std::make_unique<CpuUnit>(std::vector<int>(static_cast<std::size_t>(threads), -1), isa);
}

inline std::unique_ptr<ComputeUnit> emulated_unit([[maybe_unused]] bool unified) {
#ifdef YAMATA_EMULATED_DEVICE
  return std::make_unique<cuda::CudaUnit>(std::make_unique<cuda::EmulatedDevice>(cuda::EmulatedDeviceOptions{.unified = unified}));
#else
  return nullptr;
#endif
}

/// Parts with these threads, shares of columns and instruction sets; 0 threads: an emulated device.
struct Part {
  int threads;
  double share;
  cpu::Isa isa;
};

inline UnitMaker split(const std::string& name, const std::vector<Part>& parts) {
  UnitMaker maker{name, 0, nullptr, true};
  for (const Part& part : parts) maker.threads += std::max(1, part.threads);
  maker.make = [parts]() -> std::unique_ptr<ComputeUnit> {
    std::vector<UnitPart> units;
    for (const Part& part : parts) {
      const bool device = part.threads == 0;
      auto unit = device ? emulated_unit(false) : cpu_unit(part.isa, part.threads);
      units.push_back({(device ? "emulated:" : "cpu:") + std::to_string(units.size()), std::move(unit), part.share, device});
    }
    return std::make_unique<SplitUnit>(std::move(units), true, kSpinsUnbound);
  };
  return maker;
}

/// Even and uneven parts, more parts than heads, and parts that pack weights differently.
inline std::vector<UnitMaker> split_makers() {
  const cpu::Isa best = cpu::choose_isa(), plain = cpu::Isa::kScalar;
  std::vector<UnitMaker> makers{split("split_1_1", {{1, 1, best}, {1, 1, best}}),
                                split("split_2_1", {{2, 0.7, best}, {1, 0.3, best}}),
                                split("split_1_1_1", {{1, 0.01, best}, {1, 1, best}, {1, 0.4, best}}),
                                split("split_5", {{1, 1, best}, {1, 2, best}, {1, 1, best}, {1, 3, best}, {1, 1, best}}),
                                split("split_alone", {{2, 1, best}}),
                                split("split_scalar", {{1, 2, plain}, {1, 3, plain}}),
                                split("split_mixed", {{1, 1, plain}, {2, 1, best}, {1, 0.5, plain}})};
#ifdef YAMATA_EMULATED_DEVICE
  makers.push_back(split("split_cpu_device", {{2, 0.4, best}, {0, 0.6, best}}));
  makers.push_back(split("split_devices", {{0, 0.5, best}, {1, 0.1, best}, {0, 0.4, best}}));
#endif
  if (best == cpu::Isa::kAvx512) makers.push_back(split("split_avx2", {{1, 1, best}, {1, 1, cpu::Isa::kAvx2}}));
  return makers;
}

inline std::vector<UnitMaker> unit_makers() {
  std::vector<UnitMaker> makers = split_makers();
  for (const cpu::Isa isa : {cpu::Isa::kScalar, cpu::Isa::kAvx2, cpu::Isa::kAvxVnni, cpu::Isa::kAvx512, cpu::Isa::kNeon,
                             cpu::Isa::kNeonDotprod, cpu::Isa::kNeonI8mm}) {
    if (!cpu::isa_usable(isa)) continue;
    for (const int threads : {1, 2, 3, 4, 8}) {
      std::string name = std::string(cpu::isa_name(isa)) + "_" + std::to_string(threads);
      std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_'; });
      makers.push_back({name, threads, [=] { return cpu_unit(isa, threads); }});
    }
  }
#ifdef YAMATA_CUDA
  if (const char* name = std::getenv("YAMATA_TEST_DEVICE"))
    makers.push_back({"device", 1, [=] { return std::make_unique<cuda::CudaUnit>(cuda::make_cuda_device(name)); }});
#endif
#ifdef YAMATA_EMULATED_DEVICE
  for (const bool unified : {true, false})
    makers.push_back({unified ? "emulated_unified" : "emulated_discrete", 1, [=] { return emulated_unit(unified); }});
#endif
  return makers;
}

class UnitContract : public testing::TestWithParam<UnitMaker> {
 protected:
  ComputeUnit& unit() { return *unit_; }
  /// The unit with which all results are compared.
  ComputeUnit& reference() { return *reference_; }

 private:
  std::unique_ptr<ComputeUnit> unit_ = GetParam().make(), reference_ = cpu_unit(cpu::Isa::kScalar, 1);
};

}  // namespace yamata::unit_contract
