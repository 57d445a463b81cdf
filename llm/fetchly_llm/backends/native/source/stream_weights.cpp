#include "stream_weights.hpp"

#include <cmath>

const char* StreamShape::objection(const Shape& model) const {
    if (gamma < 1 || gamma > kMostRows) return "a model has from 1 to 128 streams";
    if (first_layer < 0 || first_layer >= model.layers) return "the streams' first layer is none of the model's";
    for (int rank : {insertion_rank, anchor_rank, adapter_rank, markov_rank})
        if (rank < 0 || rank > kMostRank) return "ranks of streams are from 0 to 1024";
    if (top < 1 || top > model.vocab) return "a stream has from 1 to all tokens as its best";
    if (markov_rank > 0 && top > kMostFactors / markov_rank)
        return "the Markov head's rank times the best tokens of a stream is above 262144";
    if (!std::isfinite(adapter_scale)) return "what adapters count is not a finite number";
    if ((tap_count > 0) != (insertion_rank > 0) || tap_count < 0 || tap_count > model.layers + 1 ||
        (tap_count > 0 && taps == nullptr))
        return "taps and the rank of the insertion do not go together";
    for (int i = 0; i < tap_count; i++)
        if (taps[i] < (i == 0 ? 0 : taps[i - 1] + 1) || taps[i] > model.layers) return "taps are not rising layers";
    return nullptr;
}

StreamWeights::StreamWeights(const Shape& model, const StreamShape& shape)
    : model_(model),
      shape_(shape),
      arena_(model.int8),
      adapters_(shape.adapter_rank ? size_t(model.layers - shape.first_layer) : 0),
      loaded_(size_t(model.layers - shape.first_layer) * kStreamParts) {
    shape_.taps = nullptr;  // the caller's
    // `parts` maps of a rank, stacked.
    auto low_rank = [&](int64_t outputs, int64_t inputs, int rank, int parts) {
        return LowRank{arena_.matrix(parts * whole_groups(rank), inputs), arena_.matrix(outputs, rank)};
    };
    for (int round = 0; round < 2; round++) {  // the first counts bytes
        embedding_ = arena_.vector(int64_t(shape.gamma) * model.hidden);
        if (shape.insertion_rank)
            insertion_ = low_rank(model.hidden, int64_t(shape.tap_count) * model.hidden, shape.insertion_rank, 1);
        if (shape.anchor_rank) anchor_ = low_rank(model.hidden, model.hidden, shape.anchor_rank, 1);
        for (Adapters& layer : adapters_) {
            const int rank = shape.adapter_rank;
            layer.rank = whole_groups(rank);
            layer.qkv = low_rank(int64_t(model.units()) * model.padded(), model.hidden, rank, 3);
            layer.output = low_rank(model.hidden, model.heads * model.dim, rank, 1);
            layer.gate_up = low_rank(int64_t(2) * model.inner, model.hidden, rank, 2);
            layer.down = low_rank(model.hidden, model.inner, rank, 1);
        }
        if (shape.markov_rank)
            for (Matrix* matrix : {&previous_, &next_, &gate_})
                *matrix = arena_.matrix(whole_groups(shape.markov_rank), model.hidden);
        if (shape.confidence) {
            confidence_ = arena_.vector(model.hidden);
            confidence_bias_ = arena_.vector(1);
        }
        if (round == 0) arena_.allocate();
    }
}

bool StreamWeights::has(StreamPart part) const {
    if (part >= kQueryDown) return shape_.adapter_rank > 0;
    switch (part) {
        case kInsertionDown: case kInsertionUp: return shape_.insertion_rank > 0;
        case kAnchorDown: case kAnchorUp: return shape_.anchor_rank > 0;
        case kMarkovPrevious: case kMarkovNext: case kMarkovGate: return shape_.markov_rank > 0;
        case kConfidence: case kConfidenceBias: return shape_.confidence;
        default: return true;
    }
}

