// The kernels in terms of sixteen lanes. Each variant's .cpp includes this, after its lanes, within an anonymous
// namespace, so that no function compiled for one processor can stand in for another's (the linker would merge inline
// functions of the same name; for that reason nothing of the standard library is used here either).

// ---- a fixed tree over lanes, and the one exponential

inline float tree_sum(Floats a) {
    float lane[kLanes];
    store(lane, a);
    for (int width = kLanes / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) lane[i] += lane[i + width];
    return lane[0];
}

// Adding 1.5 * 2^23 rounds to the nearest integer, ties to even, and leaves it in the low bits.
constexpr float kRounder = 12582912.0f;

// e^x with a relative error below 2^-22; zero below -87, e^88 above 88, a NaN for a NaN. The polynomial is that of
// Cephes' expf.
inline Floats exponential(Floats x) {
    Floats bounded = smaller(all(88.0f), larger(all(-87.0f), x));
    Floats shifted = fused(bounded, all(1.44269504088896341f), all(kRounder));
    Floats whole = shifted - all(kRounder);
    Floats rest = fused(whole, all(-0.693359375f), bounded);
    rest = fused(whole, all(2.12194440e-4f), rest);
    Floats y = all(1.9875691500e-4f);
    y = fused(y, rest, all(1.3981999507e-3f));
    y = fused(y, rest, all(8.3334519073e-3f));
    y = fused(y, rest, all(4.1665795894e-2f));
    y = fused(y, rest, all(1.6666665459e-1f));
    y = fused(y, rest, all(5.0000001201e-1f));
    y = fused(y, rest * rest, rest + all(1.0f));
    Floats scaled = floats_of(plus(bits_of(y), left_23(bits_of(shifted))));
    return where_nan(x, x, where_less(x, all(-87.0f), all(0.0f), scaled));
}

// ---- int8 products

inline int32_t load_quad(const int8_t* from) {
    int32_t quad;
    __builtin_memcpy(&quad, from, 4);
    return quad;
}

// Bytes from a weight to the one that is fetched meanwhile: with arithmetic in between, processors do not run ahead far
// enough by themselves. Past the end of the weights it is a hint that comes to nothing. Only a call's first rows ask
// for it (kFetch): for the others the weights are near.
constexpr int kAhead = 4096;

// kRows rows times one tile, so that weights are one stream of memory. Each is loaded once for all rows; sums live in
// registers.
template <int kRows, bool kFetch>
inline void int8_tile(const Matrix& matrix, int tile, const Rows& rows, int row, float* out, int out_stride) {
    const int groups = matrix.groups;
    const int8_t* weights = matrix.weights + int64_t(tile) * groups * kTileGroup;
    const uint16_t* scales = matrix.scales + int64_t(tile) * groups * kLanes;
    const int8_t* quants = rows.quants + int64_t(row) * rows.stride;
    const int64_t row_groups = rows.stride / kGroup;
    const float* row_scales = rows.scales + row * row_groups;
    const int32_t* offsets = rows.offsets + row * row_groups;
    Floats sums[kRows];
    for (int r = 0; r < kRows; r++) sums[r] = all(0.0f);
    for (int group = 0; group < groups; group++) {
        Ints dots[kRows];
        for (int r = 0; r < kRows; r++) dots[r] = all_ints(kBiased ? offsets[r * row_groups + group] : 0);
        for (int quad = 0; quad < kGroup / 4; quad++) {
            const int8_t* place = weights + group * kTileGroup + quad * 4 * kLanes;
            if (kFetch) __builtin_prefetch(place + kAhead);
            Weights w = load_weights(place);
            for (int r = 0; r < kRows; r++)
                dots[r] = dot4(dots[r], w, load_quad(quants + int64_t(r) * rows.stride + group * kGroup + quad * 4));
        }
        Floats scale = load_brain(scales + group * kLanes);
        for (int r = 0; r < kRows; r++) {
            Floats both = scale * all(row_scales[r * row_groups + group]);
            sums[r] = fused(converted(dots[r]), both, sums[r]);
        }
    }
    for (int r = 0; r < kRows; r++) store(out + int64_t(r) * out_stride, sums[r]);
}

// As many of the rows from `done` on as come in groups of kRows; returns how many rows are done then.
template <int kRows>
inline int int8_rows(const Matrix& matrix, int tile, const Rows& rows, int row, int number, int done, float* out,
                     int out_stride) {
    for (; done + kRows <= number; done += kRows) {
        auto kernel = done == 0 ? int8_tile<kRows, true> : int8_tile<kRows, false>;
        kernel(matrix, tile, rows, row + done, out + int64_t(done) * out_stride, out_stride);
    }
    return done;
}

