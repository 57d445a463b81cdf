#include "weights.hpp"

#include <cmath>
#include <cstring>

namespace {
constexpr int64_t kMost = int64_t(1) << 24;  // of any one number of a shape
constexpr size_t kLine = 64;

float brain_float(uint16_t bits) {
    uint32_t wide = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
}

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

void convert(Type type, const char* data, int64_t start, int64_t count, float* out) {
    const char* from = data + start * (type == kFloat32 ? 4 : 2);
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
}  // namespace

bool Shape::valid() const {
    for (int64_t number : {vocab, hidden, inner, layers, heads, kv_heads, dim})
        if (number < 1 || number > kMost) return false;
    return hidden % kGroup == 0 && inner % kGroup == 0 && int64_t(heads) * dim % kGroup == 0 && dim % 2 == 0 &&
           heads % kv_heads == 0 && int64_t(heads) * dim <= kMost && layers <= 4096;
}

// Where a tensor goes: rows of `matrix` from `channel` on, `run` rows and then `gap` channels left out, or a vector.
struct Weights::Place {
    const Matrix* matrix = nullptr;
    float* vector = nullptr;
    int64_t rows = 0, columns = 1, channel = 0, run = 0, gap = 0;
};

Weights::Weights(const Shape& shape)
    : shape_(shape), layers_(size_t(shape.layers)), loaded_(size_t(shape.layers) * kParts) {
    for (int round = 0; round < 2; round++) {  // the first counts bytes
        embedding_ = make_matrix(shape.vocab, shape.hidden);
        for (Layer& layer : layers_) {  // in the order in which a step reads them
            const int64_t channels = int64_t(shape.units()) * shape.padded();
            layer.attention_norm = make_vector(shape.hidden);
            layer.qkv = make_matrix(channels, shape.hidden);
            layer.qkv_bias = shape.qkv_bias ? make_vector(channels) : nullptr;
            layer.query_norm = shape.qk_norm ? make_vector(shape.padded()) : nullptr;
            layer.key_norm = shape.qk_norm ? make_vector(shape.padded()) : nullptr;
            layer.output = make_matrix(shape.hidden, shape.heads * shape.dim);
            layer.output_bias = shape.output_bias ? make_vector(shape.hidden) : nullptr;
            layer.mlp_norm = make_vector(shape.hidden);
            layer.gate_up = make_matrix(int64_t(2) * shape.inner, shape.hidden);
            layer.down = make_matrix(shape.hidden, shape.inner);
        }
        final_norm_ = make_vector(shape.hidden);
        if (!shape.tied) head_ = make_matrix(shape.vocab, shape.hidden);
        if (round == 0) {
            memory_ = Buffer<char>(used_);
            used_ = 0;
        }
    }
}

Matrix Weights::make_matrix(int64_t channels, int inputs) {
    Matrix matrix;
    matrix.tiles = int((channels + kLanes - 1) / kLanes);
    matrix.groups = inputs / kGroup;
    const size_t groups = size_t(matrix.tiles) * size_t(matrix.groups);
    char* start = memory_.data() + used_;
    if (!shape_.int8) {
        matrix.floats = reinterpret_cast<float*>(start);
        used_ += groups * kTileGroup * sizeof(float);
        return matrix;
    }
    matrix.weights = reinterpret_cast<int8_t*>(start);
    matrix.scales = reinterpret_cast<uint16_t*>(start + groups * kTileGroup);
    used_ += (groups * (kTileGroup + kLanes * sizeof(uint16_t)) + kLine - 1) / kLine * kLine;
    return matrix;
}

float* Weights::make_vector(int64_t size) {
    char* start = memory_.data() + used_;
    used_ += (size_t(size) * sizeof(float) + kLine - 1) / kLine * kLine;
    return reinterpret_cast<float*>(start);
}

Weights::Place Weights::place_of(int number, Part part) {
    Layer& layer = layers_[size_t(number)];
    const Shape& s = shape_;
    const int64_t padded = s.padded(), gap = padded - s.dim;
    const int64_t queries = int64_t(s.heads) * s.dim, keys = int64_t(s.kv_heads) * s.dim;
    const int64_t first_key = s.heads * padded, first_value = first_key + s.kv_heads * padded;
    switch (part) {
        case kEmbedding: return {&embedding_, nullptr, s.vocab, s.hidden};
        case kHead: return s.tied ? Place{} : Place{&head_, nullptr, s.vocab, s.hidden};
        case kFinalNorm: return {nullptr, final_norm_, s.hidden};
        case kAttentionNorm: return {nullptr, layer.attention_norm, s.hidden};
        case kQuery: return {&layer.qkv, nullptr, queries, s.hidden, 0, s.dim, gap};
        case kKey: return {&layer.qkv, nullptr, keys, s.hidden, first_key, s.dim, gap};
        case kValue: return {&layer.qkv, nullptr, keys, s.hidden, first_value, s.dim, gap};
        case kQueryBias: return {nullptr, layer.qkv_bias, queries, 1, 0, s.dim, gap};
        case kKeyBias: return {nullptr, layer.qkv_bias, keys, 1, first_key, s.dim, gap};
        case kValueBias: return {nullptr, layer.qkv_bias, keys, 1, first_value, s.dim, gap};
        case kQueryNorm: return {nullptr, layer.query_norm, s.dim};
        case kKeyNorm: return {nullptr, layer.key_norm, s.dim};
        case kOutput: return {&layer.output, nullptr, s.hidden, queries};
        case kOutputBias: return {nullptr, layer.output_bias, s.hidden};
        case kMlpNorm: return {nullptr, layer.mlp_norm, s.hidden};
        case kGate: return {&layer.gate_up, nullptr, s.inner, s.hidden, 0, kGroup, kGroup};
        case kUp: return {&layer.gate_up, nullptr, s.inner, s.hidden, kGroup, kGroup, kGroup};
        case kDown: return {&layer.down, nullptr, s.hidden, s.inner};
        default: return {};
    }
}

bool Weights::load(Pool& pool, int layer, Part part, Type type, const void* data, int64_t rows, int64_t columns) {
    if (data == nullptr || layer < 0 || layer >= shape_.layers || part < 0 || part >= kParts || type < 0 ||
        type >= kTypes || (part <= kHead && layer != 0))
        return false;
    const Place place = place_of(layer, part);
    if ((place.matrix == nullptr && place.vector == nullptr) || rows != place.rows || columns != place.columns)
        return false;
    const char* bytes = static_cast<const char*>(data);
    auto channel_of = [&](int64_t row) {
        return place.channel + row + (place.run ? row / place.run * place.gap : 0);
    };
    if (place.vector != nullptr) {
        for (int64_t row = 0; row < rows; row++) convert(type, bytes, row, 1, place.vector + channel_of(row));
    } else {
        constexpr int64_t kRowsAtOnce = 64;
        pool.run(int((rows + kRowsAtOnce - 1) / kRowsAtOnce), [&](int item, int) {
            std::vector<float> values(static_cast<size_t>(columns));
            const int64_t first = item * kRowsAtOnce, end = first + kRowsAtOnce < rows ? first + kRowsAtOnce : rows;
            for (int64_t row = first; row < end; row++) {
                convert(type, bytes, row * columns, columns, values.data());
                pack_row(*place.matrix, channel_of(row), values.data());
            }
        });
    }
    loaded_[size_t(layer) * kParts + part] = 1;
    return true;
}

void Weights::pack_row(const Matrix& matrix, int64_t channel, const float* values) {
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

bool Weights::complete() const {
    auto has = [&](int layer, int part) { return loaded_[size_t(layer) * kParts + size_t(part)] != 0; };
    for (int layer = 0; layer < shape_.layers; layer++)
        for (int part = 0; part < kParts; part++) {
            bool needed = part > kHead || layer == 0;
            if (part == kHead && shape_.tied) needed = false;
            if (part >= kQueryBias && part <= kValueBias) needed = shape_.qkv_bias;
            if (part == kQueryNorm || part == kKeyNorm) needed = shape_.qk_norm;
            if (part == kOutputBias) needed = shape_.output_bias;
            if (needed && !has(layer, part)) return false;
        }
    return true;
}

void Weights::embed(int token, float* out) const {
    const int64_t tile = token / kLanes, lane = token % kLanes;
    for (int group = 0; group < embedding_.groups; group++) {
        const int64_t place = tile * embedding_.groups + group;
        for (int i = 0; i < kGroup; i++) {
            float& value = out[group * kGroup + i];
            if (embedding_.floats != nullptr)
                value = embedding_.floats[place * kTileGroup + i * kLanes + lane];
            else
                value = float(embedding_.weights[place * kTileGroup + i / 4 * 4 * kLanes + lane * 4 + i % 4]) *
                        brain_float(embedding_.scales[place * kLanes + lane]);
        }
    }
}
