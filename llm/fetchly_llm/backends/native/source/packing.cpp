#include "packing.hpp"

#include <cmath>
#include <cstring>
#include <vector>

namespace {
constexpr size_t kLine = 64;

// The smallest bfloat16 that is not below a positive `value`; a NaN or an infinity for one.
uint16_t brain_above(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return uint16_t((bits + 0xffff) >> 16);
}

float half_float(uint16_t bits) {
    const float sign = bits & 0x8000 ? -1.0f : 1.0f;
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * std::ldexp(float(fraction), -24);
    return sign * std::ldexp(float(1024 + fraction), exponent - 25);
}

void convert(Type type, const void* data, int64_t start, int64_t count, float* out) {
    const char* from = static_cast<const char*>(data) + start * (type == kFloat32 ? 4 : 2);
    if (type == kFloat32) {
        std::memcpy(out, from, size_t(count) * 4);  // the file's numbers need not be aligned
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits;
        std::memcpy(&bits, from + 2 * i, 2);
        out[i] = type == kBfloat16 ? brain_float(bits) : half_float(bits);
    }
}

// `values` has the inputs of all groups.
void pack_channel(const Matrix& matrix, int64_t channel, const float* values) {
    const int64_t tile = channel / kLanes, lane = channel % kLanes;
    for (int group = 0; group < matrix.groups; group++) {
        const float* from = values + group * kGroup;
        const int64_t place = tile * matrix.groups + group;
        if (matrix.floats != nullptr) {
            float* to = const_cast<float*>(matrix.floats) + place * kTileGroup + lane;
            for (int i = 0; i < kGroup; i++) to[i * kLanes] = from[i];
            continue;
        }
        float largest = 0.0f, sum = 0.0f;
        for (int i = 0; i < kGroup; i++) {
            largest = std::fabs(from[i]) > largest ? std::fabs(from[i]) : largest;
            sum += from[i] * 0.0f;  // a NaN where any is infinite or a NaN
        }
        uint16_t bits = sum == 0.0f ? brain_above(largest / 127.0f) : brain_above(NAN);
        if (largest < 1e-30f && sum == 0.0f) bits = 0;  // too small for any sum to see
        const_cast<uint16_t*>(matrix.scales)[place * kLanes + lane] = bits;
        const float scale = brain_float(bits), inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
        int8_t* to = const_cast<int8_t*>(matrix.weights) + place * kTileGroup + lane * 4;
        for (int i = 0; i < kGroup; i++) {
            const float rounded = (inverse == 0.0f ? 0.0f : from[i] * inverse) + 12582912.0f;  // see kernels_body.hpp
            int32_t quant;
            std::memcpy(&quant, &rounded, 4);
            to[i / 4 * 4 * kLanes + i % 4] = int8_t(quant - 0x4b400000);
        }
    }
}
}  // namespace

float brain_float(uint16_t bits) {
    uint32_t wide = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
}

Matrix Arena::matrix(int64_t channels, int64_t inputs) {
    Matrix matrix;
    matrix.tiles = int((channels + kLanes - 1) / kLanes);
    matrix.groups = int((inputs + kGroup - 1) / kGroup);
    const size_t groups = size_t(matrix.tiles) * size_t(matrix.groups);
    if (int8_) {
        matrix.weights = static_cast<int8_t*>(take(groups * kTileGroup));
        matrix.scales = static_cast<uint16_t*>(take(groups * kLanes * sizeof(uint16_t)));
    } else {
        matrix.floats = static_cast<float*>(take(groups * kTileGroup * sizeof(float)));
    }
    return matrix;
}

float* Arena::vector(int64_t size) { return static_cast<float*>(take(size_t(size) * sizeof(float))); }

void* Arena::take(size_t bytes) {
    const size_t start = used_;
    used_ += (bytes + kLine - 1) / kLine * kLine;
    return memory_.size() == 0 ? nullptr : memory_.data() + start;
}

void Arena::allocate() {
    memory_ = Buffer<char>(used_);
    used_ = 0;
}

void pack(Pool& pool, const Place& place, Type type, const void* data, float scale) {
    auto channel_of = [&](int64_t row) {
        return place.channel + row + (place.run ? row / place.run * place.gap : 0);
    };
    auto scaled = [&](int64_t start, int64_t count, float* out) {
        convert(type, data, start, count, out);
        if (scale != 1.0f)
            for (int64_t i = 0; i < count; i++) out[i] *= scale;
    };
    if (place.vector != nullptr) {
        for (int64_t row = 0; row < place.rows; row++) scaled(row, 1, place.vector + channel_of(row));
        return;
    }
    constexpr int64_t kRowsAtOnce = 64;
    pool.run(int((place.rows + kRowsAtOnce - 1) / kRowsAtOnce), [&](int item, int) {
        std::vector<float> values(size_t(place.matrix->groups) * kGroup);
        const int64_t first = item * kRowsAtOnce;
        for (int64_t row = first; row < first + kRowsAtOnce && row < place.rows; row++) {
            scaled(row * place.columns, place.columns, values.data());
            pack_channel(*place.matrix, channel_of(row), values.data());
        }
    });
}

bool all_finite(Type type, const void* data, int64_t count, float scale) {
    for (int64_t i = 0; i < count; i++) {
        float value;
        convert(type, data, i, 1, &value);
        if (!std::isfinite(value * scale)) return false;
    }
    return true;
}