Place StreamWeights::place_of(int layer, StreamPart part) {
    const int64_t hidden = model_.hidden;
    if (!has(part)) return {};
    switch (part) {
        case kStreamEmbedding: return {nullptr, embedding_, shape_.gamma * hidden};
        case kInsertionDown: return {&insertion_.down, nullptr, shape_.insertion_rank, shape_.tap_count * hidden};
        case kInsertionUp: return {&insertion_.up, nullptr, hidden, shape_.insertion_rank};
        case kAnchorDown: return {&anchor_.down, nullptr, shape_.anchor_rank, hidden};
        case kAnchorUp: return {&anchor_.up, nullptr, hidden, shape_.anchor_rank};
        case kMarkovPrevious: return {&previous_, nullptr, shape_.markov_rank, hidden};
        case kMarkovNext: return {&next_, nullptr, shape_.markov_rank, hidden};
        case kMarkovGate: return {&gate_, nullptr, shape_.markov_rank, hidden};
        case kConfidence: return {nullptr, confidence_, hidden};
        case kConfidenceBias: return {nullptr, confidence_bias_, 1};
        default: return adapter_place(adapters_[size_t(layer - shape_.first_layer)], part);
    }
}

// As the model's own matrices are stacked (see Layer), so are the `up` ones; the `down` ones one after the other.
Place StreamWeights::adapter_place(Adapters& layer, StreamPart part) {
    const Shape& s = model_;
    const int64_t padded = s.padded(), gap = padded - s.dim, rank = shape_.adapter_rank;
    const int64_t queries = int64_t(s.heads) * s.dim, keys = int64_t(s.kv_heads) * s.dim;
    const int64_t first_key = s.heads * padded, first_value = first_key + s.kv_heads * padded;
    switch (part) {
        case kQueryDown: return {&layer.qkv.down, nullptr, rank, s.hidden};
        case kKeyDown: return {&layer.qkv.down, nullptr, rank, s.hidden, layer.rank};
        case kValueDown: return {&layer.qkv.down, nullptr, rank, s.hidden, 2 * layer.rank};
        case kOutputDown: return {&layer.output.down, nullptr, rank, queries};
        case kGateDown: return {&layer.gate_up.down, nullptr, rank, s.hidden};
        case kUpDown: return {&layer.gate_up.down, nullptr, rank, s.hidden, layer.rank};
        case kDownDown: return {&layer.down.down, nullptr, rank, s.inner};
        case kQueryUp: return {&layer.qkv.up, nullptr, queries, rank, 0, s.dim, gap};
        case kKeyUp: return {&layer.qkv.up, nullptr, keys, rank, first_key, s.dim, gap};
        case kValueUp: return {&layer.qkv.up, nullptr, keys, rank, first_value, s.dim, gap};
        case kOutputUp: return {&layer.output.up, nullptr, s.hidden, rank};
        case kGateUp: return {&layer.gate_up.up, nullptr, s.inner, rank, 0, kGroup, kGroup};
        case kUpUp: return {&layer.gate_up.up, nullptr, s.inner, rank, kGroup, kGroup, kGroup};
        case kDownUp: return {&layer.down.up, nullptr, s.hidden, rank};
        default: return {};
    }
}

bool StreamWeights::load(Pool& pool, int layer, StreamPart part, Type type, const void* data, int64_t rows,
                         int64_t columns) {
    if (data == nullptr || part < 0 || part >= kStreamParts || type < 0 || type >= kTypes) return false;
    if (part < kQueryDown ? layer != 0 : layer < shape_.first_layer || layer >= model_.layers) return false;
    const Place place = place_of(layer, part);
    if (!place.fits(rows, columns)) return false;
    pack(pool, place, type, data, scale_of(part));
    loaded_[size_t(part < kQueryDown ? 0 : layer - shape_.first_layer) * kStreamParts + part] = 1;
    return true;
}

bool StreamWeights::complete() const {
    for (int layer = shape_.first_layer; layer < model_.layers; layer++)
        for (int part = 0; part < kStreamParts; part++) {
            const bool needed = has(StreamPart(part)) && (part >= kQueryDown || layer == shape_.first_layer);
            if (needed && !loaded_[size_t(layer - shape_.first_layer) * kStreamParts + size_t(part)]) return false;
        }
    return true;
}
