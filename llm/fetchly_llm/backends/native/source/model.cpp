#include "model.hpp"

#include <algorithm>
#include <cmath>

namespace {
constexpr int kTilesAtOnce = 2;      // of a projection: more would share unevenly between threads
constexpr int kHeadTilesAtOnce = 8;  // of the LM head
constexpr int kSerialRows = 4;       // fewer rows are normalised sooner than threads are told of them
}  // namespace

Model::Model(const Shape& shape, const Kernels& kernels, int threads)
    : shape_(shape),
      kernels_(kernels),
      pool_(threads),
      weights_(shape),
      attention_(shape, kernels, threads),
      scratch_size_(int64_t(kMostRows) * std::max({shape.padded(), kHeadTilesAtOnce * kLanes, 2 * kGroup})),
      hidden_(size_t(kMostRows) * size_t(shape.hidden)),
      queries_(size_t(kMostRows) * size_t(shape.heads) * size_t(shape.padded())),
      mixed_(size_t(kMostRows) * size_t(shape.heads) * size_t(shape.dim)),
      picked_(size_t(kMostRows) * size_t(shape.hidden)),
      normed_(size_t(threads) * size_t(shape.hidden)),
      scratch_(size_t(threads) * size_t(scratch_size_)),
      hidden_rows_(make_rows(shape.hidden)),
      mixed_rows_(make_rows(shape.heads * shape.dim)),
      inner_rows_(make_rows(shape.inner)) {}

Model::RowBuffer Model::make_rows(int inputs) const {
    RowBuffer buffer;
    buffer.rows.stride = inputs;
    const size_t size = size_t(kMostRows) * size_t(inputs);
    if (!shape_.int8) {
        buffer.floats = Buffer<float>(size);
        buffer.rows.floats = buffer.floats.data();
        return buffer;
    }
    buffer.quants = Buffer<int8_t>(size);
    buffer.scales = Buffer<float>(size / kGroup);
    buffer.offsets = Buffer<int32_t>(size / kGroup);
    buffer.rows.quants = buffer.quants.data();
    buffer.rows.scales = buffer.scales.data();
    buffer.rows.offsets = buffer.offsets.data();
    return buffer;
}

const char* Model::objection(const Pass& pass) const {
    if (!weights_.complete()) return "tensors are missing";
    if (pass.rows < 1 || pass.rows > kMostRows) return "a pass has from 1 to 128 rows";
    if (!pass.cache.keys || !pass.cache.values || !pass.tokens || !pass.parents || !pass.cosine || !pass.sine)
        return "a pass lacks an array";
    if (pass.cache.blocks < 1 || pass.committed < 0 ||
        int64_t(pass.committed) + pass.rows > pass.cache.blocks * kBlock)
        return "the rows do not fit the cache";
    if (int64_t(pass.committed) + pass.rows > pass.angles) return "the rows stand beyond the table of angles";
    for (int row = 0; row < pass.rows; row++) {
        if (pass.tokens[row] < 0 || pass.tokens[row] >= shape_.vocab) return "a token is outside the vocabulary";
        if (row == 0 ? pass.parents[row] != -1 : pass.parents[row] < 0 || pass.parents[row] >= row)
            return "a row's parent does not come before it";
    }
    if (pass.logits == nullptr) return nullptr;
    if (pass.logit_count < 0 || pass.logit_count > pass.rows || (pass.logit_count > 0 && !pass.logit_rows))
        return "logits are asked of more rows than there are";
    for (int i = 0; i < pass.logit_count; i++)
        if (pass.logit_rows[i] < 0 || pass.logit_rows[i] >= pass.rows) return "logits are asked of an unknown row";
    return nullptr;
}

void Model::run(const Pass& pass) {
    pool_.begin();
    plan_.lay_out(pass.committed, pass.rows, pass.parents);
    const int items = attention_.prepare(plan_);
    for (int row = 0; row < pass.rows; row++)
        weights_.embed(pass.tokens[row], hidden_.data() + int64_t(row) * shape_.hidden);
    for (int number = 0; number < shape_.layers; number++) {
        const Layer& layer = weights_.layer(number);
        const bool keys_only = pass.logits == nullptr && number + 1 == shape_.layers;
        for_rows(pass.rows, hidden_.data(), shape_.hidden, hidden_rows_, layer.attention_norm);
        project_heads(pass, number, !keys_only);
        if (keys_only) return;
        pool_.run(items, [&](int item, int thread) {
            attention_.attend(pass.cache, plan_, number, item, thread, queries_.data(), mixed_.data());
        });
        for_rows(pass.rows, mixed_.data(), shape_.heads * shape_.dim, mixed_rows_, nullptr);
        add_product(layer.output, mixed_rows_, layer.output_bias, pass.rows);
        for_rows(pass.rows, hidden_.data(), shape_.hidden, hidden_rows_, layer.mlp_norm);
        feed_forward(layer, pass.rows);
    }
    if (pass.logit_count > 0) write_logits(pass);
}

// Rows of `values`, normalised where there is a norm, as the input of a product.
void Model::for_rows(int rows, const float* values, int stride, RowBuffer& into, const float* weight) {
    auto work = [&](int row, int thread) {
        const float* from = values + int64_t(row) * stride;
        if (weight != nullptr) {
            float* normed = normed_.data() + int64_t(thread) * shape_.hidden;
            kernels_.norm(from, weight, shape_.epsilon, stride, stride, normed);
            from = normed;
        }
        kernels_.store(from, stride, into.rows, row, 0);
    };
    if (rows > kSerialRows)
        pool_.run(rows, work);
    else
        for (int row = 0; row < rows; row++) work(row, 0);
}

