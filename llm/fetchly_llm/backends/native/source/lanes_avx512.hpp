// Sixteen virtual lanes as one AVX-512 register. Included within an anonymous namespace.
// The meaning of the operations is in lanes_generic.hpp.

constexpr int kInt8Rows = 8;
constexpr int kFloatRows = 6;
constexpr int kFloatTiles = 4;
constexpr bool kBiased = true;

struct Floats {
    __m512 v;
};
struct Ints {
    __m512i v;
};
using Weights = Ints;

inline Floats load(const float* from) { return {_mm512_loadu_ps(from)}; }
inline void store(float* to, Floats a) { _mm512_storeu_ps(to, a.v); }
inline Floats all(float value) { return {_mm512_set1_ps(value)}; }
inline Floats operator+(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Floats operator-(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Floats operator/(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Floats fused(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats larger(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Floats smaller(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Floats where_less(Floats a, Floats b, Floats yes, Floats no) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
inline Floats where_nan(Floats a, Floats yes, Floats no) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), no.v, yes.v)};
}

inline Ints bits_of(Floats a) { return {_mm512_castps_si512(a.v)}; }
inline Floats floats_of(Ints a) { return {_mm512_castsi512_ps(a.v)}; }
inline Ints all_ints(int32_t value) { return {_mm512_set1_epi32(value)}; }
inline Ints plus(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline Ints minus(Ints a, Ints b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline Ints masked(Ints a, int32_t mask) { return {_mm512_and_si512(a.v, _mm512_set1_epi32(mask))}; }
inline Ints larger_int(Ints a, Ints b) { return {_mm512_max_epi32(a.v, b.v)}; }
inline Ints left_23(Ints a) { return {_mm512_slli_epi32(a.v, 23)}; }
inline Floats converted(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline int32_t largest(Ints a) { return _mm512_reduce_max_epi32(a.v); }
inline int32_t total(Ints a) { return _mm512_reduce_add_epi32(a.v); }
inline void store_bytes(int8_t* to, Ints a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(a.v));
}
inline Floats load_brain(const uint16_t* from) {
    __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return floats_of({_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16)});
}

inline Weights load_weights(const int8_t* from) {
    return {_mm512_xor_si512(_mm512_loadu_si512(from), _mm512_set1_epi8(-128))};
}
inline Ints dot4(Ints sum, Weights weights, int32_t quad) {
    return {_mm512_dpbusd_epi32(sum.v, weights.v, _mm512_set1_epi32(quad))};
}
