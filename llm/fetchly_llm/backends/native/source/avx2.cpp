// Kernels for AVX2 and FMA. The same source makes those for AVX-VNNI, which avxvnni.cpp compiles again.
#include <immintrin.h>

#include <cstddef>

#include "kernels.hpp"

namespace {
#include "lanes_avx2.hpp"
#include "kernels_body.hpp"
#ifdef __AVXVNNI__
constexpr Kernels kTable = table("avxvnni");
#else
constexpr Kernels kTable = table("avx2");
#endif
}  // namespace

#ifdef __AVXVNNI__
const Kernels* avxvnni_kernels() { return &kTable; }
#else
const Kernels* avx2_kernels() { return &kTable; }
#endif
