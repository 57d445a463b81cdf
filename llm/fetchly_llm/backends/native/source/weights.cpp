#include "weights.hpp"

namespace {
constexpr int64_t kMost = int64_t(1) << 24;  // of any one number of a shape
}  // namespace

bool Shape::valid() const {
    for (int64_t number : {vocab, hidden, inner, layers, heads, kv_heads, dim})
        if (number < 1 || number > kMost) return false;
    return hidden % kGroup == 0 && inner % kGroup == 0 && int64_t(heads) * dim % kGroup == 0 && dim % 2 == 0 &&
           heads % kv_heads == 0 && int64_t(heads) * dim <= kMost && layers <= 4096;
}

Weights::Weights(const Shape& shape)
    : shape_(shape), arena_(shape.int8), layers_(size_t(shape.layers)), loaded_(size_t(shape.layers) * kParts) {
    for (int round = 0; round < 2; round++) {  // the first counts bytes
        embedding_ = arena_.matrix(shape.vocab, shape.hidden);
        for (Layer& layer : layers_) {  // in the order in which a step reads them
            const int64_t channels = int64_t(shape.units()) * shape.padded();
            layer.attention_norm = arena_.vector(shape.hidden);
            layer.qkv = arena_.matrix(channels, shape.hidden);
            layer.qkv_bias = shape.qkv_bias ? arena_.vector(channels) : nullptr;
            layer.query_norm = shape.qk_norm ? arena_.vector(shape.padded()) : nullptr;
            layer.key_norm = shape.qk_norm ? arena_.vector(shape.padded()) : nullptr;
            layer.output = arena_.matrix(shape.hidden, shape.heads * shape.dim);
            layer.output_bias = shape.output_bias ? arena_.vector(shape.hidden) : nullptr;
            layer.mlp_norm = arena_.vector(shape.hidden);
            layer.gate_up = arena_.matrix(int64_t(2) * shape.inner, shape.hidden);
            layer.down = arena_.matrix(shape.hidden, shape.inner);
        }
        final_norm_ = arena_.vector(shape.hidden);
        if (!shape.tied) head_ = arena_.matrix(shape.vocab, shape.hidden);
        if (round == 0) arena_.allocate();
    }
}

Place Weights::place_of(int number, Part part) {
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
    if (!place.fits(rows, columns)) return false;
    pack(pool, place, type, data, 1.0f);
    loaded_[size_t(layer) * kParts + part] = 1;
    return true;
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