inline void int8_product(const Matrix& matrix, int tile, const Rows& rows, int row, int number, float* out,
                         int out_stride) {
    int done = 0;
    if constexpr (kInt8Rows >= 8) done = int8_rows<8>(matrix, tile, rows, row, number, done, out, out_stride);
    done = int8_rows<4>(matrix, tile, rows, row, number, done, out, out_stride);
    done = int8_rows<2>(matrix, tile, rows, row, number, done, out, out_stride);
    int8_rows<1>(matrix, tile, rows, row, number, done, out, out_stride);
}

// ---- fp32 products: one micro-kernel for matrices, scores and weighted sums

struct Dense {  // vectors `stride` apart
    const float* start;
    int64_t stride;
    const float* at(int index) const { return start + index * stride; }
};
struct Gathered {  // vectors anywhere
    const float* const* places;
    const float* at(int index) const { return places[index]; }
};

// out[r][lane] = (kAdd: out[r][lane] +) the chain over k of x[r][k] * vectors[k][column + lane].
template <int kRows, int kTiles, bool kAdd, typename Vectors>
inline void chain_tile(const float* const* x, Vectors vectors, int length, int column, float* const* out) {
    Floats sums[kRows][kTiles];
    for (int r = 0; r < kRows; r++)
        for (int t = 0; t < kTiles; t++) sums[r][t] = all(0.0f);
    for (int k = 0; k < length; k++) {
        const float* vector = vectors.at(k) + column;
        Floats w[kTiles];
        for (int t = 0; t < kTiles; t++) w[t] = load(vector + t * kLanes);
        for (int r = 0; r < kRows; r++) {
            Floats value = all(x[r][k]);
            for (int t = 0; t < kTiles; t++) sums[r][t] = fused(value, w[t], sums[r][t]);
        }
    }
    for (int r = 0; r < kRows; r++)
        for (int t = 0; t < kTiles; t++) {
            float* place = out[r] + column + t * kLanes;
            store(place, kAdd ? load(place) + sums[r][t] : sums[r][t]);
        }
}

template <int kRows, bool kAdd, typename Vectors>
inline void chain_rows(const float* const* x, Vectors vectors, int length, int columns, float* const* out) {
    constexpr int kTiles = kRows == 1 ? 4 : kFloatTiles;  // a single row has the registers to read whole vectors
    int column = 0;
    for (; column + kTiles * kLanes <= columns; column += kTiles * kLanes)
        chain_tile<kRows, kTiles, kAdd>(x, vectors, length, column, out);
    for (; column < columns; column += kLanes) chain_tile<kRows, 1, kAdd>(x, vectors, length, column, out);
}

template <bool kAdd, typename Vectors>
inline void chain(const float* const* x, int count, Vectors vectors, int length, int columns, float* const* out) {
    int row = 0;
    for (; row + kFloatRows <= count; row += kFloatRows)
        chain_rows<kFloatRows, kAdd>(x + row, vectors, length, columns, out + row);
    for (; row + 3 <= count; row += 3) chain_rows<3, kAdd>(x + row, vectors, length, columns, out + row);
    for (; row + 2 <= count; row += 2) chain_rows<2, kAdd>(x + row, vectors, length, columns, out + row);
    for (; row < count; row++) chain_rows<1, kAdd>(x + row, vectors, length, columns, out + row);
}

// Calls `work(x, out, n)` for `count` rows given as two strided arrays, a few pointers at a time.
constexpr int kPointers = 24;
template <typename Work>
inline void in_batches(const float* x, int64_t x_stride, float* out, int64_t out_stride, int count, Work work) {
    const float* inputs[kPointers];
    float* outputs[kPointers];
    for (int first = 0; first < count; first += kPointers) {
        int size = count - first < kPointers ? count - first : kPointers;
        for (int i = 0; i < size; i++) {
            inputs[i] = x + (first + i) * x_stride;
            outputs[i] = out + (first + i) * out_stride;
        }
        work(inputs, outputs, size);
    }
}

inline void float_product(const Matrix& matrix, int tile, const Rows& rows, int row, int number, float* out,
                          int out_stride) {
    const float* weights = matrix.floats + int64_t(tile) * matrix.groups * kTileGroup;
    const float* x = rows.floats + int64_t(row) * rows.stride;
    for (int r = 0; r < number; r++) store(out + int64_t(r) * out_stride, all(0.0f));
    for (int group = 0; group < matrix.groups; group++) {
        Dense vectors{weights + int64_t(group) * kTileGroup, kLanes};
        in_batches(x + group * kGroup, rows.stride, out, out_stride, number,
                   [&](const float* const* from, float* const* to, int size) {
                       chain<true>(from, size, vectors, kGroup, kLanes, to);
                   });
    }
}

// ---- the table's functions

void product(const Matrix& matrix, int first, int count, const Rows& rows, int row, int number, float* out,
             int out_stride) {
    for (int i = 0; i < count; i++) {
        if (matrix.floats != nullptr)
            float_product(matrix, first + i, rows, row, number, out + i * kLanes, out_stride);
        else
            int8_product(matrix, first + i, rows, row, number, out + i * kLanes, out_stride);
    }
}

void store_row(const float* values, int size, Rows& rows, int row, int start) {
    if (rows.quants == nullptr) {
        __builtin_memcpy(rows.floats + int64_t(row) * rows.stride + start, values, sizeof(float) * size_t(size));
        return;
    }
    int8_t* quants = rows.quants + int64_t(row) * rows.stride + start;
    const int64_t group = (int64_t(row) * rows.stride + start) / kGroup;
    for (int i = 0; i * kGroup < size; i++) {
        Floats low = load(values + i * kGroup), high = load(values + i * kGroup + kLanes);
        // Without their signs, floats are ordered as their bits are, infinity and NaN last.
        int32_t peak = largest(larger_int(masked(bits_of(low), 0x7fffffff), masked(bits_of(high), 0x7fffffff)));
        float largest_value;
        __builtin_memcpy(&largest_value, &peak, 4);
        float scale = largest_value / 127.0f, inverse = 127.0f / largest_value;
        if (peak >= 0x7f800000) {
            scale = __builtin_nanf("");
            low = high = all(0.0f);
            inverse = 0.0f;
        } else if (largest_value < 1e-30f) {  // where the inverse would overflow: too small for any sum to see
            scale = inverse = 0.0f;
        }
        const Ints magic = all_ints(0x4b400000);
        Ints first = minus(bits_of(fused(low, all(inverse), all(kRounder))), magic);
        Ints second = minus(bits_of(fused(high, all(inverse), all(kRounder))), magic);
        store_bytes(quants + i * kGroup, first);
        store_bytes(quants + i * kGroup + kLanes, second);
        rows.scales[group + i] = scale;
        rows.offsets[group + i] = -128 * total(plus(first, second));
    }
}

void norm(const float* values, const float* weight, float epsilon, int size, int padded, float* out) {
    Floats squares = all(0.0f);
    for (int i = 0; i < padded; i += kLanes) {
        Floats x = load(values + i);
        squares = fused(x, x, squares);
    }
    float inverse = 1.0f / __builtin_sqrtf(tree_sum(squares) / float(size) + epsilon);
    for (int i = 0; i < padded; i += kLanes) store(out + i, load(values + i) * all(inverse) * load(weight + i));
}

void swiglu(float* gate, const float* up) {
    for (int i = 0; i < kGroup; i += kLanes) {
        Floats g = load(gate + i);
        Floats activated = g / (all(1.0f) + exponential(all(0.0f) - g));
        store(gate + i, activated * load(up + i));
    }
}

void scores(const float* const* queries, int count, const float* keys, int dimensions, float* out, int stride) {
    float* places[kPointers];
    for (int first = 0; first < count; first += kPointers) {
        int size = count - first < kPointers ? count - first : kPointers;
        for (int i = 0; i < size; i++) places[i] = out + int64_t(first + i) * stride;
        chain<false>(queries + first, size, Dense{keys, kBlock}, dimensions, kBlock, places);
    }
}

float softmax(float* values, int blocks) {
    Floats peaks = load(values);
    for (int i = kLanes; i < blocks * kBlock; i += kLanes) peaks = larger(peaks, load(values + i));
    float lane[kLanes], peak;
    store(lane, peaks);
    peak = lane[0];
    for (int i = 1; i < kLanes; i++) peak = peak > lane[i] ? peak : lane[i];
    Floats sums = all(0.0f);
    for (int i = 0; i < blocks * kBlock; i += kLanes) {
        Floats weight = exponential(load(values + i) - all(peak));
        store(values + i, weight);
        sums = sums + weight;
    }
    return tree_sum(sums);
}

void mix(const float* weights, int weight_stride, int count, const float* values, int positions, int padded,
         float* sums) {
    in_batches(weights, weight_stride, sums, padded, count, [&](const float* const* from, float* const* to, int size) {
        chain<true>(from, size, Dense{values, padded}, positions, padded, to);
    });
}

void mix_gathered(const float* weights, int weight_stride, int count, const float* const* values, int positions,
                  int padded, float* sums) {
    in_batches(weights, weight_stride, sums, padded, count, [&](const float* const* from, float* const* to, int size) {
        chain<true>(from, size, Gathered{values}, positions, padded, to);
    });
}

constexpr Kernels table(const char* name) {
    return {name, product, store_row, norm, swiglu, scores, softmax, mix, mix_gathered};
}
