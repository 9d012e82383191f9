#include "src/quantize/group_fit.hpp"

#include "src/quantize/fit.hpp"

namespace yamata::quantize {
namespace {

template <class Fit>
void each_group(const GroupedElements& groups, Fit fit) {
  for (std::size_t j = 0; j < groups.count; ++j) {
    const std::size_t at = j * groups.size;
    fit(j, at, std::span(groups.x + at, groups.size), groups.weights ? groups.weights + at : nullptr);
  }
}

void symmetric(const GroupedElements& groups, int levels, std::uint8_t* numbers, float* scales) {
  each_group(groups, [&](std::size_t j, std::size_t at, std::span<const float> x, const float* weights) {
    scales[j] = fit_symmetric(x, levels, weights, numbers + at);
  });
}

void refine(const GroupedElements& groups, int levels, std::uint8_t* numbers, float* scales) {
  each_group(groups, [&](std::size_t j, std::size_t at, std::span<const float> x, const float*) {
    scales[j] = refine_symmetric(x, levels, numbers + at);
  });
}

void offset(const GroupedElements& groups, int most, const Trials& trials, std::uint8_t* numbers, Offset* fits) {
  each_group(groups, [&](std::size_t j, std::size_t at, std::span<const float> x, const float* weights) {
    fits[j] = fit_offset(x, most, weights, trials, numbers + at);
  });
}

}  // namespace

const GroupFit group_fit_scalar{symmetric, refine, offset};

const GroupFit& group_fit([[maybe_unused]] cpu::Isa isa) {
#if defined(__x86_64__)
  if (isa == cpu::Isa::kAvx2 || isa == cpu::Isa::kAvxVnni || isa == cpu::Isa::kAvx512) return group_fit_avx2;
#elif defined(__aarch64__)
  if (isa == cpu::Isa::kNeon || isa == cpu::Isa::kNeonDotprod || isa == cpu::Isa::kNeonI8mm) return group_fit_neon;
#endif
  return group_fit_scalar;
}

}  // namespace yamata::quantize