// Queries, keys and values of a layer; keys and values go to their slots.
void Model::project_heads(const Pass& pass, int number, bool queries_too) {
    const int padded = shape_.padded(), tiles = padded / kLanes, first = queries_too ? 0 : shape_.heads;
    pool_.run(shape_.units() - first, [&](int item, int thread) {
        const int unit = first + item;
        float* heads = scratch(thread);
        const Matrix& qkv = weights_.layer(number).qkv;
        kernels_.product(qkv, unit * tiles, tiles, hidden_rows_.rows, 0, pass.rows, heads, padded);
        for (int row = 0; row < pass.rows; row++) finish_head(pass, number, unit, row, heads + int64_t(row) * padded);
    });
}

// A head of one row: bias, norm, rotation (RoFormer, arXiv 2104.09864, halves as in Hugging Face checkpoints).
void Model::finish_head(const Pass& pass, int number, int unit, int row, float* head) {
    const Layer& layer = weights_.layer(number);
    const int padded = shape_.padded(), dim = shape_.dim, half = dim / 2;
    const bool is_query = unit < shape_.heads, is_value = unit >= shape_.heads + shape_.kv_heads;
    if (layer.qkv_bias != nullptr)
        for (int i = 0; i < dim; i++) head[i] += layer.qkv_bias[int64_t(unit) * padded + i];
    if (!is_value && layer.query_norm != nullptr)
        kernels_.norm(head, is_query ? layer.query_norm : layer.key_norm, shape_.epsilon, dim, padded, head);
    const int slot = pass.committed + row, block = slot / kBlock, place = slot % kBlock;
    if (is_value) {
        const int64_t start = pass.cache.value_block(shape_, number, block, unit - shape_.heads - shape_.kv_heads);
        std::copy(head, head + padded, pass.cache.values + start + int64_t(place) * padded);
        return;
    }
    const int64_t angle = int64_t(plan_.positions[size_t(row)]) * half;
    for (int i = 0; i < half; i++) {
        const float cosine = pass.cosine[angle + i], sine = pass.sine[angle + i];
        const float low = head[i], high = head[half + i];
        head[i] = low * cosine - high * sine;
        head[half + i] = high * cosine + low * sine;
    }
    if (is_query) {
        const float scale = 1.0f / std::sqrt(float(dim));
        float* query = queries_.data() + (int64_t(row) * shape_.heads + unit) * padded;
        for (int i = 0; i < dim; i++) query[i] = head[i] * scale;
        return;
    }
    float* keys = pass.cache.keys + pass.cache.key_block(shape_, number, block, unit - shape_.heads) + place;
    for (int i = 0; i < dim; i++) keys[int64_t(i) * kBlock] = head[i];
}

// hidden += matrix times rows (+ bias).
void Model::add_product(const Matrix& matrix, const RowBuffer& from, const float* bias, int rows) {
    pool_.run((matrix.tiles + kTilesAtOnce - 1) / kTilesAtOnce, [&](int item, int thread) {
        const int first = item * kTilesAtOnce, count = std::min(kTilesAtOnce, matrix.tiles - first);
        const int columns = count * kLanes;
        float* product = scratch(thread);
        kernels_.product(matrix, first, count, from.rows, 0, rows, product, columns);
        for (int row = 0; row < rows; row++) {
            float* hidden = hidden_.data() + int64_t(row) * shape_.hidden + first * kLanes;
            const float* own = product + int64_t(row) * columns;
            for (int i = 0; i < columns; i++) hidden[i] += bias == nullptr ? own[i] : own[i] + bias[first * kLanes + i];
        }
    });
}

void Model::feed_forward(const Layer& layer, int rows) {
    constexpr int kTiles = 2 * kGroup / kLanes;  // 32 gates and the 32 values that they gate
    pool_.run(shape_.inner / kGroup, [&](int item, int thread) {
        float* both = scratch(thread);
        kernels_.product(layer.gate_up, item * kTiles, kTiles, hidden_rows_.rows, 0, rows, both, 2 * kGroup);
        for (int row = 0; row < rows; row++) {
            float* gate = both + int64_t(row) * 2 * kGroup;
            kernels_.swiglu(gate, gate + kGroup);
            kernels_.store(gate, kGroup, inner_rows_.rows, row, item * kGroup);
        }
    });
    add_product(layer.down, inner_rows_, nullptr, rows);
}

void Model::write_logits(const Pass& pass) {
    for (int i = 0; i < pass.logit_count; i++) {
        const float* from = hidden_.data() + int64_t(pass.logit_rows[i]) * shape_.hidden;
        std::copy(from, from + shape_.hidden, picked_.data() + int64_t(i) * shape_.hidden);
    }
    for_rows(pass.logit_count, picked_.data(), shape_.hidden, hidden_rows_, weights_.final_norm());
    const Matrix& head = weights_.head();
    const int rows = pass.logit_count, vocab = shape_.vocab;
    pool_.run((head.tiles + kHeadTilesAtOnce - 1) / kHeadTilesAtOnce, [&](int item, int thread) {
        const int first = item * kHeadTilesAtOnce, count = std::min(kHeadTilesAtOnce, head.tiles - first);
        const int columns = std::min(count * kLanes, vocab - first * kLanes);
        if (columns == count * kLanes) {
            kernels_.product(head, first, count, hidden_rows_.rows, 0, rows, pass.logits + first * kLanes, vocab);
            return;
        }
        float* product = scratch(thread);  // the last tile is not full
        kernels_.product(head, first, count, hidden_rows_.rows, 0, rows, product, count * kLanes);
        for (int row = 0; row < rows; row++) {
            const float* own = product + int64_t(row) * count * kLanes;
            std::copy(own, own + columns, pass.logits + int64_t(row) * vocab + first * kLanes);
        }
    });
}
