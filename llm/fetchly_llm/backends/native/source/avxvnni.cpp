// Kernels for AVX2, FMA and AVX-VNNI.
#include "avx2.cpp"
