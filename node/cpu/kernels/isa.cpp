// Which instruction sets this machine supports, and which one is used.
#include <cstdlib>
#include <string>

#include "node/cpu/kernels/tables.hpp"
#include "node/error.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace yamata::cpu {

void refuse_absent(Isa isa) {
  throw UsageError(std::string("the kernels of '") + isa_name(isa) +
                   "' are not in this program, which was built for another processor; choose another instruction set");
}

namespace {

#ifdef __x86_64__
// clang 14 has no builtins for these two. They use registers that AVX2 uses, too, so no other state must be saved.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

bool has_avx_vnni() {
  constexpr unsigned kAvxVnni = 1u << 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & kAvxVnni) != 0;
}
#endif

}  // namespace

#ifdef __x86_64__
const bool kIsAmd = (__builtin_cpu_init(), __builtin_cpu_is("amd"));
#else
const bool kIsAmd = false;
#endif

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvxVnni:
      return "avx-vnni";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kNeon:
      return "neon";
    case Isa::kNeonDotprod:
      return "neon-dotprod";
    case Isa::kNeonI8mm:
      return "neon-i8mm";
  }
  return "unknown";
}

bool isa_usable(Isa isa) {
  if (isa == Isa::kScalar) return true;
#if defined(__x86_64__)
  // These builtins also check whether the operating system saves the wide registers.
  if (isa == Isa::kAvx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  if (isa == Isa::kAvxVnni) return isa_usable(Isa::kAvx2) && has_avx_vnni();
  if (isa == Isa::kAvx512) {
    return isa_usable(Isa::kAvx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
  }
#elif defined(__aarch64__)
  constexpr unsigned long kHasSimd = 1ul << 1, kHasDotprod = 1ul << 20, kHasI8mm = 1ul << 13;  // HWCAP_ASIMD, HWCAP_ASIMDDP, HWCAP2_I8MM
  if (isa == Isa::kNeon) return (getauxval(AT_HWCAP) & kHasSimd) != 0;
  if (isa == Isa::kNeonDotprod) return isa_usable(Isa::kNeon) && (getauxval(AT_HWCAP) & kHasDotprod) != 0;
  if (isa == Isa::kNeonI8mm) return isa_usable(Isa::kNeonDotprod) && (getauxval(AT_HWCAP2) & kHasI8mm) != 0;
#endif
  return false;
}

Isa choose_isa() {
  constexpr Isa kBestFirst[] = {Isa::kAvx512, Isa::kAvxVnni, Isa::kAvx2, Isa::kNeonI8mm, Isa::kNeonDotprod, Isa::kNeon, Isa::kScalar};
  const char* wanted = std::getenv("YAMATA_ISA");
  const std::string name = wanted ? wanted : "";
  bool known = false;
  for (const Isa isa : kBestFirst) {
    const std::string own = isa_name(isa), group = own.substr(0, own.starts_with("neon") ? 4 : own.size());
    if (!name.empty() && name != own && name != group) continue;
    known = true;
    if (isa_usable(isa)) return isa;
  }
  if (!known) {
    throw UsageError("YAMATA_ISA: '" + name +
                     "' is not an instruction set; use scalar, avx2, avx-vnni, avx512, neon (the best of it), neon-dotprod or neon-i8mm");
  }
  throw UsageError("YAMATA_ISA: this machine cannot run the kernels of '" + name + "'; unset it to use the best it can");
}

const KernelTable& kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx2) return table_avx2;
  if (isa == Isa::kAvxVnni) return table_avx_vnni;
  if (isa == Isa::kAvx512) return table_avx512;
#elif defined(__aarch64__)
  if (isa == Isa::kNeon) return table_neon;
  if (isa == Isa::kNeonDotprod) return table_neon_dotprod;
  if (isa == Isa::kNeonI8mm) return table_neon_i8mm;
#endif
  if (isa == Isa::kScalar) return table_scalar;
  refuse_absent(isa);
}

}  // namespace yamata::cpu
