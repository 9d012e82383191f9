#pragma once
// The intrinsics of the instruction set for which a file is compiled: the compiler's own or, in builds for tests (YAMATA_SIMDE), those of
// SIMDe, which run on any machine. Define YAMATA_NEON before including this for ARM's. No other header includes SIMDe.
#ifdef YAMATA_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#ifdef YAMATA_NEON
#include <simde/arm/neon.h>
#else
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
// SIMDe has these under other names.
#undef _mm512_shuffle_f32x4  // GCC's headers have macros, without optimization
#define _mm512_shuffle_f32x4 simde_mm512_shuffle_f32x4
#define _mm256_dpbusd_avx_epi32 simde_mm256_dpbusd_epi32
#endif
#elif defined(YAMATA_NEON)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif
