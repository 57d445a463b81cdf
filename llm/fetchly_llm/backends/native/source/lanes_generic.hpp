// Sixteen virtual lanes in plain C++: the meaning of the operations that the other lanes_*.hpp give by intrinsics.
// Included within an anonymous namespace.

constexpr int kInt8Rows = 4;   // rows of an int8 micro-kernel
constexpr int kFloatRows = 2;  // rows of an fp32 micro-kernel
constexpr int kFloatTiles = 1;
constexpr bool kBiased = false;  // whether dot4 sees the weights as weight + 128

struct Floats {
    float lane[kLanes];
};
struct Ints {
    int32_t lane[kLanes];
};
using Weights = const int8_t*;

#define EACH_LANE for (int i = 0; i < kLanes; i++)

inline Floats load(const float* from) { Floats r; EACH_LANE r.lane[i] = from[i]; return r; }
inline void store(float* to, Floats a) { EACH_LANE to[i] = a.lane[i]; }
inline Floats all(float value) { Floats r; EACH_LANE r.lane[i] = value; return r; }
inline Floats operator+(Floats a, Floats b) { EACH_LANE a.lane[i] += b.lane[i]; return a; }
inline Floats operator-(Floats a, Floats b) { EACH_LANE a.lane[i] -= b.lane[i]; return a; }
inline Floats operator*(Floats a, Floats b) { EACH_LANE a.lane[i] *= b.lane[i]; return a; }
inline Floats operator/(Floats a, Floats b) { EACH_LANE a.lane[i] /= b.lane[i]; return a; }
// a * b + c, rounded once.
inline Floats fused(Floats a, Floats b, Floats c) {
    EACH_LANE c.lane[i] = __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]);
    return c;
}
// b where a is not the larger (the smaller), so also where either is a NaN.
inline Floats larger(Floats a, Floats b) {
    EACH_LANE a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
}
inline Floats smaller(Floats a, Floats b) {
    EACH_LANE a.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
}
// yes where a < b, else no; so no where either is a NaN.
inline Floats where_less(Floats a, Floats b, Floats yes, Floats no) {
    EACH_LANE no.lane[i] = a.lane[i] < b.lane[i] ? yes.lane[i] : no.lane[i];
    return no;
}
inline Floats where_nan(Floats a, Floats yes, Floats no) {
    EACH_LANE no.lane[i] = a.lane[i] != a.lane[i] ? yes.lane[i] : no.lane[i];
    return no;
}

inline Ints bits_of(Floats a) { Ints r; __builtin_memcpy(&r, &a, sizeof r); return r; }
inline Floats floats_of(Ints a) { Floats r; __builtin_memcpy(&r, &a, sizeof r); return r; }
inline Ints all_ints(int32_t value) { Ints r; EACH_LANE r.lane[i] = value; return r; }
inline Ints plus(Ints a, Ints b) {
    EACH_LANE a.lane[i] = int32_t(uint32_t(a.lane[i]) + uint32_t(b.lane[i]));
    return a;
}
inline Ints minus(Ints a, Ints b) {
    EACH_LANE a.lane[i] = int32_t(uint32_t(a.lane[i]) - uint32_t(b.lane[i]));
    return a;
}
inline Ints masked(Ints a, int32_t mask) { EACH_LANE a.lane[i] &= mask; return a; }
inline Ints larger_int(Ints a, Ints b) {
    EACH_LANE a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
}
inline Ints left_23(Ints a) { EACH_LANE a.lane[i] = int32_t(uint32_t(a.lane[i]) << 23); return a; }
inline Floats converted(Ints a) { Floats r; EACH_LANE r.lane[i] = float(a.lane[i]); return r; }
inline int32_t largest(Ints a) { int32_t r = a.lane[0]; EACH_LANE r = r > a.lane[i] ? r : a.lane[i]; return r; }
inline int32_t total(Ints a) { int32_t r = 0; EACH_LANE r += a.lane[i]; return r; }
inline void store_bytes(int8_t* to, Ints a) { EACH_LANE to[i] = int8_t(uint8_t(a.lane[i] & 0xff)); }

// Sixteen bfloat16 numbers.
inline Floats load_brain(const uint16_t* from) {
    Ints r;
    EACH_LANE r.lane[i] = int32_t(uint32_t(from[i]) << 16);
    return floats_of(r);
}

inline Weights load_weights(const int8_t* from) { return from; }
// sum[channel] += the dot product of the channel's four weights with the four bytes of `quad`.
inline Ints dot4(Ints sum, Weights weights, int32_t quad) {
    int8_t x[4];
    __builtin_memcpy(x, &quad, 4);
    EACH_LANE {
        const int8_t* w = weights + 4 * i;
        sum.lane[i] += w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3];
    }
    return sum;
}

#undef EACH_LANE
