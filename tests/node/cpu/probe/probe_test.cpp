// The probes do all their work: the compiler removes nothing.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "node/cpu/probe/probe_kernels.hpp"

namespace yamata::cpu {
namespace {

class ProbeKernels : public testing::TestWithParam<Isa> {};

std::vector<Isa> usable() {
  std::vector<Isa> all{Isa::kScalar, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kNeon, Isa::kNeonDotprod, Isa::kNeonI8mm};
  std::erase_if(all, [](Isa isa) { return !isa_usable(isa); });
  return all;
}

TEST_P(ProbeKernels, Read_readsEveryWord) {
  std::mt19937_64 random(7);
  std::vector<std::uint64_t> words(4 * kProbeWords);
  for (std::uint64_t& word : words) word = random();
  for (const std::size_t count : {kProbeWords, 3 * kProbeWords, words.size()}) {
    const auto sum = std::accumulate(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count), std::uint64_t{0});
    EXPECT_EQ(probe_kernels(GetParam()).read(words.data(), count), sum) << count;
  }
}

TEST_P(ProbeKernels, Products_growWithTheRoundsAndAreAllDone) {
  for (const auto multiply : {probe_kernels(GetParam()).multiply_bytes, probe_kernels(GetParam()).multiply_floats}) {
    const std::uint64_t one = multiply(1);
    EXPECT_GT(one, 0u);
    EXPECT_EQ(multiply(0), 0u);
    EXPECT_EQ(multiply(1000), 1000 * one);
    EXPECT_EQ(multiply(kProbeRounds), kProbeRounds * one);
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, ProbeKernels, testing::ValuesIn(usable()), [](const auto& info) {
  std::string name = isa_name(info.param);
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace yamata::cpu
