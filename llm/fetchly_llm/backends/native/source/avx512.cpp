// Kernels for AVX-512 with VNNI.
#include <immintrin.h>

#include <cstddef>

#include "kernels.hpp"

namespace {
#include "lanes_avx512.hpp"
#include "kernels_body.hpp"
constexpr Kernels kTable = table("avx512");
}  // namespace

const Kernels* avx512_kernels() { return &kTable; }
