// Sixteen virtual lanes as two AVX2 registers; with AVX-VNNI the dot product of bytes is one instruction.
// Included within an anonymous namespace. The meaning of the operations is in lanes_generic.hpp.

constexpr int kInt8Rows = 4;
constexpr int kFloatRows = 3;
constexpr int kFloatTiles = 2;

struct Floats {
    __m256 low, high;
};
struct Ints {
    __m256i low, high;
};
using Weights = Ints;

inline Floats load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
inline void store(float* to, Floats a) { _mm256_storeu_ps(to, a.low); _mm256_storeu_ps(to + 8, a.high); }
inline Floats all(float value) { __m256 a = _mm256_set1_ps(value); return {a, a}; }
inline Floats operator+(Floats a, Floats b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Floats operator-(Floats a, Floats b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Floats operator/(Floats a, Floats b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline Floats fused(Floats a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Floats larger(Floats a, Floats b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline Floats smaller(Floats a, Floats b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
inline Floats where_less(Floats a, Floats b, Floats yes, Floats no) {
    return {_mm256_blendv_ps(no.low, yes.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.high, yes.high, _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
}
inline Floats where_nan(Floats a, Floats yes, Floats no) {
    return {_mm256_blendv_ps(no.low, yes.low, _mm256_cmp_ps(a.low, a.low, _CMP_UNORD_Q)),
            _mm256_blendv_ps(no.high, yes.high, _mm256_cmp_ps(a.high, a.high, _CMP_UNORD_Q))};
}

inline Ints bits_of(Floats a) { return {_mm256_castps_si256(a.low), _mm256_castps_si256(a.high)}; }
inline Floats floats_of(Ints a) { return {_mm256_castsi256_ps(a.low), _mm256_castsi256_ps(a.high)}; }
inline Ints all_ints(int32_t value) { __m256i a = _mm256_set1_epi32(value); return {a, a}; }
inline Ints plus(Ints a, Ints b) { return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)}; }
inline Ints minus(Ints a, Ints b) { return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)}; }
inline Ints masked(Ints a, int32_t mask) {
    __m256i m = _mm256_set1_epi32(mask);
    return {_mm256_and_si256(a.low, m), _mm256_and_si256(a.high, m)};
}
inline Ints larger_int(Ints a, Ints b) { return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)}; }
inline Ints left_23(Ints a) { return {_mm256_slli_epi32(a.low, 23), _mm256_slli_epi32(a.high, 23)}; }
inline Floats converted(Ints a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }
inline int32_t largest(Ints a) {
    __m256i eight = _mm256_max_epi32(a.low, a.high);
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}
inline int32_t total(Ints a) {
    __m256i eight = _mm256_add_epi32(a.low, a.high);
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}
inline void store_bytes(int8_t* to, Ints a) {
    const __m256i low_bytes = _mm256_set1_epi32(0xff);
    __m256i words = _mm256_packus_epi32(_mm256_and_si256(a.low, low_bytes), _mm256_and_si256(a.high, low_bytes));
    words = _mm256_permute4x64_epi64(words, 0xd8);
    __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}
inline Floats load_brain(const uint16_t* from) {
    const __m128i* halves = reinterpret_cast<const __m128i*>(from);
    return floats_of({_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(halves)), 16),
                      _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(halves + 1)), 16)});
}

#ifdef __AVXVNNI__
constexpr bool kBiased = true;
inline Weights load_weights(const int8_t* from) {
    const __m256i* halves = reinterpret_cast<const __m256i*>(from);
    const __m256i bias = _mm256_set1_epi8(-128);
    return {_mm256_xor_si256(_mm256_loadu_si256(halves), bias),
            _mm256_xor_si256(_mm256_loadu_si256(halves + 1), bias)};
}
inline Ints dot4(Ints sum, Weights weights, int32_t quad) {
    __m256i x = _mm256_set1_epi32(quad);
    return {_mm256_dpbusd_avx_epi32(sum.low, weights.low, x), _mm256_dpbusd_avx_epi32(sum.high, weights.high, x)};
}
#else
constexpr bool kBiased = false;
inline Weights load_weights(const int8_t* from) {
    const __m256i* halves = reinterpret_cast<const __m256i*>(from);
    return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}
// |w| times +-x: both within +-127, so that the 16-bit sums of two products cannot saturate.
inline Ints dot4(Ints sum, Weights weights, int32_t quad) {
    const __m256i one = _mm256_set1_epi16(1);
    __m256i x = _mm256_set1_epi32(quad);
    __m256i low = _mm256_maddubs_epi16(_mm256_abs_epi8(weights.low), _mm256_sign_epi8(x, weights.low));
    __m256i high = _mm256_maddubs_epi16(_mm256_abs_epi8(weights.high), _mm256_sign_epi8(x, weights.high));
    return {_mm256_add_epi32(sum.low, _mm256_madd_epi16(low, one)),
            _mm256_add_epi32(sum.high, _mm256_madd_epi16(high, one))};
}
#endif
